// SPDX-License-Identifier: Apache-2.0
//
// Targets with regular expressions, conditions and relations: what they meet, what they
// displace, and how many rules they let meet one request.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rules/matcher.h"
#include "testing/std_regex.h"

namespace flowguard::rules {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Rule Named(std::string name) {
  Rule rule;
  rule.name = std::move(name);
  return rule;
}
Rule OnResource(std::string name, std::string resource) {
  Rule rule = Named(std::move(name));
  rule.on.resource = std::move(resource);
  return rule;
}
Rule OnRegex(std::string name, std::string pattern) {
  Rule rule = Named(std::move(name));
  rule.on.resource_regex = std::move(pattern);
  return rule;
}
Rule If(Rule rule) {
  rule.on.only = {{"tenant", {"x"}}};
  return rule;
}
Rule RelatedTo(Rule rule, std::string resource) {
  rule.relate_to = std::move(resource);
  return rule;
}

// Conditions that hold but of the rules that are named.
class FakeConditions final : public Conditions {
 public:
  FakeConditions(const std::vector<Rule>& rules, std::set<std::string> unmet)
      : rules_(rules), unmet_(std::move(unmet)) {}
  [[nodiscard]] bool Hold(const MatchSet& matches, MatchSet::Match match) const noexcept override {
    EXPECT_TRUE(matches.empty());
    asked_.push_back(rules_[match.rule].name);
    return !unmet_.contains(rules_[match.rule].name);
  }
  const std::vector<std::string>& asked() const { return asked_; }

 private:
  const std::vector<Rule>& rules_;
  std::set<std::string> unmet_;
  mutable std::vector<std::string> asked_;
};

class MatcherTargetTest : public ::testing::Test {
 protected:
  void Build(std::vector<Rule> rules, MatchMode mode = MatchMode::kAll) {
    rules_ = std::move(rules);
    auto built = Matcher::Build(rules_, mode, &engine_);
    ASSERT_TRUE(built.ok()) << built.error().message;
    matcher_ = *std::move(built);
  }
  std::string BuildError(const std::vector<Rule>& rules) {
    auto built = Matcher::Build(rules, MatchMode::kAll, &engine_);
    return built.ok() ? "" : built.error().message;
  }
  // Names of the rules met; of those that count the call: "+NAME".
  std::vector<std::string> Met(std::string_view resource, std::set<std::string> unmet = {}) {
    const FakeConditions conditions(rules_, std::move(unmet));
    MatchSet set;
    matcher_.Match(resource, "GET", "/a/b", set, &conditions);
    asked_ = conditions.asked();
    std::vector<std::string> names;
    for (const MatchSet::Match& match : set)
      names.push_back((match.related ? "+" : "") + rules_[match.rule].name);
    return names;
  }

