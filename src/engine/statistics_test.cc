// SPDX-License-Identifier: Apache-2.0
//
// What is counted of requests, where, and when.
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "testing/engine_fixture.h"
#include "testing/rules.h"
#include "testing/std_regex.h"

namespace flowguard::engine {
namespace {

using namespace std::chrono_literals;
using testing::FakeRequest;
using testing::LimitRule;
using testing::MostInflight;
using testing::RuleOfSystem;

class StatisticsTest : public testing::EngineFixture {
 protected:
  StatisticsTest() { statistics_ = true; }

  [[nodiscard]] StatisticsReport Report(const std::string& resource = "") const {
    return engine_->ReportStatistics({.resource = resource, .most = 100}, now_);
  }
  // Nothing of it: it is not in the table.
  [[nodiscard]] Traffic Of(const std::string& resource, const std::string& origin = "") const {
    for (Traffic& traffic : Report(resource).resources) {
      if (traffic.origin == origin) return std::move(traffic);
    }
    return {};
  }
  [[nodiscard]] Traffic Entrance() const { return Report().entrance; }
  static FakeRequest At(std::string_view method, std::string_view path) {
    FakeRequest request("");
    request.method = method;
    request.path = path;
    return request;
  }
};

TEST_F(StatisticsTest, ACallCountsWhenItGoesAndWhenItEnds) {
  Build({LimitRule("a", 100, 1h)});
  Attempt call;
  Enter(call, FakeRequest("r"));
  EXPECT_EQ(Of("r").second.passed, 1);
  EXPECT_EQ(Of("r").second.succeeded, 0);
  EXPECT_EQ(Of("r").inflight, 1);
  EXPECT_EQ(Entrance().inflight, 1);
  now_ += 30ms;
  Settle(call);
  const Traffic ended = Of("r");
  EXPECT_EQ(ended.inflight, 0);
  EXPECT_EQ(ended.second.succeeded, 1);
  EXPECT_EQ(ended.second.failed, 0);
  EXPECT_EQ(ended.second.AverageRt(), 30ms);
  EXPECT_EQ(ended.second.rt_min, 30ms);
  ASSERT_TRUE(ended.rt_p99.has_value());
  EXPECT_NEAR(static_cast<double>(ended.rt_p99->count()), 30e6, 1e6);
  EXPECT_EQ(Entrance().second, ended.second);
  EXPECT_EQ(ended.minute, ended.second);
  now_ += 2s;
  EXPECT_EQ(Of("r").second.passed, 0);
  EXPECT_EQ(Of("r").minute.passed, 1);
}

TEST_F(StatisticsTest, ErrorsAndRefusalsAreCountedApart) {
  Build({LimitRule("a", 2, 1h)});
  Attempt failed;
  Enter(failed, FakeRequest("r"));
  Settle(failed, Outcome::kError);
  Attempt ignored;
  Enter(ignored, FakeRequest("r"));
  Settle(ignored, Outcome::kIgnoredError);
  Attempt refused;
  Enter(refused, FakeRequest("r"));
  const stats::Counts second = Of("r").second;
  EXPECT_EQ(second.passed, 2);
  EXPECT_EQ(second.blocked, 1);
  EXPECT_EQ(second.succeeded, 2);
  EXPECT_EQ(second.failed, 1);
}

// Fault ruled out: calls that are given up make the shortest response time a lie.
TEST_F(StatisticsTest, ACallThatIsCancelledHasNoResponseTime) {
  Build({LimitRule("a", 100, 1h)});
  Attempt settled;
  Enter(settled, FakeRequest("r"));
  Settle(settled, Outcome::kCancelled);
  Attempt cancelled;
  Enter(cancelled, FakeRequest("r"));
  engine_->Cancel(cancelled, now_);
  const Traffic traffic = Of("r");
  EXPECT_EQ(traffic.second.passed, 2);
  EXPECT_EQ(traffic.second.succeeded, 0);
  EXPECT_EQ(traffic.second.rt_min, std::nullopt);
  EXPECT_EQ(traffic.inflight, 0);
}

// Fault ruled out: an entry that nobody ends counts as a call that took its time to live.
TEST_F(StatisticsTest, ACallOfWhichNobodyTellsHowItEndedHasNoResponseTime) {
  Build({LimitRule("a", 100, 1h)});
  Attempt lost;
  Enter(lost, FakeRequest("r"));
  now_ += 30s;
  engine_->Abandon(lost, now_);
  EXPECT_FALSE(lost.entered());
  const Traffic traffic = Of("r");
  EXPECT_EQ(traffic.second.succeeded, 0);
  EXPECT_EQ(traffic.second.rt_sum, Duration::zero());
  EXPECT_EQ(traffic.second.rt_min, std::nullopt);
  EXPECT_EQ(traffic.inflight, 0);
}

TEST_F(StatisticsTest, WhatTheCalleeAloneTookIsTheResponseTime) {
  Build({LimitRule("a", 100, 1h)});
  Attempt call;
  Enter(call, FakeRequest("r"));
  now_ += 20ms;
  engine_->TellBreakers(call, Outcome::kError, 20ms, now_);
  engine_->TellBreakers(call, Outcome::kOk, 25ms, now_);
  now_ += 10s;  // the client takes its time
  EXPECT_EQ(Of("r").inflight, 1);
  Settle(call, Outcome::kOk);
  EXPECT_EQ(Of("r").second.rt_sum, 20ms);
  EXPECT_EQ(Of("r").second.failed, 1);
}

TEST_F(StatisticsTest, WhatIsToldOfOneCallIsNotTheNextOnes) {
  Build({});
  Attempt call;
  Enter(call, FakeRequest("r"));
  engine_->TellBreakers(call, Outcome::kError, 20ms, now_);
  Settle(call);
  Enter(call, FakeRequest("r"));
  now_ += 70ms;
  Settle(call);
  EXPECT_EQ(Of("r").second.failed, 1);
  EXPECT_EQ(Of("r").second.rt_sum, 90ms);
}

TEST_F(StatisticsTest, ACheckCountsThatItWentOrDidNot) {
  Build({LimitRule("a", 2, 1h)});
  for (int i = 0; i < 5; ++i)
    static_cast<void>(Check());
  for (int i = 0; i < 5; ++i)
    static_cast<void>(Peek());
  const Traffic traffic = Of("r");
  EXPECT_EQ(traffic.second.passed, 2);
  EXPECT_EQ(traffic.second.blocked, 3);
  EXPECT_EQ(traffic.inflight, 0);
  EXPECT_EQ(Entrance().second, traffic.second);
}

TEST_F(StatisticsTest, ARequestCountsAsOneWhateverItsCost) {
  Build({LimitRule("a", 1'000, 1h)});
  static_cast<void>(Check(FakeRequest("r", {}, 200)));
  EXPECT_EQ(Of("r").second.passed, 1);
}

TEST_F(StatisticsTest, RequestsThatNoRuleMeetsAreCountedToo) {
  Build({});
  Attempt call;
  Enter(call, FakeRequest("r"));
  ASSERT_TRUE(call.entered());
  EXPECT_TRUE(call.only_counted());
  now_ += 10ms;
  Settle(call);
  EXPECT_EQ(Of("r").second.succeeded, 1);
  EXPECT_EQ(Entrance().second.rt_min, 10ms);
}

TEST_F(StatisticsTest, TheOriginOfARequestIsCountedAtItsResource) {
  Build({LimitRule("a", 1, 1h)});
  static_cast<void>(Check(FakeRequest("r", {{"origin", "shop"}})));
  static_cast<void>(Check(FakeRequest("r", {{"origin", "app"}})));
  static_cast<void>(Check(FakeRequest("r")));
  EXPECT_EQ(Of("r").second.passed, 1);
  EXPECT_EQ(Of("r").second.blocked, 2);
  EXPECT_EQ(Of("r", "shop").second.passed, 1);
  EXPECT_EQ(Of("r", "shop").second.blocked, 0);
  EXPECT_EQ(Of("r", "app").second.blocked, 1);
  EXPECT_EQ(Report("r").resources.size(), 3u);
  EXPECT_EQ(Report().resources.size(), 1u);  // callers are told with their resource
}

TEST_F(StatisticsTest, ADeclaredOriginIsNormalised) {
  RuleSet set;
  set.rules = {LimitRule("a", 9, 1h)};
  DimensionSpec origin;
  origin.name = "origin";
  origin.trim = true;
  origin.lower = true;
  set.dimensions = {origin};
  Build({});
  ASSERT_TRUE(engine_->Load(set).ok());
  static_cast<void>(Check(FakeRequest("r", {{"origin", " Shop"}})));
  EXPECT_EQ(Of("r", "shop").second.passed, 1);
}

// Fault ruled out: a node for every path.
TEST_F(StatisticsTest, APathCountsAtTheRouteThatSaysItBest) {
  Rule all = LimitRule("all", 100, 1h);
  all.on.route = "/**";
  Rule user = LimitRule("user", 100, 1h);
  user.on.route = "/user/{id}";
  Build({all, user, LimitRule("every", 1'000'000, 1h)});
  for (int id = 0; id < 50; ++id)
    static_cast<void>(Check(At("GET", "/user/" + std::to_string(id))));
  static_cast<void>(Check(At("GET", "/other")));
  EXPECT_EQ(Of("/user/{id}").second.passed, 50);
  EXPECT_EQ(Of("/**").second.passed, 1);
  EXPECT_EQ(Report().resources.size(), 2u);
}

// One that names a resource and a pattern is met by calls of others too.
TEST_F(StatisticsTest, ACallCountsAtItsOwnNameWhateverElseItsRuleNames) {
  Rule rule = LimitRule("a", 100, 1h);
  rule.on.resource = "pay";
  rule.on.resource_regex = "order:.*";
  const testing::StdRegexEngine regex;
  RuleSet set;
  set.rules = {rule};
  set.regex = &regex;
  Build({});
  ASSERT_TRUE(engine_->Load(set).ok());
  static_cast<void>(Check(FakeRequest("order:pay")));
  static_cast<void>(Check(FakeRequest("pay")));
  EXPECT_EQ(Of("order:pay").second.passed, 1);
  EXPECT_EQ(Of("pay").second.passed, 1);
  Load({});  // before the regex goes
}

TEST_F(StatisticsTest, APathThatMeetsNoRouteIsCountedAtTheEntranceAlone) {
  Build({LimitRule("every", 100, 1h)});
  static_cast<void>(Check(At("GET", "/user/7")));
  EXPECT_TRUE(Report().resources.empty());
  EXPECT_EQ(Entrance().second.passed, 1);
}

TEST_F(StatisticsTest, ARouteWithANameIsCountedAsThatName) {
  Rule create = LimitRule("create", 100, 1h);
  create.on.route = "POST /orders";
  create.on.resource = "order:create";
  Build({create});
  static_cast<void>(Check(At("POST", "/orders")));
  static_cast<void>(Check(FakeRequest("order:create")));
  EXPECT_EQ(Of("order:create").second.passed, 2);
}

TEST_F(StatisticsTest, AFloodOfNamesIsBoundedAndTold) {
  stats_max_ = 10;
  Rule known = LimitRule("known", 1'000'000, 1h);
  known.on.resource = "known";
  Build({known});
  static_cast<void>(Check(FakeRequest("known")));
  for (int i = 0; i < 1'000; ++i)
    static_cast<void>(Check(FakeRequest("r" + std::to_string(i))));
  static_cast<void>(Check(FakeRequest("known")));
  const StatisticsReport report = Report();
  EXPECT_LE(report.resources.size(), 10u);
  EXPECT_EQ(report.table.stats, 10u);
  EXPECT_EQ(report.table.forgotten, 1'000u - 9u);
  EXPECT_EQ(report.entrance.second.passed, 1'002);
  EXPECT_EQ(Of("known").second.passed, 2);  // a rule refers to it
}

TEST_F(StatisticsTest, WhatHasNoRoomIsCountedAmongTheOthers) {
  stats_max_ = 1;
  Rule known = LimitRule("known", 1'000'000, 1h);
  known.on.resource = "known";
  Build({known});
  static_cast<void>(Check(FakeRequest("r", {{"origin", "shop"}})));
  const StatisticsReport report = Report();
  ASSERT_TRUE(report.others.has_value());
  EXPECT_EQ(report.others->second.passed, 1);  // once, be it a resource and a caller
}

TEST_F(StatisticsTest, TheBusiestAreToldFirst) {
  Build({});
  for (const auto& [name, times] : {std::pair("a", 1), std::pair("b", 3), std::pair("c", 2)}) {
    for (int i = 0; i < times; ++i)
      static_cast<void>(Check(FakeRequest(name)));
  }
  const StatisticsReport report = engine_->ReportStatistics({.resource = "", .most = 2}, now_);
  ASSERT_EQ(report.resources.size(), 2u);
  EXPECT_EQ(report.resources[0].resource, "b");
  EXPECT_EQ(report.resources[1].resource, "c");
  EXPECT_EQ(report.left_out, 1u);
}

// Fault ruled out: who waits is counted where nothing is any more.
TEST_F(StatisticsTest, ARequestThatWaitedIsCountedWhenItGoesWhateverWasLoadedMeanwhile) {
  stats_max_ = 2;
  Rule queue = LimitRule("queue", 1, 1s, Algorithm::kLeakyBucket);
  queue.wait = 10s;
  queue.on.resource = "queued";
  Build({queue});
  Attempt first;
  Enter(first, FakeRequest("queued"));
  Settle(first);
  Attempt waits;
  Enter(waits, FakeRequest("queued"));
  ASSERT_TRUE(waits.waiting());
  EXPECT_EQ(Of("queued").second.passed, 1);
  Load({});
  for (int i = 0; i < 100; ++i)
    static_cast<void>(Check(FakeRequest("r" + std::to_string(i))));
  now_ += 1s;
  engine_->Continue(waits, now_);
  ASSERT_TRUE(waits.entered());
  EXPECT_EQ(Of("queued").minute.passed, 2);
  EXPECT_EQ(Of("queued").inflight, 1);
  Settle(waits);
  EXPECT_EQ(Of("queued").inflight, 0);
}

TEST_F(StatisticsTest, WhoStopsWaitingIsNotCounted) {
  Rule queue = LimitRule("queue", 1, 1s, Algorithm::kLeakyBucket);
  queue.wait = 10s;
  Build({queue});
  Attempt first;
  Enter(first, FakeRequest("r"));
  Settle(first);
  Attempt waits;
  Enter(waits, FakeRequest("r"));
  ASSERT_TRUE(waits.waiting());
  engine_->Cancel(waits, now_);
  EXPECT_EQ(Of("r").second.passed, 1);
  EXPECT_EQ(Of("r").second.blocked, 0);
  EXPECT_EQ(Of("r").inflight, 0);
}

TEST_F(StatisticsTest, ACallThatEndsAfterAReloadEndsWhereItBegan) {
  Rule rule = LimitRule("a", 100, 1h);
  rule.on.resource = "r";
  Build({rule});
  Attempt call;
  Enter(call, FakeRequest("r"));
  for (int i = 0; i < 20; ++i)
    Load({LimitRule("other", i + 1, 1h)});
  now_ += 10ms;
  Settle(call);
  EXPECT_EQ(Of("r").second.succeeded, 1);
  EXPECT_EQ(Of("r").inflight, 0);
}

TEST_F(StatisticsTest, OffNothingIsCounted) {
  statistics_ = false;
  Build({LimitRule("a", 2, 1h)});
  static_cast<void>(Check());
  EXPECT_FALSE(Report().resources_counted);
  EXPECT_TRUE(Report().resources.empty());
  EXPECT_EQ(Entrance().second.passed, 0);
}

TEST_F(StatisticsTest, OffTheEntranceIsCountedForSystemRules) {
  statistics_ = false;
  Build({RuleOfSystem("machine", MostInflight(9))});
  static_cast<void>(Check());
  EXPECT_TRUE(Report().resources.empty());
  EXPECT_EQ(Entrance().second.passed, 1);
}

TEST_F(StatisticsTest, SixteenThreadsLoseNoCountAndLeaveNoCallInProgress) {
  Rule rule = LimitRule("a", 8'000, 1h);
  rule.on.resource = "r";
  Build({rule});
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 1'000; ++n) {
        Attempt call;
        Enter(call, FakeRequest("r", {{"origin", n % 2 == 0 ? "even" : "odd"}}));
        Settle(call, n % 4 == 0 ? Outcome::kError : Outcome::kOk);
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  const Traffic traffic = Of("r");
  EXPECT_EQ(traffic.second.passed, 8'000);
  EXPECT_EQ(traffic.second.blocked, 8'000);
  EXPECT_EQ(traffic.second.succeeded, 8'000);
  EXPECT_EQ(traffic.inflight, 0);
  EXPECT_EQ(Entrance().second.passed, 8'000);
  EXPECT_EQ(Entrance().second.succeeded, 8'000);
  EXPECT_EQ(Entrance().inflight, 0);
  EXPECT_EQ(Of("r", "even").second.passed + Of("r", "odd").second.passed, 8'000);
  EXPECT_EQ(Of("r", "even").inflight + Of("r", "odd").inflight, 0);
}

}  // namespace
}  // namespace flowguard::engine
