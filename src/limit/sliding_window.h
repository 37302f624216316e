// SPDX-License-Identifier: Apache-2.0
//
// Sliding window: the current window's count plus the previous one's, weighted by how much
// of it a window that ends now still covers.
//
// With c units in the current window, p in the previous one, and e ns elapsed of W:
// used = c + ceil(p * (W - e) / W); n units go iff used + n <= limit.  Only admissions count.
//
// Guarantee: at most limit * (1 + t/W) units in any interval of length t <= W, and
// 2*limit - 1 in a whole window: in the current window c <= limit - p*(1-x), so together
// with the p before it p + c <= limit + x*p, x the elapsed share.
#pragma once

#include "limit/two_windows.h"

namespace flowguard::limit {

struct SlidingEstimate;
using SlidingWindow = TwoWindows<SlidingEstimate>;
extern template struct TwoWindows<SlidingEstimate>;

}  // namespace flowguard::limit
