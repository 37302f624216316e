// SPDX-License-Identifier: Apache-2.0
#include "dialects/sentinel/flow_maker.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/bounds.h"
#include "dialects/sentinel/cluster_maker.h"
#include "text/node.h"

namespace flowguard::dialects::sentinel {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using text::Quote;

constexpr Duration kSecond = seconds(1);

bool NamesOneOrigin(const std::string& limit_app) {
  return limit_app != kLimitAppDefault && limit_app != kLimitAppOther;
}

// What the name of the converted rule tells apart.
std::string AboutOf(const FlowRule& from) {
  std::string about = "flow/" + from.resource;
  if (from.limit_app != kLimitAppDefault) about += "@" + from.limit_app;
  if (from.strategy == kStrategyRelate) about += "/relate/" + from.ref_resource;
  if (from.strategy == kStrategyChain) about += "/chain/" + from.ref_resource;
  if (from.grade == kGradeConcurrency) about += "/concurrency";
  return about;
}

// A queue belongs to its rule: all calls that the rule meets stand in it, whatever else
// the rule says to count.
bool IsQueue(const FlowRule& from) {
  return from.grade == kGradeQps &&
         (from.control_behavior == kBehaviorQueue || from.control_behavior == kBehaviorWarmUpQueue);
}

// Whose calls the rule is about.
void SetOrigins(const RuleAt& at, const FlowRule& from, const OriginsOfResources& origins,
                Rule& rule, RuleMaker& maker) {
  if (from.limit_app == kLimitAppDefault) return;
  const std::string origin = maker.Origin();
  if (NamesOneOrigin(from.limit_app)) {
    rule.on.only.push_back({origin, {from.limit_app}});
  } else {
    rule.on.only.push_back({origin, {"*"}});
    const auto named = origins.find(from.resource);
    if (named != origins.end())
      rule.on.except.push_back({origin, {named->second.begin(), named->second.end()}});
    const bool apart = from.strategy == kStrategyDirect && !IsQueue(from);
    if (apart) rule.by.push_back(origin);
    if (apart && from.grade == kGradeQps && from.control_behavior == kBehaviorWarmUp)
      maker.report.Note(at, "controlBehavior", "warms up once for all other origins",
                        "for each of them");
  }
}

void NoteOwnCalls(const RuleAt& at, const FlowRule& from, RuleMaker& maker) {
  if (from.limit_app == kLimitAppDefault) return;
  maker.report.Note(at, "limitApp", "refuses these origins by the count of the calls of all",
                    "counts the calls of these origins alone");
}

void SetRelated(const RuleAt& at, const FlowRule& from, Rule& rule, RuleMaker& maker) {
  if (IsQueue(from)) {
    return maker.report.Note(at, "strategy",
                             "queues the calls of the resource itself by this "
                             "behaviour, from the first call of refResource on",
                             "from the first call on");
  }
  if (from.ref_resource == from.resource && !from.regex) return NoteOwnCalls(at, from, maker);
  rule.relate_to = from.ref_resource;
  if (!RouteOfResource(from.ref_resource).empty()) {
    maker.report.Note(at, "refResource", "counts what an adapter of the program names so",
                      "counts calls of this resource by its name, and no HTTP request");
  }
}

// What is counted.
void SetStrategy(const RuleAt& at, const FlowRule& from, Rule& rule, RuleMaker& maker) {
  if (from.strategy == kStrategyRelate) SetRelated(at, from, rule, maker);
  if (from.strategy != kStrategyChain) return;
  rule.on.only.push_back({maker.Context(), {from.ref_resource}});
  if (!IsQueue(from)) NoteOwnCalls(at, from, maker);
}

// True: told.  What a rule names is taken as it is written by Sentinel, and may mean more in
// FlowGuard's lists.
bool LeavesOutNames(const RuleAt& at, const FlowRule& from, RuleMaker& maker) {
  const auto leave_out = [&](std::string_view field, const std::string& text, std::string why) {
    maker.report.LeaveOut(at, field, "takes " + Quote(text) + " as it is written", std::move(why));
    return true;
  };
  if (NamesOneOrigin(from.limit_app) && !IsPlainValue(from.limit_app))
    return leave_out("limitApp", from.limit_app, std::string(kListedValues));
  if (from.strategy == kStrategyDirect) return false;
  if (from.ref_resource.empty()) {
    maker.report.LeaveOut(at, "refResource", "never limits by nothing", "needs no rule for that");
    return true;
  }
  if (from.strategy == kStrategyChain && !IsPlainValue(from.ref_resource))
    return leave_out("refResource", from.ref_resource, std::string(kListedValues));
  if (from.strategy == kStrategyRelate && !IsQueue(from) &&
      from.ref_resource.find('*') != std::string::npos)
    return leave_out("refResource", from.ref_resource, "relates to a name without '*'");
  return false;
}

void SetExactCount(const RuleAt& at, int64_t units, Duration window, Rule& rule, RuleMaker& maker) {
  rule.rate = {units, window};
  if (units <= kFlowLogMax) {
    rule.algorithm = Algorithm::kSlidingLog;
  } else {
    rule.algorithm = Algorithm::kSlidingBuckets;
    rule.buckets = kFlowBuckets;
  }
  if (maker.counts_alike()) return;
  maker.report.NoteOfMany(at, "count",
                          "counts in two halves of a second on the clock, so that twice the count "
                          "passes around an edge, and more under concurrent calls",
                          "admits the count in every second, wherever it begins");
}

void NoteState(const RuleAt& at, RuleMaker& maker) {
  maker.report.NoteOfMany(at, "controlBehavior",
                          "forgets the warmth and the queue when any rule is loaded anew",
                          "keeps them where the rule stays the same");
}

Duration WarmUpOf(const RuleAt& at, const FlowRule& from, RuleMaker& maker) {
  const Duration period = seconds(from.warm_up_period_sec);
  if (period <= base::kWarmUpMax) return period;
  maker.report.Note(at, "warmUpPeriodSec", "warms up over more than 31 days", "over 31 days");
  return base::kWarmUpMax;
}

}  // namespace

