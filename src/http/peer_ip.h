// SPDX-License-Identifier: Apache-2.0
//
// The address of a connection's peer, as bits.
#pragma once

#include <cstdint>
#include <span>

#include "http/ip_address.h"
#include "net/address.h"

namespace flowguard::http {

// "::" for an address that is none.
[[nodiscard]] inline IpAddress IpOf(const net::Address& address) noexcept {
  const std::span<const uint8_t> bytes = address.ip_bytes();
  if (bytes.size() == 4) return IpAddress::FromV4(bytes.first<4>());
  if (bytes.size() == 16) return IpAddress::FromV6(bytes.first<16>());
  return {};
}

}  // namespace flowguard::http
