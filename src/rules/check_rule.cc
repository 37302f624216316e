// SPDX-License-Identifier: Apache-2.0
#include "rules/check_rule.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/bounds.h"
#include "breaker/spec.h"
#include "rules/breaker_spec.h"
#include "rules/dimension_table.h"
#include "rules/route.h"

namespace flowguard::rules {

namespace {

const Rule kDefaults;
constexpr size_t kLogBytesUsual = 64 * 1024;  // a key

std::string Found(int64_t value) {
  return "found " + std::to_string(value);
}

void CheckBetween(std::string_view field, int64_t value, int64_t least, int64_t most,
                  FaultsAt& faults) {
  if (value >= least && value <= most) return;
  faults.Error(field,
               Found(value) + "; allowed " + std::to_string(least) + " to " + std::to_string(most));
}

void CheckName(const std::string& name, FaultsAt& faults) {
  constexpr std::string_view kAllowed = "allowed are letters, digits and . _ : / - @";
  if (name.empty()) {
    faults.Error("name", "missing; every rule has a name of its own");
    return;
  }
  if (name.size() > base::kRuleNameBytesMax) {
    faults.Error("name", Found(static_cast<int64_t>(name.size())) + " bytes; at most " +
                             std::to_string(base::kRuleNameBytesMax) + " are allowed");
  }
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      std::string_view("._:/-@").find(c) != std::string_view::npos;
    if (good) continue;
    faults.Error("name", "found a character at column " + std::to_string(i + 1) +
                             " that a name cannot have; " + std::string(kAllowed));
    return;
  }
}

// A server that cuts path parameters off, as it does unless told otherwise, never has a
// path with ';'.  Which way it does is not known here.
void WarnOfSemicolons(const RouteTemplate& route, FaultsAt& faults) {
  for (const RouteSegment& segment : route.segments) {
    if (segment.kind != RouteSegment::Kind::kLiteral) continue;
    if (segment.text.find(';') == std::string::npos) continue;
    faults.Warning("on.route",
                   "found ';' in segment \"" + segment.text +
                       "\"; the servers cut it off paths, with what follows, so that this route "
                       "meets none of their requests, unless path.strip_semicolon_params is false");
    return;
  }
}

void CheckTarget(const Target& on, FaultsAt& faults) {
  if (!on.resource.empty()) {
    auto pattern = ParseResource(on.resource);
    if (!pattern.ok()) faults.Error("on.resource", pattern.error().message);
  }
  if (!on.route.empty()) {
    auto route = ParseRoute(on.route);
    if (!route.ok()) {
      faults.Error("on.route", route.error().message);
    } else {
      WarnOfSemicolons(*route, faults);
    }
  }
}

void CheckCost(const Rule& rule, FaultsAt& faults) {
  const Cost& cost = rule.cost;
  CheckBetween("cost.reserve", cost.reserve, 1, base::kCostMax, faults);
  CheckBetween("cost.max_debt", cost.max_debt, 0, base::kLimitMax, faults);
  if (!cost.settle.empty()) {
    constexpr std::string_view kForm = "header:";
    const std::string_view settle = cost.settle;
    if (!settle.starts_with(kForm) || !IsToken(settle.substr(kForm.size()))) {
      faults.Error("cost.settle",
                   "found \"" + cost.settle + "\"; write header:NAME, a header of the response");
    }
  }
}

void CheckWarmUp(const Rule& rule, FaultsAt& faults) {
  if (!HasWarmUp(rule.algorithm)) {
    constexpr std::string_view kOwner = "algorithms warm_up and warm_up_window";
    if (rule.warm_up != kDefaults.warm_up) faults.Misplaced("warm_up", kOwner);
    if (rule.cold_factor != kDefaults.cold_factor) faults.Misplaced("cold_factor", kOwner);
    return;
  }
  if (rule.warm_up == Duration{}) {
    faults.Error("warm_up", "missing; algorithm " + std::string(NameOf(rule.algorithm)) +
                                " needs the time from cold to warm, like 10s");
  } else {
    CheckBetween("warm_up", rule.warm_up.count(), base::kWindowMin.count(),
                 Duration(base::kWarmUpMax).count(), faults);
  }
  const int64_t least = rule.algorithm == Algorithm::kWarmUpWindow ? 2 : 1;
  CheckBetween("cold_factor", rule.cold_factor, least, base::kColdFactorMax, faults);
}

// What only one algorithm or another knows.
void CheckAlgorithm(const Rule& rule, FaultsAt& faults) {
  const Algorithm algorithm = rule.algorithm;
  if (rule.burst.has_value()) {
    if (!HasBurst(algorithm)) {
      faults.Misplaced("burst", "algorithms token_bucket, smooth_bursty and step_bucket");
    } else if (*rule.burst <= 0) {
      faults.Error("burst", Found(*rule.burst) +
                                "; at least 1, or leave it away (then it is the limit); to refuse "
                                "everything write limit 0");
    } else if (rule.rate.limit == 0) {
      faults.Error("burst", Found(*rule.burst) + " beside limit 0, which refuses everything");
    }
  }
  if (algorithm == Algorithm::kSlidingBuckets) {
    CheckBetween("buckets", rule.buckets, 1, base::kBucketsMax, faults);
  } else if (rule.buckets != kDefaults.buckets) {
    faults.Misplaced("buckets", "algorithm sliding_buckets");
  }
  if (rule.wait != Duration{} && !HasWait(algorithm))
    faults.Misplaced("wait", "algorithms token_bucket, leaky_bucket, smooth_bursty and warm_up");
  if (rule.borrow < Duration{}) {
    faults.Error("borrow", Found(rule.borrow.count()) + " ns; a time, like 500ms");
  } else if (rule.borrow > Duration{} && !HasBorrow(algorithm)) {
    faults.Misplaced("borrow",
                     "algorithms token_bucket, sliding_log, sliding_buckets and leap_array");
  } else if (rule.borrow > Duration{} && rule.count_refused) {
    faults.Error("borrow", "found beside count_refused; who is refused has nothing to pay back");
  }
  CheckWarmUp(rule, faults);
  if (algorithm == Algorithm::kFixedWindow && !rule.shadow) {
    faults.Warning("algorithm",
                   "fixed_window admits up to twice the limit around the edge of a window; it is "
                   "for coarse counting, choose another to enforce a limit");
  }
  if (algorithm == Algorithm::kWeightedAverage) {
    faults.Warning("algorithm",
                   "weighted_average admits up to twice the limit in a window, and lets a new "
                   "client's first requests count for little");
  }
  const auto log_bytes = static_cast<size_t>(std::max<int64_t>(rule.rate.limit, 0)) * 8;
  if (algorithm == Algorithm::kSlidingLog && log_bytes > kLogBytesUsual &&
      rule.rate.limit <= base::kSlidingLogLimitMax) {
    faults.Warning("algorithm", "sliding_log keeps " + std::to_string(log_bytes) +
                                    " bytes for every key at this limit");
  }
}

void CheckShards(const Rule& rule, FaultsAt& faults) {
  if (rule.shards == kDefaults.shards) return;
  CheckBetween("shards", rule.shards, 1, base::kShardsMax, faults);
  if (rule.lease != kDefaults.lease)
    faults.Error("shards", "found beside lease; either spreads a hot cell, choose one");
  CheckParts(rule, rule.rate, rule.burst, "", faults);
}

void CheckLease(const Rule& rule, FaultsAt& faults) {
  if (rule.lease == kDefaults.lease) return;
  CheckBetween("lease.overshoot", rule.lease.overshoot, 1, base::kLimitMax, faults);
  const bool exact =
      rule.algorithm == Algorithm::kSlidingLog || rule.algorithm == Algorithm::kLeakyBucket;
  if (exact)
    faults.Error("lease", "found with algorithm " + std::string(NameOf(rule.algorithm)) +
                              ", whose guarantee units taken ahead would break; use it with "
                              "token_bucket, sliding_buckets, sliding_window or fixed_window");
  if (rule.wait != Duration{})
    faults.Error("lease", "found beside wait; units taken ahead have no place in a queue");
}

void CheckPrefilter(const Rule& rule, FaultsAt& faults) {
  if (!rule.prefilter) return;
  const bool known =
      rule.algorithm == Algorithm::kTokenBucket || rule.algorithm == Algorithm::kLeakyBucket ||
      rule.algorithm == Algorithm::kSlidingWindow || rule.algorithm == Algorithm::kFixedWindow;
  if (!known)
    faults.Misplaced("prefilter",
                     "algorithms token_bucket, leaky_bucket, sliding_window and fixed_window");
}

// Fields that only cells in a store have.
void CheckScope(const Rule& rule, FaultsAt& faults) {
  const bool local_only = rule.algorithm == Algorithm::kSmoothBursty || HasWarmUp(rule.algorithm) ||
                          rule.algorithm == Algorithm::kLeapArray ||
                          rule.algorithm == Algorithm::kStepBucket;
  if (rule.scope == Scope::kShared && rule.kind == RuleKind::kLimit && local_only) {
    faults.Error("scope", "found shared with algorithm " + std::string(NameOf(rule.algorithm)) +
                              ", whose cells are local; choose another for a shared limit");
    return;
  }
  constexpr std::string_view kOwner = "rules with scope shared";
  if (rule.tag == CellTag::kResource && rule.on.resource.empty())
    faults.Error("tag", "found resource, but the rule names none under on");
  if (rule.scope == Scope::kLocal && rule.on_store_failure != kDefaults.on_store_failure)
    faults.Misplaced("on_store_failure", "rules with scope shared or cluster");
  if (rule.scope != Scope::kShared) {
    if (rule.tag != kDefaults.tag) faults.Misplaced("tag", kOwner);
    if (rule.lease != kDefaults.lease) faults.Misplaced("lease", kOwner);
    if (rule.shards != kDefaults.shards) faults.Misplaced("shards", kOwner);
    if (rule.prefilter) faults.Misplaced("prefilter", kOwner);
    return;
  }
  if (rule.kind != RuleKind::kLimit) return;
  if (rule.count_refused)
    faults.Error("count_refused",
                 "found with scope shared; a store takes nothing for a refused request");
  if (rule.borrow != kDefaults.borrow)
    faults.Error("borrow", "found with scope shared; a store lends nothing that is to come");
  CheckLease(rule, faults);
  CheckShards(rule, faults);
  CheckPrefilter(rule, faults);
}

void CheckLimit(const Rule& rule, FaultsAt& faults) {
  if (rule.rate.limit < 0)
    faults.Error("limit", Found(rule.rate.limit) + "; at least 0, which refuses everything");
  if (rule.rate.window <= Duration{}) {
    faults.Error("limit", "found a window of " + std::to_string(rule.rate.window.count()) +
                              " ns; a rate is units per a positive duration, like 100/s");
  }
  CheckAlgorithm(rule, faults);
  CheckCost(rule, faults);
  if (rule.concurrency != 0) faults.Misplaced("concurrency", "rules of kind concurrency");
}

// Fields that a rule of another kind than limit must leave as they are.
void CheckNotLimit(const Rule& rule, FaultsAt& faults) {
  constexpr std::string_view kOwner = "rules with a limit";
  if (rule.rate != kDefaults.rate) faults.Misplaced("limit", kOwner);
  if (rule.burst.has_value()) faults.Misplaced("burst", kOwner);
  if (rule.algorithm != kDefaults.algorithm) faults.Misplaced("algorithm", kOwner);
  if (rule.buckets != kDefaults.buckets) faults.Misplaced("buckets", kOwner);
  if (rule.wait != kDefaults.wait) faults.Misplaced("wait", kOwner);
  if (rule.borrow != kDefaults.borrow) faults.Misplaced("borrow", kOwner);
  if (rule.warm_up != kDefaults.warm_up) faults.Misplaced("warm_up", kOwner);
  if (rule.cold_factor != kDefaults.cold_factor) faults.Misplaced("cold_factor", kOwner);
  if (rule.count_refused) faults.Misplaced("count_refused", kOwner);
  if (rule.cost != kDefaults.cost) faults.Misplaced("cost", kOwner);
  if (rule.scope != Scope::kShared) return;  // told by CheckScope
  if (rule.lease != kDefaults.lease) faults.Misplaced("lease", kOwner);
  if (rule.shards != kDefaults.shards) faults.Misplaced("shards", kOwner);
  if (rule.prefilter) faults.Misplaced("prefilter", kOwner);
}

// Of a rule that counts no units.
void CheckIsLocal(const Rule& rule, FaultsAt& faults) {
  if (rule.scope != kDefaults.scope)
    faults.Misplaced("scope: " + std::string(NameOf(rule.scope)),
                     "rules of kind limit or concurrency");
}

void CheckAccess(const Rule& rule, FaultsAt& faults) {
  CheckNotLimit(rule, faults);
  constexpr std::string_view kOwner = "rules of kind limit or concurrency";
  CheckIsLocal(rule, faults);
  if (rule.concurrency != 0) faults.Misplaced("concurrency", "rules of kind concurrency");
  if (!rule.by.empty()) faults.Misplaced("by", kOwner);
  if (!rule.overrides.empty()) faults.Misplaced("overrides", kOwner);
  if (rule.allow.empty() && rule.deny.empty())
    faults.Error("access", "found neither allow nor deny; name at least one list");
}

void CheckBreaker(const Rule& rule, FaultsAt& faults) {
  CheckNotLimit(rule, faults);
  CheckIsLocal(rule, faults);
  if (rule.concurrency != 0) faults.Misplaced("concurrency", "rules of kind concurrency");
  if (!rule.overrides.empty()) faults.Misplaced("overrides", "rules of kind limit or concurrency");
  const BreakerRule& breaker = rule.breaker;
  const int conditions = static_cast<int>(breaker.slow_ratio.has_value()) +
                         static_cast<int>(breaker.error_ratio.has_value()) +
                         static_cast<int>(breaker.error_count.has_value());
  if (conditions != 1) {
    faults.Error("breaker", "found " + std::to_string(conditions) +
                                " of slow_ratio, error_ratio and error_count; a breaker opens by "
                                "one of them");
    return;
  }
  const Result<void> fits = breaker::CheckSpec(BreakerSpecOf(breaker, Compat::kNone));
  if (!fits.ok()) faults.Error("breaker", fits.error().message);
}

// A part of the whole, or a load; never below zero, and no NaN.
void CheckReading(std::string_view field, double value, double most, FaultsAt& faults) {
  if (value >= 0 && !std::signbit(value) && value <= most) return;
  faults.Error(field, "found " + std::to_string(value) + "; allowed 0 to " +
                          std::to_string(static_cast<int64_t>(most)));
}

void CheckSystem(const Rule& rule, FaultsAt& faults) {
  CheckNotLimit(rule, faults);
  constexpr std::string_view kOwner = "rules of kind limit or concurrency";
  CheckIsLocal(rule, faults);
  if (rule.concurrency != 0) faults.Misplaced("concurrency", "rules of kind concurrency");
  if (!rule.by.empty()) faults.Misplaced("by", "rules of kind limit, concurrency or breaker");
  if (!rule.overrides.empty()) faults.Misplaced("overrides", kOwner);
  const SystemRule& most = rule.system;
  if (most == kDefaults.system) {
    faults.Error("system", "found none of load, cpu, avg_rt, inflight and qps; name at least one");
  }
  if (most.load) CheckReading("system.load", *most.load, base::kSystemLoadMax, faults);
  if (most.cpu) CheckReading("system.cpu", *most.cpu, 1, faults);
  if (most.avg_rt) {
    CheckBetween("system.avg_rt", most.avg_rt->count(), 0, base::kSystemRtMax.count(), faults);
  }
  if (most.inflight) CheckBetween("system.inflight", *most.inflight, 0, base::kLimitMax, faults);
  if (most.qps) CheckBetween("system.qps", *most.qps, 0, base::kRatePerSecondMax, faults);
}

}  // namespace

