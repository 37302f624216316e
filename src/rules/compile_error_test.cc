// SPDX-License-Identifier: Apache-2.0
//
// What does not compile and how it is told; what compiles and is warned of.
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rules/check_rule.h"
#include "rules/compile_fixture_test.h"

namespace flowguard::rules {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// Faults of a 100/s rule after `change`.
std::vector<std::string> ErrorsOf(const std::function<void(Rule&)>& change) {
  Rule rule = Limit("a");
  change(rule);
  return Errors(Set({rule}), rule.scope == Scope::kShared);
}

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
  EXPECT_THAT(ErrorsOf([](Rule& r) {
                r.algorithm = Algorithm::kLeakyBucket;
                r.cost.reserve = 2;
              }),
              ElementsAre(HasSubstr("cost.reserve: found 2; above 1,")));
  EXPECT_THAT(ErrorsOf([](Rule& r) {
                r.algorithm = Algorithm::kLeakyBucket;
                r.wait = seconds(1);
                r.cost.reserve = 101;
              }),
              IsEmpty());
  EXPECT_THAT(ErrorsOf([](Rule& r) {
                r.by = {"tenant"};
                r.cost.reserve = 50;
                r.overrides = {{"small", {49, seconds(1)}, {}}, {"none", {0, seconds(1)}, {}}};
              }),
              ElementsAre(HasSubstr("overrides.\"small\": cost.reserve: found 50; above 49,")));
}

// Fields that mean nothing where they stand are told, not ignored.
TEST(CompileErrorTest, FieldsBelongToAlgorithms) {
  EXPECT_THAT(
      ErrorsOf([](Rule& r) {
        r.algorithm = Algorithm::kSlidingLog;
        r.burst = 5;
      }),
      ElementsAre(
          "rule \"a\": burst: found here; it belongs to algorithms token_bucket, smooth_bursty "
          "and step_bucket only"));
  EXPECT_THAT(
      ErrorsOf([](Rule& r) { r.buckets = 5; }),
      ElementsAre(HasSubstr("buckets: found here; it belongs to algorithm sliding_buckets")));
  EXPECT_THAT(ErrorsOf([](Rule& r) {
                r.algorithm = Algorithm::kSlidingBuckets;
                r.buckets = 0;
              }),
              ElementsAre(HasSubstr("buckets: found 0; allowed 1 to 1000")));
  EXPECT_THAT(ErrorsOf([](Rule& r) {
                r.algorithm = Algorithm::kFixedWindow;
                r.wait = seconds(1);
              }),
              ElementsAre(HasSubstr(
                  "wait: found here; it belongs to algorithms token_bucket, leaky_bucket")));
  EXPECT_THAT(ErrorsOf([](Rule& r) { r.on_store_failure = StoreFailurePolicy::kOpen; }),
              ElementsAre(HasSubstr("on_store_failure: found here")));
}

TEST(CompileErrorTest, OnlyCountsThatKnowWhatIsToComeLendIt) {
  EXPECT_THAT(ErrorsOf([](Rule& r) {
                r.algorithm = Algorithm::kLeakyBucket;
                r.borrow = seconds(1);
              }),
              ElementsAre(HasSubstr("borrow: found here; it belongs to algorithms token_bucket, "
                                    "sliding_log, sliding_buckets and leap_array")));
  EXPECT_THAT(ErrorsOf([](Rule& r) { r.borrow = seconds(-1); }),
              ElementsAre(HasSubstr("borrow: found -1000000000 ns")));
  EXPECT_THAT(ErrorsOf([](Rule& r) {
                r.algorithm = Algorithm::kSlidingBuckets;
                r.borrow = r.rate.window + Duration(1);
              }),
              ElementsAre(HasSubstr("the window, with sliding_buckets")));
  EXPECT_THAT(ErrorsOf([](Rule& r) {
                r.scope = Scope::kShared;
                r.borrow = seconds(1);
              }),
              ElementsAre(HasSubstr("borrow: found with scope shared")));
  EXPECT_THAT(ErrorsOf([](Rule& r) {
                r.on.resource = "read";
                r.relate_to = "write";
                r.borrow = seconds(1);
              }),
              ElementsAre(HasSubstr("borrow: found beside relate_to")));
  EXPECT_THAT(ErrorsOf([](Rule& r) {
                r.count_refused = true;
                r.borrow = seconds(1);
              }),
              ElementsAre(HasSubstr("borrow: found beside count_refused")));
  EXPECT_THAT(ErrorsOf([](Rule& r) {
                r.kind = RuleKind::kConcurrency;
                r.rate = {};
                r.concurrency = 1;
                r.borrow = seconds(1);
              }),
              ElementsAre(HasSubstr("borrow: found here; it belongs to rules with a limit")));
}

