// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <atomic>

namespace flowguard::base {
namespace {

std::atomic<LogSink*>& Sink() noexcept {
  static std::atomic<LogSink*> sink{nullptr};
  return sink;
}

}  // namespace

void SetLogSink(LogSink* sink) noexcept {
  Sink().store(sink, std::memory_order_release);
}

void Log(LogLevel level, std::string_view message) noexcept {
  if (LogSink* sink = Sink().load(std::memory_order_acquire); sink != nullptr) {
    sink->Write(level, message);
  }
}

}  // namespace flowguard::base
