// SPDX-License-Identifier: Apache-2.0
//
// All resource targets of a rule set: exact names in a hash table, prefixes in
// sorted order, each with the next shorter one that it begins with.
//
// The prefixes of a name are the chain that starts at the greatest prefix which does
// not sort behind the name: anything between a prefix of the name and the name
// itself begins with that prefix too.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rules/hits.h"
#include "rules/route.h"
#include "rules/text_table.h"

namespace flowguard::rules {

class ResourceIndex {
 public:
  void Add(const ResourcePattern& pattern, const Entry& entry);
  // After the last Add.
  void Finish();

  // Calls found(entries) for every pattern that `resource` matches.
  template <typename Found>
  void Walk(std::string_view resource, Found&& found) const noexcept {
    if (exact_.size() != 0) {
      const uint32_t at = exact_.Find(0, resource);
      if (at != TextTable::kNone) found(EntriesOf(exact_entries_[at]));
    }
    if (prefixes_.empty()) return;
    for (uint32_t at = Candidate(resource); at != kNone; at = prefixes_[at].shorter) {
      if (resource.starts_with(prefixes_[at].text)) found(EntriesOf(prefixes_[at].entries));
    }
  }

  // Names such that some one of them meets as many rules as any name can.
  [[nodiscard]] std::vector<std::string> WorstNames() const;

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};

  struct Prefix {
    std::string text;
    uint32_t shorter = kNone;
    uint32_t list = 0;
    EntrySpan entries;
  };

  // The greatest prefix that does not sort behind `resource`.
  [[nodiscard]] uint32_t Candidate(std::string_view resource) const noexcept;
  [[nodiscard]] std::span<const Entry> EntriesOf(EntrySpan span) const noexcept {
    return {entries_.data() + span.begin, span.count};
  }

  TextTable exact_;
  std::vector<EntrySpan> exact_entries_;
  std::vector<Prefix> prefixes_;  // sorted by text
  std::vector<Entry> entries_;

  // While building.
  EntryLists lists_;
  std::vector<uint32_t> exact_lists_;
  TextTable prefix_numbers_;
};

}  // namespace flowguard::rules
