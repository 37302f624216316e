// SPDX-License-Identifier: Apache-2.0
#include "rules/faults.h"

#include <algorithm>

#include "rules/dimension.h"

namespace flowguard::rules {

namespace {

constexpr size_t kWordBytesMax = 64;

// Edits (insert, delete, replace) that turn `a` into `b`; case costs nothing.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (AsciiLower(a[i - 1]) == AsciiLower(b[j - 1]) ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
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
  if (word.size() > kWordBytesMax) return {};
  const std::string* best = nullptr;
  size_t least = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kWordBytesMax) continue;
    const size_t distance = Distance(word, candidate);
    if (distance >= least) continue;
    least = distance;
    best = &candidate;
  }
  return best == nullptr ? std::string() : "; did you mean \"" + *best + "\"?";
}

}  // namespace flowguard::rules
