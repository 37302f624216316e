// SPDX-License-Identifier: Apache-2.0
//
// Rules for tests, with the fields that they are about.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include "flowguard/rule.h"

namespace flowguard::testing {

inline Rule LimitRule(std::string name, int64_t limit, Duration window) {
  Rule rule;
  rule.name = std::move(name);
  rule.rate = {limit, window};
  return rule;
}

inline constexpr Algorithm kEveryAlgorithm[] = {
    Algorithm::kTokenBucket,    Algorithm::kLeakyBucket,   Algorithm::kSlidingLog,
    Algorithm::kSlidingBuckets, Algorithm::kSlidingWindow, Algorithm::kFixedWindow,
    Algorithm::kWeightedAverage};

// Of cells that live in this process only; kEveryAlgorithm may be shared.
inline constexpr Algorithm kEveryLocalAlgorithm[] = {
    Algorithm::kTokenBucket,     Algorithm::kLeakyBucket,   Algorithm::kSlidingLog,
    Algorithm::kSlidingBuckets,  Algorithm::kSlidingWindow, Algorithm::kFixedWindow,
    Algorithm::kWeightedAverage, Algorithm::kSmoothBursty,  Algorithm::kWarmUp,
    Algorithm::kWarmUpWindow,    Algorithm::kLeapArray,     Algorithm::kStepBucket};

// `limit` units can be had at once, also of a leaky_bucket (those behind the first wait).
inline Rule LimitRule(std::string name, int64_t limit, Duration window, Algorithm algorithm) {
  Rule rule = LimitRule(std::move(name), limit, window);
  rule.algorithm = algorithm;
  if (algorithm == Algorithm::kLeakyBucket) rule.wait = window - window / limit;
  if (algorithm == Algorithm::kWarmUp || algorithm == Algorithm::kWarmUpWindow)
    rule.warm_up = 10 * window;
  return rule;
}

inline Rule ConcurrencyRule(std::string name, int64_t limit) {
  Rule rule;
  rule.name = std::move(name);
  rule.kind = RuleKind::kConcurrency;
  rule.concurrency = limit;
  return rule;
}

inline Rule ErrorCountBreaker(std::string name, int64_t errors, int64_t min_calls = 1) {
  Rule rule;
  rule.name = std::move(name);
  rule.kind = RuleKind::kBreaker;
  rule.breaker.error_count = errors;
  rule.breaker.min_calls = min_calls;
  return rule;
}

inline SystemRule MostCpu(double part) {
  SystemRule most;
  most.cpu = part;
  return most;
}
inline SystemRule MostLoad(double load) {
  SystemRule most;
  most.load = load;
  return most;
}
inline SystemRule MostMeanTime(Duration time) {
  SystemRule most;
  most.avg_rt = time;
  return most;
}
inline SystemRule MostInflight(int64_t calls) {
  SystemRule most;
  most.inflight = calls;
  return most;
}
inline SystemRule MostQps(int64_t requests) {
  SystemRule most;
  most.qps = requests;
  return most;
}
// What each of them says.
inline SystemRule MostOf(std::initializer_list<SystemRule> all) {
  SystemRule most;
  for (const SystemRule& one : all) {
    if (one.cpu) most.cpu = one.cpu;
    if (one.load) most.load = one.load;
    if (one.avg_rt) most.avg_rt = one.avg_rt;
    if (one.inflight) most.inflight = one.inflight;
    if (one.qps) most.qps = one.qps;
  }
  return most;
}

inline Rule RuleOfSystem(std::string name, const SystemRule& most) {
  Rule rule;
  rule.name = std::move(name);
  rule.kind = RuleKind::kSystem;
  rule.system = most;
  return rule;
}

inline Rule SharedRule(std::string name, int64_t limit, Duration window,
                       StoreFailurePolicy policy = StoreFailurePolicy::kClosed) {
  Rule rule = LimitRule(std::move(name), limit, window);
  rule.scope = Scope::kShared;
  rule.on_store_failure = policy;
  return rule;
}

}  // namespace flowguard::testing
