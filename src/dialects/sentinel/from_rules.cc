// SPDX-License-Identifier: Apache-2.0
#include "dialects/sentinel/from_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "dialects/sentinel/from_cluster.h"
#include "dialects/sentinel/from_parts.h"
#include "dialects/sentinel/java_values.h"
#include "dialects/sentinel/rule_maker.h"
#include "dialects/sentinel/to_rules.h"
#include "text/node.h"

namespace flowguard::dialects::sentinel {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using text::Quote;

constexpr int32_t kIntMax = std::numeric_limits<int32_t>::max();

int32_t Int(int64_t value) {
  return static_cast<int32_t>(std::clamp<int64_t>(value, 0, kIntMax));
}

// In `Unit`s, the next one where it is none whole.
template <typename Unit>
int64_t RoundedUp(Duration duration) {
  const int64_t whole = std::chrono::duration_cast<Unit>(duration).count();
  return Unit(whole) < duration ? whole + 1 : whole;
}

class Converter {
 public:
  explicit Converter(const RuleSet& set) : set_(set) {
    if (set.match == MatchMode::kAll) return;
    report_.Note({{}, "all rules"}, "match", "asks every rule of a resource",
                 "asks the most specific ones of each kind alone");
  }

  void Add(const Rule& rule) {
    const RuleAt at{rule.origin, "rule " + Quote(rule.name)};
    if (!rule.enabled) {
      return report_.LeaveOut(at, "enabled", "has no rules that are kept and not looked at",
                              "keeps this one so");
    }
    if (rule.shadow) {
      return report_.LeaveOut(at, "shadow", "has no rules that decide and do not refuse",
                              "counts by this one only");
    }
    NoteFields(at, rule, report_);
    NoteDimensions(at, rule, set_, report_);
    switch (rule.kind) {
      case RuleKind::kLimit:
      case RuleKind::kConcurrency:
        return AddCount(at, rule);
      case RuleKind::kBreaker:
        return AddBreaker(at, rule);
      case RuleKind::kAccess:
        return AddAccess(at, rule);
      case RuleKind::kSystem:
        return AddSystem(at, rule);
    }
  }

  FromRulesResult Take() {
    FromRulesResult result;
    const auto put = [&result](auto& list) {
      if (!list.empty()) result.lists.emplace_back(std::move(list));
    };
    put(flow_);
    put(degrade_);
    put(system_);
    put(authority_);
    put(param_);
    put(gateway_);
    result.differences = report_.Take();
    return result;
  }

 private:
  template <typename One>
  static void Put(std::vector<Listed<One>>& list, One rule) {
    list.push_back({std::move(rule), list.size(), {}});
  }

  struct Resource {
    std::string name;
    bool regex = false;
  };

  // Nothing: told, the rule cannot be said.
  std::optional<Resource> ResourceOf(const RuleAt& at, const Rule& rule) {
    const Target& on = rule.on;
    Resource resource;
    if (!on.resource.empty() && on.resource.back() == '*') {
      resource = {
          QuotedRegex(std::string_view(on.resource).substr(0, on.resource.size() - 1)) + ".*",
          true};
    } else if (!on.resource.empty()) {
      resource.name = on.resource;
    } else if (!on.resource_regex.empty()) {
      const std::optional<std::string> literal = UnquotedRegex(on.resource_regex);
      resource = {literal ? *literal : on.resource_regex, !literal};
    } else if (!on.route.empty()) {
      resource.name = on.route;
      const size_t space = on.route.find(' ');
      if (space != std::string::npos) resource.name[space] = ':';
      report_.Note(at, "on.route", "counts what its adapter names " + Quote(resource.name),
                   "counts the requests that the route meets");
    } else {
      report_.LeaveOut(at, "on", "has no rules of this kind for all resources together",
                       "counts all requests");
      return std::nullopt;
    }
    const bool two = !on.route.empty() && RouteOfResource(resource.name) != on.route &&
                     (!on.resource.empty() || !on.resource_regex.empty());
    if (two) report_.Note(at, "on.route", "has one name for a resource", "meets the route as well");
    const bool by_resource = std::find(rule.by.begin(), rule.by.end(), "resource") != rule.by.end();
    if (resource.regex && !by_resource && rule.kind != RuleKind::kAccess) {
      report_.LeaveOut(at, "by", "counts each resource that a pattern matches for itself",
                       "counts them together");
      return std::nullopt;
    }
    return resource;
  }

