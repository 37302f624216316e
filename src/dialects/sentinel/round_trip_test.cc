// SPDX-License-Identifier: Apache-2.0
//
// What is written reads back as the same rules, for random rules of every kind.
#include <cstdint>
#include <limits>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "dialects/sentinel/members.h"
#include "dialects/sentinel/reading_test.h"
#include "dialects/sentinel/validity.h"
#include "text/json.h"

namespace flowguard::dialects::sentinel {
namespace {

// Random values of every type that a member has, valid ones mostly.
class Random {
 public:
  explicit Random(uint64_t seed) : random_(seed) {}

  size_t Below(size_t bound) { return static_cast<size_t>(random_() % bound); }

  void Fill(bool& out) { out = Below(4) == 0; }
  void Fill(int32_t& out) { out = Number<int32_t>(); }
  void Fill(int64_t& out) { out = Number<int64_t>(); }
  void Fill(double& out) {
    constexpr double kValues[] = {0, 0.25, 0.5, 1, 20, 1e7, 123456.789, 1e-5, 1e300};
    out = kValues[Below(std::size(kValues))];
  }
  void Fill(std::string& out) {
    constexpr std::string_view kValues[] = {
        "r", "/orders/{id}", "a,b", "\"\\\n\t\x01", "default", "\xC3\xA9\xF0\x9F\x98\x80", "null",
        "5"};
    out = kValues[Below(std::size(kValues))];
  }
  template <typename T>
  void Fill(std::optional<T>& out) {
    if (Below(2) == 0) return out.reset();
    Fill(out.emplace());
  }
  template <typename T>
  void Fill(std::vector<T>& out) {
    out.resize(Below(3));
    for (T& item : out)
      Fill(item);
  }
  template <HasMembers Bean>
  void Fill(Bean& out) {
    EachMember(out, [this](std::string_view /*name*/, auto& field) {
      if (Below(2) == 0) Fill(field);
    });
  }

 private:
  template <typename Int>
  Int Number() {
    constexpr Int kValues[] = {0, 1, 2, 3, 10, 1000, std::numeric_limits<Int>::max()};
    return kValues[Below(std::size(kValues))];
  }

  std::mt19937_64 random_;
};

// Whether the reader keeps the rule as it is: valid, with nothing that is left out.
template <typename Rule>
bool IsKept(const Rule& rule) {
  if (!ReasonsAgainst(rule).empty()) return false;
  if constexpr (std::is_same_v<Rule, ParamFlowRule>) {
    for (const ParamFlowItem& item : rule.param_flow_item_list) {
      if (ReasonAgainst(item)) return false;
    }
  }
  return true;
}

template <typename Rule>
void ExpectRoundTrips(Kind kind) {
  constexpr uint64_t kSeed = 4'711;
  Random random(kSeed);
  int kept = 0;
  for (int i = 0; i < 3'000; ++i) {
    Rule rule;
    random.Fill(rule);
    if (!IsKept(rule)) continue;
    ++kept;
    const std::string written = WriteRules(RuleList(std::vector<Listed<Rule>>{{rule, 0, {}}}));
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ", rule " + std::to_string(i) + ": " + written);
    ASSERT_TRUE(text::ParseJson(written, "strict").ok());
    const auto read = ReadAs(kind, written);
    ASSERT_TRUE(read.ok()) << read.error().message;
    const auto& rules = std::get<std::vector<Listed<Rule>>>(read->rules);
    ASSERT_EQ(rules.size(), 1u);
    ASSERT_EQ(rules[0].rule, rule);
    ASSERT_EQ(WriteRules(read->rules), written);
  }
  EXPECT_GT(kept, 20);
}

TEST(RoundTripTest, Flow) {
  ExpectRoundTrips<FlowRule>(Kind::kFlow);
}
TEST(RoundTripTest, Degrade) {
  ExpectRoundTrips<DegradeRule>(Kind::kDegrade);
}
TEST(RoundTripTest, System) {
  ExpectRoundTrips<SystemRule>(Kind::kSystem);
}
TEST(RoundTripTest, Authority) {
  ExpectRoundTrips<AuthorityRule>(Kind::kAuthority);
}
TEST(RoundTripTest, ParamFlow) {
  ExpectRoundTrips<ParamFlowRule>(Kind::kParamFlow);
}
TEST(RoundTripTest, GatewayFlow) {
  ExpectRoundTrips<GatewayFlowRule>(Kind::kGatewayFlow);
}
TEST(RoundTripTest, ApiDefinition) {
  ExpectRoundTrips<ApiDefinition>(Kind::kApiDefinition);
}

}  // namespace
}  // namespace flowguard::dialects::sentinel
