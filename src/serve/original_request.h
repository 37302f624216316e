// SPDX-License-Identifier: Apache-2.0
//
// What another proxy was asked, when it asks us whether that may pass.
//
//   nginx auth_request   X-Original-URI, X-Original-Method
//   Traefik, Caddy       X-Forwarded-Uri, X-Forwarded-Method
//   Envoy, path rewritten to /v1/auth  X-Envoy-Original-Path
//   Envoy (HTTP)         our own path behind /v1/auth, and our own method
//
// A proxy passes the client's own header lines on beside those that it sets, so a
// client can write any of these.  They are believed of trusted peers only, and only
// when no two of them tell different stories.  A path behind /v1/auth is such a story.
#pragma once

#include <cstdint>
#include <string_view>

#include "wire/http1.h"

namespace flowguard::serve {

inline constexpr std::string_view kAuthPath = "/v1/auth";

// "/v1/auth", "/v1/auth?...", "/v1/auth/...".
[[nodiscard]] bool IsAuthTarget(std::string_view target) noexcept;

struct OriginalRequest {
  std::string_view method;
  std::string_view target;
  bool conflicting = false;  // answer 400: someone writes what the proxy should write
};

// Requires: IsAuthTarget(head.target).  Views are of `head`.
// Cost: no allocation; one pass over the header lines.
[[nodiscard]] OriginalRequest FindOriginalRequest(const wire::RequestHead& head,
                                                  bool peer_trusted) noexcept;

// "?deny=403" on our own path: the status for refusals; 0: none asked for.
[[nodiscard]] int DenyStatus(std::string_view target) noexcept;

}  // namespace flowguard::serve
