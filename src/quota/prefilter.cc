// SPDX-License-Identifier: Apache-2.0
#include "quota/prefilter.h"

#include <algorithm>

#include "quota/cell_server.h"

namespace flowguard::quota {
namespace {

constexpr int64_t kNsPerUs = 1'000;

// On the line that windows are aligned to.
Instant AtUs(int64_t now_us) noexcept {
  return Instant(Duration((now_us - kWindowsSinceUs) * kNsPerUs));
}

bool IsMonotone(Algorithm algorithm) noexcept {
  return algorithm == Algorithm::kTokenBucket || algorithm == Algorithm::kLeakyBucket ||
         algorithm == Algorithm::kSlidingWindow || algorithm == Algorithm::kFixedWindow;
}

}  // namespace

void Prefilter::Enable(Algorithm algorithm, const limit::Config& config) {
  Clear();
  if (!IsMonotone(algorithm)) return;
  Result<limit::AnySpec> spec = limit::AnySpec::Make(algorithm, config);
  if (!spec.ok() || spec->words() > kWordsMax) return;
  spec_ = *spec;
  enabled_ = true;
}

void Prefilter::Clear() noexcept {
  enabled_ = false;
  spec_.reset();
  ahead_ns_.reset();
  Forget();
}

void Prefilter::Sync(Instant sent, Instant received, int64_t now_us) noexcept {
  if (!enabled_) return;
  const int64_t server_ns = AtUs(now_us).time_since_epoch().count();
  const int64_t most = server_ns + kNsPerUs - sent.time_since_epoch().count();
  const int64_t least = server_ns - received.time_since_epoch().count();
  // Below the least that it can be now: the clock was set, or another server has taken over.
  const bool stale = ahead_ns_ && *ahead_ns_ < least;
  ahead_ns_ = ahead_ns_ && !stale ? std::min(*ahead_ns_, most) : most;
}

void Prefilter::Took(int64_t now_us, int64_t cost, int32_t times) noexcept {
  if (!enabled_ || AtUs(now_us) < Instant()) return;
  limit::Receipt receipt;
  for (int32_t i = 0; i < times; ++i) {
    if (spec_->one_word()) {
      spec_->Decide(word_, AtUs(now_us), cost, receipt);
    } else {
      spec_->Decide(state(), AtUs(now_us), cost, receipt);
    }
  }
}

void Prefilter::Forget() noexcept {
  word_ = 0;
  words_.fill(0);
}

std::optional<limit::Numbers> Prefilter::Refusal(Instant now, int64_t cost) const noexcept {
  if (!enabled_ || !ahead_ns_) return std::nullopt;
  const Instant server_now = now + Duration(*ahead_ns_);
  if (server_now < Instant()) return std::nullopt;
  const limit::Numbers numbers = spec_->one_word() ? spec_->Look(word_, server_now, cost)
                                                   : spec_->Look(state(), server_now, cost);
  if (numbers.allowed) return std::nullopt;
  return numbers;
}

}  // namespace flowguard::quota
