// SPDX-License-Identifier: Apache-2.0
//
// Reads CPU usage and load average of where the process runs, and tells them to an engine,
// whose system rules are held against them.
//
// What cannot be read is told as not known, so that nothing is refused by it; where a rule
// needs it, that is logged once, and again only after it could be read meanwhile.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "flowguard/time.h"

#include "engine/engine.h"
#include "stats/cpu_reader.h"

namespace flowguard::guard {

// How often whoever owns a sampler is to call it.
inline constexpr Duration kSampleEvery = std::chrono::seconds(1);

// Threads: one at a time.
class SystemSampler {
 public:
  // `root`: where proc and sys are; "" for the machine's own.  `engine` must outlive it.
  SystemSampler(engine::Engine& engine, std::string root);

  // Usage is of the time since the call before, so the first knows none.  A call that comes
  // less than stats::kCpuReadingsApart after that leaves the usage as it was told.
  // Cost:     some reads of small files.
  void Sample(Instant now) noexcept;

 private:
  // What of a kind cannot be had, told once.
  struct Missing {
    std::string_view field;  // of a system rule
    bool told = false;
  };

  [[nodiscard]] std::optional<double> ReadCpu(Instant now);
  [[nodiscard]] std::optional<double> ReadLoadAverage();
  void Tell(Missing& missing, bool needed, const Error& error);

  engine::Engine& engine_;
  const std::string root_;
  const stats::CpuReader cpu_;
  std::optional<stats::CpuReading> last_;
  std::optional<double> usage_;
  Missing no_cpu_{"cpu"};
  Missing no_load_{"load"};
};

}  // namespace flowguard::guard