TEST(CompileErrorTest, WarmingUpHasItsOwnFields) {
  EXPECT_THAT(ErrorsOf([](Rule& r) { r.warm_up = seconds(1); }),
              ElementsAre(HasSubstr("warm_up: found here; it belongs to algorithms warm_up and")));
  EXPECT_THAT(ErrorsOf([](Rule& r) { r.cold_factor = 5; }),
              ElementsAre(HasSubstr("cold_factor: found here; it belongs to algorithms warm_up")));
  for (const Algorithm algorithm : {Algorithm::kWarmUp, Algorithm::kWarmUpWindow}) {
    EXPECT_THAT(ErrorsOf([&](Rule& r) { r.algorithm = algorithm; }),
                ElementsAre(HasSubstr("warm_up: missing; algorithm warm_up")));
    EXPECT_THAT(ErrorsOf([&](Rule& r) {
                  r.algorithm = algorithm;
                  r.warm_up = seconds(10);
                  r.cold_factor = 101;
                }),
                ElementsAre(HasSubstr("cold_factor: found 101; allowed")));
    EXPECT_THAT(ErrorsOf([&](Rule& r) {
                  r.algorithm = algorithm;
                  r.warm_up = seconds(10);
                  r.burst = 3;
                }),
                ElementsAre(HasSubstr("burst: found here")));
  }
  EXPECT_THAT(ErrorsOf([](Rule& r) {
                r.algorithm = Algorithm::kWarmUpWindow;
                r.warm_up = std::chrono::milliseconds(10);
              }),
              ElementsAre(HasSubstr("not below the window")));
  EXPECT_THAT(ErrorsOf([](Rule& r) {
                r.algorithm = Algorithm::kWarmUpWindow;
                r.warm_up = seconds(10);
                r.cold_factor = 1;
              }),
              ElementsAre(HasSubstr("cold_factor: found 1; allowed 2 to 100")));
  EXPECT_THAT(ErrorsOf([](Rule& r) {
                r.algorithm = Algorithm::kWarmUpWindow;
                r.warm_up = seconds(10);
                r.wait = seconds(1);
              }),
              ElementsAre(HasSubstr("wait: found here")));
}

// A reserve above what is there at once is no fault where requests pay forward.
TEST(CompileErrorTest, OverLargeReservesGoWhereRequestsPayForward) {
  const auto reserve_100 = [](Algorithm algorithm) {
    return [algorithm](Rule& r) {
      r.algorithm = algorithm;
      r.rate = {10, seconds(1)};
      if (algorithm != Algorithm::kSmoothBursty) r.warm_up = seconds(10);
      r.cost.reserve = 100;
    };
  };
  EXPECT_THAT(ErrorsOf(reserve_100(Algorithm::kSmoothBursty)), ElementsAre());
  EXPECT_THAT(ErrorsOf(reserve_100(Algorithm::kWarmUp)), ElementsAre());
  EXPECT_THAT(ErrorsOf(reserve_100(Algorithm::kWarmUpWindow)),
              ElementsAre(HasSubstr("cost.reserve: found 100")));
}

// The errors of a shared rule after `change`.
std::vector<std::string> SharedErrorsOf(const std::function<void(Rule&)>& change) {
  return ErrorsOf([&](Rule& r) {
    r.scope = Scope::kShared;
    change(r);
  });
}

TEST(CompileErrorTest, FieldsOfSharedCells) {
  const auto set_all = [](Rule& r) {
    r.on.resource = "orders";
    r.tag = CellTag::kResource;
    r.lease.overshoot = 5;
    r.shards = 2;
    r.prefilter = true;
  };
  EXPECT_THAT(ErrorsOf(set_all),
              ElementsAre(HasSubstr("tag: found here; it belongs to rules with scope shared"),
                          HasSubstr("lease: found here"), HasSubstr("shards: found here"),
                          HasSubstr("prefilter: found here")));
  EXPECT_THAT(SharedErrorsOf([](Rule& r) { r.count_refused = true; }),
              ElementsAre(HasSubstr("count_refused: found with scope shared")));
  EXPECT_THAT(SharedErrorsOf([](Rule& r) {
                r.on = {};
                r.tag = CellTag::kResource;
              }),
              ElementsAre(HasSubstr("tag: found resource, but the rule names none")));
}

