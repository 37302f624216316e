// SPDX-License-Identifier: Apache-2.0
//
// Rules as plain data.  A rule file is parsed into this model, and a program may
// fill it in by hand; either way Guard::Create and Guard::Reload check it whole
// and name what is wrong.  The text form is described in docs/rules.md.
//
// Threads: plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "flowguard/time.h"

namespace flowguard {

class RegexEngine;

// Named by what they guarantee; bounds and state sizes are in docs/algorithms.md.
enum class Algorithm : uint8_t {
  kTokenBucket,
  kLeakyBucket,
  kSlidingLog,
  kSlidingBuckets,
  kSlidingWindow,
  kFixedWindow,
  kWeightedAverage,
  kSmoothBursty,  // Guava's RateLimiter.create(rate)
  kWarmUp,        // Guava's RateLimiter.create(rate, period)
  kWarmUpWindow,  // Sentinel's warm-up
  kLeapArray,     // Sentinel's count of a second, in two halves
  kStepBucket,    // Sentinel's bucket of a hot parameter
};

enum class RuleKind : uint8_t { kLimit, kConcurrency, kAccess, kBreaker, kSystem };

// Rules of these kinds have a number of units that is left.
[[nodiscard]] constexpr bool CountsUnits(RuleKind kind) noexcept {
  return kind == RuleKind::kLimit || kind == RuleKind::kConcurrency;
}

// Where a rule's cells live: in the process, in a store that all share, or at a token server.
enum class Scope : uint8_t { kLocal, kShared, kCluster };

// What a shared rule does while its store cannot answer, a cluster rule while no token server
// does.
enum class StoreFailurePolicy : uint8_t { kLocal, kOpen, kClosed };

// `limit` units per `window`.  limit 0 refuses everything.
struct Rate {
  int64_t limit = 0;
  Duration window{};

  friend bool operator==(const Rate&, const Rate&) = default;
};

// Values of one dimension.  A value matches exactly, as a CIDR block (dimension ip; the
// whole address is compared), or by a trailing '*'.
struct ValuesOf {
  std::string dimension;
  std::vector<std::string> values;

  friend bool operator==(const ValuesOf&, const ValuesOf&) = default;
};

// What a request is about.  All empty: every request.
struct Target {
  // "order:create", "order:*" (prefix), or empty.
  std::string resource;
  // RE2 syntax, matched against the whole resource; or empty.
  std::string resource_regex;
  // "POST /orders/{id}", "/partner/**", "GET|HEAD /a/*", or empty.  `*` stands for
  // one segment, `**` (last) for any number of them, none included.
  std::string route;
  // Of the requests above, those whose value is listed under each of `only` (the name of
  // a caller: Sentinel's limitApp), and under none of `except`.  A request without the
  // dimension, and whose dimension has no shared value, is on no list.
  std::vector<ValuesOf> only;
  std::vector<ValuesOf> except;

  friend bool operator==(const Target&, const Target&) = default;
};

// What a value is to callers that tell: those of a token server.  kAny: of whatever type it
// is, its text counts.
enum class ValueType : uint8_t {
  kAny,
  kInt,
  kLong,
  kByte,
  kDouble,
  kFloat,
  kShort,
  kBool,
  kString
};

// One limit value with its burst; the per-value exceptions of a keyed rule.
struct Override {
  std::string value;  // of the first dimension of `by`; of ip also a CIDR block
  Rate rate;
  std::optional<int64_t> burst;
  ValueType type = ValueType::kAny;  // scope cluster only

  friend bool operator==(const Override&, const Override&) = default;
};

// Costs that are known only afterwards: reserve now, settle with the actual cost.
struct Cost {
  int64_t reserve = 1;   // units taken at entry when the request names none
  std::string settle;    // "header:x-usage-tokens": where the gateway reads the actual cost
  int64_t max_debt = 0;  // units an entry may overdraw, paid off by later requests

  friend bool operator==(const Cost&, const Cost&) = default;
};

// Which shared cells live together on one server of a cluster.
enum class CellTag : uint8_t {
  kKey,       // those of equal keys; keys spread
  kResource,  // those of all rules and keys of the rule's resource
};

// Units that a process takes ahead, so that most requests ask no store.
struct Lease {
  // Units that all processes together may hold ahead, and so the most that is admitted
  // beyond the limit; 0: nothing is taken ahead.
  int64_t overshoot = 0;

  friend bool operator==(const Lease&, const Lease&) = default;
};

// How a token server counts a rule of scope cluster.
struct ClusterCount {
  // Names the count at the server; 0: made from the rule's name.  One for all limits without
  // a key of a set, for all with one, and for all of concurrency.
  int64_t flow_id = 0;
  // Whose clients count for per_client, and whose questions are bounded together; empty: the
  // namespace "default", which every client is of.
  std::string name_space{};
  bool per_client = false;  // the limit counts once for each client that is connected
  // kConcurrency: what a client has not given back after so long is free again.
  Duration token_ttl = std::chrono::seconds(2);

  friend bool operator==(const ClusterCount&, const ClusterCount&) = default;
};

enum class RefuseBody : uint8_t { kProblem, kUnified, kText };

// How a refusal looks to a client.
struct Refuse {
  int status = 0;  // 0: by kind (limit 429, access 403, the others 503)
  std::string message;
  std::vector<std::pair<std::string, std::string>> headers;
  std::optional<RefuseBody> body;  // unset: as the server is configured

