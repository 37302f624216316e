// SPDX-License-Identifier: Apache-2.0
//
// The response fields that tell a client how much it has left: RateLimit and
// RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers-10, structured fields)
// and X-RateLimit-Limit, -Remaining, -Reset (seconds from now).
//
//   RateLimit-Policy: "per-client";q=200;w=2
//   RateLimit: "per-client";r=0;t=1
//
// They describe the rule that decided: the one that refused with the longest wait,
// or the one with the least left.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "flowguard/decision.h"

namespace flowguard::serve {

struct RateHeaderOptions {
  bool draft = true;        // RateLimit and RateLimit-Policy
  bool legacy = true;       // X-RateLimit-*
  bool on_success = false;  // also on answers that were let through (it tells the capacity)
};

// Every name that a limiter uses for such fields, in lower case.  The gateway
// strips them from upstream answers before it writes its own, so that a client
// sees exactly one of each.
inline constexpr std::array<std::string_view, 8> kRateHeaderNames = {
    "ratelimit",       "ratelimit-policy",  "ratelimit-limit",   "ratelimit-remaining",
    "ratelimit-reset", "x-ratelimit-limit", "x-ratelimit-reset", "x-ratelimit-remaining",
};

// True for one of kRateHeaderNames, in any case.
[[nodiscard]] bool IsRateHeader(std::string_view name) noexcept;

// Appends the field lines ("Name: value\r\n") for `decision`; nothing when no rule
// matched, when the rule is an access list, or when both forms are off.
//
// Units:  whole seconds, rounded up, at least 1 while anything is used up.
// Cost:   no allocation once `out` has grown.
void AppendRateHeaders(const Decision& decision, const RateHeaderOptions& options,
                       std::string& out);

// Appends `text` as a structured-field string, quotes included.  What such a string
// cannot hold (control and non-ASCII bytes) becomes '?'.
void AppendStructuredString(std::string_view text, std::string& out);

// Appends a decimal number.
void AppendDecimal(int64_t value, std::string& out);

// `d` in whole seconds, rounded up; never negative.  Requires: d != kNever.
[[nodiscard]] int64_t CeilSeconds(Duration d) noexcept;

}  // namespace flowguard::serve
