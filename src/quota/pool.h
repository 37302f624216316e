// SPDX-License-Identifier: Apache-2.0
//
// Objects that are used again and never move: grows up to its bound, then is full.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

namespace flowguard::quota {

// Threads: one owner.
template <typename T>
class Pool {
 public:
  explicit Pool(size_t most) : most_(most) {}

  // An object as it was left; null when all are in use.
  // Cost: allocates only while more are in use than ever before.
  T* Take() {
    if (free_.empty()) {
      if (all_.size() == most_) return nullptr;
      const size_t index = all_.size();
      all_.emplace_back().pool_index = index;
      free_.reserve(all_.size());
      return &all_.back();
    }
    T* const one = free_.back();
    free_.pop_back();
    return one;
  }
  void Return(T* one) noexcept { free_.push_back(one); }

  [[nodiscard]] T& operator[](size_t index) noexcept { return all_[index]; }
  [[nodiscard]] size_t size() const noexcept { return all_.size(); }
  [[nodiscard]] size_t used() const noexcept { return all_.size() - free_.size(); }

 private:
  size_t most_;
  std::deque<T> all_;
  std::vector<T*> free_;
};

}  // namespace flowguard::quota
