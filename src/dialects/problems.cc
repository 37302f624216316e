// SPDX-License-Identifier: Apache-2.0
#include "dialects/problems.h"

#include <algorithm>
#include <utility>

#include "base/bounds.h"

namespace flowguard::dialects {

void Problems::Fault(text::Position at, std::string message) {
  if (faults_.size() == base::kTextFaultsMax) {
    ++faults_untold_;
    return;
  }
  faults_.push_back({at, std::move(message)});
}

void Problems::Warn(text::Position at, std::string message) {
  if (warnings_.size() == base::kTextFaultsMax) {
    ++warnings_untold_;
    return;
  }
  warnings_.push_back({at, std::move(message)});
}

void Problems::Sort(std::vector<Note>& notes) {
  std::stable_sort(notes.begin(), notes.end(), [](const Note& a, const Note& b) {
    return a.at.line != b.at.line ? a.at.line < b.at.line : a.at.column < b.at.column;
  });
}

Error Problems::ToError() {
  Sort(faults_);
  std::string message;
  for (const Note& fault : faults_) {
    if (!message.empty()) message += '\n';
    message += Place(fault.at) + ": " + fault.message;
  }
  if (faults_untold_ > 0) message += "\nand " + std::to_string(faults_untold_) + " more";
  return Error::InvalidArgument(std::move(message));
}

std::vector<std::string> Problems::TakeWarnings() {
  Sort(warnings_);
  std::vector<std::string> lines;
  for (const Note& warning : warnings_)
    lines.push_back(Place(warning.at) + ": " + warning.message);
  if (warnings_untold_ > 0) {
    lines.push_back(file_name_ + ": and " + std::to_string(warnings_untold_) + " more warnings");
  }
  warnings_.clear();
  warnings_untold_ = 0;
  return lines;
}

}  // namespace flowguard::dialects
