// SPDX-License-Identifier: Apache-2.0
//
// What rule sets compile to, and which changes keep the cells of a rule.
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rules/check_rule.h"
#include "rules/compile_fixture_test.h"

namespace flowguard::rules {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(CompileTest, EmptySetIsATable) {
  const RuleTable table = Good({});

  EXPECT_TRUE(table.rules.empty());
  EXPECT_THAT(table.warnings, IsEmpty());
}

TEST(CompileTest, RulesKeepTheirPlacesAndNumbers) {
  Rule rule = Limit("create", 500);
  rule.burst = 900;
  rule.by = {"ip", "header:X-Api-Key"};
  rule.on.resource = "order:create";
  rule.on.route = "POST /orders";
  rule.cost.max_debt = 7;

  const RuleTable table = Good(Set({Limit("first"), rule}));

  const CompiledRule& compiled = table.rules[1];
  EXPECT_EQ(compiled.index, 1u);
  EXPECT_EQ(compiled.rule.name, "create");
  EXPECT_EQ(compiled.matched_by, "route POST /orders or resource order:create");
  ASSERT_TRUE(compiled.quota.spec.has_value());
  EXPECT_EQ(compiled.quota.spec->limit(), 900);
  EXPECT_EQ(compiled.quota.config.max_debt, 7);
  EXPECT_FALSE(compiled.remote());
  EXPECT_EQ(table.rules[0].matched_by, "every request");
}

// Rules out that the configured key source is replaced by another.
TEST(CompileTest, KeySourcesAreAsWritten) {
  Rule rule = Limit("a");
  rule.by = {"ip", "header:X-Api-Key", "cookie:Sid", "query:T", "param:sku", "method", "tenant"};
  RuleSet set = Set({rule});
  set.dimensions = {Declared("tenant", "header:X-Tenant")};
  set.dimensions[0].missing_value = " Acme ";
  set.dimensions[0].trim = true;
  set.dimensions[0].lower = true;

  const RuleTable table = Good(set);

  const std::vector<KeyPart>& by = table.rules[0].by;
  ASSERT_EQ(by.size(), 7u);
  EXPECT_EQ(by[0].dimension->kind, DimensionKind::kIp);
  EXPECT_EQ(by[1].dimension->kind, DimensionKind::kHeader);
  EXPECT_EQ(by[1].dimension->argument, "x-api-key");
  EXPECT_EQ(by[1].dimension->name, "header:x-api-key");
  EXPECT_EQ(by[2].dimension->kind, DimensionKind::kCookie);
  EXPECT_EQ(by[2].dimension->argument, "Sid") << "cookie names have case";
  EXPECT_EQ(by[3].dimension->argument, "T");
  EXPECT_EQ(by[4].dimension->kind, DimensionKind::kParam);
  EXPECT_EQ(by[5].dimension->kind, DimensionKind::kMethod);
  EXPECT_EQ(by[6].dimension->kind, DimensionKind::kHeader);
  EXPECT_EQ(by[6].dimension->argument, "x-tenant");
  EXPECT_EQ(by[6].dimension->missing_value, "acme");
  for (size_t i = 0; i < table.dimensions.size(); ++i)
    EXPECT_EQ(table.dimensions[i].index, i);
}

TEST(CompileTest, RulesShareDimensions) {
  Rule a = Limit("a");
  a.by = {"header:X-A"};
  Rule b = Limit("b");
  b.by = {"header:x-a"};

  const RuleTable table = Good(Set({a, b}));

  EXPECT_EQ(table.dimensions.size(), 1u);
  EXPECT_EQ(table.rules[0].by[0].dimension, table.rules[1].by[0].dimension);
}

TEST(CompileTest, MovedTableKeepsItsDimensions) {
  Rule rule = Limit("a");
  rule.by = {"ip"};
  RuleTable first = Good(Set({rule}));

  const RuleTable second = std::move(first);

  EXPECT_EQ(second.rules[0].by[0].dimension, &second.dimensions[0]);
}

TEST(CompileTest, PathDimensionIsASegmentOfTheRulesOwnRoute) {
  Rule a = Limit("a");
  a.on.route = "/shops/{shop}/items/{item}";
  a.by = {"path:item"};
  Rule b = Limit("b");
  b.on.route = "/{item}/**";
  b.by = {"path:item"};

  const RuleTable table = Good(Set({a, b}));

  EXPECT_EQ(table.rules[0].by[0].segment, 3);
  EXPECT_EQ(table.rules[1].by[0].segment, 0);
}

TEST(CompileTest, OverridesAreFoundByTheFirstDimension) {
  Rule rule = Limit("hot", 50);
  rule.by = {"param:sku"};
  rule.overrides = {{"1001", {500, seconds(1)}, 900}, {"blocked", {0, seconds(1)}, {}}};

  const RuleTable table = Good(Set({rule}));

  const CompiledRule& compiled = table.rules[0];
  EXPECT_EQ(compiled.QuotaFor("1001").spec->limit(), 900);
  EXPECT_EQ(compiled.QuotaFor("1002").spec->limit(), 50);
  EXPECT_EQ(compiled.QuotaFor("blocked").spec->limit(), 0);
  EXPECT_EQ(&compiled.QuotaFor({}), &compiled.quota);
  EXPECT_EQ(&compiled.QuotaFor(std::string(1000, 'x')), &compiled.quota);
  EXPECT_EQ(compiled.QuotaFor("1001").identity, compiled.quota.identity);
}

TEST(CompileTest, OverrideOfAConcurrencyRuleIsANumberOfCalls) {
  Rule rule;
  rule.name = "db";
  rule.kind = RuleKind::kConcurrency;
  rule.concurrency = 40;
  rule.by = {"tenant"};
  rule.overrides = {{"acme", {80, {}}, {}}};

  const RuleTable table = Good(Set({rule}));

  EXPECT_EQ(table.rules[0].QuotaFor("acme").concurrency, 80);
  EXPECT_EQ(table.rules[0].QuotaFor("other").concurrency, 40);
}

TEST(CompileTest, OverridesFoldWhereTheDimensionDoes) {
  Rule rule = Limit("a");
  rule.by = {"mail"};
  rule.overrides = {{" VIP@x.org", {500, seconds(1)}, {}}};
  RuleSet set = Set({rule});
  set.dimensions = {Declared("mail", "")};
  set.dimensions[0].trim = true;
  set.dimensions[0].lower = true;

  EXPECT_EQ(Good(set).rules[0].QuotaFor("vip@x.org").spec->limit(), 500);
}

// Rules out that an override of a block is looked for as a text.
TEST(CompileTest, OverridesOfAddressesMayBeBlocks) {
  Rule rule = Limit("a");
  rule.by = {"ip"};
  rule.overrides = {{"10.0.0.0/8", {500, seconds(1)}, {}}, {"2001:db8::5", {7, seconds(1)}, {}}};

  const RuleTable table = Good(Set({rule}));

  EXPECT_EQ(table.rules[0].QuotaFor("10.1.2.3").spec->limit(), 500);
  EXPECT_EQ(table.rules[0].QuotaFor("11.1.2.3").spec->limit(), 100);
  EXPECT_EQ(table.rules[0].QuotaFor("2001:db8::/64").spec->limit(), 7);
  EXPECT_THAT(table.warnings, ElementsAre(HasSubstr("a whole /64 for one client")));
}

TEST(CompileTest, AccessListsAreCompiled) {
  Rule rule;
  rule.name = "partners";
  rule.kind = RuleKind::kAccess;
  rule.allow = {{"tenant", {"acme", "globex-*"}}};
  rule.deny = {{"ip", {"192.0.2.0/24"}}};

  const RuleTable table = Good(Set({rule}));

  EXPECT_TRUE(table.rules[0].allow[0].values.Contains("globex-eu"));
  EXPECT_FALSE(table.rules[0].allow[0].values.Contains("other"));
  EXPECT_TRUE(table.rules[0].deny[0].values.Contains("192.0.2.9"));
}

// Rules out that 0 means "default" or "off" somewhere: it refuses everything.
TEST(CompileTest, LimitZeroLoadsForEveryAlgorithm) {
  for (int i = 0; i <= static_cast<int>(Algorithm::kWarmUpWindow); ++i) {
    Rule rule = Limit("a", 0);
    rule.algorithm = static_cast<Algorithm>(i);
    if (HasWarmUp(rule.algorithm)) rule.warm_up = std::chrono::minutes(10);
    EXPECT_EQ(Good(Set({rule})).rules[0].quota.spec->limit(), 0) << i;
  }
}

TEST(CompileTest, InfoHasTheStatusFilledIn) {
  Rule rule = Limit("a");
  EXPECT_EQ(InfoOf(rule).refuse.status, 429);
  rule.kind = RuleKind::kAccess;
  EXPECT_EQ(InfoOf(rule).refuse.status, 403);
  rule.kind = RuleKind::kConcurrency;
  rule.concurrency = 40;
  EXPECT_EQ(InfoOf(rule).refuse.status, 503);
  EXPECT_EQ(InfoOf(rule).rate.limit, 40);
  rule.refuse.status = 500;
  EXPECT_EQ(InfoOf(rule).refuse.status, 500);
}

TEST(CompileTest, SharedRulesNeedAStore) {
  Rule rule = Limit("a");
  rule.scope = Scope::kShared;
  rule.on_store_failure = StoreFailurePolicy::kOpen;

  EXPECT_TRUE(Good(Set({rule}), true).rules[0].remote());
  EXPECT_THAT(Errors(Set({rule})),
              ElementsAre("rule \"a\": scope: found shared, but there is no store for shared "
                          "limits; configure one or use scope local"));
}

TEST(CompileTest, ConcurrencyMayBeShared) {
  Rule rule = Limit("a");
  rule.kind = RuleKind::kConcurrency;
  rule.rate = {};
  rule.concurrency = 4;
  rule.scope = Scope::kShared;
  rule.on_store_failure = StoreFailurePolicy::kClosed;

  EXPECT_TRUE(Good(Set({rule}), true).rules[0].remote());
  EXPECT_THAT(Errors(Set({rule})), ElementsAre(HasSubstr("scope: found shared, but there is no")));
}

TEST(CompileTest, MoreSharedRulesThanCanBeAskedAreAWarning) {
  std::vector<Rule> rules;
  for (int i = 0; i < 9; ++i) {
    rules.push_back(Limit("r" + std::to_string(i)));
    rules.back().scope = Scope::kShared;
  }
  EXPECT_THAT(Good(Set(rules), true).warnings,
              ElementsAre(HasSubstr("every request meets 9 shared and cluster rules")));
  rules.pop_back();
  EXPECT_TRUE(Good(Set(rules), true).warnings.empty());
}

// --- identity: which changes start new cells

uint64_t IdentityAfter(const std::function<void(Rule&)>& change) {
  Rule rule = Limit("a");
  rule.by = {"ip"};
  rule.algorithm = Algorithm::kSlidingBuckets;
  change(rule);
  const RuleTable table = Good(Set({rule}), true);
  return table.rules.empty() ? 0 : table.rules[0].quota.identity;
}

TEST(IdentityTest, SurvivesWhatDoesNotChangeTheMeaningOfACell) {
  const uint64_t before = IdentityAfter([](Rule&) {});

  EXPECT_EQ(IdentityAfter([](Rule& r) { r.rate.limit = 7; }), before);
  EXPECT_EQ(IdentityAfter([](Rule& r) { r.shadow = true; }), before);
  EXPECT_EQ(IdentityAfter([](Rule& r) { r.on.route = "/a"; }), before);
  EXPECT_EQ(IdentityAfter([](Rule& r) { r.refuse.message = "busy"; }), before);
  EXPECT_EQ(IdentityAfter([](Rule& r) { r.cost.max_debt = 3; }), before);
  EXPECT_EQ(IdentityAfter([](Rule& r) { r.origin = "rules.yaml:1:1"; }), before);
  EXPECT_EQ(IdentityAfter([](Rule& r) { r.count_refused = true; }), before);
}

TEST(IdentityTest, ChangesWithWhatACellIsAbout) {
  const uint64_t before = IdentityAfter([](Rule&) {});

  EXPECT_NE(IdentityAfter([](Rule& r) { r.name = "b"; }), before);
  EXPECT_NE(IdentityAfter([](Rule& r) { r.by = {"user"}; }), before);
  EXPECT_NE(IdentityAfter([](Rule& r) { r.by = {}; }), before);
  const uint64_t shared = IdentityAfter([](Rule& r) { r.scope = Scope::kShared; });
  const uint64_t cluster = IdentityAfter([](Rule& r) { r.scope = Scope::kCluster; });
  EXPECT_NE(shared, before);
  EXPECT_NE(cluster, before);
  EXPECT_NE(cluster, shared);
  EXPECT_NE(IdentityAfter([](Rule& r) { r.buckets = 5; }), before);
  EXPECT_NE(IdentityAfter([](Rule& r) { r.rate.window = minutes(1); }), before);
  EXPECT_NE(IdentityAfter([](Rule& r) {
              r.algorithm = Algorithm::kSlidingWindow;
              r.buckets = 10;
            }),
            before);
}

TEST(IdentityTest, WindowOfATokenBucketIsNoPartOfIt) {
  const auto bucket = [](Duration window) {
    return IdentityAfter([&](Rule& r) {
      r.algorithm = Algorithm::kTokenBucket;
      r.rate.window = window;
    });
  };

  EXPECT_EQ(bucket(seconds(1)), bucket(seconds(60)));
}

// Rules out that a counter of one window is read as one of another.
TEST(IdentityTest, OverrideWithAnotherWindowHasCellsOfItsOwn) {
  Rule rule = Limit("a");
  rule.by = {"ip"};
  rule.algorithm = Algorithm::kSlidingWindow;
  rule.overrides = {{"192.0.2.1", {500, minutes(1)}, {}}, {"192.0.2.2", {500, seconds(1)}, {}}};

  const RuleTable table = Good(Set({rule}));

  const CompiledRule& compiled = table.rules[0];
  EXPECT_NE(compiled.QuotaFor("192.0.2.1").identity, compiled.quota.identity);
  EXPECT_EQ(compiled.QuotaFor("192.0.2.2").identity, compiled.quota.identity);
}

TEST(IdentityTest, OtherSourceOfADimensionIsAnotherKey) {
  const auto with_source = [](std::string source) {
    Rule rule = Limit("a");
    rule.by = {"tenant"};
    RuleSet set = Set({rule});
    set.dimensions = {Declared("tenant", std::move(source))};
    return Good(set).rules[0].quota.identity;
  };

  EXPECT_NE(with_source("header:x-a"), with_source("header:x-b"));
  EXPECT_EQ(with_source("header:x-a"), with_source("header:X-A"));
}

}  // namespace
}  // namespace flowguard::rules
