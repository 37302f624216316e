// SPDX-License-Identifier: Apache-2.0
//
// The words that all algorithms share: the answer, the receipt of a take, and the
// configuration that specs are made from.
#pragma once

#include <cstdint>

#include "flowguard/rule.h"
#include "flowguard/time.h"

namespace flowguard::limit {

// What an algorithm answers.  Invariant: 0 <= remaining <= limit; allowed implies
// retry_after == 0; wait > 0 only when allowed.
struct Numbers {
  bool allowed = false;
  int64_t limit = 0;       // units that can be had at once at most, in requests of one
  int64_t remaining = 0;   // units, after this decision
  Duration reset_after{};  // until the whole quota is there again
  Duration retry_after{};  // least wait for this cost; kNever: waiting does not help
  Duration wait{};         // allowed, but only after this long (booked already)
};

// Proof of a take: what is needed to give it back.  `mark` belongs to the
// algorithm (the TAT after the take, the window or bucket index, the time stamp).
struct Receipt {
  int64_t cost = 0;  // units taken; 0: nothing to give back
  int64_t mark = 0;
};

struct Config {
  Rate rate;
  int64_t burst = 0;  // token_bucket, smooth_bursty, step_bucket; 0: rate.limit
  int buckets = 0;    // sliding_buckets
  Duration wait{};    // token_bucket, leaky_bucket, smooth_bursty, warm_up
  // token_bucket, sliding_log, sliding_buckets, leap_array: how far ahead prioritised
  // requests may take units, and then wait for them.
  Duration borrow{};
  int64_t max_debt = 0;  // units
  Duration warm_up{};    // warm_up, warm_up_window: how long it takes from cold to warm
  int cold_factor = 3;   // the same: how many times slower it is when cold
  // The spec is for the prioritised requests; they and the others share one state.
  bool prioritised = false;

  friend bool operator==(const Config&, const Config&) = default;
};

}  // namespace flowguard::limit
