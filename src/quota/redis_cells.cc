// SPDX-License-Identifier: Apache-2.0
#include "quota/redis_cells.h"

#include <algorithm>
#include <bitset>
#include <charconv>
#include <cstring>

#include "base/check.h"
#include "base/hash.h"
#include "limit/numbers.h"
#include "quota/cell_shape.h"
#include "quota/scripts/scripts.h"

namespace flowguard::quota {
namespace {

constexpr std::string_view kLeaseSuffix = ":lease";
constexpr size_t kWordsPerCall = 9;
constexpr size_t kWordsPerTake = 4;                                  // of these, for buckets_take
constexpr size_t kWordsOfLease = 3;                                  // more
constexpr size_t kNumberBytesMax = wire::resp::kNumberBytesMax + 4;  // with a fraction
constexpr size_t kToldPerCall = 5;  // numbers in a reply, for each cell
constexpr size_t kToldPerTake = 2;  // of these, by the tuned scripts
constexpr size_t kNumberWordBytes = wire::resp::WordBytes(kNumberBytesMax);
constexpr int64_t kNotRead = -2;  // granted, of a key that holds something else
// Tickets of the commander: the pending Call, and which of its calls.
constexpr uint64_t kCallBits = 8;
static_assert(base::kCellCallsPerTurnMax <= uint64_t{1} << kCallBits);

using wire::resp::WordBytes;
using wire::resp::WordWriter;

// ns as us, with the fraction that is left.
void AddMicros(WordWriter& words, int64_t ns) noexcept {
  char text[kNumberBytesMax];
  auto end = std::to_chars(text, text + sizeof text, ns / 1000);
  if (const int64_t rest = ns % 1000; rest != 0) {
    const char fraction[] = {'.', static_cast<char>('0' + rest / 100),
                             static_cast<char>('0' + rest / 10 % 10),
                             static_cast<char>('0' + rest % 10)};
    std::memcpy(end.ptr, fraction, sizeof fraction);
    end.ptr += sizeof fraction;
  }
  words.Add(std::string_view(text, static_cast<size_t>(end.ptr - text)));
}

std::string_view LetterOf(CellOp op) noexcept {
  switch (op) {
    case CellOp::kTake:
      return "t";
    case CellOp::kPeek:
      return "p";
    case CellOp::kGiveBack:
    case CellOp::kRelease:
      return "g";
    case CellOp::kCharge:
      return "c";
    case CellOp::kLease:
      return "l";
    case CellOp::kReturn:
      return "r";
    case CellOp::kRenew:
      return "n";
  }
  return "p";
}

bool Leases(const CellCall& call) noexcept {
  return call.op == CellOp::kLease || call.op == CellOp::kReturn;
}

// Whether the shape does what is asked of it.
bool IsPossible(const CellCall& call, const ScriptShape& shape) noexcept {
  if (call.cost < 0 || call.cost > base::kCostMax || call.mark < 0) return false;
  if (call.count < 1 || call.count > base::kCellRequestsPerCallMax) return false;
  if (call.key.empty() || call.key.size() > base::kCellKeyBytesMax) return false;
  if (call.owner.size() > base::kCellOwnerBytesMax) return false;
  if (Leases(call)) return shape.lease != nullptr;
  if (call.op == CellOp::kRenew || call.op == CellOp::kRelease) return call.shape->concurrency;
  return !(call.op == CellOp::kCharge && call.shape->concurrency);
}

// What the tuned scripts do.
bool IsTuned(const ScriptShape& shape) noexcept {
  return shape.bucket && shape.scale == 1;
}
bool IsTuned(const CellCall& call, const ScriptShape& shape) noexcept {
  return IsTuned(shape) && call.op == CellOp::kTake && call.cost >= 1 && call.cost <= shape.largest;
}

// What buckets_take.lua takes of each.
void AddTake(const CellCall& call, PreparedShape& shape, WordWriter& words) noexcept {
  if (call.count == 1) return words.Add(shape.JoinedTakeWords(call.cost));
  const ScriptShape& script = shape.script();
  words.Add(call.cost * script.numbers[0]);
  words.Add(int64_t{call.count});
  words.Add(script.numbers[1]);
  words.Add(script.numbers[2]);
}

// What single.lua takes.
void AddCall(const CellCall& call, const ScriptShape& shape, WordWriter& words) noexcept {
  const bool asks = call.op == CellOp::kTake || call.op == CellOp::kPeek;
  const bool never = asks && (call.cost > shape.largest || shape.largest == 0) && call.cost > 0;
  words.Add(LetterOf(call.op));
  words.Add(asks ? call.cost : std::min(call.cost, shape.most_units));
  words.Add(never ? int64_t{0} : int64_t{call.count});
  if (call.shape->concurrency) {
    words.Add(call.owner);
  } else if (shape.bucket && call.op == CellOp::kGiveBack) {
    AddMicros(words, call.mark);
  } else {
    words.Add(call.mark);
  }
  for (const int64_t number : shape.numbers)
    words.Add(number);
}

using Items = std::span<const wire::resp::Value>;

// The numbers that a script told.  Empty: it told something else.
Items NumbersOf(const wire::resp::Value& value) noexcept {
  using Type = wire::resp::Value::Type;
  if (value.type != Type::kArray) return {};
  for (const wire::resp::Value& item : value.items) {
    if (item.type != Type::kInteger) return {};
  }
  return value.items;
}

// Reads what a script told of cell `index` of `size`.  False: not as agreed.
bool ReadState(Items told, size_t index, size_t size, CellState& state) noexcept {
  if (told.size() == size * kToldPerTake + 1) {  // token_bucket_take, buckets_take
    state.granted = told[index * kToldPerTake].integer;
    state.told[0] = told[index * kToldPerTake + 1].integer;
    state.now_us = told.back().integer;
    return true;
  }
  if (told.size() != size * kToldPerCall + 1) return false;
  const Items of_cell = told.subspan(index * kToldPerCall, kToldPerCall);
  state.granted = of_cell[0].integer;
  state.mark = of_cell[1].integer;
  for (size_t i = 0; i < 3; ++i)
    state.told[i] = of_cell[2 + i].integer;
  state.now_us = told.back().integer;
  return true;
}

// Memory that is full, a command that is denied, a key of another type: the others are served.
CellReply::Server ServerIn(redis::Failure failure) noexcept {
  switch (failure) {
    case redis::Failure::kNotSent:
    case redis::Failure::kTimeout:
    case redis::Failure::kLost:
    case redis::Failure::kReadOnly:
    case redis::Failure::kLoading:
      return CellReply::Server::kAway;
    case redis::Failure::kNone:
    case redis::Failure::kOutOfMemory:
    case redis::Failure::kDenied:
    case redis::Failure::kScriptError:
      return CellReply::Server::kReplied;
  }
  return CellReply::Server::kAway;
}

CellReply ReplyWithout(CellReply::Status status, CellReply::Server server) noexcept {
  CellReply reply;
  reply.status = status;
  reply.server = server;
  return reply;
}

CellReply NotAsked() noexcept {
  return ReplyWithout(CellReply::Status::kFailed, CellReply::Server::kNotAsked);
}

// What became of a call, of whose cell the script told what stands at `index` of `size`.
CellReply AnswerOf(const PreparedShape& shape, const CellQuestion& question,
                   const redis::CommandReply& reply, Items told, size_t index,
                   size_t size) noexcept {
  using Status = CellReply::Status;
  if (reply.failure != redis::Failure::kNone) {
    const bool unknown = redis::Indeterminate(reply.failure);
    return ReplyWithout(unknown ? Status::kUnknown : Status::kFailed, ServerIn(reply.failure));
  }
  CellState state;
  if (!ReadState(told, index, size, state))
    return ReplyWithout(Status::kUnknown, CellReply::Server::kReplied);
  if (state.granted == kNotRead) return ReplyWithout(Status::kFailed, CellReply::Server::kReplied);
  return ReplyOf(shape.shape(), shape.script(), question, state);
}

// Keys are compared where a byte of their hashes is the same.
bool AnyTwice(std::span<const CellCall> calls) noexcept {
  std::bitset<256> seen;
  for (size_t i = 0; i < calls.size(); ++i) {
    const size_t byte = base::Hash64(calls[i].key, 0) % seen.size();
    for (size_t j = 0; seen[byte] && j < i; ++j) {
      if (calls[i].key == calls[j].key) return true;
    }
    seen[byte] = true;
  }
  return false;
}

}  // namespace

RedisCells::Pending& RedisCells::Take(uint32_t& index) noexcept {
  if (free_.empty()) {
    index = static_cast<uint32_t>(pending_.size());
    pending_.emplace_back();
    free_.reserve(pending_.size());
  } else {
    index = free_.back();
    free_.pop_back();
  }
  return pending_[index];
}

void RedisCells::Call(std::span<const CellCall> calls, bool together, Instant deadline,
                      uint64_t ticket, CellSink* sink) noexcept {
  const bool possible =
      calls.size() <= base::kCellCallsPerTurnMax && pending() < base::kCellCallsPendingMax;
  uint32_t index = 0;
  Pending& pending = Take(index);
  pending.ticket = ticket;
  pending.sink = sink;
  const uint64_t base_ticket = uint64_t{index} << kCallBits;
  if (!possible || calls.empty()) return Refuse(calls.size(), pending, base_ticket);
  if (calls.size() > 1) return CallSeveral(calls, together, pending, deadline, base_ticket);
  const CellCall& call = calls.front();
  if (together && (call.op != CellOp::kTake || call.count != 1))
    return Refuse(1, pending, base_ticket);
  CallOne(call, pending, deadline, base_ticket);
}

void RedisCells::CallOne(const CellCall& call, Pending& pending, Instant deadline,
                         uint64_t ticket) noexcept {
  PreparedShape& shape = shapes_.Get(*call.shape);
  if (!IsPossible(call, shape.script())) {
    shapes_.Release(shape);
    return Refuse(1, pending, ticket);
  }
  pending.single = true;
  pending.one = {.shape = &shape,
                 .question = {.cost = call.cost, .count = call.count, .op = call.op}};
  SendOne(call, shape, deadline, ticket);
}

void RedisCells::CallSeveral(std::span<const CellCall> calls, bool together, Pending& pending,
                             Instant deadline, uint64_t ticket) noexcept {
  if (pending.several == nullptr) pending.several = std::make_unique<Several>();
  std::vector<Asked>& asked = pending.several->asked;
  pending.several->replies.assign(calls.size(), NotAsked());
  asked.clear();
  pending.single = false;
  pending.left = 0;
  bool possible = !(together && AnyTwice(calls));
  bool in_one = true;
  bool tuned = !together;
  for (const CellCall& call : calls) {
    PreparedShape& shape = shapes_.Get(*call.shape);
    const bool sent = IsPossible(call, shape.script());
    asked.push_back({.shape = &shape,
                     .question = {.cost = call.cost, .count = call.count, .op = call.op},
                     .sent = sent});
    pending.left += sent ? 1 : 0;
    tuned = tuned && sent && IsTuned(call, shape.script());
    if (together && !(sent && call.op == CellOp::kTake && call.count == 1)) possible = false;
    in_one = in_one && sent && !Leases(call) && (together || commander_.PlaceOf(call.key) == 0);
  }
  if (!possible || pending.left == 0) {
    for (const Asked& one : asked)
      shapes_.Release(*one.shape);
    return Refuse(calls.size(), pending, ticket);
  }
  pending.in_one = in_one;
  if (in_one) {
    pending.left = 1;
    if (tuned && !AnyTwice(calls)) return SendTakes(calls, asked, deadline, ticket);
    return SendAll(calls, asked, together, deadline, ticket);
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    if (asked[i].sent) SendOne(calls[i], *asked[i].shape, deadline, ticket + i);
  }
}

bool RedisCells::TakesJoin(std::string_view key, const CellShape& shape) const noexcept {
  return commander_.PlaceOf(key) == 0 && IsTuned(ScriptShapeOf(shape));
}

void RedisCells::Refuse(size_t calls, Pending& pending, uint64_t ticket) noexcept {
  if (pending.several == nullptr) pending.several = std::make_unique<Several>();
  pending.several->asked.clear();
  pending.several->replies.assign(calls, NotAsked());
  pending.single = false;
  pending.in_one = false;
  pending.left = 1;
  constexpr std::string_view kPing = "PING";
  commander_.Command({}, {&kPing, 1}, Instant::min(), ticket, this);
}

void RedisCells::SendOne(const CellCall& call, PreparedShape& shape, Instant deadline,
                         uint64_t ticket) noexcept {
  const ScriptShape& script = shape.script();
  if (IsTuned(call, script) && call.count == 1) {
    return commander_.Run(scripts::kTokenBucketTake, {&call.key, 1}, shape.TakeWords(call.cost),
                          deadline, ticket, this);
  }
  std::array<char, (kWordsPerCall + kWordsOfLease) * kNumberWordBytes +
                       WordBytes(base::kCellOwnerBytesMax)>
      room;
  WordWriter words(room);
  if (Leases(call)) {
    std::array<char, base::kCellKeyBytesMax + kLeaseSuffix.size()> leases;
    std::memcpy(leases.data(), call.key.data(), call.key.size());
    std::memcpy(leases.data() + call.key.size(), kLeaseSuffix.data(), kLeaseSuffix.size());
    const std::string_view keys[] = {
        call.key, std::string_view(leases.data(), call.key.size() + kLeaseSuffix.size())};
    AddCall(call, script, words);
    words.Add(call.owner);
    words.Add(std::max<int64_t>(call.overshoot, 0));
    words.Add(int64_t{(call.shape->config.rate.window.count() + 999) / 1000});
    return commander_.Run(*script.lease, keys, words.words(), deadline, ticket, this);
  }
  const bool tuned = IsTuned(call, script);
  if (tuned) {
    AddTake(call, shape, words);
  } else {
    AddCall(call, script, words);
  }
  commander_.Run(tuned ? scripts::kBucketsTake : *script.single, {&call.key, 1}, words.words(),
                 deadline, ticket, this);
}

void RedisCells::SendTakes(std::span<const CellCall> calls, std::span<const Asked> asked,
                           Instant deadline, uint64_t ticket) noexcept {
  std::array<char, base::kCellCallsPerTurnMax * kWordsPerTake * kNumberWordBytes> room;
  std::array<std::string_view, base::kCellCallsPerTurnMax> keys;
  WordWriter words(room);
  for (size_t i = 0; i < calls.size(); ++i) {
    keys[i] = calls[i].key;
    AddTake(calls[i], *asked[i].shape, words);
  }
  commander_.Run(scripts::kBucketsTake, {keys.data(), calls.size()}, words.words(), deadline,
                 ticket, this);
}

void RedisCells::SendAll(std::span<const CellCall> calls, std::span<const Asked> asked,
                         bool together, Instant deadline, uint64_t ticket) noexcept {
  constexpr size_t kBytesPerCall =
      (1 + kWordsPerCall) * kNumberWordBytes + WordBytes(base::kCellOwnerBytesMax);
  std::array<char, kNumberWordBytes + base::kCellCallsPerTurnMax * kBytesPerCall> room;
  std::array<std::string_view, base::kCellCallsPerTurnMax> keys;
  WordWriter words(room);
  words.Add(std::string_view(together ? "together" : "each"));
  for (size_t i = 0; i < calls.size(); ++i) {
    const ScriptShape& script = asked[i].shape->script();
    keys[i] = calls[i].key;
    words.Add(script.letters);
    AddCall(calls[i], script, words);
  }
  commander_.Run(scripts::kMulti, {keys.data(), calls.size()}, words.words(), deadline, ticket,
                 this);
}

void RedisCells::OnReply(uint64_t ticket, const redis::CommandReply& reply) noexcept {
  const auto index = static_cast<uint32_t>(ticket >> kCallBits);
  const Pending& pending = pending_[index];
  if (!pending.single)
    return OnReplyToSeveral(index, ticket & ((uint64_t{1} << kCallBits) - 1), reply);
  const Items told = reply.value != nullptr ? NumbersOf(*reply.value) : Items();
  const CellReply answer = AnswerOf(*pending.one.shape, pending.one.question, reply, told, 0, 1);
  shapes_.Release(*pending.one.shape);
  CellSink* const sink = pending.sink;
  const uint64_t theirs = pending.ticket;
  // First, so that what the sink calls for finds it still at hand.
  free_.push_back(index);
  sink->OnReplies(theirs, {&answer, 1});
}

void RedisCells::OnReplyToSeveral(uint32_t index, size_t call,
                                  const redis::CommandReply& reply) noexcept {
  Pending& pending = pending_[index];
  const std::span<const Asked> asked = pending.several->asked;  // none: nothing was sent
  const std::span<CellReply> replies = pending.several->replies;
  const Items told = reply.value != nullptr ? NumbersOf(*reply.value) : Items();
  if (pending.in_one) {
    for (size_t i = 0; i < asked.size(); ++i)
      replies[i] = AnswerOf(*asked[i].shape, asked[i].question, reply, told, i, asked.size());
  } else if (!asked.empty()) {
    replies[call] = AnswerOf(*asked[call].shape, asked[call].question, reply, told, 0, 1);
  }
  if (--pending.left > 0) return;
  for (const Asked& one : asked)
    shapes_.Release(*one.shape);
  CellSink* const sink = pending.sink;
  sink->OnReplies(pending.ticket, replies);
  free_.push_back(index);
}

}  // namespace flowguard::quota
