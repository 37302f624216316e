// SPDX-License-Identifier: Apache-2.0
#include "engine/conditions.h"

#include "rules/key.h"

namespace flowguard::engine {
namespace {

// The value that lists are asked for; data() == nullptr: none.
std::string_view ListValue(const Meeting& met, const rules::KeyPart& part,
                           ValueRoom& room) noexcept {
  return rules::Normalise(*part.dimension, RawListValue(met, part, room), room.lowered);
}

bool IsOn(const Meeting& met, const rules::AccessCheck& list) noexcept {
  ValueRoom room;
  return list.values.Contains(ListValue(met, list.part, room));
}

}  // namespace

UnmetCondition FindUnmet(const Meeting& met) noexcept {
  for (const rules::AccessCheck& list : met.rule.only) {
    if (!IsOn(met, list)) return {.list = &list, .is_except = false};
  }
  for (const rules::AccessCheck& list : met.rule.except) {
    if (IsOn(met, list)) return {.list = &list, .is_except = true};
  }
  return {};
}

std::string Describe(const UnmetCondition& unmet, const Meeting& met) {
  ValueRoom room;
  std::string value;
  rules::AppendReadable(*unmet.list->part.dimension, ListValue(met, unmet.list->part, room), value);
  return (unmet.is_except ? "except: " : "only: ") + value +
         (unmet.is_except ? " is listed" : " is not listed");
}

bool RequestConditions::Hold(const rules::MatchSet& matches,
                             rules::MatchSet::Match match) const noexcept {
  const rules::CompiledRule& rule = *snapshot_.rules[match.rule].compiled;
  return FindUnmet({rule, request_, matches, match.by_route}).list == nullptr;
}

bool ToldConditions::Hold(const rules::MatchSet& matches,
                          rules::MatchSet::Match match) const noexcept {
  const Meeting met{*snapshot_.rules[match.rule].compiled, request_, matches, match.by_route};
  const UnmetCondition unmet = FindUnmet(met);
  if (unmet.list == nullptr) return true;
  unmet_.push_back({match.rule, Describe(unmet, met)});
  return false;
}

}  // namespace flowguard::engine
