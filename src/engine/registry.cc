// SPDX-License-Identifier: Apache-2.0
#include "engine/registry.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/bounds.h"
#include "base/try.h"

namespace flowguard::engine {
namespace {

// Builds the text by which things are interned: every part says its length.
class Text {
 public:
  template <typename T>
  Text& Add(T value) requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) {
    const auto wide = static_cast<int64_t>(value);
    text_.append(reinterpret_cast<const char*>(&wide), sizeof wide);
    return *this;
  }
  Text& Add(Duration value) { return Add(value.count()); }
  Text& Add(std::string_view value) {
    Add(value.size());
    text_.append(value);
    return *this;
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

void AddConfig(const limit::Config& config, Text& text) {
  text.Add(config.rate.limit).Add(config.rate.window).Add(config.burst).Add(config.buckets);
  text.Add(config.wait)
      .Add(config.borrow)
      .Add(config.max_debt)
      .Add(config.warm_up)
      .Add(config.cold_factor);
}

std::string TextOf(const rules::CompiledRule& compiled) {
  const Rule& rule = compiled.rule;
  Text text;
  text.Add(std::string_view(rule.name)).Add(rule.shadow).Add(rule.kind).Add(rule.rate.limit);
  text.Add(rule.rate.window).Add(rule.burst.value_or(-1)).Add(rule.algorithm).Add(rule.buckets);
  text.Add(rule.warm_up).Add(rule.cold_factor);
  text.Add(rule.wait).Add(rule.borrow).Add(rule.count_refused).Add(rule.cost.reserve);
  text.Add(std::string_view(rule.cost.settle)).Add(rule.cost.max_debt).Add(rule.scope);
  text.Add(rule.tag).Add(rule.lease.overshoot).Add(rule.shards);
  text.Add(rule.prefilter)
      .Add(rule.on_store_failure)
      .Add(rule.concurrency)
      .Add(compiled.quota.identity);
  text.Add(compiled.by.empty()).Add(rule.relate_to.empty());
  if (compiled.remote()) {  // what ForStore shows
    text.Add(std::string_view(rule.on.resource)).Add(std::string_view(rule.on.route));
    text.Add(std::string_view(rule.on.resource_regex)).Add(std::string_view(compiled.matched_by));
    text.Add(rule.cluster.flow_id).Add(rule.cluster.per_client).Add(rule.cluster.token_ttl);
  }
  text.Add(rule.refuse.status).Add(std::string_view(rule.refuse.message));
  text.Add(rule.refuse.body ? static_cast<int>(*rule.refuse.body) : -1);
  for (const auto& [name, value] : rule.refuse.headers) {
    text.Add(std::string_view(name)).Add(std::string_view(value));
  }
  text.Add(rule.refuse.headers.size()).Add(rule.degrade.enabled).Add(rule.degrade.status);
  text.Add(std::string_view(rule.degrade.header)).Add(std::string_view(rule.degrade.body));
  text.Add(std::string_view(rule.degrade.content_type));
  return text.Take();
}

Error TooMany(const std::string& name) {
  return {ErrorCode::kResourceExhausted,
          "rule \"" + name + "\": more than " + std::to_string(base::kRuleNamesEverMax) +
              " different rules were loaded since the start; restart to load others"};
}

// "header:X-Usage" as "x-usage".
std::string SettleHeader(std::string_view settle) {
  constexpr std::string_view kForm = "header:";
  if (!settle.starts_with(kForm)) return {};
  std::string name(settle.substr(kForm.size()));
  for (char& c : name) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return name;
}

// In which `units` come back at `rate`, rounded up.
Duration TimeFor(int64_t units, const Rate& rate) {
  if (units <= 0 || rate.limit <= 0 || rate.window <= Duration::zero()) return Duration::zero();
  __extension__ using Wide = unsigned __int128;
  const auto limit = static_cast<Wide>(rate.limit);
  const Wide product = static_cast<Wide>(units) * static_cast<Wide>(rate.window.count());
  const Wide most = static_cast<Wide>(Duration::max().count());
  return Duration(static_cast<int64_t>(std::min((product + limit - 1) / limit, most)));
}

// What a store gets to see of a rule: no pointers into the rule set, and nothing that
// TextOf leaves out, such as its place there.
std::unique_ptr<const rules::CompiledRule> ForStore(const rules::CompiledRule& compiled,
                                                    const RuleInfo* info,
                                                    const std::vector<rules::Dimension>& own) {
  auto copy = std::make_unique<rules::CompiledRule>();
  copy->rule = compiled.rule;
  copy->rule.overrides.clear();
  copy->rule.on.only.clear();
  copy->rule.on.except.clear();
  copy->rule.origin.clear();
  copy->info = info;
  copy->matched_by = compiled.matched_by;
  copy->quota = compiled.quota;
  for (size_t i = 0; i < compiled.by.size(); ++i)
    copy->by.push_back({&own[i], compiled.by[i].segment});
  return copy;
}

}  // namespace

Result<uint32_t> Registry::AccountOf(const std::string& name) {
  const auto found = account_by_name_.find(name);
  if (found != account_by_name_.end()) return found->second;
  if (names_.size() >= base::kRuleNamesEverMax) return TooMany(name);
  const auto number = static_cast<uint32_t>(names_.size());
  names_.emplace_back(account_by_name_.emplace(name, number).first->first);
  return number;
}

SingleCell* Registry::CellOf(uint64_t identity) {
  std::unique_ptr<SingleCell>& cell = cells_[identity];
  if (cell == nullptr) cell = std::make_unique<SingleCell>();
  return cell.get();
}

Result<const LiveRule*> Registry::Intern(const rules::CompiledRule& compiled) {
  std::string text = TextOf(compiled);
  const auto found = rules_.find(text);
  if (found != rules_.end()) return found->second.get();
  if (rules_.size() >= base::kRuleNamesEverMax) return TooMany(compiled.rule.name);

  const Rule& rule = compiled.rule;
  auto live = std::make_unique<LiveRule>();
  FG_ASSIGN_OR_RETURN(live->account, AccountOf(rule.name));
  live->info = rules::InfoOf(rule);
  live->count_refused = rule.count_refused;
  live->related = !rule.relate_to.empty();
  live->has_cost = rule.cost != Cost{};
  live->reserve = rule.kind == RuleKind::kLimit ? rule.cost.reserve : 1;
  live->max_debt = rule.cost.max_debt;
  live->settle_header = SettleHeader(rule.cost.settle);
  live->on_store_failure = rule.on_store_failure;
  live->cluster = rule.scope == Scope::kCluster;
  live->limit_each = live->cluster && rule.cluster.per_client;
  if (compiled.remote()) {
    std::vector<rules::Dimension> own;
    for (const rules::KeyPart& part : compiled.by)
      own.push_back(*part.dimension);
    live->remote_dimensions = std::make_unique<const std::vector<rules::Dimension>>(std::move(own));
    live->remote = ForStore(compiled, &live->info, *live->remote_dimensions);
  }
  const bool one_word = rule.kind == RuleKind::kConcurrency ||
                        (rule.kind == RuleKind::kLimit && compiled.quota.spec->one_word());
  if (one_word && compiled.by.empty() && !compiled.remote()) {
    live->single = CellOf(compiled.quota.identity);
  }
  return rules_.emplace(std::move(text), std::move(live)).first->second.get();
}

Result<BreakerTable*> Registry::BreakersOf(const rules::CompiledRule& compiled) {
  const Rule& rule = compiled.rule;
  FG_ASSIGN_OR_RETURN(const uint32_t account, AccountOf(rule.name));
  std::unique_ptr<BreakerHome>& home = breakers_[compiled.quota.identity];
  if (home == nullptr) home = std::make_unique<BreakerHome>();
  const bool goes_on = home->table != nullptr && home->loaded_at + 1 >= load_;
  if (!goes_on || home->spec != compiled.breaker) {
    if (old_breakers_.size() >= base::kRuleNamesEverMax) return TooMany(rule.name);
    if (home->table != nullptr) old_breakers_.push_back(std::move(home->table));
    home->table = std::make_unique<BreakerTable>(compiled.breaker, !compiled.by.empty(),
                                                 names_[account], listener_, home->opened);
    home->spec = compiled.breaker;
  }
  home->loaded_at = load_;
  return home->table.get();
}

Result<const LiveSpec*> Registry::InternSpec(const rules::CompiledRule& compiled,
                                             const rules::Quota& quota, Instant now) {
  Text key;
  key.Add(compiled.rule.kind).Add(compiled.rule.algorithm).Add(compiled.remote());
  key.Add(quota.concurrency);
  AddConfig(quota.config, key);
  const bool has_shape = quota.spec && !quota.spec->one_word();
  const bool has_start = quota.spec && quota.spec->has_start();
  if (has_shape || has_start) key.Add(quota.identity);
  std::string text = key.Take();
  const auto found = specs_.find(text);
  if (found != specs_.end()) {
    if (has_shape) AddShape(quota.identity, found->second.get());
    return found->second.get();
  }
  if (specs_.size() >= base::kRuleNamesEverMax) return TooMany(compiled.rule.name);

  auto live = std::make_unique<LiveSpec>();
  live->spec = quota.spec;
  live->prioritised = quota.prioritised;
  if (has_start) live->spec->StartAt(starts_.emplace(quota.identity, now).first->second);
  live->config = quota.config;
  live->concurrency = quota.concurrency;
  if (quota.spec) live->window = TimeFor(quota.spec->limit(), quota.config.rate);
  if (compiled.remote() && !quota.spec) {
    live->config.rate = {quota.concurrency, base::kSlotExpiry};
  }
  if (has_shape) AddShape(quota.identity, live.get());
  return specs_.emplace(std::move(text), std::move(live)).first->second.get();
}

void Registry::AddShape(uint64_t identity, LiveSpec* spec) {
  std::unique_ptr<LoadedShapes>& known = shapes_[identity];
  if (known == nullptr) known = std::make_unique<LoadedShapes>();
  const auto is_spec = [spec](const std::atomic<const LiveSpec*>& one) {
    return one.load(std::memory_order_relaxed) == spec;
  };
  auto& specs = known->shapes.specs;
  auto& loaded_at = known->loaded_at;
  auto place = static_cast<size_t>(std::ranges::find_if(specs, is_spec) - specs.begin());
  if (place == specs.size()) {
    place = static_cast<size_t>(std::ranges::min_element(loaded_at) - loaded_at.begin());
  }
  // Once: threads read it that use the spec already.
  if (spec->shapes == nullptr) spec->shapes = &known->shapes;
  specs[place].store(spec, std::memory_order_release);
  loaded_at[place] = ++shapes_added_;
}

}  // namespace flowguard::engine
