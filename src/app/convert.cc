// SPDX-License-Identifier: Apache-2.0
//
// `flowguard convert FILE...`: rules of Sentinel's as FlowGuard's, and back.  What changes
// its meaning on the way is told on stderr, a line each.
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "flowguard/rules_text.h"

#include "app/commands.h"
#include "base/try.h"
#include "dialects/rules_writer.h"
#include "dialects/sentinel/from_rules.h"
#include "dialects/sentinel/reader.h"
#include "dialects/sentinel/rule_text.h"
#include "dialects/sentinel/to_rules.h"
#include "dialects/sentinel/writer.h"
#include "rules/compile.h"
#include "sources/file_source.h"

namespace flowguard::app {
namespace {

namespace sentinel = dialects::sentinel;

struct Converted {
  std::string text;
  std::vector<std::string> report;
};

struct Input {
  std::string name;
  std::string text;
};

void Report(const std::vector<sentinel::Difference>& differences, Converted& converted) {
  for (const sentinel::Difference& difference : differences)
    converted.report.push_back(LineOf(difference));
}

std::optional<sentinel::Kind> KindOf(const ConvertFlags& flags) {
  for (size_t i = 0; i < sentinel::kKinds; ++i) {
    const auto kind = static_cast<sentinel::Kind>(i);
    if (NameOf(kind) == flags.kind) return kind;
  }
  return std::nullopt;
}

Result<std::vector<sentinel::RuleFile>> ReadSentinel(const std::vector<Input>& inputs,
                                                     const ConvertFlags& flags,
                                                     Converted& converted) {
  const auto profile =
      flags.drop_invalid ? sentinel::Profile::kCompat : sentinel::Profile::kDefault;
  std::vector<sentinel::RuleFile> files;
  std::string errors;
  for (const Input& input : inputs) {
    auto read = sentinel::ReadRules(input.text, input.name, {KindOf(flags), profile});
    if (!read.ok()) {
      errors += (errors.empty() ? "" : "\n") + read.error().message;
      continue;
    }
    converted.report.insert(converted.report.end(), read->warnings.begin(), read->warnings.end());
    files.push_back({input.name, std::move(read->rules)});
  }
  if (!errors.empty()) return Error::InvalidArgument(std::move(errors));
  return files;
}

// What nobody could load is not printed.
Result<std::string> WriteFlowGuard(const RuleSet& rules) {
  FG_RETURN_IF_ERROR(rules::Compile(rules, {.remote_allowed = true, .cluster_allowed = true}));
  return dialects::WriteRules(rules);
}

std::string WriteSentinel(const sentinel::RuleList& list, const ConvertFlags& flags) {
  const std::string text = flags.entity_of ? sentinel::WriteEntities(list, *flags.entity_of)
                                           : sentinel::WriteRules(list);
  return text + "\n";
}

size_t SizeOf(const sentinel::RuleList& list) {
  return std::visit([](const auto& rules) { return rules.size(); }, list);
}

// One file of Sentinel's holds rules of one kind.
Result<std::string> WriteChosen(const std::vector<sentinel::RuleList>& lists,
                                const ConvertFlags& flags, Converted& converted) {
  const std::optional<sentinel::Kind> kind = KindOf(flags);
  if (lists.size() > 1 && !kind) {
    std::string kinds;
    for (const sentinel::RuleList& list : lists)
      kinds += (kinds.empty() ? "" : ", ") + std::string(NameOf(KindOf(list)));
    return Error::InvalidArgument("the rules become Sentinel's of several kinds: " + kinds +
                                  "; write one after the other, each by --kind");
  }
  std::string text = "[]\n";
  for (const sentinel::RuleList& list : lists) {
    if (!kind || KindOf(list) == *kind) {
      text = WriteSentinel(list, flags);
    } else {
      converted.report.push_back("not written: " + std::to_string(SizeOf(list)) + " of kind " +
                                 std::string(NameOf(KindOf(list))) + "; --kind " +
                                 std::string(NameOf(KindOf(list))) + " writes them");
    }
  }
  return text;
}

Result<void> ConvertSentinel(const std::vector<Input>& inputs, const ConvertFlags& flags,
                             Converted& converted) {
  FG_ASSIGN_OR_RETURN(const auto files, ReadSentinel(inputs, flags, converted));
  if (flags.to == RuleForm::kSentinel) {
    for (const sentinel::RuleFile& file : files)
      converted.text += WriteSentinel(file.rules, flags);
    return {};
  }
  const sentinel::ToRulesResult made =
      sentinel::ToRules(files, flags.compat ? Compat::kSentinel : Compat::kNone);
  Report(made.differences, converted);
  FG_ASSIGN_OR_RETURN(converted.text, WriteFlowGuard(made.rules));
  return {};
}

Result<void> ConvertFlowGuard(const Input& input, const ConvertFlags& flags, Converted& converted) {
  FG_ASSIGN_OR_RETURN(ParsedRules parsed, ParseRules(input.text, input.name));
  converted.report = std::move(parsed.warnings);
  if (flags.to == RuleForm::kFlowGuard) {
    FG_ASSIGN_OR_RETURN(converted.text, WriteFlowGuard(parsed.rules));
    return {};
  }
  FG_RETURN_IF_ERROR(
      rules::Compile(parsed.rules, {.remote_allowed = true, .cluster_allowed = true}));
  const sentinel::FromRulesResult made = sentinel::FromRules(parsed.rules);
  Report(made.differences, converted);
  FG_ASSIGN_OR_RETURN(converted.text, WriteChosen(made.lists, flags, converted));
  return {};
}

// The form of all files: as asked, or as their text tells.
Result<RuleForm> FormOf(const std::vector<Input>& inputs, const ConvertFlags& flags) {
  size_t of_sentinel = 0;
  for (const Input& input : inputs)
    of_sentinel += sentinel::IsRuleList(input.text) ? 1 : 0;
  const bool mixed = of_sentinel > 0 && of_sentinel < inputs.size();
  if (!flags.from && mixed) {
    return Error::InvalidArgument(
        "found lists of Sentinel's and rule files of FlowGuard's; convert them one by one");
  }
  const RuleForm form =
      flags.from.value_or(of_sentinel > 0 ? RuleForm::kSentinel : RuleForm::kFlowGuard);
  if (form == RuleForm::kFlowGuard && inputs.size() > 1) {
    return Error::InvalidArgument("found " + std::to_string(inputs.size()) +
                                  " rule files of FlowGuard's; one is allowed");
  }
  if (form == RuleForm::kFlowGuard && sentinel::IsRuleList(inputs.front().text)) {
    return Error::InvalidArgument(
        inputs.front().name +
        ": found a list, [...]; FlowGuard's rules are a map with `rules`, "
        "a list is --from sentinel");
  }
  return form;
}

Result<std::vector<Input>> ReadInputs(const std::vector<std::string>& files) {
  std::vector<Input> inputs;
  for (const std::string& file : files) {
    FG_ASSIGN_OR_RETURN(std::string text, sources::ReadFile(file));
    inputs.push_back({file, std::move(text)});
  }
  return inputs;
}

Result<void> ConvertAll(const ConvertFlags& flags, Converted& converted) {
  FG_ASSIGN_OR_RETURN(const std::vector<Input> inputs, ReadInputs(flags.files));
  FG_ASSIGN_OR_RETURN(const RuleForm from, FormOf(inputs, flags));
  if (flags.compat && (from != RuleForm::kSentinel || flags.to != RuleForm::kFlowGuard)) {
    return Error::InvalidArgument(
        "--compat is for lists of Sentinel's that become FlowGuard's; a rule file of FlowGuard's "
        "has it as `compat: sentinel`");
  }
  return from == RuleForm::kSentinel ? ConvertSentinel(inputs, flags, converted)
                                     : ConvertFlowGuard(inputs.front(), flags, converted);
}

}  // namespace

int Convert(const ConvertFlags& flags, bool color) {
  Converted converted;
  const Result<void> done = ConvertAll(flags, converted);
  for (const std::string& line : converted.report)
    PrintWarning(line, color);
  if (!done.ok()) {
    PrintError(done.error().message, color);
    return kExitFailure;
  }
  const size_t size = converted.text.size();
  return std::fwrite(converted.text.data(), 1, size, stdout) == size ? kExitOk : kExitFailure;
}

}  // namespace flowguard::app
