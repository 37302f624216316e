// SPDX-License-Identifier: Apache-2.0
//
// Questions whose decision needs a store: it answers at once, late, never, or to nobody
// any more; and what entries give back to it, whoever ends them.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/decision_api.h"
#include "serve/handler_client_test.h"
#include "serve/store_patience.h"
#include "testing/fake_quota_store.h"
#include "testing/manual_clock.h"
#include "testing/rules.h"

namespace flowguard::serve {
namespace {

using flowguard::testing::FakeQuotaStore;
using flowguard::testing::SharedRule;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using Script = FakeQuotaStore::Script;

// With a deadline of 20 ms.
constexpr Duration kOverdue = milliseconds(21) + kStoreTellMax;

Rule Shared(int64_t limit, StoreFailurePolicy policy = StoreFailurePolicy::kClosed) {
  return SharedRule("shared", limit, hours(1), policy);
}

Rule SharedSlots(int64_t most) {
  Rule rule = flowguard::testing::ConcurrencyRule("slots", most);
  rule.scope = Scope::kShared;
  rule.on_store_failure = StoreFailurePolicy::kClosed;
  return rule;
}

// What the workers of a server share.
struct Ground {
  explicit Ground(std::vector<Rule> rules) {
    RuleSet set;
    set.rules = std::move(rules);
    EXPECT_TRUE(engine->Load(set).ok());
  }
  int64_t InFlight(size_t rule) const { return engine->Counters().rules.at(rule).inflight; }

  static engine::EngineOptions WithStore() {
    engine::EngineOptions options;
    options.remote_allowed = true;
    options.fallback_nodes = 2;
    return options;
  }

  flowguard::testing::ManualClock clock;
  std::unique_ptr<engine::Engine> engine = engine::Engine::Create(WithStore()).value();
  OpenEntries entries{*engine, 2, 2};
};

// One worker: a loop with its store, the API, and a client.
struct Worker {
  explicit Worker(Ground& on) : ground(on) {}

  void Advance(Duration by) {
    ground.clock.Advance(by);
    Turn();
  }
  void Turn() {
    for (int i = 0; i < 3; ++i)
      loop->RunOnce(Duration::zero());
  }
  // Sends a request whose take stays open.
  void SendAndWait(std::string_view request, Script script) {
    store.Next(script);
    const int before = store.takes();
    client->Send(request);
    EXPECT_EQ(client->Receive(), "");
    EXPECT_EQ(store.takes(), before + 1);
  }
  std::string Enter() { return client->Post("/v1/enter", R"({"resource":"r","ttl_ms":1000})"); }
  std::string Exit(const std::string& entered, const std::string& more = "") {
    const size_t at = entered.find("\"id\":\"");
    EXPECT_NE(at, std::string::npos) << entered;
    return client->Post("/v1/exit", R"({"id":")" + entered.substr(at + 6, 32) + "\"" + more + "}");
  }
  // As the end of a process does it.
  void End() {
    client = nullptr;
    api = nullptr;
  }

  Ground& ground;
  FakeQuotaStore store;
  std::unique_ptr<net::Loop> loop = net::Loop::Create(ground.clock).value();
  DecisionApiOptions options;
  std::unique_ptr<DecisionApi> api =
      std::make_unique<DecisionApi>(*loop, *ground.engine, ground.entries, options, &store);
  std::unique_ptr<HandlerClient> client = std::make_unique<HandlerClient>(*loop, *api);
};

constexpr std::string_view kAuth = "GET /v1/auth HTTP/1.1\r\nHost: x\r\n\r\n";
constexpr std::string_view kCheck =
    "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\n\r\n{\"resource\":\"r\"}";
constexpr std::string_view kEnter =
    "POST /v1/enter HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\n\r\n{\"resource\":\"r\"}";

// --- answers

TEST(DecisionApiStoreTest, TheStoreDecidesWhicheverWayItIsAsked) {
  Ground ground({Shared(3)});
  Worker worker(ground);

  EXPECT_EQ(StatusOf(worker.client->Ask(kAuth)), "200");
  EXPECT_THAT(worker.client->Ask(kCheck), HasSubstr(R"("allowed":true)"));
  EXPECT_THAT(worker.client->Ask(kEnter), HasSubstr(R"("allowed":true)"));
  EXPECT_EQ(worker.store.Held(), 3);

  EXPECT_EQ(StatusOf(worker.client->Ask(kAuth)), "429");
  EXPECT_THAT(worker.client->Ask(kCheck), HasSubstr(R"("allowed":false)"));
  EXPECT_THAT(worker.client->Ask(kEnter), HasSubstr(R"("allowed":false)"));
  EXPECT_EQ(worker.store.takes(), 6);
  EXPECT_EQ(worker.store.abandoned(), 0);
}

TEST(DecisionApiStoreTest, APeekTakesNothingFromTheStore) {
  Ground ground({Shared(1)});
  Worker worker(ground);

  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(worker.client->Post("/v1/check", R"({"resource":"x","cost":1,"peek":true})"),
                HasSubstr(R"("allowed":true)"));
  }
  EXPECT_EQ(worker.store.Held(), 0);
}

