// SPDX-License-Identifier: Apache-2.0
#include "dialects/sentinel/differences.h"

#include <utility>

namespace flowguard::dialects::sentinel {

std::string LineOf(const Difference& difference) {
  std::string line;
  if (!difference.at.place.empty()) line += difference.at.place + ": ";
  line += difference.at.told;
  if (difference.more > 0) line += " (and " + std::to_string(difference.more) + " more)";
  line += ": " + difference.field;
  if (difference.left_out) line += ": the rule is left out";
  return line + ": Sentinel " + difference.sentinel + "; FlowGuard " + difference.flowguard;
}

void Differences::Note(const RuleAt& at, std::string_view field, std::string sentinel,
                       std::string flowguard) {
  all_.push_back({at, std::string(field), std::move(sentinel), std::move(flowguard)});
}

void Differences::LeaveOut(const RuleAt& at, std::string_view field, std::string sentinel,
                           std::string flowguard) {
  Note(at, field, std::move(sentinel), std::move(flowguard));
  all_.back().left_out = true;
}

void Differences::NoteOfMany(const RuleAt& at, std::string_view field, std::string_view sentinel,
                             std::string_view flowguard) {
  std::string key(field);
  key.append("\n").append(sentinel).append("\n").append(flowguard);
  const auto [found, is_new] = of_many_.emplace(std::move(key), all_.size());
  if (is_new) {
    Note(at, field, std::string(sentinel), std::string(flowguard));
  } else {
    ++all_[found->second].more;
  }
}

}  // namespace flowguard::dialects::sentinel
