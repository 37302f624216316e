// SPDX-License-Identifier: Apache-2.0
#include "rules/matcher.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "flowguard/rule.h"

namespace flowguard::rules {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Rule On(std::string name, Target on) {
  Rule rule;
  rule.name = std::move(name);
  rule.on = std::move(on);
  return rule;
}
Rule OnRoute(std::string name, std::string route) {
  Target on;
  on.route = std::move(route);
  return On(std::move(name), std::move(on));
}
Rule OnResource(std::string name, std::string resource) {
  Target on;
  on.resource = std::move(resource);
  return On(std::move(name), std::move(on));
}
Rule OnBoth(std::string name, std::string resource, std::string route) {
  Rule rule = OnResource(std::move(name), std::move(resource));
  rule.on.route = std::move(route);
  return rule;
}

// A matcher and what to ask it, answered by rule names.
class Fixture {
 public:
  explicit Fixture(std::vector<Rule> rules, MatchMode mode = MatchMode::kAll)
      : rules_(std::move(rules)) {
    auto built = Matcher::Build(rules_, mode);
    EXPECT_TRUE(built.ok()) << built.error().message;
    matcher_ = *std::move(built);
  }
  std::vector<std::string> Names(std::string_view resource, std::string_view method,
                                 std::string_view path) {
    matcher_.Match(resource, method, path, set_);
    std::vector<std::string> names;
    for (const MatchSet::Match& match : set_)
      names.push_back(rules_[match.rule].name);
    return names;
  }
  std::vector<std::string> Path(std::string_view path) { return Names("", "GET", path); }
  std::vector<std::string> Resource(std::string_view resource) { return Names(resource, "", ""); }
  const MatchSet& set() const { return set_; }