TEST(DecisionApiStoreTest, AStatusTellsWhatTheStoreSaysAndTakesNothing) {
  constexpr std::string_view kStatus = "GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n";
  Ground ground({Shared(3)});
  Worker worker(ground);
  EXPECT_EQ(StatusOf(worker.client->Ask(kAuth)), "200");
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(worker.client->Ask(kStatus),
                HasSubstr(R"("allowed":true,"limit":3,"remaining":2,)"));
  }
  worker.store.Next(Script::kFails);
  EXPECT_THAT(worker.client->Ask(kStatus),
              HasSubstr(R"("allowed":null,"limit":3,"remaining":null,)"));
  worker.SendAndWait(kStatus, Script::kWhenTold);
  worker.store.AnswerAll();
  EXPECT_THAT(worker.client->Receive(), HasSubstr(R"("remaining":2,)"));
  worker.SendAndWait(kStatus, Script::kWhenTold);
  worker.Advance(kOverdue);
  EXPECT_THAT(worker.client->Receive(), HasSubstr(R"("remaining":null,)"));
  EXPECT_EQ(worker.store.Held(), 1);
}

TEST(DecisionApiStoreTest, ALateAnswerIsPassedOnWhenItComes) {
  for (const std::string_view request : {kAuth, kCheck, kEnter}) {
    Ground ground({Shared(1)});
    Worker worker(ground);
    worker.SendAndWait(request, Script::kWhenTold);
    worker.Advance(milliseconds(19));

    worker.store.AnswerAll();

    EXPECT_EQ(StatusOf(worker.client->Receive()), "200");
    EXPECT_EQ(worker.store.Held(), 1);
    worker.Advance(milliseconds(50));
    EXPECT_EQ(worker.store.abandoned(), 0);
  }
}

TEST(DecisionApiStoreTest, ASecondAnswerChangesNothing) {
  Ground ground({Shared(10)});
  Worker worker(ground);
  worker.store.Next(Script::kTwice);

  EXPECT_EQ(StatusOf(worker.client->Ask(kAuth)), "200");
  EXPECT_EQ(worker.client->Receive(), "");
  EXPECT_EQ(StatusOf(worker.client->Ask(kAuth)), "200");
}

TEST(DecisionApiStoreTest, AnAnswerFromTheStoresThreadWakesTheLoop) {
  Ground ground({Shared(20)});
  Worker worker(ground);
  for (int i = 0; i < 20; ++i) {
    worker.store.Next(Script::kFromThread);
    EXPECT_EQ(StatusOf(worker.client->Ask(kAuth)), "200") << i;
  }
  worker.store.Next(Script::kFromThread);
  EXPECT_EQ(StatusOf(worker.client->Ask(kAuth)), "429");
}

TEST(DecisionApiStoreTest, PipelinedQuestionsAreAnsweredInOrder) {
  Ground ground({Shared(1)});
  Worker worker(ground);
  worker.client->Send(std::string(kAuth) + std::string(kAuth) + std::string(kCheck));

  const std::string answers = worker.client->Receive();

  EXPECT_EQ(StatusOf(answers), "200");
  EXPECT_LT(answers.find("429 "), answers.find(R"("allowed":false)"));
  EXPECT_EQ(worker.store.takes(), 3);
}

TEST(DecisionApiStoreTest, AnAmbiguousRequestIsNotAskedAbout) {
  Rule rule = Shared(5);
  rule.by = {"header:x-user"};
  Ground ground({rule});
  Worker worker(ground);

  EXPECT_EQ(StatusOf(worker.client->Get("/v1/auth", "X-User: a\r\nX-User: b\r\n")), "400");
  EXPECT_EQ(worker.store.takes(), 0);
}

// --- no answers

TEST(DecisionApiStoreTest, AStoreThatNeverAnswersHoldsAQuestionUntilTheDeadlineOnly) {
  const std::pair<StoreFailurePolicy, std::string> cases[] = {
      {StoreFailurePolicy::kClosed, "503"},
      {StoreFailurePolicy::kOpen, "200"},
      {StoreFailurePolicy::kLocal, "200"},
  };
  for (const auto& [policy, status] : cases) {
    Ground ground({Shared(2, policy)});
    Worker worker(ground);
    worker.SendAndWait(kAuth, Script::kWhenTold);
    worker.Advance(milliseconds(19));
    EXPECT_EQ(worker.client->Receive(), "");

    worker.Advance(kOverdue - milliseconds(19));

    EXPECT_EQ(StatusOf(worker.client->Receive()), status);
    EXPECT_EQ(worker.store.abandoned(), 1);
    EXPECT_EQ(worker.store.Held(), 0) << "what it took is given back";
    worker.store.AnswerAll();
    EXPECT_EQ(worker.client->Receive(), "");
  }
}

