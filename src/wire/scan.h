// SPDX-License-Identifier: Apache-2.0
//
// Finds the first byte that does not belong to a class of bytes, 16 at a time where
// the processor has SSE2 (every x86-64), else one by one.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace flowguard::wire {

enum ByteClass : uint8_t {
  kTokenByte = 1,   // RFC 9110 tchar
  kValueByte = 2,   // TAB, printable, 0x80 and above
  kTargetByte = 4,  // printable but space, 0x80 and above
  kHostByte = 8,    // what a host with port may hold: reg-name, brackets, colon
};

constexpr std::array<uint8_t, 256> MakeByteClasses() {
  std::array<uint8_t, 256> classes{};
  for (unsigned c = 0; c < 256; ++c) {
    const bool alnum = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    const char ch = static_cast<char>(c);
    const bool token =
        c < 0x80 && (alnum || (c != 0 && std::string_view("!#$%&'*+-.^_`|~").find(ch) !=
                                             std::string_view::npos));
    const bool host =
        c < 0x80 && (alnum || (c != 0 && std::string_view("-._~!$&'()*+;=%:[]").find(ch) !=
                                             std::string_view::npos));
    uint8_t bits = 0;
    if (token) bits |= kTokenByte;
    if ((c >= 0x20 && c != 0x7F) || c == '\t') bits |= kValueByte;
    if (c > 0x20 && c != 0x7F) bits |= kTargetByte;
    if (host) bits |= kHostByte;
    classes[c] = bits;
  }
  return classes;
}

inline constexpr std::array<uint8_t, 256> kByteClasses = MakeByteClasses();

[[nodiscard]] inline bool IsByte(ByteClass wanted, char c) noexcept {
  return (kByteClasses[static_cast<unsigned char>(c)] & wanted) != 0;
}

// The first byte from `at` that is not of the class, or `end`.
template <ByteClass kClass>
[[nodiscard]] inline const char* SkipBytewise(const char* at, const char* end) noexcept {
  while (at != end && IsByte(kClass, *at))
    ++at;
  return at;
}

#if defined(__SSE2__)
// Letters, digits and '-': what nearly all names and hosts are made of.
[[nodiscard]] inline __m128i PlainBytes(__m128i c) noexcept {
  const auto at_most = [](__m128i v, int top) {
    const __m128i limit = _mm_set1_epi8(static_cast<char>(top));
    return _mm_cmpeq_epi8(_mm_min_epu8(v, limit), v);
  };
  const __m128i lower = _mm_or_si128(c, _mm_set1_epi8(0x20));
  const __m128i letter = at_most(_mm_sub_epi8(lower, _mm_set1_epi8('a')), 25);
  const __m128i digit = at_most(_mm_sub_epi8(c, _mm_set1_epi8('0')), 9);
  return _mm_or_si128(_mm_or_si128(letter, digit), _mm_cmpeq_epi8(c, _mm_set1_epi8('-')));
}
#endif

#if defined(__SSE2__)
// The 16 bytes before `end`, of which those before `at` are shifted out: how the last
// bytes of a buffer are read at once.  `good(bytes)` marks the bytes of the class.
// Requires: 16 bytes before `end` may be read; at <= end < at + 16.
template <typename Good>
[[nodiscard]] inline const char* SkipLast(const char* at, const char* end, Good good) noexcept {
  const __m128i c = _mm_loadu_si128(reinterpret_cast<const __m128i*>(end - 16));
  const unsigned mask = static_cast<unsigned>(_mm_movemask_epi8(good(c))) ^ 0xFFFFU;
  const unsigned bad = mask >> (16 - (end - at));
  return bad == 0 ? end : at + __builtin_ctz(bad);
}

// Bytes that are not of the class, but for TAB in a value, which the caller looks at:
// it is rare, and one step less a 16 bytes.
template <int kFirst>
[[nodiscard]] inline unsigned ControlsAt(const char* at) noexcept {
  const __m128i c = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
  const __m128i low = _mm_cmpeq_epi8(_mm_min_epu8(c, _mm_set1_epi8(kFirst - 1)), c);
  const __m128i del = _mm_cmpeq_epi8(c, _mm_set1_epi8(0x7F));
  return static_cast<unsigned>(_mm_movemask_epi8(_mm_or_si128(low, del)));
}
#endif

