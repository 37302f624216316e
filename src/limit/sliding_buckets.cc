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

int64_t Counters(const Spec& spec) noexcept {
  return spec.buckets + 1 + spec.ahead;
}

// The counter of a bucket >= 0 that is, or is about to be, among the last N + 1 or the
// next F.
int64_t Counter(const Spec& spec, std::span<const uint64_t> state, int64_t bucket) noexcept {
  const auto slot = static_cast<size_t>(bucket % Counters(spec));
  return static_cast<uint32_t>(state[kCountersWord + slot / 2] >> (32 * (slot % 2)));
}

void SetCounter(const Spec& spec, std::span<uint64_t> state, int64_t bucket,
                int64_t count) noexcept {
  const auto slot = static_cast<size_t>(bucket % Counters(spec));
  uint64_t& word = state[kCountersWord + slot / 2];
  const auto shift = static_cast<unsigned>(32 * (slot % 2));
  word = (word & ~(uint64_t{0xffffffff} << shift)) | (static_cast<uint64_t>(count) << shift);
}

// The state as it counts now.
struct Counted {
  int64_t newest = -1;   // the newest bucket that the state's sum is of; -1: fresh
  int64_t current = 0;   // the bucket that requests are booked in, >= newest
  int64_t latest = -1;   // the last bucket that may have units, those to come among them
  int64_t sum = 0;       // units in the last N + 1 buckets
  bool stepped = false;  // the clock stepped back: all of sum counts as in `current`
};

Counted Read(const Spec& spec, std::span<const uint64_t> state, Instant now) noexcept {
  Counted counted{.newest = static_cast<int64_t>(state[kNewestWord]) - 1,
                  .current = Nanos(now) / spec.bucket_ns,
                  .sum = static_cast<int64_t>(state[kSumWord])};
  counted.latest = counted.newest;
  if (spec.ahead > 0) {
    counted.latest = std::max(counted.latest, static_cast<int64_t>(state.back()) - 1);
  }
  const auto units = [&](int64_t first, int64_t last) {
    int64_t found = 0;
    for (int64_t bucket = std::max<int64_t>(first, 0); bucket <= last; ++bucket)
      found += Counter(spec, state, bucket);
    return found;
  };
  if (counted.newest > counted.current) {
    counted.stepped = counted.newest * spec.bucket_ns - Nanos(now) > base::kLateStampMax.count();
    if (counted.stepped) {
      counted.sum = std::min(counted.sum + units(counted.newest + 1, counted.latest),
                             spec.limit + spec.max_debt);
      counted.latest = counted.current;
    } else {
      counted.current = counted.newest;
    }
    return counted;
  }
  const int64_t oldest = counted.current - spec.buckets;
  if (counted.newest < 0 || counted.latest < oldest) {
    counted.sum = 0;
    counted.latest = -1;
    return counted;
  }
  counted.sum += units(counted.newest + 1, std::min(counted.current, counted.latest));
  counted.sum -= units(counted.newest - spec.buckets, std::min(oldest - 1, counted.latest));
  return counted;
}

// Makes the state say what `counted` says, so that `current` can be booked in.
void Advance(const Spec& spec, std::span<uint64_t> state, const Counted& counted) noexcept {
  const int64_t passed = counted.current - counted.newest;
  if (counted.stepped || counted.newest < 0 || passed >= Counters(spec)) {
    std::fill(state.begin() + kCountersWord, state.end(), 0);
    SetCounter(spec, state, counted.current, counted.sum);
  } else {
    for (int64_t bucket = counted.newest + 1; bucket <= counted.current; ++bucket) {
      SetCounter(spec, state, bucket + spec.ahead, 0);
    }
  }
  state[kNewestWord] = static_cast<uint64_t>(counted.current + 1);
  state[kSumWord] = static_cast<uint64_t>(counted.sum);
}

// Requires: `bucket` is the current one, or one of the next F.
void Book(const Spec& spec, std::span<uint64_t> state, const Counted& counted, int64_t bucket,
          int64_t units) noexcept {
  Advance(spec, state, counted);
  SetCounter(spec, state, bucket, Counter(spec, state, bucket) + units);
  if (bucket == counted.current) {
    state[kSumWord] += static_cast<uint64_t>(units);
  } else {
    state.back() = static_cast<uint64_t>(std::max(bucket, counted.latest) + 1);
  }
}

