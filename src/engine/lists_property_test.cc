// SPDX-License-Identifier: Apache-2.0
//
// Random requests with lists, on rules of several keys, held against a model that writes down
// what is left of every key: in one instant, so that nothing comes back but what is given back.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "testing/engine_fixture.h"
#include "testing/rules.h"

namespace flowguard::engine {
namespace {

using std::chrono::hours;
using testing::ConcurrencyRule;
using testing::FakeRequest;
using testing::LimitRule;

constexpr int kTimelines = 40;
constexpr int kSteps = 400;

using Key = std::vector<std::string>;
using Units = std::map<Key, int64_t>;

// One rule, by its definition.
class Model {
 public:
  explicit Model(const Rule& rule) : rule_(rule) {}

  // What a request takes of each key.
  [[nodiscard]] Units Takes(const FakeRequest::Values& values, int64_t cost) const {
    std::vector<Key> keys = {{}};
    for (const std::string& dimension : rule_.by) {
      std::vector<Key> longer;
      for (const Key& key : keys) {
        for (const auto& [name, value] : values) {
          if (name != dimension) continue;
          longer.push_back(key);
          longer.back().push_back(value);
        }
      }
      keys = std::move(longer);
    }
    Units takes;
    for (const Key& key : keys)
      takes[key] += cost;
    return takes;
  }
  [[nodiscard]] bool Has(const Units& takes) const {
    return std::all_of(takes.begin(), takes.end(),
                       [&](const auto& one) { return one.second <= Left(one.first); });
  }
  void Take(const Units& takes, int64_t sign = 1) {
    for (const auto& [key, units] : takes)
      taken_[key] += sign * units;
  }
  [[nodiscard]] int64_t LeastLeft(const Units& takes) const {
    int64_t least = INT64_MAX;
    for (const auto& [key, units] : takes)
      least = std::min(least, Left(key));
    return least;
  }
  [[nodiscard]] bool is_calls() const { return rule_.kind == RuleKind::kConcurrency; }

 private:
  [[nodiscard]] int64_t Left(const Key& key) const {
    const auto found = taken_.find(key);
    return Most(key) - (found != taken_.end() ? found->second : 0);
  }
  [[nodiscard]] int64_t Most(const Key& key) const {
    for (const Override& one : rule_.overrides) {
      if (!key.empty() && one.value == key[0]) return one.rate.limit;
    }
    return is_calls() ? rule_.concurrency : rule_.rate.limit;
  }

  Rule rule_;
  Units taken_;
};

struct Call {
  Attempt attempt;
  std::vector<Units> takes;  // by rule
};

class ListsProperty : public testing::EngineFixture {
 protected:
  static std::vector<Rule> RandomRules(std::mt19937& random) {
    const std::vector<std::vector<std::string>> keys = {
        {"param:a"}, {"param:b"}, {"param:a", "param:b"}, {"param:b", "param:a"}, {}};
    constexpr Algorithm kAlgorithms[] = {Algorithm::kTokenBucket, Algorithm::kSlidingLog,
                                         Algorithm::kFixedWindow};
    std::vector<Rule> rules;
    for (int i = 0; i < 4; ++i) {
      const auto most = static_cast<int64_t>(1 + random() % 12);
      const bool calls = random() % 3 == 0;
      Rule rule = calls ? ConcurrencyRule("calls-" + std::to_string(i), most)
                        : LimitRule("limit-" + std::to_string(i), most, hours(24),
                                    kAlgorithms[random() % 3]);
      rule.by = keys[random() % keys.size()];
      if (!rule.by.empty() && random() % 2 == 0) {
        Override one;
        one.value = "v0";
        one.rate = {20, calls ? Duration{} : hours(24)};
        rule.overrides = {one};
      }
      rules.push_back(std::move(rule));
    }
    return rules;
  }
  // At most six combinations, so that there is room for those of all rules.
  static FakeRequest::Values RandomValues(std::mt19937& random) {
    FakeRequest::Values values;
    const auto add = [&](const char* name, size_t most) {
      for (size_t i = 1 + random() % most; i > 0; --i)
        values.emplace_back(name, "v" + std::to_string(random() % 4));
    };
    add("param:a", 3);
    add("param:b", 2);
    std::shuffle(values.begin(), values.end(), random);
    return values;
  }
};

TEST_F(ListsProperty, DecidesAsEachValueAskedOnItsOwn) {
  int64_t admitted = 0;
  int64_t refused = 0;
  for (unsigned seed = 1; seed <= kTimelines; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const std::vector<Rule> rules = RandomRules(random);
    ASSERT_NO_FATAL_FAILURE(Build(rules));
    std::vector<Model> models(rules.begin(), rules.end());
    std::deque<Call> calls;
    for (int step = 0; step < kSteps; ++step) {
      SCOPED_TRACE("step " + std::to_string(step));
      const FakeRequest::Values values = RandomValues(random);
      const auto cost = static_cast<int64_t>(1 + random() % 2);
      std::vector<Units> takes;
      bool has = true;
      for (const Model& model : models) {
        takes.push_back(model.Takes(values, cost));
        has = has && model.Has(takes.back());
      }
      const FakeRequest request("r", values, cost);
      ASSERT_EQ(Peek(request).allowed(), has);
      Call& call = calls.emplace_back();
      Enter(call.attempt, request);
      ASSERT_EQ(call.attempt.entered(), has);
      if (!has) {
        ++refused;
        calls.pop_back();
      } else {
        ++admitted;
        int64_t least = INT64_MAX;
        for (size_t i = 0; i < models.size(); ++i) {
          models[i].Take(takes[i]);
          least = std::min(least, models[i].LeastLeft(takes[i]));
        }
        ASSERT_EQ(call.attempt.decision().remaining, least);
        call.takes = std::move(takes);
      }
      // A call ends, or never went.
      while (calls.size() > 3 || (!calls.empty() && random() % 4 == 0)) {
        Call& ended = calls.front();
        const bool went = random() % 2 == 0;
        went ? Settle(ended.attempt) : engine_->Cancel(ended.attempt, now_);
        for (size_t i = 0; i < models.size(); ++i) {
          if (!went || models[i].is_calls()) models[i].Take(ended.takes[i], -1);
        }
        calls.pop_front();
      }
    }
    for (Call& call : calls)
      Settle(call.attempt);
    for (const Rule& rule : rules)
      EXPECT_EQ(CountersOf(rule.name).inflight, 0);
  }
  EXPECT_GT(admitted, 1'000);
  EXPECT_GT(refused, 1'000);
}

}  // namespace
}  // namespace flowguard::engine
