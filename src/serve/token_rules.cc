// SPDX-License-Identifier: Apache-2.0
#include "serve/token_rules.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "base/bounds.h"
#include "base/check.h"
#include "base/try.h"
#include "rules/compile.h"
#include "rules/faults.h"
#include "serve/token_value.h"

namespace flowguard::serve {
namespace {

using rules::FlowQuestion;

constexpr std::string_view kValue = "value";  // the one dimension of the engine's rules

std::string ResourceOf(FlowQuestion question, int64_t flow_id) {
  constexpr std::array<std::string_view, 3> kKinds = {"flow/", "param/", "concurrent/"};
  return std::string(kKinds[static_cast<size_t>(question)]) + std::to_string(flow_id);
}

// The most units that a rate may have whose algorithm and window are these.
int64_t LimitMax(Algorithm algorithm, Duration window) noexcept {
  const int64_t most = std::min(base::kLimitMax, window.count());  // one unit a nanosecond
  switch (algorithm) {
    case Algorithm::kSlidingLog:
      return std::min(most, base::kSlidingLogLimitMax);
    case Algorithm::kSlidingBuckets:
      return std::min<int64_t>(most, std::numeric_limits<uint32_t>::max());
    default:
      return most;
  }
}

// For each of `clients`; what is wrong as it is written stays so.
int64_t Times(int64_t units, int64_t clients, int64_t most) noexcept {
  return units > most / clients ? std::max(units, most) : units * clients;
}

// The same number a second; of some at least one.
Rate InWindow(const Rate& rate, Duration window, Algorithm algorithm) noexcept {
  if (rate.window == window) return rate;
  const double limit = static_cast<double>(rate.limit) * static_cast<double>(window.count()) /
                       static_cast<double>(rate.window.count());
  const int64_t least = rate.limit > 0 ? 1 : 0;
  const int64_t most = LimitMax(algorithm, window);
  const auto whole = static_cast<int64_t>(std::min(limit, static_cast<double>(most)));
  return {std::max(whole, least), window};
}

bool IsNameCharacter(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("._:/-@").find(c) != std::string_view::npos;
}

Result<void> Told(const rules::Faults& faults) {
  if (faults.errors.empty()) return {};
  std::string text;
  for (const std::string& line : faults.errors)
    text.append(text.empty() ? "" : "\n").append(line);
  return Error::InvalidArgument(std::move(text));
}

void CheckSpace(const TokenNamespace& space, rules::FaultsAt& faults) {
  const bool good = !space.name.empty() && space.name.size() <= base::kRuleNameBytesMax &&
                    std::all_of(space.name.begin(), space.name.end(), IsNameCharacter);
  if (!good) {
    faults.Error("", "a name has 1 to " + std::to_string(base::kRuleNameBytesMax) +
                         " letters, digits and . _ : / - @");
  }
  if (space.questions_per_second < 1 || space.questions_per_second > base::kRatePerSecondMax) {
    faults.Error("questions_per_second", "found " + std::to_string(space.questions_per_second) +
                                             "; allowed 1 to " +
                                             std::to_string(base::kRatePerSecondMax));
  }
}

bool Compiles(const RuleSet& set, rules::Faults& faults) {
  const auto compiled = rules::Compile(set, {.remote_allowed = false, .cluster_allowed = true});
  if (!compiled.ok()) faults.errors.push_back(compiled.error().message);
  return compiled.ok();
}

// One rule at a time: questions name theirs, so that any number may have one target.
void CheckRules(const RuleSet& set, rules::Faults& faults) {
  RuleSet alone;
  alone.dimensions = set.dimensions;
  alone.match = set.match;
  alone.compat = set.compat;
  alone.regex = set.regex;
  if (!Compiles(alone, faults)) return;  // what is declared is wrong, for all of them
  for (const Rule& rule : set.rules) {
    if (rule.scope != Scope::kCluster) continue;
    alone.rules = {rule};
    Compiles(alone, faults);
  }
}

// Rules of all namespaces on their way to one engine.
class Maker {
 public:
  Maker(bool shared, const TokenWindows& windows) : shared_(shared), windows_(windows) {
    DimensionSpec value;
    value.name = kValue;
    value.missing = MissingPolicy::kRefuse;
    made_.counted.dimensions.push_back(std::move(value));
  }

  void Add(const TokenNamespace& space, size_t place, size_t clients) {
    for (size_t i = 0; i < space.rules.rules.size(); ++i) {
      const Rule& rule = space.rules.rules[i];
      if (rule.scope != Scope::kCluster || !rule.enabled) continue;
      rules::FaultsAt faults(rules::WhereOf(rule, i), faults_);
      AddRule(space, rule, {.place = place, .clients = clients}, faults);
    }
  }

  Result<TokenRules> Take() {
    FG_RETURN_IF_ERROR(Told(faults_));
    return std::move(made_);
  }

 private:
  struct Home {
    size_t place;  // of its namespace
    size_t clients;
  };

