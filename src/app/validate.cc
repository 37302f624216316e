// SPDX-License-Identifier: Apache-2.0
//
// `flowguard validate FILE...`: everything that `run` would say of these files.
#include <array>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "flowguard/result.h"
#include "flowguard/rules_text.h"

#include "app/commands.h"
#include "app/rule_keeper.h"
#include "app/rule_split.h"
#include "app/settings.h"
#include "base/try.h"
#include "dialects/config_yaml.h"
#include "rules/compile.h"
#include "serve/decision_api.h"
#include "serve/token_rules.h"
#include "sources/file_source.h"
#include "text/json_writer.h"
#include "text/yaml.h"

namespace flowguard::app {
namespace {

struct Findings {
  std::string file;
  std::string kind = "rules";  // or "config"
  size_t rules = 0;
  std::vector<std::string> errors;
  std::vector<std::string> warnings;
};

void AddLines(std::string_view text, std::vector<std::string>& lines) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
}

// A configuration has fields that a rule file has not, and keeps them when something else
// in it is at fault.  What cannot be read at all is left to the rule reader to complain
// about.
bool IsConfig(std::string_view text, const std::string& file) {
  const auto document = text::ReadYaml(text, file);
  if (!document.ok() || !document->root.IsMap()) return false;
  const text::Node* const root = &document->root;
  if (const text::Node* rules = root->Find("rules"); rules != nullptr && rules->IsScalar()) {
    return true;
  }
  constexpr std::array<std::string_view, 13> kConfigFields = {
      "gateway",  "decisions", "admin",  "client_ip",        "store",        "cells",  "responses",
      "timeouts", "path",      "exempt", "preflight_exempt", "token_server", "cluster"};
  for (const std::string_view field : kConfigFields) {
    if (root->Find(field) != nullptr) return true;
  }
  return false;
}

// What a rule file is used with is not its own to say.
struct Home {
  rules::CompileOptions rules;
  bool asks = false;  // its cluster rules are asked of token servers; else it is one, at most
};
constexpr Home kAnyHome = {.rules = {.remote_allowed = true, .cluster_allowed = true}};

// As a token server loads them: each by itself, for its clients ask by number.
Result<void> CheckAsServed(const RuleSet& tokens) {
  const std::vector<serve::TokenNamespace> spaces = TokenNamespaces(tokens, 1);
  FG_RETURN_IF_ERROR(serve::CheckTokenRules(spaces));
  const std::vector<size_t> clients(spaces.size(), 1);
  const auto made = serve::MakeTokenRules(spaces, clients, /*shared=*/false, {});
  if (!made.ok()) return made.error();
  return {};
}

// `asked_by_name`: programs ask by resource, as far as the file tells.
void CheckRules(const RuleSet& rules, const Home& home, bool asked_by_name, Findings& findings) {
  findings.rules += rules.rules.size();
  const SplitRules split = SplitTokenRules(rules);
  if (const Result<void> served = CheckAsServed(split.tokens); !served.ok())
    AddLines(served.error().message, findings.errors);
  const RuleSet& asked = home.asks ? rules : split.others;
  const auto table = rules::Compile(asked, home.rules);
  if (!table.ok()) return AddLines(table.error().message, findings.errors);
  findings.warnings.insert(findings.warnings.end(), table->warnings.begin(), table->warnings.end());
  if (asked_by_name) return;
  const auto unmet = serve::ResourceWarnings(asked);
  findings.warnings.insert(findings.warnings.end(), unmet.begin(), unmet.end());
}

void CheckRuleFile(std::string_view text, const std::string& file, const Home& home,
                   bool asked_by_name, Findings& findings) {
  const auto parsed = ParseRules(text, file);
  if (!parsed.ok()) return AddLines(parsed.error().message, findings.errors);
  findings.warnings.insert(findings.warnings.end(), parsed->warnings.begin(),
                           parsed->warnings.end());
  CheckRules(parsed->rules, home, asked_by_name, findings);
}

void CheckConfig(std::string_view text, const std::string& file, Findings& findings) {
  findings.kind = "config";
  const auto parsed = dialects::ParseConfig(text, file);
  if (!parsed.ok()) return AddLines(parsed.error().message, findings.errors);
  findings.warnings = parsed->warnings;
  const bool asked_by_name = parsed->config.decisions_listen.has_value();
  // Where nobody counts cluster rules, they are an error, as at a client without servers.
  const bool cluster = parsed->config.cluster.has_value();
  const Home home = {
      .rules = {.remote_allowed = parsed->config.store.has_value(), .cluster_allowed = cluster},
      .asks = cluster || !parsed->config.token_server};
  if (parsed->config.inline_rules)
    CheckRules(*parsed->config.inline_rules, home, asked_by_name, findings);
  if (parsed->config.rules_path.empty()) return;
  const std::string path =
      (std::filesystem::path(file).parent_path() / parsed->config.rules_path).string();
  const auto rules = sources::ReadFile(path);
  if (!rules.ok()) return AddLines(rules.error().message, findings.errors);
  CheckRuleFile(*rules, path, home, asked_by_name, findings);
}

Findings Check(const std::string& file) {
  Findings findings;
  findings.file = file;
  const auto text = sources::ReadFile(file);
  if (!text.ok()) {
    AddLines(text.error().message, findings.errors);
  } else if (IsConfig(*text, file)) {
    CheckConfig(*text, file, findings);
  } else {
    CheckRuleFile(*text, file, kAnyHome, false, findings);
  }
  return findings;
}

void PrintText(const Findings& findings, bool color) {
  for (const std::string& error : findings.errors)
    PrintError(error, color);
  for (const std::string& warning : findings.warnings) {
    PrintWarning(warning, color);
  }
  if (findings.errors.empty()) {
    std::printf("%s: ok (%s, %zu %s)\n", findings.file.c_str(), findings.kind.c_str(),
                findings.rules, findings.rules == 1 ? "rule" : "rules");
  }
}

void WriteLines(const std::vector<std::string>& lines, text::JsonWriter& json) {
  json.BeginArray();
  for (const std::string& line : lines)
    json.String(line);
  json.EndArray();
}

void PrintJson(const std::vector<Findings>& all) {
  std::string out;
  text::JsonWriter json(out);
  json.BeginObject().Key("files").BeginArray();
  for (const Findings& findings : all) {
    json.BeginObject().Key("file").String(findings.file);
    json.Key("kind").String(findings.kind).Key("ok").Bool(findings.errors.empty());
    json.Key("rules").Uint(findings.rules);
    json.Key("errors");
    WriteLines(findings.errors, json);
    json.Key("warnings");
    WriteLines(findings.warnings, json);
    json.EndObject();
  }
  json.EndArray().EndObject();
  std::printf("%s\n", out.c_str());
}

}  // namespace

int Validate(const ValidateFlags& flags, bool color) {
  std::vector<Findings> all;
  bool good = true;
  for (const std::string& file : flags.files) {
    all.push_back(Check(file));
    good = good && all.back().errors.empty();
    if (flags.output == Output::kText) PrintText(all.back(), color);
  }
  if (flags.output == Output::kJson) PrintJson(all);
  return good ? kExitOk : kExitFailure;
}

}  // namespace flowguard::app
