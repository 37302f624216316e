// SPDX-License-Identifier: Apache-2.0
//
// RedisCells over a client on a loop and a real redis-server, and what needs no server.
#include "quota/redis_cells.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "quota/redis/real_server_test.h"

namespace flowguard::quota {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Status = CellReply::Status;
using Server = CellReply::Server;

// Long, so that no test sees the end of one.
constexpr Duration kWindow = hours(24 * 300);

CellShape ShapeFor(Algorithm algorithm, int64_t limit) {
  CellShape shape{.algorithm = algorithm, .config = {}};
  shape.config.rate = {.limit = limit, .window = kWindow};
  // A queue as long as the others' limit.
  if (algorithm == Algorithm::kLeakyBucket) shape.config.wait = kWindow / limit * (limit - 1);
  return shape;
}

CellCall CallFor(CellOp op, std::string_view key, const CellShape& shape, int64_t cost = 1) {
  CellCall call;
  call.op = op;
  call.key = key;
  call.shape = &shape;
  call.cost = cost;
  return call;
}

// What was told, by ticket.
class CellLog final : public CellSink {
 public:
  void OnReplies(uint64_t ticket, std::span<const CellReply> replies) noexcept override {
    const auto [entry, fresh] = told_.emplace(ticket, std::vector(replies.begin(), replies.end()));
    EXPECT_TRUE(fresh) << "ticket " << ticket << " was answered before";
  }
  [[nodiscard]] bool Has(uint64_t ticket) const { return told_.count(ticket) != 0; }
  [[nodiscard]] size_t size() const { return told_.size(); }
  std::vector<CellReply> Of(uint64_t ticket) { return told_[ticket]; }

 private:
  std::map<uint64_t, std::vector<CellReply>> told_;
};

class RedisCellsTest : public redis::RealServerTest {
 protected:
  void SetUp() override {
    Make(server_.url());
    cells_.emplace(*client);
  }

  std::vector<CellReply> AskAll(std::span<const CellCall> calls, bool together = false,
                                Duration within = seconds(5)) {
    const uint64_t ticket = ++last_ticket_;
    cells_->Call(calls, together, SystemClock().Now() + within, ticket, &told_);
    EXPECT_FALSE(told_.Has(ticket)) << "told from inside Call";
    EXPECT_TRUE(WaitUntil([&] { return told_.Has(ticket); }));
    std::vector<CellReply> replies = told_.Of(ticket);
    EXPECT_EQ(replies.size(), calls.size());
    replies.resize(calls.size());
    return replies;
  }
  CellReply AskOne(const CellCall& call, Duration within = seconds(5)) {
    return AskAll({&call, 1}, false, within).front();
  }
  // Units that are free in a cell.
  int64_t FreeOf(std::string_view key, const CellShape& shape) {
    const CellReply reply = AskOne(CallFor(CellOp::kPeek, key, shape, 0));
    EXPECT_EQ(reply.status, Status::kDone);
    return reply.numbers.remaining;
  }