TEST(CompileErrorTest, LeasesSuitSomeAlgorithms) {
  for (const Algorithm algorithm : {Algorithm::kSlidingLog, Algorithm::kLeakyBucket}) {
    EXPECT_THAT(
        SharedErrorsOf([&](Rule& r) {
          r.algorithm = algorithm;
          r.lease.overshoot = 5;
        }),
        ElementsAre(HasSubstr("lease: found with algorithm " + std::string(NameOf(algorithm)))));
  }
  EXPECT_THAT(SharedErrorsOf([](Rule& r) {
                r.wait = seconds(1);
                r.lease.overshoot = 5;
              }),
              ElementsAre(HasSubstr("lease: found beside wait")));
  EXPECT_THAT(SharedErrorsOf([](Rule& r) { r.lease.overshoot = -1; }),
              ElementsAre(HasSubstr("lease.overshoot: found -1; allowed 1 to")));
}

TEST(CompileErrorTest, ShardsHaveEachAPartOfTheLimit) {
  EXPECT_THAT(SharedErrorsOf([](Rule& r) { r.shards = 17; }),
              ElementsAre(HasSubstr("shards: found 17; allowed 1 to 16")));
  EXPECT_THAT(SharedErrorsOf([](Rule& r) {
                r.rate.limit = 3;
                r.shards = 4;
              }),
              ElementsAre(HasSubstr("shards: found 4; a part of 0 units")));
  EXPECT_THAT(SharedErrorsOf([](Rule& r) {
                r.shards = 2;
                r.lease.overshoot = 5;
              }),
              ElementsAre(HasSubstr("shards: found beside lease")));
}

// Rules out: parts of an override that add up to more than it, or with nothing in them.
TEST(CompileErrorTest, ShardsHaveEachAPartOfAnOverrideToo) {
  const auto errors = [](Override entry) {
    return SharedErrorsOf([&](Rule& r) {
      r.by = {"ip"};
      r.rate.limit = 100;
      r.shards = 4;
      r.overrides = {std::move(entry)};
    });
  };
  constexpr const char* kFault = "overrides.\"10.0.0.1\": shards: found 4; a part of 0 units";
  EXPECT_THAT(errors({"10.0.0.1", {3, seconds(1)}, {}}), ElementsAre(HasSubstr(kFault)));
  EXPECT_THAT(errors({"10.0.0.1", {50, seconds(1)}, 3}), ElementsAre(HasSubstr(kFault)));
  EXPECT_THAT(errors({"10.0.0.1", {4, seconds(1)}, 4}), ElementsAre());
  EXPECT_THAT(errors({"10.0.0.1", {0, seconds(1)}, {}}), ElementsAre()) << "refuses everything";
}

TEST(CompileErrorTest, WhatHasNoScriptIsNotShared) {
  for (const Algorithm algorithm :
       {Algorithm::kSmoothBursty, Algorithm::kWarmUp, Algorithm::kWarmUpWindow}) {
    EXPECT_THAT(SharedErrorsOf([&](Rule& r) {
                  r.algorithm = algorithm;
                  if (algorithm != Algorithm::kSmoothBursty) r.warm_up = seconds(10);
                }),
                ElementsAre(HasSubstr("scope: found shared with algorithm")));
  }
}

