// SPDX-License-Identifier: Apache-2.0
//
// The frames of Sentinel's token protocol: questions to a token server and its answers.
//
//   frame     length:u16 message        length counts what follows it
//   question  xid:i32 type:i8 body
//   answer    xid:i32 type:i8 status:i8 body
//
//   type                  body of the question                    of the answer
//   0 ping                size:i32 namespace; or nothing          connected:i32
//   1 flow                flow_id:i64 count:i32 priority:u8       remaining:i32 wait_ms:i32
//   2 param flow          flow_id:i64 count:i32 n:i32 n values    remaining:i32 wait_ms:i32
//   3 concurrent acquire  flow_id:i64 count:i32                   token_id:i64
//   4 concurrent release  token_id:i64                            nothing
//   value                 kind:u8 payload, see ParamKind
//
// Numbers are big-endian, in two's complement.  Types 3 and 4 are constants without a
// body in Sentinel; these bodies are ours.
//
// What is not well formed within a frame is told by Question::fault, and the next frame
// begins where the length says: nothing that a peer sends shifts what follows it.
//
// Threads: plain values and functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/bounds.h"

namespace flowguard::wire::token {

enum class Type : int8_t {
  kPing = 0,
  kFlow = 1,
  kParamFlow = 2,
  kConcurrentAcquire = 3,
  kConcurrentRelease = 4,
};

// As Sentinel's TokenResultStatus.
enum class Status : int8_t {
  kBadRequest = -4,
  kTooManyRequests = -2,
  kFail = -1,
  kOk = 0,
  kBlocked = 1,
  kShouldWait = 2,
  kNoRuleExists = 3,
  kNoRefRuleExists = 4,
  kNotAvailable = 5,
  kReleaseOk = 6,
  kAlreadyRelease = 7,
};

// What a value of a hot parameter is; its payload has the size of the type, or for texts
// size:i32 and bytes.
enum class ParamKind : uint8_t {
  kInt = 0,
  kLong = 1,
  kByte = 2,
  kDouble = 3,
  kFloat = 4,
  kShort = 5,
  kBool = 6,
  kString = 7,
};

inline constexpr size_t kPrefixBytes = 2;
// Of a message, as Sentinel's own peers hold it.  One is read that has as many values as
// kValuesMax; longer ones are passed over.
inline constexpr size_t kMessageMax = 1022;
// What a param flow's values may take in Sentinel's client.  With the head of the question
// they make a message that its own server refuses; this one reads it.
inline constexpr size_t kValuesMax = 1024;

// Which bytes come next.
struct Frame {
  enum class Kind : uint8_t {
    kNeedMore,  // not all of it is there
    kMessage,
    kTooLong,  // `message` has the first bytes alone; pass over `size` bytes, as they come
  };
  Kind kind = Kind::kNeedMore;
  size_t size = 0;  // with the prefix
  std::string_view message;
};

// The frame that `bytes` begin with.
[[nodiscard]] Frame ReadFrame(std::string_view bytes) noexcept;

// The values of a param flow, as they stand; compared as bytes a value equals another iff
// they are equal with their class, as Sentinel compares them.
class Values {
 public:
  Values() noexcept = default;
  // Requires: `bytes` are `count` whole values.
  Values(std::string_view bytes, size_t count) noexcept : bytes_(bytes), count_(count) {}
  [[nodiscard]] size_t count() const noexcept { return count_; }
  [[nodiscard]] std::string_view bytes() const noexcept { return bytes_; }
  // Takes the next value, kind and payload.  Requires: count() > 0.
  [[nodiscard]] std::string_view Next() noexcept;

 private:
  std::string_view bytes_;
  size_t count_ = 0;
};

// Views the message that it was read from.
struct Question {
  enum class Fault : uint8_t {
    kNone,
    kNoHead,       // shorter than xid and type: there is nobody to answer
    kUnknownType,  // `type` is none of Type
    kBadBody,      // too short, too long, or a value that is not known
  };
  Fault fault = Fault::kNone;
  int32_t xid = 0;
  int8_t type = 0;
  std::string_view name_space;  // ping; empty: blank
  int64_t flow_id = 0;          // flow, param flow, concurrent acquire
  int32_t count = 0;
  bool priority = false;  // flow
  Values values;          // param flow
  int64_t token_id = 0;   // concurrent release
};

// Bytes behind a body are passed over, as by Sentinel's server.
[[nodiscard]] Question ReadQuestion(std::string_view message) noexcept;

struct Answer {
  bool good = false;  // false: no answer of this protocol
  int32_t xid = 0;
  int8_t type = 0;
  Status status = Status::kFail;
  int32_t remaining = 0;  // flow and param flow; of a ping: connected, -1 if it has none
  int32_t wait_ms = 0;
  int64_t token_id = 0;  // concurrent acquire
};

[[nodiscard]] Answer ReadAnswer(std::string_view message) noexcept;

// --- writing: each appends a whole frame to `out`

// A ping of a blank namespace has no body.
// Requires: name_space.size() <= kMessageMax - 9.
void AppendPing(int32_t xid, std::string_view name_space, std::string& out);
void AppendFlow(int32_t xid, int64_t flow_id, int32_t count, bool priority, std::string& out);
// Requires: values.bytes().size() <= kValuesMax.
void AppendParamFlow(int32_t xid, int64_t flow_id, int32_t count, const Values& values,
                     std::string& out);
void AppendConcurrentAcquire(int32_t xid, int64_t flow_id, int32_t count, std::string& out);
void AppendConcurrentRelease(int32_t xid, int64_t token_id, std::string& out);

// A value of kind kString, for Values.
void AppendStringValue(std::string_view text, std::string& out);

// The answer to a flow or a param flow: eight bytes of body, whatever the status, for
// clients pass over answers of any other size.
void AppendFlowAnswer(int32_t xid, int8_t type, Status status, int32_t remaining, int32_t wait_ms,
                      std::string& out);
void AppendPong(int32_t xid, int32_t connected, std::string& out);
void AppendTokenAnswer(int32_t xid, Status status, int64_t token_id, std::string& out);
// Status alone: the answer to a release, a blank ping, and to what is not understood.
void AppendStatus(int32_t xid, int8_t type, Status status, std::string& out);

}  // namespace flowguard::wire::token
