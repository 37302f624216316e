// SPDX-License-Identifier: Apache-2.0
//
// What the programs that answer nanoseconds an operation have in common.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace bench {

// Runs `body(begin, count)` in slices for about 200 ms on `threads` threads, which begin
// far from each other; the mean of nanoseconds per operation.
inline double Measure(int threads, const std::function<void(size_t, size_t)>& body) {
  using Steady = std::chrono::steady_clock;
  constexpr auto kRun = std::chrono::milliseconds(200);
  constexpr size_t kApart = 5'000'000;
  constexpr size_t kSlice = 4'096;
  std::atomic<int> ready{0};
  std::vector<double> each(static_cast<size_t>(threads));
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      size_t at = static_cast<size_t>(t) * kApart;
      body(at, kSlice);
      ++ready;
      while (ready.load() < threads) {
      }
      const auto start = Steady::now();
      size_t operations = 0;
      Steady::time_point now;
      do {
        body(at, kSlice);
        at += kSlice;
        operations += kSlice;
        now = Steady::now();
      } while (now - start < kRun);
      each[static_cast<size_t>(t)] = std::chrono::duration<double, std::nano>(now - start).count() /
                                     static_cast<double>(operations);
    });
  }
  double sum = 0;
  for (std::thread& thread : all)
    thread.join();
  for (double ns : each)
    sum += ns;
  return sum / threads;
}

// The compiler may not leave out what made `value`.
template <typename T>
void Keep(const T& value) {
  asm volatile("" : : "r"(value) : "memory");
}

}  // namespace bench
