// SPDX-License-Identifier: Apache-2.0
//
// Who the client is.  The address of the peer is the only fact; what a header says
// is a claim, and is believed only of configured proxies.
#pragma once

#include <cstdint>
#include <span>

#include "http/ip_address.h"
#include "wire/http1.h"

namespace flowguard::http {

// Which header the trusted proxies write.  One only: a client could write the others.
enum class ClientHeader : uint8_t { kNone, kXForwardedFor, kForwarded, kXRealIp };

using TrustedProxies = IpBlocks;

// The default trusts nobody: the client is the peer.
struct ClientAddressConfig {
  TrustedProxies trusted;
  ClientHeader header = ClientHeader::kXForwardedFor;
};

struct ClientAddress {
  IpAddress address;
  // True when an entry of the header could not be read ("unknown", junk, a zone), or
  // kForwardedHopsMax entries were all trusted.  The walk ended there and `address` is
  // the last hop that was good; worth counting.
  bool cut_short = false;
};

// The address of the client of a request that came from `peer`.
//
// If the peer is trusted, the entries of all lines of the configured header, joined
// in order, are walked from right to left past trusted addresses; the first one that
// is not trusted is the client.  All trusted: the leftmost.  An entry that cannot be
// read ends the walk, as whatever is left of it is the client's own writing.
//
// X-Real-IP has no list: exactly one line with one address, else the peer.
// Cost: no allocation.
[[nodiscard]] ClientAddress ResolveClientAddress(const IpAddress& peer,
                                                 const wire::HeaderList& headers,
                                                 const ClientAddressConfig& config) noexcept;

}  // namespace flowguard::http
