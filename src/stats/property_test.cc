// SPDX-License-Identifier: Apache-2.0
//
// Sliding counts and latencies over long random timelines, equal to models that keep a
// list of everything.
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "base/bounds.h"
#include "base/thread_slot.h"
#include "stats/sliding_counts.h"
#include "stats/sliding_latency.h"

namespace flowguard::stats {
namespace {

using namespace std::chrono_literals;

constexpr int kTimelines = 120;
constexpr int kSteps = 1'500;
constexpr Instant kStart{std::chrono::hours(24 * 10)};

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int64_t Between(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(engine_);
  }
  bool OneIn(int64_t n) { return Between(1, n) == 1; }

 private:
  std::mt19937_64 engine_;
};

WindowShape RandomShape(Random& random) {
  constexpr Duration kBuckets[] = {1ms, 7ms, 100ms, 500ms, 1s, 11s};
  const Duration bucket = kBuckets[random.Between(0, 5)];
  const int buckets = static_cast<int>(random.Between(1, 20));
  return {bucket * buckets, buckets};
}

struct Happening {
  Instant at;
  Counts counts;
};

// Does one thing, here and in the list.
Happening Do(Random& random, SlidingCounts& counts, Instant at) {
  const size_t slot = base::ThreadSlot();
  Happening happening{at, {}};
  Counts& right = happening.counts;
  const int64_t units = random.Between(0, 5);
  switch (random.Between(0, 3)) {
    case 0:
    case 1:
      right.passed = units;
      right.inflight_max = random.Between(0, 9);
      counts.Passed(slot, at, units, right.inflight_max);
      break;
    case 2:
      right.blocked = units;
      counts.Blocked(slot, at, units);
      break;
    default:
      right.succeeded = units;
      right.failed = random.OneIn(3) ? units : 0;
      right.rt_sum = Duration(random.Between(0, 1'000'000));
      if (right.failed == 0) right.rt_min = right.rt_sum;
      // Units of zero that failed are no failure that could be seen.
      counts.Ended(slot, at, units, right.rt_sum, right.failed > 0);
  }
  return happening;
}

int64_t IndexOf(Instant at, const WindowShape& shape) {
  return at.time_since_epoch().count() / shape.Bucket().count();
}

// Time that goes on, with stamps out of order by less than the ring: then the window is
// simply the sum of what is stamped within it.
TEST(SlidingCountsProperty, AWindowIsTheSumOfWhatIsStampedInItsBuckets) {
  for (uint64_t seed = 1; seed <= kTimelines; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const WindowShape shapes[] = {RandomShape(random), RandomShape(random)};
    ShardBudget budget(random.OneIn(2) ? 0 : 1 << 20);
    SlidingCounts counts(Views(shapes[0], shapes[1]), &budget);
    const Duration late_most = std::min(shapes[0].Bucket() * (shapes[0].buckets - 1),
                                        shapes[1].Bucket() * (shapes[1].buckets - 1));
    std::vector<Happening> all;
    Instant now = kStart;
    for (int step = 0; step < kSteps; ++step) {
      const int64_t bucket = shapes[random.Between(0, 1)].Bucket().count();
      if (random.OneIn(3)) now += Duration(random.Between(0, bucket));
      if (random.OneIn(60)) now += Duration(random.Between(0, 30 * bucket));
      Instant at = now;
      if (random.OneIn(3)) at -= Duration(random.Between(0, late_most.count()));
      all.push_back(Do(random, counts, at));

      if (!random.OneIn(10)) continue;
      const auto view = static_cast<size_t>(random.Between(0, 1));
      const WindowShape& shape = shapes[view];
      const int last = static_cast<int>(random.Between(1, shape.buckets));
      Counts sum;
      std::vector<Counts> series(static_cast<size_t>(last));
      for (const Happening& happening : all) {
        const int64_t ago = IndexOf(now, shape) - IndexOf(happening.at, shape);
        if (ago >= last) continue;
        sum += happening.counts;
        series[static_cast<size_t>(ago)] += happening.counts;
      }
      ASSERT_EQ(counts.Last(view, now, last), sum) << step;
      std::vector<Counts> told(static_cast<size_t>(last));
      counts.Series(view, now, told);
      ASSERT_EQ(told, series) << step;
      ASSERT_EQ(counts.Bucket(view, now, last - 1), series.back()) << step;
    }
  }
}

// The table of count_ring.h, on a list of what each slot of the ring should hold.
class RingModel {
 public:
  explicit RingModel(const WindowShape& shape) : shape_(shape) {}

