// SPDX-License-Identifier: Apache-2.0
//
// Regular expressions of the standard library, for tests of what asks an engine for them.
// It counts the matches that it is asked for.
#pragma once

#include <atomic>
#include <memory>
#include <string_view>

#include "flowguard/regex.h"

namespace flowguard::testing {

// Threads: any.
class StdRegexEngine final : public RegexEngine {
 public:
  [[nodiscard]] Result<std::unique_ptr<const Regex>> Compile(
      std::string_view pattern) const override;
  [[nodiscard]] int asked() const noexcept { return asked_.load(); }

 private:
  mutable std::atomic<int> asked_{0};
};

}  // namespace flowguard::testing
