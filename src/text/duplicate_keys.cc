// SPDX-License-Identifier: Apache-2.0
#include "text/duplicate_keys.h"

#include <algorithm>

namespace flowguard::text {

namespace {

DuplicateKey Told(const Member& removed, const Member& kept, KeepOfDuplicates keep) {
  const std::string kept_at =
      std::to_string(kept.key_at.line) + ":" + std::to_string(kept.key_at.column);
  return {removed.key_at,
          "duplicate key " + Quote(removed.key) +
              (keep == KeepOfDuplicates::kFirst ? "; it is at " + kept_at + " already"
                                                : "; the last one counts, at " + kept_at)};
}

}  // namespace

std::vector<DuplicateKey> TakeDuplicateKeys(Node& map, KeepOfDuplicates keep) {
  std::vector<size_t> order(map.members.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  // The one that stays comes first of those with its key.
  std::sort(order.begin(), order.end(), [&map, keep](size_t a, size_t b) {
    const int compared = map.members[a].key.compare(map.members[b].key);
    if (compared != 0) return compared < 0;
    return keep == KeepOfDuplicates::kFirst ? a < b : a > b;
  });

  std::vector<DuplicateKey> duplicates;
  std::vector<bool> repeated(order.size());
  size_t first = 0;
  for (size_t i = 1; i < order.size(); ++i) {
    const Member& member = map.members[order[i]];
    const Member& kept = map.members[order[first]];
    if (member.key != kept.key) {
      first = i;
      continue;
    }
    repeated[order[i]] = true;
    duplicates.push_back(Told(member, kept, keep));
  }
  if (duplicates.empty()) return duplicates;

  size_t at = 0;
  std::erase_if(map.members, [&](const Member& /*member*/) { return repeated[at++]; });
  return duplicates;
}

}  // namespace flowguard::text
