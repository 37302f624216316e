// SPDX-License-Identifier: Apache-2.0
//
// The named maximum of every queue, table, buffer and header count.  "Bounds", not
// "limits": the word limit belongs to the domain.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "flowguard/time.h"

namespace flowguard::base {

// --- algorithms
inline constexpr int64_t kLimitMax = 1'000'000'000'000;        // units in one rate or burst
inline constexpr int64_t kRatePerSecondMax = 1'000'000'000;    // T is at least 1 ns
inline constexpr int64_t kCostMax = int64_t{1} << 40;          // units of one request
inline constexpr int64_t kHorizonNsMax = int64_t{1} << 61;     // T * burst + wait + debt, about 73 years
inline constexpr Duration kWindowMin = std::chrono::microseconds(1);
inline constexpr Duration kWindowMax = std::chrono::hours(24 * 366);
inline constexpr int64_t kSlidingLogLimitMax = 100'000;        // 8 bytes a unit a key
inline constexpr int kBucketsMax = 1'000;
inline constexpr Duration kWaitMax = std::chrono::hours(1);

// --- cells
inline constexpr size_t kCellCapacityMin = 64;
inline constexpr size_t kCellCapacityMax = size_t{1} << 32;

// --- rules
inline constexpr size_t kRulesMax = 100'000;
inline constexpr size_t kRuleNamesEverMax = 1'000'000;  // distinct rule texts in a process's life
inline constexpr size_t kRulesPerRequestMax = 32;
inline constexpr size_t kDimensionsPerKeyMax = 8;
inline constexpr size_t kKeyValueBytesMax = 64 * 1024;  // longer dimension values are cut off here before hashing: see rules/key.h
inline constexpr size_t kRouteSegmentsMax = 64;
inline constexpr size_t kOverridesMax = 100'000;
inline constexpr size_t kRuleFileBytesMax = 64u << 20;

// --- HTTP
inline constexpr size_t kHeadBytesMax = 32 * 1024;      // request line and header lines
inline constexpr size_t kHeaderCountMax = 100;
inline constexpr size_t kTargetBytesMax = 16 * 1024;
inline constexpr size_t kRefusedBodyDrainMax = 64 * 1024;
inline constexpr size_t kPipelineDepthMax = 64;
inline constexpr size_t kChunkLineBytesMax = 4 * 1024;
inline constexpr size_t kConnectionsMax = 65'536;       // a worker
inline constexpr size_t kParkedMax = 10'000;            // requests that wait, a worker
inline constexpr size_t kUpstreamIdleMax = 256;         // kept-alive connections to one address, a worker

}  // namespace flowguard::base