  // No condition but those under the dimensions `known`.
  bool ConditionsFit(const RuleAt& at, const Rule& rule,
                     std::initializer_list<std::string_view> known) {
    for (const auto* lists : {&rule.on.only, &rule.on.except}) {
      for (const ValuesOf& list : *lists) {
        if (std::find(known.begin(), known.end(), list.dimension) != known.end()) continue;
        report_.LeaveOut(at, lists == &rule.on.only ? "on.only" : "on.except",
                         "has no such condition", "looks at " + Quote(list.dimension));
        return false;
      }
    }
    return true;
  }

  // --- limits and concurrency

  void AddCount(const RuleAt& at, const Rule& rule) {
    std::vector<std::string> by = rule.by;
    by.erase(std::remove(by.begin(), by.end(), "resource"), by.end());
    const bool origins_apart = by.size() == 1 && by.front() == kOriginDimension;
    if (by.empty() || origins_apart) return AddFlow(at, rule, origins_apart);
    if (by.size() == 1) {
      if (const auto index = ArgumentIndex(by.front())) return AddParam(at, rule, *index);
      if (auto item = GatewayItem(set_, by.front()))
        return AddGateway(at, rule, by.front(), *std::move(item));
    }
    report_.LeaveOut(at, "by",
                     "counts by an argument, an origin, or the address, host, header, URL "
                     "parameter or cookie at a gateway",
                     "counts by " + Quote(by.front()) + (by.size() > 1 ? " and more" : ""));
  }

  // False: told.
  bool SetOrigin(const RuleAt& at, const Rule& rule, bool origins_apart, FlowRule& flow) {
    const auto* only = ValuesUnder(rule.on.only, kOriginDimension);
    const auto* except = ValuesUnder(rule.on.except, kOriginDimension);
    if (only == nullptr && except == nullptr && !origins_apart) return true;
    const bool one = only != nullptr && only->size() == 1;
    const bool any = one && only->front() == "*";
    const bool chain = ValuesUnder(rule.on.only, kContextDimension) != nullptr;
    if (any && (origins_apart || IsQueue(rule) || chain || !rule.relate_to.empty())) {
      flow.limit_app = kLimitAppOther;
      NoteOthers(at, rule, set_, report_);
      return true;
    }
    const bool word =
        one && (only->front().find('*') != std::string::npos || IsBlank(only->front()) ||
                only->front() == kLimitAppDefault || only->front() == kLimitAppOther);
    if (!one || word || except != nullptr) {
      report_.LeaveOut(at, "on.only", "takes one origin, or the others, each for itself",
                       "takes lists of origins");
      return false;
    }
    flow.limit_app = only->front();
    return true;
  }

  static bool IsQueue(const Rule& rule) {
    return rule.kind == RuleKind::kLimit &&
           (rule.algorithm == Algorithm::kLeakyBucket || rule.algorithm == Algorithm::kWarmUp);
  }

  bool SetStrategy(const RuleAt& at, const Rule& rule, FlowRule& flow) {
    if (!rule.relate_to.empty()) {
      if (IsQueue(rule)) {
        report_.LeaveOut(at, "relate_to", "queues the calls of the resource itself",
                         "refuses them while the other resource has used the queue up");
        return false;
      }
      flow.strategy = kStrategyRelate;
      flow.ref_resource = rule.relate_to;
    }
    const auto* context = ValuesUnder(rule.on.only, kContextDimension);
    const bool excepted = ValuesUnder(rule.on.except, kContextDimension) != nullptr;
    if (context == nullptr && !excepted) return true;
    if (excepted || context->size() != 1 || flow.strategy == kStrategyRelate) {
      report_.LeaveOut(at, "on.only", "takes one context for a call chain", "takes lists");
      return false;
    }
    if (context->front().find('*') != std::string::npos) {
      report_.LeaveOut(at, "on.only", "takes the name of a context as it is written",
                       "takes '*' for any end");
      return false;
    }
    flow.strategy = kStrategyChain;
    flow.ref_resource = context->front();
    return true;
  }

