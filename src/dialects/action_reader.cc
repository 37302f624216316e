// SPDX-License-Identifier: Apache-2.0
//
// What a rule does with a request that is over its limit: refuse, degrade.
#include <string>

#include "dialects/rule_reader.h"
#include "dialects/rule_words.h"

namespace flowguard::dialects {

namespace {

using text::Describe;

constexpr CountBounds kRefuseStatus = {400, 599};
constexpr CountBounds kDegradeStatus = {200, 599};

void ReadHeaders(const Value& value, Refuse& refuse) {
  if (!IsMap(value)) return;
  for (const text::Member& member : value.node.members) {
    std::string text;
    if (ReadString(value.Part(value.field, member.value), text)) {
      refuse.headers.emplace_back(member.key, std::move(text));
    }
  }
}

constexpr Field<Refuse> kRefuseFields[] = {
    {"status",
     [](const Value& v, Refuse& refuse) { ReadSmallInteger(v, kRefuseStatus, refuse.status); }},
    {"message", [](const Value& v, Refuse& refuse) { ReadString(v, refuse.message); }},
    {"headers", [](const Value& v, Refuse& refuse) { ReadHeaders(v, refuse); }},
    {"body",
     [](const Value& v, Refuse& refuse) {
       RefuseBody body{};
       if (ReadWord(v, kRefuseBodyWords, body)) refuse.body = body;
     }},
};

constexpr Field<Degrade> kDegradeFields[] = {
    {"header", [](const Value& v, Degrade& degrade) { ReadString(v, degrade.header); }},
    {"status",
     [](const Value& v, Degrade& degrade) { ReadSmallInteger(v, kDegradeStatus, degrade.status); }},
    {"body", [](const Value& v, Degrade& degrade) { ReadString(v, degrade.body); }},
    {"content_type", [](const Value& v, Degrade& degrade) { ReadString(v, degrade.content_type); }},
};

}  // namespace

void ReadRefuse(const Value& value, Refuse& refuse) {
  ReadMap(value, kRefuseFields, refuse);
}

void ReadDegrade(const Value& value, Degrade& degrade) {
  if (value.node.IsScalar()) {
    ReadBool(value, degrade.enabled);
    return;
  }
  if (!value.node.IsMap()) {
    value.Fault("found " + Describe(value.node) + "; allowed: true, false, or a map");
    return;
  }
  degrade.enabled = true;
  ReadMap(value, kDegradeFields, degrade);
}

}  // namespace flowguard::dialects
