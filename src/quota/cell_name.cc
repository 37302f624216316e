// SPDX-License-Identifier: Apache-2.0
#include "quota/cell_name.h"

#include <cstdint>

#include "base/hash.h"
#include "rules/key.h"

namespace flowguard::quota {
namespace {

constexpr size_t kIdentityBytes = 8;

// Appends to a buffer that is large enough.
class NameWriter {
 public:
  explicit NameWriter(std::span<char> out) noexcept : out_(out) {}
  void Text(std::string_view text) noexcept {
    for (const char c : text)
      out_[size_++] = c;
  }
  void Hex(uint64_t value) noexcept {
    for (int shift = 60; shift >= 0; shift -= 4)
      out_[size_++] = "0123456789abcdef"[(value >> shift) & 0xf];
  }
  [[nodiscard]] size_t size() const noexcept { return size_; }

 private:
  std::span<char> out_;
  size_t size_ = 0;
};

}  // namespace

size_t WriteCellName(std::string_view key, std::string_view resource, int shard,
                     std::span<char> out) noexcept {
  // Shards of one cell are on different servers, if they can be.
  const uint64_t seed = rules::kSharedKeySeed + static_cast<uint64_t>(shard + 1);
  // A rule without a key: by its identity, or all such rules would be neighbours.
  const std::string_view values = key.size() > kIdentityBytes ? key.substr(kIdentityBytes) : key;
  const base::Hash128 place = base::HashOf(resource.empty() ? values : resource, seed);
  const base::Hash128 identity = base::HashOf(key, rules::kSharedKeySeed);
  NameWriter name(out);
  name.Text("fg:{");
  name.Hex(place.high);
  name.Hex(place.low);
  name.Text("}:");
  name.Hex(identity.high);
  name.Hex(identity.low);
  if (shard >= 0) {
    name.Text(":");
    name.Hex(static_cast<uint64_t>(shard));
  }
  return name.size();
}

}  // namespace flowguard::quota
