// SPDX-License-Identifier: Apache-2.0
//
// The header section that requests and responses share: splits it into lines and
// notes, line by line, what decides about framing and the connection.
#pragma once

#include <cstdint>
#include <string_view>

#include "wire/http1.h"

namespace flowguard::wire {

// What the lines said.
struct HeaderFacts {
  uint64_t content_length = 0;
  bool has_content_length = false;
  bool chunked = false;
  bool close = false;       // Connection: close
  bool keep_alive = false;  // Connection: keep-alive
  bool upgrade = false;     // Connection: upgrade
  bool nominates = false;   // Connection names other headers
  bool repeats_host = false;
  BadReason bad = BadReason::kNone;
};

// Parses header lines from `at` (moved behind the empty line when kDone).
// kBad: facts.bad says why.  Checked here: syntax, number of lines, Content-Length and
// Transfer-Encoding, options of Connection.
// Requires: `facts` is fresh.
ParseStatus ParseHeaderLines(const char*& at, const char* end, HeaderList& headers,
                             HeaderFacts& facts) noexcept;

// True when a head that was incomplete with `already_scanned` bytes need not be read
// again yet: its end is not there, and its length has not passed a power of two since.
// The second half lets faults show early at a cost that stays linear in all.
[[nodiscard]] bool StillIncomplete(std::string_view bytes, size_t already_scanned) noexcept;

}  // namespace flowguard::wire
