// SPDX-License-Identifier: Apache-2.0
#include "dialects/sentinel/validity.h"

#include <type_traits>

#include "dialects/sentinel/java_regex.h"
#include "dialects/sentinel/java_values.h"
#include "dialects/sentinel/param_value.h"

namespace flowguard::dialects::sentinel {

namespace {

using text::Quote;

template <typename Number>
std::string NumberText(Number number) {
  if constexpr (std::is_floating_point_v<Number>) {
    return JavaText(number);
  } else {
    return std::to_string(number);
  }
}

// Collects reasons.
class Reasons {
 public:
  void Add(std::string member, std::string what) {
    found_.push_back({std::move(member), std::move(what)});
  }
  void NeedText(std::string member, const std::string& text, std::string_view why = {}) {
    if (!IsBlank(text)) return;
    Add(std::move(member), "found " + (text.empty() ? "nothing" : Quote(text)) +
                               "; a text is needed" + std::string(why));
  }
  template <typename Number>
  void NeedAtLeast(std::string member, Number number, int least, std::string_view why = {}) {
    if (number >= static_cast<Number>(least)) return;
    Add(std::move(member), "found " + NumberText(number) + "; allowed: " + std::to_string(least) +
                               " or more" + std::string(why));
  }
  template <typename Number>
  void NeedWithin(std::string member, Number number, int least, int most,
                  std::string_view why = {}) {
    const bool within = number >= static_cast<Number>(least) && number <= static_cast<Number>(most);
    if (within) return;
    Add(std::move(member), "found " + NumberText(number) + "; allowed: " + std::to_string(least) +
                               " to " + std::to_string(most) + std::string(why));
  }
  void NeedRegex(const RuleBase& rule) {
    if (!rule.regex) return;
    const auto fault = FindRegexFault(rule.resource);
    if (!fault) return;
    Add("resource", "found " + Quote(rule.resource) + ", at its byte " +
                        std::to_string(fault->offset + 1) + " " + fault->what +
                        "; a regular expression of Java is needed where regex is true");
  }
  // A regex rule counts each resource by itself, in this process, and only refuses.
  void NeedPlainIfRegex(const RuleBase& rule, bool cluster_mode, int32_t control_behavior) {
    if (!rule.regex) return;
    if (cluster_mode) Add("clusterMode", "found true; false is needed where regex is true");
    if (control_behavior != kBehaviorReject) {
      Add("controlBehavior",
          "found " + std::to_string(control_behavior) + "; 0 is needed where regex is true");
    }
  }

  std::vector<Reason> Take() { return std::move(found_); }

