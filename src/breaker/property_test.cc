// SPDX-License-Identifier: Apache-2.0
//
// Random breakers on random timelines, with clocks that step, against slow_model.h.
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "breaker/slow_model.h"
#include "breaker/test_breaker.h"

namespace flowguard::breaker {
namespace {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  // Within [least, most].
  int64_t Between(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(engine_);
  }
  bool OneIn(int64_t n) { return Between(1, n) == 1; }

 private:
  std::mt19937_64 engine_;
};

BreakerSpec AnySpec(Random& random) {
  BreakerSpec spec;
  spec.condition = static_cast<BreakerCondition>(random.Between(0, 2));
  spec.slow_over = Ms(50);
  spec.ratio = static_cast<double>(random.Between(0, 4)) / 4;
  spec.errors = random.Between(0, 3);
  spec.min_calls = random.Between(1, 6);
  spec.window = Ms(random.Between(2, 2'000));
  spec.buckets = static_cast<int>(random.Between(1, 12));
  spec.open_for = Ms(random.Between(1, 3'000));
  spec.probes = static_cast<int>(random.Between(1, 4));
  spec.probe_successes = static_cast<int>(random.Between(0, spec.probes));
  return random.OneIn(3) ? SentinelForm(spec) : spec;
}

// Where the clock stands after the next move.
int64_t NextTime(Random& random, const BreakerSpec& spec, int64_t now) {
  const int64_t bucket = spec.window.count() / spec.buckets;
  switch (random.Between(0, 19)) {
    case 0:
      return now + spec.open_for.count();
    case 1:
      return now + spec.open_for.count() - 1;
    case 2:
      return (now / bucket + 1) * bucket;  // the next boundary, and the last instant before it
    case 3:
      return (now / bucket + 1) * bucket - 1;
    case 4:
      return now + random.Between(0, spec.window.count() * 2);
    case 5:
      return random.OneIn(4) ? now - random.Between(0, Duration(base::kLateStampMax).count()) : now;
    case 6:
      return random.OneIn(10) ? now - random.Between(0, Ms(60'000).count()) : now;
    default:
      return now + random.Between(0, bucket / 2);
  }
}

struct Open {
  BreakerTicket ticket;
  SlowModel::Ticket model;
};

struct Totals {
  size_t opened = 0;
  size_t closed = 0;
  int64_t replaced = 0;
  int64_t late = 0;
  int64_t steps = 0;
};

class Timeline {
 public:
  Timeline(uint64_t seed)
      : random_(seed),
        spec_(AnySpec(random_)),
        model_(spec_),
        breaker_(Breaker::Create(spec_, &recorder_).value()) {}

  void Run() {
    for (int i = 0; i < 300 && !::testing::Test::HasFailure(); ++i) {
      now_ = NextTime(random_, spec_, now_);
      Step();
      CheckSame();
    }
    CheckNeverStuck();
  }

  void AddTo(Totals& totals) const {
    for (const SlowModel::Transition& each : model_.transitions) {
      totals.opened += each.reason == BreakerReason::kCondition ? 1 : 0;
      totals.closed += each.reason == BreakerReason::kProbesGood ? 1 : 0;
    }
    totals.replaced += model_.replaced;
    totals.late += model_.late;
    totals.steps += model_.steps;
  }

 private:
  [[nodiscard]] Instant Now() const { return Instant(Duration(now_)); }

  void Step() {
    if (open_.empty() || random_.OneIn(2)) {
      Enter();
      return;
    }
    const auto which = static_cast<size_t>(random_.Between(0, std::ssize(open_) - 1));
    Open call = open_[which];
    open_.erase(open_.begin() + static_cast<int64_t>(which));
    if (random_.OneIn(10)) {
      breaker_->GiveBack(call.ticket, Now());
      model_.GiveBack(call.model);
      return;
    }
    const auto outcome = random_.OneIn(5) ? static_cast<Outcome>(random_.Between(0, 3))
                                          : static_cast<Outcome>(random_.Between(0, 1));
    const Duration took = Ms(random_.Between(49, 52));
    breaker_->Settle(call.ticket, outcome, took, Now());
    model_.Settle(call.model, MarkOf(spec_, outcome, took), now_);
  }

  void Enter() {
    const bool asks_first = random_.OneIn(2);
    const Duration asked = asks_first ? breaker_->RefusedFor(Now()) : Duration();
    BreakerAdmission admission = breaker_->TryEnter(Now());
    const SlowModel::Answer answer = model_.Enter(now_);
    ASSERT_EQ(admission.admitted(), answer.admitted);
    ASSERT_EQ(admission.retry_after.count(), answer.wait);
    ASSERT_EQ(admission.ticket.is_probe(), answer.ticket.probe != 0);
    if (asks_first) {
      ASSERT_EQ(asked.count(), answer.wait);
    }
    ASSERT_LE(admission.retry_after, spec_.open_for);
    if (answer.admitted) open_.push_back({admission.ticket, answer.ticket});
  }

  void CheckSame() {
    ASSERT_EQ(breaker_->state(), model_.state);
    ASSERT_EQ(breaker_->Look(Now()), model_.Look(now_));
    ASSERT_EQ(recorder_.events.size(), model_.transitions.size());
    if (recorder_.events.empty()) return;
    const BreakerEvent& event = recorder_.events.back();
    const SlowModel::Transition told{event.from, event.to, event.reason, event.counts};
    ASSERT_EQ(told, model_.transitions.back());
    ASSERT_EQ(event.missed, 0u);
  }

  // Whatever calls are out for ever: open_for later one gets in.
  void CheckNeverStuck() {
    now_ -= random_.OneIn(2) ? Ms(30'000).count() : 0;
    static_cast<void>(breaker_->RefusedFor(Now()));  // a step back is noticed here
    now_ += spec_.open_for.count();
    EXPECT_TRUE(breaker_->TryEnter(Now()).admitted());
  }

  Random random_;
  BreakerSpec spec_;
  SlowModel model_;
  Recorder recorder_;
  std::unique_ptr<Breaker> breaker_;
  int64_t now_ = Ms(kT0Ms).count();
  std::vector<Open> open_;
};

TEST(BreakerProperty, DoesWhatTheModelDoesOnRandomTimelines) {
  constexpr uint64_t kTimelines = 4'000;
  Totals totals;
  for (uint64_t seed = 1; seed <= kTimelines; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Timeline timeline(seed);
    timeline.Run();
    timeline.AddTo(totals);
    if (HasFailure()) return;
  }
  // That the timelines lead where they should.
  EXPECT_GT(totals.opened, 3 * kTimelines);
  EXPECT_GT(totals.closed, kTimelines);
  EXPECT_GT(totals.replaced, static_cast<int64_t>(kTimelines));
  EXPECT_GT(totals.late, static_cast<int64_t>(4 * kTimelines));
  EXPECT_GT(totals.steps, static_cast<int64_t>(kTimelines / 4));
}

}  // namespace
}  // namespace flowguard::breaker
