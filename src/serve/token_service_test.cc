// SPDX-License-Identifier: Apache-2.0
//
// Limits that a token server decides: one answer after the other, by a clock that stands.
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "serve/token_service_fixture_test.h"

namespace flowguard::serve {
namespace {

using TokenServiceTest = TokenServiceFixture;

Rule ByValue(int64_t flow_id, int64_t limit) {
  Rule rule = ClusterRule("by-value", flow_id, limit);
  rule.by = {"param:sku"};
  return rule;
}

TEST_F(TokenServiceTest, ALimitIsCountedDownAndThenBlocks) {
  Load({ClusterRule("orders", 1001, 3)});
  EXPECT_EQ(Flows(5, 1001), "OK 2, OK 1, OK 0, BLOCKED, BLOCKED");
}

TEST_F(TokenServiceTest, AQuestionTakesAsManyAsItSays) {
  Load({ClusterRule("orders", 1001, 10)});
  EXPECT_EQ(Flow(1001, 4), "OK 6");
  EXPECT_EQ(Flow(1001, 7), "BLOCKED");
  EXPECT_EQ(Flow(1001, 6), "OK 0");
  EXPECT_EQ(Flow(1001, std::numeric_limits<int32_t>::max()), "BLOCKED");
}

TEST_F(TokenServiceTest, WhatCannotBeAskedIsTold) {
  Load({ClusterRule("orders", 1001, 3)});
  EXPECT_EQ(Flow(9), "NO_RULE_EXISTS");
  EXPECT_EQ(Flow(0), "BAD_REQUEST");
  EXPECT_EQ(Flow(-1001), "BAD_REQUEST");
  EXPECT_EQ(Flow(1001, 0), "BAD_REQUEST");
  EXPECT_EQ(Flow(1001, std::numeric_limits<int32_t>::min()), "BAD_REQUEST");
  Question question = FlowQuestion(1001);
  question.fault = Question::Fault::kBadBody;
  EXPECT_EQ(Told(Ask(question)), "BAD_REQUEST");
  question.fault = Question::Fault::kUnknownType;
  EXPECT_EQ(Told(Ask(question)), "FAIL");
  EXPECT_EQ(Flow(1001), "OK 2");
}

TEST_F(TokenServiceTest, ARuleAnswersItsOwnQuestionsOnly) {
  Load({ClusterRule("orders", 1, 3), ByValue(2, 3), ClusterSlots("slots", 3, 3)});
  EXPECT_EQ(Param(1, {Text("a")}), "NO_RULE_EXISTS");
  EXPECT_EQ(Told(Ask(AcquireQuestion(1))), "NO_RULE_EXISTS");
  EXPECT_EQ(Flow(2), "NO_RULE_EXISTS");
  EXPECT_EQ(Told(Ask(AcquireQuestion(2))), "NO_RULE_EXISTS");
  EXPECT_EQ(Flow(3), "NO_RULE_EXISTS");
  EXPECT_EQ(Param(3, {Text("a")}), "NO_RULE_EXISTS");
}

// Sentinel's dashboard numbers flow rules and param-flow rules each for themselves.
TEST_F(TokenServiceTest, OneNumberMayNameACountOfEachQuestion) {
  Load({ClusterRule("orders", 1, 1), ByValue(1, 2), ClusterSlots("slots", 1, 1)});
  EXPECT_EQ(Flows(2, 1), "OK 0, BLOCKED");
  EXPECT_EQ(Params(3, 1, Text("a")), "OK 1, OK 0, BLOCKED");
  EXPECT_EQ(Told(Ask(AcquireQuestion(1))), "OK 0");
  EXPECT_EQ(Told(Ask(AcquireQuestion(1))), "BLOCKED");
}

// 10 in 10 x 100 ms, asked for as often as they are given.
TEST_F(TokenServiceTest, AWindowSlidesExactly) {
  Load({ClusterRule("orders", 1, 10)});
  std::vector<int> passed;
  for (const int at : {0, 50, 100, 900, 999, 1000, 1050, 1100}) {
    now_ = start_ + milliseconds(at);
    int here = 0;
    while (Ask(FlowQuestion(1)).status == Status::kOk && here < 100)
      ++here;
    passed.push_back(here);
  }
  EXPECT_EQ(passed, (std::vector<int>{10, 0, 0, 0, 0, 10, 0, 0}));
}

// As Sentinel in what is asked; but never more than 10 in any second.
TEST_F(TokenServiceTest, PrioritisedQuestionsWaitForWhatIsToCome) {
  Rule rule = ClusterRule("orders", 1, 10);
  rule.borrow = milliseconds(500);
  Load({rule});
  now_ = start_ + milliseconds(50);
  EXPECT_EQ(Flow(1, 10), "OK 0");
  EXPECT_EQ(Flow(1, 1, true), "BLOCKED");
  now_ = start_ + milliseconds(850);
  EXPECT_EQ(Flows(3, 1, true), "SHOULD_WAIT 200, SHOULD_WAIT 200, SHOULD_WAIT 200");
  EXPECT_EQ(Flow(1), "BLOCKED");
  now_ = start_ + milliseconds(1000);
  EXPECT_EQ(Flow(1), "BLOCKED");
  now_ = start_ + milliseconds(1050);
  EXPECT_EQ(Flows(8, 1), "OK 6, OK 5, OK 4, OK 3, OK 2, OK 1, OK 0, BLOCKED");
}

TEST_F(TokenServiceTest, AWaitIsToldInWholeMillisecondsUp) {
  Rule rule = ClusterRule("orders", 1, 1);
  rule.borrow = seconds(1);
  Load({rule});
  EXPECT_EQ(Flow(1), "OK 0");
  now_ += std::chrono::microseconds(999'999);
  EXPECT_EQ(Flow(1, 1, true), "SHOULD_WAIT 1");
}

TEST_F(TokenServiceTest, PriorityMeansNothingWhereNothingIsLent) {
  Load({ClusterRule("orders", 1, 1)});
  EXPECT_EQ(Flows(2, 1, true), "OK 0, BLOCKED");
}

TEST_F(TokenServiceTest, EachValueHasALimitOfItsOwnAndSomeAnother) {
  Rule rule = ByValue(1, 2);
  rule.overrides = {For(ValueType::kString, "vip", 4), For(ValueType::kInt, "7", 1)};
  Load({rule});
  EXPECT_EQ(Params(3, 1, Text("a")), "OK 1, OK 0, BLOCKED");
  EXPECT_EQ(Params(5, 1, Text("vip")), "OK 3, OK 2, OK 1, OK 0, BLOCKED");
  EXPECT_EQ(Params(2, 1, EncodeTokenValue(ValueType::kInt, "7").value()), "OK 0, BLOCKED");
  EXPECT_EQ(Params(3, 1, EncodeTokenValue(ValueType::kLong, "7").value()), "OK 1, OK 0, BLOCKED");
}

TEST_F(TokenServiceTest, OverridesAreFoundByEveryTypeOfValue) {
  const std::vector<std::pair<ValueType, std::string>> values = {
      {ValueType::kInt, "-7"},     {ValueType::kLong, "7000000000"}, {ValueType::kByte, "-1"},
      {ValueType::kDouble, "0.5"}, {ValueType::kFloat, "0.5"},       {ValueType::kShort, "300"},
      {ValueType::kBool, "true"},  {ValueType::kString, "x"}};
  Rule rule = ByValue(1, 5);
  for (const auto& [type, value] : values)
    rule.overrides.push_back(For(type, value, 1));
  Load({rule});
  for (const auto& [type, value] : values)
    EXPECT_EQ(Param(1, {EncodeTokenValue(type, value).value()}), "OK 0") << value;
  EXPECT_EQ(Param(1, {EncodeTokenValue(ValueType::kInt, "8").value()}), "OK 4");
}

TEST_F(TokenServiceTest, AnOverrideOfNoTypeIsForEveryType) {
  Rule rule = ByValue(1, 5);
  rule.overrides = {For(ValueType::kAny, "7", 1)};
  Load({rule});
  for (const ValueType type : {ValueType::kInt, ValueType::kLong, ValueType::kByte,
                               ValueType::kShort, ValueType::kString}) {
    EXPECT_EQ(Param(1, {EncodeTokenValue(type, "7").value()}), "OK 0");
    EXPECT_EQ(Param(1, {EncodeTokenValue(type, "8").value()}), "OK 4");
  }
}

TEST_F(TokenServiceTest, ListsOfValuesTakeAllOrNothing) {
  Load({ByValue(1, 2)});
  EXPECT_EQ(Param(1, {Text("b"), Text("c")}), "OK -1");
  EXPECT_EQ(Param(1, {Text("b")}), "OK 0");
  EXPECT_EQ(Param(1, {Text("b"), Text("c")}), "BLOCKED");
  EXPECT_EQ(Param(1, {Text("c")}), "OK 0");
  EXPECT_EQ(Param(1, {}), "BAD_REQUEST");
  EXPECT_EQ(Param(1, {Text("d"), Text("d"), Text("d")}), "BLOCKED");
  EXPECT_EQ(Param(1, {Text("d"), Text("d")}), "OK -1");
}

TEST_F(TokenServiceTest, MoreValuesThanARequestHasKeysAreTooMany) {
  Load({ByValue(1, 2)});
  std::vector<std::string> values;
  for (int i = 0; i < 32; ++i)
    values.push_back(Text(std::to_string(i)));
  EXPECT_EQ(Param(1, values), "OK -1");
  values.push_back(Text("32"));
  EXPECT_EQ(Param(1, values), "TOO_MANY_REQUEST");
  EXPECT_EQ(Param(1, {Text("0")}), "OK 0");
}

TEST_F(TokenServiceTest, ValuesThatAreLongerThanAKeyHoldsCountApart) {
  Load({ByValue(1, 1)});
  const std::string long_text(900, 'x');
  EXPECT_EQ(Params(2, 1, Text(long_text)), "OK 0, BLOCKED");
  EXPECT_EQ(Params(2, 1, Text(long_text + "y")), "OK 0, BLOCKED");
}

TEST_F(TokenServiceTest, ALimitPerClientGrowsWithThoseThatAreConnected) {
  Rule rule = ClusterRule("orders", 1, 3);
  rule.cluster.per_client = true;
  Load({rule});
  EXPECT_EQ(Flow(1), "BLOCKED");
  EXPECT_EQ(service_->Join("app-a"), 1);
  EXPECT_EQ(service_->Join("app-b"), 1);
  EXPECT_EQ(service_->Join("app-b"), 2);
  service_->Leave("app-b");
  EXPECT_EQ(Flow(1), "FAIL") << "its clients decide by themselves until they count";
  service_->Look(now_);
  EXPECT_EQ(Flows(7, 1), "OK 5, OK 4, OK 3, OK 2, OK 1, OK 0, BLOCKED");
  service_->Leave("app-a");
  service_->Leave("app-b");
  now_ += kClientsLookEvery;
  service_->Look(now_);
  EXPECT_EQ(Flow(1), "BLOCKED");
}

TEST_F(TokenServiceTest, LimitsPerClientAreMultipliedNowAndThen) {
  Rule rule = ClusterRule("orders", 1, 3);
  rule.cluster.per_client = true;
  Load({rule});
  const auto after = [&](Duration by) {
    static_cast<void>(service_->Join("app"));
    now_ += by;
    service_->Look(now_);
    return service_->engine().Counters().generation;
  };
  const uint64_t first = after({});
  EXPECT_EQ(after(kClientsLookEvery - milliseconds(1)), first);
  EXPECT_EQ(after(milliseconds(1)), first + 1);
  EXPECT_EQ(Flow(1), "OK 8");
  // Who came just before is seen when it is time.
  static_cast<void>(after({}));
  now_ += kClientsLookEvery;
  service_->Look(now_);
  service_->Look(now_);
  EXPECT_EQ(service_->engine().Counters().generation, first + 2);
}

TEST_F(TokenServiceTest, ManyClientsCountInSteps) {
  Rule rule = ClusterRule("orders", 1, 1);
  rule.cluster.per_client = true;
  Load({rule});
  std::set<int64_t> limits;
  for (int64_t clients = 1; clients <= 1'000; ++clients) {
    static_cast<void>(service_->Join("app"));
    now_ += kClientsLookEvery;
    service_->Look(now_);
    const int64_t limit = service_->engine().Rules().rules[0].rate.limit;
    EXPECT_LE(limit, clients);
    EXPECT_GE(limit * 32, clients * 31);
    if (clients < 64) {
      EXPECT_EQ(limit, clients);
    }
    limits.insert(limit);
  }
  EXPECT_LE(limits.size(), 64u + 32u * 4u) << "each is remembered for ever";
}

TEST_F(TokenServiceTest, ClientsOfANamespaceCountForItsOwnRules) {
  Rule rule = ClusterRule("orders", 1, 3);
  rule.cluster.per_client = true;
  rule.by = {"user"};
  rule.overrides = {For(ValueType::kAny, "vip", 5)};
  Rule other = ClusterRule("all", 2, 1);
  other.cluster.per_client = true;
  static_cast<void>(service_->Join("app-a"));
  static_cast<void>(service_->Join("app-a"));
  static_cast<void>(service_->Join("app-b"));
  Load({Space("app-a", {rule}), Space("default", {other})});
  EXPECT_EQ(Param(1, {Text("ann")}), "OK 5");
  EXPECT_EQ(Param(1, {Text("vip")}), "OK 9");
  EXPECT_EQ(Flow(2), "OK 2");
}

// What was counted for two clients counts for three.
TEST_F(TokenServiceTest, ClientsThatComeRefillNothing) {
  for (const Algorithm algorithm :
       {Algorithm::kSlidingLog, Algorithm::kSlidingBuckets, Algorithm::kSlidingWindow}) {
    SCOPED_TRACE(static_cast<int>(algorithm));
    Make({});
    Rule rule = ClusterRule("orders", 1, 2, algorithm);
    rule.cluster.per_client = true;
    static_cast<void>(service_->Join("a"));
    static_cast<void>(service_->Join("a"));
    Load({rule});
    EXPECT_EQ(Flow(1, 4), "OK 0");
    static_cast<void>(service_->Join("a"));
    now_ += kClientsLookEvery;
    service_->Look(now_);
    EXPECT_EQ(Flows(3, 1), "OK 1, OK 0, BLOCKED");
  }
}

TEST_F(TokenServiceTest, AnIrrelevantClientLoadsNothingAnew) {
  Rule rule = ClusterRule("orders", 1, 3);
  Rule counted = ClusterRule("counted", 2, 3);
  counted.cluster.per_client = true;
  Load({Space("default", {rule}), Space("app", {counted})});
  const uint64_t before = service_->engine().Counters().generation;
  static_cast<void>(service_->Join("other"));
  now_ += kClientsLookEvery;
  service_->Look(now_);
  EXPECT_EQ(service_->engine().Counters().generation, before);
  static_cast<void>(service_->Join("app"));
  now_ += kClientsLookEvery;
  service_->Look(now_);
  EXPECT_EQ(service_->engine().Counters().generation, before + 1);
}

TEST_F(TokenServiceTest, ANamespaceBoundsTheQuestionsThatAreDecided) {
  TokenNamespace space = Space("app", {ClusterRule("orders", 1, 1), ByValue(2, 100)});
  space.questions_per_second = 3;
  Load({space, Space("default", {ClusterRule("other", 3, 100)})});
  EXPECT_EQ(Flows(2, 1), "OK 0, BLOCKED");
  EXPECT_EQ(Flow(2), "NO_RULE_EXISTS");
  EXPECT_EQ(Param(2, {Text("a")}), "TOO_MANY_REQUEST");
  EXPECT_EQ(Flow(3), "OK 99");
  EXPECT_EQ(Flow(4), "NO_RULE_EXISTS");
  now_ += milliseconds(334);
  EXPECT_EQ(Param(2, {Text("a")}), "OK 99");
  EXPECT_EQ(Param(2, {Text("a")}), "TOO_MANY_REQUEST");
}

TEST_F(TokenServiceTest, TwoQuestionsASecond) {
  TokenNamespace space = Space("default", {ClusterRule("orders", 1, 100)});
  space.questions_per_second = 2;
  Load({space});
  EXPECT_EQ(Flows(4, 1), "OK 99, OK 98, TOO_MANY_REQUEST, TOO_MANY_REQUEST");
}

TEST_F(TokenServiceTest, RulesInShadowAnswerAsIfThereWereEnough) {
  Rule rule = ClusterRule("orders", 1, 1);
  rule.shadow = true;
  Rule slots = ClusterSlots("slots", 2, 1);
  slots.shadow = true;
  Load({rule, slots});
  EXPECT_EQ(Flows(2, 1), "OK 0, OK 0");
  const engine::EngineCounters counters = service_->engine().Counters();
  EXPECT_EQ(counters.rules.at(0).shadow_refused, 1u);
  const TokenReply first = Ask(AcquireQuestion(2));
  const TokenReply second = Ask(AcquireQuestion(2));
  EXPECT_EQ(Told(first), "OK 0");
  EXPECT_EQ(Told(second), "OK 0");
  EXPECT_EQ(Told(Ask(ReleaseQuestion(second.token_id))), "RELEASE_OK");
  EXPECT_EQ(Told(Ask(ReleaseQuestion(first.token_id))), "RELEASE_OK");
}

TEST_F(TokenServiceTest, DisabledRulesAreNotThere) {
  Rule rule = ClusterRule("orders", 1, 1);
  rule.enabled = false;
  Load({rule, ClusterRule("other", 2, 5)});
  EXPECT_EQ(Flow(1), "NO_RULE_EXISTS");
  EXPECT_EQ(Flow(2), "OK 4");
}

TEST_F(TokenServiceTest, AnswersAreCountedByNamespace) {
  Load({Space("app", {ClusterRule("orders", 1, 2)}), Space("default", {})});
  static_cast<void>(Flows(5, 1));
  static_cast<void>(Flows(4, 9));
  static_cast<void>(Flow(0));
  static_cast<void>(service_->Join("app"));
  static_cast<void>(service_->Join("elsewhere"));
  EXPECT_EQ(Answered("app", Status::kOk), 2u);
  EXPECT_EQ(Answered("app", Status::kBlocked), 3u);
  EXPECT_EQ(Answered("app", Status::kNoRuleExists), 0u);
  EXPECT_EQ(Answered("", Status::kNoRuleExists), 4u);
  EXPECT_EQ(Answered("", Status::kBadRequest), 1u);
  const std::vector<TokenCounts> counted = service_->Counted();
  ASSERT_EQ(counted.size(), 3u);
  EXPECT_EQ(counted[0].name_space, "app");
  EXPECT_EQ(counted[0].clients, 1u);
  EXPECT_EQ(counted[1].name_space, "default");
  EXPECT_EQ(counted[1].clients, 0u);
  EXPECT_EQ(counted[2].name_space, "");
  EXPECT_EQ(counted[2].clients, 1u);
}

}  // namespace
}  // namespace flowguard::serve
