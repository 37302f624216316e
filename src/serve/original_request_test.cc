// SPDX-License-Identifier: Apache-2.0
#include "serve/original_request.h"

#include <string>

#include <gtest/gtest.h>

namespace flowguard::serve {
namespace {

// A parsed head with the text that it views.
struct Parsed {
  explicit Parsed(const std::string& target, const std::string& lines = "")
      : text("GET " + target + " HTTP/1.1\r\nHost: x\r\n" + lines + "\r\n") {
    EXPECT_EQ(wire::ParseRequestHead(text, 0, head), wire::ParseStatus::kDone);
  }
  std::string text;
  wire::RequestHead head;
};

TEST(OriginalRequestTest, OurOwnPathBehindThePrefix) {
  const auto target = [](const std::string& own) {
    const Parsed parsed(own);
    return std::string(FindOriginalRequest(parsed.head, true).target);
  };

  EXPECT_EQ(target("/v1/auth"), "/");
  EXPECT_EQ(target("/v1/auth?deny=403"), "/");
  EXPECT_EQ(target("/v1/auth/"), "/");
  EXPECT_EQ(target("/v1/auth/orders/7?x=1"), "/orders/7?x=1");
}

TEST(OriginalRequestTest, OnlyWholeSegmentsAreThePrefix) {
  EXPECT_TRUE(IsAuthTarget("/v1/auth"));
  EXPECT_TRUE(IsAuthTarget("/v1/auth?x"));
  EXPECT_TRUE(IsAuthTarget("/v1/auth/x"));
  EXPECT_FALSE(IsAuthTarget("/v1/authority"));
  EXPECT_FALSE(IsAuthTarget("/v1/aut"));
}

TEST(OriginalRequestTest, NginxTellsUriAndMethod) {
  const Parsed parsed("/v1/auth", "x-original-uri: /a?b\r\nX-ORIGINAL-METHOD: PUT\r\n");

  const OriginalRequest original = FindOriginalRequest(parsed.head, true);

  EXPECT_EQ(original.target, "/a?b");
  EXPECT_EQ(original.method, "PUT");
  EXPECT_FALSE(original.conflicting);
}

TEST(OriginalRequestTest, EnvoyTellsThePathBeforeItWasRewritten) {
  const Parsed parsed("/v1/auth", "x-envoy-original-path: /old\r\n");

  EXPECT_EQ(FindOriginalRequest(parsed.head, true).target, "/old");
}

TEST(OriginalRequestTest, AnUntrustedPeerTellsNothing) {
  const Parsed parsed("/v1/auth/own", "X-Original-URI: /a\r\nX-Original-Method: PUT\r\n");

  const OriginalRequest original = FindOriginalRequest(parsed.head, false);

  EXPECT_EQ(original.target, "/own");
  EXPECT_EQ(original.method, "GET");
}

TEST(OriginalRequestTest, TwoStoriesConflict) {
  const Parsed two("/v1/auth", "X-Original-URI: /a\r\nX-Forwarded-Uri: /b\r\n");
  const Parsed repeated("/v1/auth", "X-Original-URI: /a\r\nX-Original-URI: /b\r\n");
  const Parsed no_method("/v1/auth", "X-Original-URI: /a\r\nX-Original-Method: P T\r\n");

  EXPECT_TRUE(FindOriginalRequest(two.head, true).conflicting);
  EXPECT_TRUE(FindOriginalRequest(repeated.head, true).conflicting);
  EXPECT_TRUE(FindOriginalRequest(no_method.head, true).conflicting);
}

// Rules out: a client of Envoy that writes X-Original-URI and is decided as another path.
TEST(OriginalRequestTest, APathBehindThePrefixIsAStoryOfItsOwn) {
  for (const char* lines :
       {"X-Original-URI: /free\r\n", "X-Forwarded-Uri: /free\r\n",
        "X-Envoy-Original-Path: /free\r\n", "X-Original-URI: /own\r\nX-Original-Method: PUT\r\n",
        "X-Forwarded-Method: PUT\r\n", "X-Original-URI:\r\n"}) {
    EXPECT_TRUE(FindOriginalRequest(Parsed("/v1/auth/own", lines).head, true).conflicting) << lines;
  }
  EXPECT_TRUE(
      FindOriginalRequest(Parsed("/v1/auth/", "X-Original-URI: /free\r\n").head, true).conflicting);
  const Parsed same("/v1/auth/own?a", "X-Original-URI: /own?a\r\nX-Original-Method: GET\r\n");
  const OriginalRequest original = FindOriginalRequest(same.head, true);
  EXPECT_FALSE(original.conflicting);
  EXPECT_EQ(original.target, "/own?a");
}

TEST(OriginalRequestTest, DenyStatusIsAskedForOnOurOwnPathOnly) {
  EXPECT_EQ(DenyStatus("/v1/auth?deny=403"), 403);
  EXPECT_EQ(DenyStatus("/v1/auth?a=1&deny=403"), 403);
  EXPECT_EQ(DenyStatus("/v1/auth?deny=200"), 0);
  EXPECT_EQ(DenyStatus("/v1/auth/x?deny=403"), 0);
  EXPECT_EQ(DenyStatus("/v1/auth"), 0);
}

}  // namespace
}  // namespace flowguard::serve
