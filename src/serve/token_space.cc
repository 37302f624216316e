// SPDX-License-Identifier: Apache-2.0
#include "serve/token_space.h"

#include <algorithm>
#include <chrono>

#include "base/check.h"

namespace flowguard::serve {
namespace {

constexpr int64_t kSecondNs = Duration(std::chrono::seconds(1)).count();

}  // namespace

void QuestionGuard::Set(int64_t most) noexcept {
  FG_DCHECK(most >= 1 && most <= base::kRatePerSecondMax);
  const int64_t interval_ns = (kSecondNs - 1) / most + 1;
  interval_ns_.store(interval_ns, std::memory_order_relaxed);
  capacity_ns_.store(interval_ns * most, std::memory_order_relaxed);
}

bool QuestionGuard::Pass(Instant now) noexcept {
  const int64_t now_ns = now.time_since_epoch().count();
  const int64_t interval_ns = interval_ns_.load(std::memory_order_relaxed);
  const int64_t capacity_ns = capacity_ns_.load(std::memory_order_relaxed);
  int64_t tat_ns = tat_ns_.load(std::memory_order_relaxed);
  for (;;) {
    // So far ahead that the clock must have stepped back: full again in its own time.
    const bool stepped = tat_ns - now_ns > capacity_ns + base::kLateStampMax.count();
    const int64_t from_ns = stepped ? now_ns : std::max(tat_ns, now_ns);
    const int64_t after_ns = from_ns + interval_ns;
    if (after_ns - now_ns > capacity_ns) return false;
    if (tat_ns_.compare_exchange_weak(tat_ns, after_ns, std::memory_order_relaxed)) return true;
  }
}

std::array<uint64_t, kTokenStatuses> TokenSpace::Answered() const noexcept {
  std::array<uint64_t, kTokenStatuses> sum{};
  for (const Line& line : lines_) {
    for (size_t place = 0; place < sum.size(); ++place)
      sum[place] += line.answered[place].load(std::memory_order_relaxed);
  }
  return sum;
}

size_t TokenClients::Join(std::string_view name_space) {
  const base::MutexLock lock(mutex_);
  ++all_;
  const auto found = clients_.find(name_space);
  if (found != clients_.end()) return ++found->second;
  return clients_.emplace(name_space, 1).first->second;
}

void TokenClients::Leave(std::string_view name_space) {
  const base::MutexLock lock(mutex_);
  const auto found = clients_.find(name_space);
  FG_CHECK(found != clients_.end());
  --all_;
  if (--found->second == 0) clients_.erase(found);
}

size_t TokenClients::In(std::string_view name_space) const {
  const base::MutexLock lock(mutex_);
  const auto found = clients_.find(name_space);
  return found == clients_.end() ? 0 : found->second;
}

size_t TokenClients::InAll() const {
  const base::MutexLock lock(mutex_);
  return all_;
}

}  // namespace flowguard::serve
