// SPDX-License-Identifier: Apache-2.0
#include "dialects/sentinel/rule_node.h"

namespace flowguard::dialects::sentinel {

using text::Describe;
using text::Quote;

bool IsIgnoredMember(std::string_view name) noexcept {
  constexpr std::string_view kIgnored[] = {
      // of the dashboard's entities
      "id", "app", "ip", "port", "gmtcreate", "gmtmodified", "interval", "intervalunit",
      // of old degrade rules
      "passcount", "rtslowrequestamount"};
  return std::any_of(std::begin(kIgnored), std::end(kIgnored),
                     [name](std::string_view ignored) { return SameSmartName(ignored, name); });
}

std::string_view ProbablyMeant(std::string_view name, const std::vector<std::string_view>& known) {
  // Names of the same thing in rules of other kinds, and in sentinel-golang.
  constexpr std::pair<std::string_view, std::string_view> kSame[] = {
      {"maxqueueingtimeoutms", "maxQueueingTimeMs"},
      {"maxqueueingtimems", "maxQueueingTimeoutMs"},
      {"burstcount", "burst"},
      {"burst", "burstCount"},
      {"durationinsec", "intervalSec"},
      {"intervalsec", "durationInSec"},
      {"threshold", "count"},
      {"paramindex", "paramIdx"},
      {"specificitems", "paramFlowItemList"},
  };
  for (const auto& [same, meant] : kSame) {
    if (!SameSmartName(same, name)) continue;
    for (const std::string_view candidate : known) {
      if (candidate == meant) return candidate;
    }
  }
  return NearestWord(name, known);
}

text::Position RuleNode::PlaceOf(const std::string& path) const {
  std::string outer = path;
  while (!outer.empty()) {
    const auto place = places_.find(outer);
    if (place != places_.end()) return place->second;
    const size_t cut = outer.find_last_of(".[");
    outer.resize(cut == std::string::npos ? 0 : cut);
  }
  return at_;
}

void RuleNode::PassOver(text::Position at, const std::string& message, std::string_view instead) {
  if (profile_ == Profile::kDefault) return Fault(at, message);
  Warn(at, message + "; " + std::string(instead));
}

void RuleNode::FaultOfKind(const text::Node& node, const std::string& path,
                           std::string_view allowed) {
  Fault(node.at, path + ": found " + Describe(node) + "; " + std::string(allowed));
}

void RuleNode::NotePlace(const std::string& path, const text::Member& member) {
  const auto [place, first] = places_.emplace(path, member.value.at);
  if (first) return;
  PassOver(member.key_at, path + ": stands twice, here as " + Quote(member.key),
           "the last one counts");
  place->second = member.value.at;
}

void RuleNode::NoteUnknown(const text::Member& member, const std::vector<std::string_view>& known,
                           const std::string& path) {
  if (member.key == "$ref") {
    return Fault(member.key_at, path +
                                    "$ref: references to other rules are not followed; write "
                                    "the rule out");
  }
  if (IsIgnoredMember(member.key)) return;
  const std::string_view meant = ProbablyMeant(member.key, known);
  if (meant.empty()) return;
  Warn(member.key_at, "unknown member " + Quote(path + member.key) +
                          " is ignored, as Sentinel does; did you mean " + Quote(meant) + "?");
}

}  // namespace flowguard::dialects::sentinel
