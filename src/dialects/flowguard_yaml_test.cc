// SPDX-License-Identifier: Apache-2.0
//
// What each field of a rule file becomes in the model.
#include <chrono>
#include <string>

#include <gtest/gtest.h>

#include "flowguard/rules_text.h"

namespace flowguard {
namespace {

using namespace std::chrono_literals;

// The set, or a failure with the error's text.
RuleSet SetOf(std::string_view yaml) {
  const auto parsed = ParseRules(yaml, "rules.yaml");
  EXPECT_TRUE(parsed.ok()) << parsed.error().message;
  return parsed.ok() ? parsed->rules : RuleSet{};
}

// The one rule whose fields are `fields`, in braces.
Rule RuleOf(const std::string& fields) {
  const RuleSet set = SetOf("rules:\n  - {name: r, " + fields + "}\n");
  return set.rules.empty() ? Rule{} : set.rules[0];
}

TEST(ParseRulesTest, RuleOfARateHasTheDefaultsOfTheModel) {
  const Rule rule = RuleOf("limit: 100/s");

  EXPECT_EQ(rule.name, "r");
  EXPECT_EQ(rule.kind, RuleKind::kLimit);
  EXPECT_EQ(rule.rate, (Rate{100, 1s}));
  EXPECT_TRUE(rule.enabled);
  EXPECT_FALSE(rule.shadow);
  EXPECT_EQ(rule.on, Target{});
  EXPECT_EQ(rule.algorithm, Algorithm::kTokenBucket);
  EXPECT_EQ(rule.burst, std::nullopt);
  EXPECT_EQ(rule.cost, Cost{});
  EXPECT_EQ(rule.refuse, Refuse{});
  EXPECT_EQ(rule.degrade, Degrade{});
  EXPECT_EQ(rule.origin, "rules.yaml:2:5");
}

TEST(ParseRulesTest, BreakerOpensBySlowCallsOrErrors) {
  const Rule slow = RuleOf(
      "on: {resource: \"sms:send\"}, breaker: {slow: {over: 800ms, ratio: 50%}, min_calls: 20, "
      "window: 30s, open_for: 2s, probes: 3}");
  EXPECT_EQ(slow.kind, RuleKind::kBreaker);
  EXPECT_EQ(slow.breaker.slow_ratio, 0.5);
  EXPECT_EQ(slow.breaker.slow_over, 800ms);
  EXPECT_EQ(slow.breaker.error_ratio, std::nullopt);
  EXPECT_EQ(slow.breaker.error_count, std::nullopt);
  EXPECT_EQ(slow.breaker.min_calls, 20);
  EXPECT_EQ(slow.breaker.window, 30s);
  EXPECT_EQ(slow.breaker.open_for, 2s);
  EXPECT_EQ(slow.breaker.probes, 3);

  EXPECT_EQ(RuleOf("breaker: {errors: {ratio: 1.0}}").breaker.error_ratio, 1.0);
  EXPECT_EQ(RuleOf("breaker: {errors: {ratio: 33.3%}}").breaker.error_ratio, 0.333);
  EXPECT_EQ(RuleOf("breaker: {errors: {count: 0}}").breaker.error_count, 0);
}

TEST(ParseRulesTest, LimitWithBurstInBothForms) {
  EXPECT_EQ(RuleOf("limit: 100/s burst 200").burst, 200);
  EXPECT_EQ(RuleOf("limit: {rate: 100/s, burst: 200}").burst, 200);
  EXPECT_EQ(RuleOf("limit: {rate: 100/s burst 200}").burst, 200);
}

// 2^32 + 5 must not become 5.
TEST(ParseRulesTest, NumbersAreNotNarrowed) {
  EXPECT_EQ(RuleOf("limit: 4294967301/d burst 4294967301").rate.limit, 4'294'967'301);
  EXPECT_EQ(RuleOf("limit: 4294967301/d burst 4294967301").burst, 4'294'967'301);
  EXPECT_EQ(RuleOf("concurrency: 4294967301").concurrency, 4'294'967'301);
}

// One meaning of 0 everywhere, distinct from "not written" and from "switched off".
TEST(ParseRulesTest, ZeroRefusesAllAndIsNotDisabled) {
  const auto parsed = ParseRules("rules:\n  - {name: r, limit: 0}\n", "rules.yaml");

  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed->rules.rules[0].rate.limit, 0);
  EXPECT_TRUE(parsed->rules.rules[0].enabled);
  ASSERT_EQ(parsed->warnings.size(), 1u);
  EXPECT_EQ(
      parsed->warnings[0],
      "rules.yaml:2:22: limit: 0 refuses every request; `enabled: false` switches a rule off");
}

TEST(ParseRulesTest, EnabledAndShadow) {
  const Rule rule = RuleOf("limit: 1/s, enabled: false, shadow: true");

  EXPECT_FALSE(rule.enabled);
  EXPECT_TRUE(rule.shadow);
}

TEST(ParseRulesTest, TargetByRouteAndResource) {
  const Rule rule = RuleOf("limit: 1/s, on: {route: \"POST /orders/{id}\", resource: \"order:*\"}");

  EXPECT_EQ(rule.on.route, "POST /orders/{id}");
  EXPECT_EQ(rule.on.resource, "order:*");
}

TEST(ParseRulesTest, EveryAlgorithmHasItsWord) {
  EXPECT_EQ(RuleOf("limit: 1/s, algorithm: token_bucket").algorithm, Algorithm::kTokenBucket);
  EXPECT_EQ(RuleOf("limit: 1/s, algorithm: leaky_bucket").algorithm, Algorithm::kLeakyBucket);
  EXPECT_EQ(RuleOf("limit: 1/s, algorithm: sliding_log").algorithm, Algorithm::kSlidingLog);
  EXPECT_EQ(RuleOf("limit: 1/s, algorithm: sliding_buckets").algorithm, Algorithm::kSlidingBuckets);
  EXPECT_EQ(RuleOf("limit: 1/s, algorithm: sliding_window").algorithm, Algorithm::kSlidingWindow);
  EXPECT_EQ(RuleOf("limit: 1/s, algorithm: fixed_window").algorithm, Algorithm::kFixedWindow);
  EXPECT_EQ(RuleOf("limit: 1/s, algorithm: weighted_average").algorithm,
            Algorithm::kWeightedAverage);
  EXPECT_EQ(RuleOf("limit: 1/s, algorithm: smooth_bursty").algorithm, Algorithm::kSmoothBursty);
  EXPECT_EQ(RuleOf("limit: 1/s, algorithm: warm_up, warm_up: 4s").algorithm, Algorithm::kWarmUp);
  EXPECT_EQ(RuleOf("limit: 1/s, algorithm: warm_up_window, warm_up: 4s").algorithm,
            Algorithm::kWarmUpWindow);
  EXPECT_EQ(RuleOf("limit: 1/s, algorithm: leap_array").algorithm, Algorithm::kLeapArray);
  const Rule steps = RuleOf("limit: 1/s burst 4, algorithm: step_bucket");
  EXPECT_EQ(steps.algorithm, Algorithm::kStepBucket);
  EXPECT_EQ(steps.burst, 4);
}

TEST(ParseRulesTest, FieldsOfWarmingUp) {
  const Rule rule = RuleOf("limit: 5/s, algorithm: warm_up, warm_up: 1500ms, cold_factor: 10");
  EXPECT_EQ(rule.warm_up, 1500ms);
  EXPECT_EQ(rule.cold_factor, 10);
  EXPECT_EQ(RuleOf("limit: 5/s, algorithm: warm_up, warm_up: 1s").cold_factor, 3);
  EXPECT_EQ(RuleOf("limit: 5/s, algorithm: warm_up, warm_up: 1s, wait: 2s").wait, 2s);
  EXPECT_EQ(RuleOf("limit: 5/s burst 9, algorithm: smooth_bursty, wait: 2s").burst, 9);
  EXPECT_EQ(RuleOf("limit: 5/s, algorithm: sliding_log, borrow: 200ms").borrow, 200ms);
}

TEST(ParseRulesTest, FieldsOfALimit) {
  EXPECT_EQ(RuleOf("limit: 1/s, algorithm: sliding_buckets, buckets: 12").buckets, 12);
  EXPECT_EQ(RuleOf("limit: 1/s, wait: 300ms").wait, 300ms);
  EXPECT_TRUE(RuleOf("limit: 1/s, count_refused: true").count_refused);
  EXPECT_EQ(RuleOf("limit: 1/s, scope: shared").scope, Scope::kShared);
  EXPECT_EQ(RuleOf("limit: 1/s, on_store_failure: closed").on_store_failure,
            StoreFailurePolicy::kClosed);
  EXPECT_EQ(RuleOf("limit: 1/s, on_store_failure: open").on_store_failure,
            StoreFailurePolicy::kOpen);
}

TEST(ParseRulesTest, FieldsOfSharedCells) {
  const Rule rule = RuleOf(
      "limit: 9/s, scope: shared, on_store_failure: closed, lease: {overshoot: 5}, shards: 3, "
      "prefilter: true, tag: resource");

  EXPECT_EQ(rule.lease.overshoot, 5);
  EXPECT_EQ(rule.shards, 3);
  EXPECT_TRUE(rule.prefilter);
  EXPECT_EQ(rule.tag, CellTag::kResource);
  EXPECT_EQ(RuleOf("concurrency: 4, scope: shared, on_store_failure: open").scope, Scope::kShared);
}

TEST(ParseRulesTest, ASharedRuleThatSaysNothingOfStoreFailuresIsAWarning) {
  const auto parsed = ParseRules("rules: [{name: r, limit: 1/s, scope: shared}]\n", "r.yaml");

  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  ASSERT_EQ(parsed->warnings.size(), 1u);
  EXPECT_NE(parsed->warnings[0].find("scope: shared without on_store_failure"), std::string::npos);
}

TEST(ParseRulesTest, FieldsOfClusterRules) {
  const Rule limit = RuleOf(
      "limit: 9/s, scope: cluster, on_store_failure: open, flow_id: 9223372036854775807, "
      "per_client: true");
  EXPECT_EQ(limit.scope, Scope::kCluster);
  EXPECT_EQ(limit.cluster, (ClusterCount{.flow_id = INT64_MAX, .per_client = true}));
  const Rule tokens =
      RuleOf("concurrency: 4, scope: cluster, on_store_failure: open, token_ttl: 1500ms");
  EXPECT_EQ(tokens.cluster, (ClusterCount{.token_ttl = 1500ms}));
}

TEST(ParseRulesTest, OverridesOfClusterRulesMayHaveATypeEach) {
  const Rule rule = RuleOf(
      "limit: 9/s, scope: cluster, on_store_failure: open, by: user, overrides: {vip: 50/s, "
      "7: {rate: 5/s burst 6, type: int}, 8: [{rate: 1/s, type: long}, {rate: 2/s, burst: 3, type: "
      "string}]}");
  EXPECT_EQ(rule.overrides, (std::vector<Override>{{"vip", {50, 1s}, {}},
                                                   {"7", {5, 1s}, 6, ValueType::kInt},
                                                   {"8", {1, 1s}, {}, ValueType::kLong},
                                                   {"8", {2, 1s}, 3, ValueType::kString}}));
}

TEST(ParseRulesTest, AClusterRuleThatSaysNothingOfItsServersFailuresIsAWarning) {
  const auto parsed = ParseRules("rules: [{name: r, limit: 1/s, scope: cluster}]\n", "r.yaml");

  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  ASSERT_EQ(parsed->warnings.size(), 1u);
  EXPECT_EQ(parsed->warnings[0],
            "r.yaml:1:38: scope: cluster without on_store_failure; while no token server answers "
            "each process grants its share of the limit (`on_store_failure: local`)");
}

TEST(ParseRulesTest, CostAsANumberOrAMap) {
  EXPECT_EQ(RuleOf("limit: 9/s, cost: 5").cost.reserve, 5);
  const Cost cost =
      RuleOf("limit: 9/s, cost: {reserve: 2, settle: \"header:x-usage\", max_debt: 20_000}").cost;

  EXPECT_EQ(cost.reserve, 2);
  EXPECT_EQ(cost.settle, "header:x-usage");
  EXPECT_EQ(cost.max_debt, 20'000);
}

TEST(ParseRulesTest, KeyAsAListOrOneWord) {
  EXPECT_EQ(RuleOf("limit: 1/s, by: [ip, \"header:x-api-key\"]").by,
            (std::vector<std::string>{"ip", "header:x-api-key"}));
  EXPECT_EQ(RuleOf("limit: 1/s, by: ip").by, (std::vector<std::string>{"ip"}));
  EXPECT_TRUE(RuleOf("limit: 1/s, by: []").by.empty());
}

TEST(ParseRulesTest, OverridesAreRatesOrNumbersByKind) {
  const Rule rate = RuleOf("limit: 1/s, by: [ip], overrides: {\"1001\": 500/s burst 600, 7: 0}");
  const Rule concurrency = RuleOf("concurrency: 4, by: [ip], overrides: {a: 9}");

  EXPECT_EQ(rate.overrides, (std::vector<Override>{{"1001", {500, 1s}, 600}, {"7", {0, 1s}, {}}}));
  EXPECT_EQ(concurrency.overrides, (std::vector<Override>{{"a", {9, Duration{}}, {}}}));
}

TEST(ParseRulesTest, ConcurrencyRule) {
  const Rule rule = RuleOf("concurrency: 40");

  EXPECT_EQ(rule.kind, RuleKind::kConcurrency);
  EXPECT_EQ(rule.concurrency, 40);
}

TEST(ParseRulesTest, AccessRule) {
  const Rule rule =
      RuleOf("access: {allow: {tenant: [acme, globex]}, deny: {ip: 10.0.0.0/8, user: [x]}}");

  EXPECT_EQ(rule.kind, RuleKind::kAccess);
  EXPECT_EQ(rule.allow, (std::vector<AccessList>{{"tenant", {"acme", "globex"}}}));
  EXPECT_EQ(rule.deny, (std::vector<AccessList>{{"ip", {"10.0.0.0/8"}}, {"user", {"x"}}}));
}

TEST(ParseRulesTest, RefuseAndDegrade) {
  const Refuse refuse = RuleOf(
                            "limit: 1/s, refuse: {status: 503, message: \"Later\", headers: {x-a: "
                            "b}, body: unified}")
                            .refuse;
  const Degrade degrade =
      RuleOf("limit: 1/s, degrade: {status: 200, body: \"{}\", content_type: application/json}")
          .degrade;

  EXPECT_EQ(refuse.status, 503);
  EXPECT_EQ(refuse.message, "Later");
  EXPECT_EQ(refuse.headers, (std::vector<std::pair<std::string, std::string>>{{"x-a", "b"}}));
  EXPECT_EQ(refuse.body, RefuseBody::kUnified);
  EXPECT_TRUE(degrade.enabled);
  EXPECT_EQ(degrade.status, 200);
  EXPECT_EQ(degrade.body, "{}");
  EXPECT_EQ(degrade.content_type, "application/json");
  EXPECT_TRUE(RuleOf("limit: 1/s, degrade: true").degrade.enabled);
  EXPECT_FALSE(RuleOf("limit: 1/s, degrade: false").degrade.enabled);
  EXPECT_EQ(RuleOf("limit: 1/s, degrade: {header: \"x-lite: 1\"}").degrade.header, "x-lite: 1");
}

TEST(ParseRulesTest, MatchMode) {
  EXPECT_EQ(SetOf("rules: []\n").match, MatchMode::kAll);
  EXPECT_EQ(SetOf("match: most_specific\nrules: []\n").match, MatchMode::kMostSpecific);
}

TEST(ParseRulesTest, WhoseCounting) {
  EXPECT_EQ(SetOf("rules: []\n").compat, Compat::kNone);
  EXPECT_EQ(SetOf("compat: none\nrules: []\n").compat, Compat::kNone);
  EXPECT_EQ(SetOf("compat: sentinel\nrules: []\n").compat, Compat::kSentinel);
}

TEST(ParseRulesTest, DimensionsInEveryForm) {
  const RuleSet set = SetOf(
      "rules: []\n"
      "dimensions:\n"
      "  tenant: {header: x-tenant-id, missing: default}\n"
      "  user: \"cookie:sid\"\n"
      "  token: {query: t, missing: skip, trim: true}\n"
      "  order: {path: id, missing: refuse, lower: true}\n"
      "  verb: {source: method, missing: {share: skip}}\n");

  ASSERT_EQ(set.dimensions.size(), 5u);
  const auto spec = [](std::string name, std::string source, MissingPolicy missing,
                       std::string value, bool trim, bool lower) {
    return DimensionSpec{
        std::move(name), std::move(source), missing, std::move(value), trim, lower};
  };
  EXPECT_EQ(set.dimensions[0],
            spec("tenant", "header:x-tenant-id", MissingPolicy::kShare, "default", false, false));
  EXPECT_EQ(set.dimensions[1], spec("user", "cookie:sid", MissingPolicy::kShare, "", false, false));
  EXPECT_EQ(set.dimensions[2], spec("token", "query:t", MissingPolicy::kSkip, "", true, false));
  EXPECT_EQ(set.dimensions[3], spec("order", "path:id", MissingPolicy::kRefuse, "", false, true));
  EXPECT_EQ(set.dimensions[4], spec("verb", "method", MissingPolicy::kShare, "skip", false, false));
}

// Helm charts and the like put everything in quotes.
TEST(ParseRulesTest, NumbersAndRatesMayBeInQuotes) {
  EXPECT_EQ(RuleOf("limit: \"100/s\"").rate.limit, 100);
  EXPECT_EQ(RuleOf("concurrency: \"40\"").concurrency, 40);
}

TEST(ParseRulesTest, JsonIsYamlToo) {
  const RuleSet set = SetOf(R"({"rules": [{"name": "a", "limit": "5/s", "by": ["ip"]}]})");

  ASSERT_EQ(set.rules.size(), 1u);
  EXPECT_EQ(set.rules[0].rate.limit, 5);
}

TEST(ParseRulesTest, EmptyListIsValidAndClears) {
  EXPECT_TRUE(SetOf("rules: []\n").rules.empty());
}

}  // namespace
}  // namespace flowguard