void CollectOrigins(const std::vector<Listed<FlowRule>>& rules, OriginsOfResources& origins) {
  for (const Listed<FlowRule>& listed : rules) {
    // Those that no list can name are told with their own rule.
    if (NamesOneOrigin(listed.rule.limit_app) && IsPlainValue(listed.rule.limit_app))
      origins[listed.rule.resource].insert(listed.rule.limit_app);
  }
}

void MakeFlowRule(const RuleAt& at, const FlowRule& from, const OriginsOfResources& origins,
                  RuleMaker& maker) {
  if (from.strategy > kStrategyChain && !from.cluster_mode) {
    return maker.report.LeaveOut(at, "strategy", "never limits by this one",
                                 "needs no rule for that");
  }
  if (!from.cluster_mode && LeavesOutNames(at, from, maker)) return;
  Rule rule = maker.Begin(at, AboutOf(from), from.resource, from.regex);
  if (from.cluster_mode) return MakeClusterFlowRule(at, from, std::move(rule), maker);
  SetOrigins(at, from, origins, rule, maker);
  SetStrategy(at, from, rule, maker);
  // Each resource that the pattern matches has a count of its own.
  if (from.regex && from.strategy != kStrategyRelate) rule.by.insert(rule.by.begin(), "resource");
  if (from.grade == kGradeConcurrency) return maker.AddConcurrency(at, from.count, std::move(rule));

  // A queue spaces calls out at any rate; others compare with the whole part.
  const bool queue = IsQueue(from) && from.count > 0;
  const int64_t units =
      queue ? std::max<int64_t>(maker.CutUnits(at, "count", from.count, base::kRatePerSecondMax), 1)
            : maker.UnitsPerSecond(at, from.count);
  if (units == 0) return maker.AddZero(std::move(rule));
  rule.rate = queue ? ExactRate(from.count, kSecond) : Rate{units, kSecond};
  switch (from.control_behavior) {
    case kBehaviorWarmUp:
      rule.algorithm = Algorithm::kWarmUpWindow;
      rule.warm_up = WarmUpOf(at, from, maker);
      NoteState(at, maker);
      if (units < rule.cold_factor) {
        maker.report.Note(at, "count", "never admits a call while cold, and never warms up",
                          "admits one in each second at least");
      }
      break;
    case kBehaviorQueue:
      rule.algorithm = Algorithm::kLeakyBucket;
      rule.wait = maker.CutWait(at, "maxQueueingTimeMs", milliseconds(from.max_queueing_time_ms));
      NoteState(at, maker);
      break;
    case kBehaviorWarmUpQueue:
      rule.algorithm = Algorithm::kWarmUp;
      rule.warm_up = WarmUpOf(at, from, maker);
      rule.wait = maker.CutWait(at, "maxQueueingTimeMs", milliseconds(from.max_queueing_time_ms));
      maker.report.NoteOfMany(
          at, "controlBehavior", "queues calls at a rate that warms up by the calls of each second",
          "queues them at a rate that warms up with each call, as Guava's; after idling it cools "
          "down within warmUpPeriodSec");
      NoteState(at, maker);
      break;
    default:  // those that are not known reject too
      SetExactCount(at, units, kSecond, rule, maker);
      if (rule.relate_to.empty()) rule.borrow = kOccupyTimeout;
      break;
  }
  maker.Add(std::move(rule));
}

}  // namespace flowguard::dialects::sentinel
