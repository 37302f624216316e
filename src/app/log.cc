// SPDX-License-Identifier: Apache-2.0
#include "app/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_color_sinks.h>

namespace flowguard::app {
namespace {

spdlog::level::level_enum LevelOf(base::LogLevel level) noexcept {
  switch (level) {
    case base::LogLevel::kDebug:
      return spdlog::level::debug;
    case base::LogLevel::kInfo:
      return spdlog::level::info;
    case base::LogLevel::kWarn:
      return spdlog::level::warn;
    case base::LogLevel::kError:
      break;
  }
  return spdlog::level::err;
}

}  // namespace

class StderrLog::Sink final : public base::LogSink {
 public:
  Sink(base::LogLevel level, bool color)
      : logger_("flowguard", std::make_shared<spdlog::sinks::stderr_color_sink_mt>(
                                 color ? spdlog::color_mode::always : spdlog::color_mode::never)) {
    logger_.set_level(LevelOf(level));
    logger_.set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v");
  }

  void Write(base::LogLevel level, std::string_view message) noexcept override {
    logger_.log(LevelOf(level), spdlog::string_view_t(message.data(), message.size()));
  }

 private:
  spdlog::logger logger_;
};

StderrLog::StderrLog(base::LogLevel level, bool color)
    : sink_(std::make_unique<Sink>(level, color)) {
  base::SetLogSink(sink_.get());
}

StderrLog::~StderrLog() {
  base::SetLogSink(nullptr);
}

}  // namespace flowguard::app
