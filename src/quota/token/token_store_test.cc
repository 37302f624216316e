// SPDX-License-Identifier: Apache-2.0
#include "quota/token/token_store.h"

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quota/token/fake_token_server_test.h"
#include "rules/compiled_rule.h"
#include "rules/flow_id.h"
#include "testing/rules.h"

namespace flowguard::quota::token {
namespace {

using namespace std::chrono_literals;
using engine::TakeOutcome;
using ::testing::ElementsAre;
using Ends = std::vector<TakeOutcome::Status>;
constexpr auto kTaken = TakeOutcome::Status::kTaken;
constexpr auto kRefused = TakeOutcome::Status::kRefused;
constexpr auto kFailed = TakeOutcome::Status::kFailed;

struct TokenStoreTest : TokenClientTest, engine::TakeSink {
  void OnTaken(uint64_t ticket, std::span<const TakeOutcome> outcomes) noexcept override {
    ended[ticket].assign(outcomes.begin(), outcomes.end());
  }

  void Make(int count = 1, bool registers = true) {
    TokenStoreOptions options;
    for (int i = 0; i < count; ++i)
      options.servers.push_back(servers.emplace_back(*loop).endpoint());
    options.registers = registers;
    options.nodes = 4;
    options.on_nodes = [this](int nodes) { told_nodes.push_back(nodes); };
    store = std::make_unique<TokenStore>(*loop, std::move(options));
    Greet();
  }
  void Greet() {
    Turn();
    for (FakeTokenServer& server : servers)
      server.Questions();
    Turn();
  }
  // A rule as the engine tells it.
  const rules::CompiledRule& RuleOf(std::string name, int64_t flow_id = 0,
                                    RuleKind kind = RuleKind::kLimit) {
    rules::CompiledRule& compiled = rules.emplace_back();
    compiled.rule = testing::LimitRule(std::move(name), 10, 1s);
    compiled.rule.kind = kind;
    compiled.rule.scope = Scope::kCluster;
    compiled.rule.cluster.flow_id = flow_id;
    return compiled;
  }
  static engine::RemoteTake TakeOf(const rules::CompiledRule& rule, int64_t cost = 1,
                                   std::string_view key = "12345678") {
    return {.rule = &rule, .key = key, .config = {.rate = rule.rule.rate}, .cost = cost};
  }
  void Take(uint64_t ticket, const std::vector<engine::RemoteTake>& takes) {
    store->Take(takes, loop->Now(), loop->Now() + 50ms, ticket, this);
    Turn();
  }
  [[nodiscard]] Ends EndsOf(uint64_t ticket) const {
    Ends ends;
    for (const TakeOutcome& outcome : ended.at(ticket))
      ends.push_back(outcome.status);
    return ends;
  }

  std::deque<FakeTokenServer> servers;
  std::deque<rules::CompiledRule> rules;
  std::unique_ptr<TokenStore> store;
  std::map<uint64_t, std::vector<TakeOutcome>> ended;
  std::vector<int> told_nodes;
};

TEST_F(TokenStoreTest, AnswersAreOutcomes) {
  Make();
  const rules::CompiledRule& rule = RuleOf("orders", 1001);
  struct Case {
    Status status;
    TakeOutcome::Status outcome;
  };
  uint64_t ticket = 0;
  for (const Case& one :
       {Case{Status::kOk, kTaken}, Case{Status::kShouldWait, kTaken},
        Case{Status::kBlocked, kRefused}, Case{Status::kNoRuleExists, kFailed},
        Case{Status::kNoRefRuleExists, kFailed}, Case{Status::kFail, kFailed},
        Case{Status::kTooManyRequests, kFailed}, Case{Status::kBadRequest, kFailed},
        Case{Status::kNotAvailable, kFailed}}) {
    Take(++ticket, {TakeOf(rule, 2)});
    const std::vector<Asked> asked = servers[0].Questions();
    ASSERT_EQ(asked.size(), 1u);
    EXPECT_EQ(asked[0].flow_id, 1001);
    EXPECT_EQ(asked[0].count, 2);
    servers[0].Answer(asked[0], one.status, 7, one.status == Status::kShouldWait ? 200 : 0);
    Turn();
    EXPECT_EQ(EndsOf(ticket), Ends{one.outcome}) << static_cast<int>(one.status);
  }
  EXPECT_EQ(ended[1][0].numbers.remaining, 7);
  EXPECT_EQ(ended[1][0].numbers.limit, 10);
  EXPECT_EQ(ended[1][0].numbers.reset_after, 1s);
  EXPECT_EQ(ended[2][0].numbers.wait, 200ms);
  EXPECT_EQ(ended[3][0].numbers.retry_after, 1s);
  EXPECT_EQ(store->status().granted, 2u);
  EXPECT_EQ(store->status().refused, 1u);
  EXPECT_EQ(store->status().failed, 6u);
}

TEST_F(TokenStoreTest, ARuleWithoutANumberIsAskedByItsName) {
  Make();
  const rules::CompiledRule& rule = RuleOf("by name");
  Take(1, {TakeOf(rule)});
  EXPECT_EQ(servers[0].Questions().at(0).flow_id, rules::FlowIdOf(rule.rule));
}

TEST_F(TokenStoreTest, AKeyIsToldAsItsValue) {
  Make();
  rules::CompiledRule& rule = const_cast<rules::CompiledRule&>(RuleOf("by tenant", 5));
  rule.rule.by = {"tenant"};
  using std::string_literals::operator""s;
  const std::string key = "12345678\x05\x04"s + "acme";
  Take(1, {TakeOf(rule, 1, key)});
  const std::vector<Asked> asked = servers[0].Questions();
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].type, static_cast<int8_t>(Type::kParamFlow));
  std::string value;
  wire::token::AppendStringValue("acme", value);
  EXPECT_EQ(asked[0].values, value);
}

