// SPDX-License-Identifier: Apache-2.0
#include "store/cell_table.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/bounds.h"

namespace flowguard::store {
namespace {

constexpr int64_t kNow = 1'000'000'000'000;
constexpr int64_t kHour = int64_t{3600} * 1'000'000'000;

Instant At(int64_t ns) {
  return Instant(Duration(ns));
}

base::Hash128 KeyOf(uint64_t number, uint64_t seed = 7) {
  char bytes[sizeof(number)];
  std::memcpy(bytes, &number, sizeof(number));
  return base::HashOf({bytes, sizeof(bytes)}, seed);
}

// One unit of a rule that gives `burst` units, one each `period`.
struct Gcra {
  int64_t period;
  int64_t burst;
  bool operator()(int64_t& word, int64_t now) const {
    const int64_t next = std::max(word, now) + period;
    if (next > now + period * burst) return false;
    word = next;
    return true;
  }
};

bool Take(CellTable& table, const base::Hash128& key, int64_t now, const Gcra& rule) {
  bool allowed = false;
  table.Update(key, At(now), [&](int64_t& word) { return allowed = rule(word, now); });
  return allowed;
}

std::unique_ptr<CellTable> TableOf(size_t capacity) {
  auto table = CellTable::Create(capacity);
  EXPECT_TRUE(table.ok());
  return std::move(table).value();
}

TEST(CellTableTest, RefusesCapacitiesOutOfBoundsAndSaysWhichAreAllowed) {
  const auto small = CellTable::Create(base::kCellCapacityMin - 1);
  const auto large = CellTable::Create(base::kCellCapacityMax + 1);

  ASSERT_FALSE(small.ok());
  ASSERT_FALSE(large.ok());
  EXPECT_EQ(small.error().message, "cell capacity 63 is outside 64 to 4294967296");
  EXPECT_EQ(large.error().code, ErrorCode::kInvalidArgument);
}

TEST(CellTableTest, KeepsTheWordThatTheFunctionLeaves) {
  const auto table = TableOf(64);

  const CellUpdate first = table->Update(KeyOf(1), At(kNow), [](int64_t& word) {
    EXPECT_EQ(word, 0);
    word = kNow + 5;
    return true;
  });
  const CellUpdate second = table->Update(KeyOf(1), At(kNow), [](int64_t& word) {
    EXPECT_EQ(word, kNow + 5);
    word = kNow + 9;
    return true;
  });

  EXPECT_EQ(first, CellUpdate::kInserted);
  EXPECT_EQ(second, CellUpdate::kUpdated);
  EXPECT_EQ(table->Read(KeyOf(1), At(kNow)), kNow + 9);
  EXPECT_EQ(table->Read(KeyOf(2), At(kNow)), 0);
}

// Rules out: a peek, or a request that is refused at once, fills the table.
TEST(CellTableTest, ARefusalOrPeekMakesNoCell) {
  const auto table = TableOf(64);

  const CellUpdate result = table->Update(KeyOf(1), At(kNow), [](int64_t& word) {
    word = kNow + 5;
    return false;
  });

  EXPECT_EQ(result, CellUpdate::kUnchanged);
  EXPECT_EQ(table->Read(KeyOf(1), At(kNow)), 0);
  EXPECT_EQ(table->LiveApprox(At(kNow)), 0U);
}

TEST(CellTableTest, AWordNotAfterNowEqualsAnAbsentKey) {
  const auto table = TableOf(64);
  table->Update(KeyOf(1), At(kNow), [](int64_t& word) { return word = kNow + 5, true; });

  EXPECT_EQ(table->Read(KeyOf(1), At(kNow + 4)), kNow + 5);
  EXPECT_EQ(table->Read(KeyOf(1), At(kNow + 5)), 0);
  table->Update(KeyOf(1), At(kNow + 5), [](int64_t& word) {
    EXPECT_EQ(word, 0);
    return false;
  });
}

// Rules out: unsigned arithmetic deletes a live cell when `now` is a little before
// the time at which the cell was written.
TEST(CellTableTest, ATimeBeforeTheWriteKeepsTheCell) {
  const auto table = TableOf(64);
  const Gcra rule{kHour, 1};
  ASSERT_TRUE(Take(*table, KeyOf(1), kNow, rule));

  EXPECT_FALSE(Take(*table, KeyOf(1), kNow - 1'000'000, rule));
  EXPECT_EQ(table->Read(KeyOf(1), At(kNow - 1'000'000)), kNow + kHour);
}

// Rules out: an idle cutoff shorter than the window hands the quota back.
TEST(CellTableTest, AnExhaustedKeyStaysSoUntilItsWindowEnds) {
  const auto table = TableOf(64);
  const Gcra five_an_hour{kHour / 5, 5};
  for (int i = 0; i < 5; ++i)
    ASSERT_TRUE(Take(*table, KeyOf(1), kNow, five_an_hour));

  EXPECT_FALSE(Take(*table, KeyOf(1), kNow + kHour / 15, five_an_hour));
  EXPECT_TRUE(Take(*table, KeyOf(1), kNow + kHour / 5, five_an_hour));
}

TEST(CellTableTest, GivingBackFailsWhereTheKeyIsAbsentOrOver) {
  const auto table = TableOf(64);
  const auto give_back = [](int64_t& word) { return word -= 1, true; };
  table->Update(KeyOf(1), At(kNow), [](int64_t& word) { return word = kNow + 5, true; });

  EXPECT_FALSE(table->UpdateExisting(KeyOf(2), At(kNow), give_back));
  EXPECT_FALSE(table->UpdateExisting(KeyOf(1), At(kNow + 5), give_back));
  EXPECT_TRUE(table->UpdateExisting(KeyOf(1), At(kNow), give_back));
  EXPECT_EQ(table->Read(KeyOf(1), At(kNow)), kNow + 4);
}

// The owner tag 0 marks an empty slot; a hash may have it all the same.
TEST(CellTableTest, AHashWhoseOwnerHalfIsZeroIsAKeyLikeOthers) {
  const auto table = TableOf(64);
  const base::Hash128 zero{0, 0};

  EXPECT_TRUE(Take(*table, zero, kNow, Gcra{kHour, 1}));
  EXPECT_FALSE(Take(*table, zero, kNow, Gcra{kHour, 1}));
}

// Rules out: a live key forgotten though the table is not above its stated load.
TEST(CellTableTest, NoKeyIsForgottenAtCapacity) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    for (const size_t capacity : {size_t{64}, size_t{100}, size_t{1'000}, size_t{100'000}}) {
      SCOPED_TRACE("seed " + std::to_string(seed) + " capacity " + std::to_string(capacity));
      const auto table = TableOf(capacity);
      const Gcra once{kHour, 1};
      for (uint64_t i = 0; i < capacity; ++i)
        ASSERT_TRUE(Take(*table, KeyOf(i, seed), kNow, once));

      size_t forgotten = 0;
      for (uint64_t i = 0; i < capacity; ++i) {
        if (Take(*table, KeyOf(i, seed), kNow, once)) ++forgotten;
      }

      EXPECT_EQ(forgotten, 0U);
      EXPECT_EQ(table->Stats().evictions, 0U);
    }
  }
}

