// SPDX-License-Identifier: Apache-2.0
#include "quota/cell_key.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "limit/spec.h"
#include "quota/cell_shape.h"
#include "rules/compiled_rule.h"
#include "rules/key.h"

namespace flowguard::quota {
namespace {

constexpr std::string_view kHex = "0123456789ABCDEF";
constexpr size_t kIdentityOffset = 8;  // behind the rule's identity: see rules/key.h
constexpr unsigned char kMissing = 0x80;
constexpr unsigned char kHashed = 0xff;
constexpr char kDigest = 0;  // instead of the first part's tag: what follows is a hash of all
constexpr size_t kHashBytes = sizeof(base::Hash128);

constexpr std::array<bool, 256> kPlain = [] {
  constexpr std::string_view kSpecial = "%{},=:#!";
  std::array<bool, 256> plain{};
  for (char c = 0x21; c < 0x7f; ++c)
    plain[static_cast<unsigned char>(c)] = kSpecial.find(c) == std::string_view::npos;
  return plain;
}();

// `kept`: characters that are not escaped either.
bool IsPlain(char c, std::string_view kept) noexcept {
  return kPlain[static_cast<unsigned char>(c)] || kept.find(c) != std::string_view::npos;
}

size_t EscapedSize(std::string_view text, std::string_view kept) noexcept {
  size_t size = text.size();
  for (const char c : text)
    size += IsPlain(c, kept) ? 0 : 2;
  return size;
}

// One part of a key as rules/key.h writes it.
struct Part {
  bool missing = false;
  bool hashed = false;
  std::string_view value;
};

// Takes the next part off `encoded`; false when there is none.
bool NextPart(std::string_view& encoded, Part& part) noexcept {
  if (encoded.size() < 2) return false;
  const auto tag = static_cast<unsigned char>(encoded[0]);
  const auto length = static_cast<unsigned char>(encoded[1]);
  part.missing = (tag & kMissing) != 0;
  part.hashed = length == kHashed;
  const size_t size = part.hashed ? kHashBytes : length;
  if (encoded.size() < 2 + size) return false;
  part.value = encoded.substr(2, size);
  encoded.remove_prefix(2 + size);
  return true;
}

}  // namespace

CellKey::CellKey(const engine::RemoteTake& take, const CellShape& shape,
                 const CellKeyStyle& style) noexcept {
  const Rule& rule = take.rule->rule;
  const bool by_resource = style.tag_by_resource && !rule.on.resource.empty();
  Put("rl:{");
  if (by_resource) {
    PutBounded(rule.on.resource, kRuleBytesMax, ":");
  } else {
    PutIdentity(take);
  }
  if (style.shard >= 0) {
    Put("#s");
    PutNumber(style.shard);
  }
  Put("}:");
  if (by_resource) {
    PutIdentity(take);
    Put(":");
  }
  PutBounded(rule.name, kRuleBytesMax);
  Put(":");
  PutForm(shape);
}

void CellKey::Put(std::string_view text) noexcept {
  FG_DCHECK(size_ + text.size() <= bytes_.size());
  const size_t size = std::min(text.size(), bytes_.size() - size_);
  std::memcpy(bytes_.data() + size_, text.data(), size);
  size_ += size;
}

void CellKey::PutEscaped(std::string_view text, std::string_view kept) noexcept {
  while (!text.empty()) {
    const auto special =
        std::find_if_not(text.begin(), text.end(), [kept](char c) { return IsPlain(c, kept); });
    const auto plain = static_cast<size_t>(special - text.begin());
    Put(text.substr(0, plain));
    if (special == text.end()) return;
    const auto byte = static_cast<unsigned char>(*special);
    const char escaped[] = {'%', kHex[byte >> 4], kHex[byte & 15]};
    Put({escaped, sizeof escaped});
    text.remove_prefix(plain + 1);
  }
}

void CellKey::PutBounded(std::string_view text, size_t most, std::string_view kept) noexcept {
  if (EscapedSize(text, kept) <= most) {
    PutEscaped(text, kept);
  } else {
    const base::Hash128 hash = base::HashOf(text, rules::kSharedKeySeed);
    char bytes[sizeof hash];
    std::memcpy(bytes, &hash, sizeof hash);
    PutHash({bytes, sizeof bytes});
  }
}

void CellKey::PutHash(std::string_view bytes) noexcept {
  Put("#");
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    const char digits[] = {kHex[byte >> 4], kHex[byte & 15]};
    Put({digits, sizeof digits});
  }
}