// When the units of `bucket` are no longer counted.
int64_t GoneAt(const Spec& spec, int64_t bucket) noexcept {
  return (bucket + spec.buckets + 1) * spec.bucket_ns;
}

// How the sum over N + 1 buckets goes on from the current one.
class Sums {
 public:
  Sums(const Spec& spec, std::span<const uint64_t> state, const Counted& counted) noexcept
      : spec_(spec), state_(state), counted_(counted) {}

  // The most of any N + 1 buckets in a row that `current` is one of, or comes before.
  [[nodiscard]] int64_t Most() const noexcept { return MostWith(0, counted_.current); }

  // The same after `units` were booked in `bucket`.
  [[nodiscard]] int64_t MostWith(int64_t units, int64_t bucket) const noexcept {
    int64_t sum = counted_.sum;
    if (bucket == counted_.current) sum += units;
    int64_t most = sum;
    for (int64_t end = counted_.current + 1; end <= std::max(counted_.latest, bucket); ++end) {
      sum += Change(end);
      if (end == bucket) sum += units;
      most = std::max(most, sum);
    }
    return most;
  }

  // The first bucket from which on the sum is at most `most`.
  // Requires: most >= 0, counted.sum and Most are of the same state.
  [[nodiscard]] int64_t FirstWithin(int64_t most) const noexcept {
    if (counted_.stepped) {
      return counted_.sum <= most ? counted_.current : counted_.current + spec_.buckets + 1;
    }
    int64_t first = counted_.current;
    int64_t sum = counted_.sum;
    for (int64_t end = counted_.current;; sum += Change(++end)) {
      if (sum > most) first = end + 1;
      if (end >= counted_.latest && sum <= most) return first;
    }
  }

 private:
  // What the sum gains from the bucket before `end` to it.
  [[nodiscard]] int64_t Change(int64_t end) const noexcept {
    const int64_t gone = end - spec_.buckets - 1;
    return Units(end) - Units(gone);
  }
  [[nodiscard]] int64_t Units(int64_t bucket) const noexcept {
    // Counters of buckets between newest and current may hold older ones.
    if (bucket < 0 || bucket > counted_.latest) return 0;
    return Counter(spec_, state_, bucket);
  }

  const Spec& spec_;
  std::span<const uint64_t> state_;
  const Counted& counted_;
};

// The instant by which all are gone; 0: there are none.
int64_t AllFreedAt(const Spec& spec, std::span<const uint64_t> state,
                   const Counted& counted) noexcept {
  if (counted.stepped) return counted.sum > 0 ? GoneAt(spec, counted.current) : 0;
  const int64_t oldest = std::max<int64_t>(counted.current - spec.buckets, 0);
  for (int64_t bucket = counted.latest; bucket >= oldest; --bucket) {
    if (Counter(spec, state, bucket) > 0) return GoneAt(spec, bucket);
  }
  return 0;
}

struct Answer {
  Numbers numbers;
  int64_t bucket = 0;  // that the units are booked in, if allowed
};