// The same while keys come and go: capacity live keys at every time, and each
// step one of them ends at random and a new one comes.
TEST(CellTableTest, NoKeyIsForgottenAtCapacityWhileKeysComeAndGo) {
  constexpr size_t kCapacity = 5'000;
  constexpr uint64_t kSeed = 20260101;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  std::mt19937_64 random(kSeed);
  const auto table = TableOf(kCapacity);
  std::vector<uint64_t> live(kCapacity);
  uint64_t next = 0;
  const auto insert = [&](uint64_t& at) {
    at = next++;
    ASSERT_TRUE(Take(*table, KeyOf(at), kNow, Gcra{kHour, 1}));
  };
  for (uint64_t& key : live)
    insert(key);

  for (size_t i = 0; i < 20 * kCapacity; ++i) {
    uint64_t& gone = live[random() % kCapacity];
    ASSERT_TRUE(table->UpdateExisting(KeyOf(gone), At(kNow),
                                      [](int64_t& word) { return word = kNow, true; }));
    insert(gone);
  }

  for (const uint64_t key : live)
    EXPECT_NE(table->Read(KeyOf(key), At(kNow)), 0);
  EXPECT_EQ(table->Stats().evictions, 0U);
  EXPECT_GT(table->Stats().stash_inserts, 0U);
}

