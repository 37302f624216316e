// SPDX-License-Identifier: Apache-2.0
#include "rules/faults.h"

#include <algorithm>

#include "base/edit_distance.h"
#include "rules/dimension.h"

namespace flowguard::rules {

namespace {

std::string Lowered(std::string_view word) {
  std::string lowered(word);
  for (char& c : lowered)
    c = AsciiLower(c);
  return lowered;
}

}  // namespace

std::string WhereOf(const Rule& rule, size_t index) {
  std::string where = rule.origin.empty() ? "" : rule.origin + ": ";
  if (rule.name.empty()) return where + "rule #" + std::to_string(index + 1);
  return where + "rule \"" + rule.name + "\"";
}

std::string OneLine(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  }
  return text;
}

std::string DidYouMean(std::string_view word, const std::vector<std::string>& candidates) {
  if (word.size() > base::kEditWordBytesMax) return {};
  const std::string lowered = Lowered(word);
  const std::string* best = nullptr;
  size_t least = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > base::kEditWordBytesMax) continue;
    const size_t distance = base::EditDistance(lowered, Lowered(candidate));
    if (distance >= least) continue;
    least = distance;
    best = &candidate;
  }
  return best == nullptr ? std::string() : "; did you mean \"" + *best + "\"?";
}

}  // namespace flowguard::rules