  friend bool operator==(const Refuse&, const Refuse&) = default;
};

// Instead of a refusal: let the request go on, marked, so that the application
// (or the gateway's upstream) serves the cheaper answer.
struct Degrade {
  bool enabled = false;
  // Request header that a server sets for the upstream; empty: "x-degraded: 1".  None of
  // that name is taken from a client.
  std::string header;
  int status = 0;  // or answer with this status and body at once (0: pass on marked)
  std::string body;
  std::string content_type;

  friend bool operator==(const Degrade&, const Degrade&) = default;
};

// Lists of allowed and denied values by dimension.  deny wins; with an allow list, what
// is not on it is refused.
using AccessList = ValuesOf;

// When a breaker opens, and how it closes again.  One of the conditions is set.  They look
// at the calls that ended within `window`, once there are `min_calls` of them.
struct BreakerRule {
  std::optional<double> slow_ratio;    // more than this part is slower than slow_over; or all
  std::optional<double> error_ratio;   // more than this part settles as errors; or all
  std::optional<int64_t> error_count;  // more than so many settle as errors
  Duration slow_over{};                // slow_ratio only
  int64_t min_calls = 20;
  Duration window = std::chrono::seconds(10);
  Duration open_for = std::chrono::seconds(5);  // refuses all; then probes
  int probes = 1;  // calls let through at once to try; that many successes in a row close it

  friend bool operator==(const BreakerRule&, const BreakerRule&) = default;
};

// The most that a process may carry; what is unset is not looked at.  While one of them
// is exceeded, requests that the rule meets are refused.
struct SystemRule {
  std::optional<double> load;       // 1-minute load average
  std::optional<double> cpu;        // busy part of the processors it may use, 0..1
  std::optional<Duration> avg_rt;   // mean response time of the last second
  std::optional<int64_t> inflight;  // requests in progress
  std::optional<int64_t> qps;       // requests admitted in the last second

  friend bool operator==(const SystemRule&, const SystemRule&) = default;
};

struct Rule {
  std::string name;  // unique within a set
  bool enabled = true;
  bool shadow = false;  // decided and counted, not enforced
  RuleKind kind = RuleKind::kLimit;
  Target on;

  // kLimit
  Rate rate;
  std::optional<int64_t> burst;  // token_bucket and smooth_bursty only; default: limit
  Algorithm algorithm = Algorithm::kTokenBucket;
  int buckets = 10;  // sliding_buckets only
  Duration wait{};   // token_bucket, leaky_bucket, smooth_bursty and warm_up only
  // token_bucket, sliding_log, sliding_buckets and leap_array, not shared: how far ahead
  // prioritised requests may take units when there are none; they wait for them.
  Duration borrow{};
  // warm_up and warm_up_window only, which need the first.
  Duration warm_up{};   // from cold to warm, under load; and, of warm_up, back
  int cold_factor = 3;  // how many times slower than the rate when cold
  bool count_refused = false;
  Cost cost;
  // kLimit and kConcurrency, local and without a key: calls of this resource are what is
  // counted, and never refused by it; those that the rule meets are refused while it is
  // used up (Sentinel's strategy "relate").  Empty: they count themselves.
  std::string relate_to;

  // kConcurrency
  int64_t concurrency = 0;

  // kLimit and kConcurrency: where its cells live
  Scope scope = Scope::kLocal;
  StoreFailurePolicy on_store_failure = StoreFailurePolicy::kLocal;
  CellTag tag = CellTag::kKey;

  // kLimit with scope shared
  Lease lease;
  int shards = 1;          // each cell is split in so many, with a part of the limit each
  bool prefilter = false;  // refuse what this process alone has used up without asking

  // kLimit and kConcurrency with scope cluster
  ClusterCount cluster;

  // kLimit and kConcurrency
  std::vector<std::string> by;  // dimensions of the key; empty: one cell for all
  std::vector<Override> overrides;

  // kAccess
  std::vector<AccessList> allow;
  std::vector<AccessList> deny;

  // kBreaker
  BreakerRule breaker;

  // kSystem
  SystemRule system;

  Refuse refuse;
  Degrade degrade;

  // Where the rule was written, "rules.yaml:12:5"; for messages only, and no part
  // of its identity.
  std::string origin;
};

enum class MissingPolicy : uint8_t { kShare, kSkip, kRefuse };

// How a named dimension is found in a request, and what happens when it is not.
struct DimensionSpec {
  std::string name;    // "tenant"
  std::string source;  // "header:x-tenant-id", "cookie:sid", "query:t", "path:id", "ip", "method"
  MissingPolicy missing = MissingPolicy::kShare;
  std::string missing_value;  // kShare: the value that all such requests share
  bool trim = false;
  bool lower = false;

  friend bool operator==(const DimensionSpec&, const DimensionSpec&) = default;
};

// Which of several matching rules of one kind apply.
enum class MatchMode : uint8_t { kAll, kMostSpecific };

// Whose counting the rules of a set are to reproduce.  kSentinel: sliding_log and
// sliding_buckets count as leap_array does, token_bucket as step_bucket, and breakers in
// intervals on the clock; docs/sentinel.md has what that means.  Shared rules count as ever.
enum class Compat : uint8_t { kNone, kSentinel };

struct RuleSet {
  std::vector<Rule> rules;
  std::vector<DimensionSpec> dimensions;
  MatchMode match = MatchMode::kAll;
  Compat compat = Compat::kNone;
  // What resource_regex is matched by; outlives every guard that has the set.  May be null
  // where no rule has one.
  const RegexEngine* regex = nullptr;
};

}  // namespace flowguard
