// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "wire/resp.h"

namespace flowguard::wire::resp {
namespace {

constexpr size_t kItemBytesMin = 3;  // "_\r\n"
constexpr size_t kItemsAtFirst = 64;

bool IsDigit(char byte) noexcept {
  return byte >= '0' && byte <= '9';
}

constexpr std::ptrdiff_t kBlock = sizeof(uint64_t);
constexpr std::array<uint64_t, kBlock + 1> kPowersOfTen{
    1, 10, 100, 1'000, 10'000, 100'000, 1'000'000, 10'000'000, 100'000'000};

// The digits that a block of text begins with, as a number.
struct Digits {
  uint64_t number = 0;
  size_t count = 0;
};

// All eight bytes at once, the first in the lowest byte of a word.
Digits ReadDigits(const char* block) noexcept {
  uint64_t word = 0;
  std::memcpy(&word, block, kBlock);
  word ^= 0x3030303030303030;  // digits become what they stand for
  // Of what is no digit the highest bit is set.  A carry comes after the first of them only.
  const uint64_t others = ((word + 0x7676767676767676) | word) & 0x8080808080808080;
  Digits digits;
  digits.count = others == 0 ? kBlock : static_cast<size_t>(std::countr_zero(others)) / 8;
  if (digits.count == 0) return digits;
  word <<= 8 * (kBlock - digits.count);  // as with zeros before them
  word = word * 10 + (word >> 8);        // pairs, in every other byte
  constexpr uint64_t kPairs = 0x000000ff000000ff;
  digits.number = ((word & kPairs) * ((uint64_t{1'000'000} << 32) + 100) +
                   (word >> 16 & kPairs) * ((uint64_t{10'000} << 32) + 1)) >>
                  32;
  return digits;
}

// Reads a number without a sign, of sixteen digits at most, which cannot overflow and hold the
// time of a server's clock, and the line's end after it.  nullptr: it is another, is not all
// there, or is none.
const char* ReadPlainNumber(const char* p, const char* end, int64_t& value) noexcept {
  if (std::endian::native != std::endian::little) return nullptr;
  if (end - p >= 3 && p[1] == '\r') {
    value = *p - '0';
    return IsDigit(*p) && p[2] == '\n' ? p + 3 : nullptr;
  }
  uint64_t number = 0;
  size_t digits = 0;
  for (int block = 0; block < 2 && end - p >= kBlock; ++block) {
    const Digits read = ReadDigits(p);
    number = number * kPowersOfTen[read.count] + read.number;
    digits += read.count;
    p += read.count;
    if (read.count < kBlock) break;
  }
  if (digits == 0 || end - p < 2 || p[0] != '\r' || p[1] != '\n') return nullptr;
  value = static_cast<int64_t>(number);
  return p + 2;
}

bool IsBigNumber(std::string_view text) noexcept {
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) text.remove_prefix(1);
  return !text.empty() && std::all_of(text.begin(), text.end(), IsDigit);
}

bool IsDouble(std::string_view text) noexcept {
  if (text == "inf" || text == "-inf" || text == "nan" || text == "-nan") return true;
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char byte) {
    return IsDigit(byte) || byte == '+' || byte == '-' || byte == '.' || byte == 'e' || byte == 'E';
  });
}

}  // namespace

struct Reader::Head {
  Value value;
  size_t at = 0;       // the type's byte
  size_t next = 0;     // first byte after what was read
  int64_t number = 0;  // of a line that is one
  size_t items = 0;    // of an aggregate
  bool aggregate = false;
  bool attribute = false;
};

Reader::Reader() : items_(kItemsAtFirst) {}

void Reader::Reset() noexcept {
  scanned_ = depth_ = counted_ = 0;
}

Reader::Status Reader::Bad(size_t at, std::string_view problem) noexcept {
  problem_ = problem;
  problem_at_ = at;
  return Status::kBad;
}

Reader::Status Reader::Read(std::string_view bytes) noexcept {
  if (scanned_ == 0 && depth_ == 0) {
    // Nearly always the whole reply is there.
    at_ = counted_ = 0;
    used_ = 1;
    const Status status = Build(bytes, 0, 0);
    if (status != Status::kNeedMore) return status;
    counted_ = 0;
    left_[0] = 2;
  }
  const Status status = Scan(bytes);
  if (status != Status::kDone) return status;
  Reset();
  at_ = 0;
  used_ = 1;
  return Build(bytes, 0, 0);
}

// Follows the reply without building it, from where it stopped the last time.
Reader::Status Reader::Scan(std::string_view bytes) noexcept {
  Head head;
  while (true) {
    while (left_[depth_] < 2) {
      if (depth_ == 0) return Status::kDone;
      // The value that an attribute belongs to follows it, as one more item.
      const bool attribute = (left_[depth_] & 1) != 0;
      --depth_;
      if (!attribute) left_[depth_] -= 2;
    }
    head.at = scanned_;
    const Status status = ReadHead(bytes, depth_ == 0, head);
    if (status != Status::kDone) return status;
    scanned_ = head.next;
    if (head.aggregate) {
      if (depth_ == base::kRespDepthMax) return Bad(head.at, "too many levels");
      left_[++depth_] = static_cast<uint32_t>(head.items * 2 + (head.attribute ? 1 : 0));
    } else {
      left_[depth_] -= 2;
    }
  }
}

// Reads an array of plain integers, as most of what scripts answer is, from at_ on to
// items_[slot].  False: it is something else, or not all there, and nothing was read.
bool Reader::BuildIntegers(std::string_view bytes, size_t slot) noexcept {
  const char* const end = bytes.data() + bytes.size();
  const char* p = bytes.data() + at_;
  int64_t count = 0;
  if (p == end || *p != '*') return false;
  p = ReadPlainNumber(p + 1, end, count);
  if (p == nullptr || count > (end - p) / static_cast<std::ptrdiff_t>(kItemBytesMin)) return false;
  const auto items = static_cast<size_t>(count);
  if (counted_ + items + 1 > base::kRespItemsMax) return false;
  const size_t first = Claim(items);
  for (size_t i = 0; i < items; ++i) {
    Value& value = items_[first + i];
    value = {.type = Value::Type::kInteger, .text = {}, .integer = 0, .items = {}};
    if (p != end && *p == ':') {
      p = ReadPlainNumber(p + 1, end, value.integer);
      if (p != nullptr) continue;
    }
    used_ = first;
    return false;
  }
  counted_ += items + 1;
  items_[slot] = {.type = Value::Type::kArray,
                  .text = {},
                  .integer = 0,
                  .items = {items_.data() + first, items}};
  at_ = static_cast<size_t>(p - bytes.data());
  return true;
}

// The value at at_ goes to items_[slot].
Reader::Status Reader::Build(std::string_view bytes, size_t slot, size_t depth) noexcept {
  if (depth < base::kRespDepthMax && BuildIntegers(bytes, slot)) return Status::kDone;
  Head head;
  do {
    head.at = at_;
    const Status status = ReadHead(bytes, depth == 0, head);
    if (status != Status::kDone) return status;
    at_ = head.next;
    if (!head.aggregate) break;
    if (depth == base::kRespDepthMax) return Bad(head.at, "too many levels");
    // So that memory is taken only for what has come.
    if (head.items > (bytes.size() - at_) / kItemBytesMin) return Status::kNeedMore;
    const size_t first = Claim(head.items);
    for (size_t i = 0; i < head.items; ++i) {
      const Status inner = Build(bytes, first + i, depth + 1);
      if (inner != Status::kDone) return inner;
    }
    head.value.items = {items_.data() + first, head.items};
  } while (head.attribute);
  items_[slot] = head.value;
  return Status::kDone;
}

// The index of `count` items in a row.
size_t Reader::Claim(size_t count) noexcept {
  const size_t first = used_;
  used_ += count;
  if (used_ <= items_.size()) return first;
  std::vector<Value> larger(std::max(used_, 2 * items_.size()));
  for (size_t i = 0; i < first; ++i) {
    larger[i] = items_[i];
    if (!items_[i].items.empty()) {
      larger[i].items = {larger.data() + (items_[i].items.data() - items_.data()),
                         items_[i].items.size()};
    }
  }
  items_.swap(larger);
  return first;
}

Reader::Status Reader::ReadHead(std::string_view bytes, bool top, Head& head) noexcept {
  if (head.at >= bytes.size()) return Status::kNeedMore;
  head.value = Value();
  head.aggregate = head.attribute = false;
  switch (bytes[head.at]) {
    case ':': {
      head.value.type = Value::Type::kInteger;
      return ReadNumber(bytes, head.at + 1, head.value.integer, head.next);
    }
    case '$':
    case '!':
    case '=':
      return ReadBulk(bytes, head);
    case '*':
    case '~':
    case '%':
    case '>':
    case '|': {
      head.value.type = bytes[head.at] == '%'   ? Value::Type::kMap
                        : bytes[head.at] == '>' ? Value::Type::kPush
                                                : Value::Type::kArray;
      head.attribute = bytes[head.at] == '|';
      const Status status = ReadNumber(bytes, head.at + 1, head.number, head.next);
      if (status != Status::kDone) return status;
      if (head.number == -1 && bytes[head.at] == '*') {
        head.value.type = Value::Type::kNull;
        return Status::kDone;
      }
      return ReadAggregate(top, head);
    }
    case '+':
    case '-':
    case '_':
    case '#':
    case ',':
    case '(': {
      const Status status = ReadLine(bytes, head.at + 1, head);
      return status == Status::kDone ? CheckLine(bytes[head.at], head) : status;
    }
    default:
      return Bad(head.at, "no type of RESP begins with this byte");
  }
}

Reader::Status Reader::CheckLine(char type, Head& head) noexcept {
  Value& value = head.value;
  switch (type) {
    case '+':
      value.type = Value::Type::kString;
      return Status::kDone;
    case '-':
      value.type = Value::Type::kError;
      return Status::kDone;
    case '_':
      value.type = Value::Type::kNull;
      return value.text.empty() ? Status::kDone : Bad(head.at, "a null with a text");
    case '#':
      value.type = Value::Type::kInteger;
      value.integer = value.text == "t" ? 1 : 0;
      if (value.text != "t" && value.text != "f") return Bad(head.at, "a boolean is t or f");
      value.text = {};
      return Status::kDone;
    case ',':
      value.type = Value::Type::kDouble;
      return IsDouble(value.text) ? Status::kDone : Bad(head.at, "not a double");
    default:
      value.type = Value::Type::kString;
      return IsBigNumber(value.text) ? Status::kDone : Bad(head.at, "not a big number");
  }
}

Reader::Status Reader::ReadBulk(std::string_view bytes, Head& head) noexcept {
  const char type = bytes[head.at];
  const Status status = ReadNumber(bytes, head.at + 1, head.number, head.next);
  if (status != Status::kDone) return status;
  if (head.number == -1 && type == '$') return Status::kDone;  // null
  if (head.number < 0) return Bad(head.at, "a negative length");
  const auto size = static_cast<size_t>(head.number);
  if (size > base::kRespBulkBytesMax) return Bad(head.at, "a longer string than allowed");
  if (type == '=' && size < 4) return Bad(head.at, "a verbatim string without its format");
  const size_t from = head.next;
  if (bytes.size() - from < size + 2) return Status::kNeedMore;
  if (bytes[from + size] != '\r' || bytes[from + size + 1] != '\n')
    return Bad(from + size, "a string that does not end where its length says");
  head.value.type = type == '!' ? Value::Type::kError : Value::Type::kString;
  head.value.text = bytes.substr(from, size);
  head.next = from + size + 2;
  if (type == '=') {
    if (head.value.text[3] != ':') return Bad(from, "a verbatim string without its format");
    head.value.text.remove_prefix(4);
  }
  return Status::kDone;
}

// head.number: how many items, or pairs of them.
Reader::Status Reader::ReadAggregate(bool top, Head& head) noexcept {
  if (head.number < 0) return Bad(head.at, "a negative number of items");
  if (head.value.type == Value::Type::kPush && !top) return Bad(head.at, "a push within a reply");
  if (static_cast<uint64_t>(head.number) > base::kRespItemsMax)
    return Bad(head.at, "more items than allowed");
  head.aggregate = true;
  head.items = static_cast<size_t>(head.number);
  if (head.attribute || head.value.type == Value::Type::kMap) head.items *= 2;
  // One more, so that empty attributes in a row have an end, too.
  counted_ += head.items + 1;
  if (counted_ > base::kRespItemsMax) return Bad(head.at, "more items than allowed");
  return Status::kDone;
}

// head.value.text: what is between `at` and the line's end.
Reader::Status Reader::ReadLine(std::string_view bytes, size_t at, Head& head) noexcept {
  const std::string_view rest = bytes.substr(at, base::kRespLineBytesMax + 1);
  const size_t end = rest.find('\r');
  if (end == std::string_view::npos) {
    return rest.size() > base::kRespLineBytesMax ? Bad(head.at, "a longer line than allowed")
                                                 : Status::kNeedMore;
  }
  if (at + end + 1 >= bytes.size()) return Status::kNeedMore;
  if (bytes[at + end + 1] != '\n') return Bad(at + end + 1, "a carriage return within a line");
  head.value.text = rest.substr(0, end);
  head.next = at + end + 2;
  return Status::kDone;
}

// The integer between `at` and the line's end.
Reader::Status Reader::ReadNumber(std::string_view bytes, size_t at, int64_t& value,
                                  size_t& next) noexcept {
  const char* p = bytes.data() + at;
  const char* const end = bytes.data() + bytes.size();
  if (const char* const after = ReadPlainNumber(p, end, value); after != nullptr) {
    next = static_cast<size_t>(after - bytes.data());
    return Status::kDone;
  }
  if (p == end) return Status::kNeedMore;
  if (*p == '?') return Bad(at, "a streamed reply, which is not supported");
  const bool negative = *p == '-';
  if (negative || *p == '+') ++p;
  const char* const digits = p;
  uint64_t number = 0;
  while (p != end && IsDigit(*p)) {
    if (__builtin_mul_overflow(number, uint64_t{10}, &number) ||
        __builtin_add_overflow(number, static_cast<uint64_t>(*p - '0'), &number) ||
        number > (uint64_t{1} << 63) - (negative ? 0 : 1) || p - digits > 20) {
      return Bad(at, "a number that 64 bits do not hold");
    }
    ++p;
  }
  if (p == end) return Status::kNeedMore;
  const auto here = static_cast<size_t>(p - bytes.data());
  if (*p != '\r' || p == digits) return Bad(here, "not a number");
  if (++p == end) return Status::kNeedMore;
  if (*p != '\n') return Bad(here + 1, "a carriage return within a line");
  value = static_cast<int64_t>(negative ? uint64_t{0} - number : number);
  next = here + 2;
  return Status::kDone;
}

}  // namespace flowguard::wire::resp
