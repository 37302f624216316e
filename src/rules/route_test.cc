// SPDX-License-Identifier: Apache-2.0
#include "rules/route.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace flowguard::rules {
namespace {

using Kind = RouteSegment::Kind;
using testing::ElementsAre;
using testing::HasSubstr;

std::string RouteError(std::string_view text) {
  auto route = ParseRoute(text);
  return route.ok() ? "" : route.error().message;
}

TEST(RouteTest, ReadsMethodsAndEveryKindOfSegment) {
  auto route = ParseRoute("GET|HEAD /orders/{id}/*/**");

  ASSERT_TRUE(route.ok()) << route.error().message;
  EXPECT_THAT(route->methods, ElementsAre("GET", "HEAD"));
  EXPECT_THAT(
      route->segments,
      ElementsAre(RouteSegment{Kind::kLiteral, "orders"}, RouteSegment{Kind::kCapture, "id"},
                  RouteSegment{Kind::kStar, ""}, RouteSegment{Kind::kRest, ""}));
  EXPECT_EQ(route->CaptureSegment("id"), 1);
  EXPECT_EQ(route->CaptureSegment("other"), -1);
}

TEST(RouteTest, RootHasNoSegments) {
  EXPECT_TRUE(ParseRoute("/")->segments.empty());
  EXPECT_TRUE(ParseRoute("GET /")->segments.empty());
}

TEST(RouteTest, SlashAtTheEndMakesNoDifference) {
  EXPECT_EQ(ParseRoute("/orders/")->segments, ParseRoute("/orders")->segments);
}

// Rules out a template that no normalised path can equal because it spells the same
// path in another way.
TEST(RouteTest, LiteralsAreSpeltAsNormalisedPathsAre) {
  EXPECT_EQ(ParseRoute("/%6cogin")->segments[0].text, "login");
  EXPECT_EQ(ParseRoute("/a%2fb")->segments[0].text, "a%2Fb");
  EXPECT_EQ(ParseRoute("/\xe5\x95\x86")->segments[0].text, "%E5%95%86");
  EXPECT_EQ(ParseRoute("/a%2Ab")->segments[0].text, "a*b");
}

// Rules out a pattern without a leading slash, or in quotes, that loads and is dead.
TEST(RouteTest, RefusesPathsWithoutLeadingSlash) {
  EXPECT_THAT(RouteError("api/account/x"), HasSubstr("column 1: a path begins with '/'"));
  EXPECT_THAT(RouteError("GET api"), HasSubstr("column 5: a path begins with '/'"));
  EXPECT_THAT(RouteError("*:api/account/x"), HasSubstr("a path begins with '/'"));
  EXPECT_THAT(RouteError("'*'"), HasSubstr("a path begins with '/'"));
  EXPECT_THAT(RouteError("/\"a\""), HasSubstr("column 2"));
  EXPECT_THAT(RouteError(""), HasSubstr("a path begins with '/'"));
}

// Rules out a wildcard in the middle that loads and never matches.
TEST(RouteTest, RefusesWildcardsThatAreNotAWholeSegment) {
  EXPECT_THAT(RouteError("/a/foo*bar"), HasSubstr("column 7: '*' inside a segment"));
  EXPECT_THAT(RouteError("/a/***"), HasSubstr("column 4: '*' inside a segment"));
  EXPECT_THAT(RouteError("/a/**/b"), HasSubstr("column 7: a segment behind '**'"));
  EXPECT_THAT(RouteError("/a/x{id}"), HasSubstr("column 5: brace inside a segment"));
  EXPECT_THAT(RouteError("/{id}/{id}"), HasSubstr("{id} stands twice"));
  EXPECT_THAT(RouteError("/{}"), HasSubstr("found capture {}"));
  EXPECT_THAT(RouteError("/{1a}"), HasSubstr("found capture {1a}"));
}

TEST(RouteTest, RefusesWhatNoNormalisedPathHolds) {
  EXPECT_THAT(RouteError("/a//b"), HasSubstr("column 4: empty segment"));
  EXPECT_THAT(RouteError("//"), HasSubstr("empty segment"));
  EXPECT_THAT(RouteError("/a//"), HasSubstr("empty segment"));
  EXPECT_THAT(RouteError("/a/../b"), HasSubstr("column 4: dot segment"));
  EXPECT_THAT(RouteError("/a/%2e%2E"), HasSubstr("dot segment"));
  EXPECT_THAT(RouteError("/a/..%2fb"), HasSubstr("column 4: dot segment at an escaped '/'"));
  EXPECT_THAT(RouteError("/b%5c%2e"), HasSubstr("dot segment at an escaped '/'"));
  EXPECT_EQ(RouteError("/a%2f.b%2F..."), "");
  EXPECT_THAT(RouteError("/a?b=c"), HasSubstr("column 3: query"));
  EXPECT_THAT(RouteError("/a%zz"), HasSubstr("column 3: '%' without two"));
  EXPECT_THAT(RouteError("/a%4"), HasSubstr("column 3: '%' without two"));
  EXPECT_THAT(RouteError("/a%00"), HasSubstr("control character"));
  EXPECT_THAT(RouteError("/a b"), HasSubstr("column 3"));
}

TEST(RouteTest, RefusesBadMethods) {
  EXPECT_THAT(RouteError("get /a"), HasSubstr("found method \"get\""));
  EXPECT_THAT(RouteError("GET| /a"), HasSubstr("column 5: found method \"\""));
  EXPECT_THAT(RouteError("GET|GET /a"), HasSubstr("GET is named twice"));
  EXPECT_THAT(RouteError(" /a"), HasSubstr("found method \"\""));
}

TEST(RouteTest, BoundsSegmentsAndBytes) {
  std::string most;
  for (int i = 0; i < 64; ++i)
    most += "/a";

  EXPECT_TRUE(ParseRoute(most).ok());
  EXPECT_THAT(RouteError(most + "/a"), HasSubstr("more than 64 segments"));
  EXPECT_THAT(RouteError("/" + std::string(5000, 'a')), HasSubstr("longer than"));
}

TEST(FoldRouteTest, LiteralsAreInSmallLettersAndNamesAndMethodsStay) {
  EXPECT_EQ(FoldRoute("GET|POST /Api/{UserId}/LOGIN/*/**"), "GET|POST /api/{UserId}/login/*/**");
  EXPECT_EQ(FoldRoute("/%4Cogin/%2Fa%C3%84"), "/login/%2Fa%C3%84") << "an escaped L is a letter";
  EXPECT_EQ(FoldRoute("/A%"), "/a%");
  EXPECT_EQ(FoldRoute("GET"), "GET");
  EXPECT_EQ(FoldRoute(""), "");
}

TEST(ResourceTest, StarMayOnlyStandAtTheEnd) {
  EXPECT_TRUE(ParseResource("order:*")->prefix);
  EXPECT_EQ(ParseResource("order:*")->text, "order:");
  EXPECT_FALSE(ParseResource("order:create")->prefix);
  EXPECT_TRUE(ParseResource("*")->prefix);
  EXPECT_THAT(ParseResource("foo*bar").error().message, HasSubstr("column 4: '*' inside"));
  EXPECT_THAT(ParseResource("a**").error().message, HasSubstr("column 2"));
  EXPECT_THAT(ParseResource("a\nb").error().message, HasSubstr("column 2: control character"));
}

}  // namespace
}  // namespace flowguard::rules
