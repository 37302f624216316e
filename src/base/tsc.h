// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of a clock that reads the processor's time stamp counter: ticks to
// nanoseconds along a line that is corrected against a slower, trusted clock.
//
// A correction never steps: the new line starts where the old one is at that tick,
// and only its slope changes, by at most kSlopeChangePpmMax, so that it meets the
// trusted clock one calibration interval later.
//
// This file reads no clock; base/clock.cc brings the readings.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace flowguard::base {

// One reading of both clocks at (nearly) one moment.
struct ClockPair {
  uint64_t ticks = 0;
  int64_t ns = 0;
};

// Threads: At from any thread, never waiting; Start and Correct by one thread at a
// time.  A stamp of one thread follows its earlier ones as long as Correct is
// published within a few microseconds of its reading, which the caller checks.
class TscLine {
 public:
  static constexpr int64_t kSlopeChangePpmMax = 200;
  // What a correction cannot mend: the counter is not to be trusted any more.
  static constexpr int64_t kErrorNsMax = 1'000'000;

  constexpr TscLine() = default;

  struct Stamp {
    int64_t ns = 0;
    bool due = true;  // not started, or time for Start or Correct
  };

  // Time:     ticks before the current line's start give its start, and are due.
  // Cost:     two cache lines, one multiplication.
  [[nodiscard]] Stamp At(uint64_t ticks) const noexcept {
    for (;;) {
      const uint64_t version = version_.load(std::memory_order_acquire);
      const Line& line = lines_[version % kLines];
      const uint64_t start = line.start_ticks.load(std::memory_order_acquire);
      const int64_t start_ns = line.start_ns.load(std::memory_order_acquire);
      const uint64_t slope = line.slope.load(std::memory_order_acquire);
      const uint64_t due_after = line.due_after.load(std::memory_order_acquire);
      // The line is rewritten only kLines corrections later.
      if (line.version.load(std::memory_order_relaxed) != version) continue;
      const uint64_t passed = ticks - start;
      if (passed >= due_after) return {Extrapolate(start_ns, passed, slope), true};
      return {start_ns + static_cast<int64_t>((Wide{passed} * slope) >> kSlopeShift), false};
    }
  }

  // Starts the line at `second`, with the slope from `first` to `second`, from where
  // it is `due_ticks` later to be corrected.  False when the readings make no line.
  bool Start(const ClockPair& first, const ClockPair& second, uint64_t due_ticks) noexcept;

  // Bends the line so that it meets the trusted clock `due_ticks` after `reading`.
  // False when it is more than kErrorNsMax off: then nothing changes.
  bool Correct(const ClockPair& reading, uint64_t due_ticks) noexcept;

 private:
  __extension__ using Wide = unsigned __int128;
  static constexpr int kSlopeShift = 32;
  static constexpr uint64_t kLines = 8;

  struct alignas(64) Line {
    std::atomic<uint64_t> version{0};
    std::atomic<uint64_t> start_ticks{0};
    std::atomic<int64_t> start_ns{0};
    std::atomic<uint64_t> slope{0};      // ns per tick, times 2^32
    std::atomic<uint64_t> due_after{0};  // ticks; 0: not started
  };

  static int64_t Extrapolate(int64_t start_ns, uint64_t passed, uint64_t slope) noexcept;
  void Publish(const ClockPair& start, uint64_t slope, uint64_t due_ticks) noexcept;

  std::atomic<uint64_t> version_{0};
  std::array<Line, kLines> lines_{};
  ClockPair first_{};  // the longest base for the slope
};

}  // namespace flowguard::base
