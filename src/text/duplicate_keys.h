// SPDX-License-Identifier: Apache-2.0
//
// A map says each thing once: the check that all readers of text share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/node.h"

namespace flowguard::text {

struct DuplicateKey {
  Position at;
  std::string message;
};

// Which member of those with the same key stays in the map.
enum class KeepOfDuplicates : uint8_t { kFirst, kLast };

// Removes every member whose key stands earlier (kLast: later) in the map, and tells of
// each.
// Cost: n log n.
std::vector<DuplicateKey> TakeDuplicateKeys(Node& map,
                                            KeepOfDuplicates keep = KeepOfDuplicates::kFirst);

}  // namespace flowguard::text
