// SPDX-License-Identifier: Apache-2.0
//
// HTTP/1.1 message heads: bytes in, views out.  The codec never sees a socket and
// never allocates; every view points into the bytes that were parsed, so it lives
// as long as those bytes stay where they are.
//
// The parser is strict, because two readers that understand one byte stream
// differently are how a request is smuggled past a limit.  Refused are: bare LF and
// bare CR line ends, NUL and other control bytes, folded lines, space before the
// colon, names that are not tokens, Content-Length beside Transfer-Encoding, either
// of them twice, lengths that are not plain digits, and any Transfer-Encoding but
// `chunked`.  One empty line before a request is tolerated, as old clients send it
// after a body.  Bytes from 0x80 are let through in the target and in values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/bounds.h"

namespace flowguard::wire {

enum class ParseStatus : uint8_t { kNeedMore, kDone, kBad };

// Why a message was refused.  StatusFor gives the answer for a client; a response
// head that is bad is always the upstream's fault: 502.
enum class BadReason : uint8_t {
  kNone,
  kSyntax,             // 400: not an HTTP/1 message
  kBadHost,            // 400: Host missing, repeated or no host
  kBadFraming,         // 400: lengths that two readers could understand differently
  kTargetTooLong,      // 414
  kExpectation,        // 417: an Expect other than 100-continue
  kHeadTooLarge,       // 431: bytes or number of header lines
  kMethodUnsupported,  // 501: CONNECT, or a name longer than any method
  kCodingUnsupported,  // 501: a transfer coding other than chunked
  kVersion,            // 505: neither HTTP/1.0 nor HTTP/1.1
};

[[nodiscard]] int StatusFor(BadReason reason) noexcept;
// A short text for logs and refusal bodies, e.g. "header section too large".
[[nodiscard]] std::string_view Describe(BadReason reason) noexcept;

// The header names that a proxy or a limiter looks at.  They are recognised while
// the line is parsed, so that nobody has to search for them afterwards.
enum class KnownHeader : uint8_t {
  kOther,
  kAuthorization,
  kCacheControl,
  kConnection,
  kContentLength,
  kContentType,
  kCookie,
  kDate,
  kExpect,
  kForwarded,
  kHost,
  kKeepAlive,
  kOrigin,
  kProxyConnection,
  kRateLimit,
  kRateLimitPolicy,
  kRetryAfter,
  kServer,
  kTe,
  kTrailer,
  kTransferEncoding,
  kUpgrade,
  kVia,
  kXForwardedFor,
  kXForwardedHost,
  kXForwardedProto,
  kXRateLimitLimit,
  kXRateLimitRemaining,
  kXRateLimitReset,
  kXRealIp,
  kCount,  // not a header: the number of names
};

struct Header {
  std::string_view name;   // as received
  std::string_view value;  // without white space around it; may be empty
  KnownHeader known = KnownHeader::kOther;
  // Belongs to this connection and is not passed on: Connection itself, Keep-Alive,
  // Proxy-Connection, TE, Transfer-Encoding, Upgrade, and what Connection names.
  // (Who passes an upgrade on writes Connection and Upgrade anew.)
  bool hop_by_hop = false;
};

// The header lines of one message, in order.
struct HeaderList {
  std::array<Header, base::kHeaderCountMax> lines;
  size_t count = 0;
  // Index of the first line of a known name; kAbsent when there is none.
  // Longer than needed, so that clearing it is two stores.
  std::array<uint8_t, 32> first;

  static constexpr uint8_t kAbsent = 0xFF;
  static constexpr std::array<uint8_t, 32> kAllAbsent = [] {
    std::array<uint8_t, 32> all{};
    all.fill(kAbsent);
    return all;
  }();
  static_assert(base::kHeaderCountMax < kAbsent);
  static_assert(static_cast<size_t>(KnownHeader::kCount) <= 32);

  HeaderList() noexcept { Clear(); }
  void Clear() noexcept {
    count = 0;
    first = kAllAbsent;
  }

