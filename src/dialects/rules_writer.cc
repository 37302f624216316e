// SPDX-License-Identifier: Apache-2.0
#include "dialects/rules_writer.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dialects/quantities.h"
#include "dialects/rule_words.h"
#include "text/json_writer.h"

namespace flowguard::dialects {

namespace {

// A word that YAML cannot take for anything else stays as it is; all other text is
// put in quotes, escaped as JSON is, which YAML reads alike.
void AppendText(std::string& out, std::string_view text) {
  constexpr std::string_view kFirst = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
  constexpr std::string_view kRest =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789-./";
  const bool plain = !text.empty() && kFirst.find(text.front()) != std::string_view::npos &&
                     text.find_first_not_of(kRest) == std::string_view::npos;
  const bool null_word = text == "null" || text == "Null" || text == "NULL";
  if (plain && !null_word) {
    out += text;
  } else {
    text::AppendJsonString(out, text);
  }
}

// A map in braces: {name: text, ...}.
class FlowMap {
 public:
  explicit FlowMap(std::string& out) : out_(out) { out_ += '{'; }

  std::string& Key(std::string_view key) {
    if (!first_) out_ += ", ";
    first_ = false;
    std::string text;
    AppendText(text, key);
    // A longer key is none to YAML unless it is marked as one.
    constexpr size_t kBareKeyBytesMax = 1000;
    out_ += text.size() > kBareKeyBytesMax ? "? " + text + " : " : text + ": ";
    return out_;
  }
  void Text(std::string_view key, std::string_view value) { AppendText(Key(key), value); }
  void Plain(std::string_view key, std::string_view value) { Key(key) += value; }
  void End() { out_ += '}'; }

 private:
  std::string& out_;
  bool first_ = true;
};

void AppendList(std::string& out, const std::vector<std::string>& items) {
  out += '[';
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ", ";
    AppendText(out, items[i]);
  }
  out += ']';
}

// The lines of one rule.
class RuleLines {
 public:
  explicit RuleLines(std::string& out) : out_(out) {}

  // Begins the line "FIELD: "; the caller appends its value.
  std::string& Line(std::string_view field) {
    out_ += first_ ? "  - " : "\n    ";
    first_ = false;
    out_ += field;
    out_ += ": ";
    return out_;
  }
  void Text(std::string_view field, std::string_view value) { AppendText(Line(field), value); }
  void Plain(std::string_view field, std::string_view value) { Line(field) += value; }
  void End() { out_ += '\n'; }

