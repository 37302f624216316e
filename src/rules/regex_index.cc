// SPDX-License-Identifier: Apache-2.0
#include "rules/regex_index.h"

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "base/try.h"

namespace flowguard::rules {

Result<void> RegexIndex::Add(const std::string& pattern, const Entry& entry,
                             const RegexEngine& engine) {
  auto known = std::find_if(patterns_.begin(), patterns_.end(),
                            [&](const Pattern& one) { return one.text == pattern; });
  if (known == patterns_.end()) {
    FG_ASSIGN_OR_RETURN(auto regex, engine.Compile(pattern));
    patterns_.push_back({pattern, std::move(regex), lists_.NewList(), {}});
    known = patterns_.end() - 1;
  }
  lists_.Add(known->list, entry);
  return {};
}

void RegexIndex::Finish() {
  if (patterns_.empty()) return;
  for (Pattern& pattern : patterns_)
    pattern.entries = lists_.Lay(pattern.list, entries_);
  seed_ = base::RandomSeed();
  memo_ = std::make_unique<Slot[]>(base::kRegexMemoMax);
}

uint64_t RegexIndex::Matching(std::string_view resource) const noexcept {
  constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;
  const uint64_t hash = base::Hash64(resource, seed_) | 1;  // 0: nothing is remembered
  Slot& slot = memo_[(hash >> 32) % base::kRegexMemoMax];
  const uint64_t remembered = slot.matching.load(std::memory_order_relaxed);
  if ((slot.check.load(std::memory_order_relaxed) ^ (remembered * kFactor)) == hash)
    return remembered;
  uint64_t matching = 0;
  for (size_t i = 0; i < patterns_.size(); ++i) {
    if (patterns_[i].regex->MatchesWhole(resource)) matching |= uint64_t{1} << i;
  }
  slot.matching.store(matching, std::memory_order_relaxed);
  slot.check.store(hash ^ (matching * kFactor), std::memory_order_relaxed);
  return matching;
}

}  // namespace flowguard::rules
