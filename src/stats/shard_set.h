// SPDX-License-Identifier: Apache-2.0
//
// Where one thing is counted: a shard that all threads share, and for threads that count
// often one of their own.
//
// Memory stays with use: nothing before the first count, the shared shard after it, and an
// own one only for a thread that asks for it (Claim), while the budget lasts.  Without an
// own shard counts are as exact, and slower.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/thread_slot.h"

namespace flowguard::stats {

// The bytes that own shards may take, of all shard sets together.
// Threads: all methods from any thread.
class ShardBudget {
 public:
  explicit ShardBudget(size_t bytes) noexcept : left_(static_cast<int64_t>(bytes)) {}
  ShardBudget(const ShardBudget&) = delete;
  ShardBudget& operator=(const ShardBudget&) = delete;

  [[nodiscard]] bool Take(size_t bytes) noexcept {
    const auto wanted = static_cast<int64_t>(bytes);
    int64_t left = left_.load(std::memory_order_relaxed);
    while (left >= wanted) {
      if (left_.compare_exchange_weak(left, left - wanted, std::memory_order_relaxed)) return true;
    }
    refused_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  void Return(size_t bytes) noexcept {
    left_.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  }
  [[nodiscard]] int64_t Left() const noexcept { return left_.load(std::memory_order_relaxed); }
  // Own shards that were asked for in vain.
  [[nodiscard]] uint64_t Refused() const noexcept {
    return refused_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<int64_t> left_;
  std::atomic<uint64_t> refused_{0};
};

// Shard, OwnShard: default constructible, with Reset(Shape) and static size_t BytesOf(Shape).
// Threads: all methods from any thread.
template <typename Shard, typename Shape, typename OwnShard = Shard>
class ShardSet {
 public:
  // `budget` may be null: no shard of an own; else it outlives this.
  ShardSet(Shape shape, ShardBudget* budget) : shape_(std::move(shape)), budget_(budget) {}
  ~ShardSet() {
    if (Table* table = own_.load(std::memory_order_acquire); table != nullptr) {
      for (std::atomic<OwnShard*>& place : *table) {
        const std::unique_ptr<OwnShard> shard(place.load(std::memory_order_acquire));
        if (shard != nullptr) budget_->Return(OwnBytes());
      }
      delete table;
    }
    delete shared_.load(std::memory_order_acquire);
  }
  ShardSet(const ShardSet&) = delete;
  ShardSet& operator=(const ShardSet&) = delete;

  // The shard that the calling thread alone writes, if it has one.
  // Cost:     two loads.
  // Requires: `slot` is base::ThreadSlot() of the calling thread.
  [[nodiscard]] OwnShard* Own(size_t slot) const noexcept {
    const Table* table = own_.load(std::memory_order_acquire);
    return table == nullptr ? nullptr : (*table)[slot].load(std::memory_order_acquire);
  }

  // The shard of all threads.
  [[nodiscard]] Shard& Shared() noexcept {
    Shard* shard = shared_.load(std::memory_order_acquire);
    return shard != nullptr ? *shard : *Publish(shared_, New<Shard>());
  }

  // Makes an own shard for the calling thread, if it may have one.
  // Requires: `slot` is base::ThreadSlot() of the calling thread.
  void Claim(size_t slot) noexcept {
    // The other slots are of several threads.
    if (budget_ == nullptr || slot >= base::kOwnThreadSlots || Own(slot) != nullptr) return;
    if (!budget_->Take(OwnBytes())) return;
    std::unique_ptr<OwnShard> shard = New<OwnShard>();
    Table* table = own_.load(std::memory_order_acquire);
    if (table == nullptr) table = Publish(own_, std::make_unique<Table>());
    (*table)[slot].store(shard.release(), std::memory_order_release);
  }

  // Of all shards.
  [[nodiscard]] size_t Bytes() const noexcept {
    size_t bytes = 0;
    Each([&]<typename T>(const T&) { bytes += T::BytesOf(shape_); });
    return bytes;
  }

  // Calls f(shard) for each, of either type.
  template <typename F>
  void Each(F&& f) const {
    if (Shard* shard = shared_.load(std::memory_order_acquire); shard != nullptr) f(*shard);
    const Table* table = own_.load(std::memory_order_acquire);
    if (table == nullptr) return;
    for (const std::atomic<OwnShard*>& place : *table) {
      if (OwnShard* shard = place.load(std::memory_order_acquire); shard != nullptr) f(*shard);
    }
  }

 private:
  // The slots past kOwnThreadSlots stay empty; they save Own a comparison.
  using Table = std::array<std::atomic<OwnShard*>, base::kThreadSlots>;

  [[nodiscard]] size_t OwnBytes() const noexcept { return OwnShard::BytesOf(shape_); }
  template <typename T>
  [[nodiscard]] std::unique_ptr<T> New() const {
    auto shard = std::make_unique<T>();
    shard->Reset(shape_);
    return shard;
  }
  template <typename T>
  static T* Publish(std::atomic<T*>& place, std::unique_ptr<T> fresh) noexcept {
    T* expected = nullptr;
    if (place.compare_exchange_strong(expected, fresh.get(), std::memory_order_acq_rel)) {
      return fresh.release();
    }
    return expected;  // another thread was first
  }

  const Shape shape_;
  ShardBudget* const budget_;
  std::atomic<Table*> own_{nullptr};
  std::atomic<Shard*> shared_{nullptr};
};

}  // namespace flowguard::stats
