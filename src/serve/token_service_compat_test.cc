// SPDX-License-Identifier: Apache-2.0
//
// Limits that count as Sentinel's token server does.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "serve/token_service_fixture_test.h"

namespace flowguard::serve {
namespace {

class TokenServiceCompatTest : public TokenServiceFixture {
 protected:
  // So many a second, counted in a window of so many.
  static Rule InSeconds(int64_t count, int seconds_of_window) {
    Rule rule = ClusterRule("orders", 1, count * seconds_of_window);
    rule.rate.window = seconds(seconds_of_window);
    return rule;
  }
  void LoadAlike(std::vector<Rule> rules) {
    TokenNamespace space = Space("default", std::move(rules));
    space.rules.compat = Compat::kSentinel;
    Load({space});
  }
};

TEST_F(TokenServiceCompatTest, TheMeanOfTheWindowIsCompared) {
  LoadAlike({InSeconds(2, 3)});
  EXPECT_EQ(Flows(5, 1), "OK 1, OK 0, OK 0, OK 0, BLOCKED");
  now_ += seconds(3);
  EXPECT_EQ(Flows(5, 1), "OK 1, OK 0, OK 0, OK 0, BLOCKED");
}

TEST_F(TokenServiceCompatTest, SeveralUnitsNeedAsMuchEach) {
  LoadAlike({InSeconds(2, 3)});
  EXPECT_EQ(Flow(1, 3), "BLOCKED");
  EXPECT_EQ(Flow(1, 2), "OK 0");
  EXPECT_EQ(Flow(1, 2), "BLOCKED");
  EXPECT_EQ(Flows(3, 1), "OK 0, OK 0, BLOCKED");
}

TEST_F(TokenServiceCompatTest, ASecondCountsAsEver) {
  LoadAlike({InSeconds(3, 1)});
  EXPECT_EQ(Flows(4, 1), "OK 2, OK 1, OK 0, BLOCKED");
}

TEST_F(TokenServiceCompatTest, ValuesCountSoToo) {
  Rule rule = InSeconds(2, 3);
  rule.by = {"param:sku"};
  rule.overrides = {For(ValueType::kString, "vip", 9)};
  rule.overrides[0].rate.window = seconds(3);
  LoadAlike({rule});
  EXPECT_EQ(Params(5, 1, Text("a")), "OK 1, OK 0, OK 0, OK 0, BLOCKED");
  EXPECT_EQ(Param(1, {Text("b"), Text("c")}), "OK -1");
  EXPECT_EQ(Params(4, 1, Text("b")), "OK 0, OK 0, OK 0, BLOCKED");
  EXPECT_EQ(Params(8, 1, Text("vip")), "OK 2, OK 1, OK 1, OK 1, OK 0, OK 0, OK 0, BLOCKED");
}

TEST_F(TokenServiceCompatTest, WhoWaitsTakesItsUnits) {
  Rule rule = InSeconds(1, 3);
  rule.borrow = seconds(3);
  LoadAlike({rule});
  EXPECT_EQ(Flow(1), "OK 0");
  EXPECT_EQ(Flow(1, 1, true), "SHOULD_WAIT 3000");
  EXPECT_EQ(Flow(1), "BLOCKED");
}

// Other places: as a limit is written.
TEST_F(TokenServiceCompatTest, OtherNamespacesCountAsTheirRulesSay) {
  TokenNamespace alike = Space("alike", {InSeconds(2, 3)});
  alike.rules.compat = Compat::kSentinel;
  Rule rule = InSeconds(2, 3);
  rule.cluster.flow_id = 2;
  Load({alike, Space("default", {rule})});
  EXPECT_EQ(Flows(5, 1), "OK 1, OK 0, OK 0, OK 0, BLOCKED");
  EXPECT_EQ(Flows(7, 2), "OK 5, OK 4, OK 3, OK 2, OK 1, OK 0, BLOCKED");
}

TEST_F(TokenServiceCompatTest, ACountKeepsItsWindowWhileItsRuleStays) {
  LoadAlike({InSeconds(3, 1)});
  EXPECT_EQ(Flow(1, 2), "OK 1");
  LoadAlike({InSeconds(3, 3)});
  EXPECT_EQ(Flows(2, 1), "OK 0, BLOCKED");
  LoadAlike({InSeconds(4, 5)});
  EXPECT_EQ(Flows(2, 1), "OK 0, BLOCKED");
  now_ += seconds(1);
  EXPECT_EQ(Flow(1, 4), "OK 0");
  LoadAlike({});
  LoadAlike({InSeconds(2, 3)});
  EXPECT_EQ(Flows(5, 1), "OK 1, OK 0, OK 0, OK 0, BLOCKED");
}

TEST_F(TokenServiceCompatTest, ACountInAnotherWindowIsBoundedAsOthersAre) {
  LoadAlike({InSeconds(1, 3)});
  LoadAlike({InSeconds(60'000, 1)});
  EXPECT_EQ(Flow(1, 30'000), "OK 3333");
  LoadAlike({});
  LoadAlike({InSeconds(1, 1)});
  Rule rule = ClusterRule("orders", 1, 1);
  rule.rate.window = seconds(10);
  LoadAlike({rule});
  EXPECT_EQ(Flows(2, 1), "OK 0, BLOCKED");
}

TEST_F(TokenServiceCompatTest, ALoadThatFailsChangesNoWindow) {
  LoadAlike({InSeconds(3, 1)});
  TokenNamespace space = Space("default", {ClusterRule("bad", -1, 1)});
  space.rules.compat = Compat::kSentinel;
  EXPECT_NE(TryLoad({space}), "");
  LoadAlike({InSeconds(3, 3)});
  EXPECT_EQ(Flows(4, 1), "OK 2, OK 1, OK 0, BLOCKED");
}

}  // namespace
}  // namespace flowguard::serve
