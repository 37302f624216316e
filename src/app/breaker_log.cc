// SPDX-License-Identifier: Apache-2.0
#include "app/breaker_log.h"

#include <string>

#include "base/log.h"

namespace flowguard::app {

void BreakerLog::OnBreaker(const BreakerChange& change) {
  const std::string counts =
      std::to_string(change.bad) + " of " + std::to_string(change.calls) + " calls were bad";
  std::string line = "breaker \"" + std::string(change.rule) + "\" ";
  if (change.number != 0) line += "#" + std::to_string(change.number) + " ";
  switch (change.to) {
    case BreakerState::kOpen:
      line += change.from == BreakerState::kClosed ? "opened: " + counts
              : change.calls > 0                   ? "stays open: a probe failed"
                                                   : "stays open: its probe was not sent";
      break;
    case BreakerState::kHalfOpen:
      line += "sends probes";
      break;
    case BreakerState::kClosed:
      line += "closed: the probes went well";
      break;
  }
  if (change.missed > 0) line += " (" + std::to_string(change.missed) + " changes before not told)";
  const bool tries = change.to == BreakerState::kHalfOpen ||
                     (change.to == BreakerState::kOpen && change.calls == 0);
  base::Log(tries ? base::LogLevel::kDebug : base::LogLevel::kWarn, line);
}

}  // namespace flowguard::app
