// SPDX-License-Identifier: Apache-2.0
#include "serve/request_view.h"

#include <string>

#include <gtest/gtest.h>

#include "rules/dimension.h"

namespace flowguard::serve {
namespace {

using rules::Dimension;
using rules::DimensionKind;

Dimension Of(DimensionKind kind, std::string argument = "", std::string name = "") {
  Dimension dimension;
  dimension.kind = kind;
  dimension.argument = std::move(argument);
  dimension.name = std::move(name);
  return dimension;
}

// A request from 192.0.2.7 with the text that the view points into.
class Request {
 public:
  explicit Request(const std::string& target, const std::string& lines = "",
                   RequestViewOptions options = {}, std::string_view peer = "192.0.2.7")
      : options_(std::move(options)),
        text_("GET " + target + " HTTP/1.1\r\nHost: x\r\n" + lines + "\r\n") {
    EXPECT_EQ(wire::ParseRequestHead(text_, 0, head_), wire::ParseStatus::kDone);
    status_ = view_.Assign(head_, *http::IpAddress::Parse(peer));
  }

  // "(missing)" for a value that is not there.
  std::string Value(const Dimension& dimension) {
    char scratch[128];
    const std::string_view value = view_.Value(dimension, scratch);
    return value.data() == nullptr ? "(missing)" : std::string(value);
  }

  int status() const { return status_; }
  const HttpRequestView& view() const { return view_; }

