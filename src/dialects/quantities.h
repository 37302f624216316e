// SPDX-License-Identifier: Apache-2.0
//
// Counts, durations and rates as people write them: 1_000_000, 300ms, 1m30s,
// 100/s burst 200, 10 per 30s.  Exact: nothing is rounded, wrapped or cut to fewer
// bits; what does not fit is told with the bound.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "flowguard/rule.h"
#include "flowguard/time.h"

namespace flowguard::dialects {

// What is wrong in a short text, and at which byte of it.
struct TextFault {
  size_t offset = 0;
  std::string message;
};

// A value read from a short text, or the fault in it.
template <typename T>
class Read {
 public:
  Read(T value) : value_(std::move(value)) {}          // NOLINT(google-explicit-constructor)
  Read(TextFault fault) : fault_(std::move(fault)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool ok() const noexcept { return value_.has_value(); }
  [[nodiscard]] const T& operator*() const { return *value_; }
  [[nodiscard]] const T* operator->() const { return &*value_; }
  [[nodiscard]] const TextFault& fault() const noexcept { return fault_; }

 private:
  std::optional<T> value_;
  TextFault fault_;
};

// Words and numbers of one text, from the left.
class WordScanner {
 public:
  explicit WordScanner(std::string_view text) noexcept : text_(text) {}

  void SkipSpaces() noexcept;
  [[nodiscard]] bool AtEnd() const noexcept { return at_ == text_.size(); }
  [[nodiscard]] size_t offset() const noexcept { return at_; }
  [[nodiscard]] char Peek() const noexcept { return AtEnd() ? '\0' : text_[at_]; }

  // The text up to the next space, and up to the first byte of `stops`; may be empty.
  std::string_view TakeUntil(std::string_view stops) noexcept;
  // Takes `word` when it is next and whole.
  bool TakeWord(std::string_view word) noexcept;
  bool TakeByte(char c) noexcept;
  // The word ahead, without taking it.
  [[nodiscard]] std::string_view PeekWord() const noexcept;

 private:
  std::string_view text_;
  size_t at_ = 0;
};

struct CountBounds {
  int64_t min = 0;
  int64_t max = 0;
};

// Digits, with single '_' between them.
Read<int64_t> ReadCount(std::string_view text, CountBounds bounds);

// A count of bytes, or of KiB, MiB or GiB: 65536, 64MiB.
Read<int64_t> ReadBytes(std::string_view text, CountBounds bounds);

struct DurationBounds {
  Duration min{};
  Duration max{};
};

// Counts with units, largest first: ns, us, ms, s, m or min, h, d.  "0" needs none.
Read<Duration> ReadDuration(std::string_view text, DurationBounds bounds);

// A part of the whole, within [0, 1]: 0.5 or 50%.
Read<double> ReadRatio(std::string_view text);

struct RateText {
  Rate rate;
  std::optional<int64_t> burst;
};

// N/unit, N/duration or N per duration, then perhaps "burst B"; "0" alone refuses
// everything.  The whole text.
Read<RateText> ReadRate(std::string_view text);

// The same without "burst", from where `scanner` stands; what follows is left to
// the caller.
Read<Rate> TakeRate(WordScanner& scanner);

// A count of units, as the B of "burst B".
Read<int64_t> TakeUnits(WordScanner& scanner);

// Text that reads back as the same value.
[[nodiscard]] std::string WriteDuration(Duration duration);
[[nodiscard]] std::string WriteRatio(double ratio);
[[nodiscard]] std::string WriteRate(const Rate& rate, std::optional<int64_t> burst);

}  // namespace flowguard::dialects