TEST(CompileErrorTest, OnlyFormsThatAreSoundAreFilteredAhead) {
  for (const Algorithm algorithm :
       {Algorithm::kSlidingLog, Algorithm::kSlidingBuckets, Algorithm::kWeightedAverage}) {
    EXPECT_THAT(SharedErrorsOf([&](Rule& r) {
                  r.algorithm = algorithm;
                  r.prefilter = true;
                }),
                ElementsAre(HasSubstr("prefilter: found here; it belongs to algorithms")));
  }
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
                r.lease.overshoot = 4;
                r.count_refused = true;
                r.cost.reserve = 2;
                r.burst = 3;
                r.wait = seconds(1);
              }),
              ElementsAre(HasSubstr("limit: found here"), HasSubstr("burst: found here"),
                          HasSubstr("wait: found here"), HasSubstr("count_refused: found here"),
                          HasSubstr("cost: found here"), HasSubstr("lease: found here"),
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
  for (const char* wrong : {"header:", "header:x id", "query:", "heder:"}) {
    // No suggestion of what is as wrong.
    EXPECT_THAT(by(wrong), ElementsAre(Not(HasSubstr("did you mean")))) << wrong;
  }
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
  EXPECT_THAT(errors({{"10.0.0.1/8", rate, {}}}, Algorithm::kTokenBucket),
              ElementsAre(HasSubstr("overrides.\"10.0.0.1/8\": bits are set behind")));
  EXPECT_THAT(errors({{"::1", rate, {}}, {"0::1", rate, {}}}, Algorithm::kTokenBucket),
              ElementsAre(HasSubstr("overrides.\"0::1\": found twice")));
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

TEST(CompileErrorTest, SystemRulesNameNumbersThatCanBeHeld) {
  const auto errors = [](void (*change)(Rule&)) {
    Rule rule;
    rule.name = "a";
    rule.kind = RuleKind::kSystem;
    change(rule);
    return Errors(Set({rule}));
  };
  EXPECT_THAT(errors([](Rule&) {}), ElementsAre(HasSubstr("system: found none of load, cpu")));
  EXPECT_THAT(errors([](Rule& r) { r.system.cpu = 0; }), IsEmpty());
  EXPECT_THAT(errors([](Rule& r) { r.system.cpu = 1.01; }),
              ElementsAre(HasSubstr("system.cpu: found 1.01")));
  EXPECT_THAT(errors([](Rule& r) { r.system.cpu = std::numeric_limits<double>::quiet_NaN(); }),
              ElementsAre(HasSubstr("system.cpu: found")));
  EXPECT_THAT(errors([](Rule& r) { r.system.load = -0.9; }),
              ElementsAre(HasSubstr("system.load: found -0.9")));
  EXPECT_THAT(errors([](Rule& r) { r.system.avg_rt = Duration(-1); }),
              ElementsAre(HasSubstr("system.avg_rt: found -1")));
  EXPECT_THAT(errors([](Rule& r) { r.system.inflight = -1; }),
              ElementsAre(HasSubstr("system.inflight: found -1")));
  EXPECT_THAT(errors([](Rule& r) { r.system.qps = 1'000'000'001; }),
              ElementsAre(HasSubstr("system.qps: found 1000000001")));
  EXPECT_THAT(errors([](Rule& r) {
                r.system.qps = 5;
                r.by = {"ip"};
              }),
              ElementsAre(HasSubstr("by: ")));
  EXPECT_THAT(ErrorsOf([](Rule& r) { r.system.qps = 5; }), ElementsAre(HasSubstr("system: ")));
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

TEST(CompileErrorTest, ANameForgesNoLineOfItsOwn) {
  EXPECT_THAT(ErrorsOf([](Rule& r) {
                r.name = "a\nrules.yaml:1:1: rule \"b\": ok\x1b[0m";
                r.cost.settle = "x";
              }),
              AllOf(Each(HasSubstr("rule \"a rules.yaml:1:1: rule")), Each(Not(HasSubstr("\n")))));
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

TEST(CompileWarningTest, TellsOfAHeaderThatDoesNotReachTheUpstream) {
  for (const char* name : {"connection", "Keep-Alive", "te", "upgrade"}) {
    EXPECT_THAT(WarningsOf([&](Rule& r) { r.by = {std::string("header:") + name}; }),
                ElementsAre(HasSubstr("concerns one connection")))
        << name;
  }
  EXPECT_THAT(WarningsOf([](Rule& r) { r.by = {"header:x-tenant-id"}; }), IsEmpty());
}

// Rules out a route that loads without a word and meets no request, for the server
// cuts parameters off before it compares.
TEST(CompileWarningTest, TellsOfASemicolonInARoute) {
  for (const char* route : {"/a;b", "/a%3Bb", "GET /x/{id}/a;b/**"}) {
    EXPECT_THAT(WarningsOf([&](Rule& r) { r.on.route = route; }),
                ElementsAre(AllOf(HasSubstr("rule \"a\": on.route: found ';' in segment"),
                                  HasSubstr("path.strip_semicolon_params"))))
        << route;
  }
  EXPECT_THAT(WarningsOf([](Rule& r) { r.on.route = "/a,b/*"; }), IsEmpty());
}

}  // namespace
}  // namespace flowguard::rules