 private:
  RequestViewOptions options_;
  std::string text_;
  wire::RequestHead head_;
  HttpRequestView view_{options_};
  int status_ = 0;
};

RequestViewOptions Trusting(std::string block) {
  RequestViewOptions options;
  const std::string blocks[] = {std::move(block)};
  options.client.trusted = http::IpBlocks::Create(blocks).value();
  return options;
}

TEST(RequestViewTest, PathIsNormalisedAndWithoutQuery) {
  EXPECT_EQ(Request("//Orders/./7/?x=1").view().path, "/Orders/7");
}

TEST(RequestViewTest, AnUnreadablePathIs400) {
  EXPECT_EQ(Request("/a%zz").status(), 400);
  EXPECT_EQ(Request("/a%00").status(), 400);
  EXPECT_EQ(Request("/login#x").status(), 400);
  EXPECT_EQ(Request("/x/..%2flogin").status(), 400);
}

TEST(RequestViewTest, TheClientIsThePeerUnlessItIsTrusted) {
  const std::string forwarded = "X-Forwarded-For: 198.51.100.1\r\n";
  const Dimension ip = Of(DimensionKind::kIp);

  EXPECT_EQ(Request("/", forwarded).Value(ip), "192.0.2.7");
  EXPECT_EQ(Request("/", forwarded, Trusting("192.0.2.0/24")).Value(ip), "198.51.100.1");
}

TEST(RequestViewTest, IPv6ClientsAreCutToTheirPrefix) {
  EXPECT_EQ(Request("/", "", {}, "2001:db8:1:2:3::4").Value(Of(DimensionKind::kIp)),
            "2001:db8:1:2::/64");
}

TEST(RequestViewTest, ListsSeeTheWholeAddress) {
  char scratch[128];
  const Request request("/", "", {}, "2001:db8:1:2:3::4");
  EXPECT_EQ(request.view().WholeAddress(Of(DimensionKind::kIp), scratch), "2001:db8:1:2:3::4");

  const DimensionValue given[] = {{"ip", "2001:db8:1:2:3::4"}};
  const NamedRequestView named(given, 64);
  EXPECT_EQ(named.Value(Of(DimensionKind::kIp), scratch), "2001:db8:1:2::/64");
  EXPECT_EQ(named.WholeAddress(Of(DimensionKind::kIp), scratch), "2001:db8:1:2:3::4");
}

TEST(RequestViewTest, HeaderCookieQueryAndParameter) {
  Request request("/?sku=a%20b&t=1", "X-Tenant-Id: acme\r\nCookie: a=1; sid=s7\r\n");

  EXPECT_EQ(request.Value(Of(DimensionKind::kHeader, "x-tenant-id")), "acme");
  EXPECT_EQ(request.Value(Of(DimensionKind::kCookie, "sid")), "s7");
  EXPECT_EQ(request.Value(Of(DimensionKind::kQuery, "t")), "1");
  EXPECT_EQ(request.Value(Of(DimensionKind::kParam, "sku")), "a b");
  EXPECT_FALSE(request.view().ambiguous());
}

TEST(RequestViewTest, EmptyIsNotMissing) {
  Request request("/?t=", "X-Empty:\r\n");

  EXPECT_EQ(request.Value(Of(DimensionKind::kHeader, "x-empty")), "");
  EXPECT_EQ(request.Value(Of(DimensionKind::kQuery, "t")), "");
  EXPECT_EQ(request.Value(Of(DimensionKind::kHeader, "x-other")), "(missing)");
  EXPECT_EQ(request.Value(Of(DimensionKind::kQuery, "u")), "(missing)");
}

// One value for the limiter and another for the upstream.
TEST(RequestViewTest, AHeaderWithTwoValuesIsAmbiguous) {
  Request request("/", "X-Key: a\r\nX-Key: b\r\n");

  EXPECT_EQ(request.Value(Of(DimensionKind::kHeader, "x-key")), "(missing)");
  EXPECT_TRUE(request.view().ambiguous());
  EXPECT_EQ(request.view().ambiguity(),
            "a header that a rule reads is repeated with different values");
}

TEST(RequestViewTest, AParameterOrCookieWithTwoValuesIsAmbiguous) {
  Request parameter("/?id=0&id=victim");
  Request cookie("/", "Cookie: sid=0; sid=victim\r\n");
  Request equal("/?id=a&id=a", "Cookie: sid=b; sid=b\r\n");

  EXPECT_EQ(parameter.Value(Of(DimensionKind::kQuery, "id")), "(missing)");
  EXPECT_EQ(parameter.view().ambiguity(),
            "a query parameter that a rule reads is repeated with different values");
  EXPECT_EQ(cookie.Value(Of(DimensionKind::kCookie, "sid")), "(missing)");
  EXPECT_EQ(cookie.view().ambiguity(),
            "a cookie that a rule reads is repeated with different values");
  EXPECT_EQ(equal.Value(Of(DimensionKind::kQuery, "id")), "a");
  EXPECT_EQ(equal.Value(Of(DimensionKind::kCookie, "sid")), "b");
  EXPECT_FALSE(equal.view().ambiguous());
}

TEST(RequestViewTest, ALongQueryValueIsWholeAndNotMissing) {
  const std::string value(5'000, 'v');
  Request request("/?k=" + value + "&l=" + value);

  EXPECT_EQ(request.Value(Of(DimensionKind::kQuery, "k")), value);
  EXPECT_EQ(request.Value(Of(DimensionKind::kQuery, "l")), value);
  EXPECT_FALSE(request.view().ambiguous());
}

TEST(RequestViewTest, ExemptRoutesAreSeen) {
  RequestViewOptions options;
  const std::string routes[] = {"/healthz", "GET /static/**"};
  options.exempt = ExemptRoutes::Create(routes).value();

  EXPECT_TRUE(Request("/healthz", "", options).view().exempt());
  EXPECT_TRUE(Request("/static/a/b.css", "", options).view().exempt());
  EXPECT_FALSE(Request("/orders", "", options).view().exempt());
  EXPECT_FALSE(Request("/healthz").view().exempt());
}

TEST(RequestViewTest, ABadExemptRouteIsNamed) {
  const std::string routes[] = {"healthz"};

  const auto exempt = ExemptRoutes::Create(routes);

  ASSERT_FALSE(exempt.ok());
  EXPECT_NE(exempt.error().message.find("exempt: \"healthz\""), std::string::npos);
}

TEST(RequestViewTest, NamedDimensionsAreFoundByNameOrSource) {
  const DimensionValue given[] = {
      {"user", "u1"}, {"header:X-Tenant", "acme"}, {"ip", "2001:db8::1"}, {"param:sku", "7"}};
  const NamedRequestView view(given, 64);
  char scratch[128];

  EXPECT_EQ(view.Value(Of(DimensionKind::kNamed, "", "user"), scratch), "u1");
  EXPECT_EQ(view.Value(Of(DimensionKind::kHeader, "x-tenant", "tenant"), scratch), "acme");
  EXPECT_EQ(view.Value(Of(DimensionKind::kIp, "", "ip"), scratch), "2001:db8::/64");
  EXPECT_EQ(view.Value(Of(DimensionKind::kParam, "sku", "param:sku"), scratch), "7");
  EXPECT_EQ(view.Value(Of(DimensionKind::kNamed, "", "other"), scratch).data(), nullptr);
  EXPECT_FALSE(view.lists);
}

TEST(RequestViewTest, ANamedDimensionThatStandsSeveralTimesIsAList) {
  const DimensionValue given[] = {{"query:sku", "7"},           {"ip", "2001:db8::1"},
                                  {"query:sku", "8"},           {"user", "u1"},
                                  {"ip", "[2001:db8:1::2]:80"}, {"param:sku", "9"}};
  const NamedRequestView view(given, 64);
  const auto sku = Of(DimensionKind::kParam, "sku", "param:sku");
  const auto ip = Of(DimensionKind::kIp, "", "ip");
  char scratch[128];

  EXPECT_TRUE(view.lists);
  ASSERT_EQ(view.ValueCount(sku), 2u) << "of the name that was found first";
  EXPECT_EQ(view.Value(sku, scratch), "7");
  EXPECT_EQ(view.ValueAt(sku, 0, scratch), "7");
  EXPECT_EQ(view.ValueAt(sku, 1, scratch), "8");
  ASSERT_EQ(view.ValueCount(ip), 2u);
  EXPECT_EQ(view.ValueAt(ip, 1, scratch), "2001:db8:1::/64");
  EXPECT_EQ(view.WholeAddressAt(ip, 1, scratch), "2001:db8:1::2");
  EXPECT_EQ(view.ValueCount(Of(DimensionKind::kNamed, "", "user")), 1u);
  EXPECT_EQ(view.ValueCount(Of(DimensionKind::kNamed, "", "other")), 1u);
}

}  // namespace
}  // namespace flowguard::serve
