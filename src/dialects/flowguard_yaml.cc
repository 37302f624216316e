// SPDX-License-Identifier: Apache-2.0
//
// A whole rule file: rules, dimensions, match, compat; or a list of Sentinel's.
#include "flowguard/rules_text.h"

#include "dialects/rule_reader.h"
#include "dialects/rule_words.h"
#include "dialects/sentinel/rule_text.h"
#include "text/yaml.h"

namespace flowguard {

namespace {

using dialects::Field;
using dialects::Problems;
using dialects::Value;

constexpr Field<RuleSet> kFileFields[] = {
    {"rules", [](const Value& v, RuleSet& set) { dialects::ReadRules(v, set.rules); }},
    {"dimensions",
     [](const Value& v, RuleSet& set) { dialects::ReadDimensions(v, set.dimensions); }},
    {"match",
     [](const Value& v, RuleSet& set) { dialects::ReadWord(v, dialects::kMatchWords, set.match); }},
    {"compat", [](const Value& v,
                  RuleSet& set) { dialects::ReadWord(v, dialects::kCompatWords, set.compat); }},
};

}  // namespace

Result<ParsedRules> ParseRules(std::string_view text, std::string_view file_name) {
  if (dialects::sentinel::IsRuleList(text))
    return dialects::sentinel::ParseRuleList(text, file_name);
  auto document = text::ReadYaml(text, file_name);
  if (!document.ok()) return std::move(document).error();

  Problems problems(file_name);
  for (auto& fault : document->faults)
    problems.Fault(fault.at, std::move(fault.message));
  ParsedRules parsed;
  const Value file{"the file", document->root, problems};
  if (ReadMap(file, kFileFields, parsed.rules) && document->root.Find("rules") == nullptr) {
    file.Fault("rules is missing; write `rules: []` to have none");
  }
  if (problems.any_fault()) return problems.ToError();
  parsed.rules.regex = &Re2();
  parsed.warnings = problems.TakeWarnings();
  return parsed;
}

}  // namespace flowguard
