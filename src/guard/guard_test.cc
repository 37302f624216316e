// SPDX-License-Identifier: Apache-2.0
#include "flowguard/guard.h"

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "testing/manual_clock.h"
#include "testing/matchers.h"
#include "testing/rules.h"

namespace flowguard {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::IsAllowed;
using testing::IsRefusedBy;
using testing::LimitRule;
using testing::Waits;

class GuardTest : public ::testing::Test {
 protected:
  std::unique_ptr<Guard> Make(std::vector<Rule> rules) {
    RuleSet set;
    set.rules = std::move(rules);
    GuardOptions options;
    options.clock = &clock_;
    auto guard = Guard::Create(std::move(set), options);
    EXPECT_TRUE(guard.ok()) << guard.error().message;
    return *std::move(guard);
  }
  static constexpr Request kRequest{.resource = "r"};
  testing::ManualClock clock_;
};

TEST_F(GuardTest, ChecksByDimensionsOfTheRequest) {
  Rule rule = LimitRule("per-user", 1, seconds(1));
  rule.by = {"user"};
  auto guard = Make({rule});
  const std::array ann = {DimensionValue{"ip", "192.0.2.7"}, DimensionValue{"user", "ann"}};
  const std::array bob = {DimensionValue{"user", "bob"}};

  EXPECT_THAT(guard->Check({.resource = "r", .dimensions = ann}), IsAllowed());
  EXPECT_THAT(guard->Check({.resource = "r", .dimensions = ann}),
              IsRefusedBy("per-user", Reason::kLimit));
  EXPECT_THAT(guard->Check({.resource = "r", .dimensions = bob}), IsAllowed());
}

TEST_F(GuardTest, AnEmptyDimensionIsNotAMissingOne) {
  Rule rule = LimitRule("per-user", 1, seconds(1));
  rule.by = {"user"};
  auto guard = Make({rule});
  const std::array empty = {DimensionValue{"user", ""}};

  EXPECT_TRUE(guard->Check({.resource = "r", .dimensions = empty}).allowed());
  EXPECT_TRUE(guard->Check(kRequest).allowed());
}

TEST_F(GuardTest, DeclaredDimensionsAreFoundUnderTheirSourceToo) {
  Rule rule = LimitRule("per-tenant", 1, seconds(1));
  rule.by = {"tenant"};
  RuleSet set;
  set.rules = {rule};
  DimensionSpec tenant;
  tenant.name = "tenant";
  tenant.source = "header:x-tenant-id";
  set.dimensions = {tenant};
  GuardOptions options;
  options.clock = &clock_;
  auto guard = Guard::Create(set, options);
  ASSERT_TRUE(guard.ok()) << guard.error().message;
  const std::array by_name = {DimensionValue{"tenant", "acme"}};
  const std::array by_source = {DimensionValue{"header:X-Tenant-Id", "acme"}};

  EXPECT_TRUE((*guard)->Check({.resource = "r", .dimensions = by_name}).allowed());
  EXPECT_FALSE((*guard)->Check({.resource = "r", .dimensions = by_source}).allowed());
}

TEST_F(GuardTest, ADeclaredParameterIsFoundUnderEachSpellingOfItsSource) {
  Rule rule = LimitRule("per-product", 1, seconds(1));
  rule.by = {"product"};
  RuleSet set;
  set.rules = {rule};
  DimensionSpec product;
  product.name = "product";
  product.source = "param:sku";
  set.dimensions = {product};
  GuardOptions options;
  options.clock = &clock_;
  auto guard = Guard::Create(set, options);
  ASSERT_TRUE(guard.ok()) << guard.error().message;

  for (const char* name : {"product", "param:sku", "query:sku"}) {
    const std::array given = {DimensionValue{name, name}};
    EXPECT_TRUE((*guard)->Check({.resource = "r", .dimensions = given}).allowed()) << name;
    EXPECT_FALSE((*guard)->Check({.resource = "r", .dimensions = given}).allowed()) << name;
    const std::array other = {DimensionValue{name, "other"}};
    EXPECT_EQ((*guard)->Peek({.resource = "r", .dimensions = other}).remaining, 1) << name;
  }
}

TEST_F(GuardTest, ANameThatStandsSeveralTimesIsAList) {
  Rule rule = LimitRule("per-sku", 5, seconds(1));
  rule.by = {"param:sku"};
  auto guard = Make({rule});
  const auto left = [&](std::string_view sku) {
    const std::array given = {DimensionValue{"param:sku", sku}};
    return guard->Peek({.resource = "r", .dimensions = given}).remaining;
  };
  // Names with the same ends and length are others, and so is another name for the source.
  const std::array given = {DimensionValue{"query:sku", "C"}, DimensionValue{"param:sku", "A"},
                            DimensionValue{"param:snu", "D"}, DimensionValue{"param:sku", "B"},
                            DimensionValue{"param:sku", "A"}, DimensionValue{"user", "ann"}};

  EXPECT_EQ(guard->Check({.resource = "r", .dimensions = given}).remaining, 3);

  EXPECT_EQ(left("A"), 3);
  EXPECT_EQ(left("B"), 4);
  for (const char* other : {"C", "D", "ann"})
    EXPECT_EQ(left(other), 5) << other;
}

// Those that need no list are found to have one or none, however many there are.
TEST_F(GuardTest, DimensionsThatDifferAreNoList) {
  Rule rule = LimitRule("per-user", 5, seconds(1));
  rule.by = {"user"};
  auto guard = Make({rule});
  std::vector<std::string> names;
  for (int i = 0; i < 200; ++i)
    names.push_back("name " + std::to_string(i));
  std::vector<DimensionValue> given = {{"user", "ann"}};
  for (const std::string& name : names)
    given.push_back({name, "value"});

  EXPECT_EQ(guard->Check({.resource = "r", .dimensions = given}).remaining, 4);
}

TEST_F(GuardTest, CheckForSleepsOutShortWaitsAndRefusesLongOnes) {
  Rule rule = LimitRule("slow", 1, seconds(1));
  rule.wait = seconds(10);
  auto guard = Make({rule});
  EXPECT_THAT(guard->Check(kRequest), IsAllowed());
  const Instant start = clock_.Now();

  EXPECT_THAT(guard->CheckFor(kRequest, milliseconds(500)), IsRefusedBy("slow", Reason::kLimit));
  EXPECT_EQ(clock_.Now(), start);
  EXPECT_THAT(guard->CheckFor(kRequest, seconds(1)), IsAllowed());
  EXPECT_EQ(clock_.Now(), start + seconds(1));
  EXPECT_THAT(guard->Check(kRequest), Waits(seconds(1)));
}

TEST_F(GuardTest, CheckAtDecidesAtTheGivenTime) {
  auto guard = Make({LimitRule("a", 1, seconds(1))});
  const Instant now = clock_.Now();

  EXPECT_TRUE(guard->CheckAt(now, kRequest).allowed());
  EXPECT_FALSE(guard->CheckAt(now, kRequest).allowed());
  EXPECT_TRUE(guard->CheckAt(now + seconds(1), kRequest).allowed());
}

// A decision that reads the clock twice may straddle the end of a window and disagree
// with itself.
TEST_F(GuardTest, ReadsTheClockOnceADecision) {
  class CountingClock final : public Clock {
   public:
    [[nodiscard]] Instant Now() const noexcept override {
      ++reads;
      return Instant(seconds(1000) + milliseconds(reads));
    }
    [[nodiscard]] WallTime WallNow() const noexcept override { return {}; }
    void SleepUntil(Instant /*until*/) const noexcept override {}
    mutable int reads = 0;
  };
  const CountingClock clock;
  RuleSet set;
  set.rules = {LimitRule("a", 1, seconds(1)), LimitRule("b", 1, seconds(2))};
  GuardOptions options;
  options.clock = &clock;
  auto guard = Guard::Create(std::move(set), options).value();

  for (int decisions = 0; decisions < 3; ++decisions) {
    const int before = clock.reads;
    static_cast<void>(guard->Check(kRequest));
    EXPECT_EQ(clock.reads, before + 1);
  }
}

TEST_F(GuardTest, CheckAsyncOfLocalRulesAnswersBeforeItReturns) {
  auto guard = Make({LimitRule("a", 1, seconds(1))});
  std::optional<bool> allowed;

  guard->CheckAsync(kRequest, [&allowed](const Decision& d) { allowed = d.allowed(); });

  EXPECT_EQ(allowed, true);
}

TEST_F(GuardTest, WithoutAStoreSharedRulesAreRefusedAtLoad) {
  RuleSet set;
  set.rules = {testing::SharedRule("shared", 1, seconds(1))};

  const auto guard = Guard::Create(set);

  ASSERT_FALSE(guard.ok());
  EXPECT_NE(guard.error().message.find("shared"), std::string::npos) << guard.error().message;
}

TEST_F(GuardTest, RefusesAbsurdOptions) {
  GuardOptions options;
  options.cell_capacity = 1;
  EXPECT_FALSE(Guard::Create({}, options).ok());
  options = {};
  options.store_deadline = Duration::zero();
  EXPECT_FALSE(Guard::Create({}, options).ok());
}

TEST_F(GuardTest, RuleTextsOfOldDecisionsStayReadableOverReloads) {
  auto guard = Make({LimitRule("old", 1, seconds(1))});
  const Decision decision = guard->Check(kRequest);
  for (int i = 0; i < 50; ++i)
    ASSERT_TRUE(guard->Reload({}).ok());

  EXPECT_EQ(decision.rule->name, "old");
}

}  // namespace
}  // namespace flowguard