TEST_F(TokenStoreTest, TakesOfARequestAreAskedInTurnAndNotBehindARefusal) {
  Make();
  const std::vector<engine::RemoteTake> takes = {TakeOf(RuleOf("a", 1)), TakeOf(RuleOf("b", 2)),
                                                 TakeOf(RuleOf("c", 3))};
  Take(1, takes);
  std::vector<Asked> asked = servers[0].Questions();
  ASSERT_EQ(asked.size(), 1u);
  servers[0].Answer(asked[0], Status::kOk, 3);
  Turn();
  asked = servers[0].Questions();
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].flow_id, 2);
  servers[0].Answer(asked[0], Status::kBlocked);
  Turn();
  EXPECT_TRUE(servers[0].Questions().empty());
  EXPECT_EQ(EndsOf(1), (Ends{kTaken, kRefused, kTaken}));
  EXPECT_EQ(ended[1][0].receipt.cost, 0) << "nothing of it is held";
  EXPECT_EQ(store->status().lost, 1u);
}

TEST_F(TokenStoreTest, ARefusalThatStopsNothingIsNoReasonNotToAsk) {
  Make();
  for (const bool shadow : {true, false}) {
    rules::CompiledRule& soft = rules.emplace_back(rules::CompiledRule{RuleOf("soft", 1)});
    soft.rule.shadow = shadow;
    soft.rule.degrade.enabled = !shadow;
    Take(1, {TakeOf(soft), TakeOf(RuleOf("b", 2))});
    servers[0].Answer(servers[0].Questions().at(0), Status::kBlocked);
    Turn();
    const std::vector<Asked> asked = servers[0].Questions();
    ASSERT_EQ(asked.size(), 1u);
    servers[0].Answer(asked[0], Status::kOk);
    Turn();
    EXPECT_EQ(EndsOf(1), (Ends{kRefused, kTaken}));
  }
}

TEST_F(TokenStoreTest, BehindItsDeadlineNothingMoreIsAsked) {
  Make();
  Take(1, {TakeOf(RuleOf("a", 1)), TakeOf(RuleOf("b", 2))});
  EXPECT_EQ(servers[0].Questions().size(), 1u);
  Advance(20ms);
  EXPECT_EQ(EndsOf(1), (Ends{kFailed, kFailed}));
  EXPECT_TRUE(servers[0].Questions().empty());
}

TEST_F(TokenStoreTest, ATokenGoesBackWhenAnotherRuleRefusesAndWithItsReceipt) {
  Make();
  const rules::CompiledRule& slots = RuleOf("slots", 9, RuleKind::kConcurrency);
  Take(1, {TakeOf(slots), TakeOf(RuleOf("b", 2))});
  servers[0].AnswerToken(servers[0].Questions().at(0), Status::kOk, 4711);
  Turn();
  servers[0].Answer(servers[0].Questions().at(0), Status::kBlocked);
  Turn();
  EXPECT_EQ(servers[0].Questions().at(0).token_id, 4711);
  EXPECT_EQ(store->status().lost, 0u);

  Take(2, {TakeOf(slots)});
  servers[0].AnswerToken(servers[0].Questions().at(0), Status::kOk, 4712);
  Turn();
  store->GiveBack(TakeOf(slots), ended[2][0].receipt, loop->Now());
  Turn();
  EXPECT_EQ(servers[0].Questions().at(0).token_id, 4712);
}

