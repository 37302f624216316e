// SPDX-License-Identifier: Apache-2.0
#include "dialects/sentinel/kind.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <initializer_list>
#include <string>
#include <unordered_map>

#include "base/check.h"
#include "dialects/sentinel/java_values.h"
#include "dialects/sentinel/members.h"

namespace flowguard::dialects::sentinel {

namespace {

struct KindWord {
  std::string_view word;  // without "rules" behind it
  Kind kind;
};
constexpr KindWord kKindWords[] = {
    {"flow", Kind::kFlow},
    {"degrade", Kind::kDegrade},
    {"system", Kind::kSystem},
    {"authority", Kind::kAuthority},
    {"param", Kind::kParamFlow},
    {"paramflow", Kind::kParamFlow},
    {"hotparam", Kind::kParamFlow},
    {"gatewayflow", Kind::kGatewayFlow},
    {"gwflow", Kind::kGatewayFlow},
    {"api", Kind::kApiDefinition},
    {"apis", Kind::kApiDefinition},
    {"apigroup", Kind::kApiDefinition},
    {"apigroups", Kind::kApiDefinition},
    {"apidefinition", Kind::kApiDefinition},
    {"apidefinitions", Kind::kApiDefinition},
    {"gatewayapi", Kind::kApiDefinition},
};

bool IsUpper(char c) {
  return c >= 'A' && c <= 'Z';
}

bool IsLower(char c) {
  return c >= 'a' && c <= 'z';
}

// "orders-FlowRules_2.json" -> orders flow rules json, in small letters.
std::vector<std::string> WordsOf(std::string_view name) {
  const size_t slash = name.find_last_of("/\\");
  if (slash != std::string_view::npos) name.remove_prefix(slash + 1);
  std::vector<std::string> words(1);
  char before = '\0';
  for (const char c : name) {
    if ((!IsUpper(c) && !IsLower(c)) || (IsUpper(c) && IsLower(before))) words.emplace_back();
    if (IsUpper(c)) words.back() += static_cast<char>(c - 'A' + 'a');
    if (IsLower(c)) words.back() += c;
    before = c;
  }
  return words;
}

std::optional<Kind> KindOfWord(std::string_view word) {
  for (const std::string_view rules : {"rules", "rule"}) {
    if (word.size() > rules.size() && word.substr(word.size() - rules.size()) == rules) {
      word.remove_suffix(rules.size());
      break;
    }
  }
  for (const KindWord& known : kKindWords) {
    if (known.word == word) return known.kind;
  }
  return {};
}

// Which of the members that rules of any kind have; a bit for each name.
constexpr size_t kMembersMax = 64;
using Members = std::bitset<kMembersMax>;

// What a kind is told by.
struct Shape {
  Members members;
  // One of each is in every rule of the kind that can be valid.
  std::vector<Members> necessary;
};

// The shapes of all kinds, in their order, and the bits of the names.
class Shapes {
 public:
  static const Shapes& Get() {
    static const Shapes shapes;
    return shapes;
  }

  [[nodiscard]] const Shape& Of(Kind kind) const { return shapes_[static_cast<size_t>(kind)]; }

  // Of each rule of the list; what belongs to no kind is left out.
  [[nodiscard]] std::vector<Members> MembersOf(const text::Node& list) const {
    std::vector<Members> rules;
    for (const text::Node& item : list.items) {
      if (!item.IsMap()) continue;
      rules.emplace_back();
      for (const text::Member& member : RuleOfEntity(item).members) {
        const auto bit = bits_.find(SmartName(member.key));
        if (bit != bits_.end()) rules.back().set(bit->second);
      }
    }
    return rules;
  }

 private:
  Shapes() {
    Add<FlowRule>(Kind::kFlow, {{"resource"}, {"count"}});
    Add<DegradeRule>(Kind::kDegrade, {{"resource"}, {"timeWindow"}});
    Add<SystemRule>(Kind::kSystem,
                    {{"avgRt", "highestCpuUsage", "highestSystemLoad", "maxThread", "qps"}});
    Add<AuthorityRule>(Kind::kAuthority, {{"resource"}, {"limitApp"}});
    Add<ParamFlowRule>(Kind::kParamFlow, {{"resource"}, {"paramIdx"}});
    Add<GatewayFlowRule>(Kind::kGatewayFlow, {{"resource"}, {"count"}});
    Add<ApiDefinition>(Kind::kApiDefinition, {{"apiName"}});
    // The dashboard's gateway rules say their interval in another way.
    Shape& gateway = shapes_[static_cast<size_t>(Kind::kGatewayFlow)];
    for (const std::string_view name : {"interval", "intervalUnit"})
      gateway.members.set(BitOf(name));
  }

  template <typename Rule>
  void Add(Kind kind, std::initializer_list<std::initializer_list<std::string_view>> necessary) {
    Shape& shape = shapes_[static_cast<size_t>(kind)];
    const Rule rule;
    EachMember(rule, [&](std::string_view name, const auto& /*field*/) {
      // It stands in dashboard entities of every kind, so it tells nothing.
      if (name != "id") shape.members.set(BitOf(name));
    });
    for (const auto& names : necessary) {
      shape.necessary.emplace_back();
      for (const std::string_view name : names)
        shape.necessary.back().set(BitOf(name));
    }
  }