// Rules out: reaching capacity clears the table; ten other clients evict the
// first; a flood of keys of the same rule resets an exhausted one.
TEST(CellTableTest, AFloodFarAboveCapacityEvictsTheFullestFirst) {
  const auto table = TableOf(1'000);
  const Gcra rule{kHour / 100, 100};
  for (uint64_t victim = 0; victim < 10; ++victim) {
    while (Take(*table, KeyOf(victim), kNow, rule)) {
    }
  }

  for (uint64_t i = 0; i < 50'000; ++i) {
    Take(*table, KeyOf(1'000'000 + i), kNow + static_cast<int64_t>(i), rule);
  }

  for (uint64_t victim = 0; victim < 10; ++victim) {
    EXPECT_FALSE(Take(*table, KeyOf(victim), kNow + 50'000, rule)) << victim;
  }
  EXPECT_GT(table->Stats().evictions, 40'000U);
}

// Rules out: new clients locked out by a table that spoofed keys have filled.
TEST(CellTableTest, ANewKeyGetsACellInAFullTable) {
  const auto table = TableOf(64);
  const Gcra once{kHour, 1};
  for (uint64_t i = 0; i < 10'000; ++i)
    Take(*table, KeyOf(i), kNow, once);

  EXPECT_TRUE(Take(*table, KeyOf(999'999), kNow, once));
  EXPECT_FALSE(Take(*table, KeyOf(999'999), kNow, once));
}

// Rules out: memory that grows with the number of keys ever seen.
TEST(CellTableTest, MemoryIsFixedAndStatedWhateverTheKeys) {
  const auto table = TableOf(100'000);
  const size_t before = table->Stats().bytes;

  for (uint64_t i = 0; i < 2'000'000; ++i)
    Take(*table, KeyOf(i), kNow, Gcra{kHour, 1});

  EXPECT_EQ(table->Stats().bytes, before);
  EXPECT_LE(before, size_t{24} * 100'000);
  EXPECT_LE(table->LiveApprox(At(kNow)), table->Stats().slots);
  EXPECT_EQ(table->LiveApprox(At(kNow + 2 * kHour)), 0U);
}

TEST(CellTableTest, LiveApproxIsNearTheTruth) {
  const auto table = TableOf(100'000);
  for (uint64_t i = 0; i < 50'000; ++i)
    Take(*table, KeyOf(i), kNow, Gcra{kHour, 1});

  EXPECT_NEAR(static_cast<double>(table->LiveApprox(At(kNow))), 50'000, 5'000);
}

TEST(CellMemoryTest, BothKindsOfStepsSwapOnlyWhatWasExpected) {
  CellSlot slot{3, 4};
  const auto check = [&slot](auto steps) {
    slot = {3, 4};
    EXPECT_FALSE(steps.Swap(&slot, {3, 5}, {7, 8}));
    EXPECT_FALSE(steps.Swap(&slot, {2, 4}, {7, 8}));
    EXPECT_EQ(steps.Load(&slot), (Cell{3, 4}));
    EXPECT_TRUE(steps.Swap(&slot, {3, 4}, {7, -8}));
    EXPECT_EQ(steps.Load(&slot), (Cell{7, -8}));
  };

  check(SpinSteps{});
#if defined(__x86_64__)
  check(WideSteps{});
#endif
}

TEST(CellMemoryTest, ClaimWordsAreNegativeAndNeverTwiceTheSame) {
  int64_t last = NewClaimWord();
  for (int i = 0; i < 3'000'000; ++i) {
    const int64_t word = NewClaimWord();
    ASSERT_LT(word, 0);
    ASSERT_GT(word, last);
    last = word;
  }
}

}  // namespace
}  // namespace flowguard::store
