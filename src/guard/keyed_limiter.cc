// SPDX-License-Identifier: Apache-2.0
#include "flowguard/keyed_limiter.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/bounds.h"
#include "base/hash.h"
#include "base/system_now.h"
#include "base/try.h"
#include "guard/answer.h"
#include "limit/spec.h"
#include "limit/token_bucket.h"
#include "store/cell_table.h"
#include "store/state_map.h"

namespace flowguard {
namespace {

// Keys whose cells are fetched together.
constexpr size_t kBatch = 32;
// How many keys before its turn a key is looked for in its first bucket, so that the
// second, which one key in six lives in, is fetched in time.
constexpr size_t kSecondAhead = 8;
// Of a key with a larger state, all overhead counted.
constexpr size_t kStateBytes = 128;
// Of a key that there is no room for.
constexpr Duration kRetryUnknown = std::chrono::seconds(1);

}  // namespace

struct KeyedLimiter::Impl {
  limit::TokenBucket::Spec spec;          // kTokenBucket: for callers that do not wait
  std::optional<limit::AnySpec> waiting;  // for those that do; all of Guava's
  bool tokens = true;
  std::unique_ptr<store::CellTable> cells;
  std::unique_ptr<store::StateMap> states;  // in place of cells, of kWarmUp
  uint64_t seed = 0;
  const Clock* clock = nullptr;  // null: the system's, without a virtual call

  [[nodiscard]] Instant Now() const noexcept {
    return clock == nullptr ? base::SystemNow() : clock->Now();
  }
  void SleepUntil(Instant until) const noexcept {
    clock == nullptr ? base::SystemSleepUntil(until) : clock->SleepUntil(until);
  }

  limit::Numbers Decide(Instant now, const base::Hash128& key, int64_t cost) noexcept {
    if (!tokens) [[unlikely]] {
      return DecideFor(now, key, cost, Duration::zero());
    }
    limit::Numbers numbers;
    cells->Update(key, now, [&](int64_t& word) {
      const int64_t before = word;
      limit::Receipt receipt;
      numbers = limit::TokenBucket::Decide(spec, word, now, cost, receipt);
      return word != before;
    });
    return numbers;
  }

