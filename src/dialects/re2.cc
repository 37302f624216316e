// SPDX-License-Identifier: Apache-2.0
//
// RE2 behind the interface of flowguard/regex.h.
#include <string>
#include <utility>

#include <re2/re2.h>

#include "flowguard/rules_text.h"

#include "base/bounds.h"

namespace flowguard {
namespace {

re2::RE2::Options OptionsOf() {
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_never_capture(true);
  options.set_max_mem(base::kRegexBytesMax);
  return options;
}

class Re2Regex final : public Regex {
 public:
  explicit Re2Regex(std::string_view pattern)
      : expression_(re2::StringPiece(pattern.data(), pattern.size()), OptionsOf()) {}

  [[nodiscard]] bool MatchesWhole(std::string_view text) const noexcept override {
    return re2::RE2::FullMatch(re2::StringPiece(text.data(), text.size()), expression_);
  }
  [[nodiscard]] const re2::RE2& expression() const noexcept { return expression_; }

 private:
  re2::RE2 expression_;
};

class Re2Engine final : public RegexEngine {
 public:
  [[nodiscard]] Result<std::unique_ptr<const Regex>> Compile(
      std::string_view pattern) const override {
    if (pattern.empty()) return Error::InvalidArgument("empty");
    if (pattern.size() > base::kResourceBytesMax) {
      return Error::InvalidArgument("longer than " + std::to_string(base::kResourceBytesMax) +
                                    " bytes");
    }
    auto regex = std::make_unique<const Re2Regex>(pattern);
    const re2::RE2& expression = regex->expression();
    if (!expression.ok())
      return Error::InvalidArgument(expression.error() + "; write it in the syntax of RE2");
    if (expression.ProgramSize() > base::kRegexProgramMax) {
      return Error::InvalidArgument("a program of " + std::to_string(expression.ProgramSize()) +
                                    " instructions; at most " +
                                    std::to_string(base::kRegexProgramMax) + " are allowed");
    }
    return std::unique_ptr<const Regex>(std::move(regex));
  }
};

}  // namespace

const RegexEngine& Re2() {
  static const Re2Engine engine;
  return engine;
}

}  // namespace flowguard
