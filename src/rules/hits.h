// SPDX-License-Identifier: Apache-2.0
//
// What the indexes hold for a rule, and where they put what they find for one
// request.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "flowguard/rule.h"

#include "base/bounds.h"
#include "base/check.h"

namespace flowguard::rules {

// Bit i: the method numbered i; the last bit: every method that no rule names.
using MethodBits = uint64_t;
inline constexpr MethodBits kAnyMethod = ~MethodBits{0};
inline constexpr unsigned kOtherMethod = 63;

// One rule by one half of its target.  Without initialisers, so that arrays of it
// can be left unwritten.
struct Entry {
  MethodBits methods;
  uint32_t order;  // place in the order of evaluation
  uint32_t rank;   // the higher, the more specific
  uint32_t rule;   // index in RuleSet::rules
  RuleKind kind;
  bool shadow : 1;
  bool conditional : 1;  // the target has conditions
  bool by_route;
  bool related;  // by Rule::relate_to: the request is what the rule counts
};
static_assert(sizeof(Entry) == 24, "copied for every rule that a request meets");

// Entries of one target, in the array that holds them all.
struct EntrySpan {
  uint32_t begin = 0;
  uint32_t count = 0;
};

// The entries of one request, in order of evaluation, each rule once.
class Hits {
 public:
  Hits() noexcept {}  // NOLINT(modernize-use-equals-default): leaves the array as it is

  // Requires: at most kRulesPerRequestMax rules, which Matcher::Build proves.
  void Add(const Entry& entry) noexcept {
    size_t at = size_;
    while (at > 0 && entries_[at - 1].order > entry.order)
      --at;
    if (at > 0 && entries_[at - 1].order == entry.order) {
      Entry& same = entries_[at - 1];
      same.by_route |= entry.by_route;
      same.related |= entry.related;
      if (entry.rank > same.rank) same.rank = entry.rank;
      return;
    }
    FG_CHECK(size_ < entries_.size());
    for (size_t i = size_; i > at; --i)
      entries_[i] = entries_[i - 1];
    entries_[at] = entry;
    ++size_;
  }

  // Those of `found` that take the method numbered `method`.  Out of line, and called
  // once or twice a request: inlined at every place, it takes the registers from the
  // walk over the path.
  [[gnu::noinline]] void AddFor(std::span<const Entry> found, unsigned method) noexcept {
    for (const Entry& entry : found) {
      if (((entry.methods >> method) & 1) != 0) Add(entry);
    }
  }

  // Takes out the entries of which drop(entry) is true.
  template <typename Drop>
  void Remove(Drop&& drop) noexcept {
    size_t kept = 0;
    for (size_t i = 0; i < size_; ++i) {
      if (!drop(entries_[i])) entries_[kept++] = entries_[i];
    }
    size_ = kept;
  }

  [[nodiscard]] std::span<const Entry> entries() const noexcept { return {entries_.data(), size_}; }

 private:
  size_t size_ = 0;
  std::array<Entry, base::kRulesPerRequestMax> entries_;
};

// Collects the entries of many targets while an index is built, then lays each
// target's side by side.
class EntryLists {
 public:
  // A new list's number, from 1.  List 0 is always empty.
  uint32_t NewList() {
    lists_.emplace_back();
    return static_cast<uint32_t>(lists_.size());
  }
  void Add(uint32_t list, const Entry& entry) { lists_[list - 1].push_back(entry); }
  [[nodiscard]] EntrySpan Lay(uint32_t list, std::vector<Entry>& entries) const {
    if (list == 0) return {};
    const EntrySpan span{static_cast<uint32_t>(entries.size()),
                         static_cast<uint32_t>(lists_[list - 1].size())};
    entries.insert(entries.end(), lists_[list - 1].begin(), lists_[list - 1].end());
    return span;
  }

 private:
  std::vector<std::vector<Entry>> lists_;
};

}  // namespace flowguard::rules
