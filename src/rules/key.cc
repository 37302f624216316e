// SPDX-License-Identifier: Apache-2.0
#include "rules/key.h"

#include <algorithm>

namespace flowguard::rules {

namespace {

constexpr size_t kFoldChunkBytes = 512;
constexpr size_t kReadableMax = 256;  // bytes of one value

}  // namespace

// In a fixed buffer: each chunk is hashed behind the hash of those before it.
base::Hash128 FoldedHash(std::string_view value, uint64_t seed) noexcept {
  std::array<char, sizeof(base::Hash128) + kFoldChunkBytes> chunk;
  base::Hash128 hash{value.size(), 0};
  while (!value.empty()) {
    const size_t size = std::min(value.size(), kFoldChunkBytes);
    std::memcpy(chunk.data(), &hash, sizeof hash);
    std::transform(value.begin(), value.begin() + static_cast<std::ptrdiff_t>(size),
                   chunk.begin() + sizeof hash, AsciiLower);
    hash = base::HashOf({chunk.data(), sizeof hash + size}, seed);
    value.remove_prefix(size);
  }
  return hash;
}

void KeyBuilder::AddLong(unsigned char tag, bool lower, std::string_view value) noexcept {
  const base::Hash128 hash = lower ? FoldedHash(value, seed_) : base::HashOf(value, seed_);
  Put(tag, kHashed);
  std::memcpy(bytes_.data() + size_, &hash, sizeof hash);
  size_ += sizeof hash;
}

void AppendReadable(const Dimension& dimension, std::string_view value, std::string& text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  if (!text.empty()) text += ", ";
  text += dimension.name;
  if (value.data() == nullptr) {
    text += " missing";
    return;
  }
  text += '=';
  for (const char c : value.substr(0, kReadableMax)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte > 0x20 && byte < 0x7f && c != '%' && c != ',' && c != '=') {
      text += c;
    } else {
      text += '%';
      text += kHex[byte >> 4];
      text += kHex[byte & 15];
    }
  }
  if (value.size() > kReadableMax) text += "... (" + std::to_string(value.size()) + " bytes)";
}

}  // namespace flowguard::rules