Answer Decided(const Spec& spec, std::span<const uint64_t> state, const Counted& counted,
               int64_t cost, Instant now) noexcept {
  const Sums sums(spec, state, counted);
  const int64_t room = spec.limit - sums.Most();
  Answer answer{.numbers = {}, .bucket = counted.current};
  Numbers& numbers = answer.numbers;
  numbers.limit = spec.limit;
  numbers.allowed = cost == 0 || cost <= room;
  numbers.remaining = std::max<int64_t>(numbers.allowed ? room - cost : room, 0);
  if (cost > spec.limit) {
    numbers.retry_after = kNever;
  } else if (!numbers.allowed) {
    const int64_t bucket = sums.FirstWithin(spec.limit - cost);
    const Duration until(bucket * spec.bucket_ns - Nanos(now));
    if (until.count() <= spec.wait_ns && bucket - counted.current <= spec.ahead) {
      answer.bucket = bucket;
      numbers.allowed = true;
      numbers.wait = until;
      numbers.remaining = spec.limit - sums.MostWith(cost, bucket);
    } else {
      numbers.retry_after = until - Duration(spec.wait_ns);
    }
  }
  int64_t full_at = std::max(Nanos(now), AllFreedAt(spec, state, counted));
  if (numbers.allowed && cost > 0) full_at = std::max(full_at, GoneAt(spec, answer.bucket));
  numbers.reset_after = Duration(full_at - Nanos(now));
  return answer;
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
  if (config.borrow > config.rate.window) {
    return OutOfBounds("borrow", config.borrow.count(), 0, window_ns,
                       "ns, the window, with sliding_buckets");
  }
  // Rounded up: N buckets cover at least the window.
  Spec spec{.limit = config.rate.limit,
            .buckets = buckets,
            .bucket_ns = (window_ns - 1) / buckets + 1,
            .max_debt = config.max_debt};
  if (config.borrow > Duration::zero()) {
    spec.ahead = std::min(config.borrow.count() / spec.bucket_ns + 1, buckets);
    if (config.prioritised) spec.wait_ns = config.borrow.count();
  }
  return spec;
}

size_t SlidingBuckets::Words(const Spec& spec) noexcept {
  const auto counters = static_cast<size_t>(Counters(spec));
  return kCountersWord + (counters + 1) / 2 + (spec.ahead > 0 ? 1 : 0);
}

Numbers SlidingBuckets::Decide(const Spec& spec, std::span<uint64_t> state, Instant now,
                               int64_t cost, Receipt& receipt) noexcept {
  FG_DCHECK(cost >= 0 && Nanos(now) >= 0 && state.size() == Words(spec));
  receipt = {};
  const Counted counted = Read(spec, state, now);
  const Answer answer = Decided(spec, state, counted, cost, now);
  if (answer.numbers.allowed && cost > 0) {
    Book(spec, state, counted, answer.bucket, cost);
    receipt = {.cost = cost, .mark = answer.bucket};
  } else if (counted.stepped) {
    Advance(spec, state, counted);
  }
  return answer.numbers;
}

Numbers SlidingBuckets::Look(const Spec& spec, std::span<const uint64_t> state, Instant now,
                             int64_t cost) noexcept {
  return Decided(spec, state, Read(spec, state, now), cost, now).numbers;
}

void SlidingBuckets::GiveBack(const Spec& spec, std::span<uint64_t> state, const Receipt& receipt,
                              Instant now) noexcept {
  const Counted counted = Read(spec, state, now);
  const int64_t bucket = receipt.mark;
  const bool is_counted = bucket >= 0 && bucket >= counted.current - spec.buckets &&
                          bucket <= std::max(counted.current, counted.latest);
  if (receipt.cost <= 0 || !is_counted) return;
  Advance(spec, state, counted);
  const int64_t count = Counter(spec, state, bucket);
  const int64_t returned = std::min(receipt.cost, count);
  SetCounter(spec, state, bucket, count - returned);
  if (bucket <= counted.current) state[kSumWord] -= static_cast<uint64_t>(returned);
}

void SlidingBuckets::Charge(const Spec& spec, std::span<uint64_t> state, int64_t units,
                            Instant now) noexcept {
  const Counted counted = Read(spec, state, now);
  const int64_t room = spec.limit + spec.max_debt - Sums(spec, state, counted).Most();
  if (units <= 0 || room <= 0 || spec.limit == 0) return;
  Book(spec, state, counted, counted.current, std::min(units, room));
}

Numbers SlidingBuckets::TakeUpTo(const Spec& spec, std::span<uint64_t> state, Instant now,
                                 int64_t cost, Receipt& receipt) noexcept {
  return TakeUpToRemaining<SlidingBuckets>(spec, state, now, cost, receipt);
}

Instant SlidingBuckets::KeepUntil(const Spec& spec, std::span<const uint64_t> state) noexcept {
  int64_t latest = state[kSumWord] > 0 ? static_cast<int64_t>(state[kNewestWord]) - 1 : -1;
  if (spec.ahead > 0) latest = std::max(latest, static_cast<int64_t>(state.back()) - 1);
  return latest < 0 ? Instant{} : Instant(Duration(GoneAt(spec, latest)));
}

}  // namespace flowguard::limit
