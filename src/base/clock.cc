// SPDX-License-Identifier: Apache-2.0
//
// The only file that reads clocks.
//
// Two lines of time that show the same: CLOCK_MONOTONIC, and the time stamp counter
// calibrated against it, which costs less than half.  The counter is used only
// where the processor says that it runs at one rate and never stops, and while the
// kernel itself keeps its time by it.  It is corrected by whichever thread asks for
// the time when a correction is due; the others go on with the old line.
#include "flowguard/clock.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <ctime>

#include "base/clock_source.h"
#include "base/system_now.h"
#include "base/tsc.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

namespace flowguard {

constinit base::TscLine base::internal::process_line;

namespace {

int64_t ReadNs(clockid_t id) noexcept {
  timespec ts{};
  clock_gettime(id, &ts);
  return int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec;
}

constexpr int64_t kDayNs = int64_t{86'400} * 1'000'000'000;
constexpr int64_t kWeekNs = 7 * kDayNs;

// Nanoseconds from the epoch of Instant to the zero of CLOCK_MONOTONIC.  1970-01-05
// was a Monday.
int64_t EpochOffsetNs() noexcept {
  const int64_t wall = ReadNs(CLOCK_REALTIME);
  const int64_t since_monday = (wall - 4 * kDayNs) % kWeekNs;
  return since_monday + kWeekNs - ReadNs(CLOCK_MONOTONIC);
}

// The kernel's clock on the time line of Instant.
int64_t KernelNowNs() noexcept {
  static const int64_t offset_ns = EpochOffsetNs();
  return ReadNs(CLOCK_MONOTONIC) + offset_ns;
}

#if defined(__x86_64__)

constexpr int64_t kFirstCalibrationNs = 500'000;
constexpr int64_t kCalibrateEveryNsMin = 10'000'000;
constexpr int64_t kCalibrateEveryNsMax = int64_t{10} * 1'000'000'000;
// A reading that is older than this when it is about to be published is thrown away:
// its thread was put aside, and the line has been read beyond it.
constexpr int64_t kReadingAgeNsMax = 20'000;

bool ProcessorHasInvariantTsc() noexcept {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  // One bit says both: constant rate, and running in all sleep states.
  return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & (1u << 8)) != 0;
}

// `last`: what was known so far.
bool KernelKeepsTimeByTsc(bool last) noexcept {
  return base::ClockSourceIsTsc("/sys/devices/system/clocksource/clocksource0/current_clocksource",
                                last);
}

// Both clocks at one moment: of several tries the one that took least.
base::ClockPair ReadBoth() noexcept {
  base::ClockPair best;
  uint64_t best_gap = ~uint64_t{0};
  for (int i = 0; i < 8; ++i) {
    const uint64_t before = __rdtsc();
    const int64_t ns = KernelNowNs();
    const uint64_t gap = __rdtsc() - before;
    if (gap < best_gap) {
      best_gap = gap;
      best = {before + gap / 2, ns};
    }
  }
  return best;
}

class TscClock {
 public:
  explicit constexpr TscClock(base::TscLine& line) noexcept : line_(line) {}

  // When the line says that something is due.
  [[nodiscard]] int64_t SlowNowNs() noexcept {
    State state = state_.load(std::memory_order_acquire);
    if (state == State::kKernel) return KernelNowNs() + kernel_ahead_ns_;
    if (busy_.exchange(true, std::memory_order_acquire)) {
      if (state == State::kTsc) return line_.At(__rdtsc()).ns;
      // Another thread is at the first calibration, which takes half a millisecond.
      while (state == State::kNew) {
        _mm_pause();
        state = state_.load(std::memory_order_acquire);
      }
      return state == State::kKernel ? KernelNowNs() + kernel_ahead_ns_ : line_.At(__rdtsc()).ns;
    }
    if (state_.load(std::memory_order_relaxed) == State::kNew) {
      First();
    } else if (state_.load(std::memory_order_relaxed) == State::kTsc) {
      Again();
    }
    busy_.store(false, std::memory_order_release);
    return state_.load(std::memory_order_acquire) == State::kKernel
               ? KernelNowNs() + kernel_ahead_ns_
               : line_.At(__rdtsc()).ns;
  }

