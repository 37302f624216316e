// SPDX-License-Identifier: Apache-2.0
//
// Statistics as they are told, of one moment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "flowguard/time.h"

#include "engine/system_reading.h"
#include "stats/counts.h"
#include "stats/stats_table.h"

namespace flowguard::engine {

struct StatisticsQuery {
  std::string resource;  // this one and its callers; empty: all resources, without callers
  size_t most = 100;     // the busiest of them; 0: none, and none are counted as left out
};

// Of a resource, of a caller at it, or of everything that comes in.
struct Traffic {
  std::string resource;
  std::string origin;    // empty: all callers
  int64_t inflight = 0;  // calls in progress
  stats::Counts second;  // the last one
  stats::Counts minute;
  // Response times of the last 30 to 60 s; none where nothing has ended, nor for a caller.
  std::optional<Duration> rt_p50;
  std::optional<Duration> rt_p90;
  std::optional<Duration> rt_p99;
};

struct StatisticsReport {
  bool resources_counted = false;  // else the entrance alone, and that only for system rules
  Traffic entrance;
  std::vector<Traffic> resources;  // as asked, the busiest of the last minute first
  size_t left_out = 0;             // more than were asked for
  std::optional<Traffic> others;   // all that had no place in the table; none: never any
  stats::StatsTableCounts table;
  SystemReading system;
};

}  // namespace flowguard::engine
