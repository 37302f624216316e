// SPDX-License-Identifier: Apache-2.0
//
// Rules that relate to a resource: what they cannot have.
#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rules/compile_fixture_test.h"

namespace flowguard::rules {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Rule Related() {
  Rule rule = Limit("reads");
  rule.on.resource = "db:read";
  rule.relate_to = "db:write";
  return rule;
}

std::vector<std::string> ErrorsOf(const std::function<void(Rule&)>& change) {
  Rule rule = Related();
  change(rule);
  return Errors(Set({rule}), /*remote_allowed=*/true);
}

TEST(CheckRelationTest, LimitsAndConcurrencyMayRelate) {
  EXPECT_THAT(ErrorsOf([](Rule&) {}), IsEmpty());
  EXPECT_THAT(ErrorsOf([](Rule& r) {
                r.kind = RuleKind::kConcurrency;
                r.rate = {};
                r.concurrency = 3;
              }),
              IsEmpty());
  EXPECT_THAT(
      ErrorsOf([](Rule& r) {
        r.kind = RuleKind::kAccess;
        r.rate = {};
        r.deny = {{"user", {"x"}}};
      }),
      ElementsAre("rule \"reads\": relate_to: found here; it belongs to rules of kind limit "
                  "or concurrency only"));
}

TEST(CheckRelationTest, ItNamesOneResourceThatIsNotItsOwn) {
  EXPECT_THAT(ErrorsOf([](Rule& r) { r.relate_to = "db:*"; }),
              ElementsAre("rule \"reads\": relate_to: found \"db:*\"; it names one resource, no "
                          "prefix"));
  EXPECT_THAT(ErrorsOf([](Rule& r) { r.relate_to = "a*b"; }).size(), 1u);
  EXPECT_THAT(ErrorsOf([](Rule& r) { r.relate_to = "db:read"; }),
              ElementsAre("rule \"reads\": relate_to: found the resource that the rule is on, so "
                          "that it refuses nothing; without relate_to it counts and refuses the "
                          "same calls"));
  EXPECT_THAT(ErrorsOf([](Rule& r) {
                r.relate_to = "db:read";
                r.on.route = "/read";
              }),
              IsEmpty())
      << "the calls of the route have something to refuse them";
}

TEST(CheckRelationTest, WhatMeansNothingBesideItIsRefused) {
  EXPECT_THAT(ErrorsOf([](Rule& r) { r.scope = Scope::kShared; }),
              ElementsAre("rule \"reads\": scope: found beside relate_to; its cell is local"));
  EXPECT_THAT(ErrorsOf([](Rule& r) { r.by = {"user"}; }),
              ElementsAre("rule \"reads\": by: found beside relate_to; all calls of the resource "
                          "count in one cell"));
  EXPECT_THAT(ErrorsOf([](Rule& r) { r.wait = std::chrono::seconds(1); }),
              ElementsAre("rule \"reads\": wait: found beside relate_to; a request that takes "
                          "nothing has no turn to wait for"));
  EXPECT_THAT(ErrorsOf([](Rule& r) { r.count_refused = true; }),
              ElementsAre("rule \"reads\": count_refused: found beside relate_to; refused requests "
                          "are not what it counts"));
  EXPECT_THAT(ErrorsOf([](Rule& r) { r.cost.reserve = 2; }),
              ElementsAre("rule \"reads\": cost: found beside relate_to; a call counts as the cost "
                          "that it is made with"));
  EXPECT_THAT(ErrorsOf([](Rule& r) { r.algorithm = Algorithm::kSmoothBursty; }),
              ElementsAre("rule \"reads\": algorithm: found beside relate_to; smooth_bursty lets "
                          "every call go at the cost of the next, and is never used up"));
}

TEST(CheckRelationTest, AnotherRelationHasAnotherCell) {
  Rule other = Related();
  other.relate_to = "db:delete";
  Rule none = Related();
  none.relate_to.clear();
  const uint64_t identity = Good(Set({Related()})).rules[0].quota.identity;

  EXPECT_EQ(identity, Good(Set({Related()})).rules[0].quota.identity);
  EXPECT_NE(identity, Good(Set({other})).rules[0].quota.identity);
  EXPECT_NE(identity, Good(Set({none})).rules[0].quota.identity);
}

}  // namespace
}  // namespace flowguard::rules
