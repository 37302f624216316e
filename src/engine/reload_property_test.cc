// SPDX-License-Identifier: Apache-2.0
//
// Random timelines of one key whose rule is reloaded with one limit and another and the
// first again, while calls are open that settle later: by the engine, so that what a
// load keeps is what is tested.  What went is held against a record of every take.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/bounds.h"
#include "testing/engine_fixture.h"
#include "testing/rules.h"

namespace flowguard::engine {
namespace {

constexpr uint64_t kTimelines = 60;
constexpr int kSteps = 400;
constexpr int64_t kWindow = 1'000'000'000;

// A call that went.
struct Call {
  std::unique_ptr<Attempt> attempt;  // null: settled
  int64_t at = 0;
  int64_t units = 0;  // reserved, less what was given back
  int64_t interval = 0;
  int64_t horizon = 0;
  int64_t mark = 0;
};

bool IsBucket(Algorithm algorithm) {
  return algorithm == Algorithm::kTokenBucket || algorithm == Algorithm::kLeakyBucket;
}

// The theoretical arrival time of a bucket, by its definition.
class Tat {
 public:
  explicit Tat(bool leaky) : leaky_(leaky) {}

  void Use(const Rule& rule) {
    interval_ = (rule.rate.window.count() + rule.rate.limit - 1) / rule.rate.limit;
    capacity_ = leaky_ ? rule.wait.count() + interval_ : rule.rate.limit * interval_;
    horizon_ = capacity_ + interval_ * rule.cost.max_debt;
  }
  bool Take(int64_t now, Call& call) {
    if (tat_ - now > horizon_ + base::kLateStampMax.count()) tat_ = now + horizon_;
    const int64_t ahead = std::max<int64_t>(tat_ - now, 0) + call.units * interval_;
    if (ahead > capacity_) return false;
    tat_ = now + ahead;
    call.interval = interval_;
    call.horizon = horizon_;
    call.mark = tat_;
    return true;
  }
  void Settle(int64_t now, const Call& call, int64_t actual) {
    const int64_t ahead = std::max<int64_t>(tat_ - now, 0);
    if (actual > call.units && ahead < call.horizon) {
      tat_ = now + std::min(ahead + (actual - call.units) * call.interval, call.horizon);
    } else if (actual < call.units && (!leaky_ || tat_ == call.mark)) {
      const int64_t undrained = std::max<int64_t>(call.mark - now, 0);
      const int64_t back = std::min((call.units - actual) * call.interval, undrained);
      if (tat_ > now) tat_ = std::max(tat_ - back, now);
    }
  }

 private:
  bool leaky_;
  int64_t interval_ = 1;
  int64_t capacity_ = 0;
  int64_t horizon_ = 0;
  int64_t tat_ = 0;
};

class ReloadProperty : public testing::EngineFixture,
                       public ::testing::WithParamInterface<Algorithm> {
 protected:
  int64_t Between(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random_);
  }
  [[nodiscard]] int64_t now() const { return now_.time_since_epoch().count(); }

  // A rule that lives on the cells of the others: buckets keep theirs whatever changes,
  // the rest while the window is the same.
  Rule RandomRule() {
    Rule rule = testing::LimitRule("a", Between(1, 20), Duration(kWindow));
    rule.algorithm = GetParam();
    rule.by = {"user"};
    if (IsBucket(GetParam()) && Between(1, 2) == 1) rule.rate.window = Duration(60 * kWindow);
    if (GetParam() == Algorithm::kLeakyBucket) rule.wait = Duration(kWindow / 2);
    if (GetParam() == Algorithm::kSlidingBuckets) rule.buckets = 4;
    rule.cost = {.reserve = 1, .settle = "", .max_debt = debt_};
    return rule;
  }

  void Advance() {
    switch (Between(0, 5)) {
      case 0:
      case 1:
        break;
      case 2:
        now_ += Duration(Between(0, kWindow));
        break;
      case 3:
        now_ += Duration(kWindow - now() % kWindow);
        break;
      default:
        now_ += Duration(Between(0, kWindow / 10));
        break;
    }
  }

  // Units of the record that came in [from, to).
  [[nodiscard]] int64_t Went(int64_t from, int64_t to) const {
    int64_t units = 0;
    for (const Call& call : calls_)
      units += call.at >= from && call.at < to ? call.units : 0;
    return units;
  }