  [[gnu::noinline]] limit::Numbers DecideFor(Instant now, const base::Hash128& key, int64_t cost,
                                             Duration wait_max) noexcept {
    limit::Numbers numbers;
    if (cells != nullptr) {
      cells->Update(key, now, [&](int64_t& word) {
        const int64_t before = word;
        numbers = guard::DecideWithin(*waiting, word, now, cost, wait_max);
        return word != before;
      });
      return numbers;
    }
    const store::StateUpdate update =
        states->Update(key, waiting->words(), now, [&](std::span<uint64_t> state) {
          numbers = guard::DecideWithin(*waiting, state, now, cost, wait_max);
          return waiting->KeepUntil(state);
        });
    if (update == store::StateUpdate::kFull)
      numbers = {.limit = waiting->limit(), .retry_after = kRetryUnknown};
    return numbers;
  }
};

KeyedLimiter::KeyedLimiter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
KeyedLimiter::~KeyedLimiter() = default;

Result<std::unique_ptr<KeyedLimiter>> KeyedLimiter::Create(const KeyedLimiterOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->seed = options.hash_seed != 0 ? options.hash_seed : base::RandomSeed();
  impl->clock = options.clock;
  impl->tokens = options.algorithm == Algorithm::kTokenBucket;
  limit::Config config{.rate = options.rate, .burst = options.burst};
  if (impl->tokens) {
    FG_ASSIGN_OR_RETURN(impl->spec, limit::TokenBucket::Make(config));
  }
  config.wait = options.wait;
  if (config.wait == Duration::zero()) {
    config.wait =
        std::min<Duration>(base::kWaitMax, Duration(base::kHorizonNsMax - impl->spec.capacity_ns));
  }
  config.warm_up = options.warm_up;
  config.cold_factor = options.cold_factor;
  if (impl->tokens) {
    FG_ASSIGN_OR_RETURN(const auto waiting, limit::TokenBucket::Make(config));
    // A word that those who wait have left is no sign of a clock that stepped back.
    impl->spec.step_ns = waiting.step_ns;
    FG_ASSIGN_OR_RETURN(impl->waiting, limit::AnySpec::Make(options.algorithm, config));
  } else {
    FG_ASSIGN_OR_RETURN(impl->waiting, guard::MakeSmooth(options.algorithm, config, impl->Now()));
  }
  if (impl->waiting->one_word()) {
    FG_ASSIGN_OR_RETURN(impl->cells, store::CellTable::Create(options.capacity));
  } else {
    if (options.capacity > base::kCellCapacityMax) {
      return Error::InvalidArgument("capacity: found " + std::to_string(options.capacity) +
                                    "; at most " + std::to_string(base::kCellCapacityMax));
    }
    FG_ASSIGN_OR_RETURN(impl->states, store::StateMap::Create(std::max(
                                          options.capacity * kStateBytes, base::kStateBytesMin)));
  }
  return std::unique_ptr<KeyedLimiter>(new KeyedLimiter(std::move(impl)));
}

bool KeyedLimiter::TryAcquire(std::string_view key, int64_t cost) noexcept {
  return TryAcquireAt(impl_->Now(), key, cost);
}

bool KeyedLimiter::TryAcquireAt(Instant now, std::string_view key, int64_t cost) noexcept {
  if (cost < 0) return false;
  return impl_->Decide(now, base::HashOf(key, impl_->seed), cost).allowed;
}

void KeyedLimiter::TryAcquireBatch(Instant now, std::span<const std::string_view> keys,
                                   std::span<bool> allowed) noexcept {
  std::array<base::Hash128, kBatch> hashes;
  if (impl_->cells == nullptr) {
    for (size_t i = 0; i < keys.size(); ++i)
      allowed[i] = impl_->Decide(now, base::HashOf(keys[i], impl_->seed), 1).allowed;
    return;
  }
  for (size_t begin = 0; begin < keys.size(); begin += kBatch) {
    const size_t count = std::min(kBatch, keys.size() - begin);
    for (size_t i = 0; i < count; ++i) {
      hashes[i] = base::HashOf(keys[begin + i], impl_->seed);
      impl_->cells->Prefetch(hashes[i]);
    }
    for (size_t i = 0; i < std::min(count, kSecondAhead); ++i)
      impl_->cells->PrefetchSecond(hashes[i]);
    for (size_t i = 0; i < count; ++i) {
      if (i + kSecondAhead < count) impl_->cells->PrefetchSecond(hashes[i + kSecondAhead]);
      allowed[begin + i] = impl_->Decide(now, hashes[i], 1).allowed;
    }
  }
}

Decision KeyedLimiter::CheckAt(Instant now, std::string_view key, int64_t cost) noexcept {
  if (cost < 0) return guard::InvalidCost(impl_->waiting->limit());
  return guard::DecisionOf(impl_->Decide(now, base::HashOf(key, impl_->seed), cost));
}

Decision KeyedLimiter::CheckFor(Duration timeout, std::string_view key, int64_t cost) noexcept {
  if (cost < 0) return guard::InvalidCost(impl_->waiting->limit());
  const Instant now = impl_->Now();
  Decision decision = guard::DecisionOf(impl_->DecideFor(now, base::HashOf(key, impl_->seed), cost,
                                                         std::max(timeout, Duration::zero())));
  if (decision.verdict == Verdict::kWait) {
    impl_->SleepUntil(now + decision.wait);
    decision.verdict = Verdict::kAllow;
    decision.wait = Duration::zero();
  }
  return decision;
}

size_t KeyedLimiter::bytes() const noexcept {
  return impl_->cells != nullptr ? impl_->cells->Stats().bytes : impl_->states->Stats().bytes;
}
uint64_t KeyedLimiter::evictions() const noexcept {
  return impl_->cells != nullptr ? impl_->cells->Stats().evictions
                                 : impl_->states->Stats().evictions;
}

}  // namespace flowguard