  // The token server looks at the calls of a resource, and at nothing else of them.
  void AddClusterFlow(const RuleAt& at, const Rule& rule) {
    if (!rule.by.empty())
      return report_.LeaveOut(at, "by", "has one count for all calls at its token server",
                              "has one for each value");
    if (!ConditionsFit(at, rule, {})) return;
    const auto resource = ResourceOf(at, rule);
    if (!resource) return;
    FlowRule flow;
    flow.resource = resource->name;
    if (SetClusterFlow(at, rule, flow, report_)) Put(flow_, std::move(flow));
  }

  void AddFlow(const RuleAt& at, const Rule& rule, bool origins_apart) {
    if (rule.scope == Scope::kCluster) return AddClusterFlow(at, rule);
    FlowRule flow;
    const bool conditions = ConditionsFit(at, rule, {kOriginDimension, kContextDimension});
    if (!conditions || !SetOrigin(at, rule, origins_apart, flow) || !SetStrategy(at, rule, flow))
      return;
    const auto resource = ResourceOf(at, rule);
    if (!resource) return;
    flow.resource = resource->name;
    flow.regex = resource->regex;
    if (!rule.overrides.empty())
      report_.Note(at, "overrides", "has no exceptions for origins", "has them");
    if (rule.kind == RuleKind::kConcurrency) {
      flow.grade = kGradeConcurrency;
      flow.count = static_cast<double>(rule.concurrency);
    } else if (!SetRate(at, rule, flow)) {
      return;
    }
    if (flow.regex && flow.control_behavior != kBehaviorReject) {
      return report_.LeaveOut(at, "on.resource_regex", "has no warm-up or queue with a pattern",
                              "has");
    }
    if (rule.scope == Scope::kShared) {
      if (!FitsTokenServer(flow)) {
        return report_.LeaveOut(at, "scope",
                                "counts all calls of one resource by the second at its token "
                                "server, and nothing else there",
                                "counts this rule in the store of shared limits");
      }
      SetSharedFlow(at, rule, flow, report_);
    }
    Put(flow_, std::move(flow));
  }

  // The token server looks at none of these, and a pattern makes the rule invalid.
  static bool FitsTokenServer(const FlowRule& flow) {
    return flow.grade == kGradeQps && !flow.regex && flow.limit_app == kLimitAppDefault &&
           flow.strategy == kStrategyDirect && flow.control_behavior == kBehaviorReject;
  }

  bool SetRate(const RuleAt& at, const Rule& rule, FlowRule& flow) {
    flow.count = PerSecond(rule.rate);
    const bool second = rule.rate.window == seconds(1) || rule.rate.limit == 0;
    if (rule.algorithm == Algorithm::kLeakyBucket) {
      flow.control_behavior = kBehaviorQueue;
      flow.max_queueing_time_ms = WaitMs(at, rule);
      if (rule.rate.limit > 0 && flow.count < 0.5) {
        report_.LeaveOut(at, "limit", "has no queue below one call in two seconds", "has");
        return false;
      }
      return true;
    }
    // Queues space calls out at any rate.
    if (!second && rule.algorithm != Algorithm::kWarmUp) {
      report_.LeaveOut(at, "limit", "counts by the second",
                       "has windows of any length; this one has another");
      return false;
    }
    if (rule.algorithm == Algorithm::kWarmUpWindow || rule.algorithm == Algorithm::kWarmUp) {
      const bool queue = rule.algorithm == Algorithm::kWarmUp;
      flow.control_behavior = queue ? kBehaviorWarmUpQueue : kBehaviorWarmUp;
      flow.warm_up_period_sec = Int(RoundedUp<seconds>(rule.warm_up));
      if (queue) flow.max_queueing_time_ms = WaitMs(at, rule);
      if (!queue && rule.rate.limit > 0 && rule.rate.limit < Rule{}.cold_factor) {
        report_.Note(at, "limit", "never admits a call while cold, and never warms up",
                     "admits one in each second at least");
      }
      if (rule.cold_factor != Rule{}.cold_factor) {
        report_.Note(at, "cold_factor", "has one cold factor for the whole process",
                     "has one for each rule: " + std::to_string(rule.cold_factor));
      }
      return true;
    }
    NoteAlgorithm(at, rule, report_);
    if (rule.borrow == Duration{} && rule.rate.limit > 0) {
      report_.NoteOfMany(at, "borrow", "lends prioritised calls what comes in half a second",
                         "lends nothing unless told to");
    } else if (rule.borrow > Duration{} && rule.borrow != kOccupyTimeout) {
      report_.Note(at, "borrow", "lends prioritised calls what comes in half a second",
                   "lends for another time");
    }
    return true;
  }

