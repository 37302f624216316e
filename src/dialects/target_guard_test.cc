// SPDX-License-Identifier: Apache-2.0
//
// What a rule file says of targets, carried out by a Guard.
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "flowguard/guard.h"
#include "flowguard/rules_text.h"

#include "testing/manual_clock.h"
#include "testing/matchers.h"

namespace flowguard {
namespace {

using std::chrono::seconds;
using testing::IsAllowed;
using testing::IsRefusedBy;

class TargetGuardTest : public ::testing::Test {
 protected:
  static RuleSet Rules(std::string_view yaml) {
    const auto parsed = ParseRules(yaml, "rules.yaml");
    EXPECT_TRUE(parsed.ok()) << parsed.error().message;
    return parsed.ok() ? parsed->rules : RuleSet{};
  }
  void Make(std::string_view yaml) {
    GuardOptions options;
    options.clock = &clock_;
    auto guard = Guard::Create(Rules(yaml), options);
    ASSERT_TRUE(guard.ok()) << guard.error().message;
    guard_ = *std::move(guard);
  }
  Decision Check(std::string_view resource, std::string_view origin = "nobody",
                 std::string_view ip = "192.0.2.7") {
    const std::array values = {DimensionValue{"origin", origin}, DimensionValue{"ip", ip}};
    return guard_->Check({.resource = resource, .dimensions = values});
  }
  bool Call(std::string_view resource, Outcome outcome) {
    Entry entry = guard_->Enter({.resource = resource});
    if (!entry) return false;
    entry.Settle(outcome);
    return true;
  }

  testing::ManualClock clock_;
  std::unique_ptr<Guard> guard_;
};

TEST_F(TargetGuardTest, ConditionsExpressionsAndRelationsOfAFileHold) {
  Make(R"yaml(
rules:
  - name: partners
    on: {resource: "order:create", only: {origin: [app1, "app2-*"]}, except: {ip: ["10.0.0.0/8"]}}
    limit: 1/h
  - {name: reports, on: {resource_regex: "report:(daily|monthly)"}, limit: 1/h}
  - {name: reads, on: {resource: "db:read"}, relate_to: "db:write", limit: 2/h}
)yaml");

  EXPECT_THAT(Check("order:create", "app1"), IsAllowed());
  EXPECT_THAT(Check("order:create", "app2-eu"), IsRefusedBy("partners", Reason::kLimit));
  EXPECT_THAT(Check("order:create", "app3"), IsAllowed());
  EXPECT_THAT(Check("order:create", "app1", "10.7.0.1"), IsAllowed());
  EXPECT_THAT(Check("report:daily"), IsAllowed());
  EXPECT_THAT(Check("report:monthly"), IsRefusedBy("reports", Reason::kLimit));
  EXPECT_THAT(Check("report:yearly"), IsAllowed());
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Check("db:read").allowed(), i < 2) << i;
    EXPECT_THAT(Check("db:write"), IsAllowed());
  }
}

TEST_F(TargetGuardTest, AReloadChangesWhoIsMeantAndKeepsTheCount) {
  Make("rules: [{name: a, on: {only: {origin: [app1]}}, limit: 2/h}]");
  EXPECT_THAT(Check("r", "app1"), IsAllowed());

  const auto reloaded = guard_->Reload(
      Rules("rules: [{name: a, on: {resource_regex: 'r+', only: {origin: [app2]}}, limit: 2/h}]"));

  ASSERT_TRUE(reloaded.ok()) << reloaded.error().message;
  EXPECT_THAT(Check("r", "app2"), IsAllowed());
  EXPECT_THAT(Check("r", "app1"), IsAllowed());
  EXPECT_THAT(Check("rr", "app2"), IsRefusedBy("a", Reason::kLimit));
  EXPECT_THAT(Check("s", "app2"), IsAllowed());
}

// examples/default-breakers.yaml
TEST_F(TargetGuardTest, DefaultBreakersCutOffEachResourceButThoseLeftOut) {
  std::ifstream stream(std::filesystem::path(FLOWGUARD_SOURCE_DIR) / "examples" /
                       "default-breakers.yaml");
  ASSERT_TRUE(stream.is_open());
  Make(std::string(std::istreambuf_iterator<char>(stream), {}));
  for (int i = 0; i < 10; ++i) {
    for (const char* resource : {"order:create", "health", "internal:gc", "sms:send"})
      EXPECT_TRUE(Call(resource, Outcome::kError)) << resource << i;
    EXPECT_TRUE(Call("order:pay", Outcome::kOk));
  }

  EXPECT_THAT(Check("order:create"), IsRefusedBy("default-breaker", Reason::kBreaker));
  for (const char* resource : {"order:pay", "health", "internal:gc", "sms:send"})
    EXPECT_THAT(Check(resource), IsAllowed()) << resource;
  clock_.Advance(seconds(5));
  EXPECT_TRUE(Call("order:create", Outcome::kOk)) << "a probe";
  EXPECT_THAT(Check("order:create"), IsAllowed());
}

}  // namespace
}  // namespace flowguard
