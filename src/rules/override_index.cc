// SPDX-License-Identifier: Apache-2.0
#include "rules/override_index.h"

#include <algorithm>
#include <utility>

#include "base/bounds.h"

namespace flowguard::rules {

bool OverrideIndex::Add(std::string value, size_t place) {
  return values_.emplace(std::move(value), place).second;
}

bool OverrideIndex::Add(const AddressBlock& block, size_t place) {
  const auto at = std::lower_bound(block_lengths_.begin(), block_lengths_.end(), block.prefix_bits,
                                   std::greater<>());
  if (at == block_lengths_.end() || *at != block.prefix_bits)
    block_lengths_.insert(at, block.prefix_bits);
  return blocks_.emplace(block, place).second;
}

std::optional<size_t> OverrideIndex::Find(std::string_view value) const noexcept {
  if (value.data() == nullptr || value.size() > base::kKeyValueInlineMax) return std::nullopt;
  if (!blocks_.empty()) return FindAddress(value);
  const auto found = values_.find(value);
  if (found == values_.end()) return std::nullopt;
  return found->second;
}

std::optional<size_t> OverrideIndex::FindAddress(std::string_view value) const noexcept {
  AddressBlock client;
  if (!ParseAddressBlock(value, client)) return std::nullopt;
  const auto inside = blocks_.lower_bound(client);
  if (inside != blocks_.end() && BlockAround(inside->first, client.prefix_bits) == client)
    return inside->second;
  for (const int length : block_lengths_) {
    if (length >= client.prefix_bits) continue;
    // An IPv6 block that covers the mapped range does not mean IPv4 clients.
    if (length < 96 && IsIpv4(client)) break;
    const auto around = blocks_.find(BlockAround(client, length));
    if (around != blocks_.end()) return around->second;
  }
  return std::nullopt;
}

}  // namespace flowguard::rules
