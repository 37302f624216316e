// SPDX-License-Identifier: Apache-2.0
#include "net/address.h"

#include <array>
#include <charconv>
#include <cstring>
#include <optional>

#include <arpa/inet.h>
#include <netdb.h>

namespace flowguard::net {
namespace {

struct HostPort {
  std::string host;
  uint16_t port = 0;
  bool bracketed = false;
};

Error Bad(std::string_view text, std::string_view why) {
  return Error::InvalidArgument("address \"" + std::string(text) + "\": " + std::string(why) +
                                "; use HOST:PORT, [IPV6]:PORT or :PORT");
}

Result<HostPort> Split(std::string_view text) {
  HostPort result;
  size_t colon = 0;
  if (!text.empty() && text.front() == '[') {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) return Bad(text, "'[' without ']'");
    result.host = text.substr(1, end - 1);
    result.bracketed = true;
    colon = end + 1;
    if (colon >= text.size() || text[colon] != ':') return Bad(text, "no port");
  } else {
    colon = text.rfind(':');
    if (colon == std::string_view::npos) return Bad(text, "no port");
    result.host = text.substr(0, colon);
    if (result.host.find(':') != std::string::npos) return Bad(text, "IPv6 without brackets");
  }
  const std::string_view port = text.substr(colon + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), result.port);
  if (error != std::errc() || end != port.data() + port.size()) {
    return Bad(text, "the port is no number from 0 to 65535");
  }
  return result;
}

std::optional<Address> Numeric(const HostPort& where) {
  if (!where.bracketed) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(where.port);
    const char* const host = where.host.empty() ? "0.0.0.0" : where.host.c_str();
    if (inet_pton(AF_INET, host, &v4.sin_addr) != 1) return std::nullopt;
    return Address::FromSockaddr(reinterpret_cast<const sockaddr*>(&v4), sizeof v4);
  }
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(where.port);
  if (inet_pton(AF_INET6, where.host.c_str(), &v6.sin6_addr) != 1) return std::nullopt;
  return Address::FromSockaddr(reinterpret_cast<const sockaddr*>(&v6), sizeof v6);
}

}  // namespace

Address Address::FromSockaddr(const sockaddr* raw, socklen_t size) noexcept {
  Address address;
  if (raw->sa_family == AF_INET && size >= sizeof(sockaddr_in)) {
    std::memcpy(&address.storage_.v4, raw, sizeof(sockaddr_in));
  } else if (raw->sa_family == AF_INET6 && size >= sizeof(sockaddr_in6)) {
    std::memcpy(&address.storage_.v6, raw, sizeof(sockaddr_in6));
  }
  return address;
}

Result<Address> Address::Parse(std::string_view text) {
  Result<HostPort> where = Split(text);
  if (!where.ok()) return where.error();
  if (where->host == "localhost") where->host = "127.0.0.1";
  const std::optional<Address> address = Numeric(*where);
  if (!address) return Bad(text, "the host is no IP address");
  return *address;
}

Result<std::vector<Address>> Address::Resolve(const std::string& text) {
  Result<HostPort> where = Split(text);
  if (!where.ok()) return where.error();
  if (where->host.empty()) return Bad(text, "no host");
  std::vector<Address> found;
  if (const std::optional<Address> address = Numeric(*where)) {
    found.push_back(*address);
    return found;
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int code =
      getaddrinfo(where->host.c_str(), std::to_string(where->port).c_str(), &hints, &list);
  if (code != 0) {
    return Error::Unavailable("address \"" + text + "\": cannot resolve " + where->host + ": " +
                              gai_strerror(code));
  }
  for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
    const Address address = FromSockaddr(at->ai_addr, at->ai_addrlen);
    if (address.valid()) found.push_back(address);
  }
  freeaddrinfo(list);
  if (found.empty()) {
    return Error::Unavailable("address \"" + text + "\": the name has no IP address");
  }
  return found;
}

uint16_t Address::port() const noexcept {
  // Both forms have the port at the same place.
  return ntohs(storage_.v4.sin_port);
}

const sockaddr* Address::raw() const noexcept {
  return reinterpret_cast<const sockaddr*>(&storage_);
}

socklen_t Address::raw_size() const noexcept {
  return family() == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

std::span<const uint8_t> Address::ip_bytes() const noexcept {
  if (family() == AF_INET) {
    return {reinterpret_cast<const uint8_t*>(&storage_.v4.sin_addr), 4};
  }
  if (family() == AF_INET6) {
    return {reinterpret_cast<const uint8_t*>(&storage_.v6.sin6_addr), 16};
  }
  return {};
}

size_t Address::FormatIp(std::span<char> out) const noexcept {
  const std::span<const uint8_t> bytes = ip_bytes();
  if (bytes.empty() || inet_ntop(family(), bytes.data(), out.data(),
                                 static_cast<socklen_t>(out.size())) == nullptr) {
    return 0;
  }
  return std::strlen(out.data());
}

std::string Address::ToString() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const std::string ip(text.data(), FormatIp(text));
  const std::string where = family() == AF_INET6 ? "[" + ip + "]" : ip;
  return where + ":" + std::to_string(port());
}

}  // namespace flowguard::net