  void AddRule(const TokenNamespace& space, const Rule& rule, const Home& home,
               rules::FaultsAt& faults) {
    const int64_t flow_id = rules::FlowIdOf(rule);
    const FlowQuestion question = rules::FlowQuestionOf(rule);
    TokenFlow flow{.resource = ResourceOf(question, flow_id),
                   .space = home.place,
                   .shadow = rule.shadow,
                   .closed = rule.cluster.per_client && home.clients == 0 && !rule.shadow,
                   .token_ttl = rule.cluster.token_ttl};
    const std::string where = rules::WhereOf(rule, 0) + " of namespace \"" + space.name + "\"";
    const auto [first, is_new] = wheres_.emplace(flow.resource, where);
    if (!is_new) {
      faults.Error("flow_id", "found " + std::to_string(flow_id) +
                                  (rule.cluster.flow_id == 0 ? ", made from the name," : "") +
                                  " twice for " + std::string(rules::NameOf(question)) +
                                  "; the other is " + first->second + ". Give one of them another");
      return;
    }
    made_.counted.rules.push_back(CountedAs(space, rule, home, flow));
    const bool added = made_.flows.Add(question, flow_id, std::move(flow));
    FG_CHECK(added);
  }

  // The rule of the engine, for `flow`.
  Rule CountedAs(const TokenNamespace& space, const Rule& rule, const Home& home, TokenFlow& flow) {
    Rule counted;
    counted.name = space.name == kDefaultNamespace ? rule.name : rule.name + "@" + space.name;
    counted.origin = rule.origin;
    counted.shadow = rule.shadow;
    counted.kind = rule.kind;
    counted.on.resource = flow.resource;
    counted.scope = InStore(rule) ? Scope::kShared : Scope::kLocal;
    counted.concurrency = rule.concurrency;
    if (rule.kind == RuleKind::kLimit) AddLimit(space, rule, flow, counted);
    if (rule.cluster.per_client) Multiply(home.clients, counted);
    return counted;
  }

  // A limit per client is each server's own, for the clients that are registered at it.
  [[nodiscard]] bool InStore(const Rule& rule) const noexcept {
    return shared_ && !rule.cluster.per_client;
  }

  void AddLimit(const TokenNamespace& space, const Rule& rule, TokenFlow& flow, Rule& counted) {
    counted.rate = rule.rate;
    counted.burst = rule.burst;
    counted.algorithm = rule.algorithm;
    counted.buckets = rule.buckets;
    if (!InStore(rule)) counted.borrow = rule.borrow;
    if (!rule.by.empty()) counted.by.emplace_back(kValue);
    for (const Override& one : rule.overrides) {
      for (std::string& value : EncodeTokenValues(one.type, one.value))
        counted.overrides.push_back(
            {.value = std::move(value), .rate = one.rate, .burst = one.burst});
    }
    if (space.rules.compat == Compat::kSentinel && !InStore(rule)) CountAsSentinel(flow, counted);
  }

  void CountAsSentinel(TokenFlow& flow, Rule& counted) {
    const auto found = windows_.find(flow.resource);
    const Duration window = found != windows_.end() ? found->second : counted.rate.window;
    made_.windows.emplace(flow.resource, window);
    EachRate(counted, [&](Rate& rate) { rate = InWindow(rate, window, counted.algorithm); });
    counted.borrow = std::min(counted.borrow, window);
    flow.needs = std::max<int64_t>(window / std::chrono::seconds(1), 1);
  }

  static void Multiply(size_t clients, Rule& counted) {
    const auto by = std::max<int64_t>(static_cast<int64_t>(clients), 1);
    EachRate(counted, [&](Rate& rate) {
      rate.limit = Times(rate.limit, by, LimitMax(counted.algorithm, rate.window));
    });
    counted.concurrency = Times(counted.concurrency, by, base::kLimitMax);
    if (counted.burst) counted.burst = Times(*counted.burst, by, base::kLimitMax);
    for (Override& one : counted.overrides) {
      if (one.burst) one.burst = Times(*one.burst, by, base::kLimitMax);
    }
  }

  template <typename F>
  static void EachRate(Rule& counted, F&& change) {
    change(counted.rate);
    for (Override& one : counted.overrides)
      change(one.rate);
  }

  const bool shared_;
  const TokenWindows& windows_;
  rules::Faults faults_;
  std::map<std::string, std::string> wheres_;  // of rules, by their resource
  TokenRules made_;
};

}  // namespace

bool TokenFlows::Add(Question question, int64_t flow_id, TokenFlow flow) {
  size_t& place = by_id_[flow_id].places[static_cast<size_t>(question)];
  if (place != kNone) return false;
  place = flows_.size();
  flows_.push_back(std::move(flow));
  return true;
}

const TokenFlows::Known* TokenFlows::Find(int64_t flow_id) const noexcept {
  const auto found = by_id_.find(flow_id);
  return found == by_id_.end() ? nullptr : &found->second;
}

const TokenFlow& TokenFlows::AnyOf(const Known& known) const noexcept {
  return flows_[*std::min_element(known.places.begin(), known.places.end())];
}

Result<void> CheckTokenRules(std::span<const TokenNamespace> namespaces) {
  rules::Faults faults;
  std::set<std::string_view> names;
  for (const TokenNamespace& space : namespaces) {
    rules::FaultsAt at("namespace \"" + space.name + "\"", faults);
    CheckSpace(space, at);
    if (!names.insert(space.name).second) at.Error("", "found twice");
    CheckRules(space.rules, faults);
  }
  return Told(faults);
}

Result<TokenRules> MakeTokenRules(std::span<const TokenNamespace> namespaces,
                                  std::span<const size_t> clients, bool shared,
                                  const TokenWindows& windows) {
  FG_CHECK(namespaces.size() == clients.size());
  Maker maker(shared, windows);
  for (size_t i = 0; i < namespaces.size(); ++i)
    maker.Add(namespaces[i], i, clients[i]);
  return maker.Take();
}

}  // namespace flowguard::serve
