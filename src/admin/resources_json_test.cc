// SPDX-License-Identifier: Apache-2.0
#include "admin/resources_json.h"

#include <string>

#include <gtest/gtest.h>

namespace flowguard::admin {
namespace {

using namespace std::chrono_literals;

TEST(ResourcesQueryTest, TheBusiestHundredUnlessTold) {
  const auto query = ParseResourcesQuery("");
  ASSERT_TRUE(query.ok());
  EXPECT_EQ(query->most, 100u);
  EXPECT_EQ(query->resource, "");
}

TEST(ResourcesQueryTest, NamesAreDecodedAndHaveAllTheirCallers) {
  const auto query = ParseResourcesQuery("resource=POST+%2Forders%2F%7Bid%7D");
  ASSERT_TRUE(query.ok());
  EXPECT_EQ(query->resource, "POST /orders/{id}");
  EXPECT_EQ(query->most, kResourcesToldMax);
}

TEST(ResourcesQueryTest, LimitsAreWholeNumbersInRange) {
  EXPECT_EQ(ParseResourcesQuery("limit=1000")->most, 1'000u);
  for (const std::string limit : {"0", "1001", "-1", "ten", "", "1e3", "99999999999999999999999"}) {
    const auto query = ParseResourcesQuery("limit=" + limit);
    ASSERT_FALSE(query.ok()) << limit;
    EXPECT_EQ(query.error().message, "limit: found \"" + limit + "\"; allowed 1 to 1000");
  }
  EXPECT_FALSE(ParseResourcesQuery("limit=1&limit=2").ok());
  EXPECT_FALSE(ParseResourcesQuery("resource=a&resource=b").ok());
  EXPECT_FALSE(ParseResourcesQuery("resource=" + std::string(1'025, 'a')).ok());
}

TEST(ResourcesJsonTest, EveryNumberHasItsPlace) {
  engine::StatisticsReport report;
  report.resources_counted = true;
  report.system.cpu = 0.25;
  report.entrance.resource = "(entrance)";
  engine::Traffic& orders = report.resources.emplace_back();
  orders.resource = "POST /orders";
  orders.inflight = 3;
  orders.second.passed = 5;
  orders.second.blocked = 1;
  orders.second.succeeded = 2;
  orders.second.failed = 1;
  orders.second.rt_sum = 30ms;
  orders.second.rt_min = 12'345us;
  orders.second.inflight_max = 4;
  orders.rt_p99 = 18ms;
  engine::Traffic& shop = report.resources.emplace_back();
  shop.resource = "POST /orders";
  shop.origin = "\"shop\"";
  report.left_out = 2;
  report.table = {
      .stats = 2, .forgotten = 4, .forgotten_live = 1, .others = 0, .shards_refused = 0};
  std::string json;
  AppendResources(report, json);
  const std::string nothing =
      R"({"passed":0,"blocked":0,"succeeded":0,"failed":0,"rt_avg_ms":null,"rt_min_ms":null,)"
      R"("inflight_max":0})";
  const std::string expected =
      R"({"statistics":"on","system":{"cpu":0.2500,"load":null},)"
      R"x("entrance":{"resource":"(entrance)","inflight":0,"last_second":)x" +
      nothing + R"(,"last_minute":)" + nothing +
      R"(,"rt_ms":{"p50":null,"p90":null,"p99":null}},)"
      R"("resources":[{"resource":"POST /orders","inflight":3,"last_second":)"
      R"({"passed":5,"blocked":1,"succeeded":2,"failed":1,"rt_avg_ms":15.000,)"
      R"("rt_min_ms":12.345,"inflight_max":4},"last_minute":)" +
      nothing +
      R"(,"rt_ms":{"p50":null,"p90":null,"p99":18.000}},)"
      R"({"resource":"POST /orders","origin":"\"shop\"","inflight":0,"last_second":)" +
      nothing + R"(,"last_minute":)" + nothing +
      R"(}],"left_out":2,"others":null,)"
      R"("table":{"entries":2,"forgotten":4,"forgotten_live":1,"counted_as_others":0}})";
  EXPECT_EQ(json, expected);
}

TEST(ResourcesJsonTest, OffIsSaid) {
  std::string json;
  AppendResources({}, json);
  EXPECT_TRUE(json.starts_with(R"({"statistics":"off")")) << json;
}

}  // namespace
}  // namespace flowguard::admin
