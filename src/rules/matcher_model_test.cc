// SPDX-License-Identifier: Apache-2.0
//
// The matcher against a slow model that follows the text of its header, on random
// rules and requests.
#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "rules/matcher.h"
#include "rules/route.h"
#include "rules/route_index.h"
#include "rules/route_overlap.h"

namespace flowguard::rules {
namespace {

using Strings = std::vector<std::string>;
using Random = std::mt19937_64;

size_t Below(Random& random, size_t n) {
  return std::uniform_int_distribution<size_t>(0, n - 1)(random);
}

// --- the model

Strings Split(std::string path) {
  path.erase(0, 1);
  if (!path.empty() && path.back() == '/') path.pop_back();
  Strings segments;
  if (path.empty()) return segments;
  size_t at = 0;
  for (size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', at)) {
    segments.push_back(path.substr(at, slash - at));
    at = slash + 1;
  }
  segments.push_back(path.substr(at));
  return segments;
}

bool RouteMatches(const RouteTemplate& route, const std::string& method, const std::string& path) {
  if (path.empty() || path[0] != '/') return false;
  const Strings& methods = route.methods;
  if (!methods.empty() && std::find(methods.begin(), methods.end(), method) == methods.end())
    return false;
  const Strings segments = Split(path);
  for (size_t i = 0; i < route.segments.size(); ++i) {
    const RouteSegment& expected = route.segments[i];
    if (expected.kind == RouteSegment::Kind::kRest) return true;
    if (i >= segments.size()) return false;
    if (expected.kind == RouteSegment::Kind::kLiteral && expected.text != segments[i]) return false;
  }
  return segments.size() == route.segments.size();
}

bool ResourceMatches(const std::string& pattern, const std::string& resource) {
  if (resource.empty()) return false;
  if (pattern.back() != '*') return pattern == resource;
  return resource.compare(0, pattern.size() - 1, pattern, 0, pattern.size() - 1) == 0;
}

// Sorts as precedence does.
using Rank = std::vector<int>;

Rank RouteRank(const RouteTemplate& route) {
  Rank rank{2};
  for (const RouteSegment& segment : route.segments)
    rank.push_back(static_cast<int>(segment.kind));
  if (route.segments.empty() || route.segments.back().kind != RouteSegment::Kind::kRest)
    rank.push_back(static_cast<int>(RouteSegment::Kind::kLiteral));
  rank.push_back(route.methods.empty() ? 0 : 1);
  return rank;
}

struct Question {
  std::string resource, method, path;
};

struct Answer {
  size_t rule;
  bool by_route;
  friend bool operator==(const Answer&, const Answer&) = default;
  friend void PrintTo(const Answer& answer, std::ostream* out) {
    *out << "#" << answer.rule << (answer.by_route ? " by route" : "");
  }
};

int Phase(const Rule& rule) {
  if (rule.kind == RuleKind::kAccess) return 0;
  if (rule.scope != Scope::kLocal) return rule.scope == Scope::kShared ? 3 : 4;
  return rule.kind == RuleKind::kConcurrency ? 2 : 1;
}

std::vector<Answer> Model(const std::vector<Rule>& rules, MatchMode mode, const Question& q) {
  struct Candidate {
    Answer answer;
    Rank rank;
  };
  std::vector<Candidate> candidates;
  std::array<Rank, 3> best;
  for (size_t i = 0; i < rules.size(); ++i) {
    const Rule& rule = rules[i];
    if (!rule.enabled) continue;
    const bool has_resource = !rule.on.resource.empty();
    const bool has_route = !rule.on.route.empty();
    const bool by_resource = has_resource && ResourceMatches(rule.on.resource, q.resource);
    const bool by_route = has_route && RouteMatches(*ParseRoute(rule.on.route), q.method, q.path);
    if ((has_resource || has_route) && !by_resource && !by_route) continue;
    Rank rank{0};
    if (by_route) rank = RouteRank(*ParseRoute(rule.on.route));
    if (by_resource) {
      const bool prefix = rule.on.resource.back() == '*';
      const Rank resource_rank =
          prefix ? Rank{1, static_cast<int>(rule.on.resource.size())} : Rank{3};
      rank = std::max(rank, resource_rank);
    }
    Rank& of_kind = best[static_cast<size_t>(rule.kind)];
    if (!rule.shadow) of_kind = std::max(of_kind, rank);
    candidates.push_back({{i, by_route}, rank});
  }
  std::stable_sort(candidates.begin(), candidates.end(), [&](const auto& a, const auto& b) {
    return Phase(rules[a.answer.rule]) < Phase(rules[b.answer.rule]);
  });
  std::vector<Answer> answers;
  for (const Candidate& c : candidates) {
    const bool beaten = c.rank < best[static_cast<size_t>(rules[c.answer.rule].kind)];
    if (mode == MatchMode::kAll || !beaten) answers.push_back(c.answer);
  }
  return answers;
}

// --- random rules and requests, over few words so that they meet

const Strings kWords{"a", "b", "ab", "orders", "", "%2F", "x"};
const Strings kMethodLists{"", "", "GET ", "POST ", "GET|HEAD ", "PURGE|GET|PUT "};
const Strings kMethods{"GET", "POST", "HEAD", "PURGE", "DELETE", ""};
const Strings kResources{"a", "ab", "abc", "b", "order:create", "order:", "orders", ""};

std::string RandomRoute(Random& random) {
  std::string route = kMethodLists[Below(random, kMethodLists.size())];
  const size_t depth = Below(random, 5);
  Strings captures{"p", "q", "r", "s", "t"};
  for (size_t i = 0; i < depth; ++i) {
    switch (Below(random, 5)) {
      case 0:
        route += "/*";
        break;
      case 1:
        route += "/{" + captures[i] + "}";
        break;
      default:
        route += "/" + std::vector<std::string>{"a", "b", "ab", "orders", "x"}[Below(random, 5)];
    }
  }
  if (Below(random, 4) == 0) return route + "/**";
  return depth == 0 ? route + "/" : route;
}

Rule RandomRule(Random& random, size_t number) {
  Rule rule;
  rule.name = "r" + std::to_string(number);
  const size_t target = Below(random, 10);
  if (target > 0 && target < 8) rule.on.route = RandomRoute(random);
  if (target > 6) {
    rule.on.resource = kResources[Below(random, kResources.size() - 1)];
    if (Below(random, 2) == 0) rule.on.resource += "*";
  }
  rule.kind = static_cast<RuleKind>(Below(random, 3));
  if (rule.kind == RuleKind::kLimit && Below(random, 3) == 0)
    rule.scope = Below(random, 2) == 0 ? Scope::kShared : Scope::kCluster;
  rule.shadow = Below(random, 5) == 0;
  rule.enabled = Below(random, 8) != 0;
  return rule;
}

Question RandomQuestion(Random& random) {
  Question q;
  q.resource = kResources[Below(random, kResources.size())];
  q.method = kMethods[Below(random, kMethods.size())];
  const size_t depth = Below(random, 7);
  for (size_t i = 0; i < depth; ++i)
    q.path += "/" + kWords[Below(random, kWords.size())];
  if (Below(random, 4) == 0) q.path += "/";
  return q;
}

std::vector<Answer> Ask(const Matcher& matcher, const Question& q, MatchSet& set) {
  matcher.Match(q.resource, q.method, q.path, set);
  std::vector<Answer> answers;
  for (const MatchSet::Match& match : set)
    answers.push_back({match.rule, match.by_route});
  return answers;
}

TEST(MatcherModelTest, AgreesWithTheModelOnRandomRules) {
  size_t matched = 0;
  size_t built_count = 0;
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    std::vector<Rule> rules;
    const size_t count = 1 + Below(random, 40);
    for (size_t i = 0; i < count; ++i)
      rules.push_back(RandomRule(random, i));
    const MatchMode mode = seed % 2 == 0 ? MatchMode::kAll : MatchMode::kMostSpecific;
    auto built = Matcher::Build(rules, mode);
    if (!built.ok()) continue;  // too many at once: matcher_bounds_test.cc
    ++built_count;
    MatchSet set;
    for (int i = 0; i < 60; ++i) {
      const Question q = RandomQuestion(random);
      const std::vector<Answer> expected = Model(rules, mode, q);
      ASSERT_EQ(Ask(*built, q, set), expected)
          << "resource \"" << q.resource << "\" " << q.method << " " << q.path;
      matched += expected.size();
      const Strings segments = q.path.empty() ? Strings{} : Split(q.path);
      for (const Answer& answer : expected) {
        if (!answer.by_route) continue;
        const RouteTemplate route = *ParseRoute(rules[answer.rule].on.route);
        for (size_t s = 0; s < route.segments.size(); ++s) {
          if (route.segments[s].kind != RouteSegment::Kind::kCapture) continue;
          ASSERT_EQ(set.Segment(s), segments[s]);
        }
      }
    }
  }
  EXPECT_GT(built_count, 300u);
  EXPECT_GT(matched, 15'000u) << "the requests meet too few rules to prove anything";
}

TEST(MatcherModelTest, AgreesWithTheModelOnTenThousandTemplates) {
  constexpr uint64_t kSeed = 7;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  Random random(kSeed);
  std::vector<Rule> rules;
  for (size_t i = 0; i < 10'000; ++i) {
    Rule rule;
    rule.name = "r" + std::to_string(i);
    const std::string service = "/svc" + std::to_string(i % 500);
    const std::string item = "/item" + std::to_string(i / 500);
    const Strings shapes{service + item, service + item + "/{id}", "GET " + service + "/*" + item,
                         "/{tenant}" + service + item, service + item + "/{id}/**"};
    rule.on.route = shapes[i % shapes.size()];
    rules.push_back(std::move(rule));
  }
  auto built = Matcher::Build(rules, MatchMode::kAll);
  ASSERT_TRUE(built.ok()) << built.error().message;

  MatchSet set;
  size_t matched = 0;
  for (int i = 0; i < 120; ++i) {
    const std::string service = "/svc" + std::to_string(Below(random, 510));
    const std::string item = "/item" + std::to_string(Below(random, 21));
    const Strings paths{service + item, service + item + "/7", service + "/x" + item,
                        "/acme" + service + item, service + item + "/7/8/9"};
    const Question q{"", i % 2 == 0 ? "GET" : "POST", paths[Below(random, paths.size())]};
    const std::vector<Answer> expected = Model(rules, MatchMode::kAll, q);
    ASSERT_EQ(Ask(*built, q, set), expected) << q.method << " " << q.path;
    matched += expected.size();
  }
  EXPECT_GT(matched, 20u);
}

// The proof at load is exact: the most that any path meets is allowed, one less is
// not.  Templates of up to three segments over two words, all paths of up to four.
TEST(MatcherModelTest, OverlapSearchAgreesWithTryingEveryPath) {
  std::vector<std::string> paths{"/"};
  for (size_t i = 0, deep = 0; deep < 4; ++deep) {
    for (const size_t end = paths.size(); i < end; ++i) {
      for (const char* word : {"a", "b", "other"})
        paths.push_back((paths[i] == "/" ? "" : paths[i]) + "/" + word);
    }
  }
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    RouteIndex index;
    std::vector<RouteTemplate> routes;
    for (size_t i = 0, count = 1 + Below(random, 40); i < count; ++i) {
      std::string text;
      for (size_t depth = Below(random, 4); depth > 0; --depth)
        text += std::vector<std::string>{"/a", "/b", "/*"}[Below(random, 3)];
      if (text.empty() || Below(random, 3) == 0) text += "/**";
      const size_t method = Below(random, 4);  // 2, 3: any
      routes.push_back(*ParseRoute(text));
      const MethodBits bits = method < 2 ? MethodBits{1} << method : kAnyMethod;
      if (method < 2) routes.back().methods = {method == 0 ? "GET" : "POST"};
      index.Add(routes.back(), Entry{bits, static_cast<uint32_t>(i), 0, 0, RuleKind::kLimit, false,
                                     false, true, false});
    }
    index.Finish();
    size_t worst = 0;
    for (const std::string& path : paths) {
      for (const char* method : {"GET", "POST", "PUT"}) {
        const auto met = std::count_if(routes.begin(), routes.end(), [&](const auto& route) {
          return RouteMatches(route, method, path);
        });
        worst = std::max(worst, static_cast<size_t>(met));
      }
    }
    ASSERT_GT(worst, 0u);

    EXPECT_FALSE(FindOverlap(index, 2, worst).has_value());
    const auto overlap = FindOverlap(index, 2, worst - 1);
    ASSERT_TRUE(overlap.has_value());
    EXPECT_TRUE(overlap->proven);
    EXPECT_EQ(overlap->entries.size(), worst) << overlap->path;
  }
}

}  // namespace
}  // namespace flowguard::rules
