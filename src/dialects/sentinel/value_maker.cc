// SPDX-License-Identifier: Apache-2.0
#include "dialects/sentinel/value_maker.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <set>
#include <utility>

#include "base/bounds.h"
#include "dialects/sentinel/cluster_maker.h"
#include "dialects/sentinel/java_values.h"
#include "dialects/sentinel/param_value.h"
#include "rules/address_block.h"
#include "text/node.h"
#include "text/utf8.h"

namespace flowguard::dialects::sentinel {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using text::Quote;

constexpr Duration kSecond = seconds(1);

// What param-flow and gateway-flow rules say alike.
struct ValueRule {
  double count = 0;
  int64_t window_s = 1;
  int32_t burst = 0;
  int32_t behavior = kBehaviorReject;
  int64_t wait_ms = 0;
  std::string_view window_field;
  std::string_view burst_field;
  std::string_view wait_field;
};

Duration WindowOf(const RuleAt& at, std::string_view field, int64_t window_s, RuleMaker& maker) {
  constexpr int64_t kSecondsMax = std::chrono::duration_cast<seconds>(base::kWindowMax).count();
  if (window_s <= kSecondsMax) return seconds(window_s);
  maker.report.Note(at, field, "has a window of more than 366 days", "one of 366 days");
  return base::kWindowMax;
}

int64_t MostIn(Duration window) {
  const int64_t window_s = std::chrono::duration_cast<seconds>(window).count();
  return std::min(base::kLimitMax, window_s * base::kRatePerSecondMax);
}

// `T + burst` at once, at most what a bucket that fills so slowly can hold.
std::optional<int64_t> BurstOf(const RuleAt& at, const ValueRule& from, const Rate& rate,
                               RuleMaker& maker) {
  if (from.behavior == kBehaviorQueue || from.burst <= 0 || rate.limit <= 0) return {};
  const int64_t interval_ns = (rate.window.count() + rate.limit - 1) / rate.limit;
  const int64_t most = std::min(base::kHorizonNsMax / interval_ns, base::kLimitMax);
  return maker.CutUnits(at, from.burst_field, static_cast<double>(rate.limit + from.burst), most);
}

void MakeValueRule(const RuleAt& at, const ValueRule& from, Rule rule, RuleMaker& maker) {
  const Duration window = WindowOf(at, from.window_field, from.window_s, maker);
  const int64_t most = MostIn(window);
  rule.rate = {maker.CutUnits(at, "count", from.count, most), window};
  rule.burst = BurstOf(at, from, rule.rate, maker);
  for (Override& one : rule.overrides) {
    const auto count = static_cast<double>(one.rate.limit);
    one.rate = {maker.CutUnits(at, "paramFlowItemList", count, most), window};
    one.burst = BurstOf(at, from, one.rate, maker);
  }
  if (from.behavior == kBehaviorQueue) {
    rule.algorithm = Algorithm::kLeakyBucket;
    // A wait of exactly the maximum is refused; Sentinel waits for whole milliseconds.
    const Duration wait = milliseconds(std::max<int64_t>(from.wait_ms - 1, 0));
    rule.wait = maker.CutWait(at, from.wait_field, wait);
    if (from.burst > 0) {
      maker.report.Note(at, from.burst_field, "does not look at it beside a queue",
                        "does not have it");
    }
  } else if (maker.counts_alike()) {
    maker.report.NoteOfMany(at, "count", "forgets a value when 4,000 others came",
                            "forgets full buckets first");
  } else {
    maker.report.NoteOfMany(at, "count",
                            "fills a value's bucket up at its first call after the window, and "
                            "forgets it when 4,000 other values came",
                            "fills it evenly, and forgets full buckets first");
  }
  maker.Add(std::move(rule));
}

std::string TextOf(const ParamFlowItem& item) {
  struct Texts {
    std::string operator()(const std::string& text) const { return text; }
    std::string operator()(bool value) const { return value ? "true" : "false"; }
    std::string operator()(int8_t value) const { return std::to_string(value); }
    std::string operator()(int16_t value) const { return std::to_string(value); }
    std::string operator()(int32_t value) const { return std::to_string(value); }
    std::string operator()(int64_t value) const { return std::to_string(value); }
    std::string operator()(float value) const {
      // The shortest text that reads as this float, not as its value.
      std::array<char, 32> digits;
      const auto end = std::to_chars(digits.begin(), digits.end(), value).ptr;
      return JavaText(*DoubleOf({digits.data(), static_cast<size_t>(end - digits.data())}));
    }
    std::string operator()(double value) const { return JavaText(value); }
    // The whole character that the unit begins.
    std::string operator()(JavaChar /*value*/) const {
      return item.object->substr(0, text::CharacterBytes(*item.object, 0));
    }
    const ParamFlowItem& item;
  };
  return std::visit(Texts{item}, *ValueOf(item));
}

// The exceptions of the rule, by the text of their values.
std::vector<Override> OverridesOf(const RuleAt& at, const ParamFlowRule& from, RuleMaker& maker) {
  std::vector<Override> overrides;
  std::set<std::string> seen;
  bool typed = false;
  for (size_t i = 0; i < from.param_flow_item_list.size(); ++i) {
    const ParamFlowItem& item = from.param_flow_item_list[i];
    const std::string field = "paramFlowItemList[" + std::to_string(i) + "].object";
    std::string value = TextOf(item);
    typed = typed || !std::holds_alternative<std::string>(*ValueOf(item));
    if (!seen.insert(value).second) {
      maker.report.Note(at, field, "has another item for " + Quote(value) + " of another class",
                        "compares texts, and takes the first item");
      continue;
    }
    if (value.empty() || value.size() > base::kKeyValueInlineMax) {
      maker.report.Note(at, field, "has a count for " + Quote(value),
                        "names values of 1 to " + std::to_string(base::kKeyValueInlineMax) +
                            " bytes, and gives it the count of all others");
      continue;
    }
    overrides.push_back({std::move(value), {*item.count, kSecond}, {}});
  }
  if (typed) {
    maker.report.NoteOfMany(at, "paramFlowItemList", "compares values with their Java class",
                            "compares them as text");
  }
  return overrides;
}

// Bounds the calls in progress of each value.  A bound of none is a limit of 0: one rule for
// the values, or for all but some.
void MakeConcurrency(const RuleAt& at, double count, Rule rule, RuleMaker& maker) {
  const std::string dimension = rule.by.front();
  std::vector<std::string> none;
  std::vector<std::string> some;
  std::vector<Override> kept;
  const bool only_some = WholeUnits(count, base::kLimitMax) == 0;
  for (Override& one : rule.overrides) {
    // Lists would take '*' for any end.
    if ((only_some || one.rate.limit == 0) && !IsPlainValue(one.value)) {
      maker.report.Note(at, "paramFlowItemList", "takes " + Quote(one.value) + " as it is written",
                        "cannot list it, and gives it the count of all others");
      continue;
    }
    (one.rate.limit == 0 ? none : some).push_back(one.value);
    one.rate.window = {};
    if (one.rate.limit > 0) kept.push_back(std::move(one));
  }
  rule.overrides = std::move(kept);
  Rule zero = rule;
  if (only_some) {
    zero.on.only.push_back({dimension, {"*"}});
    if (!some.empty()) zero.on.except.push_back({dimension, some});
    rule.on.only.push_back({dimension, some});
  } else {
    zero.on.only.push_back({dimension, none});
  }
  if (only_some || !none.empty()) maker.AddZero(std::move(zero));
  if (!only_some || !some.empty()) maker.AddConcurrency(at, only_some ? 1 : count, std::move(rule));
}

}  // namespace

