// SPDX-License-Identifier: Apache-2.0
#include "rules/matcher.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/short_text.h"
#include "rules/hits.h"
#include "rules/regex_index.h"
#include "rules/resource_index.h"
#include "rules/route.h"
#include "rules/route_index.h"
#include "rules/route_overlap.h"

namespace flowguard::rules {

struct MatcherIndex {
  MatchMode mode = MatchMode::kAll;
  std::vector<std::string> methods;
  std::vector<Entry> untargeted;  // by order
  ResourceIndex resources;
  RegexIndex regexes;
  RouteIndex routes;

  [[nodiscard]] unsigned MethodNumber(std::string_view method) const noexcept {
    for (size_t i = 0; i < methods.size(); ++i) {
      if (base::SameText(methods[i], method)) return static_cast<unsigned>(i);
    }
    return kOtherMethod;
  }
};

namespace {

// Sorts as precedence does, so that ranks are places in sorted order.
using RankKey = std::string;
constexpr size_t kKinds = 5;

RankKey UntargetedRank() {
  return {'\0'};
}

RankKey RankOf(const ResourcePattern& pattern) {
  if (!pattern.prefix) return {'\4'};
  const size_t length = pattern.text.size();
  return {'\1', static_cast<char>(length >> 8), static_cast<char>(length & 0xff)};
}

RankKey RegexRank() {
  return {'\2'};
}

RankKey RankOf(const RouteTemplate& route) {
  RankKey key{'\3'};
  for (const RouteSegment& segment : route.segments)
    key += static_cast<char>('1' + static_cast<int>(segment.kind));
  const bool rest =
      !route.segments.empty() && route.segments.back().kind == RouteSegment::Kind::kRest;
  if (!rest) key += static_cast<char>('1' + static_cast<int>(RouteSegment::Kind::kLiteral));
  key += route.methods.empty() ? '0' : '1';
  return key;
}

// Place of a rule's phase in a decision.
int Phase(const Rule& rule) {
  switch (rule.kind) {
    case RuleKind::kAccess:
      return 0;
    case RuleKind::kSystem:
      return 1;
    case RuleKind::kBreaker:
      return 2;
    case RuleKind::kLimit:
    case RuleKind::kConcurrency:
      break;
  }
  switch (rule.scope) {
    case Scope::kLocal:
      return rule.kind == RuleKind::kLimit ? 3 : 4;
    case Scope::kShared:
      return 5;
    case Scope::kCluster:
      return 6;  // what is taken at a token server is not given back
  }
  return 6;
}

std::string NamesOf(std::span<const Rule> rules, const std::vector<Entry>& entries) {
  constexpr size_t kNamed = 8;
  std::string text;
  for (size_t i = 0; i < entries.size() && i < kNamed; ++i)
    text += (i == 0 ? "\"" : ", \"") + rules[entries[i].rule].name + "\"";
  if (entries.size() > kNamed) text += " and " + std::to_string(entries.size() - kNamed) + " more";
  return text;
}

Error TooMany(std::span<const Rule> rules, const std::vector<Entry>& entries,
              const std::string& request) {
  return Error::InvalidArgument("rules " + NamesOf(rules, entries) + ": " +
                                std::to_string(entries.size()) + " rules can meet one request (" +
                                request.substr(0, request.find_last_not_of(' ') + 1) +
                                "); at most " + std::to_string(base::kRulesPerRequestMax) + " may");
}

// Fills an Index.
class Builder {
 public:
  Builder(std::span<const Rule> rules, MatchMode mode, const RegexEngine* regex)
      : rules_(rules), regex_(regex) {
    index_.mode = mode;
  }

  Result<void> AddAll() {
    std::vector<uint32_t> order;
    for (size_t i = 0; i < rules_.size(); ++i) {
      if (rules_[i].enabled) order.push_back(static_cast<uint32_t>(i));
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return Phase(rules_[a]) < Phase(rules_[b]); });
    Collect(order);
    uint32_t rank = 0;
    for (auto& [key, value] : ranks_)
      value = rank++;
    for (size_t i = 0; i < order.size(); ++i) {
      auto added = Add(order[i], static_cast<uint32_t>(i));
      if (!added.ok()) return added;
    }
    index_.resources.Finish();
    index_.regexes.Finish();
    index_.routes.Finish();
    return CheckBounds();
  }

  MatcherIndex Take() { return std::move(index_); }

 private:
  struct Parsed {
    std::optional<ResourcePattern> resource;
    std::optional<RouteTemplate> route;
  };

