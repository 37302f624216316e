// SPDX-License-Identifier: Apache-2.0
//
// Sentinel's window (its LeapArray of two buckets): what went in the current half of a
// window and in the half before it, halves lying on the clock; for those who must reproduce
// it.
//
// With c units in the current half and p in the previous one, n units go iff
// c + p + n <= limit.  Only admissions count.
//
// A prioritised request that does not fit may borrow from the half to come, if c and what
// was borrowed before leave it room, and wait for that.
//
// Guarantee: limit in any two halves that follow each other.  A window meets three of them,
// so that 2*limit may go in it, the first of them at the end of one half and the last at the
// begin of the second after it: in little more than half a window.
#pragma once

#include "limit/two_windows.h"

namespace flowguard::limit {

struct LeapEstimate;
using LeapArray = TwoWindows<LeapEstimate>;
extern template struct TwoWindows<LeapEstimate>;

}  // namespace flowguard::limit
