// SPDX-License-Identifier: Apache-2.0
#include "wire/header_lines.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "wire/known_names.h"
#include "wire/scan.h"

namespace flowguard::wire {
namespace {

constexpr size_t kLengthDigitsMax = 18;  // below 2^63 whatever the digits are

// Of bytes that a value may have, TAB and space alone are not above space.
bool IsBlank(char c) noexcept {
  return static_cast<unsigned char>(c) <= ' ';
}

// Requires: all between are value bytes.
inline std::string_view Trim(const char* begin, const char* end) noexcept {
  // As nearly all senders write it: one space before, none behind.
  if (end - begin >= 2 && *begin == ' ' && !IsBlank(begin[1]) && !IsBlank(end[-1])) [[likely]] {
    return {begin + 1, static_cast<size_t>(end - begin - 1)};
  }
  while (begin != end && IsBlank(*begin))
    ++begin;
  while (end != begin && IsBlank(end[-1]))
    --end;
  return {begin, static_cast<size_t>(end - begin)};
}

// Calls visit(option) for each non-empty option of a Connection value until it says
// false; false also when an option is not a token.
template <typename Visit>
bool ForEachOption(std::string_view value, Visit visit) noexcept {
  while (!value.empty()) {
    const size_t comma = std::min(value.find(','), value.size());
    const std::string_view option = Trim(value.data(), value.data() + comma);
    if (!option.empty() && (!IsToken(option) || !visit(option))) return false;
    value.remove_prefix(std::min(comma + 1, value.size()));
  }
  return true;
}

BadReason NoteContentLength(std::string_view value, HeaderFacts& facts) noexcept {
  if (facts.has_content_length || facts.chunked) return BadReason::kBadFraming;
  if (value.empty() || value.size() > kLengthDigitsMax) return BadReason::kBadFraming;
  uint64_t length = 0;
  for (const char c : value) {
    if (c < '0' || c > '9') return BadReason::kBadFraming;
    length = length * 10 + static_cast<uint64_t>(c - '0');
  }
  facts.content_length = length;
  facts.has_content_length = true;
  return BadReason::kNone;
}

// `raw` is the value with its white space.  At most one leading space is allowed and
// nothing behind: what trims more or less than we do must not see another coding.
BadReason NoteTransferEncoding(std::string_view raw, HeaderFacts& facts) noexcept {
  if (facts.has_content_length || facts.chunked) return BadReason::kBadFraming;
  if (!raw.empty() && raw.front() == ' ') raw.remove_prefix(1);
  if (ValueIs(raw, "chunked")) {
    facts.chunked = true;
    return BadReason::kNone;
  }
  return IsToken(raw) ? BadReason::kCodingUnsupported : BadReason::kBadFraming;
}

BadReason NoteConnection(std::string_view value, HeaderFacts& facts) noexcept {
  // Nearly all there are.
  if (ValueIs(value, "keep-alive")) {
    facts.keep_alive = true;
    return BadReason::kNone;
  }
  size_t options = 0;
  const bool good = ForEachOption(value, [&](std::string_view option) {
    if (ValueIs(option, "close")) {
      facts.close = true;
    } else if (ValueIs(option, "keep-alive")) {
      facts.keep_alive = true;
    } else if (ValueIs(option, "upgrade")) {
      facts.upgrade = true;
    } else {
      facts.nominates = true;
    }
    return ++options <= base::kConnectionOptionsMax;
  });
  if (good) return BadReason::kNone;
  return options > base::kConnectionOptionsMax ? BadReason::kHeadTooLarge : BadReason::kSyntax;
}

BadReason NoteKnown(Header& header, std::string_view raw, HeaderFacts& facts) noexcept {
  switch (header.known) {
    case KnownHeader::kContentLength:
      return NoteContentLength(header.value, facts);
    case KnownHeader::kTransferEncoding:
      header.hop_by_hop = true;
      return NoteTransferEncoding(raw, facts);
    case KnownHeader::kConnection:
      header.hop_by_hop = true;
      return NoteConnection(header.value, facts);
    case KnownHeader::kKeepAlive:
    case KnownHeader::kProxyConnection:
    case KnownHeader::kTe:
    case KnownHeader::kUpgrade:
      header.hop_by_hop = true;
      return BadReason::kNone;
    default:
      return BadReason::kNone;
  }
}

// Lines that Connection cannot take away: framing and routing are ours to write, and a
// client must not make us drop who it is.
bool MayBeNominated(KnownHeader known) noexcept {
  switch (known) {
    case KnownHeader::kAuthorization:
    case KnownHeader::kCacheControl:
    case KnownHeader::kContentLength:
    case KnownHeader::kContentType:
    case KnownHeader::kCookie:
    case KnownHeader::kDate:
    case KnownHeader::kForwarded:
    case KnownHeader::kHost:
    case KnownHeader::kVia:
    case KnownHeader::kXForwardedFor:
    case KnownHeader::kXForwardedHost:
    case KnownHeader::kXForwardedProto:
    case KnownHeader::kXRealIp:
      return false;
    default:
      return true;
  }
}

void MarkNominated(HeaderList& headers) noexcept {
  for (size_t i = 0; i < headers.count; ++i) {
    if (headers.lines[i].known != KnownHeader::kConnection) continue;
    ForEachOption(headers.lines[i].value, [&](std::string_view option) {
      for (size_t k = 0; k < headers.count; ++k) {
        Header& header = headers.lines[k];
        if (EqualsIgnoreCase(header.name, option) && MayBeNominated(header.known))
          header.hop_by_hop = true;
      }
      return true;
    });
  }
}

}  // namespace

ParseStatus ParseHeaderLines(const char*& at, const char* end, HeaderList& headers,
                             HeaderFacts& facts) noexcept {
  headers.Clear();
  const auto bad = [&facts](BadReason reason) {
    facts.bad = reason;
    return ParseStatus::kBad;
  };
  const char* p = at;
  size_t count = 0;
  for (;;) {
    if (p == end) return ParseStatus::kNeedMore;
    if (*p == '\r') {
      if (p + 1 == end) return ParseStatus::kNeedMore;
      if (p[1] != '\n') return bad(BadReason::kSyntax);
      at = p + 2;
      break;
    }
    const char* const name = p;
    p = SkipToken(at, p, end);
    if (p == end) return ParseStatus::kNeedMore;
    // Also folded lines, space before the colon and bare LF end up here.
    if (*p != ':' || p == name) return bad(BadReason::kSyntax);
    const char* const name_end = p++;
    const char* const raw = p;
    p = SkipValue(at, p, end);
    if (end - p < 2 || std::memcmp(p, "\r\n", 2) != 0) [[unlikely]] {
      const bool may_come = p == end || (*p == '\r' && p + 1 == end);
      return may_come ? ParseStatus::kNeedMore : bad(BadReason::kSyntax);
    }
    if (count == headers.lines.size()) return bad(BadReason::kHeadTooLarge);

    Header& header = headers.lines[count];
    header.name = {name, static_cast<size_t>(name_end - name)};
    header.value = Trim(raw, p);
    header.known = KnownName(header.name);
    header.hop_by_hop = false;
    if (header.known != KnownHeader::kOther) {
      uint8_t& first = headers.first[static_cast<size_t>(header.known)];
      if (first == HeaderList::kAbsent) {
        first = static_cast<uint8_t>(count);
      } else if (header.known == KnownHeader::kHost) {
        facts.repeats_host = true;
      }
      const BadReason reason = NoteKnown(header, {raw, static_cast<size_t>(p - raw)}, facts);
      if (reason != BadReason::kNone) return bad(reason);
    }
    ++count;
    p += 2;
  }
  headers.count = count;
  if (facts.nominates) MarkNominated(headers);
  return ParseStatus::kDone;
}

bool StillIncomplete(std::string_view bytes, size_t already_scanned) noexcept {
  if (already_scanned == 0 || already_scanned > bytes.size()) return false;
  if (bytes.size() >= base::kHeadBytesMax) return false;
  if (std::bit_width(bytes.size()) != std::bit_width(already_scanned)) return false;
  const size_t from = already_scanned >= 3 ? already_scanned - 3 : 0;
  return bytes.find("\r\n\r\n", from) == std::string_view::npos;
}

}  // namespace flowguard::wire
