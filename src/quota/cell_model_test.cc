// SPDX-License-Identifier: Apache-2.0
//
// The scripts against the local algorithms, on random timelines: the same requests pass,
// and the same numbers are told.
#include <algorithm>
#include <deque>
#include <iostream>
#include <random>
#include <vector>

#include "limit/spec.h"
#include "quota/cell_shape.h"
#include "quota/cells_fixture_test.h"

namespace flowguard::quota {
namespace {

using limit::Numbers;

// A cell of the local algorithm.
class LocalCell {
 public:
  LocalCell(const CellShape& shape)
      : spec_(*limit::AnySpec::Make(shape.algorithm, shape.config)), words_(spec_.words()) {}

  Numbers Take(Instant now, int64_t cost, limit::Receipt& receipt) {
    if (!spec_.one_word()) return spec_.Decide(words_, now, cost, receipt);
    auto word = static_cast<int64_t>(words_[0]);
    const Numbers numbers = spec_.Decide(word, now, cost, receipt);
    words_[0] = static_cast<uint64_t>(word);
    return numbers;
  }
  Numbers Look(Instant now, int64_t cost) {
    return spec_.one_word() ? spec_.Look(static_cast<int64_t>(words_[0]), now, cost)
                            : spec_.Look(words_, now, cost);
  }
  void GiveBack(const limit::Receipt& receipt, Instant now) {
    if (!spec_.one_word()) return spec_.GiveBack(words_, receipt, now);
    auto word = static_cast<int64_t>(words_[0]);
    spec_.GiveBack(word, receipt, now);
    words_[0] = static_cast<uint64_t>(word);
  }
  void Charge(int64_t units, Instant now) {
    if (!spec_.one_word()) return spec_.Charge(words_, units, now);
    auto word = static_cast<int64_t>(words_[0]);
    spec_.Charge(word, units, now);
    words_[0] = static_cast<uint64_t>(word);
  }