void CellKey::PutIdentity(const engine::RemoteTake& take) noexcept {
  const std::string_view encoded = take.key.substr(std::min(kIdentityOffset, take.key.size()));
  const std::span<const rules::KeyPart> by = take.rule->by;
  if (by.empty()) return PutBounded(take.rule->rule.name, kRuleBytesMax);
  size_t size = 0;
  size_t parts = 0;
  Part part;
  std::string_view unread = encoded.starts_with(kDigest) ? std::string_view() : encoded;
  for (; parts < by.size() && NextPart(unread, part); ++parts) {
    size += 2 + EscapedSize(by[parts].dimension->name, {}) +
            (part.hashed ? 1 + 2 * kHashBytes : EscapedSize(part.value, {}));
  }
  if (parts < by.size() || !unread.empty() || size > kIdentityBytesMax) {
    // The names tell apart what other dimensions with the same bytes are: they are in the
    // hash, like the values.
    base::Hash128 hash = base::HashOf(encoded, rules::kSharedKeySeed);
    for (const rules::KeyPart& named : by) {
      const base::Hash128 name = base::HashOf(named.dimension->name, rules::kSharedKeySeed);
      char both[2 * sizeof hash];
      std::memcpy(both, &hash, sizeof hash);
      std::memcpy(both + sizeof hash, &name, sizeof name);
      hash = base::HashOf({both, sizeof both}, rules::kSharedKeySeed);
    }
    char bytes[sizeof hash];
    std::memcpy(bytes, &hash, sizeof hash);
    return PutHash({bytes, sizeof bytes});
  }
  std::string_view rest = encoded;
  for (size_t i = 0; i < parts && NextPart(rest, part); ++i) {
    if (i > 0) Put(",");
    PutEscaped(by[i].dimension->name);
    if (part.missing) {
      Put("!");
      continue;
    }
    Put("=");
    if (part.hashed) {
      PutHash(part.value);
    } else {
      PutEscaped(part.value);
    }
  }
}

void CellKey::PutForm(const CellShape& shape) noexcept {
  const std::string_view letters = LettersOf(shape);
  Put(letters);
  if (letters == "tb" || letters == "lb" || letters == "co") return;
  // The longest unit that divides the window.
  constexpr std::array<std::pair<int64_t, std::string_view>, 6> kUnits{{{86'400'000'000'000, "d"},
                                                                        {3'600'000'000'000, "h"},
                                                                        {60'000'000'000, "m"},
                                                                        {1'000'000'000, "s"},
                                                                        {1'000'000, "ms"},
                                                                        {1'000, "us"}}};
  int64_t window = shape.config.rate.window.count();
  std::string_view unit = "ns";
  for (const auto& [size, name] : kUnits) {
    if (window % size == 0) {
      window /= size;
      unit = name;
      break;
    }
  }
  PutNumber(window);
  Put(unit);
  if (letters == "sb") {
    Put("x");
    PutNumber(shape.config.buckets == 0 ? limit::SlidingBuckets::kDefaultBuckets
                                        : shape.config.buckets);
  }
}

void CellKey::PutNumber(int64_t number) noexcept {
  char digits[20];
  const auto end = std::to_chars(digits, digits + sizeof digits, number);
  Put({digits, static_cast<size_t>(end.ptr - digits)});
}

}  // namespace flowguard::quota
