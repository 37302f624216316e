// SPDX-License-Identifier: Apache-2.0
#include "dialects/config_address.h"

#include <algorithm>
#include <array>

#include "dialects/quantities.h"
#include "text/node.h"

namespace flowguard::dialects {

namespace {

using text::Quote;

constexpr int64_t kPortMax = 65'535;

bool IsHostByte(char c) {
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return letter || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
}

bool IsIpv6Byte(char c) {
  const bool hex = (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
  return hex || (c >= '0' && c <= '9') || c == ':' || c == '.';
}

template <typename Predicate>
bool AllOf(std::string_view text, Predicate predicate) {
  for (const char c : text) {
    if (!predicate(c)) return false;
  }
  return !text.empty();
}

enum class Port { kNeeded, kOptional };

// host:port, with brackets around IPv6.
bool IsHostAndPort(std::string_view text, Port port, int64_t port_min) {
  std::string_view rest;
  if (!text.empty() && text.front() == '[') {
    const size_t end = text.find(']');
    if (end == std::string_view::npos || !AllOf(text.substr(1, end - 1), IsIpv6Byte)) return false;
    rest = text.substr(end + 1);
  } else {
    const size_t colon = text.find(':');
    const bool any_address = colon == 0 && port == Port::kNeeded;
    if (!any_address && !AllOf(text.substr(0, colon), IsHostByte)) return false;
    rest = colon == std::string_view::npos ? std::string_view{} : text.substr(colon);
  }
  if (rest.empty()) return port == Port::kOptional;
  return rest.front() == ':' && rest.find('_') == std::string_view::npos &&
         ReadCount(rest.substr(1), {port_min, kPortMax}).ok();
}

}  // namespace

std::string ListenFault(std::string_view text) {
  if (IsHostAndPort(text, Port::kNeeded, 0)) return {};
  return Quote(text) + " is no address to listen at; write 127.0.0.1:8080 or \"[::1]:8080\"" +
         " (port 0 to " + std::to_string(kPortMax) + ")";
}

std::string UpstreamFault(std::string_view text) {
  constexpr std::string_view kScheme = "http://";
  if (text.substr(0, 8) == "https://") {
    return Quote(text) + ": this version speaks http to upstreams; write http://host:port";
  }
  if (text.substr(0, kScheme.size()) == kScheme) {
    std::string_view rest = text.substr(kScheme.size());
    if (!rest.empty() && rest.back() == '/') rest.remove_suffix(1);
    if (IsHostAndPort(rest, Port::kOptional, 1)) return {};
  }
  return Quote(text) + " is no upstream; write http://host:port, without a path";
}

std::string TokenServerFault(std::string_view text) {
  if (IsHostAndPort(text, Port::kOptional, 1)) return {};
  return Quote(text) + " is no token server; write host:port, or host for port 18730";
}

std::string RedisFault(std::string_view text) {
  constexpr std::array<std::string_view, 7> kSchemes = {
      "redis://",           "rediss://",        "unix://",          "redis-sentinel://",
      "rediss-sentinel://", "redis-cluster://", "rediss-cluster://"};
  const bool known = std::any_of(kSchemes.begin(), kSchemes.end(), [text](std::string_view scheme) {
    return text.starts_with(scheme) && text.size() > scheme.size();
  });
  if (known) return {};
  return "this is no Redis address; write redis://host:port, rediss:// for TLS, unix:///path, "
         "redis-sentinel://host,host/master or redis-cluster://host,host";
}

}  // namespace flowguard::dialects
