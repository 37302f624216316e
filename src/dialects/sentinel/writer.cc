// SPDX-License-Identifier: Apache-2.0
#include "dialects/sentinel/writer.h"

#include <cstddef>
#include <type_traits>

#include "dialects/sentinel/java_values.h"
#include "dialects/sentinel/members.h"
#include "text/json_writer.h"

namespace flowguard::dialects::sentinel {

namespace {

using text::JsonWriter;

void Write(JsonWriter& json, bool value) {
  json.Bool(value);
}
void Write(JsonWriter& json, int32_t value) {
  json.Int(value);
}
void Write(JsonWriter& json, int64_t value) {
  json.Int(value);
}
void Write(JsonWriter& json, double value) {
  json.Number(JavaText(value));
}
void Write(JsonWriter& json, const std::string& value) {
  json.String(value);
}

template <HasMembers Bean>
void Write(JsonWriter& json, const Bean& bean);

template <typename Item>
void Write(JsonWriter& json, const std::vector<Item>& items) {
  json.BeginArray();
  for (const Item& item : items)
    Write(json, item);
  json.EndArray();
}

// A member, unless it is one that Java would have as null.
template <typename T>
void WriteMember(JsonWriter& json, std::string_view name, const T& field) {
  json.Key(name);
  Write(json, field);
}
void WriteMember(JsonWriter& json, std::string_view name, const std::string& field) {
  if (!field.empty()) json.Key(name).String(field);
}
template <typename T>
void WriteMember(JsonWriter& json, std::string_view name, const std::optional<T>& field) {
  if (!field) return;
  json.Key(name);
  Write(json, *field);
}

template <HasMembers Bean>
void Write(JsonWriter& json, const Bean& bean) {
  json.BeginObject();
  EachMember(bean,
             [&json](std::string_view name, const auto& field) { WriteMember(json, name, field); });
  json.EndObject();
}

// The members of a rule beside those of its entity.
template <typename Rule>
void WriteEntityMembers(JsonWriter& json, const Rule& rule) {
  EachMember(rule, [&json](std::string_view name, const auto& field) {
    if (name != "id") WriteMember(json, name, field);
  });
}

void WriteEntityMembers(JsonWriter& json, const GatewayFlowRule& rule) {
  constexpr int64_t kUnitSeconds[] = {1, 60, 3600, 86'400};
  size_t unit = std::size(kUnitSeconds) - 1;
  while (rule.interval_sec % kUnitSeconds[unit] != 0)
    --unit;
  EachMember(rule, [&json](std::string_view name, const auto& field) {
    if (name != "intervalSec") WriteMember(json, name, field);
  });
  json.Key("interval").Int(rule.interval_sec / kUnitSeconds[unit]);
  json.Key("intervalUnit").Int(static_cast<int64_t>(unit));
}

template <typename Rule>
void WriteEntity(JsonWriter& json, const Rule& rule, std::string_view app, size_t id) {
  constexpr bool kWithin =
      std::is_same_v<Rule, AuthorityRule> || std::is_same_v<Rule, ParamFlowRule>;
  json.BeginObject().Key("app").String(app).Key("id").Uint(id);
  if constexpr (kWithin) {
    json.Key("rule");
    Write(json, rule);
  } else {
    WriteEntityMembers(json, rule);
  }
  json.EndObject();
}

template <typename Rule>
std::string Written(const Rule& rule) {
  std::string out;
  JsonWriter json(out);
  Write(json, rule);
  return out;
}

}  // namespace

std::string WriteRules(const RuleList& rules) {
  std::string out;
  JsonWriter json(out);
  json.BeginArray();
  std::visit(
      [&json](const auto& list) {
        for (const auto& listed : list)
          Write(json, listed.rule);
      },
      rules);
  json.EndArray();
  return out;
}

std::string WriteEntities(const RuleList& rules, std::string_view app) {
  std::string out;
  JsonWriter json(out);
  json.BeginArray();
  std::visit(
      [&json, app](const auto& list) {
        size_t id = 0;
        for (const auto& listed : list)
          WriteEntity(json, listed.rule, app, ++id);
      },
      rules);
  json.EndArray();
  return out;
}

std::string WriteRule(const FlowRule& rule) {
  return Written(rule);
}
std::string WriteRule(const DegradeRule& rule) {
  return Written(rule);
}
std::string WriteRule(const SystemRule& rule) {
  return Written(rule);
}
std::string WriteRule(const AuthorityRule& rule) {
  return Written(rule);
}
std::string WriteRule(const ParamFlowRule& rule) {
  return Written(rule);
}
std::string WriteRule(const GatewayFlowRule& rule) {
  return Written(rule);
}
std::string WriteRule(const ApiDefinition& definition) {
  return Written(definition);
}

}  // namespace flowguard::dialects::sentinel