  size_t BitOf(std::string_view name) {
    const size_t bit = bits_.emplace(SmartName(name), bits_.size()).first->second;
    FG_CHECK(bit < kMembersMax);
    return bit;
  }

  std::array<Shape, kKinds> shapes_;
  std::unordered_map<std::string, size_t> bits_;
};

bool HasAllMembers(const Shape& shape, const std::vector<Members>& rules) {
  return std::all_of(rules.begin(), rules.end(), [&shape](const Members& members) {
    return (members & ~shape.members).none();
  });
}

bool HasNecessary(const Shape& shape, const std::vector<Members>& rules) {
  return std::all_of(rules.begin(), rules.end(), [&shape](const Members& members) {
    return std::all_of(shape.necessary.begin(), shape.necessary.end(),
                       [&members](const Members& one) { return (members & one).any(); });
  });
}

std::string NamesOf(const std::vector<Kind>& kinds) {
  std::string names;
  for (const Kind kind : kinds)
    names.append(names.empty() ? "" : " and of ").append(NameOf(kind));
  return names;
}

constexpr std::string_view kHowToSay =
    "say the kind, or name the file after it, such as orders-flow-rules.json; kinds: flow, "
    "degrade, system, authority, param-flow, gateway-flow, api-definition";

// sentinel-golang has JSON of its own.
bool LooksLikeGo(const text::Node& list) {
  for (const text::Node& item : list.items) {
    for (const std::string_view name :
         {"threshold", "tokenCalculateStrategy", "metricType", "retryTimeoutMs"}) {
      if (item.Find(name) != nullptr) return true;
    }
  }
  return false;
}

}  // namespace

std::string_view NameOf(Kind kind) noexcept {
  switch (kind) {
    case Kind::kFlow:
      return "flow";
    case Kind::kDegrade:
      return "degrade";
    case Kind::kSystem:
      return "system";
    case Kind::kAuthority:
      return "authority";
    case Kind::kParamFlow:
      return "param-flow";
    case Kind::kGatewayFlow:
      return "gateway-flow";
    case Kind::kApiDefinition:
      return "api-definition";
  }
  return {};
}

std::optional<Kind> KindOfName(std::string_view file_name) {
  const std::vector<std::string> words = WordsOf(file_name);
  for (size_t i = words.size(); i-- > 0;) {
    const std::optional<Kind> kind = KindOfWord(words[i]);
    if (!kind) continue;
    const std::string before = i > 0 ? words[i - 1] : std::string();
    if (kind == Kind::kFlow && (before == "param" || before == "hotparam")) return Kind::kParamFlow;
    if (kind == Kind::kFlow && (before == "gateway" || before == "gw")) return Kind::kGatewayFlow;
    return kind;
  }
  return {};
}

const text::Node& RuleOfEntity(const text::Node& node) {
  for (const text::Member& member : node.members) {
    if (SameSmartName(member.key, "rule") && member.value.IsMap()) return member.value;
  }
  return node;
}

std::vector<Kind> KindsOfMembers(const text::Node& list) {
  const Shapes& shapes = Shapes::Get();
  const std::vector<Members> rules = shapes.MembersOf(list);
  std::vector<Kind> kinds;
  for (size_t i = 0; i < kKinds && !rules.empty(); ++i) {
    const auto kind = static_cast<Kind>(i);
    const Shape& shape = shapes.Of(kind);
    if (HasAllMembers(shape, rules) && HasNecessary(shape, rules)) kinds.push_back(kind);
  }
  return kinds;
}

std::optional<Kind> DetectKind(std::string_view file_name, const text::Node& list,
                               Problems& problems) {
  const std::optional<Kind> named = KindOfName(file_name);
  // A rule that lacks what it needs is told as such, not taken for one of another kind.
  if (named && HasAllMembers(Shapes::Get().Of(*named), Shapes::Get().MembersOf(list))) return named;
  const std::vector<Kind> fitting = KindsOfMembers(list);
  if (named && fitting.empty()) return named;
  if (named) {
    problems.Fault(list.at, "the name of the file says " + std::string(NameOf(*named)) +
                                ", the members are those of " + NamesOf(fitting) + "; " +
                                std::string(kHowToSay));
  } else if (fitting.size() == 1) {
    return fitting.front();
  } else if (fitting.size() > 1) {
    problems.Fault(list.at, "the kind of the rules is unclear: the members are those of " +
                                NamesOf(fitting) + "; " + std::string(kHowToSay));
  } else if (LooksLikeGo(list)) {
    problems.Fault(list.at,
                   "these look like rules of sentinel-golang, whose JSON is another; rules of "
                   "Sentinel for Java are read");
  } else {
    problems.Fault(list.at, "the kind of the rules is unclear: " +
                                std::string(list.items.empty() ? "the list is empty"
                                                               : "the members fit no kind") +
                                "; " + std::string(kHowToSay));
  }
  return {};
}

}  // namespace flowguard::dialects::sentinel
