// SPDX-License-Identifier: Apache-2.0
#include "rules/resource_index.h"

#include <algorithm>

namespace flowguard::rules {

void ResourceIndex::Add(const ResourcePattern& pattern, const Entry& entry) {
  if (pattern.prefix) {
    const auto fresh = static_cast<uint32_t>(prefixes_.size());
    const uint32_t at = prefix_numbers_.Insert(0, pattern.text, fresh);
    if (at == fresh) {
      prefixes_.emplace_back();
      prefixes_.back().text = pattern.text;
      prefixes_.back().list = lists_.NewList();
    }
    lists_.Add(prefixes_[at].list, entry);
    return;
  }
  const auto fresh = static_cast<uint32_t>(exact_lists_.size());
  const uint32_t at = exact_.Insert(0, pattern.text, fresh);
  if (at == fresh) exact_lists_.push_back(lists_.NewList());
  lists_.Add(exact_lists_[at], entry);
}

void ResourceIndex::Finish() {
  for (const uint32_t list : exact_lists_)
    exact_entries_.push_back(lists_.Lay(list, entries_));
  std::sort(prefixes_.begin(), prefixes_.end(),
            [](const Prefix& a, const Prefix& b) { return a.text < b.text; });
  for (size_t i = 0; i < prefixes_.size(); ++i) {
    Prefix& prefix = prefixes_[i];
    prefix.entries = lists_.Lay(prefix.list, entries_);
    if (i == 0) continue;
    auto shorter = static_cast<uint32_t>(i - 1);
    while (shorter != kNone && !prefix.text.starts_with(prefixes_[shorter].text))
      shorter = prefixes_[shorter].shorter;
    prefix.shorter = shorter;
  }
}

uint32_t ResourceIndex::Candidate(std::string_view resource) const noexcept {
  const auto behind =
      std::upper_bound(prefixes_.begin(), prefixes_.end(), resource,
                       [](std::string_view text, const Prefix& p) { return text < p.text; });
  return static_cast<uint32_t>(behind - prefixes_.begin()) - 1;  // none before: kNone
}

std::vector<std::string> ResourceIndex::WorstNames() const {
  std::vector<std::string> names;
  for (const TextTable::Item& item : exact_.Items())
    names.emplace_back(item.text);
  for (const Prefix& prefix : prefixes_)
    names.push_back(prefix.text);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace flowguard::rules
