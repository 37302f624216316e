// SPDX-License-Identifier: Apache-2.0
#include "scenario_runner.h"

#include <map>
#include <memory>
#include <utility>

#include "flowguard/guard.h"
#include "flowguard/rules_text.h"

#include "dialects/quantities.h"
#include "scenario_line.h"
#include "testing/manual_clock.h"

namespace flowguard::scenarios {
namespace {

std::string Text(Duration duration) {
  return duration == kNever ? "never" : dialects::WriteDuration(duration);
}

std::string Text(Verdict verdict) {
  switch (verdict) {
    case Verdict::kAllow:
      return "allow";
    case Verdict::kWait:
      return "wait";
    case Verdict::kRefuse:
      break;
  }
  return "refuse";
}

std::string Text(const Decision& d) {
  std::string text = Text(d.verdict);
  if (d.verdict == Verdict::kWait) text += " " + Text(d.wait);
  text += " remaining " + std::to_string(d.remaining) + " limit " + std::to_string(d.limit);
  if (d.verdict == Verdict::kRefuse) text += " retry " + Text(d.retry_after);
  text += " reset " + Text(d.reset_after);
  if (d.degraded) text += " degraded";
  return text + " by " + (d.rule == nullptr ? "none" : d.rule->name);
}

// What of `wanted` is not so in `d`; empty: all is.
std::string Difference(const Wanted& wanted, const Decision& d) {
  std::string text;
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (wanted.verdict && *wanted.verdict != d.verdict) add(Text(*wanted.verdict));
  if (wanted.wait && *wanted.wait != d.wait) add("wait " + Text(*wanted.wait));
  if (wanted.retry && *wanted.retry != d.retry_after) add("retry " + Text(*wanted.retry));
  if (wanted.reset && *wanted.reset != d.reset_after) add("reset " + Text(*wanted.reset));
  if (wanted.remaining && *wanted.remaining != d.remaining)
    add("remaining " + std::to_string(*wanted.remaining));
  if (wanted.limit && *wanted.limit != d.limit) add("limit " + std::to_string(*wanted.limit));
  if (wanted.degraded != d.degraded) add(wanted.degraded ? "degraded" : "not degraded");
  const std::string rule = d.rule == nullptr ? "none" : d.rule->name;
  if (wanted.rule && *wanted.rule != rule) add("by " + *wanted.rule);
  return text;
}

class Runner {
 public:
  Runner(std::string_view text, const std::string& file_name) : left_(text), file_(file_name) {}

  std::vector<Problem> Run() {
    while (problems_.empty() && !left_.empty()) {
      const std::string_view line = TakeLine();
      if (line.find_first_not_of(' ') == std::string_view::npos || line.front() == '#') continue;
      if (line.substr(0, 5) == "load ") {
        Load(ReadRules(line.substr(5)));
      } else if (line == "load") {
        Load(ReadRules(""));
      } else {
        DoLine(line);
      }
    }
    if (steps_ == 0 && problems_.empty()) Report("a scenario needs at least one step");
    return std::move(problems_);
  }

 private:
  std::string_view TakeLine() {
    const size_t end = std::min(left_.find('\n'), left_.size());
    const std::string_view line = left_.substr(0, end);
    left_.remove_prefix(std::min(left_.size(), end + 1));
    ++line_;
    return line;
  }

  void Report(std::string message) { problems_.push_back({line_, std::move(message)}); }

  // Rules in the short form, or, when that is empty, the block of "| " lines that follows.
  Result<RuleSet> ReadRules(std::string_view limit) {
    if (!limit.empty()) {
      auto rule = ParseLimit(limit);
      if (!rule.ok()) return rule.error();
      RuleSet set;
      set.rules.push_back(*std::move(rule));
      return set;
    }
    const std::string place = file_ + " after line " + std::to_string(line_);
    std::string yaml;
    while (left_.substr(0, 1) == "|") {
      const std::string_view line = TakeLine();
      yaml += std::string(line.substr(std::min<size_t>(2, line.size()))) + "\n";
    }
    auto parsed = ParseRules(yaml, place);
    if (!parsed.ok()) return parsed.error();
    return std::move(parsed->rules);
  }