 private:
  std::vector<Rule> rules_;
  Matcher matcher_;
  MatchSet set_;
};

TEST(MatcherTest, EmptyMatcherMeetsNothing) {
  const Matcher matcher;
  MatchSet set;

  matcher.Match("a", "GET", "/a", set);

  EXPECT_TRUE(set.empty());
}

TEST(MatcherTest, RuleWithoutTargetMeetsEveryRequest) {
  Fixture f({On("all", {})});

  EXPECT_THAT(f.Path("/x"), ElementsAre("all"));
  EXPECT_THAT(f.Resource("order:create"), ElementsAre("all"));
  EXPECT_THAT(f.Names("", "OPTIONS", "*"), ElementsAre("all"));
}

TEST(MatcherTest, DisabledRulesAreNotThere) {
  Fixture f({On("off", {}), OnRoute("route", "/a"), OnResource("resource", "r")});
  std::vector<Rule> rules{On("off", {}), OnRoute("off2", "/a"), OnResource("off3", "r")};
  for (Rule& rule : rules)
    rule.enabled = false;
  Fixture off(rules);

  EXPECT_THAT(off.Names("r", "GET", "/a"), IsEmpty());
  EXPECT_EQ(f.Names("r", "GET", "/a").size(), 3u);
}

TEST(MatcherTest, LiteralRoutesAreComparedWhole) {
  Fixture f({OnRoute("a", "/orders/list")});

  EXPECT_THAT(f.Path("/orders/list"), ElementsAre("a"));
  EXPECT_THAT(f.Path("/orders/list/"), ElementsAre("a"));
  EXPECT_THAT(f.Path("/orders/lis"), IsEmpty());
  EXPECT_THAT(f.Path("/orders/list/x"), IsEmpty());
  EXPECT_THAT(f.Path("/orders"), IsEmpty());
  EXPECT_THAT(f.Path("/ORDERS/list"), IsEmpty());
}

TEST(MatcherTest, MethodsChooseAmongRoutes) {
  Fixture f({OnRoute("get", "GET|HEAD /a/{x}"), OnRoute("post", "POST /a/{x}"),
             OnRoute("any", "/a/{x}"), OnRoute("put", "PUT /a/b")});

  EXPECT_THAT(f.Names("", "GET", "/a/b"), ElementsAre("get", "any"));
  EXPECT_THAT(f.Names("", "HEAD", "/a/b"), ElementsAre("get", "any"));
  EXPECT_THAT(f.Names("", "POST", "/a/b"), ElementsAre("post", "any"));
  EXPECT_THAT(f.Names("", "PUT", "/a/b"), ElementsAre("any", "put"));
  EXPECT_THAT(f.Names("", "BREW", "/a/b"), ElementsAre("any"));
  EXPECT_THAT(f.Names("", "get", "/a/b"), ElementsAre("any"));
  EXPECT_THAT(f.Names("", "", "/a/b"), ElementsAre("any"));
}

TEST(MatcherTest, StarStandsForOneSegmentAndRestForAnyNumber) {
  Fixture f({OnRoute("star", "/a/*"), OnRoute("rest", "/a/**"), OnRoute("root", "/**")});

  EXPECT_THAT(f.Path("/a"), ElementsAre("rest", "root"));
  EXPECT_THAT(f.Path("/a/"), ElementsAre("rest", "root"));
  EXPECT_THAT(f.Path("/a/b"), ElementsAre("star", "rest", "root"));
  EXPECT_THAT(f.Path("/a/b/c"), ElementsAre("rest", "root"));
  EXPECT_THAT(f.Path("/ab"), ElementsAre("root"));
  EXPECT_THAT(f.Path("/"), ElementsAre("root"));
}

// One counter for all of /user/*, or one for each: that is what the key says, and
// the rule met is the same.
TEST(MatcherTest, WildcardRuleIsOneRuleForAllItsPaths) {
  Fixture f({OnRoute("user", "/user/*")});

  EXPECT_THAT(f.Path("/user/1"), ElementsAre("user"));
  EXPECT_THAT(f.Path("/user/2"), ElementsAre("user"));
}

TEST(MatcherTest, CapturesAreTheSegmentsOfThePath) {
  Fixture f({OnRoute("a", "/shops/{shop}/items/{item}"), OnRoute("b", "/{kind}/*/**")});

  ASSERT_THAT(f.Path("/shops/s-1/items/i%2F2/"), ElementsAre("a", "b"));

  EXPECT_TRUE(f.set()[0].by_route);
  EXPECT_EQ(f.set().Segment(1), "s-1");
  EXPECT_EQ(f.set().Segment(3), "i%2F2");
  EXPECT_EQ(f.set().Segment(0), "shops");
}

// Rules out a slash that is missed where words of the path meet: paths of up to 200
// bytes, the slash at every place.
TEST(MatcherTest, SegmentsEndAtEverySlashWhereverItIs) {
  Fixture f({OnRoute("two", "/{a}/{b}")});
  for (size_t length = 0; length < 200; ++length) {
    for (size_t at = 0; at <= length; ++at) {
      const std::string first(at, 'a');
      const std::string second = std::string(length - at, 'b') + "b";
      const std::string path = "/" + first + "/" + second;
      ASSERT_THAT(f.Path(path), ElementsAre("two"));
      ASSERT_EQ(f.set().Segment(0), first);
      ASSERT_EQ(f.set().Segment(1), second);
    }
  }
}

// The same where a literal and a wildcard match both, so that the path is at two nodes.
TEST(MatcherTest, PathAtTwoNodesGoesOnBehindTheSlashWhereItForked) {
  for (size_t length = 1; length < 100; ++length) {
    const std::string first(length, 'a');
    Fixture f({OnRoute("literal", "/" + first + "/{x}/c"), OnRoute("any", "/{y}/b/{z}"),
               OnRoute("rest", "/{y}/b/**")});

    const std::string path = "/" + first + "/b/c";
    EXPECT_THAT(f.Path(path), ElementsAre("literal", "any", "rest"));
    EXPECT_EQ(f.set().Segment(2), "c");
    EXPECT_THAT(f.Path("/" + first + "/d/c"), ElementsAre("literal"));
    EXPECT_THAT(f.Path("/" + first + "/b/c/d"), ElementsAre("rest"));
    EXPECT_THAT(f.Path("/" + first), IsEmpty());
  }
}

TEST(MatcherTest, TargetWithBothHalvesMatchesByEither) {
  Fixture f({OnBoth("both", "order:create", "POST /orders/{id}")});

  EXPECT_THAT(f.Names("order:create", "GET", "/other/1"), ElementsAre("both"));
  EXPECT_FALSE(f.set()[0].by_route) << "its route did not match: no captures";
  EXPECT_THAT(f.Names("other", "POST", "/orders/1"), ElementsAre("both"));
  EXPECT_TRUE(f.set()[0].by_route);
  EXPECT_THAT(f.Names("order:create", "POST", "/orders/1"), ElementsAre("both")) << "once";
  EXPECT_TRUE(f.set()[0].by_route);
  EXPECT_THAT(f.Names("other", "GET", "/orders/1"), IsEmpty());
}

TEST(MatcherTest, ResourcesMatchExactlyOrByPrefix) {
  Fixture f({OnResource("exact", "order:create"), OnResource("prefix", "order:*"),
             OnResource("long", "order:cr*"), OnResource("every", "*")});

  EXPECT_THAT(f.Resource("order:create"), ElementsAre("exact", "prefix", "long", "every"));
  EXPECT_THAT(f.Resource("order:created"), ElementsAre("prefix", "long", "every"));
  EXPECT_THAT(f.Resource("order:"), ElementsAre("prefix", "every"));
  EXPECT_THAT(f.Resource("order"), ElementsAre("every"));
  EXPECT_THAT(f.Resource("order:d"), ElementsAre("prefix", "every"));
  EXPECT_THAT(f.Resource(""), IsEmpty());
}

TEST(MatcherTest, YieldsRulesInOrderOfEvaluation) {
  std::vector<Rule> rules{On("shared", {}), On("concurrency", {}), On("late", {}), On("access", {}),
                          OnRoute("local", "/a")};
  rules[0].scope = Scope::kShared;
  rules[1].kind = RuleKind::kConcurrency;
  rules[3].kind = RuleKind::kAccess;
  Fixture f(rules);

  EXPECT_THAT(f.Path("/a"), ElementsAre("access", "late", "local", "concurrency", "shared"));
}

// Rules out an unclear precedence between a catch-all and a more generous specific
// rule: both modes are stated, and each does what it says.
TEST(MatcherTest, CatchAllAndSpecificRuleBothApplyUnderAll) {
  Fixture f({OnRoute("catch-all 5/s", "/**"), OnRoute("values 10/s", "/values")}, MatchMode::kAll);

  EXPECT_THAT(f.Path("/values"), ElementsAre("catch-all 5/s", "values 10/s"));
  EXPECT_THAT(f.Path("/other"), ElementsAre("catch-all 5/s"));
}

TEST(MatcherTest, SpecificRuleReplacesCatchAllUnderMostSpecific) {
  Fixture f({OnRoute("catch-all 5/s", "/**"), OnRoute("values 10/s", "/values")},
            MatchMode::kMostSpecific);

  EXPECT_THAT(f.Path("/values"), ElementsAre("values 10/s"));
  EXPECT_THAT(f.Path("/other"), ElementsAre("catch-all 5/s"));
}

TEST(MatcherTest, PrecedenceIsExactResourceThenRouteThenPrefixThenNone) {
  std::vector<Rule> rules{On("none", {}),
                          OnResource("short", "o*"),
                          OnResource("long", "order*"),
                          OnRoute("rest", "/**"),
                          OnRoute("star", "/a/*"),
                          OnRoute("capture", "/a/{x}"),
                          OnRoute("literal", "/a/b"),
                          OnRoute("method", "GET /a/b"),
                          OnResource("exact", "order:create")};
  // Each is best once all after it are gone.
  while (!rules.empty()) {
    Fixture f(rules, MatchMode::kMostSpecific);
    EXPECT_THAT(f.Names("order:create", "GET", "/a/b"), ElementsAre(rules.back().name));
    rules.pop_back();
  }
}

TEST(MatcherTest, RoutesAreComparedFromTheLeft) {
  Fixture f({OnRoute("early", "/a/{x}/**"), OnRoute("late", "/{y}/b/c")}, MatchMode::kMostSpecific);

  EXPECT_THAT(f.Path("/a/b/c"), ElementsAre("early"));
  EXPECT_THAT(f.Path("/z/b/c"), ElementsAre("late"));
}

TEST(MatcherTest, EndOfATemplateBeatsRest) {
  Fixture f({OnRoute("rest", "GET /a/**"), OnRoute("end", "/a")}, MatchMode::kMostSpecific);

  EXPECT_THAT(f.Path("/a"), ElementsAre("end"));
}

// Rules out that a second rule on the same target is silently not applied.
TEST(MatcherTest, RulesOfEqualRankApplyTogether) {
  Fixture f({OnRoute("per ip 30/min", "/a/{x}"), OnRoute("global 3/min", "/a/{y}")},
            MatchMode::kMostSpecific);

  EXPECT_THAT(f.Path("/a/1"), ElementsAre("per ip 30/min", "global 3/min"));
}

TEST(MatcherTest, EachKindHasItsOwnMostSpecificRule) {
  std::vector<Rule> rules{OnRoute("limit", "/a/b"), OnRoute("concurrency", "/a/*"),
                          OnRoute("access", "/**"), OnRoute("limit-all", "/**")};
  rules[1].kind = RuleKind::kConcurrency;
  rules[2].kind = RuleKind::kAccess;
  Fixture f(rules, MatchMode::kMostSpecific);

  EXPECT_THAT(f.Path("/a/b"), ElementsAre("access", "limit", "concurrency"));
}

// Rules out that trying a rule in shadow mode stops the enforced ones.
TEST(MatcherTest, ShadowRuleNeverDisplacesAnEnforcedOne) {
  std::vector<Rule> rules{OnRoute("enforced", "/**"), OnRoute("shadow", "/a"),
                          OnRoute("shadow-less", "/*")};
  rules[1].shadow = true;
  rules[2].shadow = true;
  Fixture f(rules, MatchMode::kMostSpecific);

  EXPECT_THAT(f.Path("/a"), ElementsAre("enforced", "shadow", "shadow-less"));

  rules.push_back(OnRoute("enforced-too", "/a"));
  Fixture g(rules, MatchMode::kMostSpecific);
  EXPECT_THAT(g.Path("/a"), ElementsAre("shadow", "enforced-too"));
}

TEST(MatcherTest, RuleWithBothHalvesHasTheBetterRank) {
  Fixture f({OnBoth("both", "order:create", "/**"), OnRoute("literal", "/a")},
            MatchMode::kMostSpecific);

  EXPECT_THAT(f.Names("order:create", "GET", "/a"), ElementsAre("both"));
  EXPECT_THAT(f.Names("", "GET", "/a"), ElementsAre("literal"));
}

TEST(MatcherTest, PathsThatAreNoPathsMeetNoRoute) {
  Fixture f({OnRoute("all", "/**")});

  EXPECT_THAT(f.Path(""), IsEmpty());
  EXPECT_THAT(f.Path("*"), IsEmpty());
  EXPECT_THAT(f.Path("host:443"), IsEmpty());
}

TEST(MatcherTest, ForgetsThePreviousRequest) {
  Fixture f({OnRoute("a", "/a")});

  EXPECT_THAT(f.Path("/a"), ElementsAre("a"));
  EXPECT_THAT(f.Path("/b"), IsEmpty());
}

}  // namespace
}  // namespace flowguard::rules
