// SPDX-License-Identifier: Apache-2.0
#include "http/path.h"

#include <array>
#include <string>

#include <gtest/gtest.h>

#include "base/bounds.h"

namespace flowguard::http {
namespace {

std::string Normal(std::string_view target, const PathOptions& options = {}) {
  static std::array<char, base::kTargetBytesMax> buffer;
  const NormalisedPath path = NormalisePath(target, options, buffer);
  if (path.status == PathStatus::kBad) return "bad";
  if (path.status == PathStatus::kTooLong) return "too long";
  return std::string(path.path);
}

// Rules out: another spelling of a path getting round its rule or a fresh budget.
TEST(PathTest, EverySpellingOfLoginIsLogin) {
  for (const char* target : {"/login",
                             "/login/",
                             "//login",
                             "/login//",
                             "/./login",
                             "/a/../login",
                             "/%6cogin",
                             "/%6Cogin",
                             "/login;x=1",
                             "/login;",
                             "/;a/login",
                             "/login?x=1",
                             "/login/.",
                             "/%2e/login",
                             "/a/%2E%2e/login",
                             "/a/.%2e/login",
                             "/../../login",
                             "/login/x/..",
                             "http://example.com/login",
                             "HTTPS://example.com:1//login"}) {
    EXPECT_EQ(Normal(target), "/login") << target;
  }
}

TEST(PathTest, CaseIsFoldedOnlyWhenAsked) {
  PathOptions fold;
  fold.fold_case = true;

  EXPECT_EQ(Normal("/LOGIN"), "/LOGIN");
  EXPECT_EQ(Normal("/LOGIN", fold), "/login");
  EXPECT_EQ(Normal("/%4CoGin%c3%89", fold), "/login%C3%89");
}

// Rules out: percent escapes, and escapes of escapes, getting round a rule.
TEST(PathTest, EscapesAreDecodedExactlyOnce) {
  EXPECT_EQ(Normal("/api/%61dmin"), "/api/admin");
  EXPECT_EQ(Normal("/api/%2561dmin"), "/api/%2561dmin");
  EXPECT_EQ(Normal("/api/%25%36%31"), "/api/%2561");
  EXPECT_EQ(Normal("/v1/x%3Arun%21"), "/v1/x:run!");
}

TEST(PathTest, AnEscapedSlashIsNoSeparatorUnlessConfigured) {
  PathOptions separates;
  separates.encoded_slash_separates = true;

  EXPECT_EQ(Normal("/api%2fadmin"), "/api%2Fadmin");
  EXPECT_EQ(Normal("/api%2f...%2fx.%2f.y"), "/api%2F...%2Fx.%2F.y");
  EXPECT_EQ(Normal("/api%2fadmin", separates), "/api/admin");
  EXPECT_EQ(Normal("/api%2f..%2fx", separates), "/x");
}

// Rules out: a target that climbs out of its rule's path in an upstream that decodes
// separators before it resolves dots, while we take them for data.
TEST(PathTest, ADotSegmentAtAnEscapedSeparatorIsBad) {
  for (const char* target :
       {"/x/..%2flogin", "/x/%2e%2e%2Flogin", "/x/.%2e%2flogin", "/x/.%2flogin", "/x%2f../login",
        "/x%2f..", "/x%2f.", "/api%2f..%2fx", "/x/..%5clogin", "/x/..%5C", "/x%5c.%2e/login",
        "/x/..;%2flogin", "/x/..;p=1%2flogin", "/x/..%3bp%2flogin", "/x;%2f..%2flogin",
        "/x;p%2f..;q/login"}) {
    EXPECT_EQ(Normal(target), "bad") << target;
    PathOptions keep;
    keep.drop_parameters = false;
    keep.merge_slashes = false;
    EXPECT_EQ(Normal(target, keep), "bad") << target;
  }
  PathOptions slash;
  slash.backslash = Backslash::kSlash;
  EXPECT_EQ(Normal("/x/..%2flogin", slash), "bad");
  PathOptions separates;
  separates.encoded_slash_separates = true;
  EXPECT_EQ(Normal("/x/..%2flogin", separates), "/login");
  EXPECT_EQ(Normal("/x/..%5clogin", separates), "bad");
}

// Rules out: "/api/..;/healthz" passing as "/healthz" to an upstream that keeps parameters
// until the dots are resolved, and answers for "/api/..;/healthz".
TEST(PathTest, ADotSegmentWithParametersIsBadWhereTheyAreDropped) {
  PathOptions keep;
  keep.drop_parameters = false;
  for (const char* target : {"/api/..;/healthz", "/..;/login", "/a/..;x=/login", "/a/.;/b",
                             "/a/%2e%2e;/b", "/a/..%3b/b", "/a/..;"}) {
    EXPECT_EQ(Normal(target), "bad") << target;
    EXPECT_NE(Normal(target, keep), "bad") << target;
  }
  EXPECT_EQ(Normal("/a;..;/b"), "/a/b");
  EXPECT_EQ(Normal("/...;/b"), "/.../b");
}

// Rules out: "/api//../login" under the rule of "/login" while the upstream serves
// "/api/login".
TEST(PathTest, DotsThatTakeBackAnEmptySegmentAreBadWhereThoseAreMerged) {
  PathOptions keep;
  keep.merge_slashes = false;
  for (const char* target : {"/api//../login", "/api//b/../../login", "//../login",
                             "/a//b/./%2e%2e/..", "/a//;x/../b"}) {
    EXPECT_EQ(Normal(target), "bad") << target;
    EXPECT_NE(Normal(target, keep), "bad") << target;
  }
  EXPECT_EQ(Normal("/a//b/../c"), "/a/c");
  EXPECT_EQ(Normal("/a/../..//b"), "/b");
}

TEST(PathTest, DotsThatTakeBackAnEscapedSeparatorAreBad) {
  for (const char* target : {"/a%2f/../b", "/api/x%2fy/../../login", "/a/x%5cy/b/../.."}) {
    EXPECT_EQ(Normal(target), "bad") << target;
  }
  EXPECT_EQ(Normal("/a%2fb/c/../d"), "/a%2Fb/d");
}

TEST(PathTest, OnlyANormalPathIsAsItCame) {
  std::array<char, 64> buffer;
  for (const char* target : {"/healthz", "/healthz?a=//", "/.well-known/x", "/a%20b", "/", "*",
                             "http://x/healthz", "http://x"}) {
    EXPECT_TRUE(NormalisePath(target, {}, buffer).as_it_came) << target;
  }
  for (const char* target : {"/healthz/", "//healthz", "/a/../healthz", "/healthz;x", "/%68ealthz",
                             "/a%2fb", "/a/..;/healthz"}) {
    EXPECT_FALSE(NormalisePath(target, {}, buffer).as_it_came) << target;
  }
}

TEST(PathTest, AnEscapedSeparatorAwayFromDotSegmentsIsData) {
  EXPECT_EQ(Normal("/x/../a%2fb"), "/a%2Fb");
  EXPECT_EQ(Normal("/v1.2%2f.hidden%2f..."), "/v1.2%2F.hidden%2F...");
  EXPECT_EQ(Normal("/a%2f;..%2fb"), "/a%2F");
}

// Rules out: a '#' that we cut off and the upstream, which is sent the target as it
// came, does not ("/login#" is no "/login" there, or "/#/../login" is one).
TEST(PathTest, ANumberSignIsBadWhereverItStands) {
  for (const char* target : {"/#", "/login#top", "/#/../login", "/login?x=1#y", "/a#?x", "*#",
                             "http://example.com#/login", "#"}) {
    EXPECT_EQ(Normal(target), "bad") << target;
  }
  EXPECT_EQ(Normal("/a%23b"), "/a%23b");
}

TEST(PathTest, BrokenEscapesAndControlsAreBad) {
  for (const char* target : {"/%zz", "/%", "/%1", "/a%2", "/%00", "/a%00.html", "/%0d%0a", "/%7F",
                             "/a;%zz", "/a;%00", "/a\\b", "/\\login", "relative", ""}) {
    EXPECT_EQ(Normal(target), "bad") << target;
  }
  EXPECT_EQ(Normal(std::string_view("/a\0b", 4)), "bad");
}

TEST(PathTest, BackslashIsDataOrSeparatorNeverBoth) {
  PathOptions windows;
  windows.backslash = Backslash::kSlash;

  EXPECT_EQ(Normal("/users/DOMAIN%5cbob"), "/users/DOMAIN%5Cbob");
  EXPECT_EQ(Normal("/a/..%5Clogin", windows), "/login");
  EXPECT_EQ(Normal("/a\\..\\login", windows), "/login");
}

TEST(PathTest, OptionsKeepWhatTheyAreAskedToKeep) {
  PathOptions keep;
  keep.merge_slashes = false;
  keep.strip_trailing_slash = false;
  keep.drop_parameters = false;

  EXPECT_EQ(Normal("/a//b/", keep), "/a//b/");
  EXPECT_EQ(Normal("/a;x=1", keep), "/a;x=1");
  EXPECT_EQ(Normal("/a%3Bx", keep), "/a;x");
  EXPECT_EQ(Normal("/a//../b", keep), "/a/b");
  EXPECT_EQ(Normal("/a/.", keep), "/a/");
  EXPECT_EQ(Normal("/a/..", keep), "/");
}

TEST(PathTest, RawBytesThatNoUriMayHoldAreEscaped) {
  EXPECT_EQ(Normal("/caf\xC3\xA9"), "/caf%C3%A9");
  EXPECT_EQ(Normal("/caf%c3%a9"), "/caf%C3%A9");
  EXPECT_EQ(Normal("/a\"b<c>"), "/a%22b%3Cc%3E");
  EXPECT_EQ(Normal("/a%20b"), "/a%20b");
  EXPECT_EQ(Normal("/a+b"), "/a+b");
}

TEST(PathTest, RootAndSpecialForms) {
  EXPECT_EQ(Normal("/"), "/");
  EXPECT_EQ(Normal("//"), "/");
  EXPECT_EQ(Normal("/.."), "/");
  EXPECT_EQ(Normal("/."), "/");
  EXPECT_EQ(Normal("/?x"), "/");
  EXPECT_EQ(Normal("*"), "*");
  EXPECT_EQ(Normal("http://example.com"), "/");
  EXPECT_EQ(Normal("http://example.com?a=/b"), "/");
  EXPECT_EQ(Normal("http://h?/login"), "/");
  EXPECT_EQ(Normal("/..."), "/...");
  EXPECT_EQ(Normal("/.a/..b/c."), "/.a/..b/c.");
}

TEST(PathTest, TheQueryIsLeftAsItCame) {
  std::array<char, 64> buffer;

  EXPECT_EQ(NormalisePath("/a/./b?x=%zz/../&y", {}, buffer).query, "x=%zz/../&y");
  EXPECT_EQ(NormalisePath("http://h?/login", {}, buffer).query, "/login");
}

TEST(PathTest, ANormalPathIsNotCopied) {
  const std::string_view target = "/orders/1234-abc_d~e?x=1";
  std::array<char, 64> buffer;

  EXPECT_EQ(NormalisePath(target, {}, buffer).path.data(), target.data());
}

TEST(PathTest, ASmallBufferIsReportedNotOverrun) {
  std::array<char, 4> buffer;

  EXPECT_EQ(NormalisePath("/./abc", {}, buffer).path, "/abc");
  EXPECT_EQ(NormalisePath("/./abcd", {}, buffer).status, PathStatus::kTooLong);
  EXPECT_EQ(NormalisePath("/a\xFF", {}, buffer).status, PathStatus::kTooLong);
}

}  // namespace
}  // namespace flowguard::http
