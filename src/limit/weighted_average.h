// SPDX-License-Identifier: Apache-2.0
//
// Weighted average: the two-window formula that weighs the current count by the elapsed
// share of the window, for those who must reproduce it, with a hard cap.
//
// With c units in the current window, p in the previous one, and e ns elapsed of W, the
// formula refuses when (e*c + (W-e)*p) / W >= limit.  It discounts fresh traffic twice:
// alone it admits 60 times the limit in the first second of a minute, and any number at
// e = 0.  The cap c + n <= limit is therefore always on, and makes this a fixed window in
// effect: at most 2*limit in any window.
#pragma once

#include "limit/two_windows.h"

namespace flowguard::limit {

struct WeightedEstimate;
using WeightedAverage = TwoWindows<WeightedEstimate>;
extern template struct TwoWindows<WeightedEstimate>;

}  // namespace flowguard::limit
