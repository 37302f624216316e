// SPDX-License-Identifier: Apache-2.0
//
// Limiter is limit::TokenBucket on one atomic word.  What a caller waits for is
// written out here, since it is called for nothing but its speed; limiter_test
// holds it against the original.
#include "flowguard/limiter.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <utility>

#include "base/bounds.h"
#include "base/mutex.h"
#include "base/system_now.h"
#include "base/try.h"
#include "guard/answer.h"
#include "limit/spec.h"
#include "limit/token_bucket.h"

namespace flowguard {
namespace {

using limit::TokenBucket;

int64_t Ns(Instant instant) noexcept {
  return instant.time_since_epoch().count();
}

// Inlined by force: a call would spill what TryAcquire has in registers.
[[gnu::always_inline]] inline Instant ReadClock(const Clock* clock) noexcept {
  return clock == nullptr ? base::SystemNow() : clock->Now();
}

// A thread that lost the word leaves its line to the winner for a while: two threads that
// ask without end then move it once in many decisions instead of once in each, which
// halves what either pays.  About half a microsecond.
[[gnu::noinline, gnu::cold]] int64_t AfterLostRace(const std::atomic<int64_t>& word) noexcept {
  constexpr int kPauses = 16;
  for (int i = 0; i < kPauses; ++i) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
  return word.load(std::memory_order_relaxed);
}

}  // namespace

struct Limiter::Smooth {
  explicit Smooth(const limit::AnySpec& its) noexcept : spec(its) {}

  limit::AnySpec spec;
  base::Mutex mutex;
  std::array<uint64_t, 3> state FG_GUARDED_BY(mutex){};  // of warm_up

