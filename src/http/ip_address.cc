// SPDX-License-Identifier: Apache-2.0
#include "http/ip_address.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/bounds.h"
#include "base/check.h"

namespace flowguard::http {
namespace {

using Bytes = std::array<uint8_t, 16>;

constexpr int kMappedPrefix = 96;  // bits before the IPv4 address
constexpr Bytes kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
constexpr Bytes kNat64 = {0, 0x64, 0xFF, 0x9B};

bool StartsWith96(const Bytes& bytes, const Bytes& prefix) noexcept {
  return std::memcmp(bytes.data(), prefix.data(), kMappedPrefix / 8) == 0;
}

// Reads a number of 1 to `digits_max` decimal digits without leading zero; -1 if there
// is none.  Moves `text` behind it.
int TakeDecimal(std::string_view& text, size_t digits_max) noexcept {
  size_t n = 0;
  int value = 0;
  while (n < text.size() && n < digits_max && text[n] >= '0' && text[n] <= '9')
    value = value * 10 + (text[n++] - '0');
  if (n == 0 || (n > 1 && text.front() == '0')) return -1;
  text.remove_prefix(n);
  return value;
}

bool ParseV4(std::string_view text, std::span<uint8_t, 4> out) noexcept {
  for (size_t part = 0; part < 4; ++part) {
    if (part > 0) {
      if (text.empty() || text.front() != '.') return false;
      text.remove_prefix(1);
    }
    const int value = TakeDecimal(text, 3);
    if (value < 0 || value > 255) return false;
    out[part] = static_cast<uint8_t>(value);
  }
  return text.empty();
}

// Reads 1 to 4 hex digits; -1 if there are none.  Moves `text` behind them.
int TakeGroup(std::string_view& text) noexcept {
  int value = 0;
  const auto end =
      std::from_chars(text.data(), text.data() + std::min<size_t>(text.size(), 4), value, 16);
  if (end.ec != std::errc() || value < 0) return -1;
  text.remove_prefix(static_cast<size_t>(end.ptr - text.data()));
  return value;
}

bool ParseV6(std::string_view text, Bytes& out) noexcept {
  constexpr size_t kNowhere = 17;
  Bytes bytes{};
  size_t at = 0;          // bytes written
  size_t gap = kNowhere;  // where "::" stands
  if (text.substr(0, 2) == "::") {
    gap = 0;
    text.remove_prefix(2);
  }
  bool need_group = gap == kNowhere;  // at the start, and after a single colon
  while (!text.empty()) {
    if (at == 16) return false;
    std::string_view rest = text;
    const int group = TakeGroup(rest);
    if (group < 0) return false;
    if (!rest.empty() && rest.front() == '.') {
      if (at > 12 || !ParseV4(text, std::span<uint8_t, 4>(bytes.data() + at, 4))) return false;
      at += 4;
      need_group = false;
      break;
    }
    bytes[at++] = static_cast<uint8_t>(group >> 8);
    bytes[at++] = static_cast<uint8_t>(group & 0xFF);
    text = rest;
    need_group = false;
    if (text.empty()) break;
    if (text.front() != ':') return false;
    text.remove_prefix(1);
    need_group = true;
    if (!text.empty() && text.front() == ':') {
      if (gap != kNowhere) return false;
      gap = at;
      text.remove_prefix(1);
      need_group = false;
    }
  }
  if (need_group || (gap == kNowhere && at != 16) || (gap != kNowhere && at == 16)) return false;
  if (gap != kNowhere) {
    std::copy_backward(bytes.begin() + static_cast<std::ptrdiff_t>(gap),
                       bytes.begin() + static_cast<std::ptrdiff_t>(at), bytes.end());
    std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(gap),
              bytes.end() - static_cast<std::ptrdiff_t>(at - gap), uint8_t{0});
  }
  out = bytes;
  return true;
}

bool IsPort(std::string_view text) noexcept {
  const int port = TakeDecimal(text, 5);
  return text.empty() && port >= 0 && port <= 65535;
}

char* PutNumber(char* to, unsigned value, int base) noexcept {
  return std::to_chars(to, to + 10, value, base).ptr;
}

char* PutV4(char* to, const uint8_t* bytes) noexcept {
  for (int i = 0; i < 4; ++i) {
    if (i > 0) *to++ = '.';
    to = PutNumber(to, bytes[i], 10);
  }
  return to;
}

// The longest run of zero groups, the first of equal ones, two at least (RFC 5952).
char* PutV6(char* to, const Bytes& bytes) noexcept {
  std::array<unsigned, 8> groups;
  for (size_t i = 0; i < 8; ++i)
    groups[i] = static_cast<unsigned>(bytes[2 * i]) << 8 | bytes[2 * i + 1];
  size_t run_at = 8;
  size_t run = 1;
  for (size_t i = 0; i < 8; ++i) {
    size_t n = 0;
    while (i + n < 8 && groups[i + n] == 0)
      ++n;
    if (n > run) {
      run = n;
      run_at = i;
    }
  }
  for (size_t i = 0; i < 8;) {
    if (i == run_at) {
      *to++ = ':';
      *to++ = ':';
      i += run;
      continue;
    }
    if (i > 0 && i != run_at + run) *to++ = ':';
    to = PutNumber(to, groups[i++], 16);
  }
  return to;
}

bool SamePrefix(const Bytes& a, const Bytes& b, int prefix) noexcept {
  const auto whole = static_cast<size_t>(prefix / 8);
  if (std::memcmp(a.data(), b.data(), whole) != 0) return false;
  if (prefix % 8 == 0) return true;
  const int shift = 8 - prefix % 8;
  return a[whole] >> shift == b[whole] >> shift;
}

Error BadBlock(const std::string& text, const char* fault) {
  return Error::InvalidArgument("\"" + text + "\": " + fault +
                                "; allowed is an address or a block such as 10.0.0.0/8 or "
                                "2001:db8::/32");
}

}  // namespace

