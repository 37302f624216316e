// SPDX-License-Identifier: Apache-2.0
//
// The names of cells in Redis, to be read by people:
//
//   rl:{ip=192.0.2.7}:per-client:tb             token bucket by address
//   rl:{tenant=acme,user=7}:quota:sw1m          sliding window of a minute
//   rl:{per-route}:per-route:fw1d               one cell for all requests
//   rl:{order:create}:ip=192.0.2.7:orders:tb    with the resource as the hash tag
//
// The form at the end says what a state of another algorithm, window or number of buckets
// may not be read as.  What stands in braces, the hash tag, alone decides on the slot.
//
// Escaping: bytes that are no printable ASCII and % { } , = : # ! are written %XX, in
// values, names and rules alike, so that nothing a client sends ends a part.  (In a
// resource ':' stays.)  Of names that start with an unescaped '#' the rest is a hash in
// hexadecimal digits: long values, long rule names, and whole identities beyond
// kIdentityBytesMax or of keys that are digested already.  A dimension without a value is 'name!'.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "base/bounds.h"
#include "engine/quota_store.h"
#include "quota/cell_server.h"

namespace flowguard::quota {

// How keys are grouped into slots.
struct CellKeyStyle {
  // Everything of one resource in one slot; else everything of one identity.
  bool tag_by_resource = false;
  // >= 0: this one of several cells that share a hot key's limit, in its own slot.
  int shard = -1;
};

// Room for a key, not cleared.
class CellKey {
 public:
  static constexpr size_t kIdentityBytesMax = 100;
  static constexpr size_t kRuleBytesMax = 48;

  // Requires: take.rule is set; `shape` is what its cell is decided by.
  // Cost: no allocation.
  CellKey(const engine::RemoteTake& take, const CellShape& shape,
          const CellKeyStyle& style = {}) noexcept;

  [[nodiscard]] std::string_view text() const noexcept { return {bytes_.data(), size_}; }

 private:
  void Put(std::string_view text) noexcept;
  void PutEscaped(std::string_view text, std::string_view kept = {}) noexcept;
  // Escaped, or its hash where that would take more than `most` bytes.
  void PutBounded(std::string_view text, size_t most, std::string_view kept = {}) noexcept;
  void PutIdentity(const engine::RemoteTake& take) noexcept;
  void PutHash(std::string_view bytes) noexcept;
  void PutForm(const CellShape& shape) noexcept;
  void PutNumber(int64_t number) noexcept;

  size_t size_ = 0;
  std::array<char, base::kCellKeyBytesMax> bytes_;
};

}  // namespace flowguard::quota
