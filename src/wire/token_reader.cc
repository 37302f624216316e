// SPDX-License-Identifier: Apache-2.0
#include "base/check.h"
#include "wire/token_frames.h"

namespace flowguard::wire::token {
namespace {

// Takes numbers off the front of a message.
class Cursor {
 public:
  explicit Cursor(std::string_view bytes) noexcept : rest_(bytes) {}

  [[nodiscard]] bool Has(size_t bytes) const noexcept { return rest_.size() >= bytes; }
  [[nodiscard]] std::string_view rest() const noexcept { return rest_; }

  // Requires: Has(sizeof(Int)).
  template <typename Int>
  Int Take() noexcept {
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(Int); ++i)
      value = value << 8 | static_cast<unsigned char>(rest_[i]);
    rest_.remove_prefix(sizeof(Int));
    return static_cast<Int>(value);
  }

 private:
  std::string_view rest_;
};

constexpr size_t kHeadBytes = 5;        // xid, type
constexpr size_t kAnswerHeadBytes = 6;  // xid, type, status
constexpr size_t kFlowBytes = 12;       // flow_id, count

// The bytes of the value that `bytes` begin with; 0: it is none, or not all of it.
size_t ValueSize(std::string_view bytes) noexcept {
  if (bytes.empty()) return 0;
  size_t size = 1;
  switch (static_cast<ParamKind>(bytes.front())) {
    case ParamKind::kByte:
    case ParamKind::kBool:
      size += 1;
      break;
    case ParamKind::kShort:
      size += 2;
      break;
    case ParamKind::kInt:
    case ParamKind::kFloat:
      size += 4;
      break;
    case ParamKind::kLong:
    case ParamKind::kDouble:
      size += 8;
      break;
    case ParamKind::kString: {
      Cursor cursor(bytes.substr(1));
      if (!cursor.Has(4)) return 0;
      const auto length = cursor.Take<int32_t>();
      if (length < 0) return 0;
      size += 4 + static_cast<size_t>(length);
      break;
    }
    default:
      return 0;
  }
  return size <= bytes.size() ? size : 0;
}

bool ReadPing(Cursor cursor, Question& question) noexcept {
  if (!cursor.Has(1)) return true;  // of a blank namespace
  if (!cursor.Has(4)) return false;
  const auto size = cursor.Take<int32_t>();
  if (size < 0 || !cursor.Has(static_cast<size_t>(size))) return false;
  question.name_space = cursor.rest().substr(0, static_cast<size_t>(size));
  return true;
}

bool ReadFlowHead(Cursor& cursor, Question& question) noexcept {
  if (!cursor.Has(kFlowBytes)) return false;
  question.flow_id = cursor.Take<int64_t>();
  question.count = cursor.Take<int32_t>();
  return true;
}

bool ReadValues(Cursor cursor, Question& question) noexcept {
  if (!cursor.Has(4)) return false;
  const auto count = cursor.Take<int32_t>();
  // A value has two bytes at least.
  if (count < 0 || static_cast<size_t>(count) > cursor.rest().size() / 2) return false;
  size_t bytes = 0;
  for (int32_t i = 0; i < count; ++i) {
    const size_t size = ValueSize(cursor.rest().substr(bytes));
    if (size == 0) return false;
    bytes += size;
  }
  question.values = Values(cursor.rest().substr(0, bytes), static_cast<size_t>(count));
  return true;
}

bool ReadBody(Cursor cursor, Question& question) noexcept {
  switch (static_cast<Type>(question.type)) {
    case Type::kPing:
      return ReadPing(cursor, question);
    case Type::kFlow:
      if (!ReadFlowHead(cursor, question)) return false;
      // Older clients send no priority.
      question.priority = cursor.Has(1) && cursor.Take<uint8_t>() != 0;
      return true;
    case Type::kParamFlow:
      return ReadFlowHead(cursor, question) && ReadValues(cursor, question);
    case Type::kConcurrentAcquire:
      return ReadFlowHead(cursor, question);
    case Type::kConcurrentRelease:
      if (!cursor.Has(sizeof(int64_t))) return false;
      question.token_id = cursor.Take<int64_t>();
      return true;
  }
  return false;
}

bool IsKnown(int8_t type) noexcept {
  return type >= static_cast<int8_t>(Type::kPing) &&
         type <= static_cast<int8_t>(Type::kConcurrentRelease);
}

}  // namespace

Frame ReadFrame(std::string_view bytes) noexcept {
  Cursor cursor(bytes);
  if (!cursor.Has(kPrefixBytes)) return {};
  const size_t length = cursor.Take<uint16_t>();
  const bool too_long = length > kHeadBytes + kFlowBytes + 4 + kValuesMax;
  const size_t needed = too_long ? kHeadBytes : length;
  if (!cursor.Has(needed)) return {};
  return {.kind = too_long ? Frame::Kind::kTooLong : Frame::Kind::kMessage,
          .size = kPrefixBytes + length,
          .message = cursor.rest().substr(0, needed)};
}

std::string_view Values::Next() noexcept {
  FG_DCHECK(count_ > 0);
  const std::string_view value = bytes_.substr(0, ValueSize(bytes_));
  bytes_.remove_prefix(value.size());
  --count_;
  return value;
}

Question ReadQuestion(std::string_view message) noexcept {
  Question question;
  Cursor cursor(message);
  if (!cursor.Has(kHeadBytes)) {
    question.fault = Question::Fault::kNoHead;
    return question;
  }
  question.xid = cursor.Take<int32_t>();
  question.type = cursor.Take<int8_t>();
  if (!IsKnown(question.type)) {
    question.fault = Question::Fault::kUnknownType;
  } else if (!ReadBody(cursor, question)) {
    question.fault = Question::Fault::kBadBody;
  }
  return question;
}

Answer ReadAnswer(std::string_view message) noexcept {
  Answer answer;
  Cursor cursor(message);
  if (!cursor.Has(kAnswerHeadBytes)) return answer;
  answer.xid = cursor.Take<int32_t>();
  answer.type = cursor.Take<int8_t>();
  answer.status = static_cast<Status>(cursor.Take<int8_t>());
  switch (static_cast<Type>(answer.type)) {
    case Type::kPing:
      answer.remaining = cursor.Has(4)   ? cursor.Take<int32_t>()
                         : cursor.Has(1) ? cursor.Take<uint8_t>()
                                         : -1;
      answer.good = true;
      break;
    case Type::kFlow:
    case Type::kParamFlow:
      if (cursor.rest().size() != 8) break;
      answer.remaining = cursor.Take<int32_t>();
      answer.wait_ms = cursor.Take<int32_t>();
      answer.good = true;
      break;
    case Type::kConcurrentAcquire:
      if (cursor.Has(8)) answer.token_id = cursor.Take<int64_t>();
      answer.good = true;
      break;
    case Type::kConcurrentRelease:
      answer.good = true;
      break;
  }
  return answer;
}

}  // namespace flowguard::wire::token
