// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as a stream of frames: views stay within, a frame is the same whatever comes
// after it, and what is understood is what would be written.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/check.h"
#include "wire/token_frames.h"

namespace flowguard::wire::token {
namespace {

void CheckWithin(std::string_view part, std::string_view whole) {
  if (part.empty()) return;
  FG_CHECK(part.data() >= whole.data());
  FG_CHECK(part.data() + part.size() <= whole.data() + whole.size());
}

void CheckQuestion(std::string_view message) {
  const Question question = ReadQuestion(message);
  CheckWithin(question.name_space, message);
  CheckWithin(question.values.bytes(), message);
  size_t bytes = 0;
  for (Values values = question.values; values.count() > 0;)
    bytes += values.Next().size();
  FG_CHECK(bytes == question.values.bytes().size());
  if (question.fault != Question::Fault::kNone) return;
  std::string out;
  switch (static_cast<Type>(question.type)) {
    case Type::kPing:
      if (question.name_space.size() > kMessageMax - 9) return;
      AppendPing(question.xid, question.name_space, out);
      break;
    case Type::kFlow:
      AppendFlow(question.xid, question.flow_id, question.count, question.priority, out);
      break;
    case Type::kParamFlow:
      AppendParamFlow(question.xid, question.flow_id, question.count, question.values, out);
      break;
    case Type::kConcurrentAcquire:
      AppendConcurrentAcquire(question.xid, question.flow_id, question.count, out);
      break;
    case Type::kConcurrentRelease:
      AppendConcurrentRelease(question.xid, question.token_id, out);
      break;
  }
  const Frame frame = ReadFrame(out);
  FG_CHECK(frame.kind == Frame::Kind::kMessage && frame.size == out.size());
  const Question again = ReadQuestion(frame.message);
  FG_CHECK(again.fault == Question::Fault::kNone && again.xid == question.xid);
  FG_CHECK(again.type == question.type && again.name_space == question.name_space);
  FG_CHECK(again.flow_id == question.flow_id && again.count == question.count);
  FG_CHECK(again.priority == question.priority && again.token_id == question.token_id);
  FG_CHECK(again.values.bytes() == question.values.bytes());
}

void CheckInput(const uint8_t* data, size_t size) {
  // A copy of the exact size, so that the sanitizer sees a read past the end.
  const auto copy = std::make_unique<char[]>(size);
  std::copy_n(data, size, copy.get());
  std::string_view rest(copy.get(), size);
  while (!rest.empty()) {
    const Frame frame = ReadFrame(rest);
    if (frame.kind == Frame::Kind::kNeedMore) return;
    CheckWithin(frame.message, rest);
    CheckQuestion(frame.message);
    static_cast<void>(ReadAnswer(frame.message));
    if (frame.kind == Frame::Kind::kMessage) {
      FG_CHECK(ReadFrame(rest.substr(0, frame.size)).message == frame.message);
      FG_CHECK(ReadFrame(rest.substr(0, frame.size - 1)).kind == Frame::Kind::kNeedMore);
    }
    rest.remove_prefix(std::min(rest.size(), frame.size));
  }
}

}  // namespace
}  // namespace flowguard::wire::token

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  flowguard::wire::token::CheckInput(data, size);
  return 0;
}