IpAddress IpAddress::FromV4(std::span<const uint8_t, 4> bytes) noexcept {
  IpAddress address;
  address.bytes_ = kMapped;
  std::copy(bytes.begin(), bytes.end(), address.bytes_.begin() + kMappedPrefix / 8);
  return address;
}

IpAddress IpAddress::FromV6(std::span<const uint8_t, 16> bytes) noexcept {
  IpAddress address;
  std::copy(bytes.begin(), bytes.end(), address.bytes_.begin());
  if (StartsWith96(address.bytes_, kNat64))
    std::copy_n(kMapped.begin(), kMappedPrefix / 8, address.bytes_.begin());
  return address;
}

std::optional<IpAddress> IpAddress::Parse(std::string_view text) noexcept {
  std::array<uint8_t, 4> v4;
  if (ParseV4(text, v4)) return FromV4(v4);
  Bytes v6;
  if (ParseV6(text, v6)) return FromV6(v6);
  return std::nullopt;
}

std::optional<IpAddress> IpAddress::ParseWithPort(std::string_view text) noexcept {
  if (!text.empty() && text.front() == '[') {
    const size_t close = text.find(']');
    if (close == std::string_view::npos) return std::nullopt;
    const std::string_view behind = text.substr(close + 1);
    if (!behind.empty() && (behind.front() != ':' || !IsPort(behind.substr(1))))
      return std::nullopt;
    Bytes v6;
    if (!ParseV6(text.substr(1, close - 1), v6)) return std::nullopt;
    return FromV6(v6);
  }
  const size_t colon = text.find(':');
  const bool one_colon = colon != std::string_view::npos && text.rfind(':') == colon;
  if (!one_colon) return Parse(text);
  std::array<uint8_t, 4> v4;
  if (!ParseV4(text.substr(0, colon), v4) || !IsPort(text.substr(colon + 1))) return std::nullopt;
  return FromV4(v4);
}

bool IpAddress::is_v4() const noexcept {
  return StartsWith96(bytes_, kMapped);
}

IpAddress IpAddress::MaskedV6(int prefix) const noexcept {
  FG_DCHECK(prefix >= 0 && prefix <= 128);
  if (is_v4()) return *this;
  IpAddress masked = *this;
  for (int byte = 0; byte < 16; ++byte) {
    const int kept = std::clamp(prefix - byte * 8, 0, 8);
    masked.bytes_[static_cast<size_t>(byte)] &= static_cast<uint8_t>(0xFF00 >> kept);
  }
  return masked;
}

std::string_view IpAddress::Format(std::span<char, kIpTextMax> out) const noexcept {
  char* const end =
      is_v4() ? PutV4(out.data(), bytes_.data() + kMappedPrefix / 8) : PutV6(out.data(), bytes_);
  return {out.data(), static_cast<size_t>(end - out.data())};
}

std::string_view KeyText(const IpAddress& address, int v6_prefix,
                         std::span<char, kIpTextMax> out) noexcept {
  FG_DCHECK(v6_prefix >= 1 && v6_prefix <= 128);
  if (address.is_v4() || v6_prefix == 128) return address.Format(out);
  const size_t text = address.MaskedV6(v6_prefix).Format(out).size();
  char* end = out.data() + text;
  *end++ = '/';
  end = PutNumber(end, static_cast<unsigned>(v6_prefix), 10);
  return {out.data(), static_cast<size_t>(end - out.data())};
}

Result<IpBlocks> IpBlocks::Create(std::span<const std::string> texts) {
  if (texts.size() > base::kIpBlocksMax) {
    return Error::InvalidArgument("too many address blocks: " + std::to_string(texts.size()) +
                                  "; allowed are " + std::to_string(base::kIpBlocksMax));
  }
  IpBlocks blocks;
  for (const std::string& text : texts) {
    const size_t slash = text.find('/');
    const auto address = IpAddress::Parse(std::string_view(text).substr(0, slash));
    if (!address) return BadBlock(text, "not an IP address");
    // Written as IPv6, the prefix counts from the first of 128 bits.
    const bool dotted = text.find(':') == std::string::npos;
    int prefix = 128;
    if (slash != std::string::npos) {
      std::string_view digits = std::string_view(text).substr(slash + 1);
      const int bits = TakeDecimal(digits, 3);
      if (bits < 0 || !digits.empty() || bits > (dotted ? 32 : 128))
        return BadBlock(text, "bad prefix length");
      prefix = dotted ? bits + kMappedPrefix : bits;
    }
    if (address->is_v4() && prefix < kMappedPrefix)
      return BadBlock(text, "an IPv4-mapped block needs a prefix of 96 at least");
    for (int bit = prefix; bit < 128; ++bit) {
      if ((address->bytes()[static_cast<size_t>(bit / 8)] >> (7 - bit % 8) & 1) != 0)
        return BadBlock(text, "address bits are set behind the prefix");
    }
    blocks.blocks_.push_back({*address, prefix});
  }
  return blocks;
}

bool IpBlocks::Contains(const IpAddress& address) const noexcept {
  const bool v4 = address.is_v4();
  return std::any_of(blocks_.begin(), blocks_.end(), [&](const Block& block) {
    return v4 == block.base.is_v4() &&
           SamePrefix(address.bytes(), block.base.bytes(), block.prefix);
  });
}

}  // namespace flowguard::http