 private:
  std::string& out_;
  bool first_ = true;
};

void WriteLists(std::string& out, const std::vector<ValuesOf>& lists) {
  FlowMap map(out);
  for (const ValuesOf& list : lists)
    AppendList(map.Key(list.dimension), list.values);
  map.End();
}

void WriteTarget(RuleLines& lines, const Target& on) {
  if (on == Target{}) return;
  FlowMap map(lines.Line("on"));
  if (!on.route.empty()) map.Text("route", on.route);
  if (!on.resource.empty()) map.Text("resource", on.resource);
  if (!on.resource_regex.empty()) map.Text("resource_regex", on.resource_regex);
  if (!on.only.empty()) WriteLists(map.Key("only"), on.only);
  if (!on.except.empty()) WriteLists(map.Key("except"), on.except);
  map.End();
}

void WriteCost(RuleLines& lines, const Cost& cost) {
  if (cost == Cost{}) return;
  FlowMap map(lines.Line("cost"));
  map.Plain("reserve", std::to_string(cost.reserve));
  if (!cost.settle.empty()) map.Text("settle", cost.settle);
  if (cost.max_debt != 0) map.Plain("max_debt", std::to_string(cost.max_debt));
  map.End();
}

void WriteLimit(RuleLines& lines, const Rule& rule) {
  const Rule defaults;
  lines.Plain("limit", WriteRate(rule.rate, rule.burst));
  if (rule.algorithm != defaults.algorithm) {
    lines.Plain("algorithm", WordOf(kAlgorithmWords, rule.algorithm));
  }
  if (rule.algorithm == Algorithm::kSlidingBuckets && rule.buckets != defaults.buckets) {
    lines.Plain("buckets", std::to_string(rule.buckets));
  }
  if (rule.wait != defaults.wait) lines.Plain("wait", WriteDuration(rule.wait));
  if (rule.borrow != defaults.borrow) lines.Plain("borrow", WriteDuration(rule.borrow));
  if (rule.warm_up != defaults.warm_up) lines.Plain("warm_up", WriteDuration(rule.warm_up));
  if (rule.cold_factor != defaults.cold_factor) {
    lines.Plain("cold_factor", std::to_string(rule.cold_factor));
  }
  if (rule.count_refused) lines.Plain("count_refused", "true");
  WriteCost(lines, rule.cost);
}

void WriteScope(RuleLines& lines, const Rule& rule) {
  const Rule defaults;
  if (rule.scope != defaults.scope) lines.Plain("scope", WordOf(kScopeWords, rule.scope));
  // Where there is a store to fail it is told whatever it is: who reads the rule should not
  // have to know.
  if (rule.on_store_failure != defaults.on_store_failure || rule.scope != Scope::kLocal) {
    lines.Plain("on_store_failure", WordOf(kStoreFailureWords, rule.on_store_failure));
  }
  if (rule.lease != defaults.lease) {
    FlowMap map(lines.Line("lease"));
    map.Plain("overshoot", std::to_string(rule.lease.overshoot));
    map.End();
  }
  if (rule.shards != defaults.shards) lines.Plain("shards", std::to_string(rule.shards));
  if (rule.prefilter) lines.Plain("prefilter", "true");
  if (rule.tag != defaults.tag) lines.Plain("tag", WordOf(kCellTagWords, rule.tag));
  const ClusterCount& cluster = rule.cluster;
  if (cluster.flow_id != defaults.cluster.flow_id)
    lines.Plain("flow_id", std::to_string(cluster.flow_id));
  if (!cluster.name_space.empty()) lines.Text("namespace", cluster.name_space);
  if (cluster.per_client) lines.Plain("per_client", "true");
  if (cluster.token_ttl != defaults.cluster.token_ttl)
    lines.Plain("token_ttl", WriteDuration(cluster.token_ttl));
}

// Those of one value behind each other, for a key stands once.
std::vector<const Override*> Grouped(const std::vector<Override>& overrides) {
  std::unordered_map<std::string_view, size_t> first;
  std::vector<const Override*> grouped;
  for (size_t i = 0; i < overrides.size(); ++i) {
    first.emplace(overrides[i].value, i);
    grouped.push_back(&overrides[i]);
  }
  std::stable_sort(grouped.begin(), grouped.end(), [&](const Override* a, const Override* b) {
    return first.at(a->value) < first.at(b->value);
  });
  return grouped;
}

void WriteOverride(std::string& out, const Rule& rule, const Override& one) {
  if (rule.kind == RuleKind::kConcurrency) {
    out += std::to_string(one.rate.limit);
  } else if (one.type == ValueType::kAny) {
    out += WriteRate(one.rate, one.burst);
  } else {
    FlowMap map(out);
    map.Plain("rate", WriteRate(one.rate, one.burst));
    map.Plain("type", WordOf(kValueTypeWords, one.type));
    map.End();
  }
}

void WriteKey(RuleLines& lines, const Rule& rule) {
  if (!rule.by.empty()) AppendList(lines.Line("by"), rule.by);
  if (rule.overrides.empty()) return;
  FlowMap map(lines.Line("overrides"));
  const std::vector<const Override*> all = Grouped(rule.overrides);
  for (size_t i = 0; i < all.size();) {
    size_t end = i + 1;
    while (end < all.size() && all[end]->value == all[i]->value)
      ++end;
    std::string& out = map.Key(all[i]->value);
    if (end - i > 1) out += '[';
    for (size_t one = i; one < end; ++one) {
      if (one > i) out += ", ";
      WriteOverride(out, rule, *all[one]);
    }
    if (end - i > 1) out += ']';
    i = end;
  }
  map.End();
}

void WriteAccess(RuleLines& lines, const Rule& rule) {
  FlowMap access(lines.Line("access"));
  if (!rule.allow.empty()) WriteLists(access.Key("allow"), rule.allow);
  if (!rule.deny.empty()) WriteLists(access.Key("deny"), rule.deny);
  access.End();
}

void WriteBreaker(RuleLines& lines, const BreakerRule& breaker) {
  FlowMap map(lines.Line("breaker"));
  if (breaker.slow_ratio) {
    FlowMap slow(map.Key("slow"));
    slow.Plain("over", WriteDuration(breaker.slow_over));
    slow.Plain("ratio", WriteRatio(*breaker.slow_ratio));
    slow.End();
  } else {
    FlowMap errors(map.Key("errors"));
    if (breaker.error_ratio) errors.Plain("ratio", WriteRatio(*breaker.error_ratio));
    if (breaker.error_count) errors.Plain("count", std::to_string(*breaker.error_count));
    errors.End();
  }
  map.Plain("min_calls", std::to_string(breaker.min_calls));
  map.Plain("window", WriteDuration(breaker.window));
  map.Plain("open_for", WriteDuration(breaker.open_for));
  if (breaker.probes != BreakerRule{}.probes) map.Plain("probes", std::to_string(breaker.probes));
  map.End();
}

void WriteSystem(RuleLines& lines, const SystemRule& system) {
  FlowMap map(lines.Line("system"));
  if (system.cpu) map.Plain("cpu", WriteRatio(*system.cpu));
  if (system.load) map.Plain("load", WriteRatio(*system.load));
  if (system.inflight) map.Plain("inflight", std::to_string(*system.inflight));
  if (system.avg_rt) map.Plain("avg_rt", WriteDuration(*system.avg_rt));
  if (system.qps) map.Plain("qps", std::to_string(*system.qps));
  map.End();
}

void WriteRefuse(RuleLines& lines, const Refuse& refuse) {
  if (refuse == Refuse{}) return;
  FlowMap map(lines.Line("refuse"));
  if (refuse.status != 0) map.Plain("status", std::to_string(refuse.status));
  if (!refuse.message.empty()) map.Text("message", refuse.message);
  if (!refuse.headers.empty()) {
    FlowMap headers(map.Key("headers"));
    for (const auto& [name, text] : refuse.headers)
      headers.Text(name, text);
    headers.End();
  }
  if (refuse.body) map.Plain("body", WordOf(kRefuseBodyWords, *refuse.body));
  map.End();
}

void WriteDegrade(RuleLines& lines, const Degrade& degrade) {
  if (!degrade.enabled) return;
  FlowMap map(lines.Line("degrade"));
  if (!degrade.header.empty()) map.Text("header", degrade.header);
  if (degrade.status != 0) map.Plain("status", std::to_string(degrade.status));
  if (!degrade.body.empty()) map.Text("body", degrade.body);
  if (!degrade.content_type.empty()) map.Text("content_type", degrade.content_type);
  map.End();
}

void WriteDimension(std::string& out, const DimensionSpec& dimension) {
  out += "  ";
  AppendText(out, dimension.name);
  out += ": ";
  FlowMap map(out);
  if (!dimension.source.empty()) map.Text("source", dimension.source);
  if (dimension.missing == MissingPolicy::kSkip) map.Plain("missing", "skip");
  if (dimension.missing == MissingPolicy::kRefuse) map.Plain("missing", "refuse");
  if (dimension.missing == MissingPolicy::kShare && !dimension.missing_value.empty()) {
    const std::string_view value = dimension.missing_value;
    if (value == "skip" || value == "refuse") {
      FlowMap share(map.Key("missing"));
      share.Text("share", value);
      share.End();
    } else {
      map.Text("missing", value);
    }
  }
  if (dimension.trim) map.Plain("trim", "true");
  if (dimension.lower) map.Plain("lower", "true");
  map.End();
  out += '\n';
}

}  // namespace

