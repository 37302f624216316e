// SPDX-License-Identifier: Apache-2.0
#include "limit/sliding_buckets.h"

#include <algorithm>
#include <limits>

#include "base/bounds.h"
#include "base/check.h"
#include "base/try.h"
#include "limit/take_up_to.h"
#include "limit/validate.h"
#include "limit/wide.h"

namespace flowguard::limit {
namespace {

constexpr size_t kNewestWord = 0;
constexpr size_t kSumWord = 1;
constexpr size_t kCountersWord = 2;
constexpr int64_t kCounterMax = std::numeric_limits<uint32_t>::max();

using Spec = SlidingBuckets::Spec;

// The counter of a bucket >= 0 that is, or is about to be, among the last N + 1.
int64_t Counter(const Spec& spec, std::span<const uint64_t> state, int64_t bucket) noexcept {
  const auto slot = static_cast<size_t>(bucket % (spec.buckets + 1));
  return static_cast<uint32_t>(state[kCountersWord + slot / 2] >> (32 * (slot % 2)));
}

void SetCounter(const Spec& spec, std::span<uint64_t> state, int64_t bucket,
                int64_t count) noexcept {
  const auto slot = static_cast<size_t>(bucket % (spec.buckets + 1));
  uint64_t& word = state[kCountersWord + slot / 2];
  const auto shift = static_cast<unsigned>(32 * (slot % 2));
  word = (word & ~(uint64_t{0xffffffff} << shift)) | (static_cast<uint64_t>(count) << shift);
}

// The state as it counts now.
struct Counted {
  int64_t newest = -1;   // the newest bucket in the state; -1: fresh
  int64_t current = 0;   // the bucket that requests are booked in, >= newest
  int64_t sum = 0;       // units in the last N + 1 buckets
  bool stepped = false;  // the clock stepped back: all of sum counts as in `current`
};

Counted Read(const Spec& spec, std::span<const uint64_t> state, Instant now) noexcept {
  Counted counted{.newest = static_cast<int64_t>(state[kNewestWord]) - 1,
                  .current = Nanos(now) / spec.bucket_ns,
                  .sum = static_cast<int64_t>(state[kSumWord])};
  if (counted.newest > counted.current) {
    counted.stepped = counted.newest * spec.bucket_ns - Nanos(now) > base::kLateStampMax.count();
    if (!counted.stepped) counted.current = counted.newest;
    return counted;
  }
  const int64_t passed = counted.current - counted.newest;
  if (counted.newest < 0 || passed > spec.buckets) {
    counted.sum = 0;
    return counted;
  }
  const int64_t oldest = counted.newest - spec.buckets;
  for (int64_t bucket = std::max<int64_t>(oldest, 0); bucket < oldest + passed; ++bucket) {
    counted.sum -= Counter(spec, state, bucket);
  }
  return counted;
}

// Makes the state say what `counted` says, so that `current` can be booked in.
void Advance(const Spec& spec, std::span<uint64_t> state, const Counted& counted) noexcept {
  const int64_t passed = counted.current - counted.newest;
  if (counted.stepped || counted.newest < 0 || passed > spec.buckets) {
    std::fill(state.begin() + kCountersWord, state.end(), 0);
    SetCounter(spec, state, counted.current, counted.sum);
  } else {
    for (int64_t bucket = counted.newest + 1; bucket <= counted.current; ++bucket) {
      SetCounter(spec, state, bucket, 0);
    }
  }
  state[kNewestWord] = static_cast<uint64_t>(counted.current + 1);
  state[kSumWord] = static_cast<uint64_t>(counted.sum);
}

void Book(const Spec& spec, std::span<uint64_t> state, const Counted& counted,
          int64_t units) noexcept {
  Advance(spec, state, counted);
  SetCounter(spec, state, counted.current, Counter(spec, state, counted.current) + units);
  state[kSumWord] += static_cast<uint64_t>(units);
}

// When the units of `bucket` are no longer counted.
int64_t GoneAt(const Spec& spec, int64_t bucket) noexcept {
  return (bucket + spec.buckets + 1) * spec.bucket_ns;
}

// The instant by which `units` of those counted are gone.  Requires: 0 < units <= sum.
int64_t FreedAt(const Spec& spec, std::span<const uint64_t> state, const Counted& counted,
                int64_t units) noexcept {
  if (counted.stepped) return GoneAt(spec, counted.current);
  int64_t bucket = std::max<int64_t>(counted.current - spec.buckets, 0);
  for (int64_t freed = 0; bucket < counted.newest; ++bucket) {
    freed += Counter(spec, state, bucket);
    if (freed >= units) break;
  }
  return GoneAt(spec, bucket);
}

// The instant by which all are gone.  Requires: sum > 0.
int64_t AllFreedAt(const Spec& spec, std::span<const uint64_t> state,
                   const Counted& counted) noexcept {
  if (counted.stepped) return GoneAt(spec, counted.current);
  int64_t bucket = counted.newest;
  while (bucket > 0 && Counter(spec, state, bucket) == 0)
    --bucket;
  return GoneAt(spec, bucket);
}

Numbers Answer(const Spec& spec, std::span<const uint64_t> state, const Counted& counted,
               int64_t cost, Instant now) noexcept {
  Numbers numbers;
  numbers.limit = spec.limit;
  const int64_t room = spec.limit - counted.sum;
  numbers.allowed = cost == 0 || cost <= room;
  if (numbers.allowed && cost > 0) {
    numbers.remaining = room - cost;
    numbers.reset_after = Duration(GoneAt(spec, counted.current) - Nanos(now));
    return numbers;
  }
  numbers.remaining = std::max<int64_t>(room, 0);
  if (counted.sum > 0) {
    numbers.reset_after = Duration(AllFreedAt(spec, state, counted) - Nanos(now));
  }
  if (cost > spec.limit) {
    numbers.retry_after = kNever;
  } else if (!numbers.allowed) {
    numbers.retry_after = Duration(FreedAt(spec, state, counted, cost - room) - Nanos(now));
  }
  return numbers;
}

}  // namespace

Result<SlidingBuckets::Spec> SlidingBuckets::Make(const Config& config) {
  FG_RETURN_IF_ERROR(CheckConfig(config));
  const int64_t window_ns = config.rate.window.count();
  const int64_t buckets = config.buckets == 0 ? kDefaultBuckets : config.buckets;
  const int64_t most_buckets = std::min<int64_t>(base::kBucketsMax, window_ns);
  if (buckets < 1 || buckets > most_buckets) {
    return OutOfBounds("buckets", buckets, 1, most_buckets);
  }
  if (config.rate.limit > kCounterMax) {
    return OutOfBounds("limit", config.rate.limit, 0, kCounterMax, "units with sliding_buckets");
  }
  if (config.max_debt > kCounterMax - config.rate.limit) {
    return OutOfBounds("max_debt", config.max_debt, 0, kCounterMax - config.rate.limit,
                       "units with sliding_buckets at this limit");
  }
  // Rounded up: N buckets cover at least the window.
  return Spec{.limit = config.rate.limit,
              .buckets = buckets,
              .bucket_ns = (window_ns - 1) / buckets + 1,
              .max_debt = config.max_debt};
}

size_t SlidingBuckets::Words(const Spec& spec) noexcept {
  return kCountersWord + static_cast<size_t>(spec.buckets / 2 + 1);
}

Numbers SlidingBuckets::Decide(const Spec& spec, std::span<uint64_t> state, Instant now,
                               int64_t cost, Receipt& receipt) noexcept {
  FG_DCHECK(cost >= 0 && Nanos(now) >= 0 && state.size() == Words(spec));
  receipt = {};
  const Counted counted = Read(spec, state, now);
  const Numbers numbers = Answer(spec, state, counted, cost, now);
  if (numbers.allowed && cost > 0) {
    Book(spec, state, counted, cost);
    receipt = {.cost = cost, .mark = counted.current};
  } else if (counted.stepped) {
    Advance(spec, state, counted);
  }
  return numbers;
}

Numbers SlidingBuckets::Look(const Spec& spec, std::span<const uint64_t> state, Instant now,
                             int64_t cost) noexcept {
  return Answer(spec, state, Read(spec, state, now), cost, now);
}

void SlidingBuckets::GiveBack(const Spec& spec, std::span<uint64_t> state, const Receipt& receipt,
                              Instant now) noexcept {
  const Counted counted = Read(spec, state, now);
  const int64_t bucket = receipt.mark;
  const bool is_counted =
      bucket >= 0 && bucket <= counted.current && bucket >= counted.current - spec.buckets;
  if (receipt.cost <= 0 || counted.sum == 0 || !is_counted) return;
  Advance(spec, state, counted);
  const int64_t count = Counter(spec, state, bucket);
  const int64_t returned = std::min(receipt.cost, count);
  SetCounter(spec, state, bucket, count - returned);
  state[kSumWord] -= static_cast<uint64_t>(returned);
}

void SlidingBuckets::Charge(const Spec& spec, std::span<uint64_t> state, int64_t units,
                            Instant now) noexcept {
  const Counted counted = Read(spec, state, now);
  const int64_t room = spec.limit + spec.max_debt - counted.sum;
  if (units <= 0 || room <= 0 || spec.limit == 0) return;
  Book(spec, state, counted, std::min(units, room));
}

Numbers SlidingBuckets::TakeUpTo(const Spec& spec, std::span<uint64_t> state, Instant now,
                                 int64_t cost, Receipt& receipt) noexcept {
  return TakeUpToRemaining<SlidingBuckets>(spec, state, now, cost, receipt);
}

Instant SlidingBuckets::KeepUntil(const Spec& spec, std::span<const uint64_t> state) noexcept {
  if (state[kSumWord] == 0) return Instant{};
  return Instant(Duration(GoneAt(spec, static_cast<int64_t>(state[kNewestWord]) - 1)));
}

}  // namespace flowguard::limit
