// SPDX-License-Identifier: Apache-2.0
#include "limit/spec.h"

#include <algorithm>
#include <utility>

#include "base/try.h"

namespace flowguard::limit {
namespace {

// Calls call(A{}, spec of A) for the one-word algorithm that `specs` holds.
template <typename Specs, typename Call>
auto OnWord(Algorithm algorithm, const Specs& specs, Call&& call) noexcept {
  switch (algorithm) {
    case Algorithm::kLeakyBucket:
      return call(LeakyBucket{}, *std::get_if<LeakyBucket::Spec>(&specs));
    case Algorithm::kFixedWindow:
      return call(FixedWindow{}, *std::get_if<FixedWindow::Spec>(&specs));
    case Algorithm::kSmoothBursty:
      return call(SmoothBursty{}, *std::get_if<SmoothBursty::Spec>(&specs));
    default:
      FG_DCHECK(algorithm == Algorithm::kTokenBucket);
      return call(TokenBucket{}, *std::get_if<TokenBucket::Spec>(&specs));
  }
}

// The same for the algorithms with more words.
template <typename Specs, typename Call>
auto OnSpan(Algorithm algorithm, const Specs& specs, Call&& call) noexcept {
  switch (algorithm) {
    case Algorithm::kSlidingLog:
      return call(SlidingLog{}, *std::get_if<SlidingLog::Spec>(&specs));
    case Algorithm::kSlidingBuckets:
      return call(SlidingBuckets{}, *std::get_if<SlidingBuckets::Spec>(&specs));
    case Algorithm::kWeightedAverage:
      return call(WeightedAverage{}, *std::get_if<WeightedAverage::Spec>(&specs));
    case Algorithm::kWarmUp:
      return call(WarmUp{}, *std::get_if<WarmUp::Spec>(&specs));
    case Algorithm::kWarmUpWindow:
      return call(WarmUpWindow{}, *std::get_if<WarmUpWindow::Spec>(&specs));
    case Algorithm::kLeapArray:
      return call(LeapArray{}, *std::get_if<LeapArray::Spec>(&specs));
    case Algorithm::kStepBucket:
      return call(StepBucket{}, *std::get_if<StepBucket::Spec>(&specs));
    default:
      FG_DCHECK(algorithm == Algorithm::kSlidingWindow);
      return call(SlidingWindow{}, *std::get_if<SlidingWindow::Spec>(&specs));
  }
}

}  // namespace

Result<AnySpec> AnySpec::Make(Algorithm algorithm, const Config& config) {
  const auto of_word = [&]<typename A>(A) -> Result<AnySpec> {
    FG_ASSIGN_OR_RETURN(const typename A::Spec spec, A::Make(config));
    AnySpec any(algorithm, config, spec, 1);
    any.limit_ = A::Look(spec, 0, Instant{}, 0).limit;
    return any;
  };
  const auto of_span = [&]<typename A>(A) -> Result<AnySpec> {
    FG_ASSIGN_OR_RETURN(const typename A::Spec spec, A::Make(config));
    AnySpec any(algorithm, config, spec, A::Words(spec));
    any.limit_ = spec.limit;
    return any;
  };
  switch (algorithm) {
    case Algorithm::kTokenBucket:
      return of_word(TokenBucket{});
    case Algorithm::kLeakyBucket:
      return of_word(LeakyBucket{});
    case Algorithm::kFixedWindow:
      return of_word(FixedWindow{});
    case Algorithm::kSlidingLog:
      return of_span(SlidingLog{});
    case Algorithm::kSlidingBuckets:
      return of_span(SlidingBuckets{});
    case Algorithm::kSlidingWindow:
      return of_span(SlidingWindow{});
    case Algorithm::kWeightedAverage:
      return of_span(WeightedAverage{});
    case Algorithm::kSmoothBursty:
      return of_word(SmoothBursty{});
    case Algorithm::kWarmUp:
      return of_span(WarmUp{});
    case Algorithm::kWarmUpWindow:
      return of_span(WarmUpWindow{});
    case Algorithm::kLeapArray:
      return of_span(LeapArray{});
    case Algorithm::kStepBucket:
      return of_span(StepBucket{});
  }
  return Error::InvalidArgument("algorithm: unknown");
}

Duration AnySpec::LongestWait(Algorithm algorithm, const Config& config) noexcept {
  const Duration lent = config.prioritised ? config.borrow : Duration::zero();
  switch (algorithm) {
    case Algorithm::kTokenBucket:
      return std::max(config.wait, lent);
    case Algorithm::kLeakyBucket:
    case Algorithm::kSmoothBursty:
    case Algorithm::kWarmUp:
      return config.wait;
    case Algorithm::kSlidingLog:
    case Algorithm::kSlidingBuckets:
      return lent;
    case Algorithm::kLeapArray:
      // For the half to come, and less than `borrow`.
      return std::clamp(lent - Duration(1), Duration::zero(), config.rate.window / 2);
    default:
      return Duration::zero();
  }
}

Duration AnySpec::LeastWait(int64_t cost) const noexcept {
  if (algorithm_ != Algorithm::kLeakyBucket) return Duration::zero();
  return Look(0, Instant{}, cost).wait;
}

Duration AnySpec::RetryAfterWait(int64_t cost, Duration wait, Duration wait_max) const noexcept {
  return LeastWait(cost) > wait_max ? kNever : wait - wait_max;
}

void AnySpec::DelayRetry(int64_t cost, Duration wait_max, Numbers& numbers) const noexcept {
  if (numbers.retry_after == kNever || wait_max >= longest_wait_) return;
  numbers.retry_after = RetryAfterWait(cost, numbers.retry_after + longest_wait_, wait_max);
}

Numbers AnySpec::DecideOther(int64_t& word, Instant now, int64_t cost,
                             Receipt& receipt) const noexcept {
  return OnWord(algorithm_, spec_, [&]<typename A>(A, const typename A::Spec& spec) {
    return A::Decide(spec, word, now, cost, receipt);
  });
}

void AnySpec::GiveBack(int64_t& word, const Receipt& receipt, Instant now) const noexcept {
  OnWord(algorithm_, spec_, [&]<typename A>(A, const typename A::Spec& spec) {
    A::GiveBack(spec, word, receipt, now);
  });
}

void AnySpec::Charge(int64_t& word, int64_t units, Instant now) const noexcept {
  OnWord(algorithm_, spec_,
         [&]<typename A>(A, const typename A::Spec& spec) { A::Charge(spec, word, units, now); });
}

Numbers AnySpec::TakeUpTo(int64_t& word, Instant now, int64_t cost,
                          Receipt& receipt) const noexcept {
  return OnWord(algorithm_, spec_, [&]<typename A>(A, const typename A::Spec& spec) {
    return A::TakeUpTo(spec, word, now, cost, receipt);
  });
}

Numbers AnySpec::Decide(std::span<uint64_t> state, Instant now, int64_t cost,
                        Receipt& receipt) const noexcept {
  return OnSpan(algorithm_, spec_, [&]<typename A>(A, const typename A::Spec& spec) {
    return A::Decide(spec, state, now, cost, receipt);
  });
}

Numbers AnySpec::Look(std::span<const uint64_t> state, Instant now, int64_t cost) const noexcept {
  return OnSpan(algorithm_, spec_, [&]<typename A>(A, const typename A::Spec& spec) {
    return A::Look(spec, state, now, cost);
  });
}

void AnySpec::GiveBack(std::span<uint64_t> state, const Receipt& receipt,
                       Instant now) const noexcept {
  OnSpan(algorithm_, spec_, [&]<typename A>(A, const typename A::Spec& spec) {
    A::GiveBack(spec, state, receipt, now);
  });
}

void AnySpec::Charge(std::span<uint64_t> state, int64_t units, Instant now) const noexcept {
  OnSpan(algorithm_, spec_,
         [&]<typename A>(A, const typename A::Spec& spec) { A::Charge(spec, state, units, now); });
}

Numbers AnySpec::TakeUpTo(std::span<uint64_t> state, Instant now, int64_t cost,
                          Receipt& receipt) const noexcept {
  return OnSpan(algorithm_, spec_, [&]<typename A>(A, const typename A::Spec& spec) {
    return A::TakeUpTo(spec, state, now, cost, receipt);
  });
}

Instant AnySpec::KeepUntil(std::span<const uint64_t> state) const noexcept {
  return OnSpan(algorithm_, spec_, [&]<typename A>(A, const typename A::Spec& spec) {
    return A::KeepUntil(spec, state);
  });
}

void AnySpec::Adopt(const AnySpec& old, std::span<const uint64_t> from,
                    std::span<uint64_t> to) const noexcept {
  const auto* const log = std::get_if<SlidingLog::Spec>(&spec_);
  const auto* const old_log = std::get_if<SlidingLog::Spec>(&old.spec_);
  FG_DCHECK(log != nullptr && old_log != nullptr);
  SlidingLog::Adopt(*log, to, *old_log, from);
}

}  // namespace flowguard::limit