  void Collect(const std::vector<uint32_t>& order) {
    ranks_[UntargetedRank()] = 0;
    ranks_[RegexRank()] = 0;
    for (const uint32_t at : order) {
      const Target& on = rules_[at].on;
      Parsed parsed;
      if (!on.resource.empty()) {
        auto pattern = ParseResource(on.resource);
        FG_CHECK(pattern.ok());
        ranks_[RankOf(*pattern)] = 0;
        parsed.resource = *std::move(pattern);
      }
      if (!on.route.empty()) {
        auto route = ParseRoute(on.route);
        FG_CHECK(route.ok());
        ranks_[RankOf(*route)] = 0;
        parsed.route = *std::move(route);
      }
      parsed_.push_back(std::move(parsed));
    }
  }

  Result<void> Add(uint32_t at, uint32_t order) {
    const Rule& rule = rules_[at];
    const bool conditional = !rule.on.only.empty() || !rule.on.except.empty();
    Entry entry{kAnyMethod, order, 0, at, rule.kind, rule.shadow, conditional, false, false};
    const Parsed& parsed = parsed_[order];
    const bool by_regex = !rule.on.resource_regex.empty();
    if (!parsed.resource && !by_regex && !parsed.route) index_.untargeted.push_back(entry);
    AddRelation(rule, entry);
    if (parsed.resource) {
      entry.rank = ranks_.at(RankOf(*parsed.resource));
      index_.resources.Add(*parsed.resource, entry);
    }
    if (by_regex) {
      FG_CHECK(regex_ != nullptr);
      entry.rank = ranks_.at(RegexRank());
      auto added = index_.regexes.Add(rule.on.resource_regex, entry, *regex_);
      if (!added.ok()) return added;
    }
    if (parsed.route) {
      entry.rank = ranks_.at(RankOf(*parsed.route));
      entry.by_route = true;
      if (!parsed.route->methods.empty()) entry.methods = 0;
      for (const std::string& method : parsed.route->methods) {
        unsigned number = index_.MethodNumber(method);
        if (number == kOtherMethod) {
          if (index_.methods.size() == base::kMethodsMax) {
            return Error::InvalidArgument("rule \"" + rule.name + "\": on.route: more than " +
                                          std::to_string(base::kMethodsMax) +
                                          " distinct methods in one rule set");
          }
          number = static_cast<unsigned>(index_.methods.size());
          index_.methods.push_back(method);
        }
        entry.methods |= MethodBits{1} << number;
      }
      index_.routes.Add(*parsed.route, entry);
    }
    return {};
  }

  void AddRelation(const Rule& rule, Entry entry) {
    if (rule.relate_to.empty()) return;
    entry.related = true;
    auto pattern = ParseResource(rule.relate_to);
    FG_CHECK(pattern.ok());
    index_.resources.Add(*pattern, entry);
  }

  // Proves that no request meets more rules than a MatchSet holds.
  [[nodiscard]] Result<void> CheckBounds() const {
    // A rule may be met in several ways, and is one rule.
    const auto unique = [](std::vector<Entry>& entries) {
      const auto before = [](const Entry& a, const Entry& b) { return a.rule < b.rule; };
      const auto same = [](const Entry& a, const Entry& b) { return a.rule == b.rule; };
      std::sort(entries.begin(), entries.end(), before);
      entries.erase(std::unique(entries.begin(), entries.end(), same), entries.end());
    };
    std::vector<Entry> met = index_.untargeted;
    unique(met);
    if (met.size() > base::kRulesPerRequestMax) return TooMany(rules_, met, "any");
    std::string worst_name;
    std::vector<Entry> worst;
    for (const std::string& name : index_.resources.WorstNames()) {
      std::vector<Entry> entries;
      index_.resources.Walk(name, [&](std::span<const Entry> found) {
        entries.insert(entries.end(), found.begin(), found.end());
      });
      entries.insert(entries.end(), met.begin(), met.end());
      unique(entries);
      if (entries.size() <= worst.size()) continue;
      worst = std::move(entries);
      worst_name = name;
    }
    met.insert(met.end(), worst.begin(), worst.end());
    unique(met);
    std::string request = worst_name.empty() ? "" : "resource \"" + worst_name + "\" ";
    const std::span<const Entry> regexes = index_.regexes.entries();
    met.insert(met.end(), regexes.begin(), regexes.end());
    unique(met);
    if (!regexes.empty()) request = "a resource that all their regular expressions match ";
    if (met.size() > base::kRulesPerRequestMax) return TooMany(rules_, met, request);
    if (index_.routes.empty()) return {};
    const size_t nodes = MostNodesAtOnce(index_.routes);
    if (nodes > base::kRouteFrontierMax) {
      return Error::InvalidArgument(
          "routes: literals and wildcards overlap so that one path may follow " +
          std::to_string(nodes) + " of them at once; at most " +
          std::to_string(base::kRouteFrontierMax) + " may");
    }
    auto overlap = FindOverlap(index_.routes, static_cast<unsigned>(index_.methods.size()),
                               base::kRulesPerRequestMax - met.size());
    if (!overlap) return {};
    if (!overlap->proven) {
      return Error::InvalidArgument("routes: they overlap in too many ways to show that at most " +
                                    std::to_string(base::kRulesPerRequestMax) +
                                    " rules meet one request; such as those for " + overlap->path);
    }
    met.insert(met.end(), overlap->entries.begin(), overlap->entries.end());
    request += overlap->method == kOtherMethod ? "any method" : index_.methods[overlap->method];
    return TooMany(rules_, met, request + " " + overlap->path);
  }

