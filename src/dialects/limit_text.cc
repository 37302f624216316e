// SPDX-License-Identifier: Apache-2.0
//
// The short form of a rule on the command line:
//   N/unit [burst B] [per DIMENSION[,DIMENSION]] [algorithm NAME] [on "METHOD /route"]
// The clauses may stand in any order, each once.
#include "flowguard/rules_text.h"

#include "dialects/quantities.h"
#include "dialects/rule_words.h"
#include "rules/check_rule.h"
#include "rules/route.h"
#include "text/node.h"

namespace flowguard {

namespace {

using dialects::NearestWord;
using dialects::Read;
using dialects::TextFault;
using dialects::WordScanner;
using text::Quote;

constexpr std::string_view kClauses[] = {"burst", "per", "algorithm", "on"};

std::string Unexpected(std::string_view word) {
  std::string message = "unexpected " + Quote(word) + "; ";
  const std::string_view nearest = NearestWord(word, kClauses);
  if (!nearest.empty()) message += "did you mean " + Quote(nearest) + "? ";
  return message +
         "allowed: burst B, per DIMENSION[,DIMENSION], algorithm NAME, on \"METHOD /route\"";
}

// Reads one short form from the left.
class LimitReader {
 public:
  explicit LimitReader(std::string_view text) : text_(text), scanner_(text) {}

  Read<Rule> Run() {
    const Read<Rate> rate = dialects::TakeRate(scanner_);
    if (!rate.ok()) return rate.fault();
    rule_.rate = *rate;
    for (scanner_.SkipSpaces(); !scanner_.AtEnd(); scanner_.SkipSpaces()) {
      if (auto fault = Clause()) return *fault;
    }
    const std::string algorithm(WordOf(dialects::kAlgorithmWords, rule_.algorithm));
    if (rule_.burst && !rules::HasBurst(rule_.algorithm)) {
      return TextFault{
          text_.find("burst"),
          "burst goes with token_bucket, smooth_bursty or step_bucket, not with " + algorithm};
    }
    if (rules::HasWarmUp(rule_.algorithm)) {
      return TextFault{text_.find("algorithm"),
                       algorithm + " needs warm_up, which is for rule files"};
    }
    rule_.name = NameOf(text_);
    return std::move(rule_);
  }

 private:
  using MaybeFault = std::optional<TextFault>;

  MaybeFault Clause() {
    const size_t at = scanner_.offset();
    const std::string_view word = scanner_.PeekWord();
    for (size_t i = 0; i < std::size(kClauses); ++i) {
      if (kClauses[i] != word) continue;
      if (seen_[i]) return TextFault{at, Quote(word) + " stands here twice; once is enough"};
      seen_[i] = true;
      scanner_.TakeWord(word);
      scanner_.SkipSpaces();
      if (i == 0) return TakeBurst();
      if (i == 1) return TakeDimensions();
      if (i == 2) return TakeAlgorithm();
      return TakeRoute();
    }
    return TextFault{at, Unexpected(word)};
  }

  MaybeFault TakeBurst() {
    const Read<int64_t> burst = dialects::TakeUnits(scanner_);
    if (!burst.ok()) return burst.fault();
    rule_.burst = *burst;
    return {};
  }

  // ip,user and ip, user alike.
  MaybeFault TakeDimensions() {
    do {
      scanner_.SkipSpaces();
      const size_t at = scanner_.offset();
      const std::string_view name = scanner_.TakeUntil(",");
      if (name.empty())
        return TextFault{at, "a dimension is missing; such as ip, user, header:x-key"};
      rule_.by.emplace_back(name);
      WordScanner ahead = scanner_;
      ahead.SkipSpaces();
      if (ahead.Peek() == ',') scanner_ = ahead;
    } while (scanner_.TakeByte(','));
    return {};
  }

  MaybeFault TakeAlgorithm() {
    const size_t at = scanner_.offset();
    const std::string_view name = scanner_.TakeUntil({});
    std::vector<std::string_view> allowed;
    for (const auto& word : dialects::kAlgorithmWords) {
      if (word.word == name) {
        rule_.algorithm = word.value;
        return {};
      }
      allowed.push_back(word.word);
    }
    return TextFault{at, dialects::UnknownWord("algorithm", name, allowed)};
  }

  // In quotes, or the bare words /route and METHOD /route.
  MaybeFault TakeRoute() {
    size_t at = scanner_.offset();
    const char quote = scanner_.Peek();
    std::string route;
    if (quote == '"' || quote == '\'') {
      ++at;
      const size_t end = text_.find(quote, at);
      if (end == std::string_view::npos) return TextFault{at - 1, "the quote is not closed"};
      route = text_.substr(at, end - at);
      while (scanner_.offset() <= end) {
        if (!scanner_.TakeByte(scanner_.Peek())) break;
      }
    } else {
      route = scanner_.TakeUntil({});
      scanner_.SkipSpaces();
      const bool method_only = !route.empty() && route.find('/') == std::string::npos;
      if (method_only && scanner_.Peek() == '/') {
        route += ' ';
        route += scanner_.TakeUntil({});
      }
    }
    const auto parsed = rules::ParseRoute(route);
    if (!parsed.ok()) return TextFault{at, parsed.error().message};
    rule_.on.route = std::move(route);
    return {};
  }

  // "100/s per ip" is limit-100-s-per-ip.
  static std::string NameOf(std::string_view text) {
    std::string name = "limit";
    bool gap = true;
    for (const char c : text) {
      const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
      if (word && gap) name += '-';
      if (word) name += c;
      gap = !word;
    }
    return name;
  }

  std::string_view text_;
  WordScanner scanner_;
  Rule rule_;
  bool seen_[std::size(kClauses)] = {};
};

}  // namespace

Result<Rule> ParseLimit(std::string_view text) {
  const Read<Rule> rule = LimitReader(text).Run();
  if (rule.ok()) return *rule;
  return Error::InvalidArgument("limit " + Quote(text) + ", column " +
                                std::to_string(rule.fault().offset + 1) + ": " +
                                rule.fault().message);
}

}  // namespace flowguard
