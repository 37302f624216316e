// SPDX-License-Identifier: Apache-2.0
//
// Counts that live in a store: it answers, refuses, fails, or is not waited for.
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "net/loop.h"
#include "serve/token_service_fixture_test.h"
#include "testing/fake_quota_store.h"
#include "testing/manual_clock.h"

namespace flowguard::serve {
namespace {

using flowguard::testing::FakeQuotaStore;
using Script = FakeQuotaStore::Script;

class TokenServiceStoreTest : public TokenServiceFixture, public engine::TakeSink {
 protected:
  TokenServiceStoreTest() { MakeShared(2); }
  ~TokenServiceStoreTest() override { End(); }

  void MakeShared(int nodes) {
    TokenServiceOptions options;
    options.shared = true;
    options.nodes = nodes;
    Make(options);
  }

  // As a server does it, whose store answers at once.
  TokenReply Take(const Question& question) {
    TokenReply reply;
    if (service_->Begin(attempt_, question, peer_, dues_, now_, reply)) return reply;
    outcomes_.clear();
    store_.Take(attempt_->remote_takes(), now_, now_ + milliseconds(8), ++ticket_, this);
    service_->Resume(attempt_, TokenService::KeepOf(question), outcomes_, peer_, dues_, now_,
                     reply);
    return reply;
  }
  // As a server does it that ends.
  void End() {
    service_->EndTokens(*dues_, now_);
    dues_->Close();
  }
  std::string Told(const Question& question) { return serve::Told(Take(question)); }

  void OnTaken(uint64_t ticket, std::span<const engine::TakeOutcome> outcomes) noexcept override {
    EXPECT_EQ(ticket, ticket_);
    outcomes_.assign(outcomes.begin(), outcomes.end());
  }

