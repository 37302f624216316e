// SPDX-License-Identifier: Apache-2.0
#include "serve/open_entries.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "base/check.h"
#include "base/hash.h"

namespace flowguard::serve {
namespace {

void AppendHex(uint64_t value, std::string& out) {
  constexpr char kHex[] = "0123456789abcdef";
  for (int shift = 60; shift >= 0; shift -= 4)
    out += kHex[(value >> shift) & 0xf];
}

std::optional<uint64_t> ParseHex(std::string_view text) noexcept {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::string EntryId::ToString() const {
  std::string text;
  AppendHex(high, text);
  AppendHex(low, text);
  return text;
}

std::optional<EntryId> EntryId::Parse(std::string_view text) noexcept {
  if (text.size() != 32) return std::nullopt;
  const auto high = ParseHex(text.substr(0, 16));
  const auto low = ParseHex(text.substr(16));
  if (!high || !low) return std::nullopt;
  return EntryId{*high, *low};
}

OpenEntries::~OpenEntries() {
  const base::MutexLock lock(mutex_);
  for (auto& [id, entry] : open_) {
    engine_.Settle(*entry.attempt, Outcome::kCancelled, std::nullopt, latest_);
  }
}

std::optional<EntryId> OpenEntries::Add(std::unique_ptr<engine::Attempt>& attempt,
                                        Instant expires) {
  FG_DCHECK(attempt->entered());
  const EntryId id{base::RandomSeed(), base::RandomSeed()};
  const base::MutexLock lock(mutex_);
  if (open_.size() >= open_max_) {
    ++counters_.refused;
    return std::nullopt;
  }
  const bool fresh = open_.try_emplace(id, Open{std::move(attempt), expires}).second;
  FG_CHECK(fresh);
  by_expiry_.emplace(expires, id);
  return id;
}

bool OpenEntries::End(EntryId id, Outcome outcome, std::optional<int64_t> actual_cost,
                      Instant now) {
  std::unique_ptr<engine::Attempt> attempt;
  {
    const base::MutexLock lock(mutex_);
    latest_ = std::max(latest_, now);
    const auto found = open_.find(id);
    // One that is due is left to Expire: its time is over, whoever comes first.
    if (found == open_.end() || found->second.expires <= now) return false;
    attempt = std::move(found->second.attempt);
    by_expiry_.erase({found->second.expires, id});
    open_.erase(found);
    ++counters_.settled;
  }
  engine_.Settle(*attempt, outcome, actual_cost, now);
  return true;
}

size_t OpenEntries::Expire(Instant now) {
  std::vector<std::unique_ptr<engine::Attempt>> due;
  {
    const base::MutexLock lock(mutex_);
    latest_ = std::max(latest_, now);
    while (!by_expiry_.empty() && by_expiry_.begin()->first <= now) {
      const auto found = open_.find(by_expiry_.begin()->second);
      due.push_back(std::move(found->second.attempt));
      open_.erase(found);
      by_expiry_.erase(by_expiry_.begin());
    }
    counters_.expired += due.size();
  }
  for (const auto& attempt : due) {
    engine_.Settle(*attempt, Outcome::kCancelled, std::nullopt, now);
  }
  return due.size();
}

OpenEntriesCounters OpenEntries::Counters() const {
  const base::MutexLock lock(mutex_);
  OpenEntriesCounters counters = counters_;
  counters.open = open_.size();
  return counters;
}

}  // namespace flowguard::serve
