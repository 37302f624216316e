// SPDX-License-Identifier: Apache-2.0
//
// An engine with rules that were Sentinel's: their list as it is, or the rule file with
// `compat: sentinel` that it is converted to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "flowguard/rules_text.h"

#include "dialects/rules_writer.h"
#include "dialects/sentinel/reader.h"
#include "dialects/sentinel/to_rules.h"
#include "testing/engine_fixture.h"

namespace flowguard {

using Counts = std::vector<int>;

inline constexpr Duration kTenMs = std::chrono::milliseconds(10);

// The start is a whole minute, as it is in the vectors.
class SentinelFixture : public testing::EngineFixture {
 protected:
  // A list of Sentinel's in a file of this name: as it is, or as the rule file that it is
  // converted to.
  void BringList(std::string_view file, std::string_view json) {
    if (!alike()) return BringFile(file, json);
    auto read = dialects::sentinel::ReadRules(json, file);
    ASSERT_TRUE(read.ok()) << read.error().message;
    const auto made = dialects::sentinel::ToRules(read->rules, file, compat_);
    BringFile("rules.yaml", dialects::WriteRules(made.rules));
  }
  void BringFile(std::string_view file, std::string_view text) {
    const auto parsed = ParseRules(text, file);
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    ASSERT_EQ(parsed->rules.compat, compat_);
    ASSERT_FALSE(parsed->rules.rules.empty());
    rule_ = parsed->rules.rules.front().name;
    Build({});
    const Result<void> loaded = engine_->Load(parsed->rules);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    start_ = now_;
  }
  // Counts are to be Sentinel's.
  [[nodiscard]] bool alike() const { return compat_ == Compat::kSentinel; }
  // One rule for the resource "r".
  void Bring(std::string_view file, std::string_view members) {
    BringList(file, "[{\"resource\":\"r\"," + std::string(members) + "}]");
  }
  void BringFlow(std::string_view members) { Bring("flow-rules.json", members); }
  void BringDegrade(std::string_view members) { Bring("degrade-rules.json", members); }
  void BringParam(std::string_view members) {
    Bring("param-rules.json", "\"paramIdx\":0," + std::string(members));
  }

  // How many calls pass at each of these ms, asked for one by one until one is refused.
  Counts Greedy(const std::vector<int>& at_ms,
                const testing::FakeRequest& request = testing::FakeRequest("r")) {
    Counts passed;
    for (const int at : at_ms) {
      now_ = start_ + std::chrono::milliseconds(at);
      int count = 0;
      while (Check(request).allowed())
        ++count;
      passed.push_back(count);
    }
    return passed;
  }

  // The waits of calls in one instant, in ms; -1: refused.
  Counts Waits(int calls, const testing::FakeRequest& request = testing::FakeRequest("r")) {
    Counts waits;
    for (int i = 0; i < calls; ++i) {
      const Decision decision = Check(request);
      waits.push_back(
          decision.allowed() ? static_cast<int>(decision.wait / std::chrono::milliseconds(1)) : -1);
    }
    return waits;
  }

  // "PB..." of calls with these costs in one instant.
  std::string Batches(const std::vector<int64_t>& costs,
                      testing::FakeRequest request = testing::FakeRequest("r")) {
    std::string verdicts;
    for (const int64_t cost : costs) {
      request.cost = cost;
      verdicts += Check(request).allowed() ? 'P' : 'B';
    }
    return verdicts;
  }

  // Calls that pass in each second when `tries` ask every 10 ms.
  Counts PerSecond(int seconds, int tries) {
    Counts passed;
    for (int second = 0; second < seconds; ++second) {
      int count = 0;
      for (int i = 0; i < 100; ++i, now_ += kTenMs) {
        for (int k = 0; k < tries; ++k)
          count += Check().allowed() ? 1 : 0;
      }
      passed.push_back(count);
    }
    return passed;
  }

  // A call from entry to end.  Returns whether it was let through.
  bool Call(Outcome outcome, Duration took = std::chrono::milliseconds(1)) {
    engine::Attempt attempt;
    Enter(attempt, testing::FakeRequest("r"));
    if (!attempt.entered()) return false;
    now_ += took;
    Settle(attempt, outcome);
    return true;
  }
  bool CallAt(int at_ms, Outcome outcome) {
    now_ = start_ + std::chrono::milliseconds(at_ms);
    return Call(outcome, Duration{});
  }
  [[nodiscard]] bool IsOpen() { return CountersOf(rule_).breakers_open > 0; }

  // Which call opens the breaker, from 1; 0: none.  By letter: ok, error.
  int OpensAtOutcome(std::string_view outcomes) {
    for (size_t i = 0; i < outcomes.size(); ++i) {
      Call(outcomes[i] == 'e' ? Outcome::kError : Outcome::kOk);
      if (IsOpen()) return static_cast<int>(i) + 1;
    }
    return 0;
  }
  int OpensAtTime(const std::vector<int>& took_ms) {
    for (size_t i = 0; i < took_ms.size(); ++i) {
      Call(Outcome::kOk, std::chrono::milliseconds(took_ms[i]));
      if (IsOpen()) return static_cast<int>(i) + 1;
    }
    return 0;
  }

  Compat compat_ = Compat::kNone;
  std::string rule_;
  Instant start_{};
};

inline const auto kCountings = ::testing::Values(Compat::kNone, Compat::kSentinel);

inline std::string NameOf(Compat compat) {
  return compat == Compat::kSentinel ? "AsSentinel" : "Default";
}

// Tests in both countings.
class InBothCountings : public SentinelFixture, public ::testing::WithParamInterface<Compat> {
 protected:
  InBothCountings() { compat_ = GetParam(); }
};

// A row of a table in both countings.
template <typename Vector>
class VectorTest : public SentinelFixture,
                   public ::testing::WithParamInterface<std::tuple<Vector, Compat>> {
 protected:
  VectorTest() { compat_ = std::get<Compat>(this->GetParam()); }
  [[nodiscard]] const Vector& vector() const { return std::get<Vector>(this->GetParam()); }
  [[nodiscard]] const auto& expected() const {
    return alike() ? vector().sentinel : vector().flowguard;
  }
  [[nodiscard]] std::string sentinel() const {
    return "Sentinel: " + ::testing::PrintToString(vector().sentinel);
  }
};

inline constexpr auto kVectorName = [](const auto& one) {
  return std::string(std::get<0>(one.param).name) + NameOf(std::get<1>(one.param));
};

// Callers that ask at these times until they are refused.
struct GreedyVector {
  const char* name;
  const char* members;
  std::vector<int> at_ms;
  Counts sentinel;
  Counts flowguard;
};

}  // namespace flowguard