void MakeParamFlowRule(const RuleAt& at, const ParamFlowRule& from, RuleMaker& maker) {
  if (from.grade > kGradeQps) {
    return maker.report.LeaveOut(at, "grade", "never limits by this one", "needs no rule for that");
  }
  const std::string index = std::to_string(*from.param_idx);
  const bool concurrency = from.grade == kGradeConcurrency;
  Rule rule = maker.Begin(
      at, "param/" + from.resource + "/arg" + index + (concurrency ? "/concurrency" : ""),
      from.resource, from.regex);
  rule.by.push_back(maker.Argument(*from.param_idx));
  if (from.regex) rule.by.emplace_back("resource");
  maker.report.NoteOfMany(at, "paramIdx", "is given the arguments of the call",
                          "is given their values as dimensions, arg0 for the first; a list is one "
                          "value; without it the rule does not apply");
  if (*from.param_idx < 0) {
    maker.report.Note(at, "paramIdx", "counts from the last argument of the first call",
                      "takes the dimension " + rule.by.front() + ", as the application gives it");
  }
  if (from.cluster_mode && !concurrency)
    return MakeClusterParamRule(at, from, std::move(rule), maker);
  rule.overrides = OverridesOf(at, from, maker);
  if (concurrency) return MakeConcurrency(at, from.count, std::move(rule), maker);
  MakeValueRule(at,
                {.count = from.count,
                 .window_s = from.duration_in_sec,
                 .burst = from.burst_count,
                 .behavior = from.control_behavior,
                 .wait_ms = from.max_queueing_time_ms,
                 .window_field = "durationInSec",
                 .burst_field = "burstCount",
                 .wait_field = "maxQueueingTimeMs"},
                std::move(rule), maker);
}

