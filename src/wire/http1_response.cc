// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "wire/header_lines.h"
#include "wire/http1.h"
#include "wire/scan.h"

namespace flowguard::wire {
namespace {

ParseStatus Bad(ResponseHead& head, BadReason reason) noexcept {
  head.bad = reason;
  return ParseStatus::kBad;
}

// "HTTP/1.x NNN reason" CRLF; the space behind the status may be missing with the
// reason, as some servers leave it out.
ParseStatus ParseStatusLine(const char*& at, const char* end, ResponseHead& head) noexcept {
  constexpr std::string_view kPattern = "HTTP/1.1 200";
  constexpr size_t kMinorAt = 7;
  constexpr size_t kStatusAt = 9;
  const size_t there = std::min(static_cast<size_t>(end - at), kPattern.size());
  for (size_t i = 0; i < there; ++i) {
    const bool digit = at[i] >= '0' && at[i] <= '9';
    bool good = at[i] == kPattern[i];
    if (i == kMinorAt) good = at[i] == '0' || at[i] == '1';
    if (i == kStatusAt) good = digit && at[i] != '0';
    if (i > kStatusAt) good = digit;
    if (!good) return Bad(head, i <= kMinorAt ? BadReason::kVersion : BadReason::kSyntax);
  }
  if (there < kPattern.size()) return ParseStatus::kNeedMore;
  head.minor_version = static_cast<uint8_t>(at[kMinorAt] - '0');
  head.status =
      (at[kStatusAt] - '0') * 100 + (at[kStatusAt + 1] - '0') * 10 + (at[kStatusAt + 2] - '0');
  const char* p = at + kPattern.size();
  if (p == end) return ParseStatus::kNeedMore;
  const bool spaced = *p == ' ';
  if (spaced) ++p;
  const char* const reason = p;
  if (spaced) p = SkipValue(at, p, end);
  if (p == end) return ParseStatus::kNeedMore;
  if (*p != '\r') return Bad(head, BadReason::kSyntax);
  head.reason = {reason, static_cast<size_t>(p - reason)};
  if (++p == end) return ParseStatus::kNeedMore;
  if (*p != '\n') return Bad(head, BadReason::kSyntax);
  at = p + 1;
  return ParseStatus::kDone;
}

void DropLengthLines(HeaderList& headers) noexcept {
  for (size_t i = 0; i < headers.count; ++i)
    if (headers.lines[i].known == KnownHeader::kContentLength) headers.lines[i].hop_by_hop = true;
}

BadReason ApplyFacts(const HeaderFacts& facts, bool to_head, ResponseHead& head) noexcept {
  const bool version_1_1 = head.minor_version == 1;
  if (facts.chunked && !version_1_1) return BadReason::kBadFraming;
  head.keep_alive = !facts.close && (version_1_1 || facts.keep_alive);
  if (head.status < 200 || head.status == 204) {
    // There is no body.  If the upstream thinks that there is one, its bytes would be
    // taken for the next response.
    if (facts.chunked || facts.content_length > 0) head.keep_alive = false;
    if (facts.has_content_length) DropLengthLines(head.headers);
    return BadReason::kNone;
  }
  if (to_head || head.status == 304) return BadReason::kNone;
  if (facts.chunked) {
    head.body = BodyFraming::kChunked;
  } else if (facts.content_length > 0) {
    head.body = BodyFraming::kLength;
    head.content_length = facts.content_length;
  } else if (!facts.has_content_length) {
    head.body = BodyFraming::kUntilClose;
    head.keep_alive = false;
  }
  return BadReason::kNone;
}

ParseStatus ParseAll(std::string_view bytes, bool to_head, ResponseHead& head) noexcept {
  const char* at = bytes.data();
  const char* const end = at + bytes.size();
  ParseStatus status = ParseStatusLine(at, end, head);
  if (status != ParseStatus::kDone) return status;
  HeaderFacts facts;
  status = ParseHeaderLines(at, end, head.headers, facts);
  if (status == ParseStatus::kNeedMore) return status;
  const BadReason reason =
      status == ParseStatus::kBad ? facts.bad : ApplyFacts(facts, to_head, head);
  if (reason != BadReason::kNone) return Bad(head, reason);
  head.consumed = static_cast<size_t>(at - bytes.data());
  return ParseStatus::kDone;
}

}  // namespace

ParseStatus ParseResponseHead(std::string_view bytes, size_t already_scanned, bool to_head,
                              ResponseHead& head) noexcept {
  if (StillIncomplete(bytes, already_scanned)) return ParseStatus::kNeedMore;
  head.content_length = 0;
  head.consumed = 0;
  head.body = BodyFraming::kNone;
  head.bad = BadReason::kNone;
  const ParseStatus status = ParseAll(bytes.substr(0, base::kHeadBytesMax), to_head, head);
  if (status == ParseStatus::kNeedMore && bytes.size() >= base::kHeadBytesMax)
    return Bad(head, BadReason::kHeadTooLarge);
  return status;
}

}  // namespace flowguard::wire
