// SPDX-License-Identifier: Apache-2.0
//
// What is asked and what is answered.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "flowguard/rule.h"
#include "flowguard/time.h"

namespace flowguard {

// One dimension of a request: {"user", "u42"}, {"ip", "192.0.2.7"}, {"param:sku", "1001"}.
// Values are taken as they are.  An address is the caller's to spell one way and, where
// all of an IPv6 /64 is one client, to cut to that ("2001:db8:1:2::/64"): other texts
// are other clients.  Lists and overrides of addresses know all spellings.
//
// A name that stands several times has a list of values, {"param:sku", "1001"},
// {"param:sku", "1002"}.  Under a rule that is keyed by it each value has a key of its own
// (of lists in several parts of a key: each combination), and the request goes only if all
// of them let it; else it takes nothing of any.  A value that stands twice takes twice.  An
// access rule lets no value through that is denied, and only those that are all allowed;
// conditions of targets look at the first value alone.
//
// One request has room for 32 keys under all of its rules together, each rule having one
// for itself, and for 8 of shared rules: a request whose lists need more is refused with
// kOverload, or by a rule in shadow or that degrades let go on as over its limit.
struct DimensionValue {
  std::string_view name;
  std::string_view value;
};

// A request or call, as its caller describes it.  Views need to live until the
// call that takes the Request returns.
struct Request {
  std::string_view resource{};  // "order:create"; may be empty when a path is given
  std::string_view method{};    // for route rules
  // For route rules: without query, and normalised by the caller, as routes are written:
  // no dot segments or empty ones, escapes only where needed and in capitals.  It is
  // compared as it is: another spelling escapes the rule.
  std::string_view path{};
  std::span<const DimensionValue> dimensions{};
  int64_t cost = 0;  // units, of each key; 0: what each rule reserves (1 unless told).
                     // Negative: refused with kInvalidCost and nothing taken
  // Of rules that let prioritised requests borrow, this one may; it waits for what it
  // borrowed as for any wait (kWait, CheckFor, Enter with a timeout).
  bool priority = false;
};

enum class Verdict : uint8_t {
  kAllow,   // go
  kWait,    // go after `wait`; what was taken stays taken
  kRefuse,  // do not go; nothing was taken
};

enum class Reason : uint8_t {
  kNone,
  kLimit,
  kConcurrency,
  kAccess,
  kStoreFailure,      // a shared rule that fails closed
  kMissingDimension,  // a dimension whose policy is to refuse
  kInvalidCost,       // negative, or above what a rule can ever grant
  kOverload,          // too many waiting already, or more values than one request may have
  kBreaker,           // the breaker is open, or its probes are under way
  kSystem,            // the process carries more than a system rule allows
};

// What a client is told of the rule that decided.
struct RuleInfo {
  std::string name;
  RuleKind kind = RuleKind::kLimit;
  bool shadow = false;
  Rate rate;      // as written; concurrency rules: {limit, 0}
  Refuse refuse;  // status filled in
  Degrade degrade;
};

// The answer: a verdict and five numbers.  When several rules match, the numbers
// are those of the rule that refused with the longest wait, or else of the one
// with the least remaining (ties: the longest reset).
//
// Memory: no allocation.  `rule` points into text that the Guard keeps for its
// whole life, and is null when no rule matched.
struct [[nodiscard]] Decision {
  Verdict verdict = Verdict::kAllow;
  Reason reason = Reason::kNone;
  bool degraded = false;   // a degrade rule was over its limit; see rule->degrade
  int64_t limit = 0;       // units
  int64_t remaining = 0;   // units, within [0, limit]
  Duration reset_after{};  // until the whole quota is there again
  Duration
      retry_after{};  // least wait for this cost; kNever: waiting does not help; 0 when allowed
  Duration wait{};    // kWait only
  Duration window{};  // in which `limit` units come back; 0: the rule has no rate
  const RuleInfo* rule = nullptr;

  [[nodiscard]] bool allowed() const noexcept { return verdict != Verdict::kRefuse; }
};

// How a guarded call ended.
enum class Outcome : uint8_t { kOk, kError, kIgnoredError, kCancelled };

}  // namespace flowguard
