// SPDX-License-Identifier: Apache-2.0
#include "quota/redis/options.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/bounds.h"
#include "base/try.h"
#include "net/socket.h"

namespace flowguard::quota::redis {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kDatabaseMax = 1'000'000;
constexpr int kBreakAfterMax = 1'000;
constexpr Duration kConnectTimeoutMax = seconds(60);
constexpr std::string_view kDefaultPort = ":6379";

Error Bad(std::string why) {
  return Error::InvalidArgument("Redis URL: " + std::move(why));
}

std::string Quoted(std::string_view text) {
  return "\"" + std::string(text) + "\"";
}

// `text` up to `mark`, and `text` keeps what is after it; all of it when there is none.
std::string_view TakeUpTo(std::string_view& text, char mark) {
  const size_t at = text.find(mark);
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return taken;
}

// Percent-encoding undone; nothing when it is broken or hides a zero byte.
std::optional<std::string> Decode(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    unsigned byte = 0;
    const char* const digits = text.data() + i + 1;
    if (text.size() - i < 3 || std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2 ||
        byte == 0) {
      return std::nullopt;
    }
    out += static_cast<char>(byte);
    i += 2;
  }
  return out;
}

Result<int> Number(std::string_view what, std::string_view text, int least, int most) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < least || number > most) {
    return Bad(std::string(what) + "=" + std::string(text) + ": allowed are " +
               std::to_string(least) + " to " + std::to_string(most));
  }
  return number;
}

Result<Duration> Timeout(std::string_view text) {
  int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  const int64_t most = kConnectTimeoutMax / milliseconds(1);
  if (error == std::errc() && count > 0 && count <= most) {
    const Duration value = unit == "s" ? Duration(seconds(count)) : Duration(milliseconds(count));
    if ((unit == "ms" || unit == "s") && value <= kConnectTimeoutMax) return value;
  }
  return Bad("connect_timeout=" + std::string(text) + ": use for example 500ms or 2s, at most 60s");
}

Result<bool> YesNo(std::string_view what, std::string_view text) {
  if (text == "yes") return true;
  if (text == "no") return false;
  return Bad(std::string(what) + "=" + std::string(text) + ": allowed are yes and no");
}

Result<void> ReadCredentials(std::string_view text, Options& options) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos)
    return Bad("what stands before '@' is no user:password; a password alone is :password");
  const std::optional<std::string> user = Decode(text.substr(0, colon));
  const std::optional<std::string> password = Decode(text.substr(colon + 1));
  if (!user || !password) return Bad("user or password: '%' is not followed by two hex digits");
  options.user = *user;
  options.password = *password;
  return {};
}

Result<std::string> ReadHost(std::string_view text) {
  const size_t bracket = text.rfind(']');
  const size_t colon = text.rfind(':');
  const bool ported =
      colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket);
  if (text.empty() || (ported && colon == 0)) return Bad("no host; use host:port");
  const bool odd = std::any_of(text.begin(), text.end(), [](char c) {
    return c <= ' ' || c == '@' || c == '"' || static_cast<unsigned char>(c) >= 0x7f;
  });
  if (odd) return Bad("a host has a byte that no host name has; '@' in a password is %40");
  if (!ported) return std::string(text) + std::string(kDefaultPort);
  // Not repeated in the message: without its '@' a password stands here.
  if (!Number("port", text.substr(colon + 1), 1, 65535).ok())
    return Bad("a port is no number from 1 to 65535");
  return std::string(text);
}

Result<void> ReadHosts(std::string_view text, Options& options) {
  while (true) {
    FG_ASSIGN_OR_RETURN(std::string host, ReadHost(TakeUpTo(text, ',')));
    options.hosts.push_back(std::move(host));
    if (text.empty()) break;
  }
  if (options.hosts.size() > base::kRedisHostsMax)
    return Bad("more than " + std::to_string(base::kRedisHostsMax) + " hosts");
  if (options.topology == Topology::kSingle && options.hosts.size() > 1)
    return Bad("one server, " + std::to_string(options.hosts.size()) +
               " hosts; use redis-cluster:// or redis-sentinel:// for several");
  return {};
}

Result<void> ReadPath(std::string_view path, Options& options) {
  if (options.topology == Topology::kSentinel) {
    options.master_name = TakeUpTo(path, '/');
    if (options.master_name.empty()) return Bad("no master's name; use host:port/master-name");
  }
  if (path.empty()) return {};
  FG_ASSIGN_OR_RETURN(options.database, Number("database", path, 0, kDatabaseMax));
  return {};
}

Result<void> ReadSecret(std::string_view name, std::string_view text, std::string& out) {
  const std::optional<std::string> value = Decode(text);
  if (!value) return Bad(std::string(name) + ": '%' is not followed by two hex digits");
  out = *value;
  return {};
}

