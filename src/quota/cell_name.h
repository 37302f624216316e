// SPDX-License-Identifier: Apache-2.0
//
// What a shared cell is called in its store.
//
//   name = "fg:{" place "}:" identity [":" shard]
//
// `place` decides on which server of a cluster the cell lives: a hash of the dimension
// values, so that keys spread and the cells of one client under rules of one `by` are
// neighbours; or of the rule's resource.  `identity` is a hash of the whole key, which
// names the rule.  All are hexadecimal: nothing that a client sends can move a cell or run
// into another.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace flowguard::quota {

// Writes the name to `out` and returns its size.  `key`: as rules::KeyBuilder encodes it.
// `resource`: the cell lives where all of that resource do; empty: where its key says.
// `shard` < 0: the cell has none.
// Requires: out holds kCellKeyBytesMax.
size_t WriteCellName(std::string_view key, std::string_view resource, int shard,
                     std::span<char> out) noexcept;

}  // namespace flowguard::quota