std::string RuleToYaml(const Rule& rule) {
  std::string out;
  RuleLines lines(out);
  lines.Text("name", rule.name);
  if (!rule.enabled) lines.Plain("enabled", "false");
  if (rule.shadow) lines.Plain("shadow", "true");
  WriteTarget(lines, rule.on);
  switch (rule.kind) {
    case RuleKind::kLimit:
      WriteLimit(lines, rule);
      break;
    case RuleKind::kConcurrency:
      lines.Plain("concurrency", std::to_string(rule.concurrency));
      break;
    case RuleKind::kAccess:
      WriteAccess(lines, rule);
      break;
    case RuleKind::kBreaker:
      WriteBreaker(lines, rule.breaker);
      break;
    case RuleKind::kSystem:
      WriteSystem(lines, rule.system);
      break;
  }
  if (!rule.relate_to.empty()) lines.Text("relate_to", rule.relate_to);
  WriteScope(lines, rule);
  WriteKey(lines, rule);
  WriteRefuse(lines, rule.refuse);
  WriteDegrade(lines, rule.degrade);
  lines.End();
  return out;
}

std::string WriteRules(const RuleSet& rules) {
  std::string out;
  if (rules.match != MatchMode::kAll) {
    out += "match: " + std::string(WordOf(kMatchWords, rules.match)) + '\n';
  }
  if (rules.compat != Compat::kNone) {
    out += "compat: " + std::string(WordOf(kCompatWords, rules.compat)) + '\n';
  }
  out += rules.rules.empty() ? "rules: []\n" : "rules:\n";
  for (const Rule& rule : rules.rules)
    out += RuleToYaml(rule);
  if (!rules.dimensions.empty()) out += "dimensions:\n";
  for (const DimensionSpec& dimension : rules.dimensions)
    WriteDimension(out, dimension);
  return out;
}

}  // namespace flowguard::dialects
