// SPDX-License-Identifier: Apache-2.0
//
// What a rule is on: route, resource, and the conditions on values of dimensions.
#include <string>
#include <utility>

#include "flowguard/rules_text.h"

#include "base/bounds.h"
#include "dialects/rule_reader.h"
#include "rules/route.h"
#include "rules/value_list.h"

namespace flowguard::dialects {
namespace {

using text::Describe;

void ReadRoute(const Value& value, Target& target) {
  std::string text;
  if (!ReadString(value, text)) return;
  const auto route = rules::ParseRoute(text);
  if (!route.ok()) return value.Fault(route.error().message);
  target.route = std::move(text);
}

void ReadTargetResource(const Value& value, Target& target) {
  std::string text;
  if (!ReadString(value, text)) return;
  const auto resource = rules::ParseResource(text);
  if (!resource.ok()) return value.Fault(resource.error().message);
  target.resource = std::move(text);
}

void ReadResourceRegex(const Value& value, Target& target) {
  std::string text;
  if (!ReadString(value, text)) return;
  const auto regex = Re2().Compile(text);
  if (!regex.ok()) return value.Fault(regex.error().message);
  target.resource_regex = std::move(text);
}

// As far as a value tells by itself: which dimensions there are is known to rules::Compile.
void CheckValues(const Value& value, const std::string& name) {
  rules::Dimension dimension;
  dimension.name = name;
  if (name == "ip") dimension.kind = rules::DimensionKind::kIp;
  const auto check = [&](const text::Node& node) {
    const auto list = rules::ValueList::Make(dimension, {node.scalar});
    if (!list.ok()) value.Part(name, node).Fault(list.error().message);
  };
  if (value.node.IsScalar()) return check(value.node);
  for (const text::Node& node : value.node.items)
    check(node);
}

void ReadConditions(const Value& value, std::vector<ValuesOf>& conditions) {
  if (!ReadValuesByDimension(value, conditions)) return;
  if (value.node.members.empty())
    value.Fault("found no dimension; write {origin: [app1, app2]}, or leave it out");
  for (const text::Member& member : value.node.members) {
    const bool none = member.value.IsSequence() && member.value.items.empty();
    const Value values = value.Part(member.key, member.value);
    if (none) {
      values.Fault("found no value; allowed 1 to " + std::to_string(base::kAccessValuesMax));
    } else {
      CheckValues(values, member.key);
    }
  }
}

constexpr Field<Target> kTargetFields[] = {
    {"route", ReadRoute},
    {"resource", ReadTargetResource},
    {"resource_regex", ReadResourceRegex},
    {"only", [](const Value& v, Target& on) { ReadConditions(v, on.only); }},
    {"except", [](const Value& v, Target& on) { ReadConditions(v, on.except); }},
};

}  // namespace

bool ReadValuesByDimension(const Value& value, std::vector<ValuesOf>& lists) {
  if (!IsMap(value)) return false;
  for (const text::Member& member : value.node.members) {
    ValuesOf list{member.key, {}};
    if (ReadStrings(value.Part(member.key, member.value), list.values)) {
      lists.push_back(std::move(list));
    }
  }
  return true;
}

void ReadTarget(const Value& value, Target& target) {
  if (!value.node.IsMap()) {
    value.Fault("found " + Describe(value.node) +
                "; write {route: \"POST /orders\"} or {resource: \"order:create\"}");
  } else if (value.node.members.empty()) {
    value.Fault("neither route nor resource; leave `on` out for every request");
  } else {
    ReadMap(value, kTargetFields, target);
  }
}

void ReadRelation(const Value& value, std::string& relate_to) {
  std::string text;
  if (!ReadString(value, text)) return;
  const auto resource = rules::ParseResource(text);
  if (!resource.ok()) return value.Fault(resource.error().message);
  if (resource->prefix) return value.Fault("it names one resource, no prefix");
  relate_to = std::move(text);
}

}  // namespace flowguard::dialects
