// SPDX-License-Identifier: Apache-2.0
#include "dialects/sentinel/cluster_maker.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/bounds.h"
#include "dialects/sentinel/param_value.h"
#include "text/node.h"

namespace flowguard::dialects::sentinel {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using text::Quote;

constexpr Duration kSecond = seconds(1);
constexpr int64_t kCountMax = std::numeric_limits<uint32_t>::max();  // of sliding_buckets
// In so many parts a greedy client gets 200/201 of the count.
constexpr int kClusterBuckets = 200;
// What is counted for each client is counted call by call up to here, so that ten thousand
// of them together are not more than a log holds.
constexpr int64_t kLogMaxPerClient = base::kSlidingLogLimitMax / 10'000;

// What both kinds of rules say of the server.
struct Server {
  int64_t flow_id = 0;
  bool per_client = false;
  bool fallback = false;
  int64_t window_ms = 0;
  int64_t samples = 0;
};

template <typename Config>
Server ServerOf(const Config& config) {
  constexpr int32_t kGlobal = 1;
  return {.flow_id = *config.flow_id,
          .per_client = config.threshold_type != kGlobal,
          .fallback = config.fallback_to_local_when_fail,
          .window_ms = config.window_interval_ms,
          .samples = config.sample_count};
}

void SetServer(const RuleAt& at, const Server& server, Rule& rule, RuleMaker& maker) {
  rule.scope = Scope::kCluster;
  rule.cluster.flow_id = server.flow_id;
  rule.cluster.per_client = server.per_client;
  rule.on_store_failure = server.fallback ? StoreFailurePolicy::kLocal : StoreFailurePolicy::kOpen;
  if (server.fallback) {
    maker.report.Note(at, "clusterConfig.fallbackToLocalWhenFail",
                      "gives each process the whole count while its server is away",
                      "gives each its share of the count");
  }
}

// What a count by the second is in the window of the server.
Rate InWindow(const RuleAt& at, std::string_view field, int64_t per_second, const Server& server,
              RuleMaker& maker) {
  const Duration window = milliseconds(server.window_ms);
  const int64_t in_window = per_second * server.window_ms / 1'000;  // at most 1e9 times 2^31
  if (in_window > kCountMax)
    maker.report.Note(at, field, "counts any number in its window",
                      std::to_string(kCountMax) + " at most");
  const int64_t least = per_second > 0 ? 1 : 0;
  return {std::clamp<int64_t>(in_window, least, kCountMax), window};
}

// How rates are counted that are in their windows already.
void SetAlgorithm(const RuleAt& at, const Server& server, Rule& rule, RuleMaker& maker) {
  int64_t most = rule.rate.limit;
  for (const Override& one : rule.overrides)
    most = std::max(most, one.rate.limit);
  if (most <= (server.per_client ? kLogMaxPerClient : kFlowLogMax)) {
    rule.algorithm = Algorithm::kSlidingLog;
  } else {
    rule.algorithm = Algorithm::kSlidingBuckets;
    rule.buckets = kClusterBuckets;
  }
  if (rule.rate.window != kSecond) {
    maker.report.Note(at, "clusterConfig.windowIntervalMs",
                      "compares the mean of the window with the count, a call more at its end",
                      "admits the count times the seconds of the window in it");
  }
  maker.report.NoteOfMany(at, "count",
                          "counts at its token server in sampleCount parts of the window on the "
                          "clock, so that more than the count passes around an edge, and more "
                          "under concurrent calls",
                          "admits the count in every window, wherever it begins");
}

void NoteFraction(const RuleAt& at, double count, const Server& server, RuleMaker& maker) {
  if (!server.per_client || count == std::floor(count)) return;
  maker.report.Note(at, "count", "multiplies the fraction too by the clients that are connected",
                    "multiplies the whole part");
}

// Lent ahead to prioritised calls: a part of the window.
Duration PartOf(const Server& server) {
  const Duration part = milliseconds(server.window_ms) / server.samples;
  return std::min<Duration>(part, base::kWaitMax);
}

void MakeTokens(const RuleAt& at, const FlowRule& from, Rule rule, RuleMaker& maker) {
  maker.report.NoteOfMany(at, "grade",
                          "asks its token server for calls by the second, whatever grade says",
                          "asks it for a token for each call in progress");
  maker.report.NoteOfMany(at, "clusterConfig.resourceTimeout",
                          "frees a token that is not given back after twice this time, or "
                          "clientOfflineTime after its client has gone",
                          "frees it after this time");
  constexpr int64_t kMostMs = std::chrono::duration_cast<milliseconds>(base::kTokenTtlMax).count();
  const int64_t ttl_ms = from.cluster_config->resource_timeout;
  if (ttl_ms > kMostMs)
    maker.report.Note(at, "clusterConfig.resourceTimeout", "takes any time", "an hour at most");
  rule.cluster.token_ttl = milliseconds(std::min(ttl_ms, kMostMs));
  maker.AddConcurrency(at, from.count, std::move(rule));
}

template <typename Number>
constexpr ValueType TypeOf() {
  if constexpr (std::is_same_v<Number, int8_t>) return ValueType::kByte;
  if constexpr (std::is_same_v<Number, int16_t>) return ValueType::kShort;
  if constexpr (std::is_same_v<Number, int32_t>) return ValueType::kInt;
  if constexpr (std::is_same_v<Number, float>) return ValueType::kFloat;
  if constexpr (std::is_same_v<Number, double>) return ValueType::kDouble;
  return ValueType::kLong;
}

using TypedText = std::pair<ValueType, std::string>;

// The type and the text of a value, as rules of scope cluster have them; nothing: no client
// tells a value of this class.
struct TypedTextOf {
  std::optional<TypedText> operator()(const std::string& text) const {
    return TypedText(ValueType::kString, text);
  }
  std::optional<TypedText> operator()(bool value) const {
    return TypedText(ValueType::kBool, value ? "true" : "false");
  }
  std::optional<TypedText> operator()(JavaChar /*value*/) const { return std::nullopt; }
  template <typename Number>
  std::optional<TypedText> operator()(Number value) const {
    std::array<char, 32> digits;
    char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    return TypedText(TypeOf<Number>(), std::string(digits.data(), end));
  }
};

// The exceptions of the rule: one for a value of a class, those of one text behind each other.
std::vector<Override> OverridesOf(const RuleAt& at, const ParamFlowRule& from, const Server& server,
                                  RuleMaker& maker) {
  std::map<std::pair<std::string, ValueType>, Override> overrides;
  bool typed = false;
  for (size_t i = 0; i < from.param_flow_item_list.size(); ++i) {
    const ParamFlowItem& item = from.param_flow_item_list[i];
    const std::string field = "paramFlowItemList[" + std::to_string(i) + "].object";
    const auto value = std::visit(TypedTextOf{}, *ValueOf(item));
    if (!value) {
      maker.report.Note(at, field, "tells its token server no value of class " + item.class_type,
                        "needs no exception for it");
      continue;
    }
    const auto& [type, text] = *value;
    if (text.empty() || text.size() > base::kClusterValueBytesMax) {
      maker.report.Note(at, field, "has a count for " + Quote(text),
                        "names values of 1 to " + std::to_string(base::kClusterValueBytesMax) +
                            " bytes, and gives it the count of all others");
      continue;
    }
    typed = typed || type != ValueType::kString;
    // Of two for one value the last one counts.
    const int64_t per_second =
        maker.CutUnits(at, "paramFlowItemList", *item.count, base::kRatePerSecondMax);
    overrides[{text, type}] = {
        text, InWindow(at, "paramFlowItemList", per_second, server, maker), {}, type};
  }
  if (typed) {
    maker.report.NoteOfMany(at, "paramFlowItemList",
                            "tells its token server the Java class of every value",
                            "tells it texts, for which it has the counts of texts alone; those of "
                            "other classes are for clients that tell them");
  }
  std::vector<Override> ordered;
  for (auto& [key, one] : overrides)
    ordered.push_back(std::move(one));
  return ordered;
}

}  // namespace

