// SPDX-License-Identifier: Apache-2.0
//
// GET /v1/resources: statistics as JSON.
//
//   ?limit=N         the N busiest resources of the last minute, 1 to 1000; else 100
//   ?resource=NAME   this one, and its callers
#pragma once

#include <string>
#include <string_view>

#include "flowguard/result.h"

#include "engine/statistics_report.h"

namespace flowguard::admin {

// Resources, or callers of one, that an answer tells of.
inline constexpr size_t kResourcesToldMax = 1'000;

// Errors: kInvalidArgument, with what was found and what is allowed.
Result<engine::StatisticsQuery> ParseResourcesQuery(std::string_view query);

// Times are in milliseconds; null where there is none.
void AppendResources(const engine::StatisticsReport& report, std::string& out);

}  // namespace flowguard::admin
