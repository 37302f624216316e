// SPDX-License-Identifier: Apache-2.0
#include "quota/cell_key.h"

#include <map>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "engine/attempt.h"
#include "engine/engine.h"
#include "quota/redis/slot.h"
#include "rules/compiled_rule.h"
#include "rules/key.h"
#include "testing/fake_request.h"
#include "testing/rules.h"

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

TEST_F(CellKeyTest, IdentitiesSpreadEvenlyOverACluster) {
  constexpr int kIdentities = 10'000;
  constexpr int kMasters = 3;
  int counts[kMasters] = {};
  for (int i = 0; i < kIdentities; ++i) {
    const std::string key =
        KeyOf({"192.0." + std::to_string(i / 250) + "." + std::to_string(i % 250)});
    ++counts[redis::SlotOf(key) * kMasters / redis::kSlots];
  }
  for (const int count : counts) {
    EXPECT_GE(count, kIdentities * 30 / 100);
    EXPECT_LE(count, kIdentities * 37 / 100);
  }
}

TEST_F(CellKeyTest, NeighboursAreThoseOfOneClientOrOneResource) {
  const CellKeyStyle by_resource{.tag_by_resource = true};
  rule_.rule.on.resource = "order";
  const std::string key = KeyOf({"a"});
  const std::string of_resource = KeyOf({"a"}, by_resource);
  EXPECT_NE(TagOf(KeyOf({"b"})), TagOf(key));
  EXPECT_EQ(TagOf(KeyOf({"b"}, by_resource)), TagOf(of_resource));
  EXPECT_NE(KeyOf({"b"}, by_resource), of_resource);
  EXPECT_NE(TagOf(KeyOf({"a"}, {.shard = 0})), TagOf(KeyOf({"a"}, {.shard = 1})));
  rule_.rule.name = "another";
  EXPECT_EQ(TagOf(KeyOf({"a"})), TagOf(key));
  EXPECT_NE(KeyOf({"a"}), key);
  EXPECT_EQ(TagOf(KeyOf({"a"}, by_resource)), TagOf(of_resource));
  EXPECT_NE(KeyOf({"a"}, by_resource), of_resource);
  rule_.rule.on.resource = "refund";
  EXPECT_NE(TagOf(KeyOf({"a"}, by_resource)), TagOf(of_resource));
  // Rules without a key are neighbours of nobody.
  rule_.by.clear();
  const std::string alone = KeyOf({});
  rule_.rule.name = "per-client";
  EXPECT_NE(TagOf(KeyOf({})), TagOf(alone));
}

// A key whose values are long together reaches the store as a digest, whatever its bytes
// would mean as parts.
TEST_F(CellKeyTest, DigestsOfLongKeysAreNoParts) {
  rule_.by = {{&ip_}, {&user_}};
  constexpr char kBytes[] = {0, 1, 2, '\xff'};
  std::set<std::string> seen{KeyOf({"", ""}), KeyOf({"a", ""}), KeyOf({"", "a"})};
  const size_t before = seen.size();
  size_t made = 0;
  for (const char first : kBytes) {
    for (const char second : kBytes) {
      for (const char last : kBytes) {
        std::string digest(17, '\0');  // the tag, and 16 bytes
        digest[1] = first;
        digest[3] = second;
        digest[16] = last;
        engine::RemoteTake take;
        take.rule = &rule_;
        const std::string key = "identity" + digest;
        take.key = key;
        const std::string text(CellKey(take, shape_).text());
        EXPECT_TRUE(seen.insert(text).second) << text;
        EXPECT_EQ(TagOf(text).size(), 33u) << text;
        EXPECT_EQ(TagOf(text).front(), '#') << text;
        ++made;
      }
    }
  }
  EXPECT_EQ(seen.size(), before + made);
}

TEST_F(CellKeyTest, AllOfALongKeyCounts) {
  engine::EngineOptions options;
  options.cell_capacity = 64;
  options.state_bytes = base::kStateBytesMin;
  options.remote_allowed = true;
  std::set<std::string> keys;
  for (const uint64_t seed :
       {uint64_t{1}, uint64_t{2}}) {  // of a process: every process has the same names
    options.hash_seed = seed;
    auto engine = engine::Engine::Create(options);
    ASSERT_TRUE(engine.ok());
    RuleSet set;
    set.rules = {testing::SharedRule("first", 5, std::chrono::minutes(1))};
    set.rules[0].by = {"user", "team", "place"};
    for (const std::string& name : set.rules[0].by)
      set.dimensions.emplace_back().name = name;
    const auto loaded = (*engine)->Load(set);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    for (const char last : {'a', 'b', 'c'}) {
      const std::string value(120, 'x');
      const testing::FakeRequest request(
          "r", {{"user", value}, {"team", value}, {"place", value + last}});
      engine::Attempt attempt;
      ASSERT_EQ((*engine)->Begin(attempt, request, engine::Mode::kPeek, Instant{}),
                engine::Step::kRemote);
      const engine::RemoteTake& take = attempt.remote_takes()[0];
      const std::string text(CellKey(take, shape_).text());
      EXPECT_EQ(text, "rl:{" + TagOf(text) + "}:first:tb");
      EXPECT_EQ(TagOf(text).size(), 33u) << text;
      keys.insert(text);
      (*engine)->Resume(attempt, std::vector<engine::TakeOutcome>(1), Instant{});
    }
  }
  EXPECT_EQ(keys.size(), 3u);
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
