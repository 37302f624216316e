// SPDX-License-Identifier: Apache-2.0
//
// Questions whose counts lie in a store: it answers at once, late, never, or to nobody any
// more.
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/bounds.h"
#include "serve/token_fixture_test.h"

namespace flowguard::serve {
namespace {

using flowguard::testing::FakeQuotaStore;
using flowguard::testing::SocketClient;
using std::chrono::milliseconds;
using std::chrono::seconds;
using wire::token::Answer;
using wire::token::Status;
using Script = FakeQuotaStore::Script;

// A client that waits longer has given up on the answer.
constexpr Duration kPatience = milliseconds(12);

Rule Stored(int64_t limit) {
  Rule rule = FlowRule(1, limit);
  rule.algorithm = Algorithm::kTokenBucket;
  return rule;
}

// A door whose counts lie in a store, and one client.
struct StoredDoor : Door {
  // `nodes`: token servers that have a share each while the store is away; 0: none has.
  explicit StoredDoor(Rule rule, int nodes = 0) : Door({std::move(rule)}, {}, true, nodes) {}
  // Sends questions whose takes stay open.
  void SendAndWait(std::string_view bytes, int takes, Script script = Script::kWhenTold) {
    for (int i = 0; i < takes; ++i)
      store().Next(script);
    const int before = store().takes();
    EXPECT_EQ(Ask(client, bytes), "");
    EXPECT_EQ(store().takes(), before + takes);
  }
  std::vector<Answer> Told(size_t answers = 1) {
    store().AnswerAll();
    return Answers(answers);
  }
  // What has come when there are as many as that.
  std::vector<Answer> Answers(size_t answers = 1) {
    constexpr size_t kAnswerBytes = 16;
    Until([&] { return client.Poll().size() >= answers * kAnswerBytes; });
    Turn();
    return AnswersOf(client.Poll());
  }

  SocketClient& client = Connect();
};

std::string Flows(int32_t first, int32_t count) {
  std::string frames;
  for (int32_t i = 0; i < count; ++i)
    frames += Flow(first + i, 1);
  return frames;
}

// --- answers

TEST(TokenStoreTest, TheStoreDecides) {
  StoredDoor door(Stored(2));
  const std::vector<Answer> answers = door.AskAll(door.client, Flows(1, 3));
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_EQ(answers[0].status, Status::kOk);
  EXPECT_EQ(answers[0].remaining, 1);
  EXPECT_EQ(answers[1].status, Status::kOk);
  EXPECT_EQ(answers[2].status, Status::kBlocked);
  EXPECT_EQ(door.store().Held(), 2);
  EXPECT_EQ(door.counters().waited, 3u);
  EXPECT_EQ(door.counters().waiting, 0);
  EXPECT_EQ(door.server().buffers().lent_bytes(), 0u);
}

TEST(TokenStoreTest, AnswersComeAsTheStoreGivesThemAndOthersOvertakeThem) {
  StoredDoor door(Stored(10));
  for (int i = 0; i < 3; ++i)
    door.store().Next(Script::kWhenTold);
  const std::vector<Answer> at_once =
      door.AskAll(door.client, Flows(1, 2) + Flow(3, 99) + Flow(4, 1));
  ASSERT_EQ(at_once.size(), 1u);
  EXPECT_EQ(at_once[0].xid, 3);
  EXPECT_EQ(at_once[0].status, Status::kNoRuleExists);
  EXPECT_EQ(door.counters().waiting, 3);

  door.client.Forget();
  const std::vector<Answer> later = door.Told(3);
  ASSERT_EQ(later.size(), 3u);  // the last first
  EXPECT_EQ(later[0].xid, 4);
  EXPECT_EQ(later[1].xid, 2);
  EXPECT_EQ(later[2].xid, 1);
}

TEST(TokenStoreTest, AnAnswerThatComesTwiceIsOne) {
  StoredDoor door(Stored(10));
  door.store().Next(Script::kTwice);
  EXPECT_EQ(door.AskAll(door.client, Flow(1, 1)).size(), 1u);
  EXPECT_EQ(door.AskAll(door.client, Flow(2, 1)).size(), 1u);
}

TEST(TokenStoreTest, AnAnswerFromAnotherThreadIsTaken) {
  StoredDoor door(Stored(10));
  door.store().Next(Script::kFromThread);
  door.Ask(door.client, Flow(1, 1));
  ASSERT_EQ(door.Answers().size(), 1u);
  EXPECT_EQ(door.Answers()[0].status, Status::kOk);
}

// --- a store that does not answer

TEST(TokenStoreTest, WithoutAnAnswerTheShareDecidesBeforeTheClientGivesUp) {
  StoredDoor closed(Stored(10));
  closed.SendAndWait(Flow(1, 1), 1);
  closed.Advance(kPatience);
  ASSERT_EQ(closed.Answers().size(), 1u);
  EXPECT_EQ(closed.Answers()[0].status, Status::kFail);
  EXPECT_EQ(closed.store().abandoned(), 1);
  EXPECT_EQ(closed.store().Held(), 0);
  EXPECT_EQ(closed.counters().store_failed, 1u);

  StoredDoor local(Stored(10), 2);  // its share is 5
  local.SendAndWait(Flow(1, 1, 5) + Flow(2, 1), 2);
  local.Advance(kPatience);
  const std::vector<Answer> answers = local.Answers(2);
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0].status, Status::kOk);
  EXPECT_EQ(answers[1].status, Status::kBlocked);
}