TEST(DecisionApiStoreTest, ChecksAndEntersAreToldOfTheFailure) {
  Ground ground({Shared(2)});
  Worker worker(ground);
  for (const std::string_view request : {kCheck, kEnter}) {
    worker.SendAndWait(request, Script::kWhenTold);
    worker.Advance(kOverdue);
    EXPECT_THAT(worker.client->Receive(),
                HasSubstr(R"("allowed":false,"verdict":"refuse","reason":"store_failure")"));
  }
  EXPECT_EQ(ground.entries.Counters().open, 0u);
  worker.store.Next(Script::kFails);
  EXPECT_EQ(StatusOf(worker.client->Ask(kAuth)), "503");
}

// Rules out: what a store that is well granted in the last moment being given back although the
// request goes.
TEST(DecisionApiStoreTest, AtTheDeadlineItIsTheStoresToSayThatItFailed) {
  Ground ground({Shared(5, StoreFailurePolicy::kOpen)});
  Worker worker(ground);
  worker.SendAndWait(kAuth, Script::kWhenTold);
  worker.Advance(milliseconds(20));
  EXPECT_EQ(worker.store.abandoned(), 0);
  worker.store.AnswerAll();
  EXPECT_EQ(StatusOf(worker.client->Receive()), "200");
  EXPECT_EQ(worker.store.Held(), 1);
}

// Rules out that units are lost when the answer and the end of patience cross.
TEST(DecisionApiStoreTest, AnAnswerThatCrossesTheDeadlineCounts) {
  Ground ground({Shared(5)});
  Worker worker(ground);
  worker.SendAndWait(kAuth, Script::kAfterGivingUp);

  worker.Advance(kOverdue);

  EXPECT_EQ(StatusOf(worker.client->Receive()), "200");
  EXPECT_EQ(worker.store.Held(), 1);
}

// --- clients that leave

TEST(DecisionApiStoreTest, AClientThatLeavesWhileTheStoreIsAskedHoldsNothing) {
  for (const std::string_view request : {kAuth, kCheck, kEnter}) {
    for (const Script script : {Script::kWhenTold, Script::kAfterGivingUp}) {
      Ground ground({Shared(5), flowguard::testing::ConcurrencyRule("one", 1)});
      Worker worker(ground);
      worker.SendAndWait(request, script);

      worker.client->Connect();  // leaves; somebody else comes
      worker.client->Receive();

      EXPECT_EQ(worker.store.abandoned(), 1);
      EXPECT_EQ(worker.store.Held(), 0);
      EXPECT_EQ(ground.InFlight(1), 0);
      EXPECT_EQ(ground.entries.Counters().open, 0u);
      worker.Advance(milliseconds(50));
      EXPECT_EQ(worker.store.abandoned(), 1) << "its deadline is nobody's matter any more";
      EXPECT_EQ(StatusOf(worker.client->Ask(request)), "200") << "the same object, used again";
    }
  }
}

TEST(DecisionApiStoreTest, AnAnswerToAnApiThatIsGoneIsHarmless) {
  Ground ground({Shared(5)});
  Worker worker(ground);
  worker.SendAndWait(kEnter, Script::kWhenTold);
  worker.client->Connect();
  worker.SendAndWait(kAuth, Script::kAfterGivingUp);

  worker.End();
  worker.store.AnswerAll();
  worker.Turn();

  EXPECT_EQ(worker.store.abandoned(), 2);
}

// --- waits

