// SPDX-License-Identifier: Apache-2.0
#include "store/cell_table.h"

#include <algorithm>
#include <string>

#include <sys/mman.h>

#include "base/bounds.h"

namespace flowguard::store {
namespace {

constexpr size_t kSlotsPerBucket = CellMemory::kSlotsPerBucket;
constexpr size_t kBucketBytes = kSlotsPerBucket * sizeof(CellSlot);
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kStashBucketsMin = 16;
constexpr size_t kStashShare = 32;
constexpr size_t kSampleBuckets = 1024;

// As many buckets as put `capacity` cells at a load of 0.70.
size_t BucketsFor(size_t capacity) noexcept {
  constexpr size_t kSeventyPercentOfBucket = kSlotsPerBucket * 7;  // tenths of a slot
  return (capacity * 10 + kSeventyPercentOfBucket - 1) / kSeventyPercentOfBucket;
}

}  // namespace

Result<std::unique_ptr<CellTable>> CellTable::Create(size_t capacity) {
  if (capacity < base::kCellCapacityMin || capacity > base::kCellCapacityMax) {
    return Error::InvalidArgument("cell capacity " + std::to_string(capacity) + " is outside " +
                                  std::to_string(base::kCellCapacityMin) + " to " +
                                  std::to_string(base::kCellCapacityMax));
  }
  std::unique_ptr<CellTable> table(new CellTable(capacity));
  if (table->mapped_ == nullptr) {
    return Error{ErrorCode::kResourceExhausted,
                 "no memory for " + std::to_string(capacity) + " cells (" +
                     std::to_string(table->mapped_bytes_) + " bytes)"};
  }
  return table;
}

CellTable::CellTable(size_t capacity) noexcept
    : capacity_(capacity),
      buckets_(BucketsFor(capacity)),
      stash_buckets_(std::max(kStashBucketsMin, buckets_ / kStashShare)) {
  const size_t bytes = (buckets_ + stash_buckets_) * kBucketBytes;
  const bool huge = bytes >= 2 * kHugePage;
  // Address space is reserved with room to align; what is not touched costs nothing.
  mapped_bytes_ = huge ? bytes + kHugePage : bytes;
  void* mapped = ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return;
  mapped_ = mapped;
  char* start = static_cast<char*>(mapped);
  if (huge) {
    const size_t past = reinterpret_cast<uintptr_t>(mapped) % kHugePage;
    if (past != 0) start += kHugePage - past;
    // Only a wish; without it the table is right, and slower.
    static_cast<void>(::madvise(start, bytes, MADV_HUGEPAGE));
  }
  memory_.Attach(reinterpret_cast<CellSlot*>(start));
}

CellTable::~CellTable() {
  if (mapped_ != nullptr) ::munmap(mapped_, mapped_bytes_);
}

CellTableStats CellTable::Stats() const noexcept {
  CellTableStats stats;
  stats.capacity = capacity_;
  stats.slots = (buckets_ + stash_buckets_) * kSlotsPerBucket;
  stats.bytes = stats.slots * sizeof(CellSlot);
  stats.evictions = memory_.counters().evictions.load(std::memory_order_relaxed);
  stats.stash_inserts = memory_.counters().stash_inserts.load(std::memory_order_relaxed);
  return stats;
}

size_t CellTable::LiveApprox(Instant now) const noexcept {
  const size_t all = buckets_ + stash_buckets_;
  const size_t sampled = std::min(all, kSampleBuckets);
  size_t live = 0;
  for (size_t i = 0; i < sampled; ++i) {
    const size_t start = i * all / sampled * kSlotsPerBucket;
    for (size_t slot = start; slot < start + kSlotsPerBucket; ++slot) {
      if (memory_.LoadWord(slot) > Ns(now)) ++live;
    }
  }
  return live * all / sampled;
}

}  // namespace flowguard::store