  int32_t WaitMs(const RuleAt& at, const Rule& rule) {
    const int64_t wait_ms = RoundedUp<milliseconds>(rule.wait);
    if (wait_ms > 0) return Int(wait_ms);
    report_.Note(at, "wait", "has no queue without a wait, and lets calls wait for 1 ms",
                 "refuses at once");
    return 1;
  }

  // Count, window, burst and wait of a rule by values; false: told.
  struct ValueRate {
    double count = 0;
    int64_t window_s = 1;
    int32_t burst = 0;
    bool queue = false;
    int32_t wait_ms = 0;
  };
  std::optional<ValueRate> RateByValue(const RuleAt& at, const Rule& rule) {
    ValueRate out;
    out.count = static_cast<double>(rule.rate.limit);
    out.window_s = std::chrono::duration_cast<seconds>(rule.rate.window).count();
    if (out.window_s < 1 || seconds(out.window_s) != rule.rate.window) {
      report_.LeaveOut(at, "limit", "has windows of whole seconds", "has this one");
      return std::nullopt;
    }
    out.queue = rule.algorithm == Algorithm::kLeakyBucket;
    if (out.queue) {
      out.wait_ms = Int(RoundedUp<milliseconds>(rule.wait) + 1);  // it refuses at exactly that
    } else if (rule.algorithm == Algorithm::kTokenBucket ||
               rule.algorithm == Algorithm::kStepBucket) {
      if (rule.burst && *rule.burst < rule.rate.limit)
        report_.Note(at, "limit", "has no bucket smaller than the count", "has");
      if (rule.burst) out.burst = Int(*rule.burst - rule.rate.limit);
      if (rule.wait > Duration{})
        report_.Note(at, "wait", "queues at an even rate only", "lets calls wait");
    } else {
      report_.Note(at, "algorithm", "counts values in buckets", "counts by another algorithm");
    }
    if (rule.borrow > Duration{}) {
      report_.Note(at, "borrow", "lends nothing by value", "lends prioritised calls");
    }
    return out;
  }

  void AddParam(const RuleAt& at, const Rule& rule, int32_t index) {
    ParamFlowRule param;
    if (!ConditionsFit(at, rule, {})) return;
    const auto resource = ResourceOf(at, rule);
    if (!resource) return;
    param.resource = resource->name;
    param.regex = resource->regex;
    param.param_idx = index;
    if (rule.scope == Scope::kCluster) {
      if (rule.by.size() > 1)
        return report_.LeaveOut(at, "by", "has no patterns at its token server", "has");
      if (SetClusterParam(at, rule, param, report_)) Put(param_, std::move(param));
      return;
    }
    if (rule.kind == RuleKind::kConcurrency) {
      param.grade = kGradeConcurrency;
      param.count = static_cast<double>(rule.concurrency);
    } else {
      const auto rate = RateByValue(at, rule);
      if (!rate) return;
      param.count = rate->count;
      param.duration_in_sec = rate->window_s;
      param.burst_count = rate->burst;
      if (rate->queue) param.control_behavior = kBehaviorQueue;
      param.max_queueing_time_ms = rate->wait_ms;
    }
    for (const Override& one : rule.overrides) {
      if (rule.kind == RuleKind::kLimit && one.rate.window != rule.rate.window)
        report_.Note(at, "overrides", "has one window for all values",
                     "has another for " + Quote(one.value));
      if (one.rate.limit > kIntMax)
        report_.Note(at, "overrides", "has counts of values up to " + std::to_string(kIntMax),
                     "has " + std::to_string(one.rate.limit) + " for " + Quote(one.value));
      if (one.burst && *one.burst != one.rate.limit + param.burst_count)
        report_.Note(at, "overrides", "adds one burst to the counts of all values",
                     "has another for " + Quote(one.value));
      param.param_flow_item_list.push_back({"java.lang.String", Int(one.rate.limit), one.value});
    }
    if (!rule.overrides.empty()) {
      report_.Note(at, "overrides", "compares texts with texts only, as they are written here",
                   "compares every value as text");
    }
    if (param.regex && param.control_behavior != kBehaviorReject)
      return report_.LeaveOut(at, "on.resource_regex", "has no queue with a pattern", "has");
    if (rule.scope == Scope::kShared) {
      report_.Note(at, "scope", "is given a rule for each process", "counts over all processes");
    }
    Put(param_, std::move(param));
  }

