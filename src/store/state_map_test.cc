// SPDX-License-Identifier: Apache-2.0
#include "store/state_map.h"

#include <atomic>
#include <cstring>
#include <span>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/bounds.h"

namespace flowguard::store {
namespace {

constexpr int64_t kNow = 1'000'000'000'000;

Instant At(int64_t ns) {
  return Instant(Duration(ns));
}

base::Hash128 KeyOf(uint64_t number) {
  char bytes[sizeof(number)];
  std::memcpy(bytes, &number, sizeof(number));
  return base::HashOf({bytes, sizeof(bytes)}, 5);
}

std::unique_ptr<StateMap> MapOf(size_t bytes) {
  auto map = StateMap::Create(bytes);
  EXPECT_TRUE(map.ok());
  return std::move(map).value();
}

// Adds one to the first word, and keeps the state until then.
auto Count(Instant keep_until) {
  return [keep_until](std::span<uint64_t> state) {
    ++state[0];
    return keep_until;
  };
}

uint64_t FirstWord(StateMap& map, uint64_t key, size_t words, int64_t now) {
  uint64_t first = 0;
  Instant kept{};
  map.Update(KeyOf(key), words, At(now), [&](std::span<uint64_t> state) {
    first = state[0];
    return first == 0 ? kept : At(now + 1'000'000);
  });
  return first;
}

TEST(StateMapTest, RefusesSizesOutOfBoundsAndSaysWhichAreAllowed) {
  const auto map = StateMap::Create(1);

  ASSERT_FALSE(map.ok());
  EXPECT_EQ(map.error().message, "state bytes 1 are outside 262144 to 1099511627776");
}

TEST(StateMapTest, KeepsAStateUntilItsInstantAndThenStartsAnew) {
  const auto map = MapOf(1 << 20);
  map->Update(KeyOf(1), 3, At(kNow), Count(At(kNow + 10)));
  map->Update(KeyOf(1), 3, At(kNow + 9), Count(At(kNow + 20)));

  EXPECT_EQ(FirstWord(*map, 1, 3, kNow + 19), 2U);
  EXPECT_EQ(FirstWord(*map, 1, 3, kNow + 19 + 1'000'000), 0U);
}

// Rules out: peeks and refusals that fill the map.
TEST(StateMapTest, KeepsNothingWhenZeroOrAlreadyOver) {
  const auto map = MapOf(1 << 20);
  const size_t empty = map->bytes();

  EXPECT_EQ(map->Update(KeyOf(1), 3, At(kNow), [](std::span<uint64_t>) { return At(kNow + 10); }),
            StateUpdate::kDropped);
  EXPECT_EQ(map->Update(KeyOf(2), 3, At(kNow), Count(At(kNow))), StateUpdate::kDropped);

  EXPECT_EQ(map->Stats().states, 0U);
  EXPECT_EQ(map->bytes(), empty);
}

// Rules out: a concurrency counter that stays when its count is back at zero.
TEST(StateMapTest, AStateGoesWhenItsFunctionSaysItIsOver) {
  const auto map = MapOf(1 << 20);
  const size_t empty = map->bytes();
  for (uint64_t key = 0; key < 1'000; ++key) {
    ASSERT_EQ(map->Update(KeyOf(key), 1, At(kNow), Count(Instant::max())), StateUpdate::kKept);
  }
  const auto release = [](std::span<uint64_t> state) {
    return --state[0] == 0 ? At(kNow) : Instant::max();
  };

  for (uint64_t key = 0; key < 1'000; ++key) {
    EXPECT_TRUE(map->UpdateExisting(KeyOf(key), 1, At(kNow), release));
    EXPECT_FALSE(map->UpdateExisting(KeyOf(key), 1, At(kNow), release));
  }

  EXPECT_EQ(map->Stats().states, 0U);
  EXPECT_EQ(map->bytes(), empty);
}

TEST(StateMapTest, AnotherWordCountStartsTheKeyAnew) {
  const auto map = MapOf(1 << 20);
  map->Update(KeyOf(1), 3, At(kNow), Count(At(kNow + 10)));

  EXPECT_FALSE(map->UpdateExisting(KeyOf(1), 4, At(kNow), Count(At(kNow + 10))));
  map->Update(KeyOf(1), 4, At(kNow), [](std::span<uint64_t> state) {
    EXPECT_EQ(state.size(), 4U);
    EXPECT_EQ(state[0], 0U);
    state[3] = 1;
    return At(kNow + 10);
  });

  EXPECT_EQ(map->Stats().states, 1U);
}

// Rules out: memory that grows with the number of keys ever seen; expired states
// that only a sweeper would free.
TEST(StateMapTest, MemoryStaysBelowItsBoundWhateverTheKeys) {
  constexpr size_t kBytes = 4 << 20;
  const auto map = MapOf(kBytes);

  for (uint64_t key = 0; key < 300'000; ++key) {
    map->Update(KeyOf(key), 4, At(kNow), Count(At(kNow + 1'000)));
    ASSERT_LE(map->bytes(), kBytes);
  }

  EXPECT_GT(map->Stats().evictions, 0U);
  EXPECT_EQ(map->Stats().full, 0U);
}

TEST(StateMapTest, CallsReclaimExpiredStatesOfOtherKeysByThemselves) {
  const auto map = MapOf(1 << 20);
  for (uint64_t key = 0; key < 2'000; ++key) {
    map->Update(KeyOf(key), 4, At(kNow), Count(At(kNow + 10)));
  }
  ASSERT_EQ(map->Stats().states, 2'000U);

  for (uint64_t i = 0; i < 10'000; ++i) {
    map->Update(KeyOf(1'000'000 + i % 1'000), 4, At(kNow + 11), Count(At(kNow + 20)));
  }

  EXPECT_EQ(map->Stats().states, 1'000U);
  EXPECT_EQ(map->Stats().evictions, 0U);
}

TEST(StateMapTest, AStateThatCanNeverFitEvictsNothing) {
  auto map = MapOf(base::kStateBytesMin);
  for (uint64_t i = 0; i < 100; ++i)
    map->Update(KeyOf(i), 3, At(kNow), Count(At(kNow + 100)));
  constexpr size_t kTooMany = base::kStateBytesMin / sizeof(uint64_t);
  ASSERT_FALSE(map->Fits(kTooMany));

  EXPECT_EQ(map->Update(KeyOf(500), kTooMany, At(kNow), Count(At(kNow + 100))), StateUpdate::kFull);

  EXPECT_EQ(map->Stats().evictions, 0U);
  EXPECT_EQ(map->Stats().states, 100U);
}

// Rules out: a slot in use that is evicted, so that more calls run than allowed,
// or a full map that lets everybody in silently.
TEST(StateMapTest, HeldStatesAreNeverEvictedAndTheCallerIsTold) {
  const auto map = MapOf(base::kStateBytesMin);
  uint64_t kept = 0;
  while (map->Update(KeyOf(kept), 1, At(kNow), Count(Instant::max())) == StateUpdate::kKept) {
    ++kept;
  }

  EXPECT_GT(kept, 100U);
  EXPECT_EQ(map->Update(KeyOf(1'000'000), 1, At(kNow), Count(Instant::max())), StateUpdate::kFull);
  EXPECT_EQ(map->Stats().states, kept);
  EXPECT_EQ(map->Stats().evictions, 0U);
  EXPECT_EQ(map->Stats().full, 2U);
  // One leaves: there is room again.
  EXPECT_TRUE(
      map->UpdateExisting(KeyOf(0), 1, At(kNow), [](std::span<uint64_t>) { return At(kNow); }));
  EXPECT_EQ(map->Update(KeyOf(1'000'000), 1, At(kNow), Count(Instant::max())), StateUpdate::kKept);
}

// Rules out: a flood of new keys that resets one which is held for long.
TEST(StateMapTest, TheStateThatWouldBeForgottenFirstIsEvictedFirst) {
  const auto map = MapOf(base::kStateBytesMin);
  for (uint64_t key = 0; key < 20; ++key) {
    map->Update(KeyOf(key), 4, At(kNow), Count(At(kNow + 1'000'000)));
  }

  for (uint64_t i = 0; i < 100'000; ++i) {
    map->Update(KeyOf(1'000 + i), 4, At(kNow), Count(At(kNow + 1'000)));
  }

  ASSERT_GT(map->Stats().evictions, 50'000U);
  for (uint64_t key = 0; key < 20; ++key)
    EXPECT_EQ(FirstWord(*map, key, 4, kNow), 1U) << key;
}

TEST(StateMapTest, ALargeStateMakesRoomForItself) {
  const auto map = MapOf(2 << 20);
  for (uint64_t i = 0; i < 100'000; ++i) {
    map->Update(KeyOf(i), 4, At(kNow), Count(At(kNow + 1'000)));
  }

  EXPECT_EQ(map->Update(KeyOf(1'000'000), 100'000, At(kNow), Count(At(kNow + 1'000))),
            StateUpdate::kKept);
  EXPECT_LE(map->bytes(), size_t{2} << 20);
}

// Rules out: a first-hit race in which one thread's new state replaces another's.
TEST(StateMapTest, ThreadsThatMeetAColdKeyShareOneState) {
  constexpr uint64_t kKeys = 2'000;
  constexpr int kThreads = 16;
  const auto map = MapOf(16 << 20);
  std::vector<std::thread> threads;

  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (uint64_t key = 0; key < kKeys; ++key) {
        map->Update(KeyOf(key), 2, At(kNow), Count(At(kNow + 1'000)));
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();

  for (uint64_t key = 0; key < kKeys; ++key) {
    ASSERT_EQ(FirstWord(*map, key, 2, kNow), static_cast<uint64_t>(kThreads));
  }
}

// Rules out: eviction by one thread that frees the state another works on.
TEST(StateMapTest, EvictionRacesWithUseOfTheSameKeys) {
  constexpr int kThreads = 8;
  constexpr size_t kBytes = 512 << 10;
  const auto map = MapOf(kBytes);
  std::atomic<bool> above{false};
  std::vector<std::thread> threads;

  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < 20'000; ++i) {
        const uint64_t key = (i * 7919 + static_cast<uint64_t>(t)) % 10'000;
        map->Update(KeyOf(key), 1 + key % 40, At(kNow), Count(At(kNow + 1'000)));
        if (map->bytes() > kBytes) above = true;
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();

  EXPECT_FALSE(above.load());
}

}  // namespace
}  // namespace flowguard::store
