// SPDX-License-Identifier: Apache-2.0
//
// Rules of scope cluster: what they may have, and what they cannot.
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/bounds.h"
#include "rules/check_rule.h"
#include "rules/compile_fixture_test.h"
#include "rules/flow_id.h"

namespace flowguard::rules {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Rule Cluster(std::string name, int64_t flow_id = 0) {
  Rule rule = Limit(std::move(name));
  rule.scope = Scope::kCluster;
  rule.cluster.flow_id = flow_id;
  return rule;
}

Rule Tokens(std::string name, int64_t flow_id = 0) {
  Rule rule = Cluster(std::move(name), flow_id);
  rule.kind = RuleKind::kConcurrency;
  rule.rate = {};
  rule.concurrency = 10;
  return rule;
}

std::vector<std::string> ErrorsOf(Rule rule, const std::function<void(Rule&)>& change) {
  change(rule);
  return Errors(Set({rule}), /*remote_allowed=*/true);
}

std::vector<std::string> LimitErrors(const std::function<void(Rule&)>& change) {
  return ErrorsOf(Cluster("a"), change);
}

std::vector<std::string> OverrideErrors(std::vector<Override> overrides) {
  return LimitErrors([&](Rule& rule) {
    rule.by = {"user"};
    rule.overrides = std::move(overrides);
  });
}

TEST(CheckClusterTest, WhatATokenServerCountsIsTaken) {
  EXPECT_THAT(LimitErrors([](Rule&) {}), IsEmpty());
  EXPECT_THAT(LimitErrors([](Rule& r) {
                r.cluster = {.flow_id = 7, .per_client = true};
                r.algorithm = Algorithm::kSlidingLog;
                r.borrow = milliseconds(100);
                r.on_store_failure = StoreFailurePolicy::kOpen;
                r.cost.reserve = 2;
                r.by = {"ip", "user"};
              }),
              IsEmpty());
  EXPECT_THAT(
      ErrorsOf(Tokens("a"),
               [](Rule& r) { r.cluster = {.per_client = true, .token_ttl = milliseconds(1)}; }),
      IsEmpty());
}

TEST(CheckClusterTest, ItsCellsAreElsewhere) {
  const RuleTable table = Good(Set({Cluster("a")}), true);
  EXPECT_TRUE(table.rules[0].remote());
  EXPECT_FALSE(table.rules[0].plain);
  Rule shared = Cluster("a");
  shared.scope = Scope::kShared;
  EXPECT_NE(table.rules[0].quota.identity, Good(Set({shared}), true).rules[0].quota.identity);
}

TEST(CheckClusterTest, ItNeedsTokenServersAndNoStore) {
  const RuleSet set = Set({Cluster("a")});
  EXPECT_TRUE(Compile(set, {.cluster_allowed = true}).ok());
  const auto none = Compile(set, {.remote_allowed = true});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().message,
            "rule \"a\": scope: found cluster, which needs token servers: cluster.servers; there "
            "are none. Name some, or use scope local");
  Rule shared = Cluster("a");
  shared.scope = Scope::kShared;
  const auto no_store = Compile(Set({shared}), {.cluster_allowed = true});
  ASSERT_FALSE(no_store.ok());
  EXPECT_THAT(no_store.error().message, HasSubstr("there is no store for shared limits"));
}

// Every algorithm is decided on: one that is added fails here until it is.
TEST(CheckClusterTest, TheAlgorithmsOfATokenServer) {
  std::string taken;
  for (int i = 0; i <= static_cast<int>(Algorithm::kStepBucket); ++i) {
    const auto algorithm = static_cast<Algorithm>(i);
    const auto errors = LimitErrors([&](Rule& r) {
      r.algorithm = algorithm;
      if (HasWarmUp(algorithm)) r.warm_up = seconds(10);
    });
    if (errors.empty()) {
      taken.append(taken.empty() ? "" : ", ").append(NameOf(algorithm));
      continue;
    }
    EXPECT_THAT(errors,
                ElementsAre("rule \"a\": scope: found cluster with algorithm " +
                            std::string(NameOf(algorithm)) +
                            "; a token server counts by token_bucket, sliding_log, "
                            "sliding_buckets, sliding_window, fixed_window, weighted_average, "
                            "leap_array"));
  }
  EXPECT_EQ(taken,
            "token_bucket, sliding_log, sliding_buckets, sliding_window, fixed_window, "
            "weighted_average, leap_array");
}

