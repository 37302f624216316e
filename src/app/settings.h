// SPDX-License-Identifier: Apache-2.0
//
// What `run` does, decided: flags before environment before file before default.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "flowguard/result.h"
#include "flowguard/rule.h"
#include "flowguard/time.h"

#include "app/command_line.h"
#include "base/log.h"
#include "dialects/config_yaml.h"
#include "http/server.h"
#include "net/address.h"
#include "quota/redis/options.h"
#include "serve/decision_api.h"
#include "serve/gateway.h"
#include "serve/request_view.h"
#include "serve/token_server.h"
#include "serve/upstream_pool.h"

namespace flowguard::app {

// Where rules come from.  Both paths may be empty: then `limits` are all.
struct RuleOrigin {
  std::string rules_path;    // a rule file
  std::string config_path;   // a configuration file whose `rules` are a list
  std::vector<Rule> limits;  // --limit, in front of those of the file
  bool fold_case = false;    // routes in small letters, as the paths that they meet
};

// The store of shared rules.
struct StoreSettings {
  quota::redis::Options redis;
  Duration deadline = std::chrono::milliseconds(20);
  int nodes = 0;          // until the store has counted them; 0: not known
  std::string node_name;  // of this process, distinct from all others
};

// The token servers of cluster rules.
struct ClusterSettings {
  std::vector<std::string> servers;
  std::string name_space;
  Duration timeout = std::chrono::milliseconds(20);
  int nodes = 0;  // until a server has told how many clients there are; 0: not known
};

struct Settings {
  // A door that was not asked for stays shut.
  std::optional<net::Address> gateway;
  std::optional<net::Address> decisions;
  std::optional<net::Address> admin;
  std::optional<net::Address> token_server;

  RuleOrigin rules;
  int workers = 1;
  std::optional<StoreSettings> store;
  std::optional<ClusterSettings> cluster;
  size_t cells = 0;
  size_t state_bytes = 0;
  bool statistics = true;
  Duration drain_timeout{};
  base::LogLevel log_level = base::LogLevel::kInfo;
  serve::GatewayOptions gateway_options;
  serve::DecisionApiOptions decision_options;
  serve::TokenServerOptions token_options;
  int64_t token_questions_per_second = serve::kTokenQpsDefault;
  std::vector<std::string> warnings;
};

// Flags and environment, each value read by itself.
struct RunOptions {
  std::string config_path;
  std::string rules_path;
  std::optional<net::Address> listen;
  std::optional<net::Address> decisions;
  std::optional<net::Address> admin;
  bool admin_off = false;
  std::optional<net::Address> token_server;
  std::optional<int> workers;
  std::optional<Duration> drain_timeout;
  std::optional<size_t> cells;
  std::optional<size_t> state_bytes;
  std::optional<base::LogLevel> log_level;
  std::optional<std::vector<std::string>> upstreams;
  std::vector<Rule> limits;
  std::optional<quota::redis::Options> store;
};

// Errors: kInvalidArgument naming the flag: a fault of usage.
Result<RunOptions> ReadRunOptions(const RunFlags& flags);

// Reads the configuration file, if one is named, and resolves names.
// Errors: a file that cannot be used; upstreams without an address.
//         kFailedPrecondition for flags that do not go together or leave nothing to
//         serve: a fault of usage.
Result<Settings> MakeSettings(const RunOptions& options);

// What `explain` needs of the same flags and files.  No door is opened.
struct ExplainSettings {
  RuleOrigin rules;
  std::optional<StoreSettings> store;
  serve::RequestViewOptions view;
};
// Errors: a file that cannot be used.
Result<ExplainSettings> MakeExplainSettings(const RunOptions& options);

// Parses a configuration file.  Errors: as dialects::ParseConfig and sources::ReadFile.
Result<dialects::ParsedConfig> LoadConfig(const std::string& path);

}  // namespace flowguard::app
