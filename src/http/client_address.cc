// SPDX-License-Identifier: Apache-2.0
#include "http/client_address.h"

#include <optional>
#include <string_view>

#include "base/bounds.h"

namespace flowguard::http {
namespace {

std::string_view Trim(std::string_view text) noexcept {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front()))
    text.remove_prefix(1);
  while (!text.empty() && blank(text.back()))
    text.remove_suffix(1);
  return text;
}

// Cuts the last part behind `separator` off `text`, outside double quotes.  Quotes are
// read from the right as well: what a client wrote on the left, be it an open quote,
// cannot swallow what a proxy appended.
std::string_view TakeLast(std::string_view& text, char separator) noexcept {
  bool quoted = false;
  size_t at = text.size();
  while (at > 0) {
    const char c = text[at - 1];
    if (c == '"') {
      size_t backslashes = 0;
      while (at - 1 > backslashes && text[at - 2 - backslashes] == '\\')
        ++backslashes;
      if (backslashes % 2 == 0) quoted = !quoted;
    } else if (c == separator && !quoted) {
      break;
    }
    --at;
  }
  const std::string_view last = text.substr(at);
  text = text.substr(0, at == 0 ? 0 : at - 1);
  return Trim(last);
}

// The address in the `for` of one element of Forwarded; nothing when there is none, when
// there are two, or when it is "unknown" or an obfuscated name.
std::optional<IpAddress> ForwardedFor(std::string_view element) noexcept {
  std::optional<std::string_view> found;
  while (!element.empty()) {
    const std::string_view pair = TakeLast(element, ';');
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos) continue;
    if (!wire::EqualsIgnoreCase(pair.substr(0, equals), "for")) continue;
    if (found) return std::nullopt;
    found = pair.substr(equals + 1);
  }
  if (!found) return std::nullopt;
  if (found->size() >= 2 && found->front() == '"' && found->back() == '"')
    found = found->substr(1, found->size() - 2);
  return IpAddress::ParseWithPort(*found);
}

wire::KnownHeader NameOf(ClientHeader header) noexcept {
  switch (header) {
    case ClientHeader::kXForwardedFor:
      return wire::KnownHeader::kXForwardedFor;
    case ClientHeader::kForwarded:
      return wire::KnownHeader::kForwarded;
    case ClientHeader::kXRealIp:
      return wire::KnownHeader::kXRealIp;
    case ClientHeader::kNone:
      break;
  }
  return wire::KnownHeader::kOther;
}

ClientAddress FromRealIp(const IpAddress& peer, const wire::HeaderList& headers) noexcept {
  const wire::Header* found = nullptr;
  for (const wire::Header& line : headers.all()) {
    if (line.known != wire::KnownHeader::kXRealIp) continue;
    if (found != nullptr) return {peer, true};
    found = &line;
  }
  if (found == nullptr) return {peer, false};
  const auto address = IpAddress::ParseWithPort(found->value);
  return address ? ClientAddress{*address, false} : ClientAddress{peer, true};
}

}  // namespace

ClientAddress ResolveClientAddress(const IpAddress& peer, const wire::HeaderList& headers,
                                   const ClientAddressConfig& config) noexcept {
  const wire::KnownHeader name = NameOf(config.header);
  if (config.header == ClientHeader::kNone || !headers.Has(name) || !config.trusted.Contains(peer))
    return {peer, false};
  if (config.header == ClientHeader::kXRealIp) return FromRealIp(peer, headers);

  IpAddress client = peer;
  size_t hops = 0;
  for (size_t line = headers.count; line-- > 0;) {
    if (headers.lines[line].known != name) continue;
    std::string_view rest = headers.lines[line].value;
    while (!rest.empty()) {
      const bool forwarded = config.header == ClientHeader::kForwarded;
      // X-Forwarded-For has no quotes: a comma always separates.
      const size_t comma = rest.rfind(',');
      std::string_view entry;
      if (forwarded) {
        entry = TakeLast(rest, ',');
      } else {
        entry = Trim(comma == std::string_view::npos ? rest : rest.substr(comma + 1));
        rest = comma == std::string_view::npos ? std::string_view() : rest.substr(0, comma);
      }
      if (entry.empty()) continue;  // lists may have empty elements
      const auto address = forwarded ? ForwardedFor(entry) : IpAddress::ParseWithPort(entry);
      if (!address || ++hops > base::kForwardedHopsMax) return {client, true};
      client = *address;
      if (!config.trusted.Contains(client)) return {client, false};
    }
  }
  return {client, false};
}

}  // namespace flowguard::http