TEST(DecisionApiStoreTest, ALocalWaitThatFollowsTheStoresAnswerIsSatOut) {
  Rule slow = flowguard::testing::LimitRule("slow", 1, seconds(1));
  slow.wait = seconds(5);
  Ground ground({slow, Shared(5)});
  Worker worker(ground);
  worker.client->Ask(kAuth);

  for (const std::string_view request : {kAuth, kEnter}) {
    worker.client->Send(request);
    EXPECT_EQ(worker.client->Receive(), "");
    worker.Advance(milliseconds(1'001));
    EXPECT_EQ(StatusOf(worker.client->Receive()), "200");
  }
  EXPECT_EQ(worker.store.Held(), 3);
}

TEST(DecisionApiStoreTest, WhoWouldHaveToWaitInADrainIsRefusedAndHoldsNothing) {
  Rule slow = flowguard::testing::LimitRule("slow", 1, seconds(1));
  slow.wait = seconds(5);
  Ground ground({slow, Shared(5)});
  Worker worker(ground);
  worker.client->Ask(kAuth);
  worker.SendAndWait(kEnter, Script::kWhenTold);
  worker.client->server().Drain(seconds(10));
  worker.api->Drain();

  worker.store.AnswerAll();

  EXPECT_EQ(StatusOf(worker.client->Receive()), "503");
  EXPECT_EQ(worker.store.Held(), 1);
}

// --- entries

TEST(DecisionApiStoreTest, AnExitGivesTheSlotBackBeforeTheNextRequest) {
  Ground ground({SharedSlots(1)});
  Worker worker(ground);
  for (int i = 0; i < 3; ++i) {
    const std::string entered = worker.Enter();
    EXPECT_EQ(worker.store.Held(), 1);
    EXPECT_THAT(worker.Enter(), HasSubstr(R"("reason":"concurrency")"));

    EXPECT_EQ(StatusOf(worker.Exit(entered)), "200");
    EXPECT_EQ(worker.store.Held(), 0);
    EXPECT_EQ(ground.InFlight(0), 0);
  }
}

TEST(DecisionApiStoreTest, ACheckLooksAtSlotsAndTakesNone) {
  Ground ground({SharedSlots(1)});
  Worker worker(ground);

  EXPECT_THAT(worker.client->Ask(kCheck), HasSubstr(R"("allowed":true)"));
  EXPECT_EQ(worker.store.Held(), 0);
  worker.Enter();
  EXPECT_THAT(worker.client->Ask(kCheck), HasSubstr(R"("allowed":false)"));
}

TEST(DecisionApiStoreTest, TheActualCostIsSettledWithTheStore) {
  Rule rule = Shared(100);
  rule.cost = {.reserve = 10, .settle = "", .max_debt = 50};
  Ground ground({rule});
  Worker worker(ground);

  worker.Exit(worker.Enter(), R"(,"actual_cost":3)");
  EXPECT_EQ(worker.store.Held(), 3);
  worker.Exit(worker.Enter(), R"(,"actual_cost":25)");
  EXPECT_EQ(worker.store.Held(), 28);
  worker.Exit(worker.Enter());
  EXPECT_EQ(worker.store.Held(), 38);
}

TEST(DecisionApiStoreTest, AnEntryWhoseTimeIsOverGivesItsSlotBack) {
  Ground ground({SharedSlots(1)});
  Worker worker(ground);
  worker.Enter();

  worker.Advance(milliseconds(1'000));
  worker.Turn();

  EXPECT_EQ(worker.store.Held(), 0);
}

TEST(DecisionApiStoreTest, AnEntryThatFindsNoRoomGivesItsSlotBack) {
  Ground ground({SharedSlots(3)});
  Worker worker(ground);
  worker.Enter();
  worker.Enter();

  EXPECT_EQ(StatusOf(worker.Enter()), "503");
  EXPECT_EQ(worker.store.Held(), 2);
}

TEST(DecisionApiStoreTest, AnExitWithAnotherWorkerGivesBackToTheStoreThatWasAsked) {
  Ground ground({SharedSlots(1)});
  Worker first(ground);
  Worker second(ground);
  const std::string entered = first.Enter();

  EXPECT_EQ(StatusOf(second.Exit(entered)), "200");

  EXPECT_EQ(first.store.Held(), 1) << "the store is its loop's to use";
  first.Turn();
  EXPECT_EQ(first.store.Held(), 0);
  EXPECT_EQ(second.store.Held(), 0);
}

TEST(DecisionApiStoreTest, AnExpiryThatAnotherWorkerSeesGivesBackToTheStoreThatWasAsked) {
  Ground ground({SharedSlots(1)});
  Worker first(ground);
  Worker second(ground);
  first.Enter();

  second.Advance(milliseconds(1'000));
  EXPECT_EQ(ground.entries.Counters().expired, 1u);
  first.Turn();

  EXPECT_EQ(first.store.Held(), 0);
  EXPECT_EQ(second.store.Held(), 0);
}

// Rules out slots that a store holds for a process that has ended.
TEST(DecisionApiStoreTest, TheEndOfAnApiGivesBackWhatItsEntriesHold) {
  Ground ground({SharedSlots(2)});
  Worker first(ground);
  Worker second(ground);
  const std::string brought = first.Enter();
  first.Enter();
  second.Exit(brought);

  first.End();

  EXPECT_EQ(first.store.Held(), 0);
  EXPECT_EQ(ground.entries.Counters().open, 0u);
  first.Turn();
}

}  // namespace
}  // namespace flowguard::serve
