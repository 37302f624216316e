// SPDX-License-Identifier: Apache-2.0
//
// The server's configuration file, flowguard.yaml, as plain data; docs/rules.md has
// the text form.  What the file does not say keeps the default given here.  Command
// line and environment go before the file; that is the command's part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "flowguard/result.h"
#include "flowguard/rule.h"
#include "flowguard/time.h"

namespace flowguard::dialects {

inline constexpr std::string_view kGatewayListenDefault = "0.0.0.0:8080";
inline constexpr std::string_view kDecisionsListenDefault = "127.0.0.1:8081";
inline constexpr std::string_view kAdminListenDefault = "127.0.0.1:8082";
inline constexpr std::string_view kTokenServerListenDefault = "127.0.0.1:18730";

// The reverse proxy in front of one group of upstreams.
struct GatewayConfig {
  std::string listen{kGatewayListenDefault};  // "address:port", port 0: any free one
  std::vector<std::string> upstreams;         // "http://host:port"; at least one
};

struct UpstreamConfig {
  int fail_after = 3;  // failures in a row that take an address out
  Duration retry_down_after = std::chrono::seconds(5);  // and for how long
  int retries = 1;                                      // on another address, only where safe
};

enum class ClientIpHeader : uint8_t { kXForwardedFor, kForwarded, kXRealIp };

struct ClientIpConfig {
  std::vector<std::string> trusted_proxies;  // addresses or CIDR blocks; empty: trust nobody
  ClientIpHeader header = ClientIpHeader::kXForwardedFor;
  int ipv6_prefix = 64;  // bits of an IPv6 address that make a client
};

// Shared limits: where their counters live.
struct StoreConfig {
  std::string redis;  // "redis://host:port", ...; what follows the scheme is the client's to read
  Duration deadline = std::chrono::milliseconds(20);
  int nodes = 0;  // processes that share a limit, until the store has counted; 0: not known
};

// The door for Sentinel's token clients, who are not asked who they are.
struct TokenServerConfig {
  std::string listen{kTokenServerListenDefault};
  std::vector<std::string> allow;            // addresses or CIDR blocks of clients; empty: any
  int64_t connections = 20'000;              // of the process
  int64_t questions_per_second = 1'000'000;  // of each namespace
};

// Cluster rules: who counts them.
struct ClusterConfig {
  std::vector<std::string>
      servers;  // "host:port", or "host" for port 18730; the first is preferred
  std::string name_space{"default"};  // that this process is a client of, for limits per client
  Duration timeout = std::chrono::milliseconds(20);  // the longest that a decision waits
  int nodes = 0;  // processes that share a limit, until a server has told; 0: not known
};

enum class RateLimitHeaders : uint8_t { kOff, kDraft10, kX, kBoth };

struct ResponsesConfig {
  RefuseBody body = RefuseBody::kUnified;
  RateLimitHeaders ratelimit_headers = RateLimitHeaders::kBoth;
  bool on_success = false;  // on passed answers too, not on refusals alone
  bool decided_at = false;  // FlowGuard-Decided-At: the instant of the decision
  Duration retry_jitter{};  // Retry-After is later by a random part of this
};

struct TimeoutsConfig {
  Duration header = std::chrono::seconds(10);  // a request head, from its first byte
  Duration body = std::chrono::seconds(30);    // between two reads of a body
  Duration idle = std::chrono::seconds(75);    // a kept-alive connection with nothing asked
  Duration upstream_connect = std::chrono::seconds(2);
  Duration upstream_response = std::chrono::seconds(60);  // until the answer's head
  Duration drain = std::chrono::seconds(30);              // from SIGTERM to the end
};

// Which spellings of a path are one path.  Percent-encoding and dot segments are
// always resolved.
struct PathConfig {
  bool case_insensitive = false;
  bool merge_slashes = true;
  bool strip_trailing_slash = true;
  bool strip_semicolon_params = true;
  bool encoded_slash_separates = false;  // "%2F" is "/"
  bool backslash_separates =
      false;  // a backslash, raw or as %5C, is "/"; else a raw one is refused
};

struct ServerConfig {
  // A door that is not in the file stays shut.
  std::optional<GatewayConfig> gateway;
  std::optional<std::string> decisions_listen;
  std::optional<std::string> admin_listen;
  std::optional<TokenServerConfig> token_server;

  int workers = 0;  // event loops; 0: one for each core

  UpstreamConfig upstream;
  ClientIpConfig client_ip;
  ResponsesConfig responses;
  TimeoutsConfig timeouts;
  PathConfig path;

  std::string rules_path;  // `rules: rules.yaml`, relative to the file's folder; or
  std::optional<RuleSet>
      inline_rules;  // `rules: [...]`, with `dimensions`, `match`, `compat` beside it

  std::optional<StoreConfig> store;
  std::optional<ClusterConfig> cluster;
  size_t cell_capacity = 1'000'000;
  bool statistics = true;         // count what comes of requests, by resource and caller
  size_t state_bytes = 64 << 20;  // of all states larger than a word together

  std::vector<std::string> exempt;  // routes that no rule sees: "/healthz", "GET /static/**"
  bool preflight_exempt = true;  // nor CORS preflights (OPTIONS with Access-Control-Request-Method)
};

struct ParsedConfig {
  ServerConfig config;
  std::vector<std::string> warnings;  // "flowguard.yaml:3:5: ..."
};

// Errors: kInvalidArgument, one line per fault, as flowguard::ParseRules.
Result<ParsedConfig> ParseConfig(std::string_view yaml, std::string_view file_name);

}  // namespace flowguard::dialects
