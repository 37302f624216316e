// SPDX-License-Identifier: Apache-2.0
//
// What a key of 31 characters costs a redis-server, by the form of its cell.
//
// MEMORY USAGE, and what it leaves out: the entry in the table of expiries, and what the
// allocator rounds the two entries up by.  used_memory grows by as much; the slots of the
// hash tables come on top, 16 to 32 bytes a key by how full they are.
// docs/shared-limits.md has the table.
#include <chrono>
#include <iomanip>
#include <iostream>
#include <string>
#include <string_view>

#include "quota/cell_shape.h"
#include "quota/cells_fixture_test.h"
#include "quota/scripts/scripts.h"

namespace flowguard::quota {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr size_t kKeyBytes = 31;
constexpr int64_t kExpiryBytes = 40;

class CellMemoryTest : public CellsTest {
 protected:
  static std::string KeyOf(std::string_view form) {
    std::string key = "rl:{user=1000001}:per-user";
    key.resize(kKeyBytes - form.size() - 1, 'x');
    return key + ":" + std::string(form);
  }
  static CellShape ShapeOf(Algorithm algorithm, Rate rate) {
    CellShape shape{.algorithm = algorithm, .config = {}};
    shape.config.rate = rate;
    return shape;
  }

  int64_t BytesOf(std::string_view what, const std::string& key) {
    EXPECT_EQ(key.size(), kKeyBytes);
    EXPECT_GT(TtlMs(key), 0) << what;
    const int64_t bytes =
        commander.connection.AskNumber({"MEMORY", "USAGE", key, "SAMPLES", "0"}) + kExpiryBytes;
    std::cout << std::setw(32) << what << std::setw(8) << bytes << " B as "
              << commander.connection.AskText({"OBJECT", "ENCODING", key}) << "\n";
    return bytes;
  }
  // After one take of `cost`.
  int64_t BytesOf(std::string_view what, const CellShape& shape, int64_t cost = 1) {
    const std::string key = KeyOf(LettersOf(shape));
    commander.connection.Ask({"DEL", key});
    EXPECT_EQ(Take(shape, cost, 1, key).granted, 1) << commander.last_error;
    return BytesOf(what, key);
  }
};

constexpr Rate kPerMinute{.limit = 100, .window = minutes(1)};

TEST_F(CellMemoryTest, ABucketIsAnInteger) {
  EXPECT_LE(BytesOf("token_bucket", ShapeOf(Algorithm::kTokenBucket, kPerMinute)), 128);
  CellShape queue = ShapeOf(Algorithm::kLeakyBucket, kPerMinute);
  queue.config.wait = seconds(10);
  EXPECT_LE(BytesOf("leaky_bucket", queue), 128);
  // An interval that is no whole number of us is kept to a ns.
  const CellShape fine = ShapeOf(Algorithm::kTokenBucket, {.limit = 3000, .window = seconds(1)});
  EXPECT_LE(BytesOf("token_bucket, 3000/s", fine), 160);
}

TEST_F(CellMemoryTest, AFixedWindowIsAnInteger) {
  EXPECT_LE(BytesOf("fixed_window", ShapeOf(Algorithm::kFixedWindow, kPerMinute)), 128);
  const CellShape second =
      ShapeOf(Algorithm::kFixedWindow, {.limit = 999'999, .window = seconds(1)});
  EXPECT_LE(BytesOf("fixed_window, 999999 in 1 s", second, 999'999), 128);
}

TEST_F(CellMemoryTest, TwoWindowsAreOneString) {
  EXPECT_LE(BytesOf("sliding_window", ShapeOf(Algorithm::kSlidingWindow, kPerMinute)), 160);
  EXPECT_LE(BytesOf("weighted_average", ShapeOf(Algorithm::kWeightedAverage, kPerMinute)), 160);
}

TEST_F(CellMemoryTest, BucketsAreOneListpack) {
  for (const int buckets : {10, 60}) {
    CellShape shape = ShapeOf(Algorithm::kSlidingBuckets, {.limit = 6000, .window = hours(1)});
    shape.config.buckets = buckets;
    const std::string key = KeyOf(LettersOf(shape));
    commander.connection.Ask({"DEL", key});
    for (int i = 0; i < buckets; ++i) {
      EXPECT_EQ(Take(shape, 1, 1, key).granted, 1);
      *commander.now_us += int64_t{3600} * 1'000'000 / buckets;
    }
    EXPECT_LE(BytesOf("sliding_buckets, " + std::to_string(buckets), key),
              buckets == 10 ? 224 : 640);
  }
}

TEST_F(CellMemoryTest, ALogIsAListAndNotASortedSet) {
  for (const int64_t limit : {100, 1000}) {
    const CellShape shape = ShapeOf(Algorithm::kSlidingLog, {.limit = limit, .window = hours(1)});
    EXPECT_LE(BytesOf("sliding_log, " + std::to_string(limit), shape, limit),
              limit == 100 ? 1296 : 10'512);
  }
}

// The form for other programs, with ids of 18 characters; beyond 128 of them it is a tree.
TEST_F(CellMemoryTest, AZsetGrowsWithItsIds) {
  constexpr int64_t kMost[][2] = {{10, 460}, {100, 3716}, {1000, 126'426}};
  const std::string key = KeyOf("zs");
  int64_t entries = 0;
  for (const auto [limit, most] : kMost) {
    for (; entries < limit; ++entries) {
      commander.connection.Ask({"EVAL", std::string(scripts::kZsetLog.source), "1", key, "3600000",
                                std::to_string(limit),
                                "request-000000" + std::to_string(1000 + entries)});
    }
    ASSERT_EQ(commander.connection.AskNumber({"ZCARD", key}), limit);
    EXPECT_LE(BytesOf("ZSET, " + std::to_string(limit), key), most);
  }
}

TEST_F(CellMemoryTest, SlotsAreOneListpack) {
  CellShape shape;
  shape.concurrency = true;
  shape.config.rate = {.limit = 10, .window = seconds(30)};
  CellCall call;
  const std::string key = KeyOf("co");
  call.key = key;
  call.shape = &shape;
  call.owner = "0123456789abcdef0123";
  EXPECT_EQ(Ask(call).granted, 1);
  EXPECT_LE(BytesOf("concurrency, one owner", key), 224);
}

}  // namespace
}  // namespace flowguard::quota
