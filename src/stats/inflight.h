// SPDX-License-Identifier: Apache-2.0
//
// Calls in progress: one word that all threads share, because whoever enters must know how
// many are in already.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/check.h"

namespace flowguard::stats {

// Threads: all methods from any thread.
// Cost:    one locked instruction on a line of its own.
class alignas(64) Inflight {
 public:
  // The calls in progress, this one among them.
  int64_t Enter() noexcept { return count_.fetch_add(1, std::memory_order_acq_rel) + 1; }

  // The same while there are at most `most` then; else none, and nothing has changed.
  // However many threads ask at once, no more than `most` are in.
  std::optional<int64_t> TryEnter(int64_t most) noexcept {
    int64_t count = count_.load(std::memory_order_relaxed);
    while (count < most) {
      if (count_.compare_exchange_weak(count, count + 1, std::memory_order_acq_rel,
                                       std::memory_order_relaxed)) {
        return count + 1;
      }
    }
    return std::nullopt;
  }

  // Requires: a call has entered that has not left.
  void Leave() noexcept {
    [[maybe_unused]] const int64_t before = count_.fetch_sub(1, std::memory_order_acq_rel);
    FG_DCHECK(before > 0);
  }

  [[nodiscard]] int64_t Count() const noexcept { return count_.load(std::memory_order_acquire); }

 private:
  std::atomic<int64_t> count_{0};
};

}  // namespace flowguard::stats
