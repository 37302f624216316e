// SPDX-License-Identifier: Apache-2.0
//
// All regular expressions for resources of a rule set, and which of them a name matches.
//
// A name is matched against every expression once, then remembered as one bit for each, in
// a table of kRegexMemoMax slots by its hash: a later name takes the slot of an earlier one.
// A slot is two words without a lock.  The first is the name's hash mixed with the second,
// so that a slot which is half of one name and half of another is no name's.
//
// Threads: immutable once built, but for the table of what is remembered: any thread.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "flowguard/regex.h"
#include "flowguard/result.h"

#include "base/bounds.h"
#include "rules/hits.h"

namespace flowguard::rules {

class RegexIndex {
 public:
  // Errors: those of RegexEngine::Compile.
  [[nodiscard]] Result<void> Add(const std::string& pattern, const Entry& entry,
                                 const RegexEngine& engine);
  // After the last Add.
  void Finish();

  [[nodiscard]] bool empty() const noexcept { return patterns_.empty(); }
  // Of all rules that have an expression.
  [[nodiscard]] std::span<const Entry> entries() const noexcept { return entries_; }

  // Calls found(entries) for every expression that matches the whole of `resource`.
  // Requires: !empty(), at most kRulesPerRequestMax entries.
  // Cost: a hash and two loads for a name that is remembered; for another one match an
  // expression, in which the engine may allocate.
  template <typename Found>
  void Walk(std::string_view resource, Found&& found) const noexcept {
    for (uint64_t matching = Matching(resource); matching != 0; matching &= matching - 1) {
      const EntrySpan span = patterns_[static_cast<size_t>(std::countr_zero(matching))].entries;
      found(std::span<const Entry>(entries_.data() + span.begin, span.count));
    }
  }

 private:
  struct Pattern {
    std::string text;
    std::unique_ptr<const Regex> regex;
    uint32_t list = 0;
    EntrySpan entries;
  };
  static_assert(base::kRulesPerRequestMax <= 64, "a bit for each expression");
  static_assert(std::has_single_bit(base::kRegexMemoMax));

  struct alignas(16) Slot {
    std::atomic<uint64_t> check{0};
    std::atomic<uint64_t> matching{0};
  };

  // Bit i: pattern i matches.
  [[nodiscard]] uint64_t Matching(std::string_view resource) const noexcept;

  std::vector<Pattern> patterns_;
  std::vector<Entry> entries_;
  EntryLists lists_;   // while building
  uint64_t seed_ = 0;  // secret: nobody can make up a name that stands for another
  std::unique_ptr<Slot[]> memo_;
};

}  // namespace flowguard::rules