TEST_F(TokenStoreTest, APeekIsAnsweredUnaskedAndACostThatCannotBeSentFailsAlone) {
  Make();
  const rules::CompiledRule& rule = RuleOf("a", 1);
  Take(1, {TakeOf(rule, 0), TakeOf(rule, int64_t{1} << 32), TakeOf(rule)});
  const std::vector<Asked> asked = servers[0].Questions();
  ASSERT_EQ(asked.size(), 1u);
  servers[0].Answer(asked[0], Status::kOk);
  Turn();
  EXPECT_EQ(EndsOf(1), (Ends{kTaken, kFailed, kTaken}));
  EXPECT_EQ(ended[1][0].numbers.remaining, 10);
  EXPECT_EQ(ended[1][0].receipt.cost, 0);
  EXPECT_EQ(store->status().failed, 1u);
}

TEST_F(TokenStoreTest, FailsAtOnceWhileNoServerAnswersAndInTimeOnceOneIsSilent) {
  Make();
  const rules::CompiledRule& rule = RuleOf("a", 1);
  for (uint64_t ticket = 1; ticket <= 5; ++ticket) {
    Take(ticket, {TakeOf(rule)});
    EXPECT_FALSE(ended.contains(ticket));
    Advance(20ms);
    EXPECT_EQ(EndsOf(ticket), Ends{kFailed}) << "by the time-out, not the caller's 50 ms";
  }
  Take(6, {TakeOf(rule)});
  EXPECT_EQ(EndsOf(6), Ends{kFailed}) << "at once";
  EXPECT_EQ(store->status().server, -1);
  EXPECT_EQ(store->status().failed_away, 1u);
}

TEST_F(TokenStoreTest, AnotherServerTakesOverAndThePreferredOneComesBack) {
  Make(2);
  const rules::CompiledRule& rule = RuleOf("a", 1);
  Take(1, {TakeOf(rule)});
  EXPECT_EQ(servers[0].Questions().size(), 1u);
  servers[0].Down();
  Turn();
  EXPECT_EQ(EndsOf(1), Ends{kFailed}) << "whether it was counted is not known";
  Take(2, {TakeOf(rule)});
  ASSERT_EQ(servers[1].Questions().size(), 1u) << "with the next request";
  EXPECT_EQ(store->status().server, 1);

  servers[0].Up();
  Advance(500ms);
  Greet();
  Take(3, {TakeOf(rule)});
  EXPECT_EQ(servers[1].Questions().size(), 1u) << "it has just come";
  Advance(kSettle);
  Take(4, {TakeOf(rule)});
  EXPECT_EQ(servers[0].Questions().size(), 1u);
  EXPECT_EQ(store->status().server, 0);
}

TEST_F(TokenStoreTest, TellsHowManyClientsShareTheLimits) {
  Make();
  EXPECT_EQ(store->Nodes(), 1);
  servers[0].clients = 12;
  Advance(5s);
  Greet();
  EXPECT_EQ(store->Nodes(), 12);
  EXPECT_THAT(told_nodes, ElementsAre(1, 12));
}

TEST_F(TokenStoreTest, FewerClientsAreBelievedTheSecondTime) {
  Make();
  servers[0].clients = 12;
  Advance(5s);
  Greet();
  for (const int nodes : {12, 3}) {
    servers[0].clients = 3;
    Advance(5s);
    Greet();
    EXPECT_EQ(store->Nodes(), nodes);
  }
}

TEST_F(TokenStoreTest, OneThatDoesNotRegisterKnowsTheNodesItWasTold) {
  Make(1, /*registers=*/false);
  EXPECT_EQ(store->Nodes(), 4);
  EXPECT_THAT(servers[0].names(), ElementsAre(""));
}

TEST_F(TokenStoreTest, WhoHasGoneIsNotToldAndHisTokenGoesBack) {
  Make();
  const rules::CompiledRule& slots = RuleOf("slots", 9, RuleKind::kConcurrency);
  Take(1, {TakeOf(slots)});
  const Asked asked = servers[0].Questions().at(0);
  store->Abandon(1, /*refused=*/true);
  servers[0].AnswerToken(asked, Status::kOk, 99);
  Turn();
  EXPECT_TRUE(ended.empty());
  EXPECT_EQ(servers[0].Questions().at(0).token_id, 99);
  EXPECT_EQ(store->pending(), 0u);

  Take(2, {TakeOf(slots)});
  store->Abandon(2, /*refused=*/false);
  servers[0].AnswerToken(servers[0].Questions().at(0), Status::kOk, 100);
  Turn();
  EXPECT_TRUE(servers[0].Questions().empty()) << "the request went";
}

}  // namespace
}  // namespace flowguard::quota::token
