// SPDX-License-Identifier: Apache-2.0
#include "dialects/config_yaml.h"

#include <algorithm>
#include <utility>

#include "flowguard/rules_text.h"

#include "base/bounds.h"
#include "dialects/config_address.h"
#include "dialects/fields.h"
#include "dialects/rule_reader.h"
#include "dialects/rule_words.h"
#include "rules/address_block.h"
#include "rules/route.h"
#include "text/yaml.h"

namespace flowguard::dialects {

namespace {

using text::Describe;
using text::Quote;

constexpr DurationBounds kTimeout = {std::chrono::milliseconds(1), std::chrono::hours(24)};
constexpr DurationBounds kDrain = {Duration{}, std::chrono::hours(24)};
constexpr DurationBounds kJitter = {Duration{}, std::chrono::minutes(10)};
constexpr DurationBounds kStoreDeadline = {std::chrono::milliseconds(1), std::chrono::seconds(10)};

constexpr Word<ClientIpHeader> kClientIpHeaderWords[] = {
    {"x-forwarded-for", ClientIpHeader::kXForwardedFor},
    {"forwarded", ClientIpHeader::kForwarded},
    {"x-real-ip", ClientIpHeader::kXRealIp},
};

constexpr Word<RateLimitHeaders> kRateLimitHeadersWords[] = {
    {"off", RateLimitHeaders::kOff},
    {"draft10", RateLimitHeaders::kDraft10},
    {"x", RateLimitHeaders::kX},
    {"both", RateLimitHeaders::kBoth},
};

// What an address has to be before it stands in the file.
void ReadListen(const Value& value, std::string& out) {
  std::string text;
  if (!ReadString(value, text)) return;
  const std::string fault = ListenFault(text);
  if (!fault.empty()) return value.Fault(fault);
  out = std::move(text);
}

void ReadUpstreams(const Value& value, ServerConfig& config) {
  std::vector<std::string> upstreams;
  if (!ReadStrings(value, upstreams)) return;
  if (upstreams.empty()) value.Fault("the list is empty; at least one address is needed");
  for (size_t i = 0; i < upstreams.size(); ++i) {
    const std::string fault = UpstreamFault(upstreams[i]);
    if (fault.empty()) continue;
    const text::Node& item = value.node.IsSequence() ? value.node.items[i] : value.node;
    value.Part(value.field, item).Fault(fault);
  }
  config.gateway->upstreams = std::move(upstreams);
}

void ReadWorkers(const Value& value, ServerConfig& config) {
  if (value.node.IsScalar() && value.node.scalar == "auto") {
    config.workers = 0;
  } else if (!value.node.IsScalar() || !ReadCount(value.node.scalar, {1, base::kWorkersMax}).ok()) {
    value.Fault("found " + Describe(value.node) + "; allowed: auto, 1 to " +
                std::to_string(base::kWorkersMax));
  } else {
    ReadSmallInteger(value, {1, base::kWorkersMax}, config.workers);
  }
}

constexpr Field<ServerConfig> kGatewayFields[] = {
    {"listen", [](const Value& v, ServerConfig& c) { ReadListen(v, c.gateway->listen); }},
    {"upstream", ReadUpstreams},
    {"workers", ReadWorkers},
    {"upstreams", [](const Value& v, ServerConfig&) { v.Fault("is written upstream"); }, Told::kNo},
};

void ReadGateway(const Value& value, ServerConfig& config) {
  config.gateway.emplace();
  if (!ReadMap(value, kGatewayFields, config)) return;
  if (value.node.Find("upstream") == nullptr) {
    value.Fault("upstream is missing; write upstream: [\"http://127.0.0.1:3000\"]");
  }
}

constexpr Field<std::string> kDoorFields[] = {{"listen", ReadListen}};

void ReadDecisions(const Value& value, ServerConfig& config) {
  config.decisions_listen.emplace(kDecisionsListenDefault);
  ReadMap(value, kDoorFields, *config.decisions_listen);
}

void ReadAdmin(const Value& value, ServerConfig& config) {
  config.admin_listen.emplace(kAdminListenDefault);
  ReadMap(value, kDoorFields, *config.admin_listen);
}

constexpr Field<UpstreamConfig> kUpstreamFields[] = {
    {"fail_after",
     [](const Value& v, UpstreamConfig& c) {
       ReadSmallInteger(v, {1, 1000}, c.fail_after);
     }},
    {"retry_down_after",
     [](const Value& v, UpstreamConfig& c) { ReadTime(v, kTimeout, c.retry_down_after); }},
    {"retries",
     [](const Value& v, UpstreamConfig& c) {
       ReadSmallInteger(v, {0, 10}, c.retries);
     }},
};

// `everybody`: what to say of a block that is one for all; empty: nothing.
void ReadAddressBlocks(const Value& value, std::string_view everybody,
                       std::vector<std::string>& out) {
  std::vector<std::string> texts;
  if (!ReadStrings(value, texts)) return;
  for (size_t i = 0; i < texts.size(); ++i) {
    rules::AddressBlock block;
    const text::Node& item = value.node.IsSequence() ? value.node.items[i] : value.node;
    if (rules::ParseAddressBlock(texts[i], block)) {
      const int family_bits = texts[i].find(':') == std::string::npos ? 96 : 0;
      if (!everybody.empty() && block.prefix_bits == family_bits) {
        value.problems.Warn(item.at, std::string(value.field) + ": " + Quote(texts[i]) + " " +
                                         std::string(everybody));
      }
      continue;
    }
    value.Part(value.field, item)
        .Fault(Quote(texts[i]) + " is no address or block; write 10.0.0.7, 10.0.0.0/8, fd00::/8");
  }
  out = std::move(texts);
}

constexpr Field<ClientIpConfig> kClientIpFields[] = {
    {"trusted_proxies",
     [](const Value& v, ClientIpConfig& c) {
       ReadAddressBlocks(v, "is everybody: every client names its own address", c.trusted_proxies);
     }},
    {"header",
     [](const Value& v, ClientIpConfig& c) { ReadWord(v, kClientIpHeaderWords, c.header); }},
    {"ipv6_prefix",
     [](const Value& v, ClientIpConfig& c) {
       ReadSmallInteger(v, {1, 128}, c.ipv6_prefix);
     }},
};

constexpr Field<StoreConfig> kStoreFields[] = {
    {"redis",
     [](const Value& v, StoreConfig& c) {
       std::string url;
       if (!ReadString(v, url)) return;
       const std::string fault = RedisFault(url);
       if (!fault.empty()) return v.Fault(fault);
       c.redis = std::move(url);
     }},
    {"deadline", [](const Value& v, StoreConfig& c) { ReadTime(v, kStoreDeadline, c.deadline); }},
    {"nodes",
     [](const Value& v, StoreConfig& c) {
       ReadSmallInteger(v, {1, base::kNodesMax}, c.nodes);
     }},
};

constexpr Field<TokenServerConfig> kTokenServerFields[] = {
    {"listen", [](const Value& v, TokenServerConfig& c) { ReadListen(v, c.listen); }},
    {"allow", [](const Value& v, TokenServerConfig& c) { ReadAddressBlocks(v, {}, c.allow); }},
    {"connections",
     [](const Value& v, TokenServerConfig& c) {
       ReadInteger(v, {1, int64_t{base::kTokenConnectionsMax}}, c.connections);
     }},
    {"questions_per_second",
     [](const Value& v, TokenServerConfig& c) {
       ReadInteger(v, {1, base::kRatePerSecondMax}, c.questions_per_second);
     }},
};

void ReadTokenServers(const Value& value, ClusterConfig& config) {
  std::vector<std::string> servers;
  if (!ReadStrings(value, servers)) return;
  if (servers.empty() || servers.size() > base::kTokenServersMax) {
    value.Fault("found " + std::to_string(servers.size()) + " token servers; allowed 1 to " +
                std::to_string(base::kTokenServersMax));
  }
  for (size_t i = 0; i < servers.size(); ++i) {
    const auto here = servers.begin() + static_cast<std::ptrdiff_t>(i);
    const bool again = std::find(servers.begin(), here, servers[i]) != here;
    const std::string fault =
        again ? Quote(servers[i]) + " is there twice" : TokenServerFault(servers[i]);
    if (fault.empty()) continue;
    const text::Node& item = value.node.IsSequence() ? value.node.items[i] : value.node;
    value.Part(value.field, item).Fault(fault);
  }
  config.servers = std::move(servers);
}

void ReadNamespace(const Value& value, ClusterConfig& config) {
  std::string text;
  if (!ReadString(value, text)) return;
  if (text.empty() || text.size() > base::kRuleNameBytesMax) {
    value.Fault("found " + std::to_string(text.size()) + " bytes; a namespace has 1 to " +
                std::to_string(base::kRuleNameBytesMax));
  }
  config.name_space = std::move(text);
}

constexpr Field<ClusterConfig> kClusterFields[] = {
    {"servers", ReadTokenServers},
    {"namespace", ReadNamespace},
    {"timeout", [](const Value& v, ClusterConfig& c) { ReadTime(v, kStoreDeadline, c.timeout); }},
    {"nodes",
     [](const Value& v, ClusterConfig& c) {
       ReadSmallInteger(v, {1, base::kNodesMax}, c.nodes);
     }},
};

void ReadCluster(const Value& value, ServerConfig& config) {
  config.cluster.emplace();
  if (ReadMap(value, kClusterFields, *config.cluster) && value.node.Find("servers") == nullptr)
    value.Fault("servers is missing; write servers: [\"10.0.0.5:18730\"]");
}

constexpr Field<ResponsesConfig> kResponsesFields[] = {
    {"body", [](const Value& v, ResponsesConfig& c) { ReadWord(v, kRefuseBodyWords, c.body); }},
    {"ratelimit_headers",
     [](const Value& v, ResponsesConfig& c) {
       ReadWord(v, kRateLimitHeadersWords, c.ratelimit_headers);
     }},
    {"on_success", [](const Value& v, ResponsesConfig& c) { ReadBool(v, c.on_success); }},
    {"decided_at", [](const Value& v, ResponsesConfig& c) { ReadBool(v, c.decided_at); }},
    {"retry_jitter",
     [](const Value& v, ResponsesConfig& c) { ReadTime(v, kJitter, c.retry_jitter); }},
};

constexpr Field<TimeoutsConfig> kTimeoutsFields[] = {
    {"header", [](const Value& v, TimeoutsConfig& c) { ReadTime(v, kTimeout, c.header); }},
    {"body", [](const Value& v, TimeoutsConfig& c) { ReadTime(v, kTimeout, c.body); }},
    {"idle", [](const Value& v, TimeoutsConfig& c) { ReadTime(v, kTimeout, c.idle); }},
    {"upstream_connect",
     [](const Value& v, TimeoutsConfig& c) { ReadTime(v, kTimeout, c.upstream_connect); }},
    {"upstream_response",
     [](const Value& v, TimeoutsConfig& c) { ReadTime(v, kTimeout, c.upstream_response); }},
    {"drain", [](const Value& v, TimeoutsConfig& c) { ReadTime(v, kDrain, c.drain); }},
};

constexpr Field<PathConfig> kPathFields[] = {
    {"case_insensitive", [](const Value& v, PathConfig& c) { ReadBool(v, c.case_insensitive); }},
    {"merge_slashes", [](const Value& v, PathConfig& c) { ReadBool(v, c.merge_slashes); }},
    {"strip_trailing_slash",
     [](const Value& v, PathConfig& c) { ReadBool(v, c.strip_trailing_slash); }},
    {"strip_semicolon_params",
     [](const Value& v, PathConfig& c) { ReadBool(v, c.strip_semicolon_params); }},
    {"encoded_slash_separates",
     [](const Value& v, PathConfig& c) { ReadBool(v, c.encoded_slash_separates); }},
    {"backslash_separates",
     [](const Value& v, PathConfig& c) { ReadBool(v, c.backslash_separates); }},
};

constexpr Field<ServerConfig> kCellsFields[] = {
    {"capacity",
     [](const Value& v, ServerConfig& c) {
       constexpr CountBounds kCapacity = {int64_t{base::kCellCapacityMin},
                                          int64_t{base::kCellCapacityMax}};
       int64_t capacity = 0;
       if (ReadInteger(v, kCapacity, capacity)) c.cell_capacity = static_cast<size_t>(capacity);
     }},
    {"state_bytes",
     [](const Value& v, ServerConfig& c) {
       constexpr CountBounds kBytes = {int64_t{base::kStateBytesMin},
                                       int64_t{base::kStateBytesMax}};
       int64_t bytes = 0;
       if (ReadSize(v, kBytes, bytes)) c.state_bytes = static_cast<size_t>(bytes);
     }},
};

constexpr Word<bool> kOnOffWords[] = {{"on", true}, {"off", false}};

void ReadExempt(const Value& value, ServerConfig& config) {
  std::vector<std::string> routes;
  if (!ReadStrings(value, routes)) return;
  for (size_t i = 0; i < routes.size(); ++i) {
    const auto route = rules::ParseRoute(routes[i]);
    const text::Node& item = value.node.IsSequence() ? value.node.items[i] : value.node;
    if (route.ok()) {
      if (routes[i].ends_with("/**") && route->segments.size() == 1) {
        value.problems.Warn(
            item.at, "exempt: " + Quote(routes[i]) + " is every path: no rule sees any request");
      }
      continue;
    }
    value.Part(value.field, item).Fault(route.error().message);
  }
  config.exempt = std::move(routes);
}

// A file of its own, or the list itself.
void ReadRulesField(const Value& value, ServerConfig& config) {
  if (value.node.IsSequence()) {
    if (!config.inline_rules) config.inline_rules.emplace();
    ReadRules(value, config.inline_rules->rules);
    config.inline_rules->regex = &Re2();
  } else if (value.node.IsScalar() && !value.node.scalar.empty()) {
    config.rules_path = value.node.scalar;
  } else {
    value.Fault("found " + Describe(value.node) +
                "; the path of a rule file or a list of rules is allowed");
  }
}

constexpr Field<ServerConfig> kServerFields[] = {
    {"gateway", ReadGateway},
    {"decisions", ReadDecisions},
    {"admin", ReadAdmin},
    {"token_server",
     [](const Value& v, ServerConfig& c) {
       ReadMap(v, kTokenServerFields, c.token_server.emplace());
     }},
    {"upstream", [](const Value& v, ServerConfig& c) { ReadMap(v, kUpstreamFields, c.upstream); }},
    {"client_ip",
     [](const Value& v, ServerConfig& c) { ReadMap(v, kClientIpFields, c.client_ip); }},
    {"rules", ReadRulesField},
    {"dimensions",
     [](const Value& v, ServerConfig& c) {
       if (!c.inline_rules) c.inline_rules.emplace();
       ReadDimensions(v, c.inline_rules->dimensions);
     }},
    {"match",
     [](const Value& v, ServerConfig& c) {
       if (!c.inline_rules) c.inline_rules.emplace();
       ReadWord(v, kMatchWords, c.inline_rules->match);
     }},
    {"compat",
     [](const Value& v, ServerConfig& c) {
       if (!c.inline_rules) c.inline_rules.emplace();
       ReadWord(v, kCompatWords, c.inline_rules->compat);
     }},
    {"store",
     [](const Value& v, ServerConfig& c) {
       c.store.emplace();
       if (ReadMap(v, kStoreFields, *c.store) && v.node.Find("redis") == nullptr) {
         v.Fault("redis is missing; write redis: \"redis://127.0.0.1:6379\"");
       }
     }},
    {"cluster", ReadCluster},
    {"cells", [](const Value& v, ServerConfig& c) { ReadMap(v, kCellsFields, c); }},
    {"statistics", [](const Value& v, ServerConfig& c) { ReadWord(v, kOnOffWords, c.statistics); }},
    {"responses",
     [](const Value& v, ServerConfig& c) { ReadMap(v, kResponsesFields, c.responses); }},
    {"timeouts", [](const Value& v, ServerConfig& c) { ReadMap(v, kTimeoutsFields, c.timeouts); }},
    {"path", [](const Value& v, ServerConfig& c) { ReadMap(v, kPathFields, c.path); }},
    {"exempt", ReadExempt},
    {"preflight_exempt", [](const Value& v, ServerConfig& c) { ReadBool(v, c.preflight_exempt); }},
};

// Beside a rule file they would say the same thing in a second place.
void RefuseStrayRuleFields(const Value& file) {
  const text::Node* rules = file.node.Find("rules");
  if (rules != nullptr && !rules->IsScalar()) return;
  for (const std::string_view field : {"dimensions", "match", "compat"}) {
    const text::Node* node = file.node.Find(field);
    if (node == nullptr) continue;
    file.Part(field, *node)
        .Fault(rules != nullptr ? "belongs into the rule file"
                                : "goes with a list of rules, and there is none");
  }
}

}  // namespace

Result<ParsedConfig> ParseConfig(std::string_view yaml, std::string_view file_name) {
  auto document = text::ReadYaml(yaml, file_name);
  if (!document.ok()) return std::move(document).error();

  Problems problems(file_name);
  for (auto& fault : document->faults)
    problems.Fault(fault.at, std::move(fault.message));
  ParsedConfig parsed;
  const Value file{"the file", document->root, problems};
  if (ReadMap(file, kServerFields, parsed.config)) RefuseStrayRuleFields(file);
  if (problems.any_fault()) return problems.ToError();
  parsed.warnings = problems.TakeWarnings();
  return parsed;
}

}  // namespace flowguard::dialects