TEST(CheckClusterTest, WhatAnAnswerAtOnceCannotHave) {
  EXPECT_THAT(LimitErrors([](Rule& r) { r.wait = seconds(1); }),
              ElementsAre("rule \"a\": wait: found with scope cluster; a token server has no "
                          "queue"));
  EXPECT_THAT(LimitErrors([](Rule& r) { r.count_refused = true; }),
              ElementsAre(HasSubstr("count_refused: found with scope cluster")));
  EXPECT_THAT(LimitErrors([](Rule& r) { r.cost.settle = "header:x-usage"; }),
              ElementsAre(HasSubstr("cost.settle: found with scope cluster")));
  EXPECT_THAT(LimitErrors([](Rule& r) { r.cost.max_debt = 5; }),
              ElementsAre(HasSubstr("cost.max_debt: found with scope cluster")));
  EXPECT_THAT(LimitErrors([](Rule& r) {
                r.rate.limit = base::kLimitMax;
                r.rate.window = std::chrono::hours(24);
                r.cost.reserve = base::kTokensMax + 1;
              }),
              ElementsAre(HasSubstr("cost.reserve: found 2147483648 with scope cluster; a token "
                                    "server is asked for 2147483647 at most")));
  EXPECT_THAT(LimitErrors([](Rule& r) {
                r.on.resource = "read";
                r.relate_to = "write";
              }),
              ElementsAre(HasSubstr("scope: found beside relate_to; its cell is local")));
}

TEST(CheckClusterTest, WhatBelongsToAStoreIsMisplaced) {
  EXPECT_THAT(LimitErrors([](Rule& r) {
                r.on.resource = "r";
                r.tag = CellTag::kResource;
                r.lease.overshoot = 5;
                r.shards = 2;
                r.prefilter = true;
              }),
              ElementsAre("rule \"a\": tag: found here; it belongs to rules with scope shared only",
                          HasSubstr("lease: found here; it belongs to rules with scope shared"),
                          HasSubstr("shards: found here"), HasSubstr("prefilter: found here")));
}

TEST(CheckClusterTest, WhatBelongsToATokenServerIsMisplacedElsewhere) {
  for (const Scope scope : {Scope::kLocal, Scope::kShared}) {
    EXPECT_THAT(LimitErrors([&](Rule& r) {
                  r.scope = scope;
                  r.cluster = {.flow_id = 7, .per_client = true, .token_ttl = seconds(9)};
                  r.by = {"user"};
                  r.overrides = {{"7", {5, seconds(1)}, {}, ValueType::kInt}};
                }),
                ElementsAre("rule \"a\": flow_id: found here; it belongs to rules with scope "
                            "cluster only",
                            HasSubstr("per_client: found here"), HasSubstr("token_ttl: found here"),
                            HasSubstr("overrides: type: found here")));
  }
}

TEST(CheckClusterTest, LimitsAndTokensHaveFieldsOfTheirOwn) {
  EXPECT_THAT(LimitErrors([](Rule& r) { r.cluster.token_ttl = seconds(9); }),
              ElementsAre("rule \"a\": token_ttl: found here; it belongs to rules of kind "
                          "concurrency only"));
  EXPECT_THAT(ErrorsOf(Tokens("a"), [](Rule& r) { r.by = {"user"}; }),
              ElementsAre(HasSubstr("by: found in a concurrency rule with scope cluster")));
  for (const Duration ttl : {Duration{}, base::kTokenTtlMax + Duration(1)}) {
    EXPECT_THAT(ErrorsOf(Tokens("a"), [&](Rule& r) { r.cluster.token_ttl = ttl; }),
                ElementsAre("rule \"a\": token_ttl: found " + std::to_string(ttl.count()) +
                            " ns; allowed 1ms to 1h"));
  }
}