  void Add(const Happening& happening) {
    const int64_t index = Target(IndexOf(happening.at, shape_));
    std::erase_if(held_, [&](const Held& held) {
      return held.index != index && (held.index - index) % shape_.buckets == 0;
    });
    held_.push_back({index, happening.counts});
  }
  [[nodiscard]] Counts Last(Instant now, int last) const {
    Counts sum;
    const int64_t current = IndexOf(now, shape_);
    for (const Held& held : held_) {
      const bool ahead = newest_ > current && newest_ - current <= LateMost() &&
                         held.index > current && held.index <= newest_ &&
                         held.index > newest_ - shape_.buckets;
      const bool within =
          held.index <= current && held.index > current - last && held.index <= newest_;
      if (ahead || within) sum += held.counts;
    }
    return sum;
  }

 private:
  struct Held {
    int64_t index;
    Counts counts;
  };

  [[nodiscard]] int64_t LateMost() const {
    return std::max<int64_t>(base::kLateStampMax / shape_.Bucket(), 1);
  }
  int64_t Target(int64_t index) {
    const int64_t behind = newest_ - index;
    if (behind >= shape_.buckets && behind <= LateMost()) return newest_;
    if (behind < 0 || behind >= shape_.buckets) newest_ = index;
    return index;
  }

  const WindowShape shape_;
  std::vector<Held> held_;
  int64_t newest_ = -1;
};

TEST(SlidingCountsProperty, ClocksThatStepAnywhereFollowTheTable) {
  for (uint64_t seed = 1; seed <= kTimelines; ++seed) {
    SCOPED_TRACE(seed);
    Random random(1'000 + seed);
    const WindowShape shape = RandomShape(random);
    // In one home only, as the table is of one ring: in that of all, or in the own one,
    // whose owner comes to it by counting a lot long before.
    const bool own = random.OneIn(2);
    ShardBudget budget(own ? 1 << 20 : 0);
    SlidingCounts counts(shape, &budget);
    if (own) counts.Passed(base::ThreadSlot(), kStart - 24h * 9, 32, 0);
    RingModel model(shape);
    Instant now = kStart;
    for (int step = 0; step < kSteps; ++step) {
      const int64_t bucket = shape.Bucket().count();
      if (random.OneIn(3)) now += Duration(random.Between(-bucket, 2 * bucket));
      if (random.OneIn(30)) now += Duration(random.Between(-30 * bucket, 30 * bucket));
      if (random.OneIn(100)) now += Duration(random.Between(-15, 15) * 1'000'000'000);
      if (random.OneIn(400)) now += Duration(random.Between(-1, 1) * 3'600'000'000'000);
      model.Add(Do(random, counts, now));

      const Instant asked = random.OneIn(2) ? now : now + Duration(random.Between(0, 3 * bucket));
      const int last = static_cast<int>(random.Between(1, shape.buckets));
      ASSERT_EQ(counts.Last(0, asked, last), model.Last(asked, last)) << step;
    }
  }
}

TEST(SlidingLatencyProperty, AWindowHoldsWhatWasCountedInItsParts) {
  for (uint64_t seed = 1; seed <= kTimelines; ++seed) {
    SCOPED_TRACE(seed);
    Random random(2'000 + seed);
    const LatencyShape shape{Duration(7ms) * random.Between(1, 1) * 6,
                             random.OneIn(2) ? 6 : static_cast<int>(random.Between(1, 3))};
    ShardBudget budget(random.OneIn(2) ? 0 : 1 << 20);
    SlidingLatency latency(shape, &budget);
    const Duration part = shape.window / shape.parts;
    struct Call {
      Instant at;
      Duration took;
    };
    std::vector<Call> all;
    Instant now = kStart;
    for (int step = 0; step < kSteps; ++step) {
      if (random.OneIn(20)) now += Duration(random.Between(0, part.count()));
      if (random.OneIn(200)) now += Duration(random.Between(0, 10 * part.count()));
      all.push_back({now, Duration(random.Between(0, 1 << random.Between(1, 30)))});
      latency.Add(base::ThreadSlot(), now, all.back().took);
      if (!random.OneIn(20)) continue;
      const int last = static_cast<int>(random.Between(1, shape.parts));
      LatencySketch right;
      for (const Call& call : all) {
        const int64_t ago = now.time_since_epoch() / part - call.at.time_since_epoch() / part;
        if (ago < last) right.Add(call.took);
      }
      ASSERT_EQ(latency.Last(now, last), right) << step;
    }
  }
}

}  // namespace
}  // namespace flowguard::stats
