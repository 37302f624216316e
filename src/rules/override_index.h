// SPDX-License-Identifier: Apache-2.0
//
// Which of a rule's overrides a value has: that of the same value, and for dimension
// ip that of the nearest block.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "rules/address_block.h"
#include "rules/value_list.h"

namespace flowguard::rules {

// Threads: immutable once filled.
class OverrideIndex {
 public:
  // The override at `place` is for `value`, as Normalise gave it.  False: the value
  // has one already.
  [[nodiscard]] bool Add(std::string value, size_t place);
  [[nodiscard]] bool Add(const AddressBlock& block, size_t place);

  // The place of the override for `value`, as Normalise gave it.
  //
  // An address, or the block that a client's addresses are grouped by, has the override
  // of exactly that; else the first that is for a part of the block; else that of the
  // narrowest block around it.
  // Cost: no allocation; a look-up, of addresses one for each distinct length of prefix.
  [[nodiscard]] std::optional<size_t> Find(std::string_view value) const noexcept;

 private:
  [[nodiscard]] std::optional<size_t> FindAddress(std::string_view value) const noexcept;

  std::unordered_map<std::string, size_t, TextHash, std::equal_to<>> values_;
  std::map<AddressBlock, size_t> blocks_;
  std::vector<int> block_lengths_;  // distinct, descending
};

}  // namespace flowguard::rules
