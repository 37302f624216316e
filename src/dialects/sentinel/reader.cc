// SPDX-License-Identifier: Apache-2.0
#include "dialects/sentinel/reader.h"

#include <unordered_set>
#include <utility>

#include "base/bounds.h"
#include "dialects/problems.h"
#include "dialects/sentinel/kind.h"
#include "dialects/sentinel/rule_node.h"
#include "dialects/sentinel/validity.h"
#include "dialects/sentinel/writer.h"
#include "text/lenient_json.h"

namespace flowguard::dialects::sentinel {

namespace {

using text::Describe;
using text::Quote;

constexpr std::string_view kDropped = "the rule is dropped, as Sentinel does";

// --- what a kind of rule asks for beyond its members

template <typename Rule>
void Complete(const text::Node& /*node*/, RuleNode& /*reading*/, Rule& /*rule*/) {}

void Complete(const text::Node& /*node*/, RuleNode& /*reading*/, FlowRule& rule) {
  if (IsBlank(rule.limit_app)) rule.limit_app = kLimitAppDefault;
}

// The dashboard writes intervalSec as interval and its unit.
void Complete(const text::Node& node, RuleNode& reading, GatewayFlowRule& rule) {
  constexpr int64_t kUnitSeconds[] = {1, 60, 3600, 86'400};
  const text::Node* interval_node = nullptr;
  const text::Node* unit_node = nullptr;
  bool in_seconds = false;
  for (const text::Member& member : node.members) {
    if (SameSmartName(member.key, "interval")) interval_node = &member.value;
    if (SameSmartName(member.key, "intervalUnit")) unit_node = &member.value;
    in_seconds = in_seconds || SameSmartName(member.key, "intervalSec");
  }
  if (interval_node == nullptr) return;
  if (in_seconds) {
    return reading.Warn(interval_node->at, "interval: ignored beside intervalSec");
  }
  std::optional<int64_t> interval;
  int32_t unit = 0;
  if (!reading.ReadJavaValue("interval", *interval_node, interval)) return;
  if (unit_node != nullptr && !reading.ReadJavaValue("intervalUnit", *unit_node, unit)) return;
  if (!interval) return;
  if (unit < 0 || unit >= std::ssize(kUnitSeconds)) {
    return reading.Fault(unit_node->at, "intervalUnit: found " + std::to_string(unit) +
                                            "; allowed: 0 seconds, 1 minutes, 2 hours, 3 days");
  }
  if (__builtin_mul_overflow(*interval, kUnitSeconds[unit], &rule.interval_sec)) {
    reading.Fault(interval_node->at,
                  "interval: found " + std::to_string(*interval) + "; it is too long in seconds");
  }
}

// --- valid or not; false: drop the rule

template <typename Rule>
bool Validate(RuleNode& reading, Rule& rule) {
  const std::vector<Reason> reasons = ReasonsAgainst(rule);
  for (const Reason& reason : reasons)
    reading.PassOver(reading.PlaceOf(reason.member), reason.member + ": " + reason.what, kDropped);
  return reasons.empty();
}

// A share of the CPU that cannot be is left out, the rule stays.
bool Validate(RuleNode& reading, SystemRule& rule) {
  for (const Reason& reason : ReasonsAgainst(rule)) {
    reading.PassOver(reading.PlaceOf(reason.member), reason.member + ": " + reason.what,
                     "it is left out, as Sentinel does");
    rule.highest_cpu_usage = SystemRule().highest_cpu_usage;
  }
  return true;
}

template <typename Rule>
void DropItems(RuleNode& /*reading*/, Rule& /*rule*/) {}

void DropItems(RuleNode& reading, ParamFlowRule& rule) {
  std::vector<ParamFlowItem> kept;
  for (size_t i = 0; i < rule.param_flow_item_list.size(); ++i) {
    ParamFlowItem& item = rule.param_flow_item_list[i];
    const std::optional<Reason> reason = ReasonAgainst(item);
    if (!reason) {
      kept.push_back(std::move(item));
      continue;
    }
    const std::string path = "paramFlowItemList[" + std::to_string(i) + "]." + reason->member;
    reading.PassOver(reading.PlaceOf(path), path + ": " + reason->what,
                     "the item is left out, as Sentinel does");
  }
  rule.param_flow_item_list = std::move(kept);
}

// --- what repeats

// The text by which equal rules are known: ids make no difference, nor the two ways to say
// that a rule counts for every origin.
template <typename Rule>
std::string IdentityOf(Rule rule) {
  if constexpr (std::is_base_of_v<RuleBase, Rule>) {
    rule.id.reset();
    if (rule.limit_app == kLimitAppDefault) rule.limit_app.clear();
  }
  return WriteRule(rule);
}

// Rules seen so far in a list.
template <typename Rule>
class Seen {
 public:
  // False, told: the rule repeats an earlier one, or has no effect beside one.
  bool Add(RuleNode& reading, const Rule& rule) {
    if (!rules_.insert(IdentityOf(rule)).second) {
      reading.Warn(reading.PlaceOf({}), "repeats an earlier rule, which counts once");
      return false;
    }
    if constexpr (std::is_same_v<Rule, AuthorityRule>) {
      if (!resources_.insert(rule.resource).second) {
        reading.PassOver(
            reading.PlaceOf("resource"),
            "resource: " + Quote(rule.resource) + " has an authority rule already; one is allowed",
            kDropped);
        return false;
      }
    }
    return true;
  }

 private:
  std::unordered_set<std::string> rules_;
  std::unordered_set<std::string> resources_;
};

// fastjson takes these for null where a rule belongs.
bool IsNoRule(const text::Node& node) {
  return node.IsNull() || (node.quoted && node.scalar.empty()) ||
         (node.IsSequence() && node.items.empty());
}

template <typename Rule>
std::vector<Listed<Rule>> ReadListAs(const text::Node& list, Kind kind, Profile profile,
                                     Problems& problems) {
  std::vector<Listed<Rule>> rules;
  Seen<Rule> seen;
  for (size_t i = 0; i < list.items.size(); ++i) {
    const text::Node& node = RuleOfEntity(list.items[i]);
    RuleNode reading(std::string(NameOf(kind)) + " rule #" + std::to_string(i + 1), profile,
                     problems);
    if (IsNoRule(node)) {
      reading.PassOver(node.at, "found nothing; a map is allowed", kDropped);
      continue;
    }
    if (!node.IsMap()) {
      reading.Fault(node.at, "found " + Describe(node) + "; a map is allowed");
      continue;
    }
    Listed<Rule> listed{{}, i, node.at};
    reading.Read(node, listed.rule);
    Complete(node, reading, listed.rule);
    if (!reading.fits() || !Validate(reading, listed.rule)) continue;
    DropItems(reading, listed.rule);
    for (const Reason& surprise : Surprises(listed.rule))
      reading.Warn(reading.PlaceOf(surprise.member), surprise.member + ": " + surprise.what);
    if (seen.Add(reading, listed.rule)) rules.push_back(std::move(listed));
  }
  return rules;
}

RuleList ReadListOf(Kind kind, const text::Node& list, Profile profile, Problems& problems) {
  switch (kind) {
    case Kind::kFlow:
      return ReadListAs<FlowRule>(list, kind, profile, problems);
    case Kind::kDegrade:
      return ReadListAs<DegradeRule>(list, kind, profile, problems);
    case Kind::kSystem:
      return ReadListAs<SystemRule>(list, kind, profile, problems);
    case Kind::kAuthority:
      return ReadListAs<AuthorityRule>(list, kind, profile, problems);
    case Kind::kParamFlow:
      return ReadListAs<ParamFlowRule>(list, kind, profile, problems);
    case Kind::kGatewayFlow:
      return ReadListAs<GatewayFlowRule>(list, kind, profile, problems);
    case Kind::kApiDefinition:
      return ReadListAs<ApiDefinition>(list, kind, profile, problems);
  }
  return {};
}

// Faults and warnings of the document as a whole.  Returns whether it is a list.
bool CheckDocument(const text::LenientDocument& document, Profile profile, Problems& problems) {
  for (const text::DuplicateKey& duplicate : document.duplicates) {
    if (profile == Profile::kDefault) {
      problems.Fault(duplicate.at, duplicate.message);
    } else {
      problems.Warn(duplicate.at, duplicate.message);
    }
  }
  const text::Node& root = document.root;
  if (root.IsNull() && profile == Profile::kCompat) {
    problems.Warn(root.at, "found nothing; it counts as no rules, as for Sentinel");
    return true;
  }
  if (root.IsNull()) {
    problems.Fault(root.at, "found nothing; write [] to have no rules");
  } else if (!root.IsSequence()) {
    problems.Fault(root.at, "found " + Describe(root) + "; a list of rules is allowed: [{...}]");
  } else if (root.items.size() > base::kRulesMax) {
    problems.Fault(root.at, "found " + std::to_string(root.items.size()) + " rules; at most " +
                                std::to_string(base::kRulesMax) + " are allowed");
  }
  return root.IsSequence() && root.items.size() <= base::kRulesMax;
}

}  // namespace

Result<ReadList> ReadRules(std::string_view json, std::string_view file_name,
                           const ReadOptions& options) {
  const auto document = text::ReadLenientJson(json, file_name);
  if (!document.ok()) return document.error();
  Problems problems(file_name);
  ReadList read;
  if (CheckDocument(*document, options.profile, problems)) {
    const std::optional<Kind> kind =
        options.kind ? options.kind : DetectKind(file_name, document->root, problems);
    if (kind) read.rules = ReadListOf(*kind, document->root, options.profile, problems);
  }
  if (problems.any_fault()) return problems.ToError();
  read.warnings = problems.TakeWarnings();
  return read;
}

}  // namespace flowguard::dialects::sentinel
