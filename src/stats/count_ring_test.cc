// SPDX-License-Identifier: Apache-2.0
//
// The ring that all threads share, with threads that are held up before each of their
// memory steps in turn, while others count whatever they want.
#include "stats/count_ring.h"

#include <array>
#include <atomic>
#include <functional>
#include <utility>

#include <gtest/gtest.h>

namespace flowguard::stats {
namespace {

using namespace std::chrono_literals;

// Lets another thread in before a memory step: the real code runs, on one real thread.
class Hold {
 public:
  // Before the step after the next `steps` ones, `others` run, once.
  static void After(int steps, std::function<void()> others) {
    left_ = steps;
    others_ = std::move(others);
  }
  static void Step() {
    if (!others_ || left_-- > 0) return;
    const auto others = std::exchange(others_, nullptr);
    others();
  }
  // Whether the others have run; if not, they do not any more.
  static bool Ran() { return std::exchange(others_, nullptr) == nullptr; }

 private:
  static inline int left_ = 0;
  static inline std::function<void()> others_;
};

template <typename T>
class HeldAtomic {
 public:
  HeldAtomic() = default;
  explicit HeldAtomic(T value) : value_(value) {}

  [[nodiscard]] T load(std::memory_order) const {
    Hold::Step();
    return value_;
  }
  void store(T value, std::memory_order) {
    Hold::Step();
    value_ = value;
  }
  bool compare_exchange_strong(T& expected, T desired, std::memory_order) {
    Hold::Step();
    if (value_ != expected) {
      expected = value_;
      return false;
    }
    value_ = desired;
    return true;
  }
  bool compare_exchange_weak(T& expected, T desired, std::memory_order order) {
    return compare_exchange_strong(expected, desired, order);
  }
  bool compare_exchange_weak(T& expected, T desired, std::memory_order order, std::memory_order) {
    return compare_exchange_strong(expected, desired, order);
  }

 private:
  T value_{};
};

constexpr int64_t kBuckets = 2;
constexpr int64_t kFirst = 1'000;  // bucket
constexpr int kStepsMost = 60;     // of one addition

Instant At(int64_t index) {
  return Instant((kFirst + index) * 100ms);
}

// The threads' additions are told apart by their decimal digit.
constexpr std::array<int64_t, 5> kUnits{1, 10, 100, 1'000, 10'000};

class HeldRing {
 public:
  HeldRing() { ring_.Reset({kBuckets * 100ms, kBuckets}); }

  void Add(size_t thread, int64_t index) {
    ring_.Update(At(index), Event::kPassed, Plus{static_cast<uint64_t>(kUnits[thread])});
  }
  // How often a thread's addition is in the window that ends with `index`.
  [[nodiscard]] int64_t Times(size_t thread, int64_t index) const {
    Counts sum;
    ring_.Each(At(index), kBuckets,
               [&](int64_t, const auto& bucket, int64_t at) { bucket.AddTo(at, sum); });
    return sum.passed / kUnits[thread] % 10;
  }

 private:
  BasicCountRing<HeldAtomic> ring_;
};

// A thread that is held up before each step of its addition, while two others add, of which
// the first is held up before each of its steps, while a fourth adds: whatever buckets they
// add to, each addition is in the window once, if its stamp is, and otherwise at most once.
TEST(CountRingInterleavings, EveryAdditionCountsOnceWhereverThreadsAreHeldUp) {
  constexpr int64_t kIndices = 4;
  constexpr int64_t kCases = kIndices * kIndices * kIndices * kIndices;
  int64_t runs = 0;
  for (int64_t number = 0; number < kCases; ++number) {
    const std::array<int64_t, 5> indices{number % 4, number / 4 % 4, number / 16 % 4,
                                         number / 64 % 4, 0};
    int64_t newest = 0;
    for (const int64_t index : indices)
      newest = std::max(newest, index);
    bool outer = true;
    for (int held = 0; outer; ++held) {
      ASSERT_LT(held, kStepsMost);
      bool inner = true;
      for (int held_within = 0; inner; ++held_within) {
        ASSERT_LT(held_within, kStepsMost);
        HeldRing ring;
        ring.Add(4, indices[4]);  // was there before
        inner = false;
        Hold::After(held, [&] {
          Hold::After(held_within, [&] { ring.Add(3, indices[3]); });
          ring.Add(1, indices[1]);
          inner = Hold::Ran();
          ring.Add(2, indices[2]);
        });
        ring.Add(0, indices[0]);
        outer = Hold::Ran();
        if (!outer) break;  // the addition has fewer steps
        ++runs;
        for (size_t thread = 0; thread < indices.size(); ++thread) {
          // Where it was let in at all.
          if (thread == 3 && !inner) continue;
          const int64_t times = ring.Times(thread, newest);
          if (indices[thread] > newest - kBuckets) {
            ASSERT_EQ(times, 1) << "case " << number << ", thread " << thread << ", held at "
                                << held << " and " << held_within;
          } else {
            ASSERT_LE(times, 1) << "case " << number << ", thread " << thread;
          }
        }
      }
    }
  }
  EXPECT_GT(runs, 50'000);
}

// The same seen by a reader that comes while a thread is held up.
TEST(CountRingInterleavings, AReaderMissesNothingThatWasCountedBeforeItCame) {
  for (int64_t number = 0; number < 64; ++number) {
    const std::array<int64_t, 4> indices{number % 4, number / 4 % 4, number / 16 % 4, 0};
    const int64_t newest = std::max({indices[0], indices[1], indices[2]});
    bool held_up = true;
    for (int held = 0; held_up; ++held) {
      ASSERT_LT(held, kStepsMost);
      HeldRing ring;
      ring.Add(3, indices[3]);
      Hold::After(held, [&] {
        ring.Add(1, indices[1]);
        ring.Add(2, indices[2]);
        for (const size_t thread : {size_t{1}, size_t{2}, size_t{3}}) {
          if (indices[thread] > newest - kBuckets) {
            ASSERT_EQ(ring.Times(thread, newest), 1)
                << "case " << number << ", thread " << thread << ", held at " << held;
          }
        }
        ASSERT_LE(ring.Times(0, newest), 1);
      });
      ring.Add(0, indices[0]);
      held_up = Hold::Ran();
    }
  }
}

}  // namespace
}  // namespace flowguard::stats