namespace {

// The dimension that a gateway rule counts by; empty where it says none that is known.
std::string DimensionOf(const GatewayParamFlowItem& item, RuleMaker& maker) {
  switch (item.parse_strategy) {
    case kParseClientIp:
      return "ip";
    case kParseHost:
      return maker.Source("host", "header:host");
    case kParseHeader:
      return maker.Source("header-" + item.field_name, "header:" + item.field_name);
    case kParseUrlParam:
      return maker.Source("query-" + item.field_name, "query:" + item.field_name);
    case kParseCookie:
      return maker.Source("cookie-" + item.field_name, "cookie:" + item.field_name);
    default:
      return {};
  }
}

constexpr int32_t kMatchExact = 0;
constexpr int32_t kMatchRegex = 2;
constexpr int32_t kMatchContains = 3;

// Adds the key.  False: told, and the rule cannot be said.
bool SetParamItem(const RuleAt& at, const GatewayFlowRule& from, Rule& rule, RuleMaker& maker) {
  if (!from.param_item) return true;
  const GatewayParamFlowItem& item = *from.param_item;
  const bool matches = !item.pattern.empty() && (item.match_strategy == kMatchRegex ||
                                                 item.match_strategy == kMatchContains);
  if (matches) {
    maker.report.LeaveOut(at, "paramItem.pattern",
                          std::string("limits values that ") +
                              (item.match_strategy == kMatchRegex ? "match " : "contain ") +
                              Quote(item.pattern),
                          "tells values by their whole text or their beginning");
    return false;
  }
  const std::string dimension = DimensionOf(item, maker);
  if (dimension.empty()) {
    maker.report.LeaveOut(at, "paramItem.parseStrategy", "finds no value by this one, and passes",
                          "needs no rule for that");
    return false;
  }
  rule.by.push_back(dimension);
  const bool exact = !item.pattern.empty() && item.match_strategy == kMatchExact;
  if (exact && !IsPlainValue(item.pattern)) {
    maker.report.LeaveOut(at, "paramItem.pattern",
                          "takes " + Quote(item.pattern) + " as it is written",
                          std::string(kListedValues));
    return false;
  }
  rules::AddressBlock block;
  if (exact && item.parse_strategy == kParseClientIp &&
      (item.pattern.find('/') != std::string::npos ||
       !rules::ParseAddressBlock(item.pattern, block))) {
    maker.report.LeaveOut(at, "paramItem.pattern",
                          "limits no client by " + Quote(item.pattern) + ", which is no address",
                          "needs no rule for that");
    return false;
  }
  if (exact) rule.on.only.push_back({dimension, {item.pattern}});
  if (item.parse_strategy == kParseClientIp) {
    maker.report.NoteOfMany(at, "paramItem.parseStrategy", "takes each address for a client",
                            "takes each IPv6 /64 for one, and addresses from trusted proxies");
  }
  return true;
}

// The routes of an API group; what is none is told.
std::vector<std::string> RoutesOf(const RuleAt& at, const ApiDefinition& group, RuleMaker& maker) {
  std::vector<std::string> routes;
  const std::vector<ApiPredicateItem>& items = *group.predicate_items;
  for (const ApiPredicateItem& item : items) {
    if (item.pattern.empty()) continue;  // matches nothing
    std::string route = item.match_strategy == kMatchRegex ? "" : RouteOfResource(item.pattern);
    const bool literal =
        item.match_strategy != kMatchExact || item.pattern.find_first_of("*{") == std::string::npos;
    if (route.empty() || !literal) {
      maker.report.Note(at, "resource",
                        "counts paths by the pattern " + Quote(item.pattern) + " of the API group",
                        "has no route for it, and does not limit them");
      continue;
    }
    routes.push_back(std::move(route));
  }
  return routes;
}

void MakeGatewayCount(const RuleAt& at, const GatewayFlowRule& from, Rule rule, RuleMaker& maker) {
  if (from.grade == kGradeConcurrency) {
    // What is refused by none is refused without a key; requests without the value still pass.
    const bool none = WholeUnits(from.count, base::kLimitMax) == 0;
    if (none && !rule.by.empty() && rule.on.only.empty())
      rule.on.only.push_back({rule.by.front(), {"*"}});
    return maker.AddConcurrency(at, from.count, std::move(rule));
  }
  MakeValueRule(at,
                {.count = from.count,
                 .window_s = from.interval_sec,
                 .burst = from.burst,
                 .behavior = from.control_behavior,
                 .wait_ms = from.max_queueing_timeout_ms,
                 .window_field = "intervalSec",
                 .burst_field = "burst",
                 .wait_field = "maxQueueingTimeoutMs"},
                std::move(rule), maker);
}

}  // namespace