  testing::StdRegexEngine engine_;
  std::vector<Rule> rules_;
  Matcher matcher_;
  std::vector<std::string> asked_;
};

TEST_F(MatcherTargetTest, ARegularExpressionMeetsWholeNames) {
  Build({OnRegex("regex", "order:[a-z]+"), OnResource("exact", "order:pay")});

  EXPECT_THAT(Met("order:pay"), ElementsAre("regex", "exact"));
  EXPECT_THAT(Met("order:new"), ElementsAre("regex"));
  EXPECT_THAT(Met("order:new1"), IsEmpty());
  EXPECT_THAT(Met(""), IsEmpty());
}

TEST_F(MatcherTargetTest, AnyPartOfATargetSuffices) {
  Rule rule = OnRegex("all", "order:.*");
  rule.on.resource = "basket";
  rule.on.route = "/a/*";
  Build({rule});

  MatchSet set;
  matcher_.Match("order:pay", "", "", set);
  EXPECT_EQ(set.size(), 1u);
  EXPECT_FALSE(set[0].by_route);
  matcher_.Match("basket", "", "", set);
  EXPECT_EQ(set.size(), 1u);
  matcher_.Match("other", "GET", "/a/b", set);
  ASSERT_EQ(set.size(), 1u);
  EXPECT_TRUE(set[0].by_route);
  matcher_.Match("other", "GET", "/b", set);
  EXPECT_TRUE(set.empty());
}

TEST_F(MatcherTargetTest, ARegularExpressionRanksBelowRoutesAndAbovePrefixes) {
  Rule route = Named("route");
  route.on.route = "/**";
  Build({OnResource("exact", "order:pay"), route, OnRegex("regex", "order:.*"),
         OnResource("prefix", "order:*"), Named("any")},
        MatchMode::kMostSpecific);
  EXPECT_THAT(Met("order:pay"), ElementsAre("exact"));
  EXPECT_THAT(Met("order:new"), ElementsAre("route"));

  Build({OnRegex("regex", "order:.*"), OnResource("prefix", "order:*"), Named("any")},
        MatchMode::kMostSpecific);
  EXPECT_THAT(Met("order:new"), ElementsAre("regex"));
  EXPECT_THAT(Met("user"), ElementsAre("any"));
}

TEST_F(MatcherTargetTest, SetsWithoutExpressionsAskNone) {
  Build({OnResource("exact", "order:pay"), Named("any")});

  Met("order:pay");

  EXPECT_EQ(engine_.asked(), 0);
}

TEST_F(MatcherTargetTest, ARuleWhoseConditionsFailIsNotMet) {
  Build({If(OnResource("a", "r")), OnResource("b", "r"), If(OnResource("c", "other"))});

  EXPECT_THAT(Met("r"), ElementsAre("a", "b"));
  EXPECT_THAT(asked_, ElementsAre("a")) << "asked of rules that match and have some";
  EXPECT_THAT(Met("r", {"a"}), ElementsAre("b"));
}

// Rules out that a rule for one caller takes the default from all others.
TEST_F(MatcherTargetTest, ARuleWhoseConditionsFailDisplacesNone) {
  Build({If(OnResource("special", "r")), OnResource("prefix", "r*"), Named("any")},
        MatchMode::kMostSpecific);

  EXPECT_THAT(Met("r"), ElementsAre("special"));
  EXPECT_THAT(Met("r", {"special"}), ElementsAre("prefix"));
}

TEST_F(MatcherTargetTest, ARelationMeetsTheCallsThatItCounts) {
  Build({RelatedTo(OnResource("reads", "db:read"), "db:write"), OnResource("exact", "db:write")});

  EXPECT_THAT(Met("db:read"), ElementsAre("reads"));
  EXPECT_THAT(Met("db:write"), ElementsAre("+reads", "exact"));
  EXPECT_THAT(Met("db:writes"), IsEmpty());
}

TEST_F(MatcherTargetTest, ACallThatIsCountedIsNotRefusedEvenIfTheTargetMatchesIt) {
  Build({RelatedTo(OnResource("all", "db:*"), "db:write"), RelatedTo(Named("any"), "db:write")});

  EXPECT_THAT(Met("db:write"), ElementsAre("+all", "+any"));
  EXPECT_THAT(Met("db:read"), ElementsAre("all", "any"));
}

TEST_F(MatcherTargetTest, ConditionsAreOfTheTargetAndNotOfWhatIsCounted) {
  Build({If(RelatedTo(OnResource("reads", "db:read"), "db:write"))});

  EXPECT_THAT(Met("db:write", {"reads"}), ElementsAre("+reads"));
  EXPECT_THAT(asked_, IsEmpty());
  EXPECT_THAT(Met("db:read", {"reads"}), IsEmpty());
}

TEST_F(MatcherTargetTest, ARelationNeitherDisplacesNorIsDisplaced) {
  Build({RelatedTo(OnResource("reads", "db:read"), "db:write"), Named("any"),
         RelatedTo(OnResource("prefix", "db:*"), "db:write")},
        MatchMode::kMostSpecific);

  EXPECT_THAT(Met("db:write"), ElementsAre("+reads", "any", "+prefix"));
  EXPECT_THAT(Met("db:read"), ElementsAre("reads"));
}

// What RuleKind has last must have its place among the ranks.
TEST_F(MatcherTargetTest, EveryKindHasRanks) {
  for (const RuleKind kind : {RuleKind::kLimit, RuleKind::kConcurrency, RuleKind::kAccess,
                              RuleKind::kBreaker, RuleKind::kSystem}) {
    Rule any = Named("any");
    Rule exact = OnResource("exact", "r");
    any.kind = exact.kind = kind;
    Build({any, exact}, MatchMode::kMostSpecific);
    if (kind == RuleKind::kSystem) {
      EXPECT_THAT(Met("r"), ElementsAre("any", "exact")) << "none displaces another";
    } else {
      EXPECT_THAT(Met("r"), ElementsAre("exact"));
    }
    EXPECT_THAT(Met("q"), ElementsAre("any"));
  }
}

TEST_F(MatcherTargetTest, AnyExpressionMayMeetAnyResource) {
  std::vector<Rule> rules;
  for (size_t i = 0; i < base::kRulesPerRequestMax - 1; ++i)
    rules.push_back(OnRegex("r" + std::to_string(i), "a" + std::to_string(i)));
  rules.push_back(OnResource("exact", "b"));
  EXPECT_EQ(BuildError(rules), "");

  rules.push_back(Named("one more"));

  EXPECT_THAT(BuildError(rules),
              HasSubstr("33 rules can meet one request (a resource that all their regular "
                        "expressions match); at most 32 may"));
}

TEST_F(MatcherTargetTest, CallsThatAreCountedAreBoundedToo) {
  std::vector<Rule> rules;
  for (size_t i = 0; i < base::kRulesPerRequestMax + 1; ++i) {
    const std::string number = std::to_string(i);
    rules.push_back(RelatedTo(OnResource("r" + number, "on" + number), "db:write"));
  }

  EXPECT_THAT(BuildError(rules), HasSubstr("33 rules can meet one request (resource \"db:write\""));
}

}  // namespace
}  // namespace flowguard::rules
