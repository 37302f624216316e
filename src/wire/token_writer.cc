// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "base/check.h"
#include "wire/token_frames.h"

namespace flowguard::wire::token {
namespace {

// The fixed part of a frame, put together before it is appended at once.
class Head {
 public:
  // `behind`: bytes that follow the fixed part.
  template <typename... Ints>
  static void Append(std::string& out, size_t behind, Ints... ints) {
    constexpr size_t kBytes = (sizeof(Ints) + ...);
    std::array<char, kPrefixBytes + kBytes> bytes;
    char* at = Put(bytes.data(), static_cast<uint16_t>(kBytes + behind));
    ((at = Put(at, ints)), ...);
    out.append(bytes.data(), bytes.size());
  }

  template <typename Int>
  static char* Put(char* at, Int value) noexcept {
    for (size_t i = sizeof(Int); i-- > 0;)
      *at++ = static_cast<char>(static_cast<uint64_t>(value) >> (8 * i));
    return at;
  }
};

constexpr int8_t Byte(Type type) noexcept {
  return static_cast<int8_t>(type);
}

}  // namespace

void AppendPing(int32_t xid, std::string_view name_space, std::string& out) {
  FG_DCHECK(name_space.size() <= kMessageMax - 9);
  if (name_space.empty()) {
    Head::Append(out, 0, xid, Byte(Type::kPing));
    return;
  }
  Head::Append(out, name_space.size(), xid, Byte(Type::kPing),
               static_cast<int32_t>(name_space.size()));
  out += name_space;
}

void AppendFlow(int32_t xid, int64_t flow_id, int32_t count, bool priority, std::string& out) {
  Head::Append(out, 0, xid, Byte(Type::kFlow), flow_id, count, static_cast<int8_t>(priority));
}

void AppendParamFlow(int32_t xid, int64_t flow_id, int32_t count, const Values& values,
                     std::string& out) {
  FG_DCHECK(values.bytes().size() <= kValuesMax);
  Head::Append(out, values.bytes().size(), xid, Byte(Type::kParamFlow), flow_id, count,
               static_cast<int32_t>(values.count()));
  out += values.bytes();
}

void AppendConcurrentAcquire(int32_t xid, int64_t flow_id, int32_t count, std::string& out) {
  Head::Append(out, 0, xid, Byte(Type::kConcurrentAcquire), flow_id, count);
}

void AppendConcurrentRelease(int32_t xid, int64_t token_id, std::string& out) {
  Head::Append(out, 0, xid, Byte(Type::kConcurrentRelease), token_id);
}

void AppendStringValue(std::string_view text, std::string& out) {
  std::array<char, 5> head;
  char* const at = Head::Put(head.data(), static_cast<uint8_t>(ParamKind::kString));
  Head::Put(at, static_cast<int32_t>(text.size()));
  out.append(head.data(), head.size());
  out += text;
}

void AppendFlowAnswer(int32_t xid, int8_t type, Status status, int32_t remaining, int32_t wait_ms,
                      std::string& out) {
  Head::Append(out, 0, xid, type, static_cast<int8_t>(status), remaining, wait_ms);
}

void AppendPong(int32_t xid, int32_t connected, std::string& out) {
  Head::Append(out, 0, xid, Byte(Type::kPing), static_cast<int8_t>(Status::kOk), connected);
}

void AppendTokenAnswer(int32_t xid, Status status, int64_t token_id, std::string& out) {
  Head::Append(out, 0, xid, Byte(Type::kConcurrentAcquire), static_cast<int8_t>(status), token_id);
}

void AppendStatus(int32_t xid, int8_t type, Status status, std::string& out) {
  Head::Append(out, 0, xid, type, static_cast<int8_t>(status));
}

}  // namespace flowguard::wire::token
