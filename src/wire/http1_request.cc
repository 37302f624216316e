// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "wire/header_lines.h"
#include "wire/http1.h"
#include "wire/scan.h"

namespace flowguard::wire {
namespace {

ParseStatus Bad(RequestHead& head, BadReason reason) noexcept {
  head.bad = reason;
  return ParseStatus::kBad;
}

Method MethodOf(std::string_view text) noexcept {
  switch (text.size()) {
    case 3:
      if (text == "GET") return Method::kGet;
      return text == "PUT" ? Method::kPut : Method::kOther;
    case 4:
      if (text == "POST") return Method::kPost;
      return text == "HEAD" ? Method::kHead : Method::kOther;
    case 5:
      if (text == "PATCH") return Method::kPatch;
      return text == "TRACE" ? Method::kTrace : Method::kOther;
    case 6:
      return text == "DELETE" ? Method::kDelete : Method::kOther;
    case 7:
      return text == "OPTIONS" ? Method::kOptions : Method::kOther;
    default:
      return Method::kOther;
  }
}

// " HTTP/1.x" CRLF behind the target.
ParseStatus ParseVersion(const char*& at, const char* end, RequestHead& head) noexcept {
  constexpr std::string_view kPattern = " HTTP/1.1\r\n";
  constexpr size_t kMajorAt = 6;
  constexpr size_t kMinorAt = 8;
  const size_t there = std::min(static_cast<size_t>(end - at), kPattern.size());
  if (there == kPattern.size() && std::memcmp(at, kPattern.data(), there) == 0) {
    head.minor_version = 1;
    at += kPattern.size();
    return ParseStatus::kDone;
  }
  for (size_t i = 0; i < there; ++i) {
    const bool digit = at[i] >= '0' && at[i] <= '9';
    const bool good = i == kMajorAt || i == kMinorAt ? digit : at[i] == kPattern[i];
    if (!good) return Bad(head, BadReason::kSyntax);
  }
  if (there < kPattern.size()) return ParseStatus::kNeedMore;
  if (at[kMajorAt] != '1' || at[kMinorAt] > '1') return Bad(head, BadReason::kVersion);
  head.minor_version = static_cast<uint8_t>(at[kMinorAt] - '0');
  at += kPattern.size();
  return ParseStatus::kDone;
}

bool IsHost(std::string_view text) noexcept {
  const char* end = text.data() + text.size();
  return SkipHost(text.data(), end) == end;
}

// Decides the target's form; for an absolute target head.host becomes its authority.
BadReason ClassifyTarget(RequestHead& head) noexcept {
  const std::string_view target = head.target;
  if (target.front() == '/') {
    head.form = TargetForm::kOrigin;
    return BadReason::kNone;
  }
  if (target == "*") {
    head.form = TargetForm::kAsterisk;
    return head.method == Method::kOptions ? BadReason::kNone : BadReason::kSyntax;
  }
  size_t authority = 0;
  if (EqualsIgnoreCase(target.substr(0, 7), "http://")) authority = 7;
  if (EqualsIgnoreCase(target.substr(0, 8), "https://")) authority = 8;
  if (authority == 0) return BadReason::kSyntax;
  head.form = TargetForm::kAbsolute;
  const size_t end = std::min(target.find_first_of("/?#", authority), target.size());
  head.host = target.substr(authority, end - authority);
  // IsHost has no '@': credentials in a target are refused.
  return head.host.empty() || !IsHost(head.host) ? BadReason::kBadHost : BadReason::kNone;
}

ParseStatus ParseRequestLine(const char*& at, const char* end, RequestHead& head) noexcept {
  const char* const method = at;
  const bool get = end - at >= 4 && std::memcmp(at, "GET ", 4) == 0;
  const char* p = get ? at + 3 : SkipToken(at, at, end);
  const auto method_bytes = static_cast<size_t>(p - method);
  if (method_bytes > base::kMethodBytesMax) return Bad(head, BadReason::kMethodUnsupported);
  if (p == end) return ParseStatus::kNeedMore;
  if (*p != ' ' || method_bytes == 0) return Bad(head, BadReason::kSyntax);
  head.method_text = {method, method_bytes};
  head.method = get ? Method::kGet : MethodOf(head.method_text);

  const char* const target = ++p;
  p = SkipTarget(p, end);
  const auto target_bytes = static_cast<size_t>(p - target);
  if (target_bytes > base::kTargetBytesMax) return Bad(head, BadReason::kTargetTooLong);
  if (p == end) return ParseStatus::kNeedMore;
  if (*p != ' ' || target_bytes == 0) return Bad(head, BadReason::kSyntax);
  head.target = {target, target_bytes};

  const ParseStatus version = ParseVersion(p, end, head);
  if (version != ParseStatus::kDone) return version;
  if (head.method_text == "CONNECT") return Bad(head, BadReason::kMethodUnsupported);
  const BadReason reason = ClassifyTarget(head);
  if (reason != BadReason::kNone) return Bad(head, reason);
  at = p;
  return ParseStatus::kDone;
}

BadReason CheckHost(const HeaderFacts& facts, RequestHead& head) noexcept {
  const Header* host = head.headers.Find(KnownHeader::kHost);
  if (host == nullptr) return head.minor_version == 0 ? BadReason::kNone : BadReason::kBadHost;
  if (facts.repeats_host || !IsHost(host->value)) return BadReason::kBadHost;
  if (head.form != TargetForm::kAbsolute) head.host = host->value;
  return BadReason::kNone;
}

BadReason ApplyFacts(const HeaderFacts& facts, RequestHead& head) noexcept {
  const BadReason host = CheckHost(facts, head);
  if (host != BadReason::kNone) return host;
  const bool version_1_1 = head.minor_version == 1;
  if (facts.chunked) {
    // HTTP/1.0 knows no coding: its readers would take the chunks for the body.
    if (!version_1_1) return BadReason::kBadFraming;
    head.body = BodyFraming::kChunked;
  } else if (facts.content_length > 0) {
    head.body = BodyFraming::kLength;
    head.content_length = facts.content_length;
  }
  head.keep_alive = !facts.close && (version_1_1 || facts.keep_alive);
  head.upgrade = version_1_1 && facts.upgrade && head.headers.Has(KnownHeader::kUpgrade);
  if (const Header* expect = head.headers.Find(KnownHeader::kExpect);
      expect != nullptr && version_1_1) {
    if (!EqualsIgnoreCase(expect->value, "100-continue")) return BadReason::kExpectation;
    head.expect_continue = head.body != BodyFraming::kNone;
  }
  if (const Header* te = head.headers.Find(KnownHeader::kTe); te != nullptr)
    head.te_trailers = EqualsIgnoreCase(te->value, "trailers");
  return BadReason::kNone;
}

ParseStatus ParseAll(std::string_view bytes, RequestHead& head) noexcept {
  const char* at = bytes.data();
  const char* const end = at + bytes.size();
  if (at != end && *at == '\r') {
    if (at + 1 == end) return ParseStatus::kNeedMore;
    if (at[1] != '\n') return Bad(head, BadReason::kSyntax);
    at += 2;
  }
  ParseStatus status = ParseRequestLine(at, end, head);
  if (status != ParseStatus::kDone) return status;
  HeaderFacts facts;
  status = ParseHeaderLines(at, end, head.headers, facts);
  if (status == ParseStatus::kNeedMore) return status;
  const BadReason reason = status == ParseStatus::kBad ? facts.bad : ApplyFacts(facts, head);
  if (reason != BadReason::kNone) return Bad(head, reason);
  head.consumed = static_cast<size_t>(at - bytes.data());
  return ParseStatus::kDone;
}

}  // namespace

ParseStatus ParseRequestHead(std::string_view bytes, size_t already_scanned,
                             RequestHead& head) noexcept {
  if (StillIncomplete(bytes, already_scanned)) return ParseStatus::kNeedMore;
  head.host = {};
  head.content_length = 0;
  head.consumed = 0;
  head.body = BodyFraming::kNone;
  head.expect_continue = false;
  head.te_trailers = false;
  head.bad = BadReason::kNone;
  const ParseStatus status = ParseAll(bytes.substr(0, base::kHeadBytesMax), head);
  if (status == ParseStatus::kNeedMore && bytes.size() >= base::kHeadBytesMax)
    return Bad(head, BadReason::kHeadTooLarge);
  return status;
}

}  // namespace flowguard::wire
