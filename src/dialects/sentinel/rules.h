// SPDX-License-Identifier: Apache-2.0
//
// Sentinel's rules as its JSON says them, with the defaults of its Java classes; not yet
// FlowGuard's model.  Fields have Sentinel's names and units.  A text that is empty is one
// that is not there: Sentinel makes no difference between the two.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "flowguard/time.h"

#include "text/node.h"

namespace flowguard::dialects::sentinel {

// In the order of RuleList's alternatives.
enum class Kind : uint8_t {
  kFlow,
  kDegrade,
  kSystem,
  kAuthority,
  kParamFlow,
  kGatewayFlow,
  kApiDefinition,
};
inline constexpr size_t kKinds = 7;

// "flow", "degrade", "system", "authority", "param-flow", "gateway-flow", "api-definition".
[[nodiscard]] std::string_view NameOf(Kind kind) noexcept;

// Numbers with a meaning.
inline constexpr int32_t kGradeConcurrency = 0;
inline constexpr int32_t kGradeQps = 1;

inline constexpr int32_t kStrategyDirect = 0;
inline constexpr int32_t kStrategyRelate = 1;
inline constexpr int32_t kStrategyChain = 2;

inline constexpr int32_t kBehaviorReject = 0;
// How far ahead prioritised calls take what is to come, of rules that reject
// (csp.sentinel.statistic.occupy.timeout).
inline constexpr Duration kOccupyTimeout = std::chrono::milliseconds(500);
inline constexpr int32_t kBehaviorWarmUp = 1;
inline constexpr int32_t kBehaviorQueue = 2;
inline constexpr int32_t kBehaviorWarmUpQueue = 3;

inline constexpr int32_t kDegradeSlowRatio = 0;
inline constexpr int32_t kDegradeExceptionRatio = 1;
inline constexpr int32_t kDegradeExceptionCount = 2;

inline constexpr int32_t kAuthorityAllow = 0;
inline constexpr int32_t kAuthorityDeny = 1;

inline constexpr int32_t kParseClientIp = 0;
inline constexpr int32_t kParseHost = 1;
inline constexpr int32_t kParseHeader = 2;
inline constexpr int32_t kParseUrlParam = 3;
inline constexpr int32_t kParseCookie = 4;

inline constexpr std::string_view kLimitAppDefault = "default";
inline constexpr std::string_view kLimitAppOther = "other";

// Members of every rule but gateway-flow and api-definition.
struct RuleBase {
  std::optional<int64_t> id;
  std::string limit_app;
  bool regex = false;
  std::string resource;

  bool operator==(const RuleBase&) const = default;
};

struct ClusterFlowConfig {
  int32_t acquire_refuse_strategy = 0;
  int64_t client_offline_time = 2000;  // ms
  bool fallback_to_local_when_fail = true;
  std::optional<int64_t> flow_id;
  int64_t resource_timeout = 2000;  // ms
  int32_t resource_timeout_strategy = 0;
  int32_t sample_count = 10;
  int32_t strategy = 0;
  int32_t threshold_type = 0;
  int32_t window_interval_ms = 1000;

  bool operator==(const ClusterFlowConfig&) const = default;
};

// limit_app is never empty: what has none counts for every origin.
struct FlowRule : RuleBase {
  FlowRule() { limit_app = kLimitAppDefault; }

  std::optional<ClusterFlowConfig> cluster_config;
  bool cluster_mode = false;
  int32_t control_behavior = 0;
  double count = 0;
  int32_t grade = kGradeQps;
  int32_t max_queueing_time_ms = 500;
  std::string ref_resource;
  int32_t strategy = 0;
  int32_t warm_up_period_sec = 10;

  bool operator==(const FlowRule&) const = default;
};

struct DegradeRule : RuleBase {
  double count = 0;  // by grade: ms, ratio, exceptions
  int32_t grade = 0;
  int32_t min_request_amount = 5;
  double slow_ratio_threshold = 1.0;
  int32_t stat_interval_ms = 1000;
  int32_t time_window = 0;  // seconds

  bool operator==(const DegradeRule&) const = default;
};

// What is negative is off.
struct SystemRule : RuleBase {
  int64_t avg_rt = -1;  // ms
  double highest_cpu_usage = -1;
  double highest_system_load = -1;
  int64_t max_thread = -1;
  double qps = -1;

  bool operator==(const SystemRule&) const = default;
};

// limit_app: origins with commas between them.
struct AuthorityRule : RuleBase {
  int32_t strategy = kAuthorityAllow;

  bool operator==(const AuthorityRule&) const = default;
};

struct ParamFlowItem {
  std::string class_type;
  std::optional<int32_t> count;
  std::optional<std::string> object;

  bool operator==(const ParamFlowItem&) const = default;
};

struct ParamFlowClusterConfig {
  bool fallback_to_local_when_fail = false;
  std::optional<int64_t> flow_id;
  int32_t sample_count = 10;
  int32_t threshold_type = 0;
  int32_t window_interval_ms = 1000;

  bool operator==(const ParamFlowClusterConfig&) const = default;
};

struct ParamFlowRule : RuleBase {
  int32_t burst_count = 0;
  std::optional<ParamFlowClusterConfig> cluster_config;
  bool cluster_mode = false;
  int32_t control_behavior = 0;
  double count = 0;
  int64_t duration_in_sec = 1;
  int32_t grade = kGradeQps;
  int32_t max_queueing_time_ms = 0;
  std::vector<ParamFlowItem> param_flow_item_list;
  std::optional<int32_t> param_idx;  // negative ones count from the end

  bool operator==(const ParamFlowRule&) const = default;
};

struct GatewayParamFlowItem {
  std::string field_name;
  int32_t match_strategy = 0;
  int32_t parse_strategy = 0;
  std::string pattern;

  bool operator==(const GatewayParamFlowItem&) const = default;
};

struct GatewayFlowRule {
  int32_t burst = 0;
  int32_t control_behavior = 0;
  double count = 0;
  int32_t grade = kGradeQps;
  int64_t interval_sec = 1;
  int32_t max_queueing_timeout_ms = 500;
  std::optional<GatewayParamFlowItem> param_item;
  std::string resource;
  int32_t resource_mode = 0;  // 0: a route, 1: an API definition

  bool operator==(const GatewayFlowRule&) const = default;
};

struct ApiPredicateItem {
  int32_t match_strategy = 0;  // 0 exact, 1 prefix, 2 regex
  std::string pattern;

  bool operator==(const ApiPredicateItem&) const = default;
};

struct ApiDefinition {
  std::string api_name;
  std::optional<std::vector<ApiPredicateItem>> predicate_items;

  bool operator==(const ApiDefinition&) const = default;
};

// A rule and where it stands: its index in the list, from 0, and its place in the file.
template <typename Rule>
struct Listed {
  Rule rule;
  size_t index = 0;
  text::Position at;
};

using RuleList =
    std::variant<std::vector<Listed<FlowRule>>, std::vector<Listed<DegradeRule>>,
                 std::vector<Listed<SystemRule>>, std::vector<Listed<AuthorityRule>>,
                 std::vector<Listed<ParamFlowRule>>, std::vector<Listed<GatewayFlowRule>>,
                 std::vector<Listed<ApiDefinition>>>;
static_assert(std::variant_size_v<RuleList> == kKinds);

[[nodiscard]] inline Kind KindOf(const RuleList& rules) noexcept {
  return static_cast<Kind>(rules.index());
}

}  // namespace flowguard::dialects::sentinel
