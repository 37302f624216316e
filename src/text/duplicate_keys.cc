// SPDX-License-Identifier: Apache-2.0
#include "text/duplicate_keys.h"

#include <algorithm>

namespace flowguard::text {

std::vector<DuplicateKey> TakeDuplicateKeys(Node& map) {
  std::vector<size_t> order(map.members.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  std::sort(order.begin(), order.end(), [&map](size_t a, size_t b) {
    const int compared = map.members[a].key.compare(map.members[b].key);
    return compared != 0 ? compared < 0 : a < b;
  });

  std::vector<DuplicateKey> duplicates;
  std::vector<bool> repeated(order.size());
  size_t first = 0;
  for (size_t i = 1; i < order.size(); ++i) {
    const Member& member = map.members[order[i]];
    const Member& original = map.members[order[first]];
    if (member.key != original.key) {
      first = i;
      continue;
    }
    repeated[order[i]] = true;
    duplicates.push_back({member.key_at, "duplicate key " + Quote(member.key) + "; it is at " +
                                             std::to_string(original.key_at.line) + ":" +
                                             std::to_string(original.key_at.column) + " already"});
  }
  if (duplicates.empty()) return duplicates;

  size_t at = 0;
  std::erase_if(map.members, [&](const Member& /*member*/) { return repeated[at++]; });
  return duplicates;
}

}  // namespace flowguard::text
