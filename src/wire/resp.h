// SPDX-License-Identifier: Apache-2.0
//
// The Redis serialization protocol, versions 2 and 3: replies as values, commands as
// bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/bounds.h"

namespace flowguard::wire::resp {

// One reply, or a part of one.  Views the bytes that it was read from, and the items
// belong to the reader.
struct Value {
  enum class Type : uint8_t {
    kNull,
    kString,   // simple, bulk, verbatim (without its format) and big numbers
    kError,    // simple and bulk
    kInteger,  // and booleans, as 0 and 1
    kDouble,   // `text` as it was sent
    kArray,    // and sets
    kMap,      // keys and values in turn
    kPush,     // out of band
  };
  Type type = Type::kNull;
  std::string_view text;
  int64_t integer = 0;
  std::span<const Value> items;
};

// Reads replies from a buffer that the caller owns.  Attributes are read over; streamed
// replies, which no server sends, are faults.
//
// Threads: one owner.  Cost: linear in the bytes, however they come; allocates only for
// a reply with more items than any before.
class Reader {
 public:
  enum class Status : uint8_t { kDone, kNeedMore, kBad };

  Reader();

  // Reads the reply that `bytes` begin with.  kNeedMore: call again with the same bytes
  // (they may have moved) and more.  kBad: the peer does not speak RESP, or oversteps a
  // bound; Reset before anything else.
  [[nodiscard]] Status Read(std::string_view bytes) noexcept;

  // After kDone; good until the next call, and while the bytes stand.
  [[nodiscard]] const Value& value() const noexcept { return items_.front(); }
  // The bytes of that reply.
  [[nodiscard]] size_t consumed() const noexcept { return at_; }

  // After kBad: what is wrong, for people, and at which byte.
  [[nodiscard]] std::string_view problem() const noexcept { return problem_; }
  [[nodiscard]] size_t problem_at() const noexcept { return problem_at_; }

  // Forgets a reply that was begun.
  void Reset() noexcept;

 private:
  struct Head;  // what stands at one place: a scalar, or the number of items

  Status ReadHead(std::string_view bytes, bool top, Head& head) noexcept;
  Status ReadBulk(std::string_view bytes, Head& head) noexcept;
  Status ReadAggregate(bool top, Head& head) noexcept;
  Status ReadLine(std::string_view bytes, size_t at, Head& head) noexcept;
  Status ReadNumber(std::string_view bytes, size_t at, int64_t& value, size_t& next) noexcept;
  Status CheckLine(char type, Head& head) noexcept;
  Status Build(std::string_view bytes, size_t slot, size_t depth) noexcept;
  bool BuildIntegers(std::string_view bytes, size_t slot) noexcept;
  Status Scan(std::string_view bytes) noexcept;
  size_t Claim(size_t count) noexcept;
  Status Bad(size_t at, std::string_view problem) noexcept;

  std::vector<Value> items_;  // [0] is the reply; spans point in here
  size_t used_ = 1;           // of items_
  size_t at_ = 0;             // first byte that is not read yet
  size_t counted_ = 0;        // items of this reply, attributes' too
  // A reply that came in parts: how far Scan is, and the items still to come on each
  // level.  The lowest bit of a level tells that they belong to an attribute.
  size_t scanned_ = 0;
  size_t depth_ = 0;
  std::array<uint32_t, base::kRespDepthMax + 1> left_{};
  std::string_view problem_;
  size_t problem_at_ = 0;
};

// Words of a command as they are sent.  Views bytes of somebody else.
struct EncodedWords {
  size_t count = 0;
  std::string_view bytes;
};

// The bytes that a word of `size` takes, at most.
[[nodiscard]] constexpr size_t WordBytes(size_t size) noexcept {
  return size + 26;
}
inline constexpr size_t kNumberBytesMax = 20;  // digits, with a sign

// Encodes words into room of its user's, which views them as long as it stands.
//
// Threads: one owner.  Cost: a copy of the words.
class WordWriter {
 public:
  // Requires: `room` holds WordBytes of each word that is added.
  explicit WordWriter(std::span<char> room) noexcept
      : begin_(room.data()), end_(begin_), room_end_(begin_ + room.size()) {}

  void Add(std::string_view word) noexcept;
  void Add(int64_t number) noexcept;
  void Add(const EncodedWords& words) noexcept;
  [[nodiscard]] EncodedWords words() const noexcept {
    return {count_, {begin_, static_cast<size_t>(end_ - begin_)}};
  }

 private:
  char* begin_;
  char* end_;
  const char* room_end_;
  size_t count_ = 0;
};

// Commands in the order of sending, as a stretch of one endless stream: what is sent is
// kept until Drop, so that it can be sent again in another form.
//
// Threads: one owner.  Cost: a copy of the words; allocates only to grow.
class CommandBuffer {
 public:
  // Positions in the stream.
  [[nodiscard]] uint64_t begin() const noexcept { return base_ + first_; }
  [[nodiscard]] uint64_t end() const noexcept { return base_ + last_; }
  [[nodiscard]] size_t size() const noexcept { return last_ - first_; }
  // Requires: begin() <= from <= to <= end().  Good until the next call that writes.
  [[nodiscard]] std::string_view View(uint64_t from, uint64_t to) const noexcept {
    return {data_.get() + (from - base_), static_cast<size_t>(to - from)};
  }

  // A command of `words` words begins: as many calls of Word follow.
  void Begin(size_t words) noexcept { Length('*', words); }
  void Word(std::string_view word) noexcept;
  void Word(uint64_t number) noexcept;
  // Words that are encoded already.  Requires: `bytes` are not from this buffer.
  void Raw(std::string_view bytes) noexcept {
    if (bytes.empty()) return;
    std::memcpy(Room(bytes.size()), bytes.data(), bytes.size());
    last_ += bytes.size();
  }
  // Appends what stands at [from, to) once more.
  void Repeat(uint64_t from, uint64_t to) noexcept;

  // Forgets what is before `to`.
  void Drop(uint64_t to) noexcept;
  // Takes back what is after `to`.
  void Truncate(uint64_t to) noexcept { last_ = static_cast<size_t>(to - base_); }
  // Moves the `bytes` at `from` down to `to`, over what stands there.
  // Requires: begin() <= to <= from.
  void Slide(uint64_t to, uint64_t from, size_t bytes) noexcept;

 private:
  void Length(char mark, uint64_t number) noexcept;
  char* Room(size_t bytes) noexcept {
    if (capacity_ - last_ < bytes) Grow(bytes);
    return data_.get() + last_;
  }
  void Grow(size_t bytes) noexcept;

  std::unique_ptr<char[]> data_;
  size_t capacity_ = 0;
  size_t first_ = 0;
  size_t last_ = 0;
  uint64_t base_ = 0;  // position of data_[0]
};

}  // namespace flowguard::wire::resp
