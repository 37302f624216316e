// SPDX-License-Identifier: Apache-2.0
//
// Which Redis to use, and how, from one URL.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "flowguard/result.h"
#include "flowguard/time.h"

#include "net/tls_context.h"

namespace flowguard::quota::redis {

enum class Topology : uint8_t { kSingle, kSentinel, kCluster };

struct Options {
  Topology topology = Topology::kSingle;
  // "host:port" of the server, the sentinels, or some of the cluster's nodes; for a
  // server on a Unix socket its path, which begins with '/'.
  std::vector<std::string> hosts;
  std::string master_name;    // what the sentinels call the master
  std::string user;           // empty: the default user
  std::string password;       // empty: none
  std::string sentinel_user;  // as user and password, for the sentinels themselves
  std::string sentinel_password;
  int database = 0;
  int protocol = 3;                                    // 2: HELLO is not tried
  int connections = 1;                                 // to each server, of each loop
  Duration connect_timeout = std::chrono::seconds(1);  // with TLS, HELLO and AUTH
  int break_after = 5;  // failures in a row after which nothing is sent until a probe succeeds
  bool tls = false;
  net::TlsOptions tls_options;
  std::string client_name = "flowguard";  // in CLIENT LIST
};

// Reads one of
//   redis://[user:password@]host[:port][/database]      rediss:// with TLS
//   unix:///path/of/socket[?db=1]
//   redis-sentinel://[user:password@]host:port,host:port/master-name[/database]
//   redis-cluster://[user:password@]host:port,host:port  with TLS: rediss-cluster, -sentinel
// and after '?', joined by '&':
//   connect_timeout=500ms (or s), protocol=2|3, connections=2, break_after=5, db=1,
//   user=, password= (percent-encoded, as in the part before the host),
//   sentinel_user=, sentinel_password= (those of the sentinels themselves),
//   tls_ca=FILE, tls_cert=FILE, tls_key=FILE, tls_verify=yes|no, tls_sni=NAME
// Errors: kInvalidArgument with what was found and what is allowed; user and password
// are never part of the message.
[[nodiscard]] Result<Options> ParseUrl(std::string_view url);

}  // namespace flowguard::quota::redis
