// SPDX-License-Identifier: Apache-2.0
#include "rules/compile.h"

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace flowguard::rules {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Rule Limit(std::string name, int64_t limit = 100, Duration window = seconds(1)) {
  Rule rule;
  rule.name = std::move(name);
  rule.rate = {limit, window};
  return rule;
}

RuleSet Set(std::vector<Rule> rules) {
  RuleSet set;
  set.rules = std::move(rules);
  return set;
}

DimensionSpec Declared(std::string name, std::string source) {
  DimensionSpec spec;
  spec.name = std::move(name);
  spec.source = std::move(source);
  return spec;
}

RuleTable Good(const RuleSet& set, bool remote_allowed = false) {
  auto table = Compile(set, {.remote_allowed = remote_allowed});
  EXPECT_TRUE(table.ok()) << table.error().message;
  return table.ok() ? *std::move(table) : RuleTable();
}

std::vector<std::string> Errors(const RuleSet& set) {
  auto table = Compile(set, {});
  std::vector<std::string> lines;
  if (table.ok()) return lines;
  EXPECT_EQ(table.error().code, ErrorCode::kInvalidArgument);
  std::string line;
  for (const char c : table.error().message + "\n") {
    if (c != '\n') {
      line += c;
      continue;
    }
    lines.push_back(line);
    line.clear();
  }
  return lines;
}

// Faults of a 100/s rule after `change`.
std::vector<std::string> ErrorsOf(const std::function<void(Rule&)>& change) {
  Rule rule = Limit("a");
  change(rule);
  return Errors(Set({rule}));
}

// --- what compiles

TEST(CompileTest, EmptySetIsATable) {
  const RuleTable table = Good({});

  EXPECT_TRUE(table.rules.empty());
  EXPECT_THAT(table.warnings, IsEmpty());
}

TEST(CompileTest, RulesKeepTheirPlacesAndNumbers) {
  Rule rule = Limit("create", 500);
  rule.burst = 900;
  rule.by = {"ip", "header:X-Api-Key"};
  rule.on = {"order:create", "POST /orders"};
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
  for (int i = 0; i <= static_cast<int>(Algorithm::kWeightedAverage); ++i) {
    Rule rule = Limit("a", 0);
    rule.algorithm = static_cast<Algorithm>(i);
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
  EXPECT_NE(IdentityAfter([](Rule& r) { r.scope = Scope::kShared; }), before);
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

// --- what does not compile

TEST(CompileErrorTest, AllFaultsAreToldEachWithItsPlace) {
  Rule a = Limit("a", -1);
  a.origin = "rules.yaml:3:5";
  Rule b = Limit("", 1);
  Rule c = Limit("c", 1);
  c.by = {"usr"};
  c.on.route = "api";

  EXPECT_THAT(Errors(Set({a, b, c})),
              ElementsAre("rules.yaml:3:5: rule \"a\": limit: found -1; at least 0, which refuses "
                          "everything",
                          HasSubstr("rule #2: name: missing"),
                          HasSubstr("rule \"c\": on.route: \"api\": column 1: a path begins"),
                          HasSubstr("rule \"c\": by: found \"usr\"; did you mean \"user\"?")));
}

// Rules out that two limits of one identity coexist after an edit.
TEST(CompileErrorTest, NamesAreUnique) {
  Rule a = Limit("same");
  a.origin = "rules.yaml:2:3";
  Rule b = Limit("same");
  b.enabled = false;

  EXPECT_THAT(Errors(Set({a, b})),
              ElementsAre("rule \"same\": name: found twice; the other is at rules.yaml:2:3"));
}

TEST(CompileErrorTest, NamesCanStandInHeadersAndMetrics) {
  EXPECT_THAT(ErrorsOf([](Rule& r) { r.name = "a b"; }),
              ElementsAre(HasSubstr("name: found a character at column 2")));
  EXPECT_THAT(ErrorsOf([](Rule& r) { r.name = "a\r\nb"; }), Not(IsEmpty()));
  EXPECT_THAT(ErrorsOf([](Rule& r) { r.name = std::string(129, 'a'); }),
              ElementsAre(HasSubstr("found 129 bytes; at most 128")));
  EXPECT_THAT(ErrorsOf([](Rule& r) { r.name = "Order:create/v1.2_x-@"; }), IsEmpty());
}

// Rules out quota minted by negative numbers, and limits without a window.
TEST(CompileErrorTest, NumbersMakeSense) {
  EXPECT_THAT(ErrorsOf([](Rule& r) { r.rate.limit = -1; }),
              ElementsAre(HasSubstr("limit: found -1")));
  EXPECT_THAT(ErrorsOf([](Rule& r) { r.rate.window = seconds(-10); }),
              ElementsAre(HasSubstr("found a window of -10000000000 ns")));
  EXPECT_THAT(ErrorsOf([](Rule& r) { r.rate.window = {}; }), ElementsAre(HasSubstr("window of 0")));
  EXPECT_THAT(ErrorsOf([](Rule& r) { r.rate.limit = INT64_MAX; }),
              ElementsAre(HasSubstr("rule \"a\": limit: found 9223372036854775807; allowed 0 to")));
  EXPECT_THAT(ErrorsOf([](Rule& r) { r.burst = -1; }), ElementsAre(HasSubstr("burst: found -1")));
  EXPECT_THAT(ErrorsOf([](Rule& r) { r.burst = 0; }), ElementsAre(HasSubstr("burst: found 0")));
  EXPECT_THAT(ErrorsOf([](Rule& r) {
                r.rate.limit = 0;
                r.burst = 1;
              }),
              ElementsAre(HasSubstr("burst: found 1 beside limit 0")));
  EXPECT_THAT(ErrorsOf([](Rule& r) { r.wait = seconds(-1); }), ElementsAre(HasSubstr("wait")));
  EXPECT_THAT(ErrorsOf([](Rule& r) { r.cost.reserve = 0; }),
              ElementsAre(HasSubstr("cost.reserve: found 0; allowed 1 to")));
  EXPECT_THAT(ErrorsOf([](Rule& r) { r.cost.max_debt = -1; }),
              ElementsAre(HasSubstr("cost.max_debt: found -1")));
}

TEST(CompileErrorTest, ReserveAboveCapacityCouldNeverPass) {
  EXPECT_THAT(ErrorsOf([](Rule& r) { r.cost.reserve = 101; }),
              ElementsAre(HasSubstr("cost.reserve: found 101; above 100")));
  EXPECT_THAT(ErrorsOf([](Rule& r) {
                r.cost.reserve = 101;
                r.burst = 200;
              }),
              IsEmpty());
}

// Fields that mean nothing where they stand are told, not ignored.
TEST(CompileErrorTest, FieldsBelongToAlgorithms) {
  EXPECT_THAT(
      ErrorsOf([](Rule& r) {
        r.algorithm = Algorithm::kSlidingLog;
        r.burst = 5;
      }),
      ElementsAre("rule \"a\": burst: found here; it belongs to algorithm token_bucket only"));
  EXPECT_THAT(
      ErrorsOf([](Rule& r) { r.buckets = 5; }),
      ElementsAre(HasSubstr("buckets: found here; it belongs to algorithm sliding_buckets")));
  EXPECT_THAT(ErrorsOf([](Rule& r) {
                r.algorithm = Algorithm::kSlidingBuckets;
                r.buckets = 0;
              }),
              ElementsAre(HasSubstr("buckets: found 0; allowed 1 to 1000")));
  EXPECT_THAT(
      ErrorsOf([](Rule& r) {
        r.algorithm = Algorithm::kFixedWindow;
        r.wait = seconds(1);
      }),
      ElementsAre(HasSubstr("wait: found here; it belongs to algorithms token_bucket and")));
  EXPECT_THAT(ErrorsOf([](Rule& r) { r.on_store_failure = StoreFailurePolicy::kOpen; }),
              ElementsAre(HasSubstr("on_store_failure: found here")));
}

TEST(CompileErrorTest, FieldsBelongToKinds) {
  EXPECT_THAT(ErrorsOf([](Rule& r) { r.concurrency = 1; }),
              ElementsAre(HasSubstr("concurrency: found here")));
  EXPECT_THAT(ErrorsOf([](Rule& r) {
                r.allow = {{"ip", {"10.0.0.1"}}};
              }),
              ElementsAre(HasSubstr("allow: found here")));
  EXPECT_THAT(ErrorsOf([](Rule& r) {
                r.kind = RuleKind::kConcurrency;
                r.scope = Scope::kShared;
                r.count_refused = true;
                r.cost.reserve = 2;
                r.burst = 3;
                r.wait = seconds(1);
              }),
              ElementsAre(HasSubstr("limit: found here"), HasSubstr("burst: found here"),
                          HasSubstr("wait: found here"), HasSubstr("count_refused: found here"),
                          HasSubstr("cost: found here"), HasSubstr("scope: shared: found here"),
                          HasSubstr("concurrency: found 0; allowed 1 to")));
  EXPECT_THAT(ErrorsOf([](Rule& r) {
                r.kind = RuleKind::kAccess;
                r.rate = {};
                r.by = {"ip"};
                r.overrides = {{"x", {1, seconds(1)}, {}}};
              }),
              ElementsAre(HasSubstr("by: found here"), HasSubstr("overrides: found here"),
                          HasSubstr("access: found neither allow nor deny")));
}

TEST(CompileErrorTest, TargetsAreWellFormed) {
  EXPECT_THAT(ErrorsOf([](Rule& r) { r.on.resource = "foo*bar"; }),
              ElementsAre(HasSubstr("on.resource: \"foo*bar\": column 4: '*' inside")));
  EXPECT_THAT(ErrorsOf([](Rule& r) { r.on.route = "/a/**/b"; }),
              ElementsAre(HasSubstr("on.route: \"/a/**/b\": column 7")));
}

TEST(CompileErrorTest, DimensionsHaveKnownForms) {
  const auto by = [](std::string name) { return ErrorsOf([&](Rule& r) { r.by = {name}; }); };
  EXPECT_THAT(by("heeder:x-id"), ElementsAre(AllOf(HasSubstr("by: found \"heeder:x-id\""),
                                                   HasSubstr("did you mean \"header:x-id\"?"),
                                                   HasSubstr("allowed: ip, method"))));
  EXPECT_THAT(by("IP"), ElementsAre(HasSubstr("did you mean \"ip\"?")));
  EXPECT_THAT(by("header:"), ElementsAre(HasSubstr("after the colon stands a name")));
  EXPECT_THAT(by("header:x id"), ElementsAre(HasSubstr("after the colon stands a name")));
  EXPECT_THAT(by(""), ElementsAre(HasSubstr("by: found \"\"")));
  EXPECT_THAT(ErrorsOf([](Rule& r) {
                r.by = {"ip", "ip"};
              }),
              ElementsAre(HasSubstr("by: found ip twice")));
  EXPECT_THAT(ErrorsOf([](Rule& r) {
                for (int i = 0; i < 9; ++i)
                  r.by.push_back("header:x" + std::to_string(i));
              }),
              ElementsAre(HasSubstr("by: found 9 dimensions; at most 8")));
}

TEST(CompileErrorTest, PathDimensionNeedsARouteThatCapturesIt) {
  EXPECT_THAT(ErrorsOf([](Rule& r) { r.by = {"path:id"}; }),
              ElementsAre(HasSubstr("by: found path:id, but the rule's route has no {id}")));
  EXPECT_THAT(ErrorsOf([](Rule& r) {
                r.by = {"path:id"};
                r.on.route = "/a/{other}/*";
              }),
              ElementsAre(HasSubstr("has no {id}")));
}

TEST(CompileErrorTest, DeclarationsAreChecked) {
  const auto errors = [](DimensionSpec spec) {
    RuleSet set = Set({Limit("a")});
    set.rules[0].by = {spec.name};
    set.dimensions = {spec};
    return Errors(set);
  };
  EXPECT_THAT(errors(Declared("t", "heder:x")),
              ElementsAre(AllOf(HasSubstr("dimension \"t\": source: found \"heder:x\""),
                                HasSubstr("did you mean \"header:x\"?"))));
  EXPECT_THAT(errors(Declared("t", "user")), ElementsAre(HasSubstr("source: found \"user\"")));
  EXPECT_THAT(errors(Declared("ip", "header:x-real-ip")),
              ElementsAre(HasSubstr("the built-in name \"ip\" keeps its meaning")));
  DimensionSpec skipped = Declared("t", "");
  skipped.missing = MissingPolicy::kSkip;
  skipped.missing_value = "x";
  EXPECT_THAT(errors(skipped),
              ElementsAre(HasSubstr("missing: found value \"x\" beside skip or refuse")));

  RuleSet twice = Set({});
  twice.dimensions = {Declared("t", ""), Declared("t", ""), Declared("a:b", "")};
  EXPECT_THAT(Errors(twice), ElementsAre(HasSubstr("dimension \"t\": name: declared twice"),
                                         HasSubstr("dimension \"a:b\": name: found")));
}

TEST(CompileErrorTest, OverridesAreChecked) {
  const auto errors = [](std::vector<Override> overrides, Algorithm algorithm) {
    return ErrorsOf([&](Rule& r) {
      r.by = {"ip"};
      r.algorithm = algorithm;
      r.overrides = std::move(overrides);
    });
  };
  const Rate rate{5, seconds(1)};
  EXPECT_THAT(ErrorsOf([&](Rule& r) {
                r.overrides = {{"x", rate, {}}};
              }),
              ElementsAre(HasSubstr("overrides: found without by")));
  EXPECT_THAT(errors({{"10.0.0.1", rate, {}}, {"10.0.0.1", rate, {}}}, Algorithm::kTokenBucket),
              ElementsAre(HasSubstr("overrides.\"10.0.0.1\": found twice")));
  EXPECT_THAT(errors({{"10.0.0", rate, {}}}, Algorithm::kTokenBucket),
              ElementsAre(HasSubstr("overrides.\"10.0.0\": not an address")));
  EXPECT_THAT(errors({{"", rate, {}}}, Algorithm::kTokenBucket),
              ElementsAre(HasSubstr("a value has 1 to 128 bytes")));
  EXPECT_THAT(errors({{"10.0.0.1", rate, 7}}, Algorithm::kFixedWindow),
              ElementsAre(HasSubstr("overrides.\"10.0.0.1\": burst: found here")));
  EXPECT_THAT(errors({{"10.0.0.1", {-5, seconds(1)}, {}}}, Algorithm::kTokenBucket),
              ElementsAre(HasSubstr("overrides.\"10.0.0.1\": limit: found -5")));
}

TEST(CompileErrorTest, AccessListsAreChecked) {
  const auto errors = [](AccessList list) {
    Rule rule;
    rule.name = "a";
    rule.kind = RuleKind::kAccess;
    rule.allow = {std::move(list)};
    return Errors(Set({rule}));
  };
  EXPECT_THAT(errors({"ip", {}}), ElementsAre(HasSubstr("allow.ip: found 0 values")));
  EXPECT_THAT(errors({"ip", {"10.0.0.0/99"}}),
              ElementsAre(HasSubstr("allow.ip: value \"10.0.0.0/99\": not an address")));
  EXPECT_THAT(errors({"tennant", {"a"}}), ElementsAre(HasSubstr("did you mean \"tenant\"?")));
}

TEST(CompileErrorTest, SettleNamesAResponseHeader) {
  EXPECT_THAT(ErrorsOf([](Rule& r) { r.cost.settle = "x-usage"; }),
              ElementsAre(HasSubstr("cost.settle: found \"x-usage\"; write header:NAME")));
  EXPECT_THAT(ErrorsOf([](Rule& r) { r.cost.settle = "header:x-usage"; }), IsEmpty());
}

TEST(CompileErrorTest, TooManyRulesForOneRequestAreNamed) {
  std::vector<Rule> rules;
  for (int i = 0; i < 33; ++i)
    rules.push_back(Limit("r" + std::to_string(i)));

  EXPECT_THAT(Errors(Set(rules)),
              ElementsAre(AllOf(HasSubstr("\"r0\""), HasSubstr("33 rules can meet one request"))));
}

// --- warnings

std::vector<std::string> WarningsOf(const std::function<void(Rule&)>& change) {
  Rule rule = Limit("a");
  change(rule);
  return Good(Set({rule})).warnings;
}

TEST(CompileWarningTest, TellsWhatIsAllowedAndLikelyNotMeant) {
  EXPECT_THAT(WarningsOf([](Rule&) {}), IsEmpty());
  EXPECT_THAT(WarningsOf([](Rule& r) { r.algorithm = Algorithm::kFixedWindow; }),
              ElementsAre(HasSubstr("rule \"a\": algorithm: fixed_window admits up to twice")));
  EXPECT_THAT(WarningsOf([](Rule& r) {
                r.algorithm = Algorithm::kFixedWindow;
                r.shadow = true;
              }),
              IsEmpty());
  EXPECT_THAT(WarningsOf([](Rule& r) { r.algorithm = Algorithm::kWeightedAverage; }),
              ElementsAre(HasSubstr("weighted_average admits up to twice")));
  EXPECT_THAT(WarningsOf([](Rule& r) {
                r.algorithm = Algorithm::kSlidingLog;
                r.rate.limit = 50'000;
              }),
              ElementsAre(HasSubstr("sliding_log keeps 400000 bytes for every key")));
  EXPECT_THAT(WarningsOf([](Rule& r) { r.by = {"user"}; }),
              ElementsAre(HasSubstr("by: dimension user is given by the application only")));
}

}  // namespace
}  // namespace flowguard::rules
