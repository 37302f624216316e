// SPDX-License-Identifier: Apache-2.0
//
// "host:port" as servers tell it of each other.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace flowguard::quota::redis {

// "host:port", or "[host]:port" for an IPv6 address.  An empty host, which means "where
// you asked", is that of `asked`.
[[nodiscard]] inline std::string MakeEndpoint(std::string_view host, std::string_view port,
                                              std::string_view asked) {
  if (host.empty()) return std::string(asked.substr(0, asked.rfind(':'))) + ":" + std::string(port);
  const bool bare = host.front() != '[' && host.find(':') != std::string_view::npos;
  return (bare ? "[" + std::string(host) + "]" : std::string(host)) + ":" + std::string(port);
}

}  // namespace flowguard::quota::redis