  testing::RedisServer server_;
  CellLog told_;
  std::optional<RedisCells> cells_;
  uint64_t last_ticket_ = 0;
};

class RedisCellsOfTest : public RedisCellsTest, public ::testing::WithParamInterface<Algorithm> {};

TEST_P(RedisCellsOfTest, TakesPeeksGivesBackAndCharges) {
  CellShape shape = ShapeFor(GetParam(), 5);
  shape.config.max_debt = 3;
  CellCall take = CallFor(CellOp::kTake, "k", shape);
  take.count = 3;
  CellReply reply = AskOne(take);
  ASSERT_EQ(reply.status, Status::kDone);
  EXPECT_EQ(reply.granted, 3);
  EXPECT_TRUE(reply.numbers.allowed);
  EXPECT_EQ(reply.numbers.remaining, 2);
  EXPECT_GT(reply.now_us, int64_t{1'700'000'000'000'000});

  EXPECT_EQ(AskOne(CallFor(CellOp::kPeek, "k", shape, 2)).granted, 1);
  reply = AskOne(CallFor(CellOp::kPeek, "k", shape, 3));
  EXPECT_EQ(reply.granted, 0);
  EXPECT_GT(reply.numbers.retry_after, Duration::zero());
  EXPECT_LE(reply.numbers.retry_after, 2 * kWindow);
  EXPECT_EQ(AskOne(CallFor(CellOp::kTake, "k", shape, 6)).numbers.retry_after, kNever);

  take.count = 4;
  reply = AskOne(take);
  EXPECT_EQ(reply.granted, 2);
  EXPECT_FALSE(reply.numbers.allowed);
  EXPECT_EQ(reply.numbers.remaining, 0);

  CellCall back = CallFor(CellOp::kGiveBack, "k", shape);
  back.mark = reply.mark;
  EXPECT_EQ(AskOne(back).numbers.remaining, 1);
  EXPECT_EQ(FreeOf("k", shape), 1);
  EXPECT_EQ(AskOne(CallFor(CellOp::kCharge, "k", shape, 3)).numbers.remaining, 0);
  EXPECT_FALSE(AskOne(CallFor(CellOp::kTake, "k", shape)).numbers.allowed);
  EXPECT_EQ(FreeOf("k", shape), 0);
  EXPECT_EQ(FreeOf("other", shape), 5);
  EXPECT_EQ(cells_->pending(), 0u);
}

INSTANTIATE_TEST_SUITE_P(All, RedisCellsOfTest,
                         ::testing::Values(Algorithm::kTokenBucket, Algorithm::kLeakyBucket,
                                           Algorithm::kSlidingLog, Algorithm::kSlidingBuckets,
                                           Algorithm::kSlidingWindow, Algorithm::kFixedWindow,
                                           Algorithm::kWeightedAverage));

TEST_F(RedisCellsTest, SeveralCallsAreAnsweredInOrder) {
  const CellShape bucket = ShapeFor(Algorithm::kTokenBucket, 9);
  const CellShape exact = ShapeFor(Algorithm::kSlidingLog, 7);
  const CellShape window = ShapeFor(Algorithm::kFixedWindow, 4);
  for (int64_t round = 1; round <= 3; ++round) {
    const std::array<CellCall, 5> calls{
        CallFor(CellOp::kTake, "b", bucket), CallFor(CellOp::kTake, "l", exact, 2),
        CallFor(CellOp::kTake, "w", window, 2), CallFor(CellOp::kPeek, "w", window),
        CallFor(CellOp::kTake, "b", bucket)};
    const std::vector<CellReply> replies = AskAll(calls);
    for (const CellReply& reply : replies)
      EXPECT_EQ(reply.status, Status::kDone);
    EXPECT_EQ(replies[0].numbers.remaining, 9 - 2 * round + 1);
    EXPECT_EQ(replies[1].numbers.remaining, 7 - 2 * round);
    EXPECT_EQ(replies[2].granted, round < 3 ? 1 : 0);
    EXPECT_EQ(replies[3].numbers.allowed, round < 2);
    EXPECT_EQ(replies[4].numbers.remaining, 9 - 2 * round);
  }
}

TEST_F(RedisCellsTest, TogetherIsAllOrNothing) {
  const CellShape wide = ShapeFor(Algorithm::kTokenBucket, 5);
  const CellShape narrow = ShapeFor(Algorithm::kSlidingWindow, 2);
  const CellCall calls[] = {CallFor(CellOp::kTake, "wide", wide),
                            CallFor(CellOp::kTake, "narrow", narrow, 2)};
  std::vector<CellReply> replies = AskAll(calls, true);
  EXPECT_EQ(replies[0].granted, 1);
  EXPECT_EQ(replies[1].granted, 1);
  replies = AskAll(calls, true);
  EXPECT_EQ(replies[0].status, Status::kDone);
  EXPECT_EQ(replies[0].granted, 0);
  EXPECT_TRUE(replies[0].numbers.allowed) << "it would have gone";
  EXPECT_EQ(replies[1].granted, 0);
  EXPECT_FALSE(replies[1].numbers.allowed);
  EXPECT_EQ(FreeOf("wide", wide), 4);

  const CellCall twice[] = {calls[0], calls[0]};
  replies = AskAll(twice, true);
  EXPECT_EQ(replies[0].status, Status::kFailed);
  EXPECT_EQ(replies[1].status, Status::kFailed);
  EXPECT_EQ(FreeOf("wide", wide), 4);
}

TEST_F(RedisCellsTest, LeasesAreCountedUntilTheyAreReturned) {
  for (const Algorithm algorithm :
       {Algorithm::kTokenBucket, Algorithm::kSlidingBuckets, Algorithm::kSlidingWindow,
        Algorithm::kFixedWindow, Algorithm::kWeightedAverage}) {
    const std::string key = "k" + std::to_string(static_cast<int>(algorithm));
    const CellShape shape = ShapeFor(algorithm, 20);
    CellCall lease = CallFor(CellOp::kLease, key, shape, 6);
    lease.overshoot = 10;
    lease.owner = "a";
    const CellReply first = AskOne(lease);
    ASSERT_EQ(first.status, Status::kDone);
    EXPECT_EQ(first.granted, 6);
    EXPECT_GT(first.mark, 0);
    lease.owner = "b";
    EXPECT_EQ(AskOne(lease).granted, 4) << "the overshoot ends it";
    const CellReply refused = AskOne(lease);
    EXPECT_EQ(refused.granted, 0);
    EXPECT_EQ(FreeOf(key, shape), 10);

    CellCall back = CallFor(CellOp::kReturn, key, shape, 5);
    back.mark = first.mark;
    back.owner = "a";
    EXPECT_EQ(AskOne(back).status, Status::kDone);
    EXPECT_EQ(FreeOf(key, shape), 15);
    EXPECT_EQ(AskOne(back).status, Status::kDone) << "it has ended: dropped";
    EXPECT_EQ(FreeOf(key, shape), 15);
    EXPECT_EQ(AskOne(lease).granted, 6);
  }
  const CellShape exact = ShapeFor(Algorithm::kSlidingLog, 20);
  CellCall lease = CallFor(CellOp::kLease, "log", exact, 6);
  lease.overshoot = 10;
  EXPECT_EQ(AskOne(lease).status, Status::kFailed);
}

TEST_F(RedisCellsTest, SlotsAreTakenRenewedReleasedAndExpire) {
  CellShape shape;
  shape.concurrency = true;
  shape.config.rate = {.limit = 2, .window = milliseconds(600)};
  const auto ask = [&](CellOp op, std::string_view owner) {
    CellCall call = CallFor(op, "slots", shape);
    call.owner = owner;
    const CellReply reply = AskOne(call);
    EXPECT_EQ(reply.status, Status::kDone);
    return reply;
  };
  EXPECT_EQ(ask(CellOp::kTake, "a").granted, 1);
  EXPECT_EQ(ask(CellOp::kTake, "b").granted, 1);
  EXPECT_EQ(ask(CellOp::kTake, "c").granted, 0);
  ask(CellOp::kRelease, "a");
  EXPECT_EQ(ask(CellOp::kTake, "c").granted, 1);
  ask(CellOp::kRelease, "nobody");
  EXPECT_EQ(ask(CellOp::kTake, "d").granted, 0);
  // c renews until b, which does not, is gone.
  EXPECT_TRUE(WaitUntil([&] {
    loop->RunOnce(milliseconds(20));
    ask(CellOp::kRenew, "c");
    return ask(CellOp::kPeek, "d").granted == 1;
  }));
  EXPECT_EQ(ask(CellOp::kTake, "d").granted, 1);
  EXPECT_EQ(ask(CellOp::kTake, "e").granted, 0) << "c lives";
  // What was forgotten is held again, and what is known is not held twice.
  server_.Ask({"DEL", "slots"});
  EXPECT_EQ(ask(CellOp::kTake, "c").granted, 1);
  for (int i = 0; i < 2; ++i) {
    CellCall renew = CallFor(CellOp::kRenew, "slots", shape, 2);
    renew.owner = "c";
    EXPECT_EQ(AskOne(renew).status, Status::kDone);
  }
  EXPECT_EQ(ask(CellOp::kTake, "e").granted, 0);
  ask(CellOp::kRelease, "c");
  EXPECT_EQ(ask(CellOp::kTake, "e").granted, 1);
  EXPECT_EQ(AskOne(CallFor(CellOp::kCharge, "slots", shape)).status, Status::kFailed);
  const CellShape bucket = ShapeFor(Algorithm::kTokenBucket, 5);
  const CellReply impossible = AskOne(CallFor(CellOp::kRenew, "k", bucket));
  EXPECT_EQ(impossible.status, Status::kFailed);
  EXPECT_EQ(impossible.server, Server::kNotAsked);
}

TEST_F(RedisCellsTest, ForgottenScriptsAreSentAgain) {
  const CellShape shape = ShapeFor(Algorithm::kTokenBucket, 30);
  const CellShape exact = ShapeFor(Algorithm::kSlidingLog, 30);
  for (int64_t round = 1; round <= 3; ++round) {
    EXPECT_EQ(AskOne(CallFor(CellOp::kTake, "k", shape)).granted, 1);
    const CellCall calls[] = {CallFor(CellOp::kTake, "k", shape),
                              CallFor(CellOp::kTake, "l", exact)};
    EXPECT_EQ(AskAll(calls)[1].numbers.remaining, 30 - 2 * round + 1);
    EXPECT_EQ(AskAll(calls, true)[0].granted, 1);
    EXPECT_EQ(FreeOf("k", shape), 30 - 3 * round);
    EXPECT_EQ(server_.Ask({"SCRIPT", "FLUSH"}), "+OK\r\n");
  }
}

TEST_F(RedisCellsTest, AKeyThatHoldsSomethingElseFailsAlone) {
  server_.Ask({"SADD", "wrong", "member"});
  for (const Algorithm algorithm :
       {Algorithm::kTokenBucket, Algorithm::kLeakyBucket, Algorithm::kSlidingLog,
        Algorithm::kSlidingBuckets, Algorithm::kSlidingWindow, Algorithm::kFixedWindow,
        Algorithm::kWeightedAverage}) {
    const CellShape shape = ShapeFor(algorithm, 5);
    const std::string key = "k" + std::to_string(static_cast<int>(algorithm));
    EXPECT_EQ(AskOne(CallFor(CellOp::kTake, "wrong", shape)).status, Status::kFailed);
    const CellReply peek = AskOne(CallFor(CellOp::kPeek, "wrong", shape));
    EXPECT_EQ(peek.status, Status::kFailed);
    EXPECT_EQ(peek.server, Server::kReplied);
    const CellCall calls[] = {CallFor(CellOp::kTake, key, shape),
                              CallFor(CellOp::kTake, "wrong", shape),
                              CallFor(CellOp::kTake, key, shape)};
    const std::vector<CellReply> replies = AskAll(calls);
    EXPECT_EQ(replies[0].status, Status::kDone);
    EXPECT_EQ(replies[1].status, Status::kFailed);
    EXPECT_EQ(replies[2].status, Status::kDone);
    EXPECT_EQ(replies[2].numbers.remaining, 3);
    for (const CellReply& reply : AskAll({&calls[0], 2}, true))
      EXPECT_EQ(reply.status, Status::kFailed) << "together: nothing is written";
    EXPECT_EQ(FreeOf(key, shape), 3);
    const CellCall wrong[] = {calls[1], calls[1]};
    EXPECT_EQ(AskAll(wrong)[0].status, Status::kFailed);
    EXPECT_EQ(AskAll(wrong)[1].status, Status::kFailed);
  }
  EXPECT_EQ(server_.Ask({"SCARD", "wrong"}), ":1\r\n");
}

// A key that ends just when it is asked for is a new window, and no window gets more.
TEST_F(RedisCellsTest, EveryWindowOfAHotKeyAdmitsItsLimitAndNoMore) {
  constexpr int64_t kLimit = 5;
  constexpr int64_t kWindowUs = 10'000;
  constexpr int64_t kWindows = 60;
  constexpr int64_t kMondayUs = int64_t{4} * 24 * 3600 * 1'000'000;
  CellShape shape{.algorithm = Algorithm::kFixedWindow, .config = {}};
  shape.config.rate = {.limit = kLimit, .window = Duration(kWindowUs * 1000)};
  std::map<int64_t, std::pair<int64_t, int64_t>> windows;  // asked, granted
  for (int64_t first = 0, last = 0; last - first < kWindows;) {
    const CellReply reply = AskOne(CallFor(CellOp::kTake, "hot", shape));
    ASSERT_EQ(reply.status, Status::kDone);
    last = (reply.now_us - kMondayUs) / kWindowUs;
    if (first == 0) first = last;
    ++windows[last].first;
    windows[last].second += reply.granted;
  }
  for (const auto& [window, counts] : windows)
    EXPECT_EQ(counts.second, std::min(counts.first, kLimit)) << "window " << window;
}

TEST_F(RedisCellsTest, AFullMemoryFailsAndLeavesTheCellAsItWas) {
  for (const Algorithm algorithm :
       {Algorithm::kTokenBucket, Algorithm::kSlidingLog, Algorithm::kSlidingBuckets,
        Algorithm::kSlidingWindow, Algorithm::kFixedWindow}) {
    const CellShape shape = ShapeFor(algorithm, 5);
    const std::string key = "k" + std::to_string(static_cast<int>(algorithm));
    ASSERT_EQ(AskOne(CallFor(CellOp::kTake, key, shape, 2)).granted, 1);
    const std::string before = server_.Ask({"DUMP", key});
    EXPECT_EQ(server_.Ask({"CONFIG", "SET", "maxmemory", "1"}), "+OK\r\n");
    const CellReply full = AskOne(CallFor(CellOp::kTake, key, shape));
    EXPECT_EQ(full.status, Status::kFailed);
    EXPECT_EQ(full.server, Server::kReplied);
    EXPECT_EQ(server_.Ask({"CONFIG", "SET", "maxmemory", "0"}), "+OK\r\n");
    EXPECT_EQ(server_.Ask({"DUMP", key}), before);
    EXPECT_EQ(FreeOf(key, shape), 3);
  }
}

TEST_F(RedisCellsTest, WhatAnAbsentServerDidIsUnknownOrNothing) {
  const CellShape shape = ShapeFor(Algorithm::kTokenBucket, 5);
  const CellCall take = CallFor(CellOp::kTake, "k", shape);
  ASSERT_EQ(AskOne(take).status, Status::kDone);
  server_.Pause();
  const CellReply late = AskOne(take, milliseconds(50));
  EXPECT_EQ(late.status, Status::kUnknown);
  EXPECT_EQ(late.server, Server::kAway);
  server_.Resume();
  ASSERT_TRUE(WaitUntil([&] { return AskOne(take).status == Status::kDone; }));

  // The replies to these will be lost.
  server_.Pause();
  const CellCall calls[] = {take, CallFor(CellOp::kTake, "l", shape)};
  const uint64_t ticket = ++last_ticket_;
  cells_->Call(calls, true, SystemClock().Now() + seconds(5), ticket, &told_);
  loop->RunOnce(milliseconds(5));
  server_.Kill();
  ASSERT_TRUE(WaitUntil([&] { return told_.Has(ticket); }));
  EXPECT_EQ(told_.Of(ticket)[0].status, Status::kUnknown);
  EXPECT_EQ(told_.Of(ticket)[1].status, Status::kUnknown);
  ASSERT_TRUE(WaitUntil([&] { return AskOne(take, milliseconds(20)).status == Status::kFailed; }));
  for (const CellReply& reply : AskAll(calls, false, milliseconds(20)))
    EXPECT_EQ(reply.status, Status::kFailed);
  server_.Start();
  ASSERT_TRUE(WaitUntil([&] { return AskOne(take).status == Status::kDone; }));
  EXPECT_EQ(cells_->pending(), 0u);
}

TEST_F(RedisCellsTest, WhatCannotBeAskedFails) {
  const CellShape shape = ShapeFor(Algorithm::kTokenBucket, 100);
  const std::vector<CellCall> calls(base::kCellCallsPerTurnMax + 1,
                                    CallFor(CellOp::kTake, "k", shape));
  for (const CellReply& reply : AskAll(calls))
    EXPECT_EQ(reply.status, Status::kFailed);
  std::vector<CellReply> replies = AskAll({calls.data(), base::kCellCallsPerTurnMax});
  EXPECT_EQ(replies.back().granted, 1);
  const std::string long_key(base::kCellKeyBytesMax + 1, 'k');
  const CellCall mixed[] = {CallFor(CellOp::kTake, long_key, shape), calls[0]};
  replies = AskAll(mixed);
  EXPECT_EQ(replies[0].status, Status::kFailed);
  EXPECT_EQ(replies[1].status, Status::kDone);
  for (const CellReply& reply : AskAll(mixed, true))
    EXPECT_EQ(reply.status, Status::kFailed);
  EXPECT_EQ(AskOne(CallFor(CellOp::kTake, "k", shape, -1)).status, Status::kFailed);
  EXPECT_TRUE(AskAll({}).empty());
}

// Keeps what it is asked.
class HoldingCommander final : public redis::Commander {
 public:
  void Run(const redis::Script& /*script*/, std::span<const std::string_view> /*keys*/,
           const wire::resp::EncodedWords& /*args*/, Instant /*deadline*/, uint64_t ticket,
           redis::ReplySink* sink) noexcept override {
    ++scripts_run;
    held_.emplace_back(ticket, sink);
  }
  void Command(std::string_view /*key*/, std::span<const std::string_view> /*words*/,
               Instant /*deadline*/, uint64_t ticket, redis::ReplySink* sink) noexcept override {
    held_.emplace_back(ticket, sink);
  }
  [[nodiscard]] uint32_t PlaceOf(std::string_view /*key*/) const noexcept override { return 0; }

  void EndAll(redis::Failure failure) {
    for (const auto& [ticket, sink] : std::exchange(held_, {}))
      sink->OnReply(ticket, {.failure = failure, .error = {}, .value = nullptr});
  }

  size_t scripts_run = 0;

 private:
  std::vector<std::pair<uint64_t, redis::ReplySink*>> held_;
};

TEST(RedisCellsBoundTest, MoreThanMayBePendingFail) {
  HoldingCommander commander;
  RedisCells cells(commander);
  CellLog log;
  const CellShape shape = ShapeFor(Algorithm::kTokenBucket, 5);
  const std::array<CellCall, 2> calls{CallFor(CellOp::kTake, "k", shape),
                                      CallFor(CellOp::kTake, "l", shape)};
  for (uint64_t round = 0; round < 2; ++round) {
    commander.scripts_run = 0;
    const uint64_t first = round * 1'000'000;
    for (uint64_t i = 0; i < base::kCellCallsPendingMax + 10; ++i)
      cells.Call(calls, false, Instant{}, first + i, &log);
    EXPECT_EQ(commander.scripts_run, base::kCellCallsPendingMax);
    EXPECT_FALSE(log.Has(first));
    EXPECT_FALSE(log.Has(first + base::kCellCallsPendingMax)) << "told from inside Call";
    commander.EndAll(redis::Failure::kTimeout);
    EXPECT_EQ(log.size(), (round + 1) * (base::kCellCallsPendingMax + 10));
    for (uint64_t i = 0; i < base::kCellCallsPendingMax + 10; ++i) {
      const std::vector<CellReply> replies = log.Of(first + i);
      ASSERT_EQ(replies.size(), 2u);
      const Status status = i < base::kCellCallsPendingMax ? Status::kUnknown : Status::kFailed;
      EXPECT_EQ(replies[0].status, status);
      EXPECT_EQ(replies[1].status, status);
    }
    EXPECT_EQ(cells.pending(), 0u);
  }
}

}  // namespace
}  // namespace flowguard::quota
