// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstring>

#include "wire/http1.h"
#include "wire/scan.h"

namespace flowguard::wire {
namespace {

constexpr auto kKnownCount = static_cast<size_t>(KnownHeader::kCount);

// In the order of KnownHeader.
constexpr std::array<std::string_view, kKnownCount> kNames = {
    "",
    "authorization",
    "cache-control",
    "connection",
    "content-length",
    "content-type",
    "cookie",
    "date",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "origin",
    "proxy-connection",
    "ratelimit",
    "ratelimit-policy",
    "retry-after",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "x-real-ip",
};

// A perfect hash: the multiplier was searched for until no two names shared a slot,
// and BuildSlots fails to compile if they ever do.  One table load and one comparison
// replace a switch over lengths, whose jump the processor cannot foresee.
constexpr size_t kSlotBits = 6;

constexpr size_t SlotOf(std::string_view name) {
  const auto byte = [&name](size_t at) {
    return static_cast<uint32_t>(static_cast<unsigned char>(name[at])) | 0x20U;
  };
  const size_t last = name.size() - 1;
  const uint32_t mixed = (static_cast<uint32_t>(name.size()) & 0xFFU) | byte(0) << 8 |
                         byte(last) << 16 | byte(last - 1) << 24;
  return (mixed * 0x44C5B477U) >> (32 - kSlotBits);
}

constexpr std::array<KnownHeader, size_t{1} << kSlotBits> BuildSlots() {
  std::array<KnownHeader, size_t{1} << kSlotBits> slots{};
  for (size_t i = 1; i < kKnownCount; ++i) {
    KnownHeader& slot = slots[SlotOf(kNames[i])];
    if (slot != KnownHeader::kOther) throw "two header names share a slot";
    slot = static_cast<KnownHeader>(i);
  }
  return slots;
}

constexpr std::array<KnownHeader, size_t{1} << kSlotBits> kSlots = BuildSlots();

// As TokenIs, for a length known only at run time: two loads that may overlap, or more
// for long names.  Requires: lower has 2 bytes at least; `text` as many.
bool EqualsLower(const char* text, std::string_view lower) noexcept {
  const auto same = [&]<typename Word>(Word case_bits, size_t at) {
    Word a;
    Word b;
    std::memcpy(&a, text + at, sizeof(Word));
    std::memcpy(&b, lower.data() + at, sizeof(Word));
    return static_cast<Word>(a | case_bits) == b;
  };
  const size_t n = lower.size();
  if (n < 4) return same(uint16_t{0x2020}, 0) && same(uint16_t{0x2020}, n - 2);
  if (n < 8) return same(uint32_t{0x20202020}, 0) && same(uint32_t{0x20202020}, n - 4);
  constexpr uint64_t kCaseBits = 0x2020202020202020U;
  for (size_t at = 0; at + 8 < n; at += 8)
    if (!same(kCaseBits, at)) return false;
  return same(kCaseBits, n - 8);
}

}  // namespace

int StatusFor(BadReason reason) noexcept {
  switch (reason) {
    case BadReason::kNone:
      return 200;
    case BadReason::kSyntax:
    case BadReason::kBadHost:
    case BadReason::kBadFraming:
      return 400;
    case BadReason::kTargetTooLong:
      return 414;
    case BadReason::kExpectation:
      return 417;
    case BadReason::kHeadTooLarge:
      return 431;
    case BadReason::kMethodUnsupported:
    case BadReason::kCodingUnsupported:
      return 501;
    case BadReason::kVersion:
      return 505;
  }
  return 400;
}

std::string_view Describe(BadReason reason) noexcept {
  switch (reason) {
    case BadReason::kNone:
      return "no fault";
    case BadReason::kSyntax:
      return "not an HTTP/1.1 message";
    case BadReason::kBadHost:
      return "Host is missing, repeated or not a host";
    case BadReason::kBadFraming:
      return "body length is contradictory or malformed";
    case BadReason::kTargetTooLong:
      return "request target too long";
    case BadReason::kExpectation:
      return "unknown expectation";
    case BadReason::kHeadTooLarge:
      return "header section too large";
    case BadReason::kMethodUnsupported:
      return "method not supported";
    case BadReason::kCodingUnsupported:
      return "transfer coding not supported";
    case BadReason::kVersion:
      return "HTTP version not supported";
  }
  return "not an HTTP/1.1 message";
}

bool IsToken(std::string_view name) noexcept {
  const char* end = name.data() + name.size();
  return !name.empty() && SkipToken(name.data(), end) == end;
}

bool IsFieldValue(std::string_view value) noexcept {
  const char* end = value.data() + value.size();
  return SkipValue(value.data(), end) == end;
}

bool EqualsIgnoreCase(std::string_view a, std::string_view b) noexcept {
  if (a.size() != b.size()) return false;
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; };
  for (size_t i = 0; i < a.size(); ++i)
    if (lower(a[i]) != lower(b[i])) return false;
  return true;
}

KnownHeader Recognise(std::string_view name) noexcept {
  if (name.size() < 2) return KnownHeader::kOther;
  const KnownHeader known = kSlots[SlotOf(name)];
  const std::string_view candidate = kNames[static_cast<size_t>(known)];
  return candidate.size() == name.size() && EqualsLower(name.data(), candidate)
             ? known
             : KnownHeader::kOther;
}

}  // namespace flowguard::wire
