// SPDX-License-Identifier: Apache-2.0
#include "dialects/sentinel/guard_maker.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/bounds.h"
#include "text/node.h"

namespace flowguard::dialects::sentinel {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using text::Quote;

// Of system rules; no reading reaches them.
constexpr double kLoadMax = 1'000'000;
constexpr milliseconds kRtMax = std::chrono::hours(1);
constexpr double kNoSign = 0.0;  // added to -0.0 it makes 0.0, which FlowGuard takes

constexpr std::string_view ConditionOf(int32_t grade) {
  if (grade == kDegradeSlowRatio) return "slow";
  return grade == kDegradeExceptionRatio ? "errors" : "error-count";
}

// The breakers of every resource without one, a breaker for each.
void SetEveryResource(const RuleAt& at, const OwnBreakers& own, Rule& rule, RuleMaker& maker) {
  rule.on = Target{};
  rule.on.resource = "*";
  rule.by.emplace_back("resource");
  std::vector<std::string> except;
  for (const std::string& resource : own.resources) {
    if (resource.size() <= base::kKeyValueInlineMax && resource.find('*') == std::string::npos) {
      except.push_back(resource);
    } else {
      maker.report.Note(at, "resource", "leaves " + Quote(resource) + " to its own rule",
                        "cannot name it in a list, and gives it this breaker too");
    }
  }
  if (!except.empty()) rule.on.except.push_back({"resource", std::move(except)});
  if (own.regex) {
    maker.report.Note(at, "resource", "leaves the resources of rules with regex to these",
                      "gives them this breaker too");
  }
  maker.report.Note(at, "resource", "has breakers for any number of resources",
                    "for the first " + std::to_string(base::kBreakersPerRuleMax) +
                        "; the others share one.  No HTTP request has a resource");
}

void SetCondition(const RuleAt& at, const DegradeRule& from, Rule& rule, RuleMaker& maker) {
  BreakerRule& breaker = rule.breaker;
  switch (from.grade) {
    case kDegradeSlowRatio: {
      constexpr int64_t kMost =
          std::chrono::duration_cast<milliseconds>(base::kBreakerOpenMax).count();
      breaker.slow_ratio = from.slow_ratio_threshold + kNoSign;
      breaker.slow_over =
          milliseconds(maker.CutUnits(at, "count", std::floor(from.count + 0.5), kMost));
      if (breaker.slow_over < base::kBreakerSlowMin) {
        breaker.slow_over = base::kBreakerSlowMin;
        maker.report.Note(at, "count", "takes calls of 1 ms for slow",
                          "those that take longer than 1 ms");
      }
      maker.report.NoteOfMany(at, "count", "measures from the entry, with the wait in a queue",
                              "from when the call goes, without it");
      break;
    }
    case kDegradeExceptionRatio:
      breaker.error_ratio = from.count + kNoSign;
      if (from.count >= 1 && !maker.counts_alike())
        maker.report.Note(at, "count", "never opens at a ratio of 1", "opens when all calls fail");
      break;
    default:
      breaker.error_count = maker.CutUnits(at, "count", from.count, base::kBreakerCallsMax);
      break;
  }
}

}  // namespace

void CollectOwnBreakers(const std::vector<Listed<DegradeRule>>& rules, OwnBreakers& own) {
  for (const Listed<DegradeRule>& listed : rules) {
    if (listed.rule.regex) {
      own.regex = true;
    } else if (listed.rule.resource != kEveryResource) {
      own.resources.insert(listed.rule.resource);
    }
  }
}

void MakeBreaker(const RuleAt& at, const DegradeRule& from, const OwnBreakers& own,
                 RuleMaker& maker) {
  const bool every = !from.regex && from.resource == kEveryResource;
  const std::string about =
      "degrade/" + (every ? "every" : from.resource) + "/" + std::string(ConditionOf(from.grade));
  Rule rule = maker.Begin(at, about, from.resource, from.regex);
  rule.kind = RuleKind::kBreaker;
  if (every) SetEveryResource(at, own, rule, maker);
  if (from.regex) rule.by.emplace_back("resource");
  SetCondition(at, from, rule, maker);
  rule.breaker.min_calls =
      maker.CutUnits(at, "minRequestAmount", from.min_request_amount, base::kBreakerCallsMax);
  rule.breaker.window = milliseconds(from.stat_interval_ms);
  rule.breaker.open_for = seconds(from.time_window);
  rule.breaker.probes = 1;
  if (!maker.counts_alike()) {
    maker.report.NoteOfMany(at, "statIntervalMs",
                            "counts in intervals on the clock, so that failures on both sides of "
                            "an edge do not add up",
                            "counts in a window that slides");
  }
  maker.report.NoteOfMany(at, "timeWindow",
                          "closes or opens by any call that ends while it probes, and probes again "
                          "at once when a later rule refuses the probe",
                          "by the probe alone, which a refusal by another rule does not use up");
  maker.Add(std::move(rule));
}