  void AddGateway(const RuleAt& at, const Rule& rule, const std::string& dimension,
                  GatewayParamFlowItem item) {
    GatewayFlowRule gateway;
    if (!ConditionsFit(at, rule, {dimension})) return;
    const auto* only = ValuesUnder(rule.on.only, dimension);
    if (only != nullptr) {
      if (only->size() != 1 || only->front().find('*') != std::string::npos ||
          !rule.on.except.empty()) {
        return report_.LeaveOut(at, "on.only", "takes one value as a pattern", "takes lists");
      }
      item.pattern = only->front();
    } else if (!rule.on.except.empty()) {
      return report_.LeaveOut(at, "on.except", "has no such condition", "has");
    }
    const auto resource = ResourceOf(at, rule);
    if (!resource) return;
    if (resource->regex)
      return report_.LeaveOut(at, "on.resource", "has no patterns for routes", "has");
    gateway.resource = resource->name;
    gateway.param_item = std::move(item);
    if (rule.kind == RuleKind::kConcurrency) {
      gateway.grade = kGradeConcurrency;
      gateway.count = static_cast<double>(rule.concurrency);
    } else {
      const auto rate = RateByValue(at, rule);
      if (!rate) return;
      gateway.count = rate->count;
      gateway.interval_sec = rate->window_s;
      gateway.burst = rate->burst;
      if (rate->queue) {
        gateway.control_behavior = kBehaviorQueue;
        gateway.max_queueing_timeout_ms = rate->wait_ms;
      }
    }
    if (!rule.overrides.empty())
      report_.Note(at, "overrides", "has no exceptions for single values", "has them");
    if (rule.scope != Scope::kLocal) {
      report_.Note(at, "scope", "is given a rule for each process", "counts over all processes");
    }
    Put(gateway_, std::move(gateway));
  }

  // --- the others

  void AddBreaker(const RuleAt& at, const Rule& rule) {
    DegradeRule degrade;
    const bool by_resource = rule.by == std::vector<std::string>{"resource"};
    const Target& on = rule.on;
    const bool every = by_resource && on.resource_regex.empty() && on.route.empty() &&
                       (on.resource == "*" || on.resource.empty());
    if (!rule.by.empty() && !by_resource) {
      return report_.LeaveOut(at, "by", "has a breaker for each resource",
                              "has one for each value");
    }
    if (every) {
      if (!ConditionsFit(at, rule, {"resource"})) return;
      degrade.resource = "*";
      NoteExcepted(at, rule);
    } else {
      if (!ConditionsFit(at, rule, {})) return;
      const auto resource = ResourceOf(at, rule);
      if (!resource) return;
      degrade.resource = resource->name;
      degrade.regex = resource->regex;
    }
    const BreakerRule& breaker = rule.breaker;
    if (breaker.slow_ratio) {
      degrade.grade = kDegradeSlowRatio;
      degrade.slow_ratio_threshold = *breaker.slow_ratio;
      degrade.count = std::chrono::duration<double, std::milli>(breaker.slow_over).count();
      if (degrade.count != std::floor(degrade.count))
        report_.Note(at, "breaker.slow.over", "rounds to whole milliseconds", "does not");
    } else if (breaker.error_ratio) {
      degrade.grade = kDegradeExceptionRatio;
      degrade.count = *breaker.error_ratio;
      if (degrade.count >= 1 && set_.compat == Compat::kNone)
        report_.Note(at, "breaker.errors.ratio", "never opens at 1", "opens when all calls fail");
    } else {
      degrade.grade = kDegradeExceptionCount;
      degrade.count = static_cast<double>(breaker.error_count.value_or(0));
    }
    if (breaker.probes != 1)
      report_.Note(at, "breaker.probes", "has one", "has " + std::to_string(breaker.probes));
    degrade.min_request_amount = Int(breaker.min_calls);
    degrade.stat_interval_ms = Int(RoundedUp<milliseconds>(breaker.window));
    degrade.time_window = Int(RoundedUp<seconds>(breaker.open_for));
    if (seconds(degrade.time_window) != breaker.open_for)
      report_.Note(at, "breaker.open_for", "counts in whole seconds", "does not");
    Put(degrade_, std::move(degrade));
  }

