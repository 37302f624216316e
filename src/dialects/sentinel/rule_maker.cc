// SPDX-License-Identifier: Apache-2.0
#include "dialects/sentinel/rule_maker.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "flowguard/rules_text.h"

#include "base/bounds.h"
#include "base/hash.h"
#include "rules/route.h"

namespace flowguard::dialects::sentinel {

namespace {

bool IsAlnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool IsInNames(char c) {
  return IsAlnum(c) || std::string_view("._:/-@").find(c) != std::string_view::npos;
}

// Eight hexadecimal digits that tell texts apart.
std::string MarkOf(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  uint64_t hash = base::HashOf(text, 0).low;
  std::string mark;
  for (int i = 0; i < 8; ++i, hash >>= 4)
    mark += kDigits[hash & 15];
  return mark;
}

// A dimension without which a rule does not apply.
DimensionSpec Skipped(std::string name, std::string source) {
  DimensionSpec spec;
  spec.name = std::move(name);
  spec.source = std::move(source);
  spec.missing = MissingPolicy::kSkip;
  return spec;
}

}  // namespace

int64_t WholeUnits(double count, int64_t most) {
  return count >= static_cast<double>(most) ? most : static_cast<int64_t>(count);
}

bool IsPlainValue(std::string_view text) {
  return !text.empty() && text.size() <= base::kKeyValueInlineMax &&
         text.find('*') == std::string_view::npos;
}

Rate ExactRate(double count, Duration window) {
  const double most =
      static_cast<double>(base::kRatePerSecondMax) * std::chrono::duration<double>(window).count();
  count = std::min({count, most, static_cast<double>(base::kLimitMax) / 1'000});
  for (const int times : {1, 2, 4, 5, 10, 20, 25, 50, 100, 1'000}) {
    const double units = count * times;
    if (units >= 1 && units == std::floor(units) && window * times <= base::kWindowMax)
      return {static_cast<int64_t>(units), window * times};
  }
  // One unit in the time that it takes, to the nanosecond.
  const double ns = std::chrono::duration<double, std::nano>(window).count() / count;
  const auto longest = static_cast<double>(Duration(base::kWindowMax).count());
  return {1, Duration(static_cast<int64_t>(std::min(std::round(ns), longest)))};
}

std::string NameFrom(std::string_view text) {
  constexpr size_t kMarkBytes = 9;
  constexpr size_t kCounterBytes = 8;  // "-100000", for equal names
  constexpr size_t kBytesMax = base::kRuleNameBytesMax - kMarkBytes - kCounterBytes;
  std::string name(text.substr(0, kBytesMax));
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !IsInNames(c); }, '_');
  return name == text ? name : name + "-" + MarkOf(text);
}

std::string QuotedRegex(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    // Bytes of other characters than ASCII's stand for themselves.
    const bool plain = IsAlnum(c) || c == '_' || static_cast<unsigned char>(c) >= 0x80;
    if (!plain) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

std::optional<std::string> UnquotedRegex(std::string_view pattern) {
  std::string text;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '\\' && i + 1 < pattern.size()) ++i;
    text += pattern[i];
  }
  if (QuotedRegex(text) != pattern) return std::nullopt;
  return text;
}

std::string RouteOfResource(std::string_view resource) {
  std::string route(resource);
  const size_t slash = resource.find('/');
  if (slash == std::string_view::npos) return {};
  if (slash > 1 && resource[slash - 1] == ':') route[slash - 1] = ' ';
  return rules::ParseRoute(route).ok() ? route : std::string();
}

Rule RuleMaker::Begin(const RuleAt& at, std::string_view about, std::string_view resource,
                      bool regex) {
  Rule rule;
  rule.name = NameFrom(about);
  rule.origin = at.place;
  if (regex) {
    rule.on.resource_regex = resource;
    report.NoteOfMany(at, "resource", "matches the name by java.util.regex",
                      "by RE2, which knows neither look-around nor back references, and refuses "
                      "the list where one stands");
    return rule;
  }
  rule.on.route = RouteOfResource(resource);
  const bool star = resource.find('*') != std::string_view::npos;
  if (!star) rule.on.resource = resource;
  if (!rule.on.route.empty()) {
    report.NoteOfMany(at, "resource", "counts what an adapter of the program names so",
                      star ? "counts every HTTP request of this path, and no call by the name"
                           : "also counts every HTTP request of this path, whatever rules for "
                             "paths more like it there are");
  } else if (star) {
    // A star at its end would be a wildcard.
    rule.on.resource_regex = QuotedRegex(resource);
  }
  return rule;
}

void RuleMaker::Add(Rule rule) {
  std::string name = rule.name;
  for (size_t i = 2; !names_.insert(name).second; ++i)
    name = rule.name + "-" + std::to_string(i);
  rule.name = std::move(name);
  set_.rules.push_back(std::move(rule));
}

void RuleMaker::AddZero(Rule rule) {
  rule.kind = RuleKind::kLimit;
  rule.rate = {0, std::chrono::seconds(1)};
  rule.relate_to.clear();  // nothing of what is counted matters
  rule.by.clear();
  rule.overrides.clear();
  Add(std::move(rule));
}

void RuleMaker::AddConcurrency(const RuleAt& at, double count, Rule rule) {
  rule.concurrency = CutUnits(at, "count", count, base::kLimitMax);
  if (rule.concurrency == 0) return AddZero(std::move(rule));
  rule.kind = RuleKind::kConcurrency;
  report.NoteOfMany(at, "grade",
                    "looks at the calls in progress and counts itself afterwards, so that "
                    "concurrent calls pass together",
                    "takes a place and looks in one step");
  Add(std::move(rule));
}

int64_t RuleMaker::CutUnits(const RuleAt& at, std::string_view field, double count, int64_t most) {
  if (count > static_cast<double>(most))
    report.Note(at, field, "takes any number", std::to_string(most) + " at most");
  return WholeUnits(count, most);
}

int64_t RuleMaker::UnitsPerSecond(const RuleAt& at, double count) {
  const int64_t units = WholeUnits(count, base::kRatePerSecondMax);
  if (static_cast<double>(units) == count) return units;
  if (count > static_cast<double>(base::kRatePerSecondMax)) {
    report.Note(at, "count", "admits more than a billion a second", "a billion");
  } else {
    // The same thing, but hardly what was meant.
    report.Note(at, "count", "compares with the whole part, " + std::to_string(units),
                units == 0 ? "refuses every call as well" : "does the same");
  }
  return units;
}

Duration RuleMaker::CutWait(const RuleAt& at, std::string_view field, Duration wait) {
  if (wait <= base::kWaitMax) return wait;
  report.Note(at, field, "lets calls wait longer than an hour", "an hour at most");
  return base::kWaitMax;
}

std::string RuleMaker::Declare(DimensionSpec spec) {
  std::string base = spec.name;
  for (size_t i = 2;; ++i) {
    const auto [found, is_new] = sources_.emplace(spec.name, spec.source);
    if (is_new) set_.dimensions.push_back(spec);
    if (found->second == spec.source) return found->first;
    spec.name = base + "-" + std::to_string(i);
  }
}

// Without an origin Sentinel asks no rule that names some.
std::string RuleMaker::Origin() {
  return Declare(Skipped(std::string(kOriginDimension), {}));
}

std::string RuleMaker::Context() {
  DimensionSpec context;
  context.name = kContextDimension;
  context.missing_value = kDefaultContext;
  return Declare(std::move(context));
}

std::string RuleMaker::Argument(int32_t index) {
  return Declare(Skipped(std::string(kArgumentDimension) + std::to_string(index), {}));
}

std::string RuleMaker::Source(std::string_view name, std::string source) {
  std::string allowed(name);
  std::replace_if(
      allowed.begin(), allowed.end(),
      [](char c) { return !IsAlnum(c) && c != '_' && c != '-' && c != '.'; }, '_');
  return Declare(Skipped(std::move(allowed), std::move(source)));
}

RuleSet RuleMaker::Take() {
  set_.regex = &Re2();
  return std::move(set_);
}

}  // namespace flowguard::dialects::sentinel
