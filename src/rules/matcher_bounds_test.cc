// SPDX-License-Identifier: Apache-2.0
//
// What Build refuses so that Match can never overflow, and the paths and templates
// that would make a backtracking matcher explode.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/bounds.h"
#include "rules/matcher.h"
#include "rules/route.h"
#include "rules/route_index.h"
#include "rules/route_overlap.h"

namespace flowguard::rules {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr size_t kMost = base::kRulesPerRequestMax;

Rule Named(size_t i) {
  Rule rule;
  rule.name = "r" + std::to_string(i);
  return rule;
}

Rule OnResource(size_t i, std::string resource) {
  Rule rule = Named(i);
  rule.on.resource = std::move(resource);
  return rule;
}

std::vector<Rule> OnRoutes(const std::vector<std::string>& routes) {
  std::vector<Rule> rules;
  for (const std::string& route : routes)
    rules.emplace_back(Named(rules.size())).on.route = route;
  return rules;
}

std::string BuildError(const std::vector<Rule>& rules) {
  auto built = Matcher::Build(rules, MatchMode::kAll);
  return built.ok() ? "" : built.error().message;
}

size_t CountFor(const std::vector<Rule>& rules, std::string_view resource, std::string_view method,
                std::string_view path) {
  auto built = Matcher::Build(rules, MatchMode::kAll);
  EXPECT_TRUE(built.ok()) << built.error().message;
  MatchSet set;
  built->Match(resource, method, path, set);
  return set.size();
}

TEST(MatcherBoundsTest, AsManyRulesAsFitMayMeetOneRequest) {
  std::vector<Rule> rules = OnRoutes({"/a/b", "/a/*", "/{x}/b", "/**"});
  while (rules.size() < kMost - 1)
    rules.push_back(Named(rules.size()));
  rules.push_back(OnResource(rules.size(), "order:*"));

  EXPECT_EQ(CountFor(rules, "order:create", "GET", "/a/b"), kMost);

  rules.push_back(OnResource(rules.size(), "order:create"));
  EXPECT_THAT(BuildError(rules), AllOf(HasSubstr("33 rules can meet one request"),
                                       HasSubstr("resource \"order:create\""),
                                       HasSubstr("at most 32 may"), HasSubstr("\"r4\"")));
}

TEST(MatcherBoundsTest, RulesThatNeverMeetTogetherAreNotCountedTogether) {
  std::vector<std::string> routes;
  for (int i = 0; i < 20; ++i) {
    routes.push_back("GET /a/{x}/**");
    routes.push_back("POST /a/*");
    routes.push_back("/b/{x}/c" + std::to_string(i));
    routes.push_back("/c/d");
    routes.push_back("/c/e");
  }

  EXPECT_EQ(BuildError(OnRoutes(routes)), "");
}

TEST(MatcherBoundsTest, NamesAPathThatMeetsTooManyRules) {
  std::vector<std::string> routes;
  for (int i = 0; i < 11; ++i) {
    routes.push_back("POST /a/{x}/c");
    routes.push_back("/{y}/b/**");
    routes.push_back("/*/b/c");
  }

  EXPECT_THAT(BuildError(OnRoutes(routes)), HasSubstr("(POST /a/b/c)"));
}

TEST(MatcherBoundsTest, LiteralPathsCountWithTheWildcardsOverThem) {
  std::vector<std::string> routes(17, "/a/b");
  routes.insert(routes.end(), 16, "GET /a/**");

  EXPECT_THAT(BuildError(OnRoutes(routes)), HasSubstr("(GET /a/b)"));
}

TEST(MatcherBoundsTest, DisabledRulesDoNotCount) {
  std::vector<Rule> rules = OnRoutes(std::vector<std::string>(100, "/a/*"));
  for (Rule& rule : rules)
    rule.enabled = false;

  EXPECT_EQ(BuildError(rules), "");
}

TEST(MatcherBoundsTest, NestedPrefixesCountTogether) {
  std::vector<Rule> rules;
  for (size_t i = 0; i <= kMost; ++i)
    rules.push_back(OnResource(i, std::string(i + 1, 'a') + "*"));

  EXPECT_THAT(BuildError(rules), HasSubstr("33 rules can meet one request"));
  rules.pop_back();
  EXPECT_EQ(CountFor(rules, std::string(100, 'a'), "", ""), kMost);
  EXPECT_EQ(CountFor(rules, "aaab", "", ""), 3u);
}

// Rules out exponential work: every way to put a literal or a wildcard at each of
// `depth` places, told apart by a last segment so that few rules meet one path.
TEST(MatcherBoundsTest, RefusesTemplatesThatKeepTooManyWaysOpen) {
  const auto entangled = [](int depth) {
    std::vector<std::string> routes;
    for (int mask = 0; mask < 1 << depth; ++mask) {
      std::string route;
      for (int i = 0; i < depth; ++i)
        route += (mask >> i & 1) != 0 ? "/a" : "/*";
      routes.push_back(route + "/end" + std::to_string(mask));
    }
    return routes;
  };

  EXPECT_THAT(BuildError(OnRoutes(entangled(9))),
              HasSubstr("one path may follow 511 of them at once; at most 256 may"));
  EXPECT_EQ(CountFor(OnRoutes(entangled(8)), "", "GET", "/a/a/a/a/a/a/a/a/end37"), 1u);
}

TEST(MatcherBoundsTest, HostilePathsMeetOnlyWhatTheyShould) {
  const std::vector<Rule> rules =
      OnRoutes({"/a/*/a/*/a/*/end", "/{x}/{y}/**", "/*/a/a/a/a/a/a/a/a/a/a/a/b", "/lit"});
  std::string deep;
  for (int i = 0; i < 100'000; ++i)
    deep += "/a";

  EXPECT_EQ(CountFor(rules, "", "GET", deep), 1u);
  EXPECT_EQ(CountFor(rules, "", "GET", std::string(100'000, '/')), 1u) << "empty segments";
  EXPECT_EQ(CountFor(rules, "", "GET", "/"), 0u);
  EXPECT_EQ(CountFor(rules, "", "GET", "//"), 0u);
  EXPECT_EQ(CountFor(rules, "", "GET", "/" + std::string(1 << 20, 'x')), 0u);
  EXPECT_EQ(CountFor(rules, "", "GET", std::string_view("/\0/\0", 4)), 1u);
  EXPECT_EQ(CountFor(rules, "", "GET", "/*/**"), 1u) << "stars of a path are plain bytes";
  EXPECT_EQ(CountFor(rules, "", "GET", "/{x}"), 0u);
}

TEST(MatcherBoundsTest, MethodsAreBounded) {
  std::vector<std::string> routes;
  for (size_t i = 0; i <= base::kMethodsMax; ++i) {
    const char first = static_cast<char>('A' + i % 26);
    const char second = static_cast<char>('A' + i / 26);
    routes.push_back(std::string{first, second} + " /p" + std::to_string(i));
  }

  EXPECT_THAT(BuildError(OnRoutes(routes)), HasSubstr("more than 63 distinct methods"));
  routes.pop_back();
  EXPECT_EQ(BuildError(OnRoutes(routes)), "");
  EXPECT_EQ(CountFor(OnRoutes(routes), "", "KC", "/p62"), 1u);
}

TEST(RouteOverlapTest, FindsThatNoPathMeetsMoreThanAllowed) {
  RouteIndex index;
  uint32_t order = 0;
  for (const char* route : {"/a/{x}", "/*/b", "/a/c/**", "/**"})
    index.Add(*ParseRoute(route),
              Entry{kAnyMethod, order++, 0, 0, RuleKind::kLimit, false, false, true, false});
  index.Finish();

  EXPECT_EQ(FindOverlap(index, 0, 3), std::nullopt) << "/a/b and /a/c meet three";
  const auto overlap = FindOverlap(index, 0, 2);
  ASSERT_TRUE(overlap.has_value());
  EXPECT_EQ(overlap->entries.size(), 3u);
  EXPECT_TRUE(overlap->proven);
  EXPECT_EQ(MostNodesAtOnce(index), 3u);
}

}  // namespace
}  // namespace flowguard::rules