  // Sentinel leaves the resources of other rules out by itself.
  void NoteExcepted(const RuleAt& at, const Rule& rule) {
    if (!rule.on.only.empty())
      report_.Note(at, "on.only", "takes all resources", "takes those of a list");
    const auto* except = ValuesUnder(rule.on.except, "resource");
    if (except == nullptr) return;
    for (const std::string& name : *except) {
      const bool own = std::any_of(set_.rules.begin(), set_.rules.end(), [&name](const Rule& one) {
        return one.kind == RuleKind::kBreaker && one.on.resource == name;
      });
      if (own) continue;
      report_.Note(at, "on.except", "gives " + Quote(name) + " this breaker too",
                   "leaves it out, without a breaker of its own");
    }
  }

  void AddAccess(const RuleAt& at, const Rule& rule) {
    AuthorityRule authority;
    const bool allow = !rule.allow.empty();
    const std::vector<AccessList>& lists = allow ? rule.allow : rule.deny;
    const bool one = lists.size() == 1 && (rule.allow.empty() || rule.deny.empty());
    if (!one || lists.front().dimension != kOriginDimension) {
      return report_.LeaveOut(at, "access", "has one list of origins for a resource",
                              "has lists by any dimension");
    }
    for (const std::string& value : lists.front().values) {
      if (value.find_first_of(",*") != std::string::npos) {
        return report_.LeaveOut(at, "access", "has origins word by word, with commas between",
                                "has " + Quote(value));
      }
      if (!authority.limit_app.empty()) authority.limit_app += ',';
      authority.limit_app += value;
    }
    if (IsBlank(authority.limit_app))
      return report_.LeaveOut(at, "access", "needs the name of an origin", "has a blank one");
    if (!ConditionsFit(at, rule, {})) return;
    const auto resource = ResourceOf(at, rule);
    if (!resource) return;
    authority.resource = resource->name;
    authority.regex = resource->regex;
    authority.strategy = allow ? kAuthorityAllow : kAuthorityDeny;
    const bool repeats = std::any_of(authority_.begin(), authority_.end(), [&](const auto& listed) {
      return listed.rule.resource == authority.resource;
    });
    if (repeats) {
      return report_.LeaveOut(at, "on", "has one such rule for a resource",
                              "asks all that there are");
    }
    Put(authority_, std::move(authority));
  }

  void AddSystem(const RuleAt& at, const Rule& rule) {
    if (rule.on != Target{}) {
      return report_.LeaveOut(at, "on", "has such rules for the whole process only",
                              "looks at the requests that the rule meets");
    }
    SystemRule system;
    const flowguard::SystemRule& from = rule.system;
    if (from.load) system.highest_system_load = *from.load;
    if (from.cpu) system.highest_cpu_usage = *from.cpu;
    if (from.avg_rt) system.avg_rt = RoundedUp<milliseconds>(*from.avg_rt);
    // Sentinel admits one call more than it says.
    if (from.inflight) system.max_thread = std::max<int64_t>(*from.inflight - 1, 0);
    if (from.inflight == 0)
      report_.Note(at, "system.inflight", "admits one call at least", "admits none");
    if (from.qps) system.qps = static_cast<double>(*from.qps);
    Put(system_, std::move(system));
  }

  const RuleSet& set_;
  Differences report_;
  std::vector<Listed<FlowRule>> flow_;
  std::vector<Listed<DegradeRule>> degrade_;
  std::vector<Listed<SystemRule>> system_;
  std::vector<Listed<AuthorityRule>> authority_;
  std::vector<Listed<ParamFlowRule>> param_;
  std::vector<Listed<GatewayFlowRule>> gateway_;
};

}  // namespace

FromRulesResult FromRules(const RuleSet& set) {
  Converter converter(set);
  for (const Rule& rule : set.rules)
    converter.Add(rule);
  return converter.Take();
}

}  // namespace flowguard::dialects::sentinel
