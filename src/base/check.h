// SPDX-License-Identifier: Apache-2.0
//
// Checks of our own invariants.  Nothing that a peer, a file or a clock can cause
// may reach one; that is a Result or a value.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace flowguard::base {

[[noreturn]] inline void CheckFailed(const char* file, int line, const char* expression) noexcept {
  static_cast<void>(std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, expression));
  std::abort();
}

}  // namespace flowguard::base

// Always on: prints the expression and aborts.
#define FG_CHECK(expression)     \
  (static_cast<bool>(expression) \
       ? static_cast<void>(0)    \
       : ::flowguard::base::CheckFailed(__FILE__, __LINE__, #expression))

// In loops and on the request path: on in development and sanitizer builds.
#ifdef FG_DCHECK_ENABLED
#define FG_DCHECK(expression) FG_CHECK(expression)
#else
#define FG_DCHECK(expression) static_cast<void>(0)
#endif