  std::span<const Rule> rules_;
  const RegexEngine* regex_;
  MatcherIndex index_;
  std::vector<Parsed> parsed_;  // by order
  std::map<RankKey, uint32_t> ranks_;
};

// Rank that a rule of each kind must have, for MatchMode::kMostSpecific.  System rules guard
// one process together: none displaces another.
std::array<uint32_t, kKinds> BestRanks(std::span<const Entry> entries) noexcept {
  std::array<uint32_t, kKinds> best{};
  for (const Entry& entry : entries) {
    uint32_t& rank = best[static_cast<size_t>(entry.kind)];
    if (!entry.shadow && !entry.related && entry.kind != RuleKind::kSystem)
      rank = std::max(rank, entry.rank);
  }
  return best;
}

// Out of line: see Hits::AddFor.
[[gnu::noinline]] void DropUnmet(Hits& hits, const MatchSet& out,
                                 const Conditions& conditions) noexcept {
  hits.Remove([&](const Entry& entry) {
    return entry.conditional && !entry.related &&
           !conditions.Hold(out, {entry.rule, entry.rank, entry.by_route, entry.related});
  });
}

}  // namespace

Matcher::Matcher() : Matcher(std::make_unique<const MatcherIndex>()) {}
Matcher::Matcher(std::unique_ptr<const MatcherIndex> index) : index_(std::move(index)) {}
Matcher::Matcher(Matcher&&) noexcept = default;
Matcher& Matcher::operator=(Matcher&&) noexcept = default;
Matcher::~Matcher() = default;

Result<Matcher> Matcher::Build(std::span<const Rule> rules, MatchMode mode,
                               const RegexEngine* regex) {
  Builder builder(rules, mode, regex);
  auto added = builder.AddAll();
  if (!added.ok()) return std::move(added).error();
  return Matcher(std::make_unique<const MatcherIndex>(builder.Take()));
}

void Matcher::Match(std::string_view resource, std::string_view method, std::string_view path,
                    MatchSet& out, const Conditions* conditions) const noexcept {
  const MatcherIndex& index = *index_;
  Hits hits;
  for (const Entry& entry : index.untargeted)
    hits.Add(entry);
  if (!resource.empty()) {
    index.resources.Walk(resource,
                         [&](std::span<const Entry> found) { hits.AddFor(found, kOtherMethod); });
    if (!index.regexes.empty()) [[unlikely]] {
      index.regexes.Walk(resource,
                         [&](std::span<const Entry> found) { hits.AddFor(found, kOtherMethod); });
    }
  }
  if (!path.empty() && path.front() == '/' && !index.routes.empty()) {
    const unsigned number = index.MethodNumber(method);
    index.routes.Walk(
        path, [&](std::span<const Entry> found) { hits.AddFor(found, number); },
        [&](size_t level, std::string_view text) {
          out.segments_[level] = {text.data(), text.size()};
        });
  }
  out.size_ = 0;
  if (conditions != nullptr) [[unlikely]] {
    DropUnmet(hits, out, *conditions);
  }
  std::array<uint32_t, kKinds> least{};
  if (index.mode == MatchMode::kMostSpecific) least = BestRanks(hits.entries());
  for (const Entry& entry : hits.entries()) {
    if (entry.rank < least[static_cast<size_t>(entry.kind)] && !entry.related) continue;
    out.matches_[out.size_++] = {entry.rule, entry.rank, entry.by_route, entry.related};
  }
}

}  // namespace flowguard::rules
