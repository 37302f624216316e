// SPDX-License-Identifier: Apache-2.0
//
// The members of each rule by the names that they have in JSON, in the order of the
// alphabet, which is the order in which Sentinel writes them.  Reader, writer and the
// detection of kinds all go by this table.
//
//   EachMember(rule, [](std::string_view name, auto& field) { ... });
#pragma once

#include <concepts>
#include <string_view>
#include <type_traits>

#include "dialects/sentinel/rules.h"

namespace flowguard::dialects::sentinel {

// A T or a const T.
template <typename T, typename Rule>
concept MaybeConst = std::same_as<std::remove_const_t<T>, Rule>;

template <MaybeConst<ClusterFlowConfig> T, typename Visit>
void EachMember(T& config, const Visit& visit) {
  visit("acquireRefuseStrategy", config.acquire_refuse_strategy);
  visit("clientOfflineTime", config.client_offline_time);
  visit("fallbackToLocalWhenFail", config.fallback_to_local_when_fail);
  visit("flowId", config.flow_id);
  visit("resourceTimeout", config.resource_timeout);
  visit("resourceTimeoutStrategy", config.resource_timeout_strategy);
  visit("sampleCount", config.sample_count);
  visit("strategy", config.strategy);
  visit("thresholdType", config.threshold_type);
  visit("windowIntervalMs", config.window_interval_ms);
}

template <MaybeConst<FlowRule> T, typename Visit>
void EachMember(T& rule, const Visit& visit) {
  visit("clusterConfig", rule.cluster_config);
  visit("clusterMode", rule.cluster_mode);
  visit("controlBehavior", rule.control_behavior);
  visit("count", rule.count);
  visit("grade", rule.grade);
  visit("id", rule.id);
  visit("limitApp", rule.limit_app);
  visit("maxQueueingTimeMs", rule.max_queueing_time_ms);
  visit("refResource", rule.ref_resource);
  visit("regex", rule.regex);
  visit("resource", rule.resource);
  visit("strategy", rule.strategy);
  visit("warmUpPeriodSec", rule.warm_up_period_sec);
}

template <MaybeConst<DegradeRule> T, typename Visit>
void EachMember(T& rule, const Visit& visit) {
  visit("count", rule.count);
  visit("grade", rule.grade);
  visit("id", rule.id);
  visit("limitApp", rule.limit_app);
  visit("minRequestAmount", rule.min_request_amount);
  visit("regex", rule.regex);
  visit("resource", rule.resource);
  visit("slowRatioThreshold", rule.slow_ratio_threshold);
  visit("statIntervalMs", rule.stat_interval_ms);
  visit("timeWindow", rule.time_window);
}

template <MaybeConst<SystemRule> T, typename Visit>
void EachMember(T& rule, const Visit& visit) {
  visit("avgRt", rule.avg_rt);
  visit("highestCpuUsage", rule.highest_cpu_usage);
  visit("highestSystemLoad", rule.highest_system_load);
  visit("id", rule.id);
  visit("limitApp", rule.limit_app);
  visit("maxThread", rule.max_thread);
  visit("qps", rule.qps);
  visit("regex", rule.regex);
  visit("resource", rule.resource);
}

template <MaybeConst<AuthorityRule> T, typename Visit>
void EachMember(T& rule, const Visit& visit) {
  visit("id", rule.id);
  visit("limitApp", rule.limit_app);
  visit("regex", rule.regex);
  visit("resource", rule.resource);
  visit("strategy", rule.strategy);
}

template <MaybeConst<ParamFlowItem> T, typename Visit>
void EachMember(T& item, const Visit& visit) {
  visit("classType", item.class_type);
  visit("count", item.count);
  visit("object", item.object);
}

template <MaybeConst<ParamFlowClusterConfig> T, typename Visit>
void EachMember(T& config, const Visit& visit) {
  visit("fallbackToLocalWhenFail", config.fallback_to_local_when_fail);
  visit("flowId", config.flow_id);
  visit("sampleCount", config.sample_count);
  visit("thresholdType", config.threshold_type);
  visit("windowIntervalMs", config.window_interval_ms);
}

template <MaybeConst<ParamFlowRule> T, typename Visit>
void EachMember(T& rule, const Visit& visit) {
  visit("burstCount", rule.burst_count);
  visit("clusterConfig", rule.cluster_config);
  visit("clusterMode", rule.cluster_mode);
  visit("controlBehavior", rule.control_behavior);
  visit("count", rule.count);
  visit("durationInSec", rule.duration_in_sec);
  visit("grade", rule.grade);
  visit("id", rule.id);
  visit("limitApp", rule.limit_app);
  visit("maxQueueingTimeMs", rule.max_queueing_time_ms);
  visit("paramFlowItemList", rule.param_flow_item_list);
  visit("paramIdx", rule.param_idx);
  visit("regex", rule.regex);
  visit("resource", rule.resource);
}

template <MaybeConst<GatewayParamFlowItem> T, typename Visit>
void EachMember(T& item, const Visit& visit) {
  visit("fieldName", item.field_name);
  visit("matchStrategy", item.match_strategy);
  visit("parseStrategy", item.parse_strategy);
  visit("pattern", item.pattern);
}

template <MaybeConst<GatewayFlowRule> T, typename Visit>
void EachMember(T& rule, const Visit& visit) {
  visit("burst", rule.burst);
  visit("controlBehavior", rule.control_behavior);
  visit("count", rule.count);
  visit("grade", rule.grade);
  visit("intervalSec", rule.interval_sec);
  visit("maxQueueingTimeoutMs", rule.max_queueing_timeout_ms);
  visit("paramItem", rule.param_item);
  visit("resource", rule.resource);
  visit("resourceMode", rule.resource_mode);
}

template <MaybeConst<ApiPredicateItem> T, typename Visit>
void EachMember(T& item, const Visit& visit) {
  visit("matchStrategy", item.match_strategy);
  visit("pattern", item.pattern);
}

template <MaybeConst<ApiDefinition> T, typename Visit>
void EachMember(T& definition, const Visit& visit) {
  visit("apiName", definition.api_name);
  visit("predicateItems", definition.predicate_items);
}

struct IgnoreMember {
  void operator()(std::string_view /*name*/, const auto& /*field*/) const {}
};

// A struct that the table above describes.
template <typename T>
concept HasMembers = requires(const T& bean) {
  EachMember(bean, IgnoreMember());
};

}  // namespace flowguard::dialects::sentinel