TEST(TokenStoreTest, UntilItsDeadlineTheStoreIsLeftTheTime) {
  StoredDoor door(Stored(10));
  door.SendAndWait(Flow(1, 1), 1);
  door.Advance(TokenServerOptions{}.store_deadline + milliseconds(1));
  EXPECT_EQ(door.store().abandoned(), 0);
  ASSERT_EQ(door.Told().size(), 1u);
  EXPECT_EQ(door.Answers()[0].status, Status::kOk);
  EXPECT_EQ(door.store().Held(), 1);
}

TEST(TokenStoreTest, AStoreThatFailsIsAnsweredForAtOnce) {
  StoredDoor door(Stored(10));
  door.store().Next(Script::kFails);
  const std::vector<Answer> answers = door.AskAll(door.client, Flow(1, 1));
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].status, Status::kFail);
  EXPECT_EQ(door.counters().store_failed, 1u);
}

TEST(TokenStoreTest, AnAnswerThatMeetsTheGivingUpIsTakenAndIsTheOnlyOne) {
  StoredDoor door(Stored(10));
  door.SendAndWait(Flow(1, 1), 1, Script::kAfterGivingUp);
  door.Advance(kPatience);
  ASSERT_EQ(door.Answers().size(), 1u);
  EXPECT_EQ(door.Answers()[0].status, Status::kOk);
  EXPECT_EQ(door.store().Held(), 1);
  door.Advance(seconds(1));
  EXPECT_EQ(door.Answers().size(), 1u);
}

// --- clients that leave

TEST(TokenStoreTest, WhatTheStoreGrantsToOneWhoLeftGoesBack) {
  StoredDoor door(Stored(10));
  door.SendAndWait(Flow(1, 1), 1);
  door.client.Reset();
  EXPECT_TRUE(door.Until([&] { return door.counters().open == 0; }));
  SocketClient& next = door.Connect();  // has the other's place now
  door.store().AnswerAll();
  door.Turn();
  EXPECT_EQ(door.store().Held(), 0);
  EXPECT_EQ(door.counters().waiting, 0);
  EXPECT_EQ(next.Poll(), "");
  EXPECT_EQ(door.AskAll(next, Flow(7, 1)).size(), 1u);
}

TEST(TokenStoreTest, WhoLeftIsForgottenWithTheDeadline) {
  StoredDoor door(Stored(10));
  door.SendAndWait(Flow(1, 1), 1);
  door.client.Reset();
  EXPECT_TRUE(door.Until([&] { return door.counters().open == 0; }));
  door.Advance(kPatience);
  EXPECT_EQ(door.store().abandoned(), 1);
  EXPECT_EQ(door.store().Held(), 0);
  EXPECT_EQ(door.counters().waiting, 0);
}

// --- bounds