  // What the guarantee of the algorithm says of the record, just after a take.
  void ExpectWithin(int64_t limit) {
    const int64_t start = now() / kWindow * kWindow;
    const int64_t here = Went(start, now() + 1);
    const int64_t lately = Went(now() - kWindow + 1, now() + 1);
    int64_t dropped = 0;  // of more units than a lower limit the latest count
    for (const auto& [at, units] : lowered_)
      dropped += at > now() - kWindow ? units : 0;
    switch (GetParam()) {
      case Algorithm::kSlidingLog:
        ASSERT_LE(lately, limit + dropped);
        break;
      case Algorithm::kSlidingBuckets:
        ASSERT_LE(lately, limit);
        break;
      case Algorithm::kSlidingWindow: {
        const int64_t left = kWindow - (now() - start);
        const int64_t faded = (Went(start - kWindow, start) * left + kWindow - 1) / kWindow;
        ASSERT_LE(here + faded, limit);
        break;
      }
      default:
        ASSERT_LE(here, limit);
        break;
    }
  }

  void Take(const Rule& rule, Tat& tat) {
    Call call;
    call.at = now();
    call.units = Between(1, 3);
    call.attempt = std::make_unique<Attempt>();
    Enter(*call.attempt, testing::FakeRequest("r", {{"user", "ann"}}, call.units));
    if (call.attempt->waiting()) engine_->Continue(*call.attempt, now_);
    const bool went = call.attempt->entered();
    const bool fits = IsBucket(GetParam()) ? tat.Take(now(), call) : went;
    if (went) {
      calls_.push_back(std::move(call));
      ++went_;
    }
    ASSERT_EQ(went, fits);
    if (went && !IsBucket(GetParam())) ExpectWithin(rule.rate.limit);
  }

  void SettleOne(Tat& tat) {
    const auto from = static_cast<int64_t>(std::max<size_t>(calls_.size(), 8) - 8);
    Call& call = calls_[static_cast<size_t>(Between(from, std::ssize(calls_) - 1))];
    if (call.attempt == nullptr) return;
    const int64_t actual = Between(0, call.units + 2);
    if (IsBucket(GetParam())) tat.Settle(now(), call, actual);
    Settle(*call.attempt, Outcome::kOk, actual);
    call.attempt = nullptr;
    call.units = std::min(call.units, actual);
  }

  void EndAll() {
    for (Call& call : calls_)
      if (call.attempt != nullptr) Settle(*call.attempt);
    calls_.clear();
    lowered_.clear();
  }

  std::mt19937_64 random_;
  int64_t debt_ = 0;
  std::vector<Call> calls_;
  std::vector<std::pair<int64_t, int64_t>> lowered_;  // when, by how many units
  int64_t went_ = 0;                                  // calls
};

TEST_P(ReloadProperty, NothingThatWentIsForgottenWhateverLimitsComeAndGo) {
  for (uint64_t seed = 1; seed <= kTimelines && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    random_.seed(seed);
    // Units that a fixed window carries over are those of the limit that carried them.
    debt_ = GetParam() == Algorithm::kFixedWindow ? 0 : Between(0, 5);
    const std::vector<Rule> rules = {RandomRule(), RandomRule(), RandomRule()};
    Build({rules[0]});
    size_t loaded = 0;
    Tat tat(GetParam() == Algorithm::kLeakyBucket);
    tat.Use(rules[0]);
    for (int step = 0; step < kSteps && !HasFatalFailure(); ++step) {
      SCOPED_TRACE("step " + std::to_string(step));
      Advance();
      const int64_t action = Between(0, 19);
      if (action == 0) {
        const int64_t before = rules[loaded].rate.limit;
        loaded = static_cast<size_t>(Between(0, std::ssize(rules) - 1));
        const int64_t after = rules[loaded].rate.limit;
        if (after < before) lowered_.emplace_back(now(), before - after);
        Load({rules[loaded]});
        tat.Use(rules[loaded]);
      } else if (action <= 5 && !calls_.empty()) {
        SettleOne(tat);
      } else {
        Take(rules[loaded], tat);
      }
    }
    EndAll();
  }
  EXPECT_GT(went_, static_cast<int64_t>(kTimelines));
}

std::string NameOf(const ::testing::TestParamInfo<Algorithm>& tested) {
  constexpr const char* kNames[] = {"TokenBucket",    "LeakyBucket",   "SlidingLog",
                                    "SlidingBuckets", "SlidingWindow", "FixedWindow",
                                    "WeightedAverage"};
  return kNames[static_cast<size_t>(tested.param)];
}

INSTANTIATE_TEST_SUITE_P(All, ReloadProperty,
                         ::testing::Values(Algorithm::kTokenBucket, Algorithm::kLeakyBucket,
                                           Algorithm::kSlidingLog, Algorithm::kSlidingBuckets,
                                           Algorithm::kSlidingWindow, Algorithm::kFixedWindow,
                                           Algorithm::kWeightedAverage),
                         NameOf);

}  // namespace
}  // namespace flowguard::engine