  // Decides for a caller that waits at most `wait_max`.
  limit::Numbers Decide(std::atomic<int64_t>& word, Instant now, int64_t cost,
                        Duration wait_max) noexcept {
    if (!spec.one_word()) {
      const base::MutexLock lock(mutex);
      return guard::DecideWithin(spec, std::span(state), now, cost, wait_max);
    }
    int64_t old = word.load(std::memory_order_relaxed);
    for (;;) {
      int64_t next = old;
      const limit::Numbers numbers = guard::DecideWithin(spec, next, now, cost, wait_max);
      if (next == old || word.compare_exchange_weak(old, next)) return numbers;
    }
  }
};

Limiter::Limiter() noexcept = default;
Limiter::~Limiter() = default;

Result<Limiter> Limiter::Create(const LimiterOptions& options) {
  limit::Config config;
  config.rate = options.rate;
  config.burst = options.burst;
  config.wait = options.wait;
  Limiter limiter;
  limiter.clock_ = options.clock == &SystemClock() ? nullptr : options.clock;
  if (options.algorithm != Algorithm::kTokenBucket) {
    if (config.wait == Duration::zero()) config.wait = base::kWaitMax;
    config.warm_up = options.warm_up;
    config.cold_factor = options.cold_factor;
    FG_ASSIGN_OR_RETURN(const limit::AnySpec spec,
                        guard::MakeSmooth(options.algorithm, config, limiter.Now()));
    limiter.wait_max_ns_ = config.wait.count();
    limiter.smooth_ = std::make_unique<Smooth>(spec);
    return limiter;
  }
  FG_ASSIGN_OR_RETURN(const TokenBucket::Spec spec, TokenBucket::Make(config));
  limiter.interval_ns_ = spec.interval_ns;
  limiter.capacity_ns_ = spec.capacity_ns;
  limiter.burst_ = spec.burst;
  limiter.wait_max_ns_ =
      options.wait > Duration::zero()
          ? options.wait.count()
          : std::min(base::kWaitMax.count(), base::kHorizonNsMax - spec.capacity_ns);
  return limiter;
}

Limiter::Limiter(Limiter&& other) noexcept
    : tat_ns_(other.tat_ns_.load(std::memory_order_relaxed)),
      interval_ns_(other.interval_ns_),
      capacity_ns_(other.capacity_ns_),
      burst_(other.burst_),
      wait_max_ns_(other.wait_max_ns_),
      clock_(other.clock_),
      smooth_(std::move(other.smooth_)) {}

Instant Limiter::Now() const noexcept {
  return ReadClock(clock_);
}

void Limiter::SleepUntil(Instant until) const noexcept {
  clock_ == nullptr ? base::SystemSleepUntil(until) : clock_->SleepUntil(until);
}

bool Limiter::TryAcquire(int64_t cost) noexcept {
  return Take(ReadClock(clock_), cost);
}

bool Limiter::TryAcquireAt(Instant now, int64_t cost) noexcept {
  return Take(now, cost);
}

inline bool Limiter::Take(Instant now, int64_t cost) noexcept {
  const int64_t now_ns = Ns(now);
  int64_t tat_ns = tat_ns_.load(std::memory_order_relaxed);
  // One comparison for costs below 1 and above the burst.
  if (static_cast<uint64_t>(cost - 1) >= static_cast<uint64_t>(burst_)) [[unlikely]] {
    return TakeOther(now, cost);
  }
  const int64_t taken_ns = cost * interval_ns_;
  for (;;) {
    const int64_t after_ns = std::max(tat_ns, now_ns) + taken_ns;
    if (after_ns - now_ns > capacity_ns_) return Refuse(tat_ns, now_ns, cost);
    if (tat_ns_.compare_exchange_weak(tat_ns, after_ns, std::memory_order_relaxed)) return true;
    tat_ns = AfterLostRace(tat_ns_);
  }
}

// A word so far ahead that the clock must have stepped back is drawn back to
// exhausted, as TokenBucket does.
bool Limiter::Refuse(int64_t tat_ns, int64_t now_ns, int64_t cost) noexcept {
  if (tat_ns - now_ns <= capacity_ns_ + wait_max_ns_ + base::kLateStampMax.count()) [[likely]] {
    return false;
  }
  tat_ns_.compare_exchange_strong(tat_ns, now_ns + capacity_ns_, std::memory_order_relaxed);
  return cost == 0;
}

bool Limiter::TakeOther(Instant now, int64_t cost) noexcept {
  if (smooth_ == nullptr || cost <= 0) return cost == 0;
  return smooth_->Decide(tat_ns_, now, cost, Duration::zero()).allowed;
}

Decision Limiter::CheckAt(Instant now, int64_t cost) noexcept {
  return CheckWithin(now, cost, Duration::zero());
}

Decision Limiter::CheckWithin(Instant now, int64_t cost, Duration timeout) noexcept {
  if (cost < 0) return guard::InvalidCost(smooth_ == nullptr ? burst_ : smooth_->spec.limit());
  const Duration wait_max(std::clamp<int64_t>(timeout.count(), 0, wait_max_ns_));
  if (smooth_ != nullptr) return guard::DecisionOf(smooth_->Decide(tat_ns_, now, cost, wait_max));
  TokenBucket::Spec spec;
  spec.interval_ns = interval_ns_;
  spec.burst = burst_;
  spec.capacity_ns = spec.horizon_ns = capacity_ns_;
  spec.admit_ns = capacity_ns_ + wait_max.count();
  spec.step_ns = capacity_ns_ + wait_max_ns_ + base::kLateStampMax.count();
  if (interval_ns_ > 0) spec.per_interval = limit::Divisor(interval_ns_);
  int64_t old_ns = tat_ns_.load(std::memory_order_relaxed);
  for (;;) {
    int64_t tat_ns = old_ns;
    limit::Receipt receipt;
    const limit::Numbers numbers = TokenBucket::Decide(spec, tat_ns, now, cost, receipt);
    if (tat_ns == old_ns || tat_ns_.compare_exchange_weak(old_ns, tat_ns))
      return guard::DecisionOf(numbers);
  }
}

Decision Limiter::CheckFor(Duration timeout, int64_t cost) noexcept {
  const Instant now = Now();
  Decision decision = CheckWithin(now, cost, timeout);
  if (decision.verdict == Verdict::kWait) {
    SleepUntil(now + decision.wait);
    decision.verdict = Verdict::kAllow;
    decision.wait = Duration::zero();
  }
  return decision;
}

bool Limiter::TryAcquireFor(Duration timeout, int64_t cost) noexcept {
  if (smooth_ != nullptr) return cost >= 0 && CheckFor(timeout, cost).allowed();
  const Instant now = Now();
  if (static_cast<uint64_t>(cost - 1) >= static_cast<uint64_t>(burst_)) return cost == 0;
  const int64_t wait_ns = std::clamp<int64_t>(timeout.count(), 0, wait_max_ns_);
  const int64_t taken_ns = cost * interval_ns_;
  const int64_t now_ns = Ns(now);
  int64_t tat_ns = tat_ns_.load(std::memory_order_relaxed);
  int64_t after_ns = 0;
  do {
    after_ns = std::max(tat_ns, now_ns) + taken_ns;
    if (after_ns - now_ns > capacity_ns_ + wait_ns) return Refuse(tat_ns, now_ns, cost);
  } while (!tat_ns_.compare_exchange_weak(tat_ns, after_ns, std::memory_order_relaxed));
  const Instant until = Instant(Duration(after_ns - capacity_ns_));
  if (until > now) SleepUntil(until);
  return true;
}

}  // namespace flowguard