void MakeAccess(const RuleAt& at, const AuthorityRule& from, RuleMaker& maker) {
  if (from.strategy > kAuthorityDeny) {
    return maker.report.LeaveOut(at, "strategy", "lets everybody through by this one",
                                 "needs no rule for that");
  }
  Rule rule = maker.Begin(at, "authority/" + from.resource, from.resource, from.regex);
  rule.kind = RuleKind::kAccess;
  AccessList list{maker.Origin(), {}};
  bool unlisted = false;
  std::string_view rest = from.limit_app;
  while (!rest.empty()) {
    const std::string_view origin = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), origin.size() + 1));
    if (origin.empty()) continue;  // no origin is named so
    const std::string_view head = origin.substr(0, origin.size() - 1);
    if (!IsPlainValue(head) && !head.empty()) {
      maker.report.Note(at, "limitApp", "takes " + Quote(origin) + " as it is written",
                        "cannot name it in a list, and knows it for none of them");
      unlisted = true;
      continue;
    }
    if (origin.back() == '*') {
      maker.report.Note(at, "limitApp", "takes " + Quote(origin) + " as it is written",
                        "takes '*' for any end, and nowhere else");
    }
    list.values.emplace_back(origin);
  }
  const bool allow = from.strategy == kAuthorityAllow;
  if (list.values.empty() && unlisted) {
    return maker.report.LeaveOut(at, "limitApp", "takes names as they are written",
                                 std::string(kListedValues));
  }
  if (list.values.empty()) {
    return maker.report.LeaveOut(at, "limitApp",
                                 allow ? "names no origin, and refuses all" : "refuses none",
                                 "has no empty lists");
  }
  if (allow) {
    maker.report.NoteOfMany(at, "limitApp",
                            "lets callers without an origin past an allow list as well",
                            "does so too, by `missing: skip` of dimension origin; `missing: "
                            "refuse` closes that way");
  }
  (allow ? rule.allow : rule.deny).push_back(std::move(list));
  maker.Add(std::move(rule));
}

void MakeSystem(const RuleAt& at, const SystemRule& from, RuleMaker& maker) {
  Rule rule;
  rule.name = "system";
  rule.origin = at.place;
  rule.kind = RuleKind::kSystem;
  flowguard::SystemRule& system = rule.system;
  if (from.highest_system_load > kLoadMax) {
    maker.report.Note(at, "highestSystemLoad", "takes any number", "a million at most: it is off");
  } else if (from.highest_system_load >= 0) {
    system.load = from.highest_system_load + kNoSign;
  }
  if (from.highest_cpu_usage >= 0) system.cpu = from.highest_cpu_usage + kNoSign;
  if (from.avg_rt > kRtMax.count()) {
    maker.report.Note(at, "avgRt", "takes any number", "an hour at most: it is off");
  } else if (from.avg_rt >= 0) {
    system.avg_rt = milliseconds(from.avg_rt);
  }
  if (from.max_thread >= 0) {
    system.inflight =
        maker.CutUnits(at, "maxThread", static_cast<double>(from.max_thread), base::kLimitMax - 1) +
        1;
    maker.report.NoteOfMany(at, "maxThread", "admits one call more than it says",
                            "has that number, `inflight`");
  }
  if (from.qps >= 0) {
    system.qps = maker.CutUnits(at, "qps", from.qps, base::kRatePerSecondMax);
  }
  if (system == flowguard::SystemRule{}) {
    return maker.report.LeaveOut(at, "qps",
                                 "switches the other system rules off by a rule without limits "
                                 "that stands last",
                                 "looks at the others all the same");
  }
  maker.report.NoteOfMany(at, "resource", "protects calls of entry type IN",
                          "every request of the servers and the library");
  maker.Add(std::move(rule));
}

}  // namespace flowguard::dialects::sentinel
