// SPDX-License-Identifier: Apache-2.0
//
// Writes HTTP/1.1 heads into a flat buffer of the caller's.
//
//   HeadWriter out(buffer);
//   out.StatusLine(429);
//   out.Add("retry-after", 1);
//   out.AddLine("date", date);
//   out.End();
//   if (out.ok()) Send(out.view());
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "flowguard/time.h"

#include "wire/http1.h"

namespace flowguard::wire {

// "OK", "Too Many Requests"; empty when the status has no name here.
[[nodiscard]] std::string_view ReasonPhrase(int status) noexcept;

// "Sun, 06 Nov 1994 08:49:37 GMT", written into `out`.  Callers keep it for the
// second that it is good for.
inline constexpr size_t kHttpDateBytes = 29;
std::string_view FormatHttpDate(WallTime time, std::span<char, kHttpDateBytes> out) noexcept;

// Appends to a buffer; once something did not fit, nothing more is written and ok()
// is false.  Threads: one owner.
class HeadWriter {
 public:
  explicit HeadWriter(std::span<char> buffer) noexcept
      : begin_(buffer.data()), at_(buffer.data()), end_(buffer.data() + buffer.size()) {}

  // "HTTP/1.1 429 Too Many Requests".  Requires: 100 <= status <= 999.
  void StatusLine(int status) noexcept;
  // The same with an upstream's own words, which ParseResponseHead has checked.
  void StatusLine(int status, std::string_view reason) noexcept;
  // "GET /path HTTP/1.1".  Requires: both come from a parsed head or are as strict.
  void RequestLine(std::string_view method, std::string_view target) noexcept;

  // A line whose value may hold anything: bytes that could end the line or the
  // message (control bytes but TAB) are written as spaces.  Requires: IsToken(name).
  void Add(std::string_view name, std::string_view value) noexcept;
  void Add(std::string_view name, uint64_t value) noexcept;
  // A line whose value is known to be IsFieldValue: constants, dates, parsed values.
  void AddLine(std::string_view name, std::string_view value) noexcept;
  // A parsed line, as it came.
  void Forward(const Header& header) noexcept { AddLine(header.name, header.value); }
  // Bytes as they are: prepared lines, a body.
  void Raw(std::string_view bytes) noexcept;
  // The empty line.
  void End() noexcept { Raw("\r\n"); }

  [[nodiscard]] bool ok() const noexcept { return ok_; }
  [[nodiscard]] size_t size() const noexcept { return static_cast<size_t>(at_ - begin_); }
  [[nodiscard]] std::string_view view() const noexcept { return {begin_, size()}; }

 private:
  // Room for `bytes` more, or null (and ok_ false).
  char* Claim(size_t bytes) noexcept;

  char* begin_;
  char* at_;
  char* end_;
  bool ok_ = true;
};

}  // namespace flowguard::wire
