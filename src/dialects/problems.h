// SPDX-License-Identifier: Apache-2.0
//
// What is wrong with a file, all of it: a reader notes every fault and goes on, so
// that no fault hides another.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "flowguard/result.h"

#include "text/node.h"

namespace flowguard::dialects {

// Threads: one owner.
class Problems {
 public:
  explicit Problems(std::string_view file_name) : file_name_(file_name) {}

  void Fault(text::Position at, std::string message);
  void Warn(text::Position at, std::string message);

  // "rules.yaml:12:9"
  [[nodiscard]] std::string Place(text::Position at) const { return text::Place(file_name_, at); }
  [[nodiscard]] bool any_fault() const noexcept { return !faults_.empty(); }

  // The faults in the order of the file, one a line; of more than kTextFaultsMax the
  // rest is counted.  Requires: any_fault().
  [[nodiscard]] Error ToError();
  // The warnings in the order of the file; of more than kTextFaultsMax the rest is
  // counted.
  [[nodiscard]] std::vector<std::string> TakeWarnings();

 private:
  struct Note {
    text::Position at;
    std::string message;
  };
  static void Sort(std::vector<Note>& notes);

  std::string file_name_;
  std::vector<Note> faults_;
  size_t faults_untold_ = 0;
  std::vector<Note> warnings_;
  size_t warnings_untold_ = 0;
};

}  // namespace flowguard::dialects
