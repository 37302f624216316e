// SPDX-License-Identifier: Apache-2.0
//
// Messages for the operator, on stderr, through the logging library that only this
// file pair names.
#pragma once

#include <memory>

#include "base/log.h"

namespace flowguard::app {

// Prints what is at least `level` while it lives.  One at a time.
class StderrLog {
 public:
  StderrLog(base::LogLevel level, bool color);
  ~StderrLog();
  StderrLog(const StderrLog&) = delete;
  StderrLog& operator=(const StderrLog&) = delete;

 private:
  class Sink;
  std::unique_ptr<Sink> sink_;
};

}  // namespace flowguard::app
