// SPDX-License-Identifier: Apache-2.0
#include "flowguard/keyed_limiter.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/hash.h"
#include "base/system_now.h"
#include "base/try.h"
#include "limit/token_bucket.h"
#include "store/cell_table.h"

namespace flowguard {
namespace {

// Keys whose cells are fetched together.
constexpr size_t kBatch = 32;
// How many keys before its turn a key is looked for in its first bucket, so that the
// second, which one key in six lives in, is fetched in time.
constexpr size_t kSecondAhead = 8;

}  // namespace

struct KeyedLimiter::Impl {
  limit::TokenBucket::Spec spec;
  std::unique_ptr<store::CellTable> cells;
  uint64_t seed = 0;
  const Clock* clock = nullptr;  // null: the system's, without a virtual call

  [[nodiscard]] Instant Now() const noexcept {
    return clock == nullptr ? base::SystemNow() : clock->Now();
  }

  limit::Numbers Decide(Instant now, const base::Hash128& key, int64_t cost) noexcept {
    limit::Numbers numbers;
    cells->Update(key, now, [&](int64_t& word) {
      const int64_t before = word;
      limit::Receipt receipt;
      numbers = limit::TokenBucket::Decide(spec, word, now, cost, receipt);
      return word != before;
    });
    return numbers;
  }
};

KeyedLimiter::KeyedLimiter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
KeyedLimiter::~KeyedLimiter() = default;

Result<std::unique_ptr<KeyedLimiter>> KeyedLimiter::Create(const KeyedLimiterOptions& options) {
  auto impl = std::make_unique<Impl>();
  FG_ASSIGN_OR_RETURN(impl->spec,
                      limit::TokenBucket::Make({.rate = options.rate, .burst = options.burst}));
  FG_ASSIGN_OR_RETURN(impl->cells, store::CellTable::Create(options.capacity));
  impl->seed = options.hash_seed != 0 ? options.hash_seed : base::RandomSeed();
  impl->clock = options.clock;
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
  Decision decision;
  if (cost < 0) {
    decision.verdict = Verdict::kRefuse;
    decision.reason = Reason::kInvalidCost;
    decision.retry_after = kNever;
    return decision;
  }
  const limit::Numbers numbers = impl_->Decide(now, base::HashOf(key, impl_->seed), cost);
  decision.verdict = numbers.allowed ? Verdict::kAllow : Verdict::kRefuse;
  if (!numbers.allowed) {
    // A cost that can never be had; a limit of 0 is a limit all the same.
    const bool never = numbers.retry_after == kNever && numbers.limit > 0;
    decision.reason = never ? Reason::kInvalidCost : Reason::kLimit;
  }
  decision.limit = numbers.limit;
  decision.remaining = numbers.remaining;
  decision.reset_after = numbers.reset_after;
  decision.retry_after = numbers.retry_after;
  return decision;
}

size_t KeyedLimiter::bytes() const noexcept {
  return impl_->cells->Stats().bytes;
}
uint64_t KeyedLimiter::evictions() const noexcept {
  return impl_->cells->Stats().evictions;
}

}  // namespace flowguard
