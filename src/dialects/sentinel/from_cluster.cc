// SPDX-License-Identifier: Apache-2.0
#include "dialects/sentinel/from_cluster.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "dialects/sentinel/from_parts.h"
#include "rules/flow_id.h"
#include "text/node.h"

namespace flowguard::dialects::sentinel {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using text::Quote;

constexpr int32_t kIntMax = std::numeric_limits<int32_t>::max();

// Whole milliseconds, as many as Sentinel holds; else nothing.
std::optional<int32_t> WholeMs(Duration time) {
  const int64_t ms = std::chrono::duration_cast<milliseconds>(time).count();
  if (milliseconds(ms) != time || ms < 1 || ms > kIntMax) return std::nullopt;
  return static_cast<int32_t>(ms);
}

void NoteClosed(const RuleAt& at, const Rule& rule, Differences& report) {
  if (rule.on_store_failure != StoreFailurePolicy::kClosed) return;
  report.Note(at, "on_store_failure", "lets calls pass while the server is away", "refuses them");
}

template <typename Config>
void SetServer(const RuleAt& at, const Rule& rule, Config& config, Differences& report) {
  config.flow_id = rules::FlowIdOf(rule);
  config.threshold_type = rule.cluster.per_client ? 0 : 1;
  config.fallback_to_local_when_fail = rule.on_store_failure == StoreFailurePolicy::kLocal;
  constexpr int64_t kExactInJavaScript = int64_t{1} << 53;
  if (*config.flow_id > kExactInJavaScript) {
    report.NoteOfMany(at, "flow_id",
                      "shows the number in its dashboard, which holds none above 2^53 exactly",
                      "makes it from the rule's name, unless told another");
  }
  NoteClosed(at, rule, report);
  if (config.fallback_to_local_when_fail) {
    report.NoteOfMany(at, "on_store_failure",
                      "gives each process the whole count while its server is away",
                      "gives each its share of the count");
  }
}

// False: told.
template <typename Config>
bool SetWindow(const RuleAt& at, const Rule& rule, Config& config, Differences& report) {
  const std::optional<int32_t> window_ms = WholeMs(rule.rate.window);
  if (!window_ms) {
    report.LeaveOut(at, "limit", "has windows of 1 ms to " + std::to_string(kIntMax) + " ms",
                    "has this one");
    return false;
  }
  config.window_interval_ms = *window_ms;
  if (*window_ms % config.sample_count != 0) config.sample_count = 1;
  if (rule.rate.window != seconds(1)) {
    report.Note(at, "limit",
                "compares the mean of the window with the count, a call more at its end",
                "admits the limit in every window");
  }
  const bool exact = rule.algorithm == Algorithm::kSlidingLog ||
                     rule.algorithm == Algorithm::kSlidingBuckets ||
                     rule.algorithm == Algorithm::kLeapArray;
  if (!exact) {
    report.Note(at, "algorithm", "counts in parts of the window", "counts by another algorithm");
  }
  if (rule.burst && *rule.burst != rule.rate.limit)
    report.Note(at, "limit", "has no burst at its token server", "has one");
  return true;
}

void SetSamples(const RuleAt& at, const Rule& rule, ClusterFlowConfig& config,
                Differences& report) {
  if (rule.borrow == Duration{}) {
    if (rule.rate.limit == 0) return;
    return report.NoteOfMany(at, "borrow",
                             "lends prioritised calls what comes in the next part of the window",
                             "lends nothing unless told to");
  }
  const std::optional<int32_t> part_ms = WholeMs(rule.borrow);
  if (part_ms && config.window_interval_ms % *part_ms == 0) {
    config.sample_count = config.window_interval_ms / *part_ms;
  } else {
    report.Note(at, "borrow", "lends prioritised calls what comes in the next part of the window",
                "lends for another time");
  }
}

std::string_view ClassOf(ValueType type) {
  switch (type) {
    case ValueType::kInt:
      return "int";
    case ValueType::kLong:
      return "long";
    case ValueType::kByte:
      return "byte";
    case ValueType::kDouble:
      return "double";
    case ValueType::kFloat:
      return "float";
    case ValueType::kShort:
      return "short";
    case ValueType::kBool:
      return "boolean";
    case ValueType::kAny:
    case ValueType::kString:
      break;
  }
  return "java.lang.String";
}

void AddItem(const RuleAt& at, const Rule& rule, const Override& one, ParamFlowRule& param,
             Differences& report) {
  const double per_second = PerSecond(one.rate);
  const double count = std::min<double>(std::floor(per_second), kIntMax);
  if (count != per_second) {
    report.Note(at, "overrides", "has whole counts of a second up to " + std::to_string(kIntMax),
                "has another for " + Quote(one.value));
  }
  if (one.rate.window != rule.rate.window)
    report.Note(at, "overrides", "has one window for all values",
                "has another for " + Quote(one.value));
  if (one.burst && *one.burst != one.rate.limit)
    report.Note(at, "overrides", "has no burst at its token server",
                "has one for " + Quote(one.value));
  if (one.type == ValueType::kAny) {
    report.NoteOfMany(at, "overrides", "compares texts with texts only, as they are written here",
                      "compares values of every type by their text");
  }
  param.param_flow_item_list.push_back(
      {std::string(ClassOf(one.type)), static_cast<int32_t>(count), one.value});
}

}  // namespace

