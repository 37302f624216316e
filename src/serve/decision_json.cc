// SPDX-License-Identifier: Apache-2.0
#include "serve/decision_json.h"

#include <array>
#include <charconv>
#include <span>

#include "base/bounds.h"
#include "base/try.h"
#include "serve/rate_headers.h"
#include "serve/refusal.h"
#include "serve/status.h"
#include "text/json.h"
#include "text/json_writer.h"
#include "text/node.h"
#include "wire/http1.h"

namespace flowguard::serve {
namespace {

using text::Node;

constexpr std::string_view kName = "request";

Error At(text::Position at, std::string message) {
  return Error::InvalidArgument(text::Place(kName, at) + ": " + std::move(message));
}

Error Unknown(const text::Member& member, std::string_view allowed) {
  return At(member.key_at,
            "field \"" + member.key + "\" is not known; allowed are " + std::string(allowed));
}

Error Expected(const text::Member& member, std::string_view what) {
  return At(member.value.at,
            member.key + ": " + text::Describe(member.value) + "; expected " + std::string(what));
}

Result<Node> ReadObject(std::string_view body) {
  FG_ASSIGN_OR_RETURN(Node root, text::ParseJson(body, kName));
  if (!root.IsMap()) return At(root.at, text::Describe(root) + "; expected an object");
  return root;
}

Result<std::string> ReadString(const text::Member& member) {
  if (!member.value.IsScalar() || !member.value.quoted) return Expected(member, "a string");
  return member.value.scalar;
}

struct Range {
  int64_t least;
  int64_t most;
};

Result<int64_t> ReadInteger(const text::Member& member, Range range) {
  const std::string& digits = member.value.scalar;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool whole = member.value.IsScalar() && !member.value.quoted && error == std::errc() &&
                     end == digits.data() + digits.size();
  if (!whole || value < range.least || value > range.most) {
    return Expected(member, "a whole number from " + std::to_string(range.least) + " to " +
                                std::to_string(range.most));
  }
  return value;
}

Result<bool> ReadBool(const text::Member& member) {
  const Node& node = member.value;
  if (node.IsScalar() && !node.quoted && node.scalar == "true") return true;
  if (node.IsScalar() && !node.quoted && node.scalar == "false") return false;
  return Expected(member, "true or false");
}

// The values of one dimension: a string or a number, or a list of them; null stands for
// "has none", and so does a list of none.
Result<void> ReadValues(const text::Member& dimension, Question& question) {
  constexpr std::string_view kAllowed = "a string or a number";
  const Node& value = dimension.value;
  if (value.IsNull()) return {};
  if (value.IsScalar()) {
    question.dimensions.emplace_back(dimension.key, value.scalar);
    return {};
  }
  if (!value.IsSequence())
    return Expected(dimension, std::string(kAllowed) + ", or a list of them");
  if (value.items.size() > base::kGivenValuesMax) {
    return At(value.at, dimension.key + ": " + std::to_string(value.items.size()) +
                            " values; allowed are " + std::to_string(base::kGivenValuesMax));
  }
  for (const Node& item : value.items) {
    if (!item.IsScalar() || item.IsNull()) {
      return At(item.at, dimension.key + ": " + text::Describe(item) + " in a list; expected " +
                             std::string(kAllowed));
    }
    question.dimensions.emplace_back(dimension.key, item.scalar);
  }
  return {};
}

// A map of names to values.
Result<void> ReadDimensions(const text::Member& member, Question& question) {
  if (!member.value.IsMap()) return Expected(member, "an object of names and values");
  if (member.value.members.size() > base::kGivenDimensionsMax) {
    return At(member.value.at, "dimensions: " + std::to_string(member.value.members.size()) +
                                   " of them; allowed are " +
                                   std::to_string(base::kGivenDimensionsMax));
  }
  for (const text::Member& dimension : member.value.members) {
    FG_RETURN_IF_ERROR(ReadValues(dimension, question));
  }
  return {};
}

Result<void> ReadMethod(const text::Member& member, Question& question) {
  FG_ASSIGN_OR_RETURN(question.method, ReadString(member));
  if (!question.method.empty() && !wire::IsToken(question.method)) {
    return Expected(member, "an HTTP method");
  }
  return {};
}

Result<void> ReadPath(const text::Member& member, Question& question) {
  FG_ASSIGN_OR_RETURN(question.path, ReadString(member));
  if (!question.path.empty() && question.path.front() != '/') {
    return Expected(member, "a path that begins with \"/\"");
  }
  return {};
}

Result<void> ReadMember(const text::Member& member, QuestionKind kind, Question& question) {
  const std::string& key = member.key;
  if (key == "resource") {
    FG_ASSIGN_OR_RETURN(question.resource, ReadString(member));
  } else if (key == "method") {
    return ReadMethod(member, question);
  } else if (key == "path") {
    return ReadPath(member, question);
  } else if (key == "dimensions") {
    return ReadDimensions(member, question);
  } else if (key == "cost") {
    FG_ASSIGN_OR_RETURN(question.cost, ReadInteger(member, {0, base::kCostMax}));
  } else if (key == "priority") {
    FG_ASSIGN_OR_RETURN(question.priority, ReadBool(member));
  } else if (key == "peek" && kind == QuestionKind::kCheck) {
    FG_ASSIGN_OR_RETURN(question.peek, ReadBool(member));
  } else if (key == "ttl_ms" && kind == QuestionKind::kEnter) {
    constexpr int64_t kMost =
        std::chrono::duration_cast<std::chrono::milliseconds>(base::kEntryTtlMax).count();
    FG_ASSIGN_OR_RETURN(const int64_t ms, ReadInteger(member, {1, kMost}));
    question.time_to_live = std::chrono::milliseconds(ms);
  } else {
    return Unknown(member, kind == QuestionKind::kCheck
                               ? "resource, method, path, dimensions, cost, priority, peek"
                               : "resource, method, path, dimensions, cost, priority, ttl_ms");
  }
  return {};
}

struct OutcomeWord {
  std::string_view word;
  Outcome outcome;
};
constexpr std::array<OutcomeWord, 4> kOutcomes = {{{"ok", Outcome::kOk},
                                                   {"error", Outcome::kError},
                                                   {"ignored_error", Outcome::kIgnoredError},
                                                   {"cancelled", Outcome::kCancelled}}};

Result<Outcome> ReadOutcome(const text::Member& member) {
  if (member.value.quoted) {
    for (const OutcomeWord& known : kOutcomes) {
      if (member.value.scalar == known.word) return known.outcome;
    }
  }
  return Expected(member, "\"ok\", \"error\", \"ignored_error\" or \"cancelled\"");
}

Result<EntryId> ReadId(const text::Member& member) {
  if (member.value.quoted) {
    if (const auto id = EntryId::Parse(member.value.scalar)) return *id;
  }
  return Expected(member, "the 32 digits that /v1/enter gave");
}

std::string_view VerdictWord(Verdict verdict) noexcept {
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

// The members of a decision, without the braces.
void AppendMembers(const Decision& decision, std::string& out) {
  constexpr int64_t kMillisecondNs = 1'000'000;
  out += "\"allowed\":";
  out += decision.allowed() ? "true" : "false";
  out += ",\"verdict\":\"";
  out += VerdictWord(decision.verdict);
  out += "\",\"reason\":\"";
  out += ReasonWord(decision.reason);
  out += "\",\"rule\":";
  if (decision.rule == nullptr) {
    out += "null";
  } else {
    text::AppendJsonString(out, decision.rule->name);
  }
  out += ",\"degraded\":";
  out += decision.degraded ? "true," : "false,";
  AppendNumbers(decision, out);
  out += ",\"wait_ms\":";
  AppendDecimal((decision.wait.count() + kMillisecondNs - 1) / kMillisecondNs, out);
}

}  // namespace

Result<Question> ReadQuestion(std::string_view body, QuestionKind kind) {
  FG_ASSIGN_OR_RETURN(const Node root, ReadObject(body));
  Question question;
  for (const text::Member& member : root.members) {
    FG_RETURN_IF_ERROR(ReadMember(member, kind, question));
  }
  if (question.resource.empty() && question.path.empty()) {
    return At(root.at, "neither resource nor path; expected one of them, or both");
  }
  return question;
}

Result<Exit> ReadExit(std::string_view body) {
  FG_ASSIGN_OR_RETURN(const Node root, ReadObject(body));
  Exit exit;
  bool has_id = false;
  for (const text::Member& member : root.members) {
    if (member.key == "id") {
      FG_ASSIGN_OR_RETURN(exit.id, ReadId(member));
      has_id = true;
    } else if (member.key == "outcome") {
      FG_ASSIGN_OR_RETURN(exit.outcome, ReadOutcome(member));
    } else if (member.key == "actual_cost") {
      FG_ASSIGN_OR_RETURN(exit.actual_cost, ReadInteger(member, {0, base::kCostMax}));
    } else {
      return Unknown(member, "id, outcome, actual_cost");
    }
  }
  if (!has_id) return At(root.at, "no id; expected the one that /v1/enter gave");
  return exit;
}

void AppendDecision(const Decision& decision, std::string& out) {
  out += '{';
  AppendMembers(decision, out);
  out += '}';
}

void AppendEntered(const Decision& decision, const EntryId& id, Duration time_to_live,
                   std::string& out) {
  out += "{\"id\":\"";
  out += id.ToString();
  out += "\",\"expires_after_ms\":";
  AppendDecimal(std::chrono::duration_cast<std::chrono::milliseconds>(time_to_live).count(), out);
  out += ',';
  AppendMembers(decision, out);
  out += '}';
}

}  // namespace flowguard::serve
