// SPDX-License-Identifier: Apache-2.0
//
// The shape of addresses in a configuration file.  Each function says what is wrong,
// or nothing; whether the address can be had is found out when it is used.
#pragma once

#include <string>
#include <string_view>

namespace flowguard::dialects {

// "127.0.0.1:8080", "[::1]:8080", "localhost:0", ":8080" (every address)
[[nodiscard]] std::string ListenFault(std::string_view text);

// "http://host:port", port 80 when left out
[[nodiscard]] std::string UpstreamFault(std::string_view text);

// "host:port", port 18730 when left out
[[nodiscard]] std::string TokenServerFault(std::string_view text);

// "redis://host:port", port 6379 when left out
[[nodiscard]] std::string RedisFault(std::string_view text);

}  // namespace flowguard::dialects
