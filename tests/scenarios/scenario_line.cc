// SPDX-License-Identifier: Apache-2.0
#include "scenario_line.h"

#include <array>
#include <cstddef>
#include <limits>

#include "dialects/quantities.h"

namespace flowguard::scenarios {
namespace {

Error Unknown(std::string_view found, std::string_view allowed) {
  return Error::InvalidArgument("found \"" + std::string(found) +
                                "\"; allowed: " + std::string(allowed));
}

// The words of a line from the left; text in double quotes is one word, without them.
class Words {
 public:
  explicit Words(std::string_view line) : left_(line) { Skip(); }
  [[nodiscard]] bool AtEnd() const { return left_.empty(); }
  [[nodiscard]] std::string_view Rest() const { return left_; }
  std::string_view Take() {
    const bool quoted = !left_.empty() && left_.front() == '"';
    if (quoted) left_.remove_prefix(1);
    const size_t end = std::min(left_.find(quoted ? '"' : ' '), left_.size());
    const std::string_view word = left_.substr(0, end);
    left_.remove_prefix(std::min(left_.size(), end + (quoted ? 1 : 0)));
    Skip();
    return word;
  }

 private:
  void Skip() { left_.remove_prefix(std::min(left_.find_first_not_of(' '), left_.size())); }
  std::string_view left_;
};

Result<Duration> TakeDuration(Words& words) {
  const std::string_view word = words.Take();
  if (word == "never") return kNever;
  const auto read = dialects::ReadDuration(word, {Duration(0), std::chrono::hours(24 * 4000)});
  if (!read.ok())
    return Error::InvalidArgument("\"" + std::string(word) + "\": " + read.fault().message);
  return *read;
}

Result<int64_t> TakeNumber(Words& words) {
  std::string_view word = words.Take();
  const bool negative = !word.empty() && word.front() == '-';
  if (negative) word.remove_prefix(1);
  const auto read = dialects::ReadCount(word, {0, std::numeric_limits<int64_t>::max()});
  if (!read.ok())
    return Error::InvalidArgument("\"" + std::string(word) + "\": " + read.fault().message);
  return negative ? -*read : *read;
}

template <typename T>
Result<void> Put(Result<T> value, std::optional<T>& into) {
  if (!value.ok()) return value.error();
  into = *value;
  return {};
}

Result<void> ReadWantedWord(std::string_view word, Words& words, Wanted& wanted) {
  if (word == "allow" || word == "wait" || word == "refuse") {
    wanted.verdict = word == "allow"  ? Verdict::kAllow
                     : word == "wait" ? Verdict::kWait
                                      : Verdict::kRefuse;
    if (word == "wait") return Put(TakeDuration(words), wanted.wait);
    return {};
  }
  if (word == "remaining") return Put(TakeNumber(words), wanted.remaining);
  if (word == "limit") return Put(TakeNumber(words), wanted.limit);
  if (word == "retry") return Put(TakeDuration(words), wanted.retry);
  if (word == "reset") return Put(TakeDuration(words), wanted.reset);
  if (word == "by") {
    wanted.rule = std::string(words.Take());
    return {};
  }
  if (word == "error") {
    wanted.error = std::string(words.Take());
    return {};
  }
  if (word == "degraded") {
    wanted.degraded = true;
    return {};
  }
  return Unknown(word,
                 "allow, wait D, refuse, remaining N, limit N, retry D, reset D, by RULE, "
                 "degraded, error \"TEXT\"");
}

bool TakeOutcome(std::string_view word, Outcome& outcome) {
  constexpr std::array kWords = {std::pair{"ok", Outcome::kOk}, std::pair{"error", Outcome::kError},
                                 std::pair{"ignored", Outcome::kIgnoredError},
                                 std::pair{"cancelled", Outcome::kCancelled}};
  for (const auto& [name, value] : kWords) {
    if (word != name) continue;
    outcome = value;
    return true;
  }
  return false;
}

// A word of the request: cost N, times N, resource=R, name=value, or METHOD /path.
Result<void> ReadAskedWord(std::string_view word, Words& words, Step& step) {
  if (word == "cost" || word == "times") {
    const Result<int64_t> number = TakeNumber(words);
    if (!number.ok()) return number.error();
    if (word == "times") {
      step.times = *number;
    } else if (step.verb == Verb::kSettle) {
      step.actual_cost = *number;
    } else {
      step.cost = *number;
    }
    return {};
  }
  if (step.verb == Verb::kSettle && TakeOutcome(word, step.outcome)) return {};
  if (const size_t equals = word.find('='); equals != std::string_view::npos) {
    const std::string name(word.substr(0, equals));
    const std::string value(word.substr(equals + 1));
    if (name == "resource") {
      step.resource = value;
    } else {
      step.dimensions.emplace_back(name, value);
    }
    return {};
  }
  const bool method = !word.empty() && word.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") ==
                                           std::string_view::npos;
  if (method && !words.AtEnd() && words.Rest().front() == '/') {
    step.method = std::string(word);
    step.path = std::string(words.Take());
    return {};
  }
  return Unknown(word,
                 "name=value, resource=NAME, METHOD /path, cost N, times N, and for settle "
                 "ok, error, ignored, cancelled");
}

Result<Verb> ReadVerb(std::string_view word) {
  if (word == "take") return Verb::kTake;
  if (word == "peek") return Verb::kPeek;
  if (word == "enter") return Verb::kEnter;
  if (word == "settle") return Verb::kSettle;
  if (word == "reload") return Verb::kReload;
  return Unknown(word, "take, peek, enter, settle, reload");
}

}  // namespace

Result<Step> ReadStep(std::string_view line) {
  constexpr std::string_view kArrow = "->";
  const size_t arrow = line.find(kArrow);
  Words words(line.substr(0, arrow));
  Step step;
  if (const std::string_view word = words.Take(); word != "at") return Unknown(word, "at TIME ...");
  const Result<Duration> at = TakeDuration(words);
  if (!at.ok()) return at.error();
  step.at = *at;
  const Result<Verb> verb = ReadVerb(words.Take());
  if (!verb.ok()) return verb.error();
  step.verb = *verb;
  if (step.verb == Verb::kReload) {
    step.limit = std::string(words.Rest());
    step.limit.erase(step.limit.find_last_not_of(' ') + 1);
  } else {
    if (step.verb == Verb::kEnter || step.verb == Verb::kSettle) step.entry = words.Take();
    while (!words.AtEnd()) {
      const std::string_view word = words.Take();
      if (const auto read = ReadAskedWord(word, words, step); !read.ok()) return read.error();
    }
  }
  if (arrow == std::string_view::npos) return step;
  Words wanted(line.substr(arrow + kArrow.size()));
  while (!wanted.AtEnd()) {
    const std::string_view word = wanted.Take();
    if (const auto read = ReadWantedWord(word, wanted, step.wanted); !read.ok())
      return read.error();
  }
  return step;
}

}  // namespace flowguard::scenarios
