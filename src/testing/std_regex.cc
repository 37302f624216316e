// SPDX-License-Identifier: Apache-2.0
#include "testing/std_regex.h"

#include <regex>
#include <string>

namespace flowguard::testing {

namespace {

class StdRegex final : public Regex {
 public:
  StdRegex(std::string_view pattern, std::atomic<int>& asked)
      : regex_(std::string(pattern)), asked_(asked) {}
  [[nodiscard]] bool MatchesWhole(std::string_view text) const noexcept override {
    ++asked_;
    return std::regex_match(text.begin(), text.end(), regex_);
  }

 private:
  std::regex regex_;
  std::atomic<int>& asked_;
};

}  // namespace

Result<std::unique_ptr<const Regex>> StdRegexEngine::Compile(std::string_view pattern) const {
  try {
    return std::unique_ptr<const Regex>(std::make_unique<const StdRegex>(pattern, asked_));
  } catch (const std::regex_error& error) {
    return Error::InvalidArgument(error.what());
  }
}

}  // namespace flowguard::testing