TEST(CheckClusterTest, RulesThatCountNothingHaveNoScope) {
  EXPECT_THAT(LimitErrors([](Rule& r) {
                r.kind = RuleKind::kBreaker;
                r.rate = {};
                r.breaker.error_count = 5;
              }),
              ElementsAre("rule \"a\": scope: cluster: found here; it belongs to rules of kind "
                          "limit or concurrency only"));
}

// --- flow ids

TEST(CheckClusterTest, AFlowIdIsAboveZero) {
  EXPECT_THAT(LimitErrors([](Rule& r) { r.cluster.flow_id = -1; }),
              ElementsAre("rule \"a\": flow_id: found -1; above 0, or leave it away (then it is "
                          "made from the name)"));
}

TEST(CheckClusterTest, AFlowIdNamesOneCount) {
  Rule first = Cluster("first", 7);
  first.origin = "rules.yaml:2:5";
  EXPECT_THAT(Errors(Set({first, Cluster("other", 8), Cluster("second", 7)}), true),
              ElementsAre("rule \"second\": flow_id: found 7 twice for a limit without by; the "
                          "other is rules.yaml:2:5: rule \"first\". Give one of them another"));
}

TEST(CheckClusterTest, AFlowIdThatANameHasIsTakenToo) {
  EXPECT_THAT(Errors(Set({Cluster("first", FlowIdOf(Cluster("second"))), Cluster("second")}), true),
              ElementsAre(HasSubstr(", made from the name, twice for a limit without by; the "
                                    "other is rule \"first\"")));
}

// Sentinel's dashboard numbers rules of each kind from 1.
TEST(CheckClusterTest, ALimitAKeyedOneAndTokensMayShareAFlowId) {
  Rule keyed = Cluster("keyed", 7);
  keyed.by = {"user"};
  EXPECT_THAT(Errors(Set({Cluster("plain", 7), keyed, Tokens("tokens", 7)}), true), IsEmpty());
  Rule local = Limit("local");
  EXPECT_THAT(Errors(Set({local, Cluster("plain", 7)}), true), IsEmpty());
}

// --- overrides

TEST(CheckClusterTest, OverridesAreForWholeValuesOfOneDimension) {
  const Override some = {"acme", {5, seconds(1)}, {}};
  EXPECT_THAT(OverrideErrors({some}), IsEmpty());
  EXPECT_THAT(LimitErrors([&](Rule& r) {
                r.by = {"user", "ip"};
                r.overrides = {some};
              }),
              ElementsAre(HasSubstr("overrides: found beside several dimensions in by")));
}

TEST(CheckClusterTest, OverridesOfAddressesAreWrittenAsKeysAre) {
  const auto errors = [](const std::string& value) {
    return LimitErrors([&](Rule& r) {
      r.by = {"ip"};
      r.overrides = {{value, {5, seconds(1)}, {}}};
    });
  };
  EXPECT_THAT(errors("10.0.0.7"), IsEmpty());
  EXPECT_THAT(errors("2001:db8::/64"), IsEmpty());
  EXPECT_THAT(errors("10.0.0.0/8"),
              ElementsAre("rule \"a\": overrides.\"10.0.0.0/8\": a block of addresses; a token "
                          "server has exceptions for single values only"));
  EXPECT_THAT(errors("2001:DB8:0::/64"),
              ElementsAre(HasSubstr("a token server compares texts; write \"2001:db8::/64\"")));
  EXPECT_THAT(errors("::ffff:10.0.0.7"), ElementsAre(HasSubstr("write \"10.0.0.7\"")));
  EXPECT_THAT(errors("office"), ElementsAre(HasSubstr("not an address or block")));
}

