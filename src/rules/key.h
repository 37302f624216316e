// SPDX-License-Identifier: Apache-2.0
//
// The key of a cell: the rule's identity and the request's dimension values.
//
//   key   = identity(8) *part
//   part  = tag(1) length(1) bytes          value of at most kKeyValueInlineMax bytes
//         | tag(1) 0xff hash(16)            longer: hash of the whole value
//   tag   = DimensionKind, + 0x80 when the request has no such value
//
// Every part says its own length, so values that contain anything at all cannot
// run into each other; its kind, so user "127.0.0.1" is not ip 127.0.0.1; and
// whether it was there, so empty is not missing.  A key is at most kKeyBytesMax
// long however long the values are, and all of a value counts.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/bounds.h"
#include "base/check.h"
#include "base/hash.h"
#include "rules/dimension.h"

namespace flowguard::rules {

inline constexpr size_t kKeyBytesMax =
    8 + base::kDimensionsPerKeyMax * (2 + base::kKeyValueInlineMax);

// The seed with which all processes that share a store build keys.  Hashes of long
// values then agree; local keys use the process's own random seed.
inline constexpr uint64_t kSharedKeySeed = 0x466c6f7747756172;

// Hash of a part's value, in lower case if `lower`, whatever its length.
[[nodiscard]] base::Hash128 FoldedHash(std::string_view value, uint64_t seed) noexcept;

inline constexpr unsigned char kMissingTag = 0x80;

// What a local cell is found by: the hash of a key that is never written down.  The
// seed of each part's hash is made of all before it, so that no byte is copied, and
// none is read back sooner than the processor has stored it.
class KeyHash {
 public:
  KeyHash() noexcept {}  // NOLINT(modernize-use-equals-default): Start clears
  void Start(uint64_t identity, uint64_t seed) noexcept {
    hash_ = {identity ^ seed, 0};
    empty_ = true;
  }

  // As KeyBuilder::Add.
  void Add(const Dimension& dimension, std::string_view value) noexcept {
    const auto kind = static_cast<unsigned char>(dimension.kind);
    const bool missing = value.data() == nullptr;
    const uint64_t seed = SeedOf(missing ? kind | kMissingTag : kind);
    const bool fold = dimension.lower && value.size() > base::kKeyValueInlineMax;
    const base::Hash128 part = fold ? FoldedHash(value, seed) : base::HashOf(value, seed);
    // Two keys of which only the seeds happen to be the same still differ.
    hash_ = {part.low ^ hash_.high, part.high + hash_.low};
    empty_ = false;
  }

  [[nodiscard]] base::Hash128 Hash() const noexcept {
    return empty_ ? base::HashOf({}, SeedOf(0)) : hash_;
  }

 private:
  [[nodiscard]] uint64_t SeedOf(unsigned tag) const noexcept {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(hash_.low) * (0x9e3779b97f4a7c15 ^ (tag * uint64_t{2}));
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }

  base::Hash128 hash_;
  bool empty_;
};

// Builds one key.  Requires: at most kDimensionsPerKeyMax parts.
// Memory: all inside, not cleared.
class KeyBuilder {
 public:
  KeyBuilder() noexcept {}  // NOLINT(modernize-use-equals-default): Start comes first
  void Start(uint64_t identity, uint64_t seed) noexcept {
    seed_ = seed;
    size_ = sizeof identity;
    std::memcpy(bytes_.data(), &identity, sizeof identity);
  }

  // `value` as Normalise gave it.  data() == nullptr: missing.
  void Add(const Dimension& dimension, std::string_view value) noexcept {
    const auto tag = static_cast<unsigned char>(dimension.kind);
    FG_DCHECK(size_ + 2 + base::kKeyValueInlineMax <= kKeyBytesMax);
    if (value.data() == nullptr) {
      Put(static_cast<unsigned char>(tag | kMissingTag), 0);
    } else if (value.size() <= base::kKeyValueInlineMax) {
      Put(tag, static_cast<unsigned char>(value.size()));
      std::memcpy(bytes_.data() + size_, value.data(), value.size());
      size_ += value.size();
    } else {
      AddLong(tag, dimension.lower, value);
    }
  }

  // What a store in another process keys by.
  [[nodiscard]] std::string_view encoded() const noexcept { return {bytes_.data(), size_}; }

 private:
  static constexpr unsigned char kHashed = 0xff;

  void Put(unsigned char tag, unsigned char length) noexcept {
    bytes_[size_] = static_cast<char>(tag);
    bytes_[size_ + 1] = static_cast<char>(length);
    size_ += 2;
  }
  void AddLong(unsigned char tag, bool lower, std::string_view value) noexcept;

  uint64_t seed_;
  size_t size_;
  std::array<char, kKeyBytesMax> bytes_;
};

// A key for people, "ip=192.0.2.7, tenant=acme": appends one part to `text`.
// Bytes outside printable ASCII, '%', ',' and '=' are written %XX, so that the text
// can be read back; a long value is cut off and its length told.
void AppendReadable(const Dimension& dimension, std::string_view value, std::string& text);

}  // namespace flowguard::rules
