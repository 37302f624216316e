// SPDX-License-Identifier: Apache-2.0
#include "flowguard/protect.h"

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/engine.h"
#include "testing/manual_clock.h"
#include "testing/rules.h"

namespace flowguard {
namespace {

using std::chrono::seconds;

struct Order {
  std::string tenant;
  int64_t items = 1;
};

class ProtectTest : public ::testing::Test {
 protected:
  std::unique_ptr<Guard> Make(std::vector<Rule> rules) {
    GuardOptions options;
    options.clock = &clock_;
    auto guard = Guard::Create({.rules = std::move(rules), .dimensions = {}}, options);
    EXPECT_TRUE(guard.ok()) << guard.error().message;
    return *std::move(guard);
  }
  static Rule PerTenant(int64_t limit) {
    Rule rule = testing::LimitRule("order", limit, seconds(1));
    rule.on.resource = "order:create";
    rule.by = {"tenant"};
    return rule;
  }
  testing::ManualClock clock_;
};

TEST_F(ProtectTest, RunsTheFunctionUntilTheLimitAndThenTheBlockHandler) {
  auto guard = Make({PerTenant(1)});
  auto create = Protect(*guard, "order:create")
                    .By("tenant", [](const Order& o) { return o.tenant; })
                    .OnBlock([](const Decision& d, const Order&) {
                      return "busy " + std::to_string(d.retry_after.count());
                    })
                    .Wrap([](const Order& o) { return "made for " + o.tenant; });

  EXPECT_EQ(create(Order{"acme"}), "made for acme");
  EXPECT_EQ(create(Order{"acme"}), "busy 1000000000");
  EXPECT_EQ(create(Order{"globex"}), "made for globex");
}

TEST_F(ProtectTest, WithoutHandlersARefusedCallIsAnEmptyOptional) {
  auto guard = Make({PerTenant(1)});
  auto create = Protect(*guard, "order:create")
                    .By("tenant", [](const Order& o) { return o.tenant; })
                    .Wrap([](const Order& o) { return o.items; });

  EXPECT_EQ(create(Order{"acme", 7}), std::optional<int64_t>(7));
  EXPECT_EQ(create(Order{"acme", 7}), std::nullopt);
}

TEST_F(ProtectTest, AScheduledJobWithoutArgumentsOrResultSaysWhetherItRan) {
  Rule rule = testing::LimitRule("job", 1, seconds(60));
  rule.on.resource = "report:nightly";
  auto guard = Make({rule});
  int runs = 0;
  auto job = Protect(*guard, "report:nightly").Wrap([&runs] { ++runs; });

  EXPECT_TRUE(job());
  EXPECT_FALSE(job());
  EXPECT_EQ(runs, 1);
}

TEST_F(ProtectTest, ArgumentsAndFunctionsThatOnlyMoveGoThrough) {
  auto guard = Make({PerTenant(1)});
  auto prefix = std::make_unique<std::string>("made for ");
  auto create = Protect(*guard, "order:create")
                    .By("tenant", [](const std::unique_ptr<Order>& o) { return o->tenant; })
                    .OnBlock([](const Decision&, std::unique_ptr<Order> o) {
                      return "too many of " + o->tenant;
                    })
                    .Wrap([prefix = std::move(prefix)](std::unique_ptr<Order> o) {
                      return *prefix + o->tenant;
                    });

  EXPECT_EQ(create(std::make_unique<Order>(Order{"acme"})), "made for acme");
  EXPECT_EQ(create(std::make_unique<Order>(Order{"acme"})), "too many of acme");
}

TEST_F(ProtectTest, CostComesFromTheArguments) {
  auto guard = Make({PerTenant(10)});
  auto create = Protect(*guard, "order:create")
                    .By("tenant", [](const Order& o) { return o.tenant; })
                    .Cost([](const Order& o) { return o.items; })
                    .Wrap([](const Order& o) { return o.items; });

  EXPECT_TRUE(create(Order{"acme", 8}));
  EXPECT_FALSE(create(Order{"acme", 3}));
  EXPECT_TRUE(create(Order{"acme", 2}));
}

TEST_F(ProtectTest, SpentUnitsAreSettledFromTheResult) {
  auto guard = Make({PerTenant(10)});
  auto create = Protect(*guard, "order:create")
                    .By("tenant", [](const Order& o) { return o.tenant; })
                    .Cost([](const Order&) { return 10; })
                    .Spent([](int64_t tokens) { return tokens; })
                    .Wrap([](const Order& o) { return o.items; });

  EXPECT_TRUE(create(Order{"acme", 4}));

  const std::array dimensions = {DimensionValue{"tenant", "acme"}};
  EXPECT_EQ(guard->Peek({.resource = "order:create", .dimensions = dimensions}).remaining, 6);
}

TEST_F(ProtectTest, ConcurrencyIsHeldForTheCallAndReleasedByAnException) {
  Rule rule = testing::ConcurrencyRule("stock", 1);
  rule.on.resource = "db:stock";
  auto guard = Make({rule});
  std::optional<bool> inner;
  auto read = Protect(*guard, "db:stock").Wrap([] { return 1; });
  auto outer = Protect(*guard, "db:stock").Wrap([&] {
    inner = read().has_value();
    throw std::runtime_error("broken");
    return 1;
  });

  EXPECT_THROW(outer(), std::runtime_error);

  EXPECT_EQ(inner, false) << "the outer call holds the only slot";
  EXPECT_TRUE(read().has_value()) << "the exception gave it back";
  EXPECT_EQ(guard->engine().Counters().rules[0].failed_after, 1u);
}

TEST_F(ProtectTest, FallbackAnswersDegradedCalls) {
  Rule rule = PerTenant(1);
  rule.degrade.enabled = true;
  auto guard = Make({rule});
  auto view = Protect(*guard, "order:create")
                  .By("tenant", [](const Order& o) { return std::string_view(o.tenant); })
                  .Fallback([](const Order&) { return std::string("cached"); })
                  .Wrap([](const Order&) { return std::string("fresh"); });

  EXPECT_EQ(view(Order{"acme"}), "fresh");
  EXPECT_EQ(view(Order{"acme"}), "cached");
}

TEST_F(ProtectTest, AResolverWithoutAnAnswerLeavesTheDimensionMissing) {
  auto guard = Make({PerTenant(1)});
  auto create =
      Protect(*guard, "order:create")
          .By("tenant",
              [](const Order& o) {
                return o.tenant.empty() ? std::nullopt : std::optional<std::string>(o.tenant);
              })
          .Wrap([](const Order&) { return 1; });

  EXPECT_TRUE(create(Order{""}));
  EXPECT_FALSE(create(Order{""})) << "those without a tenant share one cell";
  EXPECT_TRUE(create(Order{"acme"}));
}

TEST_F(ProtectTest, ARuleMayBeDeclaredOnTheSpotAndHoldsOverReloads) {
  auto guard = Make({});
  auto protector = Protect(*guard, testing::LimitRule("sms:send", 1, seconds(1)));
  ASSERT_TRUE(protector.ok()) << protector.error().message;
  auto send = protector->Wrap([] { return 1; });
  EXPECT_TRUE(send());

  ASSERT_TRUE(guard->Reload({}).ok());

  EXPECT_FALSE(send());
}

TEST_F(ProtectTest, ALoadedRuleWinsOverADeclaredOneOfItsName) {
  Rule loaded = testing::LimitRule("sms:send", 3, seconds(1));
  loaded.on.resource = "sms:send";
  auto guard = Make({loaded});
  auto protector = Protect(*guard, testing::LimitRule("sms:send", 1, seconds(1)));
  ASSERT_TRUE(protector.ok()) << protector.error().message;
  auto send = protector->Wrap([] { return 1; });

  EXPECT_TRUE(send());
  EXPECT_TRUE(send());
  EXPECT_TRUE(send());
  EXPECT_FALSE(send());
}

TEST_F(ProtectTest, ABadDeclaredRuleIsAnErrorAndChangesNothing) {
  auto guard = Make({PerTenant(1)});

  EXPECT_FALSE(Protect(*guard, testing::LimitRule("bad", -1, seconds(1))).ok());
  ASSERT_TRUE(guard->Reload({}).ok());
}

}  // namespace
}  // namespace flowguard