TEST(CheckClusterTest, OverridesAreWrittenAsTheirDimensionHasThem) {
  RuleSet set = Set({Cluster("a")});
  set.rules[0].by = {"tenant"};
  set.rules[0].overrides = {{"Acme", {5, seconds(1)}, {}}};
  set.dimensions = {Declared("tenant", "header:x-tenant")};
  set.dimensions[0].lower = true;
  EXPECT_THAT(Errors(set, true),
              ElementsAre("rule \"a\": overrides.\"Acme\": a token server compares texts; write "
                          "\"acme\""));
}

TEST(CheckClusterTest, OverridesHaveValuesOfTheirType) {
  const auto one = [](std::string value, ValueType type) {
    return std::vector<Override>{{std::move(value), {5, seconds(1)}, {}, type}};
  };
  EXPECT_THAT(OverrideErrors(one("7", ValueType::kInt)), IsEmpty());
  EXPECT_THAT(OverrideErrors(one("x", ValueType::kInt)),
              ElementsAre("rule \"a\": overrides.\"x\": no value of type int"));
  EXPECT_THAT(OverrideErrors(one("07", ValueType::kLong)),
              ElementsAre(HasSubstr("a token server compares texts; write \"7\"")));
  EXPECT_THAT(OverrideErrors(one("2.50", ValueType::kDouble)),
              ElementsAre(HasSubstr("write \"2.5\"")));
  EXPECT_THAT(OverrideErrors(one("TRUE", ValueType::kBool)),
              ElementsAre(HasSubstr("no value of type bool")));
}

TEST(CheckClusterTest, AValueHasRoomForItsTypeInAKey) {
  EXPECT_THAT(OverrideErrors({{std::string(123, 'x'), {5, seconds(1)}, {}}}), IsEmpty());
  EXPECT_THAT(
      OverrideErrors({{std::string(124, 'x'), {5, seconds(1)}, {}}}),
      ElementsAre(HasSubstr("found 124 bytes; with scope cluster a value has at most 123")));
}

TEST(CheckClusterTest, AValueOfATypeHasOneOverride) {
  const Override whole = {"7", {5, seconds(1)}, {}, ValueType::kInt};
  const Override wide = {"7", {6, seconds(1)}, {}, ValueType::kLong};
  const Override any = {"7", {7, seconds(1)}, {}};
  EXPECT_THAT(OverrideErrors({whole, wide}), IsEmpty());
  const auto twice = ElementsAre("rule \"a\": overrides.\"7\": found twice");
  EXPECT_THAT(OverrideErrors({whole, whole}), twice);
  EXPECT_THAT(OverrideErrors({whole, any}), twice);
  EXPECT_THAT(OverrideErrors({any, whole}), twice);
  EXPECT_THAT(OverrideErrors({any, any}), twice);
}

// A request has texts; what another client tells as a number is for the server.
TEST(CheckClusterTest, RequestsMeetTheOverridesOfTexts) {
  Rule rule = Cluster("a");
  rule.by = {"user"};
  rule.overrides = {{"7", {5, seconds(1)}, {}, ValueType::kInt},
                    {"8", {6, seconds(1)}, {}, ValueType::kString},
                    {"9", {7, seconds(1)}, {}}};
  const RuleTable table = Good(Set({rule}), true);
  const CompiledRule& compiled = table.rules[0];
  EXPECT_EQ(compiled.QuotaFor("7").config.rate.limit, 100);
  EXPECT_EQ(compiled.QuotaFor("8").config.rate.limit, 6);
  EXPECT_EQ(compiled.QuotaFor("9").config.rate.limit, 7);
}

}  // namespace
}  // namespace flowguard::rules
