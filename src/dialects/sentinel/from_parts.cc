// SPDX-License-Identifier: Apache-2.0
#include "dialects/sentinel/from_parts.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <string_view>

#include "dialects/sentinel/to_rules.h"
#include "text/node.h"

namespace flowguard::dialects::sentinel {

using text::Quote;

std::optional<GatewayParamFlowItem> GatewayItem(const RuleSet& set, const std::string& name) {
  std::string source = name;
  for (const DimensionSpec& spec : set.dimensions) {
    if (spec.name == name) source = spec.source;
  }
  GatewayParamFlowItem item;
  const size_t colon = source.find(':');
  const std::string_view kind = std::string_view(source).substr(0, colon);
  if (source == "ip") return item;
  if (colon == std::string::npos) return std::nullopt;
  item.field_name = source.substr(colon + 1);
  if (kind == "header") {
    item.parse_strategy = kParseHeader;
    if (item.field_name != "host") return item;
    item.parse_strategy = kParseHost;
    item.field_name.clear();
    return item;
  }
  if (kind == "query") item.parse_strategy = kParseUrlParam;
  if (kind == "cookie") item.parse_strategy = kParseCookie;
  if (item.parse_strategy == kParseClientIp) return std::nullopt;
  return item;
}

std::optional<int32_t> ArgumentIndex(std::string_view name) {
  if (name.substr(0, kArgumentDimension.size()) != kArgumentDimension) return std::nullopt;
  const std::string digits(name.substr(kArgumentDimension.size()));
  const size_t sign = digits.starts_with('-') ? 1 : 0;
  const bool number = digits.size() > sign && digits.size() < 10 &&
                      digits.find_first_not_of("0123456789", sign) == std::string::npos;
  if (!number) return std::nullopt;
  return std::stoi(digits);
}

const std::vector<std::string>* ValuesUnder(const std::vector<ValuesOf>& lists,
                                            std::string_view dimension) {
  for (const ValuesOf& list : lists) {
    if (list.dimension == dimension) return &list.values;
  }
  return nullptr;
}

double PerSecond(const Rate& rate) {
  return static_cast<double>(rate.limit) / std::chrono::duration<double>(rate.window).count();
}

void NoteFields(const RuleAt& at, const Rule& rule, Differences& report) {
  if (rule.refuse != Refuse{} || rule.degrade != Degrade{}) {
    report.Note(at, rule.degrade.enabled ? "degrade" : "refuse",
                "answers as its adapter or the program does", "as the rule says");
  }
  if (rule.cost != Cost{}) {
    report.Note(at, "cost", "takes what the call says, or 1, and settles nothing afterwards",
                "takes what the rule reserves, and settles");
  }
  if (rule.count_refused)
    report.Note(at, "count_refused", "counts no refused calls", "counts them too");
}

namespace {

void NoteMissing(const RuleAt& at, const Rule& rule, const std::string& name,
                 const DimensionSpec& spec, Differences& report) {
  const std::string field = "dimensions." + name + ".missing";
  const std::string passes = "lets calls without the value pass";
  // A condition on the value does not hold without it; nothing is counted then, or refused.
  const bool counted = std::find(rule.by.begin(), rule.by.end(), name) != rule.by.end() &&
                       ValuesUnder(rule.on.only, name) == nullptr;
  const bool allowed = ValuesUnder(rule.allow, name) != nullptr;
  if (spec.missing == MissingPolicy::kRefuse) {
    if (counted || allowed || ValuesUnder(rule.deny, name) != nullptr)
      report.Note(at, field, passes, "refuses them");
  } else if (spec.missing == MissingPolicy::kShare && !spec.missing_value.empty()) {
    const bool same = name == kContextDimension && spec.missing_value == kDefaultContext;
    if (!same) report.Note(at, field, passes, "takes " + Quote(spec.missing_value) + " for it");
  } else if (spec.missing == MissingPolicy::kShare && allowed) {
    report.Note(at, field, passes, "refuses those, which are on no allow list");
  } else if (spec.missing == MissingPolicy::kShare && counted) {
    report.Note(at, field, passes, "counts them together");
  }
}

}  // namespace

void NoteDimensions(const RuleAt& at, const Rule& rule, const RuleSet& set, Differences& report) {
  std::set<std::string_view> names(rule.by.begin(), rule.by.end());
  for (const auto* lists : {&rule.on.only, &rule.on.except, &rule.allow, &rule.deny}) {
    for (const ValuesOf& list : *lists)
      names.insert(list.dimension);
  }
  for (const std::string_view name : names) {
    if (name == "resource") continue;
    DimensionSpec spec;
    const auto found = std::find_if(set.dimensions.begin(), set.dimensions.end(),
                                    [name](const DimensionSpec& one) { return one.name == name; });
    if (found != set.dimensions.end()) spec = *found;
    const bool always = name == "ip" || spec.source == "ip";  // of every request
    if (!always) NoteMissing(at, rule, std::string(name), spec, report);
    const std::string field = "dimensions." + std::string(name);
    if (spec.trim)
      report.Note(at, field + ".trim", "compares values as they are sent", "without spaces");
    if (spec.lower)
      report.Note(at, field + ".lower", "compares values as they are sent", "in lower case");
  }
}

void NoteOthers(const RuleAt& at, const Rule& rule, const RuleSet& set, Differences& report) {
  std::set<std::string_view> named;
  for (const Rule& one : set.rules) {
    const bool same = one.on.resource == rule.on.resource &&
                      one.on.resource_regex == rule.on.resource_regex &&
                      one.on.route == rule.on.route;
    if (!same || !CountsUnits(one.kind) || !one.enabled || one.shadow) continue;
    const auto* only = ValuesUnder(one.on.only, kOriginDimension);
    if (only != nullptr && only->size() == 1 && only->front().find('*') == std::string::npos)
      named.insert(only->front());
  }
  std::set<std::string_view> excepted;
  const auto* except = ValuesUnder(rule.on.except, kOriginDimension);
  if (except != nullptr) excepted.insert(except->begin(), except->end());
  if (named == excepted) return;
  report.Note(at, "on.except",
              "leaves out the origins that have a flow rule of their own for the resource",
              "leaves out those that are listed");
}

void NoteAlgorithm(const RuleAt& at, const Rule& rule, Differences& report) {
  const bool exact = rule.algorithm == Algorithm::kSlidingLog ||
                     rule.algorithm == Algorithm::kSlidingBuckets ||
                     rule.algorithm == Algorithm::kLeapArray;
  if (!exact) {
    report.Note(at, "algorithm", "counts in two halves of a second", "counts by another algorithm");
  }
  if (rule.burst && *rule.burst != rule.rate.limit)
    report.Note(at, "limit", "has no burst in flow rules", "has one");
  if (rule.wait > Duration{})
    report.Note(at, "wait", "queues at an even rate only", "lets calls wait");
}

}  // namespace flowguard::dialects::sentinel
