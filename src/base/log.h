// SPDX-License-Identifier: Apache-2.0
//
// Where messages for the operator go.  Servers and sources say what happened with
// Log; only the command installs a sink that prints.  An embedded library stays
// silent.  Never called on the request path.
#pragma once

#include <cstdint>
#include <string_view>

namespace flowguard::base {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarn, kError };

class LogSink {
 public:
  virtual ~LogSink() = default;
  // One message, without a line end.
  // Threads: any, at once.
  virtual void Write(LogLevel level, std::string_view message) noexcept = 0;
};

// Sends every message to `sink` from now on; null: nowhere.  The sink must live
// until it is replaced and no thread is inside Log.
void SetLogSink(LogSink* sink) noexcept;

// Threads: any.
void Log(LogLevel level, std::string_view message) noexcept;

}  // namespace flowguard::base
