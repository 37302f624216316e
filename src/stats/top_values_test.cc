// SPDX-License-Identifier: Apache-2.0
#include "stats/top_values.h"

#include <cmath>
#include <map>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace flowguard::stats {
namespace {

using namespace std::chrono_literals;

constexpr Instant kT0{std::chrono::hours(24 * 10)};

std::unique_ptr<TopValues> Values(size_t values, Duration half_life = 10s) {
  auto top = TopValues::Create({.values = values, .half_life = half_life, .hash_seed = 3});
  EXPECT_TRUE(top.ok());
  return std::move(top).value();
}

TEST(SpaceSavingTest, BoundsHoldForRandomStreams) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const size_t capacity = 1 + random() % 40;
    SpaceSaving kept(capacity);
    std::map<uint64_t, double> right;
    double total = 0;
    std::geometric_distribution<uint64_t> skewed(0.02 + 0.01 * static_cast<double>(seed % 7));
    for (int i = 0; i < 4'000; ++i) {
      const uint64_t value = random() % 4 == 0 ? random() % 5'000 : skewed(random);
      const auto weight = static_cast<double>(random() % 5);
      // A bad hash, so that probing and moving up are met with.
      const uint64_t hash = (value % 7) | value << 8;
      kept.Add(hash, std::to_string(value), weight);
      right[hash] += weight;
      total += weight;
    }
    ASSERT_DOUBLE_EQ(kept.Total(), total);
    ASSERT_LE(kept.Entries().size(), capacity);
    for (const auto& [hash, weight] : right) {
      const SpaceSaving::Entry* entry = kept.Find(hash);
      if (entry == nullptr) {
        ASSERT_LE(weight, kept.Unkept());
        ASSERT_LE(weight, total / static_cast<double>(capacity)) << "above this all are kept";
        continue;
      }
      ASSERT_EQ(entry->Text(), std::to_string(hash >> 8));
      ASSERT_LE(weight, entry->count);
      ASSERT_GE(weight, entry->count - entry->error);
      ASSERT_LE(entry->error, total / static_cast<double>(capacity));
    }
  }
}

TEST(TopValuesTest, NothingIsHotAtFirst) {
  const auto top = Values(10);
  EXPECT_TRUE(top->Top(kT0, 5).empty());
  EXPECT_EQ(top->Total(kT0), 0);
}

TEST(TopValuesTest, TheHottestComeFirst) {
  const auto top = Values(10);
  top->Add(0, kT0, "cold", 1);
  top->Add(0, kT0, "hot", 5);
  top->Add(1, kT0, "hot", 5);
  top->Add(1, kT0, "warm", 7);
  top->Add(0, kT0, "none", 0);
  top->Add(0, kT0, "less", -4);
  const auto told = top->Top(kT0, 2);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].value, "hot");
  EXPECT_DOUBLE_EQ(told[0].count, 10);
  EXPECT_EQ(told[0].error, 0);
  EXPECT_EQ(told[1].value, "warm");
  EXPECT_EQ(top->Top(kT0, 100).size(), 3u);
}

TEST(TopValuesTest, CountsLoseHalfInAHalfLife) {
  const auto top = Values(10);
  top->Add(0, kT0, "then", 100);
  top->Add(0, kT0 + 10s, "now", 60);
  const auto told = top->Top(kT0 + 10s, 2);
  EXPECT_EQ(told[0].value, "now");
  EXPECT_NEAR(told[1].count, 50, 1e-9);
  EXPECT_NEAR(top->Total(kT0 + 20s), 55, 1e-9);
}

TEST(TopValuesTest, AYearLaterOnlyWhatIsNewCounts) {
  const auto top = Values(2);
  top->Add(0, kT0, "old", 1'000'000);
  top->Add(0, kT0, "older", 1'000'000);
  const Instant later = kT0 + std::chrono::hours(24 * 365);
  top->Add(0, later, "new", 3);
  const auto told = top->Top(later, 1);
  EXPECT_EQ(told[0].value, "new");
  EXPECT_DOUBLE_EQ(told[0].count, 3);
  EXPECT_DOUBLE_EQ(told[0].error, 0);
}

