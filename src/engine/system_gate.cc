// SPDX-License-Identifier: Apache-2.0
#include "engine/system_gate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "base/bounds.h"
#include "base/check.h"
#include "stats/bbr_estimate.h"

namespace flowguard::engine {
namespace {

// 1.6 % of the rate is the price of the parts.
constexpr int kParts = 60;
// Views of the entrance, and the buckets of the longer one.
constexpr size_t kSecondView = 0;
constexpr size_t kMinuteView = 1;
constexpr size_t kBucketsLooked = 60;

limit::SlidingBuckets::Spec MakeSpec() {
  limit::Config config;
  config.rate = {base::kRatePerSecondMax, std::chrono::seconds(1)};
  config.buckets = kParts;
  Result<limit::SlidingBuckets::Spec> spec = limit::SlidingBuckets::Make(config);
  FG_CHECK(spec.ok());
  return *spec;
}

std::optional<double> Known(double value) noexcept {
  return value >= 0 ? std::optional<double>(value) : std::nullopt;
}

// A number that is none would be compared all the same.
double Finite(const std::optional<double>& value, double unknown) noexcept {
  return value.has_value() && std::isfinite(*value) && *value >= 0 ? *value : unknown;
}

}  // namespace

SystemGate::SystemGate() : spec_(MakeSpec()), second_(limit::SlidingBuckets::Words(spec_)) {}

limit::SlidingBuckets::Spec SystemGate::SpecOf(int64_t most) const noexcept {
  limit::SlidingBuckets::Spec spec = spec_;
  spec.limit = std::min(spec.limit, most);
  return spec;
}

bool SystemGate::Take(int64_t most, Instant now, limit::Receipt& receipt) noexcept {
  const limit::SlidingBuckets::Spec spec = SpecOf(most);
  const base::MutexLock lock(mutex_);
  return limit::SlidingBuckets::Decide(spec, second_, now, 1, receipt).allowed;
}

void SystemGate::GiveBack(const limit::Receipt& receipt, Instant now) noexcept {
  const base::MutexLock lock(mutex_);
  limit::SlidingBuckets::GiveBack(spec_, second_, receipt, now);
}

int64_t SystemGate::Taken(Instant now) noexcept {
  const base::MutexLock lock(mutex_);
  return spec_.limit - limit::SlidingBuckets::Look(spec_, second_, now, 0).remaining;
}

void SystemGate::SetReading(const SystemReading& reading) noexcept {
  cpu_.store(Finite(reading.cpu, kUnknown), std::memory_order_relaxed);
  load_.store(Finite(reading.load, kUnknown), std::memory_order_relaxed);
}

SystemReading SystemGate::Reading() const noexcept {
  return {.cpu = Known(cpu_.load(std::memory_order_relaxed)),
          .load = Known(load_.load(std::memory_order_relaxed))};
}

void SystemGate::Look(const stats::ResourceStats& entrance, Instant now) noexcept {
  const int64_t now_ns = now.time_since_epoch().count();
  int64_t at_ns = look_at_ns_.load(std::memory_order_relaxed);
  // Further ahead than that: the clock stepped back.
  if (now_ns < at_ns && at_ns - now_ns <= kLookEvery.count()) return;
  if (!look_at_ns_.compare_exchange_strong(at_ns, now_ns + kLookEvery.count(),
                                           std::memory_order_relaxed)) {
    return;  // another thread looks
  }
  const stats::SlidingCounts& counted = entrance.Counted();
  const std::optional<Duration> mean = counted.Window(kSecondView, now).AverageRt();
  mean_time_ns_.store(mean.has_value() ? mean->count() : -1, std::memory_order_relaxed);
  std::array<stats::Counts, kBucketsLooked> buckets;
  counted.Series(kMinuteView, now, buckets);
  const std::optional<stats::BbrEstimate> estimate =
      stats::EstimateRoom(buckets, counted.Shape(kMinuteView).Bucket());
  room_.store(estimate.has_value() ? estimate->inflight_max : kUnknown, std::memory_order_relaxed);
}

std::optional<Duration> SystemGate::MeanTime() const noexcept {
  const int64_t ns = mean_time_ns_.load(std::memory_order_relaxed);
  return ns >= 0 ? std::optional<Duration>(Duration(ns)) : std::nullopt;
}

bool SystemGate::IsFull(int64_t inflight) const noexcept {
  stats::BbrEstimate estimate;
  estimate.inflight_max = room_.load(std::memory_order_relaxed);
  return estimate.inflight_max >= 0 && estimate.IsFull(inflight);
}

}  // namespace flowguard::engine
