// SPDX-License-Identifier: Apache-2.0
#include "serve/decision_api.h"

#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/decision_api_fixture_test.h"

namespace flowguard::serve {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// --- /v1/check

TEST(DecisionApiTest, CheckAnswersWithTheFiveNumbers) {
  Api api({Limit("orders", 2, seconds(1))});

  const std::string answer = api.client().Post("/v1/check", R"({"resource":"order:create"})");

  EXPECT_EQ(StatusOf(answer), "200");
  EXPECT_EQ(BodyOf(answer), R"({"allowed":true,"verdict":"allow","reason":"none","rule":"orders",)"
                            R"("degraded":false,"limit":2,"remaining":1,"reset_after_ms":500,)"
                            R"("retry_after_ms":0,"wait_ms":0})");
}

TEST(DecisionApiTest, CheckOverTheLimitIsStill200AndSaysWhen) {
  Api api({Limit("orders", 1, seconds(1))});
  api.client().Post("/v1/check", R"({"resource":"x"})");

  const std::string answer = api.client().Post("/v1/check", R"({"resource":"x"})");

  EXPECT_EQ(StatusOf(answer), "200");
  EXPECT_THAT(answer, HasSubstr(R"("allowed":false,"verdict":"refuse","reason":"limit")"));
  EXPECT_THAT(answer, HasSubstr(R"("retry_after_ms":1000)"));
}

TEST(DecisionApiTest, DimensionsMakeTheKey) {
  Rule rule = Limit("per-user", 1, seconds(60));
  rule.by = {"user"};
  Api api({rule});

  const auto check = [&](const std::string& user) {
    return BodyOf(api.client().Post("/v1/check",
                                    R"({"resource":"x","dimensions":{"user":")" + user + R"("}})"));
  };

  EXPECT_THAT(check("a"), StartsWith(R"({"allowed":true)"));
  EXPECT_THAT(check("a"), StartsWith(R"({"allowed":false)"));
  EXPECT_THAT(check("b"), StartsWith(R"({"allowed":true)"));
}

TEST(DecisionApiTest, EachValueOfAListHasAKey) {
  Rule rule = Limit("per-sku", 2, seconds(60));
  rule.by = {"param:sku"};
  Rule access;
  access.name = "lists";
  access.kind = RuleKind::kAccess;
  access.deny = {{"ip", {"2001:db8::5"}}};
  Api api({rule, access});
  const auto check = [&](const std::string& dimensions) {
    return api.client().Post("/v1/check", R"({"resource":"x","dimensions":{)" + dimensions + "}}");
  };

  EXPECT_THAT(check(R"("param:sku":["A","B"])"), HasSubstr(R"({"allowed":true)"));
  EXPECT_THAT(check(R"("query:sku":["A"])"), HasSubstr(R"({"allowed":true)"));
  EXPECT_THAT(check(R"("param:sku":["B","A"])"), HasSubstr(R"({"allowed":false)"));
  EXPECT_THAT(check(R"("param:sku":"B")"), HasSubstr(R"("limit":2,"remaining":0)"));
  EXPECT_THAT(check(R"("ip":["2001:db8::4","2001:db8::6"])"), HasSubstr(R"({"allowed":true)"));
  EXPECT_THAT(check(R"("ip":["2001:db8::4","2001:db8::5"])"), HasSubstr(R"("rule":"lists")"));
  EXPECT_THAT(check(R"("ip":["2001:db8::4","here"])"), HasSubstr("the value is no IP address"));
}

// Rules out an address that is listed and passes, because clients are grouped by /64.
TEST(DecisionApiTest, AccessListsSeeTheWholeAddress) {
  Rule access;
  access.name = "lists";
  access.kind = RuleKind::kAccess;
  access.deny = {{"ip", {"2001:db8::5"}}};
  Api api({access});

  EXPECT_EQ(StatusOf(api.client().Get("/v1/auth", "X-Forwarded-For: 2001:db8::5\r\n")), "403");
  EXPECT_EQ(StatusOf(api.client().Get("/v1/auth", "X-Forwarded-For: 2001:db8::6\r\n")), "200");
  EXPECT_THAT(
      BodyOf(api.client().Post("/v1/check", R"({"path":"/","dimensions":{"ip":"2001:db8::5"}})")),
      StartsWith(R"({"allowed":false)"));
}

TEST(DecisionApiTest, APeekTakesNothing) {
  Api api({Limit("orders", 1, seconds(60))});

  api.client().Post("/v1/check", R"({"resource":"x","cost":1,"peek":true})");

  EXPECT_THAT(api.client().Post("/v1/check", R"({"resource":"x"})"),
              HasSubstr(R"("allowed":true)"));
}

TEST(DecisionApiTest, CostAboveTheCapacityNeverPasses) {
  Api api({Limit("orders", 5, seconds(1))});

  EXPECT_THAT(api.client().Post("/v1/check", R"({"resource":"x","cost":6})"),
              HasSubstr(R"("retry_after_ms":null)"));
}

TEST(DecisionApiTest, ABadQuestionSaysWhereAndWhat) {
  Api api({});

  const std::string answer = api.client().Post("/v1/check", "{\"resource\":\"x\",\n \"costs\":1}");

  EXPECT_EQ(StatusOf(answer), "400");
  EXPECT_THAT(answer, HasSubstr("application/problem+json"));
  EXPECT_THAT(answer, HasSubstr("request:2:2: field \\\"costs\\\" is not known; allowed are "
                                "resource, method, path, dimensions, cost, priority, peek"));
}

TEST(DecisionApiTest, APrioritisedQuestionBorrowsAndIsToldItsWait) {
  Rule rule = Limit("lender", 1, seconds(1));
  rule.algorithm = Algorithm::kSlidingLog;
  rule.borrow = seconds(1);
  Api api({rule});
  EXPECT_EQ(StatusOf(api.client().Post("/v1/check", "{\"resource\":\"x\"}")), "200");

  const std::string usual = api.client().Post("/v1/check", "{\"resource\":\"x\"}");
  const std::string prioritised =
      api.client().Post("/v1/check", "{\"resource\":\"x\",\"priority\":true}");
  const std::string wrong = api.client().Post("/v1/check", "{\"resource\":\"x\",\"priority\":1}");

  EXPECT_THAT(usual, HasSubstr(R"("verdict":"refuse")"));
  EXPECT_THAT(prioritised, HasSubstr(R"("verdict":"wait")"));
  EXPECT_THAT(prioritised, HasSubstr(R"("wait_ms":1000)"));
  EXPECT_THAT(wrong, HasSubstr("priority: "));
  EXPECT_EQ(StatusOf(wrong), "400");
}

TEST(DecisionApiTest, WrongMethodAndPathAreToldApart) {
  Api api({});

  EXPECT_EQ(StatusOf(api.client().Get("/v1/check")), "405");
  EXPECT_EQ(StatusOf(api.client().Get("/v1/chekc")), "404");
}

// --- /v1/auth

TEST(DecisionApiTest, AuthAllowIsExactly200AndEmpty) {
  Api api({PerIp(10)});

  const std::string answer = api.client().Get("/v1/auth/orders");

  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\nContent-Length: 0\r\n\r\n"));
  EXPECT_THAT(answer, Not(HasSubstr("RateLimit")));
}

TEST(DecisionApiTest, AuthAllowShowsTheRateFieldsWhenSet) {
  DecisionApiOptions options = Trusting();
  options.refusal.rate_headers.on_success = true;
  Api api({PerIp(10)}, options);

  EXPECT_THAT(api.client().Get("/v1/auth"), HasSubstr("\r\nRateLimit: \"per-ip\";r=9;t=6\r\n"));
}

TEST(DecisionApiTest, AuthDenyIs429WithRetryAfterAndBody) {
  Api api({PerIp(1)});
  api.client().Get("/v1/auth");

  const std::string answer = api.client().Get("/v1/auth");

  EXPECT_EQ(StatusOf(answer), "429");
  EXPECT_THAT(answer, HasSubstr("\r\nRetry-After: 60\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\nRateLimit: \"per-ip\";r=0;t=60\r\n"));
  EXPECT_THAT(answer, HasSubstr("{\"code\":429,"));
}

TEST(DecisionApiTest, AuthDenyIs403WhereAsked) {
  Api api({PerIp(0)});

  EXPECT_EQ(StatusOf(api.client().Get("/v1/auth?deny=403")), "403");
}

TEST(DecisionApiTest, AuthDecidesTheRequestThatNginxReceived) {
  Rule rule = Limit("orders", 0, seconds(1));
  rule.on.route = "POST /orders/{id}";
  Api api({rule});

  EXPECT_EQ(StatusOf(api.client().Get(
                "/v1/auth", "X-Original-URI: /orders/7?x=1\r\nX-Original-Method: POST\r\n")),
            "429");
  EXPECT_EQ(StatusOf(api.client().Get(
                "/v1/auth", "X-Original-URI: /orders/7?x=1\r\nX-Original-Method: GET\r\n")),
            "200");
}

TEST(DecisionApiTest, AuthDecidesTheRequestThatTraefikOrCaddyReceived) {
  Rule rule = Limit("orders", 0, seconds(1));
  rule.on.route = "POST /orders";
  Api api({rule});

  EXPECT_EQ(StatusOf(api.client().Get("/v1/auth",
                                      "X-Forwarded-Uri: /orders\r\nX-Forwarded-Method: POST\r\n")),
            "429");
}

TEST(DecisionApiTest, AuthLetsPreflightsPassUncountedUnlessToldNotTo) {
  const std::string preflight =
      "X-Original-URI: /a\r\nX-Original-Method: OPTIONS\r\nOrigin: http://o\r\n"
      "Access-Control-Request-Method: GET\r\n";
  Api exempts({Limit("none", 0, seconds(1))});
  EXPECT_EQ(StatusOf(exempts.client().Get("/v1/auth", preflight)), "200");
  EXPECT_EQ(StatusOf(exempts.client().Get("/v1/auth",
                                          "X-Original-URI: /a\r\nX-Original-Method: OPTIONS\r\n")),
            "429");

  DecisionApiOptions options = Trusting();
  options.view.exempt_preflights = false;
  Api counts({Limit("none", 0, seconds(1))}, std::move(options));
  EXPECT_EQ(StatusOf(counts.client().Get("/v1/auth", preflight)), "429");
}

TEST(DecisionApiTest, AuthCountsTheClientBehindTheProxy) {
  Api api({PerIp(1)});

  EXPECT_EQ(StatusOf(api.client().Get("/v1/auth", "X-Forwarded-For: 192.0.2.1\r\n")), "200");
  EXPECT_EQ(StatusOf(api.client().Get("/v1/auth", "X-Forwarded-For: 192.0.2.1\r\n")), "429");
  EXPECT_EQ(StatusOf(api.client().Get("/v1/auth", "X-Forwarded-For: 192.0.2.2\r\n")), "200");
}

TEST(DecisionApiTest, AnUntrustedPeerIsNotBelieved) {
  Rule rule = Limit("orders", 0, seconds(1));
  rule.on.route = "/orders";
  Api api({rule, PerIp(1)}, {});

  EXPECT_EQ(StatusOf(api.client().Get("/v1/auth", "X-Original-URI: /orders\r\n")), "200");
  EXPECT_EQ(StatusOf(api.client().Get("/v1/auth", "X-Forwarded-For: 192.0.2.2\r\n")), "429");
}

TEST(DecisionApiTest, AForgedStoryBesideTheProxysIsRefused) {
  Api api({});

  EXPECT_EQ(StatusOf(api.client().Get("/v1/auth",
                                      "X-Forwarded-Uri: /admin\r\nX-Original-URI: /public\r\n")),
            "400");
}

// Nobody tells when the call ends: a full rule would refuse for ever or never in time.
TEST(DecisionApiTest, AuthPassesByAFullConcurrencyRule) {
  Api api({Concurrency(1)});
  EXPECT_THAT(api.client().Post("/v1/enter", R"({"resource":"r"})"), HasSubstr("\"id\""));

  EXPECT_EQ(StatusOf(api.client().Get("/v1/auth")), "200");
}

TEST(DecisionApiTest, AuthHeldBackByAWaitAnswersWhenItsTurnComes) {
  Rule rule = Limit("slow", 1, seconds(1));
  rule.wait = seconds(5);
  Api api({rule});
  api.client().Get("/v1/auth");

  api.client().Send("GET /v1/auth HTTP/1.1\r\nHost: x\r\n\r\n");

  EXPECT_EQ(api.client().Receive(), "");
  api.Advance(milliseconds(999));
  EXPECT_EQ(api.client().Receive(), "");
  api.Advance(milliseconds(2));
  EXPECT_EQ(StatusOf(api.client().Receive()), "200");
}

TEST(DecisionApiTest, AWaitWhoseClientLeftIsGivenBack) {
  Rule rule = Limit("slow", 1, seconds(1));
  rule.wait = seconds(5);
  Api api({rule});
  api.client().Get("/v1/auth");
  api.client().Send("GET /v1/auth HTTP/1.1\r\nHost: x\r\n\r\n");
  api.client().Receive();

  api.client().Close();
  api.Advance(milliseconds(1'001));
  api.client().Connect();

  EXPECT_EQ(StatusOf(api.client().Get("/v1/auth")), "200");
}

// One unit a second, the next one waits: what a client who left would hold.
Rule OneWaits() {
  Rule rule = Limit("slow", 1, seconds(1));
  rule.wait = seconds(1);
  return rule;
}

constexpr std::string_view kAuth = "GET /v1/auth HTTP/1.1\r\nHost: x\r\n\r\n";
constexpr std::string_view kEnter =
    "POST /v1/enter HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\n\r\n{\"resource\":\"r\"}";

// Rules out: clients that come, wait and leave keeping the place of those who stay.
TEST(DecisionApiTest, AClientThatLeavesGivesItsTurnBackAtOnce) {
  Api api({OneWaits()});
  HandlerClient& client = api.client();
  client.Get("/v1/auth");
  client.Send(kAuth);
  ASSERT_EQ(client.Receive(), "");  // it waits

  client.Connect();  // leaves; somebody else comes
  client.Receive();
  client.Send(kAuth);

  EXPECT_EQ(client.Receive(), "");  // has the turn: without it, a 429
  api.Advance(milliseconds(1'001));
  EXPECT_EQ(StatusOf(client.Receive()), "200");
}

TEST(DecisionApiTest, AnEnterWhoseClientLeavesHoldsNothing) {
  Api api({OneWaits(), Concurrency(5)});
  HandlerClient& client = api.client();
  client.Post("/v1/check", R"({"resource":"r"})");
  client.Send(kEnter);
  ASSERT_EQ(client.Receive(), "");

  client.Connect();
  client.Receive();
  api.Advance(milliseconds(1'001));

  EXPECT_EQ(api.entries().Counters().open, 0u);
  EXPECT_EQ(api.engine().Counters().rules.at(1).inflight, 0);
  EXPECT_THAT(client.Post("/v1/check", R"({"resource":"r"})"), HasSubstr(R"("verdict":"allow")"));
}

// Rules out: a drain that ends by cutting off those whom a rule lets wait.
TEST(DecisionApiTest, ADrainRefusesThoseThatWait) {
  Api api({OneWaits()});
  HandlerClient& client = api.client();
  client.Get("/v1/auth");
  client.Send(kAuth);
  ASSERT_EQ(client.Receive(), "");

  api.Drain();

  const std::string answer = client.Receive();
  EXPECT_EQ(StatusOf(answer), "503");
  EXPECT_THAT(answer, HasSubstr("Connection: close"));
  EXPECT_THAT(answer, HasSubstr("Retry-After: 1"));
}

TEST(DecisionApiTest, ADrainRefusesEntersThatWait) {
  Api api({OneWaits()});
  HandlerClient& client = api.client();
  client.Get("/v1/auth");
  client.Send(kEnter);
  ASSERT_EQ(client.Receive(), "");

  api.Drain();

  const std::string answer = client.Receive();
  EXPECT_EQ(StatusOf(answer), "503");
  EXPECT_THAT(answer, HasSubstr("application/problem+json"));
  EXPECT_EQ(api.entries().Counters().open, 0u);
}

TEST(DecisionApiTest, WhoWouldHaveToWaitInADrainIsRefusedAtOnce) {
  Api api({OneWaits()});
  HandlerClient& client = api.client();
  client.Get("/v1/auth");
  api.Drain();

  EXPECT_EQ(StatusOf(client.Get("/v1/auth")), "503");
}

// Rules out: "get" passing the rules on GET on its way to an upstream that takes it for that.
TEST(DecisionApiTest, AKnownMethodInAnotherCaseIs400) {
  Api api({Limit("orders", 100, seconds(1))});
  const std::string nginx =
      "GET /v1/auth HTTP/1.1\r\nHost: x\r\nX-Original-URI: /a\r\nX-Original-Method: ";

  EXPECT_EQ(StatusOf(api.client().Ask(nginx + "post\r\n\r\n")), "400");
  EXPECT_EQ(StatusOf(api.client().Ask(nginx + "purge\r\n\r\n")), "200") << "its own name";
  EXPECT_EQ(StatusOf(api.client().Post("/v1/check", R"({"path":"/a","method":"Get"})")), "400");
  EXPECT_EQ(StatusOf(api.client().Post("/v1/enter", R"({"path":"/a","method":"Get"})")), "400");
  EXPECT_EQ(StatusOf(api.client().Get("/v1/status?path=/a&method=get")), "400");
}

TEST(DecisionApiTest, AnAddressHasOneKeyHoweverItIsWritten) {
  Api api({PerIp(1)});
  const auto check = [&](const std::string& ip) {
    return api.client().Post("/v1/check", R"({"resource":"x","dimensions":{"ip":")" + ip + "\"}}");
  };

  EXPECT_THAT(check("192.0.2.7"), HasSubstr("\"allowed\":true"));
  for (const char* ip : {" 192.0.2.7", "192.0.2.7 ", "192.0.2.7:443", "::ffff:192.0.2.7"}) {
    EXPECT_THAT(check(ip), HasSubstr("\"allowed\":false")) << ip;
  }
  for (const char* ip : {"", " ", "client", "192.0.2.7, 10.0.0.1", "192.0.2.7:x"}) {
    const std::string answer = check(ip);
    EXPECT_EQ(StatusOf(answer), "400") << ip;
    EXPECT_THAT(answer, HasSubstr("ip: the value is no IP address")) << ip;
  }
}

// --- /v1/status

TEST(DecisionApiTest, StatusTellsWhenTheNextRequestMayCome) {
  Api api({Limit("orders", 1, seconds(2))});
  EXPECT_THAT(BodyOf(api.client().Get("/v1/status")),
              HasSubstr(R"("allowed":true,"limit":1,"remaining":1,"reset_after_ms":0,)"
                        R"("retry_after_ms":0)"));
  api.client().Post("/v1/check", R"({"path":"/"})");

  EXPECT_THAT(BodyOf(api.client().Get("/v1/status")),
              HasSubstr(R"("allowed":false,"limit":1,"remaining":0,"reset_after_ms":2000,)"
                        R"("retry_after_ms":2000)"));
}

TEST(DecisionApiTest, StatusTellsWhatIsLeftWithoutSpendingIt) {
  Rule orders = PerIp(5);
  orders.name = "orders";
  orders.on.route = "POST /orders";
  Api api({PerIp(10), orders});
  api.client().Get("/v1/auth");

  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(BodyOf(api.client().Get("/v1/status?path=/orders&method=POST")),
              R"({"path":"/orders","method":"POST","rules":[)"
              R"({"rule":"per-ip","kind":"limit","allowed":true,"limit":10,"remaining":9,)"
              R"("reset_after_ms":6000,"retry_after_ms":0},)"
              R"({"rule":"orders","kind":"limit","allowed":true,"limit":5,"remaining":5,)"
              R"("reset_after_ms":0,"retry_after_ms":0}]})");
  }
}

TEST(DecisionApiTest, StatusRefusesAPathThatIsNone) {
  Api api({});

  EXPECT_EQ(StatusOf(api.client().Get("/v1/status?path=orders")), "400");
  EXPECT_EQ(StatusOf(api.client().Get("/v1/status?path=/a%2500")), "400");
}

// --- warnings

TEST(DecisionApiTest, ConcurrencyRulesAreWarnedOf) {
  RuleSet set;
  set.rules = {PerIp(1), Concurrency(1)};
  set.rules[1].origin = "rules.yaml:7:5";

  EXPECT_THAT(DecisionApiWarnings(set),
              ::testing::ElementsAre(StartsWith("rules.yaml:7:5: rule \"db\": /v1/auth does not")));
}

TEST(DecisionApiTest, RulesForAResourceAloneAreWarnedOf) {
  RuleSet set;
  set.rules = {PerIp(1), Limit("by-name", 1, seconds(1)), Limit("by-either", 1, seconds(1))};
  set.rules[1].on.resource = "order:create";
  set.rules[2].on.resource = "order:create";
  set.rules[2].on.route = "/orders";

  EXPECT_THAT(ResourceWarnings(set),
              ::testing::ElementsAre(StartsWith("rule \"by-name\": on.resource: meets no")));
}

}  // namespace
}  // namespace flowguard::serve
