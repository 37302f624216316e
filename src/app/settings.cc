// SPDX-License-Identifier: Apache-2.0
#include "app/settings.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <thread>
#include <utility>

#include "flowguard/rules_text.h"

#include "base/bounds.h"
#include "base/try.h"
#include "dialects/quantities.h"
#include "quota/redis_store.h"
#include "rules/route.h"
#include "sources/file_source.h"

namespace flowguard::app {
namespace {

using dialects::ServerConfig;

constexpr Duration kDrainMax = std::chrono::hours(24);

Error Fault(std::string_view flag, std::string_view found, std::string_view expected) {
  std::string message(flag);
  message += ": \"";
  message += found;
  message += "\": ";
  message += expected;
  return Error::InvalidArgument(std::move(message));
}

Result<net::Address> ReadAddress(std::string_view flag, std::string_view text) {
  const Result<net::Address> address = net::Address::Parse(text);
  if (!address.ok()) return Fault(flag, text, address.error().message);
  return *address;
}

// A door that may be asked for without an address.
Result<net::Address> ReadDoor(std::string_view flag, std::string_view text,
                              std::string_view by_default) {
  return ReadAddress(flag, text.empty() ? by_default : text);
}

Result<int> ReadWorkers(const std::string& text) {
  if (text == "auto") return 0;
  const auto count = dialects::ReadCount(text, {.min = 1, .max = base::kWorkersMax});
  if (!count.ok()) return Fault("--workers", text, count.fault().message + ", or auto");
  return static_cast<int>(*count);
}

Result<base::LogLevel> ReadLogLevel(const std::string& text) {
  if (text == "debug") return base::LogLevel::kDebug;
  if (text == "info") return base::LogLevel::kInfo;
  if (text == "warn") return base::LogLevel::kWarn;
  if (text == "error") return base::LogLevel::kError;
  return Fault("--log-level", text, "expected debug, info, warn or error");
}

Result<void> ReadNumbers(const RunFlags& flags, RunOptions& options) {
  if (flags.workers) {
    FG_ASSIGN_OR_RETURN(options.workers, ReadWorkers(*flags.workers));
  }
  if (flags.drain_timeout) {
    const auto drain =
        dialects::ReadDuration(*flags.drain_timeout, {.min = Duration::zero(), .max = kDrainMax});
    if (!drain.ok()) return Fault("--drain-timeout", *flags.drain_timeout, drain.fault().message);
    options.drain_timeout = *drain;
  }
  if (flags.cells) {
    const auto cells = dialects::ReadCount(*flags.cells, {.min = int64_t{base::kCellCapacityMin},
                                                          .max = int64_t{base::kCellCapacityMax}});
    if (!cells.ok()) return Fault("--cells", *flags.cells, cells.fault().message);
    options.cells = static_cast<size_t>(*cells);
  }
  if (flags.state_bytes) {
    const auto bytes = dialects::ReadBytes(
        *flags.state_bytes,
        {.min = int64_t{base::kStateBytesMin}, .max = int64_t{base::kStateBytesMax}});
    if (!bytes.ok()) return Fault("--state-bytes", *flags.state_bytes, bytes.fault().message);
    options.state_bytes = static_cast<size_t>(*bytes);
  }
  if (flags.store) {
    auto store = quota::redis::ParseUrl(*flags.store);
    if (!store.ok()) return Error::InvalidArgument("--store: " + store.error().message);
    options.store = std::move(store).value();
  }
  if (flags.log_level) {
    FG_ASSIGN_OR_RETURN(options.log_level, ReadLogLevel(*flags.log_level));
  }
  return {};
}

Result<void> ReadDoors(const RunFlags& flags, RunOptions& options) {
  if (flags.listen) {
    FG_ASSIGN_OR_RETURN(options.listen, ReadAddress("--listen", *flags.listen));
  }
  if (flags.decisions) {
    FG_ASSIGN_OR_RETURN(options.decisions, ReadDoor("--decisions", *flags.decisions,
                                                    dialects::kDecisionsListenDefault));
  }
  options.admin_off = flags.admin == "off";
  if (flags.admin && !options.admin_off) {
    FG_ASSIGN_OR_RETURN(options.admin,
                        ReadDoor("--admin", *flags.admin, dialects::kAdminListenDefault));
  }
  if (flags.token_server) {
    FG_ASSIGN_OR_RETURN(options.token_server, ReadDoor("--token-server", *flags.token_server,
                                                       dialects::kTokenServerListenDefault));
  }
  return {};
}

// "http://host:port", "http://host" (port 80), "host:port".
Result<std::vector<net::Address>> ResolveUpstream(const std::string& url) {
  std::string_view rest = url;
  if (rest.starts_with("https://")) {
    return Error::InvalidArgument("upstream \"" + url +
                                  "\": TLS towards upstreams is not supported; use http://");
  }
  if (rest.starts_with("http://")) rest.remove_prefix(7);
  if (rest.ends_with('/')) rest.remove_suffix(1);
  if (rest.empty() || rest.find_first_of("/?#@ ") != std::string_view::npos) {
    return Error::InvalidArgument("upstream \"" + url + "\": expected http://HOST:PORT");
  }
  std::string host(rest);
  const size_t colon = host.rfind(':');
  const bool has_port =
      colon != std::string::npos && (host.find(']') == std::string::npos || colon > host.find(']'));
  if (!has_port) host += ":80";
  auto addresses = net::Address::Resolve(host);
  if (!addresses.ok()) {
    return Error{addresses.error().code, "upstream \"" + url + "\": " + addresses.error().message};
  }
  return std::move(addresses).value();
}

http::ClientHeader HeaderOf(dialects::ClientIpHeader header) noexcept {
  switch (header) {
    case dialects::ClientIpHeader::kForwarded:
      return http::ClientHeader::kForwarded;
    case dialects::ClientIpHeader::kXRealIp:
      return http::ClientHeader::kXRealIp;
    case dialects::ClientIpHeader::kXForwardedFor:
      break;
  }
  return http::ClientHeader::kXForwardedFor;
}

Result<serve::RequestViewOptions> ViewOf(const ServerConfig& config,
                                         const std::vector<std::string>& trusted) {
  serve::RequestViewOptions view;
  FG_ASSIGN_OR_RETURN(view.client.trusted, http::IpBlocks::Create(trusted));
  view.client.header = HeaderOf(config.client_ip.header);
  view.ipv6_prefix = config.client_ip.ipv6_prefix;
  view.path = {
      .merge_slashes = config.path.merge_slashes,
      .strip_trailing_slash = config.path.strip_trailing_slash,
      .drop_parameters = config.path.strip_semicolon_params,
      .fold_case = config.path.case_insensitive,
      .encoded_slash_separates = config.path.encoded_slash_separates,
      .backslash =
          config.path.backslash_separates ? http::Backslash::kSlash : http::Backslash::kReject,
  };
  std::vector<std::string> exempt = config.exempt;
  if (view.path.fold_case) {
    for (std::string& route : exempt)
      route = rules::FoldRoute(route);
  }
  FG_ASSIGN_OR_RETURN(view.exempt, serve::ExemptRoutes::Create(exempt));
  view.exempt_preflights = config.preflight_exempt;
  return view;
}

serve::RefusalOptions RefusalOf(const dialects::ResponsesConfig& responses) {
  using dialects::RateLimitHeaders;
  const RateLimitHeaders headers = responses.ratelimit_headers;
  serve::RefusalOptions refusal;
  refusal.body = responses.body;
  refusal.rate_headers.draft =
      headers == RateLimitHeaders::kDraft10 || headers == RateLimitHeaders::kBoth;
  refusal.rate_headers.legacy =
      headers == RateLimitHeaders::kX || headers == RateLimitHeaders::kBoth;
  refusal.rate_headers.on_success = responses.on_success;
  refusal.jitter = responses.retry_jitter;
  refusal.decided_at = responses.decided_at;
  return refusal;
}

http::ServerOptions ServerOf(const dialects::TimeoutsConfig& timeouts) {
  http::ServerOptions server;
  server.header_timeout = timeouts.header;
  server.body_timeout = timeouts.body;
  server.idle_timeout = timeouts.idle;
  return server;
}

// What the file says of the token server holds too when the flag opens it.
Result<void> OpenTokenServer(const RunOptions& options, const ServerConfig& config,
                             Settings& settings) {
  const dialects::TokenServerConfig file =
      config.token_server.value_or(dialects::TokenServerConfig{});
  if (config.token_server) {
    FG_ASSIGN_OR_RETURN(settings.token_server, ReadAddress("token_server: listen", file.listen));
  }
  if (options.token_server) settings.token_server = options.token_server;
  FG_ASSIGN_OR_RETURN(settings.token_options.allowed, http::IpBlocks::Create(file.allow));
  settings.token_options.connections_max = static_cast<size_t>(file.connections);
  settings.token_questions_per_second = file.questions_per_second;
  return {};
}

Result<void> OpenDoors(const RunOptions& options, const ServerConfig& config, Settings& settings) {
  std::vector<std::string> upstreams;
  if (config.gateway) upstreams = config.gateway->upstreams;
  if (options.upstreams) upstreams = *options.upstreams;
  if (!upstreams.empty()) {
    const std::string listen =
        config.gateway ? config.gateway->listen : std::string(dialects::kGatewayListenDefault);
    FG_ASSIGN_OR_RETURN(settings.gateway, ReadAddress("gateway: listen", listen));
    if (options.listen) settings.gateway = options.listen;
  } else if (options.listen) {
    return Error{ErrorCode::kFailedPrecondition,
                 "--listen opens the gateway, which needs --upstream URL"};
  }
  for (const std::string& url : upstreams) {
    FG_ASSIGN_OR_RETURN(const std::vector<net::Address> addresses, ResolveUpstream(url));
    settings.gateway_options.upstreams.insert(settings.gateway_options.upstreams.end(),
                                              addresses.begin(), addresses.end());
  }
  if (config.decisions_listen) {
    FG_ASSIGN_OR_RETURN(settings.decisions,
                        ReadAddress("decisions: listen", *config.decisions_listen));
  }
  if (options.decisions) settings.decisions = options.decisions;
  if (config.admin_listen || (settings.gateway && options.upstreams)) {
    const std::string listen =
        config.admin_listen.value_or(std::string(dialects::kAdminListenDefault));
    FG_ASSIGN_OR_RETURN(settings.admin, ReadAddress("admin: listen", listen));
  }
  if (options.admin) settings.admin = options.admin;
  if (options.admin_off) settings.admin.reset();
  FG_RETURN_IF_ERROR(OpenTokenServer(options, config, settings));
  if (!settings.gateway && !settings.decisions && !settings.token_server) {
    return Error{
        ErrorCode::kFailedPrecondition,
        "nothing to serve: give --upstream URL, --decisions, --token-server, or a --config "
        "that has gateway, decisions or token_server"};
  }
  return {};
}

// The rule file that a configuration names is relative to the configuration.
RuleOrigin RulesOf(const RunOptions& options, const ServerConfig& config) {
  RuleOrigin rules;
  rules.limits = options.limits;
  rules.fold_case = config.path.case_insensitive;
  if (!options.rules_path.empty()) {
    rules.rules_path = options.rules_path;
  } else if (!config.rules_path.empty()) {
    const std::filesystem::path folder = std::filesystem::path(options.config_path).parent_path();
    rules.rules_path = (folder / config.rules_path).string();
  } else if (config.inline_rules) {
    rules.config_path = options.config_path;
  }
  return rules;
}

// What --store names goes before the file's address; the other fields are the file's.
Result<std::optional<StoreSettings>> StoreOf(const RunOptions& options,
                                             const ServerConfig& config) {
  if (!options.store && !config.store) return std::optional<StoreSettings>();
  StoreSettings store;
  if (config.store) {
    store.deadline = config.store->deadline;
    store.nodes = config.store->nodes;
  }
  if (options.store) {
    store.redis = *options.store;
  } else {
    auto redis = quota::redis::ParseUrl(config.store->redis);
    if (!redis.ok()) {
      return Error::InvalidArgument(options.config_path +
                                    ": store: redis: " + redis.error().message);
    }
    store.redis = std::move(redis).value();
  }
  store.node_name = quota::MakeNodeName();
  return std::optional<StoreSettings>(std::move(store));
}

// With the port that token servers have, where none is named.
std::vector<std::string> EndpointsOf(const dialects::ClusterConfig& config) {
  std::vector<std::string> endpoints = config.servers;
  for (std::string& endpoint : endpoints) {
    const size_t colon = endpoint.rfind(':');
    const size_t bracket = endpoint.rfind(']');
    const bool has_port =
        colon != std::string::npos && (bracket == std::string::npos || colon > bracket);
    if (!has_port) endpoint += ":18730";
  }
  return endpoints;
}

int CoreCount() {
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace

Result<RunOptions> ReadRunOptions(const RunFlags& flags) {
  RunOptions options;
  options.config_path = flags.config.value_or("");
  options.rules_path = flags.rules.value_or("");
  options.upstreams = flags.upstreams;
  FG_RETURN_IF_ERROR(ReadDoors(flags, options));
  FG_RETURN_IF_ERROR(ReadNumbers(flags, options));
  if (flags.limits) {
    for (const std::string& text : *flags.limits) {
      auto rule = ParseLimit(text);
      if (!rule.ok()) return Error::InvalidArgument("--limit: " + rule.error().message);
      options.limits.push_back(std::move(rule).value());
    }
  }
  return options;
}

Result<dialects::ParsedConfig> LoadConfig(const std::string& path) {
  FG_ASSIGN_OR_RETURN(const std::string text, sources::ReadFile(path));
  return dialects::ParseConfig(text, path);
}

Result<ExplainSettings> MakeExplainSettings(const RunOptions& options) {
  dialects::ParsedConfig parsed;
  if (!options.config_path.empty()) {
    FG_ASSIGN_OR_RETURN(parsed, LoadConfig(options.config_path));
  }
  const ServerConfig& config = parsed.config;
  ExplainSettings settings;
  settings.rules = RulesOf(options, config);
  FG_ASSIGN_OR_RETURN(settings.store, StoreOf(options, config));
  FG_ASSIGN_OR_RETURN(settings.view, ViewOf(config, config.client_ip.trusted_proxies));
  return settings;
}

Result<Settings> MakeSettings(const RunOptions& options) {
  dialects::ParsedConfig parsed;
  if (!options.config_path.empty()) {
    FG_ASSIGN_OR_RETURN(parsed, LoadConfig(options.config_path));
  }
  const ServerConfig& config = parsed.config;
  Settings settings;
  settings.warnings = std::move(parsed.warnings);
  FG_RETURN_IF_ERROR(OpenDoors(options, config, settings));
  settings.rules = RulesOf(options, config);
  FG_ASSIGN_OR_RETURN(settings.store, StoreOf(options, config));
  if (config.cluster) {
    settings.cluster = ClusterSettings{.servers = EndpointsOf(*config.cluster),
                                       .name_space = config.cluster->name_space,
                                       .timeout = config.cluster->timeout,
                                       .nodes = config.cluster->nodes};
  }
  // Of a request with rules of both, one after the other; each keeps its own besides.
  const Duration cluster = settings.cluster ? settings.cluster->timeout : Duration::zero();
  const Duration store = settings.store ? settings.store->deadline : Duration::zero();
  if (const Duration deadline = store + cluster; deadline > Duration::zero()) {
    settings.gateway_options.store_deadline = deadline;
    settings.decision_options.store_deadline = deadline;
  }
  if (settings.store) {
    // Its clients give up at 20 ms, whatever the file grants.
    Duration& tokens = settings.token_options.store_deadline;
    tokens = std::min(tokens, settings.store->deadline);
  }
  const int workers = options.workers.value_or(config.workers);
  settings.workers = workers > 0 ? workers : CoreCount();
  settings.cells = options.cells.value_or(config.cell_capacity);
  settings.state_bytes = options.state_bytes.value_or(config.state_bytes);
  settings.statistics = config.statistics;
  settings.drain_timeout = options.drain_timeout.value_or(config.timeouts.drain);
  settings.log_level = options.log_level.value_or(base::LogLevel::kInfo);

  FG_ASSIGN_OR_RETURN(settings.gateway_options.view,
                      ViewOf(config, config.client_ip.trusted_proxies));
  // Who asks the decision API is a proxy by its trade; one on this machine needs no
  // configuration to be believed.
  std::vector<std::string> trusted = config.client_ip.trusted_proxies;
  if (trusted.empty()) trusted = {"127.0.0.0/8", "::1"};
  FG_ASSIGN_OR_RETURN(settings.decision_options.view, ViewOf(config, trusted));
  settings.gateway_options.refusal = RefusalOf(config.responses);
  settings.decision_options.refusal = settings.gateway_options.refusal;
  settings.gateway_options.server = ServerOf(config.timeouts);
  settings.gateway_options.upstream.connect_timeout = config.timeouts.upstream_connect;
  settings.gateway_options.upstream.response_timeout = config.timeouts.upstream_response;
  settings.gateway_options.upstream.fail_after = config.upstream.fail_after;
  settings.gateway_options.upstream.retry_down_after = config.upstream.retry_down_after;
  settings.gateway_options.upstream.retries = config.upstream.retries;
  return settings;
}

}  // namespace flowguard::app