  void Load(Result<RuleSet> rules) {
    if (!rules.ok()) return Report(rules.error().message);
    GuardOptions options;
    options.clock = &clock_;
    options.hash_seed = 42;
    clock_.Set(kStart);  // rules are new then
    auto guard = Guard::Create(*std::move(rules), options);
    if (!guard.ok()) return Report(guard.error().message);
    entries_.clear();
    guard_ = *std::move(guard);
  }

  void DoLine(std::string_view line) {
    const Result<Step> step = ReadStep(line);
    if (!step.ok()) return Report(step.error().message);
    if (guard_ == nullptr) return Report("found a step; allowed before it: load");
    const Instant at = kStart + step->at;
    if (at < clock_.Now()) return Report("found a time before that of the line above");
    clock_.Set(at);
    ++steps_;
    switch (step->verb) {
      case Verb::kReload:
        return Reload(*step);
      case Verb::kSettle:
        return Settle(*step);
      default:
        return Ask(*step);
    }
  }

  void Reload(const Step& step) {
    const int line = line_;
    Result<RuleSet> rules = ReadRules(step.limit);
    const Result<void> loaded =
        rules.ok() ? guard_->Reload(*std::move(rules)) : Result<void>(rules.error());
    const std::string found = loaded.ok() ? "the rules were loaded" : loaded.error().message;
    const bool as_wanted = step.wanted.error
                               ? !loaded.ok() && found.find(*step.wanted.error) != std::string::npos
                               : loaded.ok();
    if (as_wanted) return;
    problems_.push_back(
        {line,
         "found: " + found + "\n  wanted: " +
             (step.wanted.error ? "an error with \"" + *step.wanted.error + "\"" : "no error")});
  }

  void Settle(const Step& step) {
    const auto found = entries_.find(step.entry);
    if (found == entries_.end()) return Report("found no entry \"" + step.entry + "\" to settle");
    if (step.actual_cost) {
      found->second.Settle(step.outcome, *step.actual_cost);
    } else {
      found->second.Settle(step.outcome);
    }
    entries_.erase(found);
  }

  void Ask(const Step& step) {
    std::vector<DimensionValue> dimensions;
    for (const auto& [name, value] : step.dimensions)
      dimensions.push_back({name, value});
    const Request request{.resource = step.resource,
                          .method = step.method,
                          .path = step.path,
                          .dimensions = dimensions,
                          .cost = step.cost};
    for (int64_t i = 0; i < step.times; ++i) {
      const Decision decision = Decide(step, request);
      const bool last = i + 1 == step.times;
      Wanted wanted;  // of all but the last: the verdict
      wanted.verdict = step.wanted.verdict;
      wanted.degraded = step.wanted.degraded;
      if (last) wanted = step.wanted;
      const std::string difference = Difference(wanted, decision);
      if (difference.empty()) continue;
      return Report((step.times > 1 ? "request " + std::to_string(i + 1) + ": " : std::string()) +
                    "found: " + Text(decision) + "\n  wanted: " + difference);
    }
  }

  Decision Decide(const Step& step, const Request& request) {
    if (step.verb == Verb::kTake) return guard_->Check(request);
    if (step.verb == Verb::kPeek) return guard_->Peek(request);
    Entry entry = guard_->Enter(request);
    const Decision decision = entry.decision();
    if (entry) entries_.insert_or_assign(step.entry, std::move(entry));
    return decision;
  }

  // A window of every calendar length begins there: a Monday at midnight.
  static constexpr Instant kStart = Instant(std::chrono::hours(24 * 14));

  std::string_view left_;
  std::string file_;
  int line_ = 0;
  int steps_ = 0;
  std::vector<Problem> problems_;
  testing::ManualClock clock_;
  std::unique_ptr<Guard> guard_;
  std::map<std::string, Entry> entries_;  // settled before the guard goes
};

}  // namespace

std::vector<Problem> RunScenario(std::string_view text, const std::string& file_name) {
  return Runner(text, file_name).Run();
}

}  // namespace flowguard::scenarios
