// SPDX-License-Identifier: Apache-2.0
//
// Keyed 128-bit hash (XXH3, seeded) and the length-prefixed tuples that are fed to
// it: nothing that a client sends is ever a separator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace flowguard::base {

struct Hash128 {
  uint64_t low = 0;
  uint64_t high = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
};

[[nodiscard]] uint64_t Hash64(std::string_view bytes, uint64_t seed) noexcept;
[[nodiscard]] Hash128 HashOf(std::string_view bytes, uint64_t seed) noexcept;

// A random seed from the operating system.
[[nodiscard]] uint64_t RandomSeed() noexcept;

}  // namespace flowguard::base