TEST(TokenStoreTest, OneConnectionHasABoundedNumberOfQuestionsWithTheStore) {
  constexpr auto kMost = static_cast<int>(base::kTokenWaitingPerConnectionMax);
  constexpr int kMore = 100;
  StoredDoor door(Stored(1'000'000));
  door.SendAndWait(Flows(0, kMost + kMore), kMost);
  EXPECT_GE(door.counters().paused, 1u);
  const std::vector<Answer> answers = door.Told(kMost + kMore);
  std::set<int32_t> xids;
  for (const Answer& answer : answers)
    xids.insert(answer.xid);
  EXPECT_EQ(answers.size(), static_cast<size_t>(kMost + kMore));
  EXPECT_EQ(xids.size(), answers.size());
}

TEST(TokenStoreTest, WhenAllPlacesAreTakenNobodyWaits) {
  constexpr auto kEach = static_cast<int>(base::kTokenWaitingPerConnectionMax);
  constexpr auto kClients = static_cast<int>(base::kTokenWaitingMax) / kEach;
  StoredDoor door(Stored(1'000'000));
  door.SendAndWait(Flows(0, kEach), kEach);
  for (int i = 1; i < kClients; ++i) {
    for (int j = 0; j < kEach; ++j)
      door.store().Next(Script::kWhenTold);
    EXPECT_EQ(door.Ask(door.Connect(), Flows(0, kEach)), "");
  }
  EXPECT_EQ(door.counters().waiting, int64_t{base::kTokenWaitingMax});
  const std::vector<Answer> answers = door.AskAll(door.Connect(), Flow(1, 1));
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].status, Status::kFail);
  EXPECT_EQ(door.Told(kEach).size(), static_cast<size_t>(kEach));
}

// --- ends

TEST(TokenStoreTest, WhoSendsNoMoreGetsAllThatItAskedFor) {
  constexpr auto kMost = static_cast<int>(base::kTokenWaitingPerConnectionMax);
  StoredDoor door(Stored(1'000'000));
  for (int i = 0; i < kMost; ++i)
    door.store().Next(Script::kWhenTold);
  door.client.Send(Flows(0, kMost + 10));
  door.client.ShutdownWrites();
  EXPECT_TRUE(door.Until([&] { return door.store().takes() == kMost; }));
  EXPECT_EQ(door.Told(kMost + 10).size(), static_cast<size_t>(kMost + 10));
  EXPECT_TRUE(door.Ended(door.client));
}

TEST(TokenStoreTest, ADrainWaitsForTheStore) {
  StoredDoor door(Stored(10));
  door.SendAndWait(Flow(1, 1), 1);
  door.server().Drain(seconds(10));
  door.Turn();
  EXPECT_FALSE(door.client.ended());
  EXPECT_EQ(door.Told().size(), 1u);
  EXPECT_TRUE(door.Ended(door.client));
}

TEST(TokenStoreTest, TheEndOfADrainCutsOffAndCounts) {
  StoredDoor door(Stored(10));
  door.SendAndWait(Flow(1, 1), 1);
  door.server().Drain(milliseconds(5));
  door.Advance(milliseconds(5));
  EXPECT_TRUE(door.Ended(door.client));
  EXPECT_EQ(door.counters().cut_off, 1u);
  EXPECT_FALSE(door.server().drained());  // the store is still asked
  door.Advance(kPatience);
  EXPECT_TRUE(door.server().drained());
  EXPECT_EQ(door.store().Held(), 0);
}

TEST(TokenStoreTest, AServerThatEndsGivesBackWhatIsUnderWayAndWhatTokensHold) {
  StoredDoor door(Stored(10));
  door.SendAndWait(Flow(1, 1), 1);
  door.EndServer();
  EXPECT_EQ(door.store().abandoned(), 1);
  EXPECT_EQ(door.store().Held(), 0);

  Rule slots = Stored(1);
  slots.kind = RuleKind::kConcurrency;
  slots.rate = {};
  slots.concurrency = 2;
  StoredDoor holding(slots);
  std::string acquire;
  wire::token::AppendConcurrentAcquire(1, 1, 1, acquire);
  EXPECT_EQ(holding.AskAll(holding.client, acquire)[0].status, Status::kOk);
  EXPECT_EQ(holding.store().Held(), 1);
  holding.EndServer();
  EXPECT_EQ(holding.store().Held(), 0);
}

}  // namespace
}  // namespace flowguard::serve
