// SPDX-License-Identifier: Apache-2.0
#include "rules/compile.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "flowguard/regex.h"

#include "base/bounds.h"
#include "base/hash.h"
#include "rules/address_block.h"
#include "rules/breaker_spec.h"
#include "rules/check_rule.h"
#include "rules/cluster_key.h"
#include "rules/compat.h"
#include "rules/dimension_table.h"
#include "rules/faults.h"
#include "rules/flow_id.h"
#include "rules/key.h"
#include "rules/route.h"

namespace flowguard::rules {

namespace {

// `name` is in lower case.
bool IsHopByHop(std::string_view name) noexcept {
  constexpr std::array<std::string_view, 6> kNames = {
      "connection", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

void AppendPart(std::string& text, std::string_view part) {
  const uint64_t size = part.size();
  text.append(reinterpret_cast<const char*>(&size), sizeof size);
  text.append(part);
}

// See Quota::identity.  The same in every process, for stores key by it.
uint64_t IdentityOf(const Rule& rule, const std::vector<KeyPart>& by, Duration window) {
  std::string text;
  AppendPart(text, rule.name);
  AppendPart(text, NameOf(rule.kind));
  AppendPart(text, NameOf(rule.algorithm));
  AppendPart(text, NameOf(rule.scope));
  for (const KeyPart& part : by) {
    AppendPart(text, part.dimension->name);
    AppendPart(text, std::to_string(static_cast<int>(part.dimension->kind)));
    AppendPart(text, part.dimension->argument);
  }
  if (rule.kind == RuleKind::kLimit && IsWindowed(rule.algorithm)) {
    AppendPart(text, std::to_string(window.count()));
    AppendPart(text, std::to_string(rule.buckets));
    // Its states have room for buckets to come.
    const bool ahead = rule.algorithm == Algorithm::kSlidingBuckets && rule.borrow > Duration{};
    if (ahead) AppendPart(text, "borrow " + std::to_string(rule.borrow.count()));
  }
  if (!rule.relate_to.empty()) AppendPart(text, "relate_to " + rule.relate_to);
  return base::Hash64(text, kSharedKeySeed);
}

limit::Config ConfigOf(const Rule& rule, const Rate& rate, std::optional<int64_t> burst) {
  limit::Config config;
  config.rate = rate;
  config.burst = burst.value_or(0);
  config.buckets = rule.algorithm == Algorithm::kSlidingBuckets ? rule.buckets : 0;
  config.wait = rule.wait;
  config.borrow = rule.borrow;
  config.max_debt = rule.cost.max_debt;
  if (HasWarmUp(rule.algorithm)) {
    config.warm_up = rule.warm_up;
    config.cold_factor = rule.cold_factor;
  }
  return config;
}

// "; only tenant, ip", the dimensions of conditions.
std::string Named(std::string_view word, const std::vector<ValuesOf>& conditions) {
  std::string text;
  for (const ValuesOf& one : conditions)
    text.append(text.empty() ? "; " + std::string(word) + " " : ", ").append(one.dimension);
  return text;
}

std::string MatchedBy(const Target& on) {
  std::string text;
  const auto add = [&text](std::string_view word, const std::string& pattern) {
    if (!pattern.empty()) text.append(text.empty() ? "" : " or ").append(word).append(pattern);
  };
  add("route ", on.route);
  add("resource ", on.resource);
  add("resource matching ", on.resource_regex);
  if (text.empty()) text = "every request";
  return text + Named("only", on.only) + Named("except", on.except);
}

// One set on its way into a table.
class Compiler {
 public:
  Compiler(const RuleSet& set, const CompileOptions& options)
      : set_(set), options_(options), dimensions_(set.dimensions, faults_) {}

  Result<RuleTable> Run() {
    if (set_.rules.size() > base::kRulesMax) {
      return Error::InvalidArgument("rules: found " + std::to_string(set_.rules.size()) +
                                    "; at most " + std::to_string(base::kRulesMax) +
                                    " are allowed");
    }
    CollectDimensions();
    table_.rules.reserve(set_.rules.size());
    for (size_t i = 0; i < set_.rules.size(); ++i)
      Add(i);
    if (targets_parse_) {
      auto matcher = Matcher::Build(set_.rules, set_.match, set_.regex);
      if (matcher.ok()) {
        table_.matcher = *std::move(matcher);
      } else {
        faults_.errors.push_back(std::move(matcher).error().message);
      }
    }
    WarnOfMany();
    if (!faults_.errors.empty()) return Error::InvalidArgument(Joined(faults_.errors));
    table_.dimensions = dimensions_.Take();  // moved: rules keep pointing into it
    table_.warnings = std::move(faults_.warnings);
    return std::move(table_);
  }

 private:
  static std::string Joined(const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines)
      text.append(text.empty() ? "" : "\n").append(line);
    return text;
  }

  // Names every dimension once, so that pointers to them stay good from here on.
  void CollectDimensions() {
    for (const Rule& rule : set_.rules) {
      for (const std::string& name : rule.by)
        static_cast<void>(dimensions_.Find(name));  // told by Part, with its rule
      for (const auto* lists : {&rule.allow, &rule.deny, &rule.on.only, &rule.on.except}) {
        for (const ValuesOf& list : *lists)
          static_cast<void>(dimensions_.Find(list.dimension));
      }
    }
  }

  void Add(size_t index) {
    const Rule& rule = set_.rules[index];
    FaultsAt faults(WhereOf(rule, index), faults_);
    const size_t errors_before = faults_.errors.size();
    CheckRule(rule, faults);
    CheckCompat(rule, set_.compat, faults);
    CheckUnique(rule, index, faults);
    CheckHome(rule, faults);
    CheckFlowId(rule, index, faults);
    CompiledRule compiled;
    compiled.index = static_cast<uint32_t>(index);
    compiled.rule = rule;
    compiled.rule.algorithm = AlgorithmOf(rule, set_.compat);
    compiled.matched_by = MatchedBy(rule.on);
    compiled.plain = rule.scope == Scope::kLocal && rule.relate_to.empty();
    ParseTarget(rule, faults);
    AddConditions(rule.on, compiled, faults);
    table_.conditional = table_.conditional || (rule.enabled && compiled.conditional());
    AddBy(rule, compiled, faults);
    AddLists("allow", rule.allow, compiled.allow, faults);
    AddLists("deny", rule.deny, compiled.deny, faults);
    if (faults_.errors.size() == errors_before) AddQuotas(compiled.rule, compiled, faults);
    table_.rules.push_back(std::move(compiled));
  }

  // What is odd about the set as a whole.
  void WarnOfMany() {
    if (set_.rules.size() > base::kRulesUsual)
      faults_.warnings.push_back("rules: found " + std::to_string(set_.rules.size()) +
                                 "; one rule with by and overrides counts any number of clients "
                                 "apart, and costs less than a rule for each");
    const auto met_by_all =
        std::count_if(set_.rules.begin(), set_.rules.end(), [](const Rule& rule) {
          return rule.enabled && rule.scope != Scope::kLocal && rule.on == Target{};
        });
    if (static_cast<size_t>(met_by_all) > base::kRemoteTakesPerRequestMax)
      faults_.warnings.push_back("rules: every request meets " + std::to_string(met_by_all) +
                                 " shared and cluster rules; stores and token servers are "
                                 "asked for " +
                                 std::to_string(base::kRemoteTakesPerRequestMax) +
                                 " of them, the others count as not answered");
  }

  void CheckUnique(const Rule& rule, size_t index, FaultsAt& faults) {
    if (rule.name.empty()) return;
    const auto [first, is_new] = names_.emplace(rule.name, index);
    if (is_new) return;
    const std::string& origin = set_.rules[first->second].origin;
    faults.Error("name", "found twice; the other is " +
                             (origin.empty() ? "rule #" + std::to_string(first->second + 1)
                                             : "at " + origin));
  }

  // That there is somebody to count it.
  void CheckHome(const Rule& rule, FaultsAt& faults) const {
    if (rule.kind == RuleKind::kAccess) return;
    if (rule.scope == Scope::kShared && !options_.remote_allowed) {
      faults.Error("scope",
                   "found shared, but there is no store for shared limits; configure one "
                   "or use scope local");
    }
    if (rule.scope == Scope::kCluster && !options_.cluster_allowed) {
      faults.Error("scope",
                   "found cluster, which needs token servers: cluster.servers; there are none. "
                   "Name some, or use scope local");
    }
  }

  // That no other rule has the number by which a token server counts it.
  void CheckFlowId(const Rule& rule, size_t index, FaultsAt& faults) {
    if (rule.scope != Scope::kCluster || !CountsUnits(rule.kind) || rule.name.empty()) return;
    const FlowQuestion question = FlowQuestionOf(rule);
    const int64_t flow_id = FlowIdOf(rule);
    const auto [first, is_new] = flows_.emplace(std::pair(question, flow_id), index);
    if (is_new) return;
    const Rule& other = set_.rules[first->second];
    faults.Error("flow_id", "found " + std::to_string(flow_id) +
                                (rule.cluster.flow_id == 0 ? ", made from the name," : "") +
                                " twice for " + std::string(NameOf(question)) + "; the other is " +
                                WhereOf(other, first->second) + ". Give one of them another");
  }

  // Faults in targets are told by CheckRule, but those of regular expressions.
  void ParseTarget(const Rule& rule, FaultsAt& faults) {
    route_.reset();
    if (!rule.on.resource.empty()) targets_parse_ &= ParseResource(rule.on.resource).ok();
    if (!rule.relate_to.empty()) targets_parse_ &= ParseResource(rule.relate_to).ok();
    if (!rule.on.resource_regex.empty()) {
      targets_parse_ &= CheckRegex(rule.on.resource_regex, faults);
    }
    if (rule.on.route.empty()) return;
    auto route = ParseRoute(rule.on.route);
    targets_parse_ &= route.ok();
    if (route.ok()) route_ = *std::move(route);
  }

  bool CheckRegex(const std::string& pattern, FaultsAt& faults) {
    constexpr std::string_view kField = "on.resource_regex";
    if (set_.regex == nullptr) {
      faults.Error(kField,
                   "found, but the set has no engine for it; set RuleSet::regex, to Re2() "
                   "of FlowGuard::text for one");
      return false;
    }
    const auto regex = set_.regex->Compile(pattern);
    if (!regex.ok()) faults.Error(kField, regex.error().message);
    return regex.ok();
  }

  // The dimension that `name` stands for in `rule`, whose route is route_.
  std::optional<KeyPart> Part(std::string_view field, const std::string& name, FaultsAt& faults) {
    auto found = dimensions_.Find(name);
    if (!found.ok()) {
      faults.Error(field, found.error().message);
      return std::nullopt;
    }
    KeyPart part{&dimensions_[*found], -1};
    if (part.dimension->kind == DimensionKind::kPath) {
      if (route_) part.segment = route_->CaptureSegment(part.dimension->argument);
      if (part.segment < 0) {
        faults.Error(field, "found " + name + ", but the rule's route has no {" +
                                part.dimension->argument + "}");
        return std::nullopt;
      }
    }
    if (part.dimension->kind == DimensionKind::kNamed && !dimensions_.declared(*found)) {
      faults.Warning(field, "dimension " + name +
                                " is given by the application only; declare under dimensions "
                                "where an HTTP request has it");
    }
    if (part.dimension->kind == DimensionKind::kHeader && IsHopByHop(part.dimension->argument)) {
      faults.Warning(field, "header " + part.dimension->argument +
                                " concerns one connection and does not reach the upstream; every "
                                "client can write it as it likes");
    }
    return part;
  }

  void AddBy(const Rule& rule, CompiledRule& compiled, FaultsAt& faults) {
    if (rule.by.size() > base::kDimensionsPerKeyMax) {
      faults.Error("by", "found " + std::to_string(rule.by.size()) + " dimensions; at most " +
                             std::to_string(base::kDimensionsPerKeyMax) + " are allowed");
    }
    for (const std::string& name : rule.by) {
      const std::optional<KeyPart> part = Part("by", name, faults);
      if (!part) continue;
      const bool twice =
          std::any_of(compiled.by.begin(), compiled.by.end(),
                      [&](const KeyPart& other) { return other.dimension == part->dimension; });
      if (twice) {
        faults.Error("by", "found " + name + " twice");
        continue;
      }
      compiled.by.push_back(*part);
    }
  }

  void AddConditions(const Target& on, CompiledRule& compiled, FaultsAt& faults) {
    const size_t lists = on.only.size() + on.except.size();
    if (lists > base::kConditionsMax) {
      faults.Error("on", "found " + std::to_string(lists) +
                             " lists of values under only and except; at most " +
                             std::to_string(base::kConditionsMax) + " are allowed");
      return;
    }
    AddLists("on.only", on.only, compiled.only, faults);
    AddLists("on.except", on.except, compiled.except, faults);
  }

  void AddLists(std::string_view field, const std::vector<AccessList>& lists,
                std::vector<AccessCheck>& checks, FaultsAt& faults) {
    for (const AccessList& list : lists) {
      const std::optional<KeyPart> part = Part(field, list.dimension, faults);
      if (!part) continue;
      const std::string where = std::string(field) + "." + list.dimension;
      if (list.values.empty() || list.values.size() > base::kAccessValuesMax) {
        faults.Error(where, "found " + std::to_string(list.values.size()) +
                                " values; allowed 1 to " + std::to_string(base::kAccessValuesMax));
        continue;
      }
      auto values = ValueList::Make(*part->dimension, list.values);
      if (values.ok()) {
        checks.push_back({*part, *std::move(values)});
      } else {
        faults.Error(where, values.error().message);
      }
    }
  }

  // Requires: `rule` is that of `compiled`; nothing was wrong with it so far.
  void AddQuotas(const Rule& rule, CompiledRule& compiled, FaultsAt& faults) {
    if (rule.kind == RuleKind::kAccess || rule.kind == RuleKind::kSystem) return;
    compiled.quota.identity = IdentityOf(rule, compiled.by, rule.rate.window);
    if (rule.kind == RuleKind::kBreaker) {
      compiled.breaker = BreakerSpecOf(rule.breaker, set_.compat);
      return;
    }
    compiled.quota.concurrency = rule.concurrency;
    if (rule.kind == RuleKind::kLimit) {
      compiled.quota.config = ConfigOf(rule, rule.rate, rule.burst);
      MakeSpec(rule, compiled.quota, "", faults);
    }
    if (rule.overrides.empty()) return;
    if (rule.by.empty()) {
      faults.Error("overrides", "found without by; an override is for one value of a dimension");
      return;
    }
    if (rule.overrides.size() > base::kOverridesMax) {
      faults.Error("overrides", "found " + std::to_string(rule.overrides.size()) + "; at most " +
                                    std::to_string(base::kOverridesMax) + " are allowed");
      return;
    }
    typed_.clear();
    for (const Override& entry : rule.overrides)
      AddOverride(rule, entry, compiled, faults);
  }

  void AddOverride(const Rule& rule, const Override& entry, CompiledRule& compiled,
                   FaultsAt& faults) {
    const Dimension& dimension = *compiled.by.front().dimension;
    const std::string field = "overrides.\"" + entry.value + "\"";
    if (entry.value.empty() || entry.value.size() > base::kKeyValueInlineMax) {
      faults.Error(field,
                   "a value has 1 to " + std::to_string(base::kKeyValueInlineMax) + " bytes");
      return;
    }
    if (rule.scope == Scope::kCluster) {
      if (!CheckClusterValue(dimension, entry, field, faults)) return;
      if (!IsNewTyped(entry)) return faults.Error(field, "found twice");
    }
    // Values of other types come from other clients: requests have texts.
    const bool of_texts = entry.type == ValueType::kAny || entry.type == ValueType::kString;
    if (of_texts && !IndexOverride(dimension, entry.value, compiled, field, faults)) return;
    Quota quota;
    quota.identity = IdentityOf(rule, compiled.by, entry.rate.window);
    if (rule.kind == RuleKind::kConcurrency) {
      if (entry.rate.window != Duration{} || entry.burst.has_value() || entry.rate.limit < 1 ||
          entry.rate.limit > base::kLimitMax) {
        faults.Error(field, "of a concurrency rule is a number of calls, 1 to " +
                                std::to_string(base::kLimitMax) + ", without window or burst");
        return;
      }
      quota.concurrency = entry.rate.limit;
    } else {
      if (entry.burst.has_value() && !HasBurst(rule.algorithm)) {
        faults.Misplaced(field + ": burst",
                         "algorithms token_bucket, smooth_bursty and step_bucket");
        return;
      }
      if (entry.burst.has_value() && (*entry.burst <= 0 || entry.rate.limit == 0)) {
        faults.Error(field + ": burst", "found " + std::to_string(*entry.burst) +
                                            "; at least 1, and none beside limit 0");
        return;
      }
      quota.config = ConfigOf(rule, entry.rate, entry.burst);
      if (!MakeSpec(rule, quota, field + ": ", faults)) return;
      CheckParts(rule, entry.rate, entry.burst, field + ": ", faults);
    }
    compiled.overrides.push_back(std::move(quota));
  }

  // Of the rule that is added: one override for a value of a type, or one for all types.
  bool IsNewTyped(const Override& entry) {
    std::set<ValueType>& types = typed_[entry.value];
    const bool any = entry.type == ValueType::kAny || types.contains(ValueType::kAny);
    return types.insert(entry.type).second && (!any || types.size() == 1);
  }

  // Of the override that is added to `compiled` next.
  static bool IndexOverride(const Dimension& dimension, const std::string& value,
                            CompiledRule& compiled, const std::string& field, FaultsAt& faults) {
    const size_t place = compiled.overrides.size();
    bool is_new = false;
    if (dimension.kind == DimensionKind::kIp) {
      AddressBlock block;
      bool had_host_bits = false;
      if (!ParseAddressBlock(value, block, &had_host_bits)) {
        faults.Error(field, "not an address or block; values of dimension ip are");
        return false;
      }
      if (had_host_bits) {
        faults.Error(field, "bits are set behind the prefix length; clear them");
        return false;
      }
      constexpr int kClientBitsUsual = 64;
      if (!IsIpv4(block) && block.prefix_bits > kClientBitsUsual)
        faults.Warning(field,
                       "the servers take a whole /64 for one client, and this override is for all "
                       "of it; client_ip.ipv6_prefix sets other sizes");
      is_new = compiled.override_index.Add(block, place);
    } else {
      std::string scratch(base::kKeyValueInlineMax, '\0');
      is_new =
          compiled.override_index.Add(std::string(Normalise(dimension, value, scratch)), place);
    }
    if (!is_new) faults.Error(field, "found twice");
    return is_new;
  }

  static bool MakeSpec(const Rule& rule, Quota& quota, const std::string& prefix,
                       FaultsAt& faults) {
    auto spec = limit::AnySpec::Make(rule.algorithm, quota.config);
    if (!spec.ok()) {
      faults.Error("", prefix + spec.error().message);
      return false;
    }
    // A limit of 0 lets nothing pass on purpose.
    const bool never_fits = rule.cost.reserve > spec->limit() && !spec->pays_forward();
    if (quota.config.rate.limit > 0 && never_fits) {
      faults.Error("", prefix + "cost.reserve: found " + std::to_string(rule.cost.reserve) +
                           "; above " + std::to_string(spec->limit()) +
                           ", the most that can be had at once, no request could pass");
      return false;
    }
    quota.spec = *std::move(spec);
    if (quota.config.borrow == Duration{}) return true;
    limit::Config config = quota.config;
    config.prioritised = true;
    // Not an error: the two differ in what they let pass, not in what they allow.
    quota.prioritised = *limit::AnySpec::Make(rule.algorithm, config);
    return true;
  }

  const RuleSet& set_;
  const CompileOptions& options_;
  Faults faults_;
  DimensionTable dimensions_;
  std::unordered_map<std::string, size_t> names_;
  std::map<std::pair<FlowQuestion, int64_t>, size_t> flows_;
  bool targets_parse_ = true;
  std::optional<RouteTemplate> route_;  // of the rule that is being added
  std::unordered_map<std::string_view, std::set<ValueType>> typed_;  // of its overrides
  RuleTable table_;
};

}  // namespace

Result<RuleTable> Compile(const RuleSet& set, const CompileOptions& options) {
  return Compiler(set, options).Run();
}

}  // namespace flowguard::rules
