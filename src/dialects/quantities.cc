// SPDX-License-Identifier: Apache-2.0
#include "dialects/quantities.h"

#include <array>
#include <charconv>
#include <numeric>

#include "base/bounds.h"
#include "text/node.h"

namespace flowguard::dialects {

namespace {

using text::Quote;

constexpr std::string_view kSpaces = " \t";
constexpr std::string_view kUnitsAllowed = "use ns, us, ms, s, min, h, d";

struct Unit {
  std::string_view name;
  int64_t ns;
};

constexpr int64_t kSecondNs = 1'000'000'000;

// The first of equal length is the one that is written.
constexpr std::array<Unit, 14> kUnits = {{
    {"d", 86'400 * kSecondNs},
    {"day", 86'400 * kSecondNs},
    {"h", 3'600 * kSecondNs},
    {"hour", 3'600 * kSecondNs},
    {"min", 60 * kSecondNs},
    {"minute", 60 * kSecondNs},
    {"m", 60 * kSecondNs},
    {"s", kSecondNs},
    {"sec", kSecondNs},
    {"second", kSecondNs},
    {"ms", 1'000'000},
    {"us", 1'000},
    {"\xC2\xB5s", 1'000},
    {"ns", 1},
}};

const Unit* FindUnit(std::string_view name) noexcept {
  for (const Unit& unit : kUnits) {
    if (unit.name == name) return &unit;
  }
  return nullptr;
}

bool IsDigit(char c) noexcept {
  return c >= '0' && c <= '9';
}

bool IsNumeral(std::string_view text) noexcept {
  if (text.empty() || !IsDigit(text.front()) || !IsDigit(text.back())) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (IsDigit(text[i])) continue;
    if (text[i] != '_' || text[i - 1] == '_') return false;
  }
  return true;
}

// None when it is above `max`.  Requires: IsNumeral, max >= 0.
std::optional<int64_t> ValueUpTo(std::string_view numeral, int64_t max) noexcept {
  int64_t value = 0;
  for (const char c : numeral) {
    if (c == '_') continue;
    const int64_t digit = c - '0';
    if (digit > max || value > (max - digit) / 10) return std::nullopt;
    value = value * 10 + digit;
  }
  return value;
}

// Where the number at the beginning of `text` ends.
size_t NumeralEnd(std::string_view text) noexcept {
  size_t end = 0;
  while (end < text.size() && (IsDigit(text[end]) || text[end] == '_'))
    ++end;
  return end;
}

// "0.5" of a rate per `unit`: what to write instead.
std::string WholeNumberAdvice(std::string_view number, const Unit& unit) {
  const size_t dot = number.find('.');
  constexpr size_t kDigitsMax = 8;
  if (dot == std::string_view::npos || number.size() > kDigitsMax) return {};
  std::string digits(number);
  digits.erase(dot, 1);
  if (!IsNumeral(digits) || digits.find('_') != std::string::npos) return {};
  int64_t units = ValueUpTo(digits, INT64_MAX).value_or(0);
  int64_t windows = 1;
  for (size_t i = dot + 1; i < number.size(); ++i)
    windows *= 10;
  if (units == 0) return {};
  const int64_t divisor = std::gcd(units, windows);
  units /= divisor;
  windows /= divisor;
  return "; write " + std::to_string(units) + " per " + std::to_string(windows) +
         std::string(unit.name);
}

TextFault NotWhole(std::string_view text, size_t offset) {
  return {offset, Quote(text) + " is not a whole number"};
}

Read<Duration> CheckBounds(std::string_view text, Duration value, DurationBounds bounds) {
  if (value < bounds.min) {
    return TextFault{0, Quote(text) + " is too short; the minimum is " + WriteDuration(bounds.min)};
  }
  return value;
}

}  // namespace

void WordScanner::SkipSpaces() noexcept {
  const size_t word = text_.find_first_not_of(kSpaces, at_);
  at_ = word == std::string_view::npos ? text_.size() : word;
}

std::string_view WordScanner::TakeUntil(std::string_view stops) noexcept {
  const size_t begin = at_;
  while (!AtEnd() && kSpaces.find(Peek()) == std::string_view::npos &&
         stops.find(Peek()) == std::string_view::npos) {
    ++at_;
  }
  return text_.substr(begin, at_ - begin);
}

std::string_view WordScanner::PeekWord() const noexcept {
  WordScanner ahead = *this;
  return ahead.TakeUntil({});
}

bool WordScanner::TakeWord(std::string_view word) noexcept {
  if (PeekWord() != word) return false;
  at_ += word.size();
  return true;
}

bool WordScanner::TakeByte(char c) noexcept {
  if (AtEnd() || text_[at_] != c) return false;
  ++at_;
  return true;
}

Read<int64_t> ReadCount(std::string_view text, CountBounds bounds) {
  if (text.size() > 1 && text.front() == '-' && IsNumeral(text.substr(1))) {
    return TextFault{
        0, std::string(text) + " is negative; the minimum is " + std::to_string(bounds.min)};
  }
  if (!IsNumeral(text)) return NotWhole(text, 0);
  const std::optional<int64_t> value = ValueUpTo(text, bounds.max);
  if (!value) {
    return TextFault{0,
                     Quote(text) + " is too large; the maximum is " + std::to_string(bounds.max)};
  }
  if (*value < bounds.min) {
    return TextFault{0,
                     Quote(text) + " is too small; the minimum is " + std::to_string(bounds.min)};
  }
  return *value;
}

Read<int64_t> ReadBytes(std::string_view text, CountBounds bounds) {
  const size_t unit_at = NumeralEnd(text);
  const std::string_view number = text.substr(0, unit_at);
  const std::string_view unit = text.substr(unit_at);
  int shift = 0;
  if (unit == "KiB") {
    shift = 10;
  } else if (unit == "MiB") {
    shift = 20;
  } else if (unit == "GiB") {
    shift = 30;
  } else if (!unit.empty()) {
    return TextFault{unit_at, Quote(text) + " is not a size; write bytes, or use KiB, MiB, GiB"};
  }
  if (!IsNumeral(number)) return NotWhole(text, 0);
  const std::optional<int64_t> count = ValueUpTo(number, bounds.max >> shift);
  if (!count) {
    return TextFault{
        0, Quote(text) + " is too large; the maximum is " + std::to_string(bounds.max) + " bytes"};
  }
  if ((*count << shift) < bounds.min) {
    return TextFault{
        0, Quote(text) + " is too small; the minimum is " + std::to_string(bounds.min) + " bytes"};
  }
  return *count << shift;
}

Read<Duration> ReadDuration(std::string_view text, DurationBounds bounds) {
  const int64_t max = bounds.max.count();
  if (text == "0") return CheckBounds(text, Duration{}, bounds);
  if (!text.empty() && text.front() == '-') {
    return TextFault{0, Quote(text) + " is negative; the minimum is " + WriteDuration(bounds.min)};
  }
  if (text.empty()) return TextFault{0, "a duration is missing; " + std::string(kUnitsAllowed)};
  int64_t total = 0;
  int64_t unit_before = INT64_MAX;
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    const std::string_view numeral = rest.substr(0, NumeralEnd(rest));
    const size_t letters = rest.find_first_of("0123456789_.", numeral.size());
    const std::string_view name = rest.substr(
        numeral.size(), letters == std::string_view::npos ? letters : letters - numeral.size());
    if (!IsNumeral(numeral) || (letters != std::string_view::npos && rest[letters] == '.')) {
      return TextFault{at, Quote(text) + " is not a duration; write a whole number with a unit, " +
                               "such as 300ms, 2s, 1m30s"};
    }
    if (name.empty()) {
      return TextFault{at + numeral.size(),
                       Quote(text) + " has no unit; " + std::string(kUnitsAllowed)};
    }
    const Unit* unit = FindUnit(name);
    if (unit == nullptr) {
      return TextFault{at + numeral.size(),
                       "unknown unit " + Quote(name) + "; " + std::string(kUnitsAllowed)};
    }
    if (unit->ns >= unit_before) {
      return TextFault{at, Quote(text) + ": units go from the largest to the smallest, each once"};
    }
    unit_before = unit->ns;
    const std::optional<int64_t> count = ValueUpTo(numeral, max / unit->ns);
    if (!count || total > max - *count * unit->ns) {
      return TextFault{0,
                       Quote(text) + " is too long; the maximum is " + WriteDuration(bounds.max)};
    }
    total += *count * unit->ns;
    at += numeral.size() + name.size();
  }
  return CheckBounds(text, Duration(total), bounds);
}

Read<double> ReadRatio(std::string_view text) {
  const bool percent = text.ends_with('%');
  const std::string_view number = percent ? text.substr(0, text.size() - 1) : text;
  const bool plain = !number.empty() && IsDigit(number.front()) &&
                     number.find_first_not_of("0123456789.") == std::string_view::npos;
  // Divided by the reader of the number, so that 33.3% is 0.333 to the last bit.
  const std::string whole = std::string(number) + (percent ? "e-2" : "");
  double value = 0;
  const char* const end = whole.data() + whole.size();
  const auto [stop, error] = std::from_chars(whole.data(), end, value);
  if (!plain || error != std::errc() || stop != end) {
    return TextFault{0, Quote(text) + " is not a part of the whole; write 0.5 or 50%"};
  }
  if (value > 1) return TextFault{0, Quote(text) + " is above 1, the whole; write 0.5 or 50%"};
  return value;
}

Read<Rate> TakeRate(WordScanner& scanner) {
  scanner.SkipSpaces();
  const size_t number_at = scanner.offset();
  const std::string_view number = scanner.TakeUntil("/");
  if (number.empty()) {
    return TextFault{number_at, "a rate is missing; write 100/s or 10 per 30s"};
  }
  scanner.SkipSpaces();
  const bool slash = scanner.TakeByte('/');
  if (!slash && !scanner.TakeWord("per")) {
    const Read<int64_t> units = ReadCount(number, {0, base::kLimitMax});
    if (!units.ok()) return TextFault{number_at, units.fault().message};
    if (*units == 0) return Rate{0, std::chrono::seconds(1)};
    return TextFault{number_at, Quote(number) + " has no time; write " + std::string(number) +
                                    "/s or " + std::string(number) + " per 10s"};
  }
  scanner.SkipSpaces();
  const size_t window_at = scanner.offset();
  const std::string_view window_text = scanner.TakeUntil({});
  const Unit* unit = FindUnit(window_text);
  if (number.find('.') != std::string_view::npos) {
    return TextFault{number_at, Quote(number) + " is not a whole number" +
                                    (unit != nullptr ? WholeNumberAdvice(number, *unit) : "")};
  }
  const Read<int64_t> units = ReadCount(number, {0, base::kLimitMax});
  if (!units.ok()) return TextFault{number_at, units.fault().message};
  if (unit != nullptr && unit->ns >= base::kWindowMin.count()) {
    return Rate{*units, Duration(unit->ns)};
  }
  if (unit == nullptr && !window_text.empty() && !IsDigit(window_text.front()) &&
      window_text.front() != '-') {
    return TextFault{window_at,
                     "unknown unit " + Quote(window_text) + "; use us, ms, s, min, h, d"};
  }
  const Read<Duration> window =
      unit != nullptr
          ? ReadDuration("1" + std::string(window_text), {base::kWindowMin, base::kWindowMax})
          : ReadDuration(window_text, {base::kWindowMin, base::kWindowMax});
  if (!window.ok()) {
    return TextFault{window_at + (unit == nullptr ? window.fault().offset : 0),
                     window.fault().message};
  }
  return Rate{*units, *window};
}

Read<int64_t> TakeUnits(WordScanner& scanner) {
  scanner.SkipSpaces();
  const size_t at = scanner.offset();
  const Read<int64_t> units = ReadCount(scanner.TakeUntil({}), {1, base::kLimitMax});
  if (!units.ok()) return TextFault{at, "burst " + units.fault().message};
  return *units;
}

Read<RateText> ReadRate(std::string_view text) {
  WordScanner scanner(text);
  const Read<Rate> rate = TakeRate(scanner);
  if (!rate.ok()) return rate.fault();
  RateText whole{*rate, {}};
  scanner.SkipSpaces();
  if (scanner.TakeWord("burst")) {
    const Read<int64_t> burst = TakeUnits(scanner);
    if (!burst.ok()) return burst.fault();
    whole.burst = *burst;
    scanner.SkipSpaces();
  }
  if (!scanner.AtEnd()) {
    return TextFault{scanner.offset(),
                     "unexpected " + Quote(scanner.PeekWord()) +
                         "; write N/unit or N per duration, then perhaps burst B"};
  }
  return whole;
}

std::string WriteDuration(Duration duration) {
  const int64_t ns = duration.count();
  if (ns == 0) return "0";
  for (const Unit& unit : kUnits) {
    if (ns % unit.ns == 0) return std::to_string(ns / unit.ns) + std::string(unit.name);
  }
  return std::to_string(ns) + "ns";
}

std::string WriteRatio(double ratio) {
  std::array<char, 32> text;
  const auto written =
      std::to_chars(text.data(), text.data() + text.size(), ratio, std::chars_format::fixed);
  return {text.data(), written.ptr};
}

std::string WriteRate(const Rate& rate, std::optional<int64_t> burst) {
  std::string text = std::to_string(rate.limit);
  const std::string window = WriteDuration(rate.window);
  const bool one_unit = window.size() > 1 && window.front() == '1' && !IsDigit(window[1]);
  text += one_unit ? "/" + window.substr(1) : " per " + window;
  if (burst) text += " burst " + std::to_string(*burst);
  return text;
}

}  // namespace flowguard::dialects
