// SPDX-License-Identifier: Apache-2.0
#include "quota/cell_key.h"

#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "rules/compiled_rule.h"
#include "rules/key.h"

namespace flowguard::quota {
namespace {

class CellKeyTest : public ::testing::Test {
 protected:
  CellKeyTest() {
    ip_.name = "ip";
    ip_.kind = rules::DimensionKind::kIp;
    user_.name = "user";
    rule_.rule.name = "per-client";
    rule_.by = {{&ip_}};
    shape_.config.rate = {.limit = 5, .window = std::chrono::minutes(1)};
  }
  // The key of values for the rule's dimensions.
  std::string KeyOf(const std::vector<std::string>& values, const CellKeyStyle& style = {}) {
    rules::KeyBuilder builder;
    builder.Start(1, rules::kSharedKeySeed);
    for (size_t i = 0; i < values.size(); ++i)
      builder.Add(*rule_.by[i].dimension, values[i]);
    engine::RemoteTake take;
    take.rule = &rule_;
    take.key = builder.encoded();
    return std::string(CellKey(take, shape_, style).text());
  }
  static std::string TagOf(const std::string& key) {
    const size_t from = key.find('{');
    return key.substr(from + 1, key.find('}', from) - from - 1);
  }

  rules::Dimension ip_;
  rules::Dimension user_;
  rules::CompiledRule rule_;
  CellShape shape_;
};

TEST_F(CellKeyTest, ReadsLikeWhatItIs) {
  EXPECT_EQ(KeyOf({"192.0.2.7"}), "rl:{ip=192.0.2.7}:per-client:tb");
  shape_.algorithm = Algorithm::kSlidingWindow;
  EXPECT_EQ(KeyOf({"192.0.2.7"}), "rl:{ip=192.0.2.7}:per-client:sw1m");
  shape_.algorithm = Algorithm::kSlidingBuckets;
  EXPECT_EQ(KeyOf({"192.0.2.7"}), "rl:{ip=192.0.2.7}:per-client:sb1mx10");
  rule_.rule.on.resource = "order:create";
  EXPECT_EQ(KeyOf({"192.0.2.7"}, {.tag_by_resource = true}),
            "rl:{order:create}:ip=192.0.2.7:per-client:sb1mx10");
  rule_.by.clear();
  EXPECT_EQ(KeyOf({}), "rl:{per-client}:per-client:sb1mx10");
}

TEST_F(CellKeyTest, EachShardHasItsOwnSlot) {
  EXPECT_EQ(KeyOf({"a"}, {.shard = 3}), "rl:{ip=a#s3}:per-client:tb");
  EXPECT_NE(KeyOf({"a#s3"}), KeyOf({"a"}, {.shard = 3}));
}

TEST_F(CellKeyTest, HostileValuesNeitherCollideNorLeaveTheirPart) {
  constexpr unsigned kSeed = 7;
  std::mt19937 random(kSeed);
  rule_.by = {{&ip_}, {&user_}};
  constexpr std::string_view kHostile = "{}%,=:#!a0\n \xff";
  std::map<std::string, std::vector<std::string>> seen;
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::string> values(2);
    for (std::string& value : values) {
      const size_t size = random() % (random() % 20 == 0 ? 300 : 4);
      for (size_t i = 0; i < size; ++i)
        value += kHostile[random() % kHostile.size()];
    }
    const std::string key = KeyOf(values);
    EXPECT_LT(key.size(), base::kCellKeyBytesMax);
    const auto [entry, fresh] = seen.emplace(key, values);
    EXPECT_TRUE(fresh || entry->second == values) << key << " seed " << kSeed;
    EXPECT_EQ(key, "rl:{" + TagOf(key) + "}:per-client:tb");
    EXPECT_FALSE(TagOf(key).empty());
  }
}

}  // namespace
}  // namespace flowguard::quota
