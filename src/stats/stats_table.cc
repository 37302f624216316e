// SPDX-License-Identifier: Apache-2.0
#include "stats/stats_table.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <string>

#include "base/bounds.h"

namespace flowguard::stats {
namespace {

// Steps of a walk without the mutex: more are a walk that wandered.
constexpr int kWalkMax = 64;
// Of the places that a newcomer may drive out, how many are compared, and how many are
// looked at for that.
constexpr int kForgetSample = 8;
constexpr int kForgetLooks = 64;

Result<void> CheckShape(const StatsShape& shape) {
  for (size_t i = 0; i < shape.views.count; ++i) {
    if (auto checked = CheckWindow(shape.views.shapes[i]); !checked.ok()) return checked;
  }
  return shape.latency.has_value() ? CheckLatency(*shape.latency) : Result<void>();
}

Duration LongestWindow(const StatsShape& shape) {
  Duration longest = shape.views.shapes[0].window;
  if (shape.views.count == 2) longest = std::max(longest, shape.views.shapes[1].window);
  return longest;
}

// A generator of Weyl's sequence, mixed: which places are compared need not be secret.
uint64_t NextRandom(uint64_t& state) noexcept {
  state += 0x9e3779b97f4a7c15;
  uint64_t mixed = state;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
  return mixed ^ (mixed >> 31);
}

}  // namespace

Result<std::unique_ptr<StatsTable>> StatsTable::Create(const StatsTableOptions& options) {
  if (options.stats_max < 1 || options.stats_max > base::kStatsMax) {
    return Error::InvalidArgument("statistics of " + std::to_string(options.stats_max) +
                                  " resources, allowed are 1 to " +
                                  std::to_string(base::kStatsMax));
  }
  if (options.shard_bytes > base::kStatsShardBytesMax) {
    return Error::InvalidArgument(std::to_string(options.shard_bytes) +
                                  " bytes for threads' own statistics, allowed are " +
                                  std::to_string(base::kStatsShardBytesMax));
  }
  if (auto checked = CheckShape(options.resource); !checked.ok()) return checked.error();
  if (auto checked = CheckShape(options.origin); !checked.ok()) return checked.error();
  return std::unique_ptr<StatsTable>(new StatsTable(options));
}

StatsTable::StatsTable(const StatsTableOptions& options)
    : options_(options),
      budget_(options.shard_bytes),
      entrance_("(entrance)", "", options.resource, &budget_),
      others_("(others)", "", options.resource, &budget_),
      heads_mask_(std::bit_ceil(2 * options.stats_max) - 1),
      heads_(std::make_unique<std::atomic<Place*>[]>(heads_mask_ + 1)),
      places_(std::make_unique<Place[]>(options.stats_max)),
      random_(options.hash_seed) {}

base::Hash128 StatsTable::HashOf(std::string_view resource,
                                 std::string_view origin) const noexcept {
  const base::Hash128 whole = base::HashOf(resource, options_.hash_seed);
  if (origin.empty()) return whole;
  // The seed of the origin's hash is the resource's, so nothing separates the two that a
  // name could contain.
  const base::Hash128 low = base::HashOf(origin, whole.low);
  return {low.low, low.high ^ whole.high};
}

StatsTable::Place* StatsTable::Walk(const base::Hash128& hash) const noexcept {
  Place* place = HeadOf(hash).load(std::memory_order_acquire);
  for (int step = 0; place != nullptr && step < kWalkMax; ++step) {
    if (place->low.load(std::memory_order_relaxed) == hash.low && place->Refer()) {
      // From here on the place keeps its hash.
      if (place->low.load(std::memory_order_relaxed) == hash.low &&
          place->high.load(std::memory_order_relaxed) == hash.high) {
        return place;
      }
      place->Drop();
    }
    place = place->next.load(std::memory_order_acquire);
  }
  return nullptr;
}

StatsTable::Place* StatsTable::WalkLocked(const base::Hash128& hash) const {
  Place* place = HeadOf(hash).load(std::memory_order_relaxed);
  for (; place != nullptr; place = place->next.load(std::memory_order_relaxed)) {
    if (place->low.load(std::memory_order_relaxed) == hash.low &&
        place->high.load(std::memory_order_relaxed) == hash.high) {
      // Nothing in a chain is dead while nobody is about to forget it.
      static_cast<void>(place->Refer());
      return place;
    }
  }
  return nullptr;
}

StatsRef StatsTable::Get(std::string_view resource, std::string_view origin, Instant now) {
  const base::Hash128 hash = HashOf(resource, origin);
  if (Place* place = Walk(hash); place != nullptr) [[likely]] {
    return {place, place->stats.get()};
  }
  return Insert(hash, resource, origin, now);
}

StatsRef StatsTable::Find(std::string_view resource, std::string_view origin) const {
  const base::Hash128 hash = HashOf(resource, origin);
  Place* place = Walk(hash);
  if (place == nullptr) {
    const base::MutexLock lock(mutex_);
    place = WalkLocked(hash);
  }
  if (place == nullptr) return {};
  return {place, place->stats.get()};
}

StatsRef StatsTable::Insert(const base::Hash128& hash, std::string_view resource,
                            std::string_view origin, Instant now) {
  const base::MutexLock lock(mutex_);
  if (Place* place = WalkLocked(hash); place != nullptr) return {place, place->stats.get()};
  Place* place = TakePlace(now);
  if (place == nullptr) {
    others_count_.fetch_add(1, std::memory_order_relaxed);
    return {nullptr, &others_};
  }
  place->stats = std::make_unique<ResourceStats>(
      resource, origin, origin.empty() ? options_.resource : options_.origin, &budget_);
  place->low.store(hash.low, std::memory_order_relaxed);
  place->high.store(hash.high, std::memory_order_relaxed);
  // Alive, and referred to once; who tries to refer to a dead one may be counted for a moment.
  place->refs.fetch_sub(Place::kDead - 1, std::memory_order_acq_rel);
  std::atomic<Place*>& head = HeadOf(hash);
  place->next.store(head.load(std::memory_order_relaxed), std::memory_order_release);
  head.store(place, std::memory_order_release);
  return {place, place->stats.get()};
}

StatsTable::Place* StatsTable::TakePlace(Instant now) {
  if (used_ < options_.stats_max) return &places_[used_++];
  return Forget(now);
}

StatsTable::Place* StatsTable::Forget(Instant now) {
  Place* chosen = nullptr;
  std::optional<Instant> chosen_last;
  int compared = 0;
  for (int look = 0; look < kForgetLooks && compared < kForgetSample; ++look) {
    Place& place = places_[NextRandom(random_) % options_.stats_max];
    uint64_t none = 0;
    if (&place == chosen || place.stats == nullptr ||
        !place.refs.compare_exchange_strong(none, Place::kDead, std::memory_order_acq_rel)) {
      continue;
    }
    const bool busy = place.stats->InProgress() != 0;
    const std::optional<Instant> last = place.stats->Counted().LastCounted();
    if (busy || (chosen != nullptr && last >= chosen_last)) {
      place.refs.fetch_sub(Place::kDead, std::memory_order_acq_rel);
      if (!busy) ++compared;
      continue;
    }
    ++compared;
    if (chosen != nullptr) chosen->refs.fetch_sub(Place::kDead, std::memory_order_acq_rel);
    chosen = &place;
    chosen_last = last;  // none is before every instant
  }
  if (chosen == nullptr) return nullptr;
  ++forgotten_;
  const StatsShape& shape = chosen->stats->Origin().empty() ? options_.resource : options_.origin;
  if (chosen_last.has_value() && now - *chosen_last < LongestWindow(shape)) ++forgotten_live_;
  Unlink(*chosen);
  chosen->stats.reset();
  return chosen;
}

void StatsTable::Unlink(Place& place) {
  const base::Hash128 hash{place.low.load(std::memory_order_relaxed),
                           place.high.load(std::memory_order_relaxed)};
  std::atomic<Place*>* link = &HeadOf(hash);
  while (link->load(std::memory_order_relaxed) != &place)
    link = &link->load(std::memory_order_relaxed)->next;
  link->store(place.next.load(std::memory_order_relaxed), std::memory_order_release);
}

std::vector<StatsRef> StatsTable::All() const {
  std::vector<StatsRef> all;
  const base::MutexLock lock(mutex_);
  all.reserve(used_);
  for (size_t i = 0; i < used_; ++i) {
    Place& place = places_[i];
    if (place.Refer()) all.push_back(StatsRef(&place, place.stats.get()));
  }
  return all;
}

StatsTableCounts StatsTable::Counted() const {
  const base::MutexLock lock(mutex_);
  StatsTableCounts counts;
  counts.stats = used_;
  counts.forgotten = forgotten_;
  counts.forgotten_live = forgotten_live_;
  counts.others = others_count_.load(std::memory_order_relaxed);
  counts.shards_refused = budget_.Refused();
  return counts;
}

size_t StatsTable::Bytes() const {
  size_t bytes = sizeof(*this) + entrance_.Bytes() + others_.Bytes() +
                 (heads_mask_ + 1) * sizeof(std::atomic<Place*>) +
                 options_.stats_max * sizeof(Place);
  for (const StatsRef& stats : All())
    bytes += stats->Bytes();
  return bytes;
}

}  // namespace flowguard::stats