Result<void> ReadOption(std::string_view name, std::string_view text, Options& options) {
  net::TlsOptions& tls = options.tls_options;
  if (name == "user") return ReadSecret(name, text, options.user);
  if (name == "password") return ReadSecret(name, text, options.password);
  if (name == "sentinel_user") return ReadSecret(name, text, options.sentinel_user);
  if (name == "sentinel_password") return ReadSecret(name, text, options.sentinel_password);
  if (name == "tls_ca") return ReadSecret(name, text, tls.ca_file);
  if (name == "tls_cert") return ReadSecret(name, text, tls.certificate_file);
  if (name == "tls_key") return ReadSecret(name, text, tls.key_file);
  if (name == "tls_sni") return ReadSecret(name, text, tls.server_name);
  if (name == "connect_timeout") {
    FG_ASSIGN_OR_RETURN(options.connect_timeout, Timeout(text));
  } else if (name == "protocol") {
    FG_ASSIGN_OR_RETURN(options.protocol, Number(name, text, 2, 3));
  } else if (name == "connections") {
    FG_ASSIGN_OR_RETURN(options.connections,
                        Number(name, text, 1, static_cast<int>(base::kRedisConnectionsMax)));
  } else if (name == "break_after") {
    FG_ASSIGN_OR_RETURN(options.break_after, Number(name, text, 1, kBreakAfterMax));
  } else if (name == "db") {
    FG_ASSIGN_OR_RETURN(options.database, Number(name, text, 0, kDatabaseMax));
  } else if (name == "tls_verify") {
    FG_ASSIGN_OR_RETURN(tls.verify, YesNo(name, text));
  } else {
    return Bad("unknown option " + Quoted(name) +
               "; known are connect_timeout, protocol, connections, break_after, db, user, "
               "password, sentinel_user, sentinel_password, tls_ca, tls_cert, tls_key, tls_verify, "
               "tls_sni");
  }
  return {};
}

Result<void> ReadQuery(std::string_view query, Options& options) {
  if (query.find('@') != std::string_view::npos)
    return Bad("'@' after '?'; in a password '?' is %3F and '@' is %40");
  while (!query.empty()) {
    std::string_view value = TakeUpTo(query, '&');
    const std::string_view name = TakeUpTo(value, '=');
    FG_RETURN_IF_ERROR(ReadOption(name, value, options));
    if (name.substr(0, 4) == "tls_" && !options.tls)
      return Bad(std::string(name) + " without TLS; use rediss://");
  }
  const net::TlsOptions& tls = options.tls_options;
  if (tls.certificate_file.empty() != tls.key_file.empty())
    return Bad("tls_cert and tls_key go together");
  return {};
}

Result<bool> ReadScheme(std::string_view scheme, Options& options) {
  if (scheme == "unix") return true;
  options.tls = scheme.substr(0, 6) == "rediss";
  const std::string_view kind = scheme.substr(std::min<size_t>(options.tls ? 6 : 5, scheme.size()));
  if (scheme.substr(0, 5) == "redis") {
    if (kind.empty()) return false;
    options.topology = kind == "-sentinel" ? Topology::kSentinel : Topology::kCluster;
    if (kind == "-sentinel" || kind == "-cluster") return false;
  }
  return Bad(
      "it begins with no known scheme; allowed are redis://, rediss://, unix://, "
      "redis-sentinel://, rediss-sentinel://, redis-cluster://, rediss-cluster://");
}

}  // namespace

Result<Options> ParseUrl(std::string_view url) {
  Options options;
  const size_t mark = url.find("://");
  FG_ASSIGN_OR_RETURN(
      const bool unix_socket,
      ReadScheme(mark == std::string_view::npos ? "" : url.substr(0, mark), options));
  std::string_view rest = url.substr(mark + 3);
  std::string_view place = TakeUpTo(rest, '?');
  const std::string_view query = rest;
  const size_t at = place.rfind('@');
  if (!unix_socket && at != std::string_view::npos) {
    FG_RETURN_IF_ERROR(ReadCredentials(place.substr(0, at), options));
    place.remove_prefix(at + 1);
  }
  if (unix_socket) {
    if (place.empty() || place.front() != '/' || place.size() > net::kUnixPathBytesMax)
      return Bad("a Unix socket is given as unix:///path, the path at most " +
                 std::to_string(net::kUnixPathBytesMax) + " bytes");
    options.hosts.emplace_back(place);
  } else {
    FG_RETURN_IF_ERROR(ReadHosts(TakeUpTo(place, '/'), options));
    FG_RETURN_IF_ERROR(ReadPath(place, options));
  }
  FG_RETURN_IF_ERROR(ReadQuery(query, options));
  if (options.topology == Topology::kCluster && options.database != 0)
    return Bad("a cluster has database 0 only");
  if (!options.user.empty() && options.password.empty()) return Bad("a user without a password");
  return options;
}

}  // namespace flowguard::quota::redis