// `begin`: of the buffer that at and end are in.
[[nodiscard]] inline const char* SkipToken(const char* begin, const char* at,
                                           const char* end) noexcept {
#if defined(__SSE2__)
  while (end - at >= 16) {
    const __m128i c = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const unsigned mask = static_cast<unsigned>(_mm_movemask_epi8(PlainBytes(c))) ^ 0xFFFFU;
    if (mask == 0) {
      at += 16;
      continue;
    }
    at += __builtin_ctz(mask);
    if (*at == ':' || !IsByte(kTokenByte, *at)) return at;
    ++at;
  }
  if (end - begin >= 16) at = SkipLast(at, end, PlainBytes);
#endif
  return SkipBytewise<kTokenByte>(at, end);
}

[[nodiscard]] inline const char* SkipValue(const char* begin, const char* at,
                                           const char* end) noexcept {
#if defined(__SSE2__)
  while (end - at >= 16) {
    const unsigned stops = ControlsAt<0x20>(at);
    if (stops == 0) {
      at += 16;
      continue;
    }
    at += __builtin_ctz(stops);
    if (*at != '\t') return at;
    ++at;
  }
  if (end - begin >= 16) {
    const unsigned stops = ControlsAt<0x20>(end - 16) >> (16 - (end - at));
    if (stops == 0) return end;
    at += __builtin_ctz(stops);
  }
#endif
  return SkipBytewise<kValueByte>(at, end);
}

[[nodiscard]] inline const char* SkipTarget(const char* at, const char* end) noexcept {
#if defined(__SSE2__)
  for (; end - at >= 16; at += 16) {
    const unsigned stops = ControlsAt<0x21>(at);
    if (stops != 0) return at + __builtin_ctz(stops);
  }
#endif
  return SkipBytewise<kTargetByte>(at, end);
}

[[nodiscard]] inline const char* SkipHost(const char* at, const char* end) noexcept {
#if defined(__SSE2__)
  // Nearly all hosts are of these bytes; what else is in one is looked up.
  const auto usual = [](__m128i c) {
    const __m128i dot = _mm_cmpeq_epi8(c, _mm_set1_epi8('.'));
    return _mm_or_si128(PlainBytes(c), _mm_or_si128(dot, _mm_cmpeq_epi8(c, _mm_set1_epi8(':'))));
  };
  if (end - at >= 16) {
    const char* const begin = at;
    for (; end - at >= 16; at += 16) {
      const __m128i c = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
      if (_mm_movemask_epi8(usual(c)) != 0xFFFF) return SkipBytewise<kHostByte>(at, end);
    }
    if (at == end || SkipLast(at, end, usual) == end) return end;
    return SkipBytewise<kHostByte>(begin, end);
  }
#endif
  return SkipBytewise<kHostByte>(at, end);
}

// True when the text equals `lower` but for case.  Exact when `text` is a token or a
// header value and `lower` holds only lower-case letters and '-': no other byte of
// these becomes one of them when bit 5 is set.  Requires: `text` has N - 1 bytes.
template <size_t N>
[[nodiscard]] inline bool TokenIs(const char* text, const char (&lower)[N]) noexcept {
  constexpr size_t kLength = N - 1;
  constexpr uint64_t kCaseBits = 0x2020202020202020U;
  const auto differs = [&](size_t at, size_t bytes) {
    uint64_t a = 0;
    uint64_t b = 0;
    std::memcpy(&a, text + at, bytes);
    std::memcpy(&b, lower + at, bytes);
    return ((a | kCaseBits) ^ (b | kCaseBits)) != 0;
  };
  if constexpr (kLength < 8) {
    return !differs(0, kLength);
  } else {
    for (size_t at = 0; at + 8 <= kLength; at += 8)
      if (differs(at, 8)) return false;
    return kLength % 8 == 0 || !differs(kLength - 8, 8);
  }
}

// The same for a text of any length.
template <size_t N>
[[nodiscard]] inline bool ValueIs(std::string_view text, const char (&lower)[N]) noexcept {
  return text.size() == N - 1 && TokenIs(text.data(), lower);
}

}  // namespace flowguard::wire