 private:
  enum class State : uint8_t { kNew, kTsc, kKernel };

  void First() noexcept {
    if (!ProcessorHasInvariantTsc() || !KernelKeepsTimeByTsc(/*last=*/false)) {
      state_.store(State::kKernel, std::memory_order_release);
      return;
    }
    const base::ClockPair first = ReadBoth();
    base::ClockPair second = first;
    while (second.ns - first.ns < kFirstCalibrationNs)
      second = ReadBoth();
    ticks_per_ms_ =
        (second.ticks - first.ticks) * 1'000'000 / static_cast<uint64_t>(second.ns - first.ns);
    const bool good = line_.Start(first, second, Ticks(every_ns_));
    state_.store(good ? State::kTsc : State::kKernel, std::memory_order_release);
  }

  void Again() noexcept {
    const int64_t next_ns = std::min(every_ns_ * 10, kCalibrateEveryNsMax);
    const bool kernel_agrees = KernelKeepsTimeByTsc(/*last=*/true);
    const base::ClockPair reading = ReadBoth();
    const base::TscLine::Stamp shown = line_.At(reading.ticks);
    if (!kernel_agrees || Far(shown.ns - reading.ns)) {
      // Time never steps back, so the kernel's clock goes on from what was shown.
      kernel_ahead_ns_ = std::max<int64_t>(shown.ns - reading.ns, 0);
      state_.store(State::kKernel, std::memory_order_release);
      return;
    }
    if (__rdtsc() - reading.ticks > Ticks(kReadingAgeNsMax)) return;  // the next call tries again
    if (line_.Correct(reading, Ticks(next_ns))) every_ns_ = next_ns;
  }

  static bool Far(int64_t error_ns) noexcept {
    return error_ns > base::TscLine::kErrorNsMax || error_ns < -base::TscLine::kErrorNsMax;
  }
  [[nodiscard]] uint64_t Ticks(int64_t ns) const noexcept {
    return static_cast<uint64_t>(ns) / 1'000 * ticks_per_ms_ / 1'000;
  }

  base::TscLine& line_;
  std::atomic<State> state_{State::kNew};
  std::atomic<bool> busy_{false};
  int64_t kernel_ahead_ns_ = 0;              // written before kKernel is published
  int64_t every_ns_ = kCalibrateEveryNsMin;  // under busy_, as is:
  uint64_t ticks_per_ms_ = 0;
};

// The one clock of the process; its state is atomic or under its own flag.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
constinit TscClock process_clock(base::internal::process_line);

#endif

class ProcessClock final : public Clock {
 public:
  [[nodiscard]] Instant Now() const noexcept override { return base::SystemNow(); }
  [[nodiscard]] WallTime WallNow() const noexcept override {
    return WallTime(Duration(ReadNs(CLOCK_REALTIME)));
  }
  void SleepUntil(Instant until) const noexcept override { base::SystemSleepUntil(until); }
};

}  // namespace

namespace base {

Instant internal::SlowSystemNow() noexcept {
#if defined(__x86_64__)
  return Instant(Duration(process_clock.SlowNowNs()));
#else
  return Instant(Duration(KernelNowNs()));
#endif
}

void SystemSleepUntil(Instant until) noexcept {
  for (;;) {
    const Duration left = until - SystemNow();
    if (left <= Duration::zero()) return;
    timespec ts{};
    ts.tv_sec = static_cast<time_t>(left.count() / 1'000'000'000);
    ts.tv_nsec = static_cast<long>(left.count() % 1'000'000'000);
    clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, nullptr);
  }
}

}  // namespace base

const Clock& SystemClock() noexcept {
  static const ProcessClock clock;
  return clock;
}

}  // namespace flowguard
