// SPDX-License-Identifier: Apache-2.0
//
// A list of values of one dimension, as access rules have them: exact values,
// prefixes ("acme-*") and, for dimension ip, addresses and CIDR blocks.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "flowguard/result.h"

#include "base/hash.h"
#include "rules/address_block.h"
#include "rules/dimension.h"

namespace flowguard::rules {

// Lets a hash table of strings be asked with a view.
struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const noexcept { return base::Hash64(text, 0); }
};
using TextSet = std::unordered_set<std::string, TextHash, std::equal_to<>>;

class ValueList {
 public:
  // Errors: kInvalidArgument: which value, and what is allowed.
  [[nodiscard]] static Result<ValueList> Make(const Dimension& dimension,
                                              const std::vector<std::string>& values);

  // `value` as Normalise gave it.  A missing value (data() == nullptr) is in no list.
  // Cost: no allocation; a look-up for the exact values, one for each distinct
  // length of prefix or block.
  [[nodiscard]] bool Contains(std::string_view value) const noexcept;

 private:
  ValueList() = default;
  [[nodiscard]] bool ContainsAddress(std::string_view value) const noexcept;

  bool lower_ = false;
  bool any_ = false;  // "*"
  TextSet exact_;
  TextSet prefixes_;
  std::vector<size_t> prefix_lengths_;  // distinct, ascending
  TextSet blocks_;                      // 16 masked bytes and the prefix length
  std::vector<int> block_lengths_;      // distinct, ascending
};

}  // namespace flowguard::rules