TEST(TopValuesTest, ALateStampCountsForWhatItsAgeLeaves) {
  const auto top = Values(10);
  top->Add(0, kT0 + 10s, "now", 8);
  top->Add(0, kT0, "late", 8);
  const auto told = top->Top(kT0 + 10s, 2);
  EXPECT_EQ(told[0].value, "now");
  EXPECT_NEAR(told[1].count, 4, 1e-9);
}

TEST(TopValuesTest, CountingGoesOnAfterAClockThatStepsBackAnHour) {
  const auto top = Values(10);
  top->Add(0, kT0 + 1h, "before", 8);
  top->Add(0, kT0, "after", 9);
  const auto told = top->Top(kT0, 2);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].value, "after");
  EXPECT_NEAR(told[0].count, 9, 1e-9);
  EXPECT_NEAR(told[1].count, 8, 1e-9);
  EXPECT_NEAR(top->Top(kT0 + 10s, 1)[0].count, 4.5, 1e-9);
}

TEST(TopValuesTest, LongValuesAreToldApartAndByTheirBeginning) {
  const auto top = Values(10);
  const std::string begin(100, 'x');
  top->Add(0, kT0, begin + "1", 2);
  top->Add(0, kT0, begin + "2", 1);
  const auto told = top->Top(kT0, 10);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].value, begin.substr(0, 64));
  EXPECT_DOUBLE_EQ(told[0].count, 2);
}

// The model: every unit by itself, decayed to the time of the question.
TEST(TopValuesTest, BoundsHoldForRandomDecayedStreamsOfManyThreads) {
  for (uint64_t seed = 1; seed <= 25; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const size_t capacity = 5 + random() % 30;
    const Duration half_life = std::chrono::milliseconds(1 + random() % 5'000);
    const auto top = Values(capacity, half_life);
    struct Unit {
      std::string value;
      Instant at;
      double units;
    };
    std::vector<Unit> all;
    Instant now = kT0;
    std::geometric_distribution<int> skewed(0.05);
    for (int i = 0; i < 1'500; ++i) {
      now += std::chrono::milliseconds(random() % 20);
      if (random() % 300 == 0) now += half_life * 50;
      const Instant at = now - std::chrono::microseconds(random() % 3'000);
      const auto units = static_cast<int64_t>(1 + random() % 4);
      all.push_back({std::to_string(skewed(random)), at, static_cast<double>(units)});
      top->Add(random() % 20, at, all.back().value, units);
    }
    std::map<std::string, double> right;
    double total = 0;
    for (const Unit& unit : all) {
      const double count = unit.units * std::exp2(-static_cast<double>((now - unit.at).count()) /
                                                  static_cast<double>(half_life.count()));
      right[unit.value] += count;
      total += count;
    }
    constexpr double kRounding = 1e-6;
    EXPECT_NEAR(top->Total(now), total, kRounding * (1 + total));
    const double bound = total / static_cast<double>(capacity);
    std::map<std::string, TopValue> told;
    for (TopValue& value : top->Top(now, 1'000))
      told[value.value] = value;
    for (const auto& [value, count] : right) {
      const auto found = told.find(value);
      if (found == told.end()) {
        EXPECT_LE(count, bound + kRounding) << value;
        continue;
      }
      EXPECT_LE(count, found->second.count + kRounding) << value;
      EXPECT_GE(count, found->second.count - found->second.error - kRounding) << value;
      EXPECT_LE(found->second.error, bound + kRounding) << value;
    }
  }
}

TEST(TopValuesTest, OptionsAreChecked) {
  EXPECT_FALSE(TopValues::Create({.values = 0}).ok());
  EXPECT_FALSE(TopValues::Create({.values = base::kTopValuesMax + 1}).ok());
  EXPECT_FALSE(TopValues::Create({.half_life = 0s}).ok());
}

}  // namespace
}  // namespace flowguard::stats