void MakeGatewayFlowRule(const RuleAt& at, const GatewayFlowRule& from, const ApiGroups& groups,
                         RuleMaker& maker) {
  constexpr int32_t kModeApi = 1;
  if (from.grade > kGradeQps) {
    return maker.report.LeaveOut(at, "grade", "never limits by this one", "needs no rule for that");
  }
  std::string about = "gateway/" + from.resource;
  if (from.grade == kGradeConcurrency) about += "/concurrency";
  Rule rule = maker.Begin(at, about, from.resource, false);
  if (!SetParamItem(at, from, rule, maker)) return;
  const auto group = groups.find(from.resource);
  if (from.resource_mode != kModeApi || group == groups.end()) {
    if (rule.on.route.empty()) {
      maker.report.Note(at, "resource",
                        from.resource_mode == kModeApi ? "knows the paths of this API group"
                                                       : "knows the path of this route",
                        "knows the name alone, which no HTTP request has; write its route under "
                        "`on`, or give the API definitions with the rules");
    }
    return MakeGatewayCount(at, from, std::move(rule), maker);
  }
  const std::vector<std::string> routes = RoutesOf(at, *group->second, maker);
  if (routes.size() > 1) {
    maker.report.Note(
        at, "resource",
        "counts all " + std::to_string(routes.size()) + " paths of the API group together",
        "counts each of them for itself");
  }
  for (const std::string& route : routes) {
    rule.on.route = route;
    MakeGatewayCount(at, from, rule, maker);
    rule.on.resource.clear();  // the name counts with the first path
    rule.on.resource_regex.clear();
  }
  if (routes.empty()) MakeGatewayCount(at, from, std::move(rule), maker);
}

}  // namespace flowguard::dialects::sentinel
