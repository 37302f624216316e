// SPDX-License-Identifier: Apache-2.0
#include "wire/http1_writer.h"

#include <charconv>
#include <chrono>
#include <cstring>

#include "base/check.h"
#include "wire/scan.h"

namespace flowguard::wire {
namespace {

constexpr std::string_view kVersion = "HTTP/1.1 ";

// The whole line with its CRLF; empty when the status has no name here.
std::string_view PreparedStatusLine(int status) noexcept {
#define FG_STATUS(code, reason) \
  case code:                    \
    return "HTTP/1.1 " #code " " reason "\r\n"
  switch (status) {
    FG_STATUS(100, "Continue");
    FG_STATUS(101, "Switching Protocols");
    FG_STATUS(103, "Early Hints");
    FG_STATUS(200, "OK");
    FG_STATUS(201, "Created");
    FG_STATUS(202, "Accepted");
    FG_STATUS(204, "No Content");
    FG_STATUS(206, "Partial Content");
    FG_STATUS(301, "Moved Permanently");
    FG_STATUS(302, "Found");
    FG_STATUS(303, "See Other");
    FG_STATUS(304, "Not Modified");
    FG_STATUS(307, "Temporary Redirect");
    FG_STATUS(308, "Permanent Redirect");
    FG_STATUS(400, "Bad Request");
    FG_STATUS(401, "Unauthorized");
    FG_STATUS(402, "Payment Required");
    FG_STATUS(403, "Forbidden");
    FG_STATUS(404, "Not Found");
    FG_STATUS(405, "Method Not Allowed");
    FG_STATUS(406, "Not Acceptable");
    FG_STATUS(408, "Request Timeout");
    FG_STATUS(409, "Conflict");
    FG_STATUS(410, "Gone");
    FG_STATUS(411, "Length Required");
    FG_STATUS(412, "Precondition Failed");
    FG_STATUS(413, "Content Too Large");
    FG_STATUS(414, "URI Too Long");
    FG_STATUS(415, "Unsupported Media Type");
    FG_STATUS(416, "Range Not Satisfiable");
    FG_STATUS(417, "Expectation Failed");
    FG_STATUS(421, "Misdirected Request");
    FG_STATUS(422, "Unprocessable Content");
    FG_STATUS(426, "Upgrade Required");
    FG_STATUS(428, "Precondition Required");
    FG_STATUS(429, "Too Many Requests");
    FG_STATUS(431, "Request Header Fields Too Large");
    FG_STATUS(451, "Unavailable For Legal Reasons");
    FG_STATUS(500, "Internal Server Error");
    FG_STATUS(501, "Not Implemented");
    FG_STATUS(502, "Bad Gateway");
    FG_STATUS(503, "Service Unavailable");
    FG_STATUS(504, "Gateway Timeout");
    FG_STATUS(505, "HTTP Version Not Supported");
    default:
      return {};
  }
#undef FG_STATUS
}

char* Put(char* to, std::string_view text) noexcept {
  if (!text.empty()) std::memcpy(to, text.data(), text.size());
  return to + text.size();
}

// `value` with `digits` digits, zero-padded.
char* PutDigits(char* to, unsigned value, int digits) noexcept {
  for (int i = digits - 1; i >= 0; --i) {
    to[i] = static_cast<char>('0' + value % 10);
    value /= 10;
  }
  return to + digits;
}

}  // namespace

std::string_view ReasonPhrase(int status) noexcept {
  const std::string_view line = PreparedStatusLine(status);
  if (line.empty()) return {};
  constexpr size_t kReasonAt = kVersion.size() + 4;
  return line.substr(kReasonAt, line.size() - kReasonAt - 2);
}

std::string_view FormatHttpDate(WallTime time, std::span<char, kHttpDateBytes> out) noexcept {
  constexpr std::string_view kDays = "SunMonTueWedThuFriSat";
  constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(std::chrono::floor<std::chrono::seconds>(time - day));
  const unsigned month = static_cast<unsigned>(date.month()) - 1;

  char* at = Put(out.data(), kDays.substr(std::chrono::weekday(day).c_encoding() * 3, 3));
  at = Put(at, ", ");
  at = PutDigits(at, static_cast<unsigned>(date.day()), 2);
  *at++ = ' ';
  at = Put(at, kMonths.substr(size_t{month} * 3, 3));
  *at++ = ' ';
  at = PutDigits(at, static_cast<unsigned>(static_cast<int>(date.year())), 4);
  *at++ = ' ';
  at = PutDigits(at, static_cast<unsigned>(clock.hours().count()), 2);
  *at++ = ':';
  at = PutDigits(at, static_cast<unsigned>(clock.minutes().count()), 2);
  *at++ = ':';
  at = PutDigits(at, static_cast<unsigned>(clock.seconds().count()), 2);
  Put(at, " GMT");
  return {out.data(), out.size()};
}

char* HeadWriter::Claim(size_t bytes) noexcept {
  if (!ok_ || bytes > static_cast<size_t>(end_ - at_)) {
    ok_ = false;
    return nullptr;
  }
  char* const from = at_;
  at_ += bytes;
  return from;
}

void HeadWriter::StatusLine(int status) noexcept {
  const std::string_view prepared = PreparedStatusLine(status);
  if (prepared.empty()) return StatusLine(status, {});
  Raw(prepared);
}

void HeadWriter::StatusLine(int status, std::string_view reason) noexcept {
  FG_DCHECK(status >= 100 && status <= 999 && IsFieldValue(reason));
  char* to = Claim(kVersion.size() + 4 + reason.size() + 2);
  if (to == nullptr) return;
  to = Put(to, kVersion);
  to = PutDigits(to, static_cast<unsigned>(status), 3);
  *to++ = ' ';
  to = Put(to, reason);
  Put(to, "\r\n");
}

void HeadWriter::RequestLine(std::string_view method, std::string_view target) noexcept {
  constexpr std::string_view kTail = " HTTP/1.1\r\n";
  char* to = Claim(method.size() + 1 + target.size() + kTail.size());
  if (to == nullptr) return;
  to = Put(to, method);
  *to++ = ' ';
  to = Put(to, target);
  Put(to, kTail);
}

void HeadWriter::AddLine(std::string_view name, std::string_view value) noexcept {
  FG_DCHECK(IsToken(name) && IsFieldValue(value));
  char* to = Claim(name.size() + 2 + value.size() + 2);
  if (to == nullptr) return;
  to = Put(to, name);
  to = Put(to, ": ");
  to = Put(to, value);
  Put(to, "\r\n");
}

void HeadWriter::Add(std::string_view name, std::string_view value) noexcept {
  FG_DCHECK(IsToken(name));
  char* to = Claim(name.size() + 2 + value.size() + 2);
  if (to == nullptr) return;
  to = Put(to, name);
  to = Put(to, ": ");
  for (const char c : value)
    *to++ = IsByte(kValueByte, c) ? c : ' ';
  Put(to, "\r\n");
}

void HeadWriter::Add(std::string_view name, uint64_t value) noexcept {
  std::array<char, 20> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  AddLine(name, {digits.data(), static_cast<size_t>(end - digits.data())});
}

void HeadWriter::Raw(std::string_view bytes) noexcept {
  char* to = Claim(bytes.size());
  if (to != nullptr) Put(to, bytes);
}

}  // namespace flowguard::wire
