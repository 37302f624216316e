// SPDX-License-Identifier: Apache-2.0
#include "admin/admin_api.h"

#include <chrono>
#include <string>

#include <gtest/gtest.h>

namespace flowguard::admin {
namespace {

TEST(AdminApiTest, RulesAsJsonKeepNumbersAndBooleansAndQuoteTheRest) {
  const auto json = YamlToJson(
      "rules:\n"
      "  - name: per-client\n"
      "    limit: 100/s burst 200\n"
      "    buckets: 10\n"
      "    shadow: true\n"
      "    overrides: {\"1001\": 500/s}\n"
      "    by: [ip]\n"
      "  - name: \"7\"\n"
      "    code: 007\n"
      "    empty: []\n"
      "    none: {}\n");

  ASSERT_TRUE(json.ok()) << json.error().message;
  EXPECT_EQ(*json, R"({"rules":[{"name":"per-client","limit":"100/s burst 200","buckets":10,)"
                   R"("shadow":true,"overrides":{"1001":"500/s"},"by":["ip"]},)"
                   R"({"name":"7","code":"007","empty":[],"none":{}}]})");
}

TEST(AdminApiTest, TextThatIsNoYamlIsAnError) {
  EXPECT_FALSE(YamlToJson("a: [").ok());
}

TEST(AdminApiTest, TimesAreUtcInWholeSeconds) {
  EXPECT_EQ(FormatUtc(WallTime(std::chrono::seconds(0))), "1970-01-01T00:00:00Z");
  EXPECT_EQ(FormatUtc(WallTime(std::chrono::seconds(1'709'210'096) + Duration(999'999'999))),
            "2024-02-29T12:34:56Z");
}

}  // namespace
}  // namespace flowguard::admin
