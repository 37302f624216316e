// SPDX-License-Identifier: Apache-2.0
#include "stats/top_values.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/bounds.h"
#include "base/hash.h"

namespace flowguard::stats {
namespace {

// Half lives after which the weights of a shard are brought down again, so that they stay
// exact in a double.
constexpr double kOriginAgeMax = 40;

}  // namespace

Result<std::unique_ptr<TopValues>> TopValues::Create(const TopValuesOptions& options) {
  if (options.values < 1 || options.values > base::kTopValuesMax) {
    return Error::InvalidArgument("top values: " + std::to_string(options.values) +
                                  ", allowed are 1 to " + std::to_string(base::kTopValuesMax));
  }
  if (options.half_life < base::kStatsBucketMin || options.half_life > base::kWindowMax) {
    return Error::InvalidArgument("a half life of " + std::to_string(options.half_life.count()) +
                                  " ns, allowed are 1 ms to 366 days");
  }
  return std::unique_ptr<TopValues>(new TopValues(options));
}

double TopValues::WeightAt(const Shard& shard, Instant now) const noexcept {
  return std::exp2(static_cast<double>((now - shard.origin).count()) /
                   static_cast<double>(options_.half_life.count()));
}

void TopValues::MoveOrigin(Shard& shard, Instant now) const noexcept {
  const bool stepped_back = shard.latest - now > base::kLateStampMax;
  // After a step back the counts weigh at `now` what they weighed at the latest stamp.
  const Instant from = stepped_back ? shard.latest : now;
  shard.kept.Scale(1 / WeightAt(shard, from));
  shard.origin = now;
  shard.latest = now;
}

void TopValues::Add(size_t slot, Instant now, std::string_view value, int64_t units) {
  if (units <= 0) return;
  const uint64_t hash = base::Hash64(value, options_.hash_seed);
  Place& place = places_[slot % kTopShards];
  const base::MutexLock lock(place.mutex);
  if (place.shard == nullptr) {
    place.shard = std::make_unique<Shard>(options_.values);
    place.shard->origin = place.shard->latest = place.shard->weight_at = now;
  }
  Shard& shard = *place.shard;
  if (shard.weight_at != now) {
    const auto age = static_cast<double>((now - shard.origin).count());
    if (age > kOriginAgeMax * static_cast<double>(options_.half_life.count()) ||
        shard.latest - now > base::kLateStampMax) {
      MoveOrigin(shard, now);
    }
    shard.weight = WeightAt(shard, now);
    shard.weight_at = now;
    shard.latest = std::max(shard.latest, now);
  }
  shard.kept.Add(hash, value, static_cast<double>(units) * shard.weight);
}

std::vector<TopValue> TopValues::Top(Instant now, size_t most) const {
  struct Sum {
    std::string value;
    double count = 0;  // where it is kept
    double error = 0;
    double unkept = 0;  // the most that shards which keep it might have given instead
  };
  std::unordered_map<uint64_t, Sum> sums;
  double unkept = 0;
  for (const Place& place : places_) {
    const base::MutexLock lock(place.mutex);
    if (place.shard == nullptr) continue;
    const Shard& shard = *place.shard;
    const double scale = 1 / WeightAt(shard, std::max(now, shard.latest));
    const double here = shard.kept.Unkept() * scale;
    unkept += here;
    for (const SpaceSaving::Entry& entry : shard.kept.Entries()) {
      Sum& sum = sums[entry.hash];
      if (sum.value.empty()) sum.value = entry.Text();
      sum.count += entry.count * scale;
      sum.error += entry.error * scale;
      sum.unkept += here;
    }
  }
  std::vector<TopValue> top;
  top.reserve(sums.size());
  for (auto& [hash, sum] : sums) {
    const double elsewhere = std::max(unkept - sum.unkept, 0.0);
    top.push_back({std::move(sum.value), sum.count + elsewhere, sum.error + elsewhere});
  }
  std::sort(top.begin(), top.end(), [](const TopValue& a, const TopValue& b) {
    return a.count != b.count ? a.count > b.count : a.value < b.value;
  });
  if (top.size() > most) top.resize(most);
  return top;
}

double TopValues::Total(Instant now) const {
  double total = 0;
  for (const Place& place : places_) {
    const base::MutexLock lock(place.mutex);
    if (place.shard == nullptr) continue;
    total += place.shard->kept.Total() / WeightAt(*place.shard, std::max(now, place.shard->latest));
  }
  return total;
}

}  // namespace flowguard::stats