  [[nodiscard]] std::span<const Header> all() const noexcept { return {lines.data(), count}; }
  [[nodiscard]] bool Has(KnownHeader name) const noexcept {
    return first[static_cast<size_t>(name)] != kAbsent;
  }
  // The first line of that name, or null.  Cost: one load.
  [[nodiscard]] const Header* Find(KnownHeader name) const noexcept {
    const uint8_t at = first[static_cast<size_t>(name)];
    return at == kAbsent ? nullptr : &lines[at];
  }
};

// How the end of the body is found.
enum class BodyFraming : uint8_t {
  kNone,        // no body follows
  kLength,      // content_length bytes follow; never 0
  kChunked,     // see http1_chunked.h
  kUntilClose,  // responses only
};

enum class Method : uint8_t { kGet, kHead, kPost, kPut, kDelete, kOptions, kPatch, kTrace, kOther };

enum class TargetForm : uint8_t {
  kOrigin,    // "/path?query"
  kAbsolute,  // "http://host/path?query"
  kAsterisk,  // "*", with OPTIONS only
};

// A large value (4 KiB): keep one per connection or per loop and parse into it again.
struct RequestHead {
  std::string_view method_text;  // "GET"; case matters
  std::string_view target;       // as received; what the upstream is sent
  std::string_view host;         // of an absolute target, else the Host line; may be empty
  uint64_t content_length = 0;   // 0 unless body is kLength
  size_t consumed = 0;           // bytes of the head with its empty line; the body begins here
  Method method = Method::kOther;
  TargetForm form = TargetForm::kOrigin;
  uint8_t minor_version = 1;  // 0 or 1
  BodyFraming body = BodyFraming::kNone;
  bool keep_alive = true;        // what the client wants
  bool expect_continue = false;  // it waits for 100 before it sends the body (there is one)
  bool upgrade = false;          // Connection: upgrade with an Upgrade line, HTTP/1.1
  bool te_trailers = false;      // TE: trailers
  BadReason bad = BadReason::kNone;
  HeaderList headers;
};

struct ResponseHead {
  std::string_view reason;  // may be empty
  uint64_t content_length = 0;
  size_t consumed = 0;
  int status = 0;  // 100..999
  uint8_t minor_version = 1;
  BodyFraming body = BodyFraming::kNone;
  bool keep_alive = true;  // the connection may be used again after the body's end
  BadReason bad = BadReason::kNone;
  HeaderList headers;
};

// Parses the request head at the start of `bytes`.
//
// kDone: `head` is filled in; head.consumed bytes were the head.  kBad: head.bad
// says why, the connection cannot be used further; nothing else in `head` counts.
// kNeedMore: call again with the same bytes and more behind them, and with
// `already_scanned` = bytes.size() of this call; a head that trickles in is then not
// read again from its start for every byte (a fault in it may be reported some bytes
// later for it, never another fault and never none).
//
// Errors:  all semantics are checked here: Host, framing, Expect, limits of
//          base/bounds.h.  More than kHeadBytesMax bytes without an end are
//          kHeadTooLarge, so a buffer of kHeadBytesMax bytes always suffices.
// Cost:    one pass over the bytes, no allocation.
// Source:  RFC 9112 and RFC 9110 §7; stricter where the file comment says so.
[[nodiscard]] ParseStatus ParseRequestHead(std::string_view bytes, size_t already_scanned,
                                           RequestHead& head) noexcept;

// The same for a response; `to_head` says that the request was HEAD.  Interim
// responses (1xx) are messages of their own: parse again behind them.
//
// A response whose length lines are contradictory is kBad.  204 and 1xx have no body
// whatever their header says; if it says something else, keep_alive is false and the
// length lines are marked hop-by-hop.
[[nodiscard]] ParseStatus ParseResponseHead(std::string_view bytes, size_t already_scanned,
                                            bool to_head, ResponseHead& head) noexcept;

// --- words, for those who check configuration or build heads

// True when `name` may be a header name or a method (a token: at least one byte).
[[nodiscard]] bool IsToken(std::string_view name) noexcept;
// True when `value` may be a header value: no control byte but TAB, none of CR, LF, NUL.
[[nodiscard]] bool IsFieldValue(std::string_view value) noexcept;
// ASCII case-insensitive equality.
[[nodiscard]] bool EqualsIgnoreCase(std::string_view a, std::string_view b) noexcept;
// kOther when the name is none of the known ones.  Requires: IsToken(name).
[[nodiscard]] KnownHeader Recognise(std::string_view name) noexcept;

}  // namespace flowguard::wire
