// SPDX-License-Identifier: Apache-2.0
//
// The hottest values of a dimension of late: who sends most.
//
// What was counted loses half its weight every half_life, so `count` is about what came in
// the last 1.44 half lives.  With k values kept and a decayed total of N,
//   count - error <= the decayed count of a value <= count, and error <= N / k
// and every value above N / k is told, if as many are asked for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "flowguard/result.h"
#include "flowguard/time.h"

#include "base/mutex.h"
#include "stats/space_saving.h"

namespace flowguard::stats {

struct TopValuesOptions {
  size_t values = 100;  // kept, a shard: 1 to kTopValuesMax
  Duration half_life = std::chrono::seconds(10);
  uint64_t hash_seed = 0;
};

struct TopValue {
  std::string value;  // its first kTopValueBytesMax bytes
  double count = 0;   // units, decayed
  double error = 0;
};

// Threads: all methods from any thread.
// Memory:  112 bytes a value, in each of the kTopShards shards that are in use.
class TopValues {
 public:
  // Threads whose slots are equal modulo this share a shard, and wait for each other.
  static constexpr size_t kTopShards = 8;

  // Errors: kInvalidArgument, with what is allowed.
  static Result<std::unique_ptr<TopValues>> Create(const TopValuesOptions& options);

  // Counts `units` of a value; a stamp that is late counts for less, as it should.
  // Cost:     a hash, a mutex that seldom anybody else wants, and a heap step; an allocation
  //           at the first use of a shard.
  // Requires: `slot` is base::ThreadSlot() of the calling thread.
  void Add(size_t slot, Instant now, std::string_view value, int64_t units);

  // The `most` hottest, the hottest first.
  // Cost:     a walk over all shards, one after the other.
  [[nodiscard]] std::vector<TopValue> Top(Instant now, size_t most) const;
  // The decayed count of all values.
  [[nodiscard]] double Total(Instant now) const;

 private:
  struct Shard {
    explicit Shard(size_t values) : kept(values) {}

    SpaceSaving kept;
    Instant origin{};   // where a unit weighs 1
    Instant latest{};   // stamp
    double weight = 1;  // of a unit at weight_at
    Instant weight_at{};
  };
  struct alignas(64) Place {
    mutable base::Mutex mutex;
    std::unique_ptr<Shard> shard FG_GUARDED_BY(mutex);
  };

  explicit TopValues(const TopValuesOptions& options) : options_(options) {}
  // What a unit of `now` weighs in the shard's terms.
  [[nodiscard]] double WeightAt(const Shard& shard, Instant now) const noexcept;
  void MoveOrigin(Shard& shard, Instant now) const noexcept;

  const TopValuesOptions options_;
  std::array<Place, kTopShards> places_;
};

}  // namespace flowguard::stats
