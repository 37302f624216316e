// SPDX-License-Identifier: Apache-2.0
//
// Regular expressions of the standard library, for tests of what asks an engine for them.
// It counts the matches that it is asked for.
#pragma once

#include <atomic>
#include <memory>
#include <regex>
#include <string>
#include <string_view>

#include "flowguard/regex.h"

namespace flowguard::testing {

// Threads: any.
class StdRegexEngine final : public RegexEngine {
 public:
  [[nodiscard]] Result<std::unique_ptr<const Regex>> Compile(
      std::string_view pattern) const override {
    try {
      return std::unique_ptr<const Regex>(std::make_unique<const One>(pattern, asked_));
    } catch (const std::regex_error& error) {
      return Error::InvalidArgument(error.what());
    }
  }
  [[nodiscard]] int asked() const noexcept { return asked_.load(); }

 private:
  class One final : public Regex {
   public:
    One(std::string_view pattern, std::atomic<int>& asked)
        : regex_(std::string(pattern)), asked_(asked) {}
    [[nodiscard]] bool MatchesWhole(std::string_view text) const noexcept override {
      ++asked_;
      return std::regex_match(text.begin(), text.end(), regex_);
    }

   private:
    std::regex regex_;
    std::atomic<int>& asked_;
  };

  mutable std::atomic<int> asked_{0};
};

}  // namespace flowguard::testing