 private:
  std::vector<Reason> found_;
};

void NeedFlowId(Reasons& reasons, const std::optional<int64_t>& flow_id) {
  if (flow_id) return reasons.NeedAtLeast("clusterConfig.flowId", *flow_id, 1);
  reasons.Add("clusterConfig.flowId", "found nothing; a whole number above 0 is needed");
}

void NeedWindow(Reasons& reasons, int32_t sample_count, int32_t window_interval_ms) {
  reasons.NeedAtLeast("clusterConfig.sampleCount", sample_count, 1);
  reasons.NeedAtLeast("clusterConfig.windowIntervalMs", window_interval_ms, 1);
  if (sample_count > 0 && window_interval_ms > 0 && window_interval_ms % sample_count != 0) {
    reasons.Add("clusterConfig.windowIntervalMs", "found " + std::to_string(window_interval_ms) +
                                                      "; a multiple of sampleCount, " +
                                                      std::to_string(sample_count) + ", is needed");
  }
}

constexpr std::string_view kNoClusterConfig =
    "found nothing; it is needed where clusterMode is true";

void CheckCluster(Reasons& reasons, const FlowRule& rule) {
  if (!rule.cluster_mode) return;
  if (!rule.cluster_config) return reasons.Add("clusterConfig", std::string(kNoClusterConfig));
  const ClusterFlowConfig& config = *rule.cluster_config;
  if (rule.grade == kGradeConcurrency) {
    reasons.NeedAtLeast("clusterConfig.clientOfflineTime", config.client_offline_time, 1);
    reasons.NeedAtLeast("clusterConfig.resourceTimeout", config.resource_timeout, 1);
    reasons.NeedAtLeast("clusterConfig.acquireRefuseStrategy", config.acquire_refuse_strategy, 0);
    reasons.NeedAtLeast("clusterConfig.resourceTimeoutStrategy", config.resource_timeout_strategy,
                        0);
  } else {
    reasons.NeedWithin("clusterConfig.strategy", config.strategy, 0, 0);
  }
  NeedFlowId(reasons, config.flow_id);
  NeedWindow(reasons, config.sample_count, config.window_interval_ms);
}

// Strategy and behaviour count for rules of QPS alone, so only there they are checked.
void CheckQps(Reasons& reasons, const FlowRule& rule) {
  if (rule.strategy == kStrategyRelate || rule.strategy == kStrategyChain) {
    reasons.NeedText("refResource", rule.ref_resource, " where strategy is 1 or 2");
  }
  const bool queues =
      rule.control_behavior == kBehaviorQueue || rule.control_behavior == kBehaviorWarmUpQueue;
  const bool warms =
      rule.control_behavior == kBehaviorWarmUp || rule.control_behavior == kBehaviorWarmUpQueue;
  if (warms) {
    reasons.NeedAtLeast("warmUpPeriodSec", rule.warm_up_period_sec, 1,
                        " where controlBehavior is 1 or 3");
  }
  if (queues) {
    reasons.NeedAtLeast("maxQueueingTimeMs", rule.max_queueing_time_ms, 1,
                        " where controlBehavior is 2 or 3");
  }
  // Sentinel divides by the count, rounded, and fails to load the whole list.
  if (rule.control_behavior == kBehaviorQueue && rule.count > 0 && rule.count < 0.5) {
    reasons.Add("count", "found " + JavaText(rule.count) +
                             "; allowed: 0, and 0.5 or more where controlBehavior is 2");
  }
}

}  // namespace

std::vector<Reason> ReasonsAgainst(const FlowRule& rule) {
  Reasons reasons;
  reasons.NeedText("resource", rule.resource);
  reasons.NeedAtLeast("count", rule.count, 0);
  reasons.NeedWithin("grade", rule.grade, kGradeConcurrency, kGradeQps);
  reasons.NeedAtLeast("strategy", rule.strategy, 0);
  reasons.NeedAtLeast("controlBehavior", rule.control_behavior, 0);
  reasons.NeedRegex(rule);
  reasons.NeedPlainIfRegex(rule, rule.cluster_mode, rule.control_behavior);
  CheckCluster(reasons, rule);
  if (rule.grade == kGradeQps) CheckQps(reasons, rule);
  return reasons.Take();
}

std::vector<Reason> Surprises(const FlowRule& rule) {
  Reasons reasons;
  if (rule.grade == kGradeConcurrency) {
    if (rule.control_behavior != kBehaviorReject) {
      reasons.Add("controlBehavior",
                  "found " + std::to_string(rule.control_behavior) +
                      "; it goes with grade 1, a rule of concurrency (grade 0) always refuses");
    }
    return reasons.Take();
  }
  if (rule.control_behavior > kBehaviorWarmUpQueue) {
    reasons.Add("controlBehavior", "found " + std::to_string(rule.control_behavior) +
                                       "; it is not known and counts as 0, refuse");
  }
  if (rule.strategy > kStrategyChain) {
    reasons.Add("strategy", "found " + std::to_string(rule.strategy) +
                                "; it is not known, and such a rule never limits anything; "
                                "known: 0 direct, 1 relate, 2 chain");
  }
  return reasons.Take();
}

std::vector<Reason> ReasonsAgainst(const DegradeRule& rule) {
  Reasons reasons;
  reasons.NeedText("resource", rule.resource);
  reasons.NeedAtLeast("count", rule.count, 0);
  reasons.NeedAtLeast("timeWindow", rule.time_window, 1, ", in seconds");
  reasons.NeedAtLeast("minRequestAmount", rule.min_request_amount, 1);
  reasons.NeedAtLeast("statIntervalMs", rule.stat_interval_ms, 1);
  reasons.NeedRegex(rule);
  reasons.NeedWithin("grade", rule.grade, kDegradeSlowRatio, kDegradeExceptionCount);
  if (rule.grade == kDegradeSlowRatio) {
    reasons.NeedWithin("slowRatioThreshold", rule.slow_ratio_threshold, 0, 1);
  }
  if (rule.grade == kDegradeExceptionRatio && rule.count > 1) {
    reasons.NeedWithin("count", rule.count, 0, 1, " where grade is 1, a ratio");
  }
  return reasons.Take();
}

std::vector<Reason> ReasonsAgainst(const SystemRule& rule) {
  Reasons reasons;
  if (rule.highest_cpu_usage > 1) {
    reasons.Add("highestCpuUsage", "found " + JavaText(rule.highest_cpu_usage) +
                                       "; allowed: 0 to 1, a share of the processors, and "
                                       "negative for off");
  }
  return reasons.Take();
}

std::vector<Reason> ReasonsAgainst(const AuthorityRule& rule) {
  Reasons reasons;
  reasons.NeedText("resource", rule.resource);
  reasons.NeedAtLeast("strategy", rule.strategy, 0);
  reasons.NeedText("limitApp", rule.limit_app, ", origins with commas between them");
  reasons.NeedRegex(rule);
  return reasons.Take();
}

std::vector<Reason> Surprises(const AuthorityRule& rule) {
  Reasons reasons;
  if (rule.strategy > kAuthorityDeny) {
    reasons.Add("strategy", "found " + std::to_string(rule.strategy) +
                                "; it is not known, and such a rule lets everybody through; "
                                "known: 0 allow, 1 deny");
  }
  if (rule.limit_app.find(' ') != std::string::npos) {
    reasons.Add("limitApp", "found " + Quote(rule.limit_app) +
                                "; spaces belong to the origins, they are not left out");
  }
  return reasons.Take();
}

std::vector<Reason> ReasonsAgainst(const ParamFlowRule& rule) {
  Reasons reasons;
  reasons.NeedText("resource", rule.resource);
  reasons.NeedAtLeast("count", rule.count, 0);
  reasons.NeedAtLeast("grade", rule.grade, 0);
  if (!rule.param_idx) {
    reasons.Add("paramIdx", "found nothing; the index of an argument is needed");
  }
  reasons.NeedAtLeast("burstCount", rule.burst_count, 0);
  reasons.NeedAtLeast("controlBehavior", rule.control_behavior, 0);
  reasons.NeedAtLeast("durationInSec", rule.duration_in_sec, 1);
  reasons.NeedAtLeast("maxQueueingTimeMs", rule.max_queueing_time_ms, 0);
  reasons.NeedRegex(rule);
  reasons.NeedPlainIfRegex(rule, rule.cluster_mode, rule.control_behavior);
  if (rule.cluster_mode && !rule.cluster_config) {
    reasons.Add("clusterConfig", std::string(kNoClusterConfig));
  } else if (rule.cluster_mode) {
    NeedFlowId(reasons, rule.cluster_config->flow_id);
    NeedWindow(reasons, rule.cluster_config->sample_count, rule.cluster_config->window_interval_ms);
  }
  return reasons.Take();
}

std::optional<Reason> ReasonAgainst(const ParamFlowItem& item) {
  if (!item.count) return Reason{"count", "found nothing; 0 or more is needed"};
  if (*item.count < 0) {
    return Reason{"count", "found " + std::to_string(*item.count) + "; allowed: 0 or more"};
  }
  const Read<ParamValue> value = ValueOf(item);
  if (!value.ok()) return Reason{"object", value.fault().message};
  return {};
}

std::vector<Reason> Surprises(const ParamFlowRule& rule) {
  Reasons reasons;
  if (rule.grade > kGradeQps) {
    reasons.Add("grade", "found " + std::to_string(rule.grade) +
                             "; it is not known, and such a rule never limits anything; known: "
                             "0 concurrency, 1 QPS");
  }
  if (!rule.limit_app.empty() && rule.limit_app != kLimitAppDefault) {
    reasons.Add("limitApp", "found " + Quote(rule.limit_app) +
                                "; a param-flow rule counts for every origin whatever it says");
  }
  return reasons.Take();
}

std::vector<Reason> ReasonsAgainst(const GatewayFlowRule& rule) {
  Reasons reasons;
  reasons.NeedText("resource", rule.resource);
  reasons.NeedAtLeast("resourceMode", rule.resource_mode, 0);
  reasons.NeedAtLeast("grade", rule.grade, 0);
  reasons.NeedAtLeast("count", rule.count, 0);
  reasons.NeedAtLeast("burst", rule.burst, 0);
  reasons.NeedAtLeast("controlBehavior", rule.control_behavior, 0);
  if (rule.control_behavior == kBehaviorQueue) {
    reasons.NeedAtLeast("maxQueueingTimeoutMs", rule.max_queueing_timeout_ms, 0);
  }
  reasons.NeedAtLeast("intervalSec", rule.interval_sec, 1);
  if (!rule.param_item) return reasons.Take();
  const GatewayParamFlowItem& item = *rule.param_item;
  reasons.NeedAtLeast("paramItem.parseStrategy", item.parse_strategy, 0);
  const bool named = item.parse_strategy == kParseHeader || item.parse_strategy == kParseUrlParam ||
                     item.parse_strategy == kParseCookie;
  if (named) {
    reasons.NeedText(
        "paramItem.fieldName", item.field_name,
        " where parseStrategy is 2, 3 or 4: the name of a header, parameter or cookie");
  }
  if (!item.pattern.empty()) reasons.NeedAtLeast("paramItem.matchStrategy", item.match_strategy, 0);
  return reasons.Take();
}

std::vector<Reason> Surprises(const GatewayFlowRule& rule) {
  Reasons reasons;
  constexpr int32_t kMatchPrefix = 1;
  if (rule.param_item && !rule.param_item->pattern.empty() &&
      rule.param_item->match_strategy == kMatchPrefix) {
    reasons.Add("paramItem.matchStrategy",
                "found 1; a prefix is not implemented by Sentinel for values of parameters");
  }
  return reasons.Take();
}

std::vector<Reason> ReasonsAgainst(const ApiDefinition& definition) {
  Reasons reasons;
  reasons.NeedText("apiName", definition.api_name);
  if (!definition.predicate_items) {
    reasons.Add("predicateItems", "found nothing; a list is needed");
  }
  return reasons.Take();
}

std::vector<Reason> Surprises(const ApiDefinition& definition) {
  Reasons reasons;
  if (!definition.predicate_items) return {};
  for (size_t i = 0; i < definition.predicate_items->size(); ++i) {
    if (!IsBlank((*definition.predicate_items)[i].pattern)) continue;
    reasons.Add("predicateItems[" + std::to_string(i) + "].pattern",
                "found nothing; without a pattern it matches no request");
  }
  return reasons.Take();
}

}  // namespace flowguard::dialects::sentinel
