// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/check.h"
#include "wire/resp.h"

namespace flowguard::wire::resp {
namespace {

constexpr size_t kCapacityMin = 16 * 1024;
char* WriteNumber(char* out, uint64_t number) noexcept {
  if (number < 10) {
    *out = static_cast<char>('0' + number);
    return out + 1;
  }
  if (number < 100) {
    out[0] = static_cast<char>('0' + number / 10);
    out[1] = static_cast<char>('0' + number % 10);
    return out + 2;
  }
  return std::to_chars(out, out + kNumberBytesMax, number).ptr;
}

char* WriteWord(char* out, std::string_view word) noexcept {
  *out++ = '$';
  out = WriteNumber(out, word.size());
  *out++ = '\r';
  *out++ = '\n';
  if (!word.empty()) std::memcpy(out, word.data(), word.size());
  out += word.size();
  *out++ = '\r';
  *out++ = '\n';
  return out;
}

}  // namespace

void WordWriter::Add(std::string_view word) noexcept {
  FG_DCHECK(WordBytes(word.size()) <= static_cast<size_t>(room_end_ - end_));
  end_ = WriteWord(end_, word);
  ++count_;
}

void WordWriter::Add(int64_t number) noexcept {
  char digits[kNumberBytesMax];
  const char* const end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  Add(std::string_view(digits, static_cast<size_t>(end - digits)));
}

void WordWriter::Add(const EncodedWords& words) noexcept {
  FG_DCHECK(words.bytes.size() <= static_cast<size_t>(room_end_ - end_));
  if (words.count == 0) return;
  std::memcpy(end_, words.bytes.data(), words.bytes.size());
  end_ += words.bytes.size();
  count_ += words.count;
}

void CommandBuffer::Length(char mark, uint64_t number) noexcept {
  char* const start = Room(kNumberBytesMax + 3);
  char* out = start;
  *out++ = mark;
  out = WriteNumber(out, number);
  *out++ = '\r';
  *out++ = '\n';
  last_ += static_cast<size_t>(out - start);
}

void CommandBuffer::Word(std::string_view word) noexcept {
  char* const start = Room(WordBytes(word.size()));
  last_ += static_cast<size_t>(WriteWord(start, word) - start);
}

void CommandBuffer::Word(uint64_t number) noexcept {
  char digits[kNumberBytesMax];
  const char* const end = WriteNumber(digits, number);
  Word({digits, static_cast<size_t>(end - digits)});
}

void CommandBuffer::Repeat(uint64_t from, uint64_t to) noexcept {
  FG_DCHECK(begin() <= from && from <= to && to <= end());
  Room(static_cast<size_t>(to - from));  // moves the bytes, if at all, before they are viewed
  Raw(View(from, to));
}

void CommandBuffer::Drop(uint64_t to) noexcept {
  FG_DCHECK(begin() <= to && to <= end());
  first_ = static_cast<size_t>(to - base_);
  if (first_ != last_) return;
  base_ = to;
  first_ = last_ = 0;
}

void CommandBuffer::Slide(uint64_t to, uint64_t from, size_t bytes) noexcept {
  FG_DCHECK(begin() <= to && to <= from && from + bytes <= end());
  if (to != from) std::memmove(data_.get() + (to - base_), data_.get() + (from - base_), bytes);
}

void CommandBuffer::Grow(size_t bytes) noexcept {
  const size_t held = size();
  base_ += first_;
  if (held + bytes <= capacity_ / 2) {
    std::memmove(data_.get(), data_.get() + first_, held);
  } else {
    capacity_ = std::max({kCapacityMin, 2 * capacity_, 2 * (held + bytes)});
    std::unique_ptr<char[]> larger(new char[capacity_]);
    if (held != 0) std::memcpy(larger.get(), data_.get() + first_, held);
    data_ = std::move(larger);
  }
  first_ = 0;
  last_ = held;
}

}  // namespace flowguard::wire::resp
