// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <sys/random.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/check.h"

namespace flowguard::base {

uint64_t Hash64(std::string_view bytes, uint64_t seed) noexcept {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

Hash128 HashOf(std::string_view bytes, uint64_t seed) noexcept {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed);
  return {hash.low64, hash.high64};
}

uint64_t RandomSeed() noexcept {
  uint64_t seed = 0;
  FG_CHECK(getrandom(&seed, sizeof seed, 0) == static_cast<ssize_t>(sizeof seed));
  return seed | 1;  // 0 stands for "draw one" in options
}

}  // namespace flowguard::base