void CheckParts(const Rule& rule, const Rate& rate, const std::optional<int64_t>& burst,
                const std::string& prefix, FaultsAt& faults) {
  if (rule.shards < 1 || rate.limit <= 0) return;
  const bool has_burst = rule.algorithm == Algorithm::kTokenBucket && burst.has_value();
  const int64_t least = has_burst ? std::min(rate.limit, *burst) : rate.limit;
  if (rule.shards == kDefaults.shards || rule.cost.reserve <= least / rule.shards) return;
  faults.Error(prefix + "shards", Found(rule.shards) + "; a part of " +
                                      std::to_string(least / rule.shards) +
                                      " units would be below the cost of a request, " +
                                      std::to_string(rule.cost.reserve));
}

void CheckRule(const Rule& rule, FaultsAt& faults) {
  CheckName(rule.name, faults);
  CheckTarget(rule.on, faults);
  switch (rule.kind) {
    case RuleKind::kLimit:
      CheckLimit(rule, faults);
      break;
    case RuleKind::kConcurrency:
      CheckNotLimit(rule, faults);
      CheckBetween("concurrency", rule.concurrency, 1, base::kLimitMax, faults);
      break;
    case RuleKind::kAccess:
      CheckAccess(rule, faults);
      break;
    case RuleKind::kBreaker:
      CheckBreaker(rule, faults);
      break;
    case RuleKind::kSystem:
      CheckSystem(rule, faults);
      break;
  }
  if (rule.kind != RuleKind::kSystem && rule.system != kDefaults.system)
    faults.Misplaced("system", "rules of kind system");
  if (rule.kind != RuleKind::kBreaker && rule.breaker != kDefaults.breaker)
    faults.Misplaced("breaker", "rules of kind breaker");
  CheckScope(rule, faults);
  CheckCluster(rule, faults);
  CheckRelation(rule, faults);
  if (rule.kind != RuleKind::kAccess) {
    if (!rule.allow.empty()) faults.Misplaced("allow", "rules of kind access");
    if (!rule.deny.empty()) faults.Misplaced("deny", "rules of kind access");
  }
  CheckAnswer(rule, faults);
}

