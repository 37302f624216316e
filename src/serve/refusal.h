// SPDX-License-Identifier: Apache-2.0
//
// Where a 429 is made.  Every refusal of every front door is written here: status,
// fields and body, from the Decision and the texts of the rule that refused.
//
//   HTTP/1.1 429 Too Many Requests
//   Content-Type: application/problem+json
//   Cache-Control: no-store
//   Retry-After: 1
//   RateLimit-Policy: "per-client";q=200;w=2
//   RateLimit: "per-client";r=0;t=1
//   ...
//
// What the connection does next (keep it, drain the body, close) is the session's
// business; it says so in RefusalRequest::close.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "flowguard/decision.h"
#include "flowguard/rule.h"
#include "flowguard/time.h"

#include "serve/rate_headers.h"

namespace flowguard::serve {

struct RefusalOptions {
  RefuseBody body = RefuseBody::kUnified;  // for rules that do not say
  RateHeaderOptions rate_headers{};        // on refusals always, by form
  // Refused clients come back spread over [wait, wait * (1 + percent/100) + jitter],
  // not at one instant.
  int jitter_percent = 0;
  Duration jitter{};
  bool decided_at = false;  // tell the instant of the decision (AppendDecidedAt)
};

// What the answer depends on besides the decision.
struct RefusalRequest {
  bool head = false;          // a HEAD request: the fields, no body
  bool close = false;         // write "Connection: close"
  int status = 0;             // overrides the status (nginx's auth_request wants 403); 0: no
  Instant decided_at{};       // when it was decided
  int64_t store_time_us = 0;  // and by the clock of the store, if that decided
  uint64_t draw = 0;          // a random number, for the jitter
  std::string_view date{};    // a Date line with its CRLF, or empty
};

// The status of a refusal: what the rule says, else by kind and reason: limit 429,
// concurrency 503, access and a missing dimension 403, a store that fails closed
// and too many waiting 503.  Requires: decision.verdict == kRefuse.
[[nodiscard]] int RefusalStatus(const Decision& decision) noexcept;

// Appends the whole answer, from the status line to the end of the body.
//
// Requires: decision.verdict == kRefuse.
// Units:    Retry-After in whole seconds, rounded up, at least 1; left out when
//           waiting does not help.  retry_after_ms rounded up.
// Cost:     no allocation once `out` has grown.
// Source:   RFC 9110 10.2.3, RFC 6585 4, RFC 9457.
void AppendRefusal(const Decision& decision, const RefusalOptions& options,
                   const RefusalRequest& request, std::string& out);

// Appends "FlowGuard-Decided-At: N": the instant of a decision on the process's own
// monotonic time line, for measurements.  Units: nanoseconds.  And where the store of
// shared limits decided (store_time_us > 0) "FlowGuard-Store-Decided-At: N": the instant
// by its clock.  Units: microseconds, of Redis since the Unix epoch.
void AppendDecidedAt(Instant decided_at, int64_t store_time_us, std::string& out);

// True when the rule answers by itself instead of letting the request through
// marked: `degrade` with a status.
[[nodiscard]] bool AnswersDegraded(const Decision& decision) noexcept;

// Appends the cheaper answer that the rule holds ready.  Requires: AnswersDegraded.
void AppendDegraded(const Decision& decision, const RefusalOptions& options,
                    const RefusalRequest& request, std::string& out);

// The request field that marks a degraded request for the upstream, as a line with
// CRLF: the rule's own, or "x-degraded: 1\r\n".
// Requires: decision.degraded.
void AppendDegradeMark(const Decision& decision, std::string& out);

// The reason in one word, as bodies, metrics and the decision API spell it:
// "limit", "concurrency", "access", "store_failure", "missing_dimension",
// "invalid_cost", "overload", "none".
[[nodiscard]] std::string_view ReasonWord(Reason reason) noexcept;

}  // namespace flowguard::serve