void SetSharedFlow(const RuleAt& at, const Rule& rule, FlowRule& flow, Differences& report) {
  constexpr int64_t kIdMask = (int64_t{1} << 52) - 1;  // what JavaScript holds exactly
  flow.cluster_mode = true;
  ClusterFlowConfig& config = flow.cluster_config.emplace();
  config.flow_id = static_cast<int64_t>(base::HashOf(rule.name, 0).low & kIdMask) | 1;
  config.threshold_type = 1;
  config.fallback_to_local_when_fail = rule.on_store_failure == StoreFailurePolicy::kLocal;
  report.Note(at, "scope", "counts at its token server, by a number made from the rule's name",
              "counts in the store of shared limits");
  NoteClosed(at, rule, report);
}

bool SetClusterFlow(const RuleAt& at, const Rule& rule, FlowRule& flow, Differences& report) {
  flow.cluster_mode = true;
  ClusterFlowConfig& config = flow.cluster_config.emplace();
  SetServer(at, rule, config, report);
  if (rule.kind == RuleKind::kConcurrency) {
    flow.grade = kGradeConcurrency;
    flow.count = static_cast<double>(rule.concurrency);
    const milliseconds ttl = std::chrono::ceil<milliseconds>(rule.cluster.token_ttl);
    config.resource_timeout = ttl.count();
    if (ttl != rule.cluster.token_ttl)
      report.Note(at, "token_ttl", "rounds to whole milliseconds", "does not");
    report.NoteOfMany(at, "concurrency",
                      "asks its token server for calls by the second, whatever grade says",
                      "asks it for a token for each call in progress");
    return true;
  }
  flow.count = PerSecond(rule.rate);
  if (!SetWindow(at, rule, config, report)) return false;
  SetSamples(at, rule, config, report);
  return true;
}

bool SetClusterParam(const RuleAt& at, const Rule& rule, ParamFlowRule& param,
                     Differences& report) {
  param.cluster_mode = true;
  param.count = PerSecond(rule.rate);
  ParamFlowClusterConfig& config = param.cluster_config.emplace();
  SetServer(at, rule, config, report);
  if (!SetWindow(at, rule, config, report)) return false;
  if (rule.borrow > Duration{})
    report.Note(at, "borrow", "lends nothing by value", "lends prioritised calls");
  for (const Override& one : rule.overrides)
    AddItem(at, rule, one, param, report);
  return true;
}

}  // namespace flowguard::dialects::sentinel