  flowguard::testing::ManualClock clock_;
  std::unique_ptr<net::Loop> loop_ = net::Loop::Create(clock_).value();
  FakeQuotaStore store_;
  std::shared_ptr<StoreDues> dues_ = std::make_shared<StoreDues>(*loop_, store_);
  std::vector<engine::TakeOutcome> outcomes_;
  uint64_t ticket_ = 0;
};

// What several servers admit together is the limit of all their clients.
TEST_F(TokenServiceStoreTest, ALimitPerClientIsEachServersOwn) {
  Rule rule = ClusterRule("orders", 1, 3);
  rule.cluster.per_client = true;
  static_cast<void>(service_->Join("app"));
  static_cast<void>(service_->Join("app"));
  Load({rule});
  EXPECT_EQ(Told(FlowQuestion(1, 6)), "OK 0");
  EXPECT_EQ(Told(FlowQuestion(1)), "BLOCKED");
  EXPECT_EQ(store_.takes(), 0);
}

TEST_F(TokenServiceStoreTest, TheStoreCounts) {
  Load({ClusterRule("orders", 1, 3)});
  EXPECT_EQ(Told(FlowQuestion(1)), "OK 2");
  EXPECT_EQ(Told(FlowQuestion(1, 2)), "OK 0");
  EXPECT_EQ(Told(FlowQuestion(1)), "BLOCKED");
  EXPECT_EQ(Told(FlowQuestion(9)), "NO_RULE_EXISTS");
  EXPECT_EQ(store_.takes(), 3);
  EXPECT_EQ(store_.Held(), 3);
  EXPECT_EQ(Answered("default", Status::kOk), 2u);
  EXPECT_EQ(Answered("default", Status::kBlocked), 1u);
}

TEST_F(TokenServiceStoreTest, ListsOfValuesTakeAllOrNothing) {
  Rule rule = ClusterRule("orders", 1, 2);
  rule.by = {"user"};
  Load({rule});
  const std::string two = Text("a") + Text("b");
  const std::string one = Text("a");
  EXPECT_EQ(Told(ParamQuestion(1, two, 2)), "OK -1");
  EXPECT_EQ(Told(ParamQuestion(1, one, 1)), "OK 0");
  EXPECT_EQ(Told(ParamQuestion(1, two, 2)), "BLOCKED");
  EXPECT_EQ(store_.Held(), 3);
  std::string many;
  for (int i = 0; i < 9; ++i)
    many += Text(std::to_string(i));
  EXPECT_EQ(Told(ParamQuestion(1, many, 9)), "TOO_MANY_REQUEST");
  EXPECT_EQ(store_.Held(), 3);
}

// What a store lends it would have to be asked for twice.
TEST_F(TokenServiceStoreTest, NothingIsLent) {
  Rule rule = ClusterRule("orders", 1, 1);
  rule.borrow = milliseconds(500);
  Load({rule});
  EXPECT_EQ(Told(FlowQuestion(1, 1, true)), "OK 0");
  EXPECT_EQ(Told(FlowQuestion(1, 1, true)), "BLOCKED");
}

TEST_F(TokenServiceStoreTest, WithoutAnAnswerThisServersShareDecides) {
  Load({ClusterRule("orders", 1, 4)});
  std::string told;
  for (int i = 0; i < 3; ++i) {
    store_.Next(Script::kFails);
    told += Told(FlowQuestion(1)) + ", ";
  }
  EXPECT_EQ(told, "OK 1, OK 0, BLOCKED, ");
}

TEST_F(TokenServiceStoreTest, WithoutAnAnswerAndAShareTheClientsDecide) {
  MakeShared(0);
  Load({ClusterRule("orders", 1, 4), ClusterSlots("slots", 2, 1)});
  store_.Next(Script::kFails);
  EXPECT_EQ(Told(FlowQuestion(1)), "FAIL");
  store_.Next(Script::kFails);
  EXPECT_EQ(Told(AcquireQuestion(2)), "FAIL");
  EXPECT_EQ(service_->Tokens().open, 0u);
}

TEST_F(TokenServiceStoreTest, TokensHoldPlacesOfTheStore) {
  Load({ClusterSlots("slots", 1, 2)});
  const TokenReply first = Take(AcquireQuestion(1));
  EXPECT_EQ(first.status, Status::kOk);
  EXPECT_GT(first.token_id, 0);
  EXPECT_EQ(Take(AcquireQuestion(1)).status, Status::kOk);
  EXPECT_EQ(Take(AcquireQuestion(1)).status, Status::kBlocked);
  EXPECT_EQ(store_.Held(), 2);
  EXPECT_EQ(Told(ReleaseQuestion(first.token_id)), "RELEASE_OK");
  EXPECT_EQ(store_.Held(), 1);
  EXPECT_EQ(Told(ReleaseQuestion(first.token_id)), "ALREADY_RELEASE");
  EXPECT_EQ(Take(AcquireQuestion(1)).status, Status::kOk);
}

TEST_F(TokenServiceStoreTest, TokensThatAreOverGoBackToTheStore) {
  Load({ClusterSlots("slots", 1, 2)});
  EXPECT_EQ(Take(AcquireQuestion(1)).status, Status::kOk);
  now_ += seconds(2);
  service_->Expire(now_);
  loop_->RunOnce(Duration::zero());
  EXPECT_EQ(store_.Held(), 0);
  EXPECT_EQ(Take(AcquireQuestion(1, 2)).status, Status::kOk);
  End();
  EXPECT_EQ(store_.Held(), 0);
  EXPECT_EQ(service_->Tokens().open, 0u);
}

TEST_F(TokenServiceStoreTest, ATokenThatCannotBeKeptIsGivenBack) {
  Load({ClusterSlots("slots", 1, 1'000'000)});
  for (size_t i = 0; i < kOpenEntriesPerPeerMax; ++i)
    ASSERT_EQ(Take(AcquireQuestion(1)).status, Status::kOk);
  EXPECT_EQ(Told(AcquireQuestion(1)), "TOO_MANY_REQUEST");
  EXPECT_EQ(store_.Held(), static_cast<int64_t>(kOpenEntriesPerPeerMax));
  End();
  EXPECT_EQ(store_.Held(), 0);
}

TEST_F(TokenServiceStoreTest, WhoHasGoneTakesNothing) {
  Load({ClusterRule("orders", 1, 4)});
  store_.Next(Script::kWhenTold);
  TokenReply reply;
  EXPECT_FALSE(service_->Begin(attempt_, FlowQuestion(1), peer_, dues_, now_, reply));
  store_.Take(attempt_->remote_takes(), now_, now_ + milliseconds(8), ++ticket_, this);
  store_.Abandon(ticket_, true);
  service_->Cancel(*attempt_, now_);
  EXPECT_EQ(store_.Held(), 0);
  EXPECT_EQ(Told(FlowQuestion(1)), "OK 3");
}

TEST_F(TokenServiceStoreTest, ARuleThatGoesWhileTheStoreIsAskedGivesAllBack) {
  Load({ClusterRule("orders", 1, 4), ClusterSlots("slots", 2, 4)});
  for (const Question& question : {FlowQuestion(1), AcquireQuestion(2)}) {
    Load({ClusterRule("orders", 1, 4), ClusterSlots("slots", 2, 4)});
    TokenReply reply;
    EXPECT_FALSE(service_->Begin(attempt_, question, peer_, dues_, now_, reply));
    store_.Take(attempt_->remote_takes(), now_, now_ + milliseconds(8), ++ticket_, this);
    EXPECT_EQ(store_.Held(), 1);
    Load(std::vector<Rule>{});
    service_->Resume(attempt_, TokenService::KeepOf(question), outcomes_, peer_, dues_, now_,
                     reply);
    EXPECT_EQ(serve::Told(reply), "NO_RULE_EXISTS");
    EXPECT_EQ(store_.Held(), 0);
  }
}

}  // namespace
}  // namespace flowguard::serve