 private:
  limit::AnySpec spec_;
  std::vector<uint64_t> words_;
};

class CellModelTest : public CellsTest, public ::testing::WithParamInterface<Algorithm> {
 protected:
  [[nodiscard]] Instant LocalNow() const {
    return Instant(Duration((*commander.now_us - kMondayUs) * 1000));
  }
};

void ExpectSame(const Numbers& redis, const Numbers& local, const std::string& where) {
  EXPECT_EQ(redis.allowed, local.allowed) << where;
  EXPECT_EQ(redis.limit, local.limit) << where;
  EXPECT_EQ(redis.remaining, local.remaining) << where;
  EXPECT_EQ(redis.reset_after.count(), local.reset_after.count()) << where;
  // Redis decides by whole us, so its waits end with one.
  const int64_t retry_ns = local.retry_after.count();
  EXPECT_EQ(redis.retry_after.count(),
            local.retry_after == kNever ? retry_ns : (retry_ns + 999) / 1000 * 1000)
      << where;
  EXPECT_EQ(redis.wait.count(), local.wait.count()) << where;
}

TEST_P(CellModelTest, DecidesAsTheLocalAlgorithm) {
  constexpr unsigned kSeed = 20261;
  std::cout << "seed " << kSeed << "\n";
  std::mt19937_64 random(kSeed + static_cast<unsigned>(GetParam()));
  const auto below = [&](int64_t most) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(most));
  };
  for (int timeline = 0; timeline < 12 && !HasFailure(); ++timeline) {
    commander.connection.Ask({"FLUSHALL"});
    CellShape shape{.algorithm = GetParam(), .config = {}};
    const int64_t limit = 1 + below(timeline % 3 == 0 ? 4 : 40);
    // Intervals and buckets of whole us.
    const int64_t buckets = 1 + below(12);
    const int64_t window_us = limit * buckets * (1 + below(timeline % 2 == 0 ? 50 : 500'000));
    shape.config.rate = {.limit = limit, .window = Duration(window_us * 1000)};
    if (GetParam() == Algorithm::kTokenBucket && below(2) == 0) shape.config.burst = 1 + below(20);
    if (GetParam() == Algorithm::kSlidingBuckets) {
      shape.config.buckets = static_cast<int>(buckets);
    }
    if (GetParam() <= Algorithm::kLeakyBucket && below(2) == 0) {
      shape.config.wait = Duration(below(window_us) * 1000);
    }
    if (below(2) == 0) shape.config.max_debt = below(3 * limit);
    LocalCell local(shape);
    struct Receipt {
      limit::Receipt local;
      int64_t mark;
    };
    std::deque<Receipt> receipts;
    for (int step = 0; step < 150 && !HasFailure(); ++step) {
      const int64_t pace = below(3);
      *commander.now_us += below(pace == 0 ? 3 : pace == 1 ? window_us / limit + 2 : window_us);
      if (below(60) == 0) *commander.now_us += 3 * window_us;
      const Instant now = LocalNow();
      const int64_t kind = below(10);
      const int64_t cost = below(4) == 0 ? below(limit + 3) : below(3);
      const std::string where = "timeline " + std::to_string(timeline) + " step " +
                                std::to_string(step) + " op " + std::to_string(kind) + " cost " +
                                std::to_string(cost) + " limit " + std::to_string(limit) +
                                " window " + std::to_string(window_us) + " debt " +
                                std::to_string(shape.config.max_debt);
      CellReply reply;
      if (kind < 5) {
        const auto count = static_cast<int32_t>(below(3) == 0 ? 1 + below(5) : 1);
        const std::string before = Dump("k");
        reply = Take(shape, cost, count);
        Numbers numbers;
        limit::Receipt receipt;
        limit::Receipt last;
        int32_t granted = 0;
        while (granted < count) {
          numbers = local.Take(now, cost, receipt);
          if (!numbers.allowed) break;
          last = receipt;
          ++granted;
        }
        EXPECT_EQ(reply.granted, granted) << where << " " << commander.last_error;
        ExpectSame(reply.numbers, numbers, where);
        if (granted > 0 && cost > 0) {
          last.cost = cost;
          receipts.push_back({last, reply.mark});
          EXPECT_GT(TtlMs("k"), 2'000) << where;
        } else {
          EXPECT_EQ(Dump("k"), before) << where;
        }
      } else if (kind < 7) {
        const std::string before = Dump("k");
        reply = AskOp(CellOp::kPeek, shape, cost);
        ExpectSame(reply.numbers, local.Look(now, cost), where);
        EXPECT_EQ(Dump("k"), before) << where;
      } else if (kind < 9) {
        if (receipts.empty()) continue;
        const auto at = static_cast<size_t>(below(static_cast<int64_t>(receipts.size())));
        const Receipt receipt = receipts[at];
        receipts.erase(receipts.begin() + static_cast<ptrdiff_t>(at));
        reply = AskOp(CellOp::kGiveBack, shape, receipt.local.cost, receipt.mark);
        local.GiveBack(receipt.local, now);
        ExpectSame(reply.numbers, local.Look(now, 0), where);
      } else {
        reply = AskOp(CellOp::kCharge, shape, cost);
        local.Charge(cost, now);
        ExpectSame(reply.numbers, local.Look(now, 0), where);
      }
      EXPECT_EQ(reply.status, CellReply::Status::kDone) << where << commander.last_error;
      EXPECT_EQ(reply.now_us, *commander.now_us);
      EXPECT_NE(TtlMs("k"), -1) << where;
    }
  }
}

// What waiting gives: the wait that is told is enough, and a us less is not.
TEST_P(CellModelTest, TheWaitIsSufficientAndMinimal) {
  std::mt19937_64 random(31);
  CellShape shape{.algorithm = GetParam(), .config = {}};
  shape.config.rate = {.limit = 7, .window = Duration(7 * 10 * 1000 * 1000)};
  // A queue that all costs fit in.
  if (GetParam() == Algorithm::kLeakyBucket) shape.config.wait = Duration(30 * 1000 * 1000);
  int refused = 0;
  for (int step = 0; step < 150; ++step) {
    *commander.now_us += static_cast<int64_t>(random() % 12'000);
    const auto cost = static_cast<int64_t>(1 + random() % 4);
    const CellReply reply = Take(shape, cost);
    if (reply.granted == 1 || reply.numbers.retry_after == kNever) continue;
    ++refused;
    ASSERT_EQ(reply.numbers.retry_after.count() % 1000, 0);
    const int64_t wait_us = reply.numbers.retry_after.count() / 1000;
    ASSERT_GT(wait_us, 0);
    *commander.now_us += wait_us - 1;
    EXPECT_EQ(Take(shape, cost).granted, 0);
    *commander.now_us += 1;
    EXPECT_EQ(AskOp(CellOp::kPeek, shape, cost).granted, 1);
  }
  EXPECT_GT(refused, 20);
}

// Rules out: numbers that are kept with the state, so that keys in use have the old limit.
TEST_P(CellModelTest, AnotherLimitHoldsForAKeyInUse) {
  constexpr auto kWindow = std::chrono::seconds(60);
  CellShape shape{.algorithm = GetParam(), .config = {}};
  shape.config.rate = {.limit = 5, .window = kWindow};
  if (GetParam() == Algorithm::kLeakyBucket) shape.config.wait = kWindow - kWindow / 5;
  EXPECT_EQ(Take(shape, 1, 10).granted, 5);

  shape.config.rate.limit = 20;
  if (GetParam() == Algorithm::kLeakyBucket) shape.config.wait = kWindow - kWindow / 20;
  EXPECT_EQ(AskOp(CellOp::kPeek, shape, 0).numbers.limit, 20);
  int granted = 0;
  for (int second = 0; second < 60; ++second) {
    if (second > 0) *commander.now_us += 1'000'000;
    granted += Take(shape, 1, 20).granted;
  }
  EXPECT_GE(granted, 15);

  shape.config.rate.limit = 2;
  if (GetParam() == Algorithm::kLeakyBucket) shape.config.wait = kWindow - kWindow / 2;
  const CellReply lowered = Take(shape);
  EXPECT_EQ(lowered.granted, 0);
  EXPECT_EQ(lowered.numbers.limit, 2);
  EXPECT_EQ(lowered.numbers.remaining, 0);
}

// A step back mints nothing, and does not lock the key for as long as the step.
TEST_P(CellModelTest, AStepBackOfTheClockLocksOutForOneQuotaAtMost) {
  CellShape shape{.algorithm = GetParam(), .config = {}};
  shape.config.rate = {.limit = 5, .window = std::chrono::seconds(1)};
  while (Take(shape).granted == 1) {
  }
  *commander.now_us -= int64_t{24} * 3600 * 1'000'000;
  EXPECT_EQ(Take(shape).granted, 0);
  *commander.now_us += 2'200'000;
  EXPECT_EQ(Take(shape).granted, 1);
}

// Gone too early, a key would hand its quota back; in another unit, it would stay for days.
TEST_P(CellModelTest, AKeyLivesAsLongAsItSaysSomethingAndNotMuchLonger) {
  constexpr int64_t kSlackMs = 5'001;
  constexpr int64_t kIdleMs = 5 * 60 * 1000;
  const bool pair =
      GetParam() == Algorithm::kSlidingWindow || GetParam() == Algorithm::kWeightedAverage;
  for (const Duration window :
       {Duration(std::chrono::milliseconds(100)), Duration(std::chrono::minutes(1)),
        Duration(std::chrono::hours(9))}) {
    CellShape shape{.algorithm = GetParam(), .config = {}};
    shape.config.rate = {.limit = 10, .window = window};
    if (GetParam() == Algorithm::kLeakyBucket) shape.config.wait = window / 10 * 9;
    const int64_t window_ms = window / std::chrono::milliseconds(1);
    commander.connection.Ask({"DEL", "k"});
    for (int i = 0; i < 10; ++i) {
      const CellReply reply = Take(shape);
      ASSERT_EQ(reply.granted, 1);
      const int64_t says_ms = reply.numbers.reset_after / std::chrono::milliseconds(1);
      // PTTL is told by the real clock, of which some has passed.
      EXPECT_GE(TtlMs("k") + 1'000, says_ms);
      EXPECT_LE(TtlMs("k"), (pair ? std::max(2 * window_ms, kIdleMs) : says_ms + kSlackMs));
      *commander.now_us += window_ms * 10;
    }
    const std::string before = Dump("k");
    if (Take(shape).granted == 0) {
      EXPECT_EQ(Dump("k"), before) << "a refusal extends nothing";
    }
  }
}

TEST_P(CellModelTest, ALimitOfZeroAndAYearAreNoErrors) {
  CellShape shape{.algorithm = GetParam(), .config = {}};
  shape.config.rate = {.limit = 0, .window = std::chrono::minutes(1)};
  CellReply reply = Take(shape);
  EXPECT_EQ(reply.status, CellReply::Status::kDone) << commander.last_error;
  EXPECT_EQ(reply.granted, 0);
  EXPECT_EQ(reply.numbers.retry_after, kNever);
  EXPECT_EQ(commander.connection.AskNumber({"EXISTS", "k"}), 0);

  shape.config.rate = {.limit = 1, .window = std::chrono::hours(24 * 366)};
  EXPECT_EQ(Take(shape).granted, 1) << commander.last_error;
  reply = Take(shape);
  EXPECT_EQ(reply.status, CellReply::Status::kDone) << commander.last_error;
  EXPECT_EQ(reply.granted, 0);
  EXPECT_GT(reply.numbers.retry_after, Duration::zero());
  EXPECT_LE(reply.numbers.retry_after, 2 * shape.config.rate.window);
}

// What another version or program left there.
TEST_P(CellModelTest, AStateOfAnotherFormIsNoState) {
  CellShape shape{.algorithm = GetParam(), .config = {}};
  shape.config.rate = {.limit = 5, .window = std::chrono::minutes(1)};
  if (GetParam() == Algorithm::kLeakyBucket) shape.config.wait = std::chrono::seconds(48);
  const bool string_form =
      GetParam() != Algorithm::kSlidingLog && GetParam() != Algorithm::kSlidingBuckets;
  for (const std::string_view text :
       {"", "x", "5", "00", "-7", "1e9", "29933 5", "29933 5 5 5", "nan", "\xff\x01", "2993350",
        "99999999999999999999999999999999", "1796000000000000.x"}) {
    if (string_form) {
      commander.connection.Ask({"SET", "k", std::string(text)});
    } else if (GetParam() == Algorithm::kSlidingBuckets) {
      commander.connection.Ask({"DEL", "k"});
      commander.connection.Ask({"HSET", "k", std::string(text), "x"});
    } else {
      continue;  // a list of anything else than instants is an error, told as that
    }
    const CellReply reply = Take(shape, 1, 6);
    EXPECT_EQ(reply.status, CellReply::Status::kDone) << text << ": " << commander.last_error;
    EXPECT_LE(reply.granted, 5) << text;
    EXPECT_GT(TtlMs("k"), 0) << text << " stays for ever";
  }
}

INSTANTIATE_TEST_SUITE_P(All, CellModelTest,
                         ::testing::Values(Algorithm::kTokenBucket, Algorithm::kLeakyBucket,
                                           Algorithm::kSlidingLog, Algorithm::kSlidingBuckets,
                                           Algorithm::kSlidingWindow, Algorithm::kFixedWindow,
                                           Algorithm::kWeightedAverage));

// Debt weighs on the next window: of several requests only those go that would one by one.
TEST_F(CellsTest, WeightedAverageWeighsEachOfSeveralRequests) {
  CellShape shape{.algorithm = Algorithm::kWeightedAverage, .config = {}};
  shape.config.rate = {.limit = 5, .window = std::chrono::seconds(1)};
  shape.config.max_debt = 10;
  *commander.now_us = kStartUs / 1'000'000 * 1'000'000;
  AskOp(CellOp::kCharge, shape, 15);
  // 0.3 * 15 is below 5, and with 0.7 * 1 no longer.
  *commander.now_us += 1'700'000;
  const CellReply reply = Take(shape, 1, 3);
  EXPECT_EQ(reply.granted, 1);
  EXPECT_FALSE(reply.numbers.allowed);
  EXPECT_GT(reply.numbers.retry_after, Duration::zero());
}

// A give-back pays debt also with a unit whose place the debt is to take.
TEST_F(CellsTest, SlidingLogPaysDebtWithTheOldestUnit) {
  CellShape shape{.algorithm = Algorithm::kSlidingLog, .config = {}};
  shape.config.rate = {.limit = 3, .window = std::chrono::seconds(1)};
  shape.config.max_debt = 5;
  const int64_t oldest = Take(shape).mark;
  for (int i = 0; i < 2; ++i) {
    *commander.now_us += 10'000;
    EXPECT_EQ(Take(shape).granted, 1);
  }
  const auto retry_ms = [&] {
    return AskOp(CellOp::kPeek, shape, 1).numbers.retry_after / std::chrono::milliseconds(1);
  };
  EXPECT_EQ(retry_ms(), 980);
  AskOp(CellOp::kCharge, shape, 2);
  EXPECT_EQ(retry_ms(), 1'000);
  AskOp(CellOp::kGiveBack, shape, 1, oldest);
  EXPECT_EQ(retry_ms(), 990);
  AskOp(CellOp::kGiveBack, shape, 1, oldest + 20'000);
  EXPECT_EQ(retry_ms(), 980);
}

}  // namespace
}  // namespace flowguard::quota
