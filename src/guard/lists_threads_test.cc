// SPDX-License-Identifier: Apache-2.0
//
// Sixteen threads ask for lists of values that overlap: of no value goes more than its bound,
// and of a request that is refused nothing is kept.
#include <algorithm>
#include <array>
#include <random>

#include "guard/threads_fixture_test.h"

namespace flowguard {
namespace {

using std::chrono::hours;
using testing::ConcurrencyRule;
using testing::LimitRule;

constexpr size_t kValues = 6;
constexpr std::array<const char*, kValues> kNames = {"a", "b", "c", "d", "e", "f"};

using PerValue = std::array<std::atomic<int64_t>, kValues>;

Rule PerSku(Rule rule) {
  rule.by = {"param:sku"};
  return rule;
}

class ListsOnThreads : public ThreadsFixture {
 protected:
  // One to four values, some of them twice.
  static std::vector<size_t> SomeValues(std::minstd_rand& random) {
    std::vector<size_t> values(1 + random() % 4);
    for (size_t& value : values)
      value = random() % kValues;
    return values;
  }
  Entry EnterAll(const std::vector<size_t>& values) {
    std::vector<DimensionValue> dimensions;
    for (const size_t value : values)
      dimensions.push_back({"param:sku", kNames[value]});
    return guard_->Enter(
        {.resource = "r", .method = {}, .path = {}, .dimensions = dimensions, .cost = 0});
  }
  // What is left of one value.
  int64_t GoOf(size_t value, int64_t most) {
    int64_t went = 0;
    while (went <= most && EnterAll({value}))
      ++went;
    return went;
  }
};

TEST_F(ListsOnThreads, OfEachValueExactlyItsBoundGoes) {
  constexpr int64_t kLimit = 400;
  for (const Algorithm algorithm : {Algorithm::kTokenBucket, Algorithm::kSlidingLog,
                                    Algorithm::kFixedWindow, Algorithm::kWeightedAverage}) {
    SCOPED_TRACE("algorithm " + std::to_string(static_cast<int>(algorithm)));
    Build({PerSku(LimitRule("rate", kLimit, hours(1), algorithm))});
    PerValue went{};
    std::atomic<int64_t> refused{0};
    OnThreads([&](int thread) {
      std::minstd_rand random(static_cast<unsigned>(thread) + 1);
      for (int64_t i = 0; i < PartOfTenTimes(kLimit * kValues / 2); ++i) {
        const std::vector<size_t> values = SomeValues(random);
        if (!EnterAll(values)) {
          ++refused;
          continue;
        }
        for (const size_t value : values)
          ++went[value];
      }
    });

    EXPECT_GT(refused, 0);
    for (size_t value = 0; value < kValues; ++value) {
      EXPECT_LE(went[value], kLimit);
      EXPECT_GT(went[value], 0);
      EXPECT_EQ(went[value] + GoOf(value, kLimit), kLimit) << kNames[value];
    }
    ExpectThatNothingIsInProgress();
  }
}

TEST_F(ListsOnThreads, CallsInProgressStayWithinTheBoundOfEachValue) {
  constexpr int64_t kSlots = 5;
  constexpr int kCalls = 2'000;
  Build({PerSku(ConcurrencyRule("slots", kSlots)),
         PerSku(LimitRule("rate", int64_t{kThreads} * kCalls, hours(1)))});
  PerValue inside{};
  PerValue went{};
  std::atomic<bool> exceeded{false};
  std::atomic<int64_t> refused{0};
  OnThreads([&](int thread) {
    std::minstd_rand random(static_cast<unsigned>(thread) + 1);
    std::vector<std::pair<std::vector<size_t>, Entry>> held;
    const auto end_oldest = [&] {
      for (const size_t value : held.front().first)
        --inside[value];
      held.erase(held.begin());
    };
    for (int i = 0; i < kCalls; ++i) {
      std::vector<size_t> values = SomeValues(random);
      Entry entry = EnterAll(values);
      if (!entry) {
        ++refused;
        if (!held.empty()) end_oldest();
        continue;
      }
      for (const size_t value : values) {
        if (inside[value].fetch_add(1) >= kSlots) exceeded = true;
        ++went[value];
      }
      held.emplace_back(std::move(values), std::move(entry));
      if (held.size() > 2) end_oldest();
    }
    while (!held.empty())
      end_oldest();
  });

  EXPECT_FALSE(exceeded);
  EXPECT_GT(refused, 0);
  ExpectThatNothingIsInProgress();
  for (size_t value = 0; value < kValues; ++value) {
    EXPECT_GT(went[value], 0);
    const std::vector<DimensionValue> dimensions = {{"param:sku", kNames[value]}};
    Reload({PerSku(LimitRule("rate", int64_t{kThreads} * kCalls, hours(1)))});
    EXPECT_EQ(
        guard_
            ->Peek({.resource = "r", .method = {}, .path = {}, .dimensions = dimensions, .cost = 0})
            .remaining,
        int64_t{kThreads} * kCalls - went[value])
        << "those that the slots refused gave the rate back";
  }
}

}  // namespace
}  // namespace flowguard
