// SPDX-License-Identifier: Apache-2.0
//
// What a conversion between Sentinel's rules and FlowGuard's changes: one entry for
// each field whose meaning is another one afterwards, or that the other side cannot say.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace flowguard::dialects::sentinel {

// A rule as reports name it.
struct RuleAt {
  std::string place;  // "flow-rules.json:3:5"; empty where it is not known
  std::string told;   // "flow rule #2", or `rule "orders"`
};

struct Difference {
  RuleAt at;
  std::string field;      // as it is written where the rule comes from
  std::string sentinel;   // what Sentinel does
  std::string flowguard;  // what FlowGuard does
  bool left_out = false;  // the rule has no counterpart on the other side
  size_t more = 0;        // further rules of which the same is true
};

// "flow-rules.json:3:5: flow rule #2: count: Sentinel ...; FlowGuard ...".
[[nodiscard]] std::string LineOf(const Difference& difference);

// Threads: one owner.
class Differences {
 public:
  // Of this rule alone.
  void Note(const RuleAt& at, std::string_view field, std::string sentinel, std::string flowguard);
  // The rule is not converted.
  void LeaveOut(const RuleAt& at, std::string_view field, std::string sentinel,
                std::string flowguard);
  // Of many rules: told with the first of them, and how many more there are.
  void NoteOfMany(const RuleAt& at, std::string_view field, std::string_view sentinel,
                  std::string_view flowguard);

  // In the order in which they were noted.
  [[nodiscard]] std::vector<Difference> Take() { return std::move(all_); }

 private:
  std::vector<Difference> all_;
  std::map<std::string, size_t, std::less<>> of_many_;  // by field and texts, into all_
};

}  // namespace flowguard::dialects::sentinel
