// SPDX-License-Identifier: Apache-2.0
//
// The rare parts of call_window.h; for its two instantiations.
#pragma once

#include <algorithm>

#include "breaker/call_window.h"

namespace flowguard::breaker {

template <class Sync>
BasicCallWindow<Sync>::BasicCallWindow(const BreakerSpec& spec)
    : bucket_ns_(spec.window.count() / spec.buckets),
      bucket_count_(spec.buckets),
      halves_bad_(spec.condition != BreakerCondition::kErrorCount),
      buckets_(static_cast<size_t>(spec.buckets)) {}

template <class Sync>
void BasicCallWindow<Sync>::Begin(int64_t at) noexcept {
  typename Sync::Lock lock(mutex_);
  if (IsNewest(at)) return;
  const int64_t ended = NewestIndex();
  const bool stepped_back = at < start_.load(std::memory_order_relaxed);
  const uint64_t word = Swap({});
  if (stepped_back) {
    std::fill(buckets_.begin(), buckets_.end(), Bucket{});
  } else {
    buckets_[static_cast<size_t>(ended % bucket_count_)] = {
        ended, static_cast<uint32_t>(CallsOf(word)), static_cast<uint32_t>(BadOf(word))};
  }
  start_.store(at / bucket_ns_ * bucket_ns_, std::memory_order_release);
  PublishSum();
}

template <class Sync>
void BasicCallWindow<Sync>::Clear() noexcept {
  typename Sync::Lock lock(mutex_);
  Swap({});
  std::fill(buckets_.begin(), buckets_.end(), Bucket{});
  PublishSum();
}

template <class Sync>
CallCounts BasicCallWindow<Sync>::Settled() noexcept {
  typename Sync::Lock lock(mutex_);
  CallCounts counts = SumAfter(NewestIndex() - bucket_count_);
  if (counts.calls >= kCallsFull) {
    Halve();
    counts = SumAfter(NewestIndex() - bucket_count_);
  }
  return counts;
}

template <class Sync>
CallCounts BasicCallWindow<Sync>::Look(Instant now) const noexcept {
  typename Sync::Lock lock(mutex_);
  const int64_t index = now.time_since_epoch().count() / bucket_ns_;
  return SumAfter(std::max(index, NewestIndex()) - bucket_count_);
}

template <class Sync>
uint64_t BasicCallWindow<Sync>::Swap(const CallCounts& counts) noexcept {
  uint64_t word = newest_.load(std::memory_order_relaxed);
  while (!newest_.compare_exchange_weak(word, Pack(TagOf(word) + 1, counts),
                                        std::memory_order_acq_rel)) {
  }
  return word;
}

template <class Sync>
void BasicCallWindow<Sync>::PublishSum() noexcept {
  const uint64_t tag = TagOf(newest_.load(std::memory_order_relaxed));
  before_.store(Pack(tag, PastAfter(NewestIndex() - bucket_count_)), std::memory_order_release);
}

template <class Sync>
void BasicCallWindow<Sync>::Halve() noexcept {
  for (Bucket& bucket : buckets_) {
    if (halves_bad_) bucket.bad /= 2;
    bucket.calls = std::max(bucket.calls / 2, bucket.bad);
  }
  uint64_t word = newest_.load(std::memory_order_relaxed);
  CallCounts half;
  do {
    half.bad = halves_bad_ ? BadOf(word) / 2 : BadOf(word);
    half.calls = std::max(CallsOf(word) / 2, half.bad);
  } while (
      !newest_.compare_exchange_weak(word, Pack(TagOf(word) + 1, half), std::memory_order_acq_rel));
  PublishSum();
}

template <class Sync>
CallCounts BasicCallWindow<Sync>::PastAfter(int64_t index) const noexcept {
  CallCounts sum;
  for (const Bucket& bucket : buckets_) {
    if (bucket.index <= index) continue;
    sum.calls += bucket.calls;
    sum.bad += bucket.bad;
  }
  return sum;
}

template <class Sync>
CallCounts BasicCallWindow<Sync>::SumAfter(int64_t index) const noexcept {
  CallCounts sum = PastAfter(index);
  if (NewestIndex() > index) {
    const uint64_t word = newest_.load(std::memory_order_acquire);
    sum.calls += CallsOf(word);
    sum.bad += BadOf(word);
  }
  return sum;
}

}  // namespace flowguard::breaker
