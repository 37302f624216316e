// SPDX-License-Identifier: Apache-2.0
#include "guard/system_sampler.h"

#include <utility>

#include <unistd.h>

#include "base/log.h"
#include "stats/load_reader.h"

namespace flowguard::guard {

SystemSampler::SystemSampler(engine::Engine& engine, std::string root)
    : engine_(engine), root_(std::move(root)), cpu_(root_, sysconf(_SC_CLK_TCK)) {}

void SystemSampler::Sample(Instant now) noexcept {
  if (!last_.has_value() || now - last_->at >= stats::kCpuReadingsApart || now < last_->at) {
    usage_ = ReadCpu(now);
  }
  engine_.SetSystemReading({.cpu = usage_, .load = ReadLoadAverage()});
}

std::optional<double> SystemSampler::ReadCpu(Instant now) {
  Result<stats::CpuReading> reading = cpu_.Read(now);
  if (!reading.ok()) {
    last_.reset();
    Tell(no_cpu_, engine_.LimitsCpu(), reading.error());
    return std::nullopt;
  }
  const std::optional<stats::CpuReading> before = std::exchange(last_, *std::move(reading));
  if (!before.has_value()) return std::nullopt;
  const Result<stats::CpuUsage> usage = stats::UsageBetween(*before, *last_);
  if (!usage.ok()) {
    Tell(no_cpu_, engine_.LimitsCpu(), usage.error());
    return std::nullopt;
  }
  no_cpu_.told = false;
  return usage->Highest();
}

std::optional<double> SystemSampler::ReadLoadAverage() {
  const Result<stats::LoadAverage> load = stats::ReadLoad(root_);
  if (!load.ok()) {
    Tell(no_load_, engine_.LimitsLoad(), load.error());
    return std::nullopt;
  }
  no_load_.told = false;
  return load->one;
}

void SystemSampler::Tell(Missing& missing, bool needed, const Error& error) {
  if (!needed || missing.told) return;
  missing.told = true;
  base::Log(base::LogLevel::kWarn,
            "system rules: " + std::string(missing.field) +
                " is not known, and refuses nothing until it is: " + error.message);
}

}  // namespace flowguard::guard
