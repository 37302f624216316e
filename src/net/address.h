// SPDX-License-Identifier: Apache-2.0
//
// Socket addresses: "127.0.0.1:8080", "[::1]:8080", "localhost:8080", ":8080".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <netinet/in.h>
#include <sys/socket.h>

#include "flowguard/result.h"

namespace flowguard::net {

// An IPv4 or IPv6 address with a port.  A plain value of 28 bytes.
class Address {
 public:
  Address() noexcept = default;
  static Address FromSockaddr(const sockaddr* raw, socklen_t size) noexcept;

  // A numeric address; an empty host stands for 0.0.0.0.  Port 0 is allowed: the
  // kernel chooses.
  // Errors: kInvalidArgument with what was found and what is allowed.
  static Result<Address> Parse(std::string_view text);

  // Every address of "host:port", names asked of the system's resolver.  Blocks; for
  // start-up only.
  // Errors: kInvalidArgument, or kUnavailable when the name has no address.
  static Result<std::vector<Address>> Resolve(const std::string& text);

  [[nodiscard]] int family() const noexcept { return storage_.v4.sin_family; }
  [[nodiscard]] bool valid() const noexcept { return family() == AF_INET || family() == AF_INET6; }
  [[nodiscard]] uint16_t port() const noexcept;
  [[nodiscard]] const sockaddr* raw() const noexcept;
  [[nodiscard]] socklen_t raw_size() const noexcept;
  // The address alone in network order: 4 or 16 bytes, none when invalid.
  [[nodiscard]] std::span<const uint8_t> ip_bytes() const noexcept;

  // "192.0.2.7" or "2001:db8::7" into `out`; the characters written.
  // Requires: out.size() >= INET6_ADDRSTRLEN.
  [[nodiscard]] size_t FormatIp(std::span<char> out) const noexcept;
  // "192.0.2.7:80" or "[2001:db8::7]:80".
  [[nodiscard]] std::string ToString() const;

 private:
  union Storage {
    sockaddr_in v4;
    sockaddr_in6 v6;
  };
  Storage storage_{.v6 = {}};
};

}  // namespace flowguard::net
