// SPDX-License-Identifier: Apache-2.0
//
// Declared dimensions: `tenant: {header: x-tenant-id, missing: default}`.
#include "dialects/rule_reader.h"

namespace flowguard::dialects {

namespace {

using text::Describe;
using text::Quote;

struct DimensionDraft {
  DimensionSpec spec;
  bool has_source = false;
};

void SetSource(const Value& value, DimensionDraft& draft, std::string source) {
  if (draft.has_source) {
    value.Fault("a dimension has one source; found a second");
    return;
  }
  draft.has_source = true;
  draft.spec.source = std::move(source);
}

// header: x-tenant-id is source: "header:x-tenant-id".
void ReadNamedSource(const Value& value, DimensionDraft& draft) {
  std::string name;
  if (!ReadString(value, name)) return;
  if (name.empty()) return value.Fault("a name is missing");
  SetSource(value, draft, std::string(value.field) + ":" + name);
}

void ReadSource(const Value& value, DimensionDraft& draft) {
  std::string source;
  if (ReadString(value, source)) SetSource(value, draft, std::move(source));
}

struct SharedValue {
  std::string text;
};
constexpr Field<SharedValue> kShareFields[] = {
    {"share", [](const Value& v, SharedValue& out) { ReadString(v, out.text); }},
};

// A word of its own (skip, refuse), or the value that all such requests share.
void ReadMissing(const Value& value, DimensionDraft& draft) {
  DimensionSpec& spec = draft.spec;
  if (value.node.IsMap()) {
    SharedValue shared;
    if (ReadMap(value, kShareFields, shared)) spec.missing_value = std::move(shared.text);
    return;
  }
  std::string word;
  if (!ReadString(value, word)) return;
  if (word == "skip") {
    spec.missing = MissingPolicy::kSkip;
  } else if (word == "refuse") {
    spec.missing = MissingPolicy::kRefuse;
  } else {
    spec.missing_value = std::move(word);
  }
}

constexpr Field<DimensionDraft> kDimensionFields[] = {
    {"header", ReadNamedSource},
    {"cookie", ReadNamedSource},
    {"query", ReadNamedSource},
    {"path", ReadNamedSource},
    {"param", ReadNamedSource},
    {"source", ReadSource},
    {"missing", ReadMissing},
    {"trim", [](const Value& v, DimensionDraft& draft) { ReadBool(v, draft.spec.trim); }},
    {"lower", [](const Value& v, DimensionDraft& draft) { ReadBool(v, draft.spec.lower); }},
};

}  // namespace

void ReadDimensions(const Value& value, std::vector<DimensionSpec>& dimensions) {
  if (!IsMap(value)) return;
  for (const text::Member& member : value.node.members) {
    DimensionDraft draft;
    draft.spec.name = member.key;
    const Value one = value.Part(member.key, member.value);
    if (member.value.IsScalar()) {
      ReadSource(one, draft);
    } else {
      ReadMap(one, kDimensionFields, draft);
    }
    dimensions.push_back(std::move(draft.spec));
  }
}

}  // namespace flowguard::dialects