void MakeClusterFlowRule(const RuleAt& at, const FlowRule& from, Rule rule, RuleMaker& maker) {
  const Server server = ServerOf(*from.cluster_config);
  // Who counts as Sentinel does takes the grade for what it is there: nothing.
  const bool tokens = from.grade == kGradeConcurrency && !maker.counts_alike();
  const bool ignored = from.grade == kGradeConcurrency && !tokens;
  if (from.limit_app != kLimitAppDefault || from.strategy != kStrategyDirect ||
      from.control_behavior != kBehaviorReject || ignored) {
    maker.report.Note(at, "clusterMode",
                      "asks its token server whatever grade, limitApp, strategy and "
                      "controlBehavior say, and looks at them only while it does not answer",
                      tokens ? "counts all calls of the resource, at all times"
                             : "counts all calls of the resource by the second, at all times");
  }
  SetServer(at, server, rule, maker);
  if (tokens && WholeUnits(from.count, base::kLimitMax) > 0)
    return MakeTokens(at, from, std::move(rule), maker);
  rule.rate = InWindow(at, "count", maker.UnitsPerSecond(at, from.count), server, maker);
  NoteFraction(at, from.count, server, maker);
  SetAlgorithm(at, server, rule, maker);
  rule.borrow = PartOf(server);
  maker.Add(std::move(rule));
}

void MakeClusterParamRule(const RuleAt& at, const ParamFlowRule& from, Rule rule,
                          RuleMaker& maker) {
  const Server server = ServerOf(*from.cluster_config);
  const bool queue = from.control_behavior == kBehaviorQueue;
  if (from.duration_in_sec != 1 || from.burst_count != 0 || queue) {
    maker.report.Note(at, "clusterMode",
                      "asks its token server whatever durationInSec, burstCount and "
                      "controlBehavior say, and looks at them only while it does not answer",
                      "counts by the second, without burst and queue, at all times");
  }
  SetServer(at, server, rule, maker);
  rule.overrides = OverridesOf(at, from, server, maker);
  rule.rate = InWindow(at, "count", maker.UnitsPerSecond(at, from.count), server, maker);
  NoteFraction(at, from.count, server, maker);
  SetAlgorithm(at, server, rule, maker);
  maker.report.NoteOfMany(at, "count",
                          "forgets a value when 4,000 others came in a part of the "
                          "window",
                          "has room for as many as the memory of its states");
  maker.Add(std::move(rule));
}

}  // namespace flowguard::dialects::sentinel
