// SPDX-License-Identifier: Apache-2.0
//
// A map says each thing once: the check that both readers of text share.
#pragma once

#include <string>
#include <vector>

#include "text/node.h"

namespace flowguard::text {

struct DuplicateKey {
  Position at;
  std::string message;
};

// Removes every member whose key stands earlier in the map, and tells of each.
// Cost: n log n.
std::vector<DuplicateKey> TakeDuplicateKeys(Node& map);

}  // namespace flowguard::text
