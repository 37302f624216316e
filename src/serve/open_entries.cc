// SPDX-License-Identifier: Apache-2.0
#include "serve/open_entries.h"

#include <algorithm>
#include <charconv>
#include <iterator>

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

void StoreDues::Pass(const engine::Attempt& attempt) noexcept {
  for (const engine::Attempt::StoreDue& due : attempt.store_dues()) {
    if (due.charge > 0) {
      store_.Charge(*due.take, due.charge, loop_.Now());
    } else {
      store_.GiveBack(*due.take, due.receipt, loop_.Now());
    }
  }
}

void StoreDues::Bring(std::unique_ptr<engine::Attempt> attempt) {
  const base::MutexLock lock(mutex_);
  if (closed_) return;
  brought_.push_back(std::move(attempt));
  if (brought_.size() > 1) return;  // the loop has been told
  // Under the lock: the loop may be gone once this is closed.
  loop_.Post([dues = weak_from_this()] {
    if (const auto alive = dues.lock()) alive->PassBrought();
  });
}

void StoreDues::PassBrought() noexcept {
  std::vector<std::unique_ptr<engine::Attempt>> brought;
  {
    const base::MutexLock lock(mutex_);
    brought.swap(brought_);
  }
  for (const auto& attempt : brought)
    Pass(*attempt);
}

void StoreDues::Close() noexcept {
  {
    const base::MutexLock lock(mutex_);
    closed_ = true;
  }
  PassBrought();
}

OpenEntries::~OpenEntries() {
  const base::MutexLock lock(mutex_);
  for (auto& [id, entry] : open_) {
    Settle(std::move(entry), Outcome::kCancelled, std::nullopt, latest_);
  }
}

std::optional<EntryId> OpenEntries::Add(std::unique_ptr<engine::Attempt>& attempt,
                                        const http::IpAddress& peer, Instant expires,
                                        std::shared_ptr<StoreDues> dues) {
  const EntryId id{base::RandomSeed(), base::RandomSeed()};
  if (!AddAs(id, attempt, peer, expires, std::move(dues))) return std::nullopt;
  return id;
}

bool OpenEntries::AddAs(EntryId id, std::unique_ptr<engine::Attempt>& attempt,
                        const http::IpAddress& peer, Instant expires,
                        std::shared_ptr<StoreDues> dues) {
  FG_DCHECK(attempt->entered());
  const base::MutexLock lock(mutex_);
  const auto mine = open_of_peer_.find(peer.bytes());
  const bool peer_full = mine != open_of_peer_.end() && mine->second >= per_peer_max_;
  if (open_.size() >= open_max_ || peer_full || open_.contains(id)) {
    ++counters_.refused;
    return false;
  }
  open_.emplace(id, Open{std::move(attempt), expires, peer.bytes(), std::move(dues)});
  by_expiry_.emplace(expires, id);
  ++open_of_peer_[peer.bytes()];
  return true;
}

OpenEntries::Open OpenEntries::Remove(OpenMap::iterator at) {
  const auto mine = open_of_peer_.find(at->second.peer);
  if (--mine->second == 0) open_of_peer_.erase(mine);
  by_expiry_.erase({at->second.expires, at->first});
  Open entry = std::move(at->second);
  open_.erase(at);
  return entry;
}

void OpenEntries::Settle(Open entry, std::optional<Outcome> outcome,
                         std::optional<int64_t> actual_cost, Instant now) {
  outcome ? engine_.Settle(*entry.attempt, *outcome, actual_cost, now)
          : engine_.Abandon(*entry.attempt, now);
  if (entry.dues != nullptr && !entry.attempt->store_dues().empty()) {
    entry.dues->Bring(std::move(entry.attempt));
  }
}

bool OpenEntries::End(EntryId id, Outcome outcome, std::optional<int64_t> actual_cost,
                      Instant now) {
  Open entry;
  {
    const base::MutexLock lock(mutex_);
    latest_ = std::max(latest_, now);
    const auto found = open_.find(id);
    // One that is due is left to Expire: its time is over, whoever comes first.
    if (found == open_.end() || found->second.expires <= now) return false;
    entry = Remove(found);
    ++counters_.settled;
  }
  Settle(std::move(entry), outcome, actual_cost, now);
  return true;
}

size_t OpenEntries::Expire(Instant now) {
  std::vector<Open> due;
  {
    const base::MutexLock lock(mutex_);
    latest_ = std::max(latest_, now);
    while (!by_expiry_.empty() && by_expiry_.begin()->first <= now) {
      due.push_back(Remove(open_.find(by_expiry_.begin()->second)));
    }
    counters_.expired += due.size();
  }
  // Nobody told how these calls ended, which says nothing of what was called.
  for (Open& entry : due)
    Settle(std::move(entry), std::nullopt, std::nullopt, now);
  return due.size();
}

void OpenEntries::SettleOwing(const StoreDues& dues, Instant now) {
  std::vector<Open> owing;
  {
    const base::MutexLock lock(mutex_);
    for (auto at = open_.begin(); at != open_.end();) {
      const auto next = std::next(at);
      if (at->second.dues.get() == &dues) owing.push_back(Remove(at));
      at = next;
    }
  }
  for (Open& entry : owing)
    Settle(std::move(entry), std::nullopt, std::nullopt, now);
}

OpenEntriesCounters OpenEntries::Counters() const {
  const base::MutexLock lock(mutex_);
  OpenEntriesCounters counters = counters_;
  counters.open = open_.size();
  return counters;
}

}  // namespace flowguard::serve
