// SPDX-License-Identifier: Apache-2.0
#include "dialects/rule_reader.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "base/bounds.h"
#include "dialects/rule_words.h"
#include "rules/check_rule.h"

namespace flowguard::dialects {

namespace {

using text::Quote;

constexpr CountBounds kUnits = {0, base::kLimitMax};
constexpr CountBounds kCostUnits = {0, base::kCostMax};

// A rule while its fields come in; what depends on its kind waits until all are
// known.
struct RuleDraft {
  Rule rule;
  const text::Node* limit = nullptr;
  const text::Node* concurrency = nullptr;
  const text::Node* access = nullptr;
  const text::Node* breaker = nullptr;
  const text::Node* system = nullptr;
  const text::Node* overrides = nullptr;
};

// A scalar of N/unit [burst B], or {rate, burst}.
struct RateFields {
  std::optional<Rate> rate;
  std::optional<int64_t> burst;
};

void ReadRateText(const Value& value, RateFields& out) {
  std::string text;
  if (!ReadString(value, text)) return;
  const Read<RateText> rate = ReadRate(text);
  if (!rate.ok()) {
    value.Fault(rate.fault().message, rate.fault().offset);
    return;
  }
  if (rate->burst && out.burst)
    value.Fault("burst stands in the rate and beside it; once is enough");
  out.rate = rate->rate;
  if (rate->burst) out.burst = rate->burst;
}

void ReadBurst(const Value& value, RateFields& out) {
  int64_t burst = 0;
  if (out.burst) value.Fault("burst stands in the rate and beside it; once is enough");
  if (ReadInteger(value, {1, base::kLimitMax}, burst)) out.burst = burst;
}

constexpr Field<RateFields> kRateFields[] = {
    {"rate", ReadRateText},
    {"burst", ReadBurst},
};

void NeedRate(const Value& map) {
  if (map.node.Find("rate") == nullptr)
    map.Fault("rate is missing; write {rate: 100/s, burst: 200}");
}

bool ReadLimit(const Value& value, RateFields& out) {
  if (!value.node.IsMap()) {
    ReadRateText(value, out);
  } else if (ReadMap(value, kRateFields, out)) {
    NeedRate(value);
  }
  return out.rate.has_value();
}

struct OverrideFields {
  RateFields rate;
  ValueType type = ValueType::kAny;
};

constexpr Field<OverrideFields> kOverrideFields[] = {
    {"rate", [](const Value& v, OverrideFields& out) { ReadRateText(v, out.rate); }},
    {"burst", [](const Value& v, OverrideFields& out) { ReadBurst(v, out.rate); }},
    {"type", [](const Value& v, OverrideFields& out) { ReadWord(v, kValueTypeWords, out.type); }},
};

constexpr Field<Cost> kCostFields[] = {
    {"reserve", [](const Value& v, Cost& cost) { ReadInteger(v, kCostUnits, cost.reserve); }},
    {"settle", [](const Value& v, Cost& cost) { ReadString(v, cost.settle); }},
    {"max_debt", [](const Value& v, Cost& cost) { ReadInteger(v, kCostUnits, cost.max_debt); }},
};

void ReadCost(const Value& value, Cost& cost) {
  if (value.node.IsScalar()) {
    ReadInteger(value, kCostUnits, cost.reserve);
  } else {
    ReadMap(value, kCostFields, cost);
  }
}

constexpr Field<Lease> kLeaseFields[] = {
    {"overshoot",
     [](const Value& v, Lease& lease) {
       ReadInteger(v, {1, base::kLimitMax}, lease.overshoot);
     }},
};

void ReadLease(const Value& value, Lease& lease) {
  if (ReadMap(value, kLeaseFields, lease) && value.node.Find("overshoot") == nullptr) {
    value.Fault("overshoot is missing; write {overshoot: 100}");
  }
}

constexpr Field<Rule> kAccessFields[] = {
    {"allow", [](const Value& v, Rule& rule) { ReadValuesByDimension(v, rule.allow); }},
    {"deny", [](const Value& v, Rule& rule) { ReadValuesByDimension(v, rule.deny); }},
};

constexpr DurationBounds kBreakerWindows = {base::kBreakerWindowMin, base::kBreakerWindowMax};
constexpr DurationBounds kSlowTimes = {base::kBreakerSlowMin, base::kBreakerOpenMax};
constexpr DurationBounds kOpenTimes = {base::kBreakerOpenMin, base::kBreakerOpenMax};
constexpr CountBounds kBreakerCalls = {1, base::kBreakerCallsMax};

void ReadOptionalFraction(const Value& value, std::optional<double>& out) {
  double ratio = 0;
  if (ReadFraction(value, ratio)) out = ratio;
}

constexpr Field<BreakerRule> kSlowFields[] = {
    {"over",
     [](const Value& v, BreakerRule& breaker) { ReadTime(v, kSlowTimes, breaker.slow_over); }},
    {"ratio",
     [](const Value& v, BreakerRule& breaker) { ReadOptionalFraction(v, breaker.slow_ratio); }},
};

constexpr Field<BreakerRule> kErrorFields[] = {
    {"ratio",
     [](const Value& v, BreakerRule& breaker) { ReadOptionalFraction(v, breaker.error_ratio); }},
    {"count",
     [](const Value& v, BreakerRule& breaker) {
       int64_t count = 0;
       if (ReadInteger(v, {0, base::kBreakerCallsMax}, count)) breaker.error_count = count;
     }},
};

void ReadSlow(const Value& value, BreakerRule& breaker) {
  if (!ReadMap(value, kSlowFields, breaker)) return;
  for (const std::string_view needed : {"over", "ratio"}) {
    if (value.node.Find(needed) == nullptr)
      value.Fault(std::string(needed) + " is missing; write {over: 800ms, ratio: 0.5}");
  }
}

void ReadErrors(const Value& value, BreakerRule& breaker) {
  if (!ReadMap(value, kErrorFields, breaker)) return;
  const bool ratio = value.node.Find("ratio") != nullptr;
  if (ratio == (value.node.Find("count") != nullptr))
    value.Fault(std::string("found ") + (ratio ? "both" : "neither") +
                " of ratio and count; write {ratio: 0.5} or {count: 10}");
}

constexpr Field<BreakerRule> kBreakerFields[] = {
    {"slow", ReadSlow},
    {"errors", ReadErrors},
    {"min_calls", [](const Value& v,
                     BreakerRule& breaker) { ReadInteger(v, kBreakerCalls, breaker.min_calls); }},
    {"window",
     [](const Value& v, BreakerRule& breaker) { ReadTime(v, kBreakerWindows, breaker.window); }},
    {"open_for",
     [](const Value& v, BreakerRule& breaker) { ReadTime(v, kOpenTimes, breaker.open_for); }},
    {"probes",
     [](const Value& v, BreakerRule& breaker) {
       ReadSmallInteger(v, {1, base::kBreakerProbesMax}, breaker.probes);
     }},
};

void FinishBreaker(const Value& value, RuleDraft& draft) {
  draft.rule.kind = RuleKind::kBreaker;
  const Value breaker = value.Part("breaker", *draft.breaker);
  if (!ReadMap(breaker, kBreakerFields, draft.rule.breaker)) return;
  const bool slow = draft.breaker->Find("slow") != nullptr;
  if (slow == (draft.breaker->Find("errors") != nullptr))
    breaker.Fault(std::string("found ") + (slow ? "both" : "neither") +
                  " of slow and errors; a breaker opens by one of them" +
                  (slow ? ", write a rule for each" : ""));
}

// Of all fields, in the order in which they are written.
constexpr Field<RuleDraft> kRuleFields[] = {
    {"name", [](const Value& v, RuleDraft& d) { ReadString(v, d.rule.name); }},
    {"enabled", [](const Value& v, RuleDraft& d) { ReadBool(v, d.rule.enabled); }},
    {"shadow", [](const Value& v, RuleDraft& d) { ReadBool(v, d.rule.shadow); }},
    {"on", [](const Value& v, RuleDraft& d) { ReadTarget(v, d.rule.on); }},
    {"limit", [](const Value& v, RuleDraft& d) { d.limit = &v.node; }},
    {"concurrency", [](const Value& v, RuleDraft& d) { d.concurrency = &v.node; }},
    {"access", [](const Value& v, RuleDraft& d) { d.access = &v.node; }},
    {"breaker", [](const Value& v, RuleDraft& d) { d.breaker = &v.node; }},
    {"system", [](const Value& v, RuleDraft& d) { d.system = &v.node; }},
    {"algorithm",
     [](const Value& v, RuleDraft& d) { ReadWord(v, kAlgorithmWords, d.rule.algorithm); }},
    {"buckets",
     [](const Value& v, RuleDraft& d) {
       ReadSmallInteger(v, {1, base::kBucketsMax}, d.rule.buckets);
     }},
    {"wait",
     [](const Value& v, RuleDraft& d) {
       ReadTime(v, {Duration{}, base::kWaitMax}, d.rule.wait);
     }},
    {"borrow",
     [](const Value& v, RuleDraft& d) {
       ReadTime(v, {Duration{}, base::kWaitMax}, d.rule.borrow);
     }},
    {"warm_up",
     [](const Value& v, RuleDraft& d) {
       ReadTime(v, {base::kWindowMin, base::kWarmUpMax}, d.rule.warm_up);
     }},
    {"cold_factor",
     [](const Value& v, RuleDraft& d) {
       ReadSmallInteger(v, {1, base::kColdFactorMax}, d.rule.cold_factor);
     }},
    {"count_refused", [](const Value& v, RuleDraft& d) { ReadBool(v, d.rule.count_refused); }},
    {"cost", [](const Value& v, RuleDraft& d) { ReadCost(v, d.rule.cost); }},
    {"relate_to", [](const Value& v, RuleDraft& d) { ReadRelation(v, d.rule.relate_to); }},
    {"by", [](const Value& v, RuleDraft& d) { ReadStrings(v, d.rule.by); }},
    {"overrides", [](const Value& v, RuleDraft& d) { d.overrides = &v.node; }},
    {"scope", [](const Value& v, RuleDraft& d) { ReadWord(v, kScopeWords, d.rule.scope); }},
    {"on_store_failure",
     [](const Value& v, RuleDraft& d) {
       ReadWord(v, kStoreFailureWords, d.rule.on_store_failure);
     }},
    {"lease", [](const Value& v, RuleDraft& d) { ReadLease(v, d.rule.lease); }},
    {"shards",
     [](const Value& v, RuleDraft& d) {
       ReadSmallInteger(v, {1, base::kShardsMax}, d.rule.shards);
     }},
    {"prefilter", [](const Value& v, RuleDraft& d) { ReadBool(v, d.rule.prefilter); }},
    {"tag", [](const Value& v, RuleDraft& d) { ReadWord(v, kCellTagWords, d.rule.tag); }},
    {"flow_id",
     [](const Value& v, RuleDraft& d) {
       ReadInteger(v, {1, std::numeric_limits<int64_t>::max()}, d.rule.cluster.flow_id);
     }},
    {"namespace", [](const Value& v, RuleDraft& d) { ReadString(v, d.rule.cluster.name_space); }},
    {"per_client", [](const Value& v, RuleDraft& d) { ReadBool(v, d.rule.cluster.per_client); }},
    {"token_ttl",
     [](const Value& v, RuleDraft& d) {
       ReadTime(v, {base::kTokenTtlMin, base::kTokenTtlMax}, d.rule.cluster.token_ttl);
     }},
    {"refuse", [](const Value& v, RuleDraft& d) { ReadRefuse(v, d.rule.refuse); }},
    {"degrade", [](const Value& v, RuleDraft& d) { ReadDegrade(v, d.rule.degrade); }},
    {"burst",
     [](const Value& v, RuleDraft&) { v.Fault("belongs to limit; write limit: 100/s burst 200"); },
     Told::kNo},
};

// Fields that say something in rules of some kinds only.
enum Kinds : uint8_t { kOfLimit = 1, kOfConcurrency = 2, kOfBreaker = 4 };
struct KindOnly {
  std::string_view field;
  uint8_t kinds;
  std::string_view owners;
};
constexpr std::string_view kLimitWord = "limit";
constexpr std::string_view kConcurrencyWord = "concurrency";
constexpr std::string_view kCountingWords = "limit or concurrency";
constexpr std::string_view kKeyedWords = "limit, concurrency or breaker";
constexpr KindOnly kKindOnly[] = {
    {"algorithm", kOfLimit, kLimitWord},
    {"buckets", kOfLimit, kLimitWord},
    {"wait", kOfLimit, kLimitWord},
    {"borrow", kOfLimit, kLimitWord},
    {"warm_up", kOfLimit, kLimitWord},
    {"cold_factor", kOfLimit, kLimitWord},
    {"count_refused", kOfLimit, kLimitWord},
    {"cost", kOfLimit, kLimitWord},
    {"lease", kOfLimit, kLimitWord},
    {"shards", kOfLimit, kLimitWord},
    {"prefilter", kOfLimit, kLimitWord},
    {"relate_to", kOfLimit | kOfConcurrency, kCountingWords},
    {"scope", kOfLimit | kOfConcurrency, kCountingWords},
    {"on_store_failure", kOfLimit | kOfConcurrency, kCountingWords},
    {"tag", kOfLimit | kOfConcurrency, kCountingWords},
    {"flow_id", kOfLimit | kOfConcurrency, kCountingWords},
    {"namespace", kOfLimit | kOfConcurrency, kCountingWords},
    {"per_client", kOfLimit | kOfConcurrency, kCountingWords},
    {"token_ttl", kOfConcurrency, kConcurrencyWord},
    {"by", kOfLimit | kOfConcurrency | kOfBreaker, kKeyedWords},
    {"overrides", kOfLimit | kOfConcurrency, kCountingWords},
};

uint8_t BitOf(RuleKind kind) {
  switch (kind) {
    case RuleKind::kLimit:
      return kOfLimit;
    case RuleKind::kConcurrency:
      return kOfConcurrency;
    case RuleKind::kBreaker:
      return kOfBreaker;
    case RuleKind::kSystem:
    case RuleKind::kAccess:
      break;
  }
  return 0;
}

void RefuseFieldsOfOtherKinds(const Value& value, const Rule& rule) {
  for (const text::Member& member : value.node.members) {
    for (const KindOnly& only : kKindOnly) {
      if (only.field != member.key || (only.kinds & BitOf(rule.kind)) != 0) continue;
      value.problems.Fault(member.key_at, member.key + ": goes with " + std::string(only.owners) +
                                              ", not with " +
                                              std::string(rules::NameOf(rule.kind)));
    }
  }
}

// Fields that mean nothing where the requests that a rule refuses take nothing.
void RefuseFieldsBesideRelation(const Value& value) {
  if (value.node.Find("relate_to") == nullptr) return;
  for (const std::string_view field :
       {"wait", "borrow", "count_refused", "cost", "by", "overrides"}) {
    const text::Node* node = value.node.Find(field);
    if (node != nullptr) value.Part(field, *node).Fault("does not go with relate_to");
  }
}

// Fields that only a token server looks at.
void RefuseFieldsOfOtherScopes(const Value& value, const Rule& rule) {
  if (rule.scope == Scope::kCluster || !CountsUnits(rule.kind)) return;
  for (const std::string_view field : {"flow_id", "namespace", "per_client", "token_ttl"}) {
    const text::Node* node = value.node.Find(field);
    if (node == nullptr) continue;
    value.Part(field, *node)
        .Fault("goes with scope: cluster, not with " +
               std::string(WordOf(kScopeWords, rule.scope)));
  }
}

// Fields that only some algorithms look at would be dead in the others.
void RefuseFieldsOfOtherAlgorithms(const Value& value, const RuleDraft& draft) {
  const Algorithm algorithm = draft.rule.algorithm;
  const std::string word(WordOf(kAlgorithmWords, algorithm));
  const text::Node* buckets = value.node.Find("buckets");
  if (buckets != nullptr && algorithm != Algorithm::kSlidingBuckets) {
    value.Part("buckets", *buckets).Fault("goes with sliding_buckets, not with " + word);
  }
  const text::Node* wait = value.node.Find("wait");
  if (wait != nullptr && !rules::HasWait(algorithm)) {
    value.Part("wait", *wait)
        .Fault("goes with token_bucket, leaky_bucket, smooth_bursty or warm_up, not with " + word);
  }
  const text::Node* borrow = value.node.Find("borrow");
  if (borrow != nullptr && !rules::HasBorrow(algorithm)) {
    value.Part("borrow", *borrow)
        .Fault("goes with token_bucket, sliding_log, sliding_buckets or leap_array, not with " +
               word);
  }
  if (draft.rule.burst && !rules::HasBurst(algorithm)) {
    value.Part("limit", *draft.limit)
        .Fault("burst goes with token_bucket, smooth_bursty or step_bucket, not with " + word);
  }
  for (const std::string_view field : {"warm_up", "cold_factor"}) {
    const text::Node* node = value.node.Find(field);
    if (node == nullptr || rules::HasWarmUp(algorithm)) continue;
    value.Part(field, *node).Fault("goes with warm_up or warm_up_window, not with " + word);
  }
}

// One exception for `key`: a limit, or {rate, burst, type}.
void ReadOverride(const Value& value, const std::string& key, Rule& rule) {
  OverrideFields fields;
  if (!value.node.IsMap()) {
    ReadRateText(value, fields.rate);
  } else if (ReadMap(value, kOverrideFields, fields)) {
    NeedRate(value);
    const text::Node* type = value.node.Find("type");
    if (type != nullptr && rule.scope != Scope::kCluster)
      value.Part("type", *type)
          .Fault("goes with scope: cluster, not with " +
                 std::string(WordOf(kScopeWords, rule.scope)));
  }
  if (fields.rate.rate)
    rule.overrides.push_back({key, *fields.rate.rate, fields.rate.burst, fields.type});
}

void ReadOverrides(const Value& value, Rule& rule) {
  if (!IsMap(value)) return;
  for (const text::Member& member : value.node.members) {
    const Value exception = value.Part("overrides", member.value);
    if (rule.kind == RuleKind::kConcurrency) {
      Override one;
      one.value = member.key;
      if (ReadInteger(exception, kUnits, one.rate.limit)) rule.overrides.push_back(std::move(one));
    } else if (exception.node.IsSequence()) {  // one for each type of the value
      if (exception.node.items.empty()) exception.Fault("the list is empty; write 100/s");
      for (const text::Node& item : exception.node.items)
        ReadOverride(value.Part("overrides", item), member.key, rule);
    } else {
      ReadOverride(exception, member.key, rule);
    }
  }
}

void FinishLimit(const Value& value, RuleDraft& draft) {
  draft.rule.kind = RuleKind::kLimit;
  RateFields fields;
  const Value limit = value.Part("limit", *draft.limit);
  if (!ReadLimit(limit, fields)) return;
  draft.rule.rate = *fields.rate;
  draft.rule.burst = fields.burst;
  if (fields.rate->limit == 0 && draft.rule.enabled) {
    value.problems.Warn(draft.limit->at,
                        "limit: 0 refuses every request; `enabled: false` switches a rule off");
  }
  RefuseFieldsOfOtherAlgorithms(value, draft);
}

// Settles the kind of the rule and reads what hangs on it.
void FinishRule(const Value& value, RuleDraft& draft) {
  const int kinds = (draft.limit != nullptr) + (draft.concurrency != nullptr) +
                    (draft.access != nullptr) + (draft.breaker != nullptr) +
                    (draft.system != nullptr);
  if (kinds == 0) {
    value.Fault("no limit, concurrency, access, breaker or system; one of them is needed");
    return;
  }
  if (kinds > 1) {
    value.Fault(
        "more than one of limit, concurrency, access, breaker and system; write a rule for each");
    return;
  }
  if (draft.limit != nullptr) {
    FinishLimit(value, draft);
  } else if (draft.concurrency != nullptr) {
    draft.rule.kind = RuleKind::kConcurrency;
    ReadInteger(value.Part("concurrency", *draft.concurrency), kUnits, draft.rule.concurrency);
  } else if (draft.breaker != nullptr) {
    FinishBreaker(value, draft);
  } else if (draft.system != nullptr) {
    draft.rule.kind = RuleKind::kSystem;
    ReadSystem(value.Part("system", *draft.system), draft.rule.system);
  } else {
    draft.rule.kind = RuleKind::kAccess;
    ReadMap(value.Part("access", *draft.access), kAccessFields, draft.rule);
  }
  if (draft.overrides != nullptr && draft.rule.kind != RuleKind::kAccess) {
    ReadOverrides(value.Part("overrides", *draft.overrides), draft.rule);
  }
  if (draft.rule.scope != Scope::kLocal && draft.rule.kind != RuleKind::kAccess &&
      value.node.Find("on_store_failure") == nullptr) {
    const bool shared = draft.rule.scope == Scope::kShared;
    value.problems.Warn(value.node.Find("scope")->at,
                        "scope: " + std::string(WordOf(kScopeWords, draft.rule.scope)) +
                            " without on_store_failure; while " +
                            (shared ? "the store is away" : "no token server answers") +
                            " each process grants its share of the limit (`on_store_failure: "
                            "local`)");
  }
  RefuseFieldsOfOtherKinds(value, draft.rule);
  RefuseFieldsBesideRelation(value);
  RefuseFieldsOfOtherScopes(value, draft.rule);
}

}  // namespace

void ReadRules(const Value& value, std::vector<Rule>& rules) {
  if (!IsSequence(value)) return;
  std::map<std::string, text::Position, std::less<>> named;
  for (const text::Node& node : value.node.items) {
    RuleDraft draft;
    const Value item = value.Part("rule", node);
    if (!ReadMap(item, kRuleFields, draft)) continue;
    draft.rule.origin = value.problems.Place(node.at);
    if (node.Find("name") == nullptr) item.Fault("name is missing");
    FinishRule(item, draft);
    if (const text::Node* name = node.Find("name"); name != nullptr && name->IsScalar()) {
      const auto [first, is_new] = named.emplace(name->scalar, name->at);
      if (!is_new) {
        item.Part("name", *name)
            .Fault(Quote(name->scalar) + " is the name of another rule, at " +
                   value.problems.Place(first->second));
      }
    }
    rules.push_back(std::move(draft.rule));
  }
}

}  // namespace flowguard::dialects
