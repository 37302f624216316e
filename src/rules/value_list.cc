// SPDX-License-Identifier: Apache-2.0
#include "rules/value_list.h"

#include <algorithm>
#include <cstring>

#include "base/bounds.h"

namespace flowguard::rules {

namespace {

using Folded = std::array<char, base::kKeyValueInlineMax>;

// At most the first kKeyValueInlineMax bytes of `value`, in lower case if asked.
// No list holds a longer value or prefix.
std::string_view Head(std::string_view value, bool lower, Folded& scratch) noexcept {
  value = value.substr(0, scratch.size());
  if (!lower) return value;
  std::transform(value.begin(), value.end(), scratch.begin(), AsciiLower);
  return {scratch.data(), value.size()};
}

template <typename T>
void InsertSorted(std::vector<T>& values, T value) {
  const auto at = std::lower_bound(values.begin(), values.end(), value);
  if (at == values.end() || *at != value) values.insert(at, value);
}

using BlockText = std::array<char, 17>;

BlockText TextOf(const AddressBlock& block) noexcept {
  BlockText text;
  std::memcpy(text.data(), block.bytes.data(), block.bytes.size());
  text[16] = static_cast<char>(block.prefix_bits);
  return text;
}

}  // namespace

Result<ValueList> ValueList::Make(const Dimension& dimension,
                                  const std::vector<std::string>& values) {
  ValueList list;
  list.lower_ = dimension.lower;
  for (const std::string& written : values) {
    std::string folded(written.size(), '\0');
    std::string value(Normalise(dimension, written, folded));
    const auto bad = [&](std::string_view why) {
      return Error::InvalidArgument("value \"" + written + "\": " + std::string(why));
    };
    if (value.size() > base::kKeyValueInlineMax)
      return bad("longer than " + std::to_string(base::kKeyValueInlineMax) + " bytes");
    if (value.empty()) return bad("empty; name a value, a prefix with '*' at its end, or '*'");
    const size_t star = value.find('*');
    if (star != std::string::npos && star + 1 != value.size())
      return bad("'*' at column " + std::to_string(star + 1) + "; it may only stand at the end");
    if (value == "*") {
      list.any_ = true;
    } else if (dimension.kind == DimensionKind::kIp) {
      AddressBlock block;
      bool had_host_bits = false;
      if (!ParseAddressBlock(value, block, &had_host_bits))
        return bad("not an address or block; write 192.0.2.7, 192.0.2.0/24 or 2001:db8::/32");
      if (had_host_bits) return bad("bits are set behind the prefix length; clear them");
      const BlockText text = TextOf(block);
      list.blocks_.emplace(text.data(), text.size());
      InsertSorted(list.block_lengths_, block.prefix_bits);
    } else if (star != std::string::npos) {
      value.pop_back();
      InsertSorted(list.prefix_lengths_, value.size());
      list.prefixes_.insert(std::move(value));
    } else {
      list.exact_.insert(std::move(value));
    }
  }
  return list;
}

bool ValueList::Contains(std::string_view value) const noexcept {
  if (value.data() == nullptr) return false;
  if (any_) return true;
  if (!blocks_.empty()) return ContainsAddress(value);
  Folded scratch;
  const std::string_view head = Head(value, lower_, scratch);
  if (value.size() == head.size() && !exact_.empty() && exact_.find(head) != exact_.end())
    return true;
  for (const size_t length : prefix_lengths_) {
    if (length > head.size()) break;
    if (prefixes_.find(head.substr(0, length)) != prefixes_.end()) return true;
  }
  return false;
}

// The value is one address, or a client's block ("2001:db8::/64") where addresses
// are grouped: that is inside a block of the list which is not narrower.
bool ValueList::ContainsAddress(std::string_view value) const noexcept {
  AddressBlock address;
  if (!ParseAddressBlock(value, address)) return false;
  for (const int length : block_lengths_) {
    if (length > address.prefix_bits) break;
    // An IPv6 block that covers the mapped range does not mean IPv4 clients.
    if (length < 96 && IsIpv4(address)) continue;
    const BlockText text = TextOf(BlockAround(address, length));
    if (blocks_.find(std::string_view(text.data(), text.size())) != blocks_.end()) return true;
  }
  return false;
}

}  // namespace flowguard::rules