std::string_view NameOf(Algorithm algorithm) noexcept {
  switch (algorithm) {
    case Algorithm::kTokenBucket:
      return "token_bucket";
    case Algorithm::kLeakyBucket:
      return "leaky_bucket";
    case Algorithm::kSlidingLog:
      return "sliding_log";
    case Algorithm::kSlidingBuckets:
      return "sliding_buckets";
    case Algorithm::kSlidingWindow:
      return "sliding_window";
    case Algorithm::kFixedWindow:
      return "fixed_window";
    case Algorithm::kWeightedAverage:
      return "weighted_average";
    case Algorithm::kSmoothBursty:
      return "smooth_bursty";
    case Algorithm::kWarmUp:
      return "warm_up";
    case Algorithm::kWarmUpWindow:
      return "warm_up_window";
    case Algorithm::kLeapArray:
      return "leap_array";
    case Algorithm::kStepBucket:
      return "step_bucket";
  }
  return "unknown";
}

std::string_view NameOf(Scope scope) noexcept {
  switch (scope) {
    case Scope::kLocal:
      return "local";
    case Scope::kShared:
      return "shared";
    case Scope::kCluster:
      return "cluster";
  }
  return "unknown";
}

std::string_view NameOf(RuleKind kind) noexcept {
  switch (kind) {
    case RuleKind::kLimit:
      return "limit";
    case RuleKind::kConcurrency:
      return "concurrency";
    case RuleKind::kAccess:
      return "access";
    case RuleKind::kBreaker:
      return "breaker";
    case RuleKind::kSystem:
      return "system";
  }
  return "unknown";
}

bool HasBurst(Algorithm algorithm) noexcept {
  return algorithm == Algorithm::kTokenBucket || algorithm == Algorithm::kSmoothBursty ||
         algorithm == Algorithm::kStepBucket;
}

bool HasWait(Algorithm algorithm) noexcept {
  return algorithm == Algorithm::kTokenBucket || algorithm == Algorithm::kLeakyBucket ||
         algorithm == Algorithm::kSmoothBursty || algorithm == Algorithm::kWarmUp;
}

bool HasBorrow(Algorithm algorithm) noexcept {
  return algorithm == Algorithm::kTokenBucket || algorithm == Algorithm::kSlidingLog ||
         algorithm == Algorithm::kSlidingBuckets || algorithm == Algorithm::kLeapArray;
}

bool HasWarmUp(Algorithm algorithm) noexcept {
  return algorithm == Algorithm::kWarmUp || algorithm == Algorithm::kWarmUpWindow;
}

bool IsWindowed(Algorithm algorithm) noexcept {
  return !HasWait(algorithm);  // what waits keeps instants, which mean the same in any
}

}  // namespace flowguard::rules
