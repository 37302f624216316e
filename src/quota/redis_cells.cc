// SPDX-License-Identifier: Apache-2.0
#include "quota/redis_cells.h"

#include <algorithm>
#include <bitset>
#include <charconv>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "base/hash.h"
#include "limit/numbers.h"
#include "quota/cell_shape.h"
#include "quota/scripts/scripts.h"

namespace flowguard::quota {
namespace {

constexpr std::string_view kLeaseSuffix = ":lease";
constexpr size_t kWordsPerCall = 9;
constexpr size_t kWordsPerTake = 4;  // of these, for buckets_take
constexpr size_t kWordsOfLease = 3;  // more
constexpr size_t kBytesPerNumber = 21;
constexpr size_t kToldPerCall = 5;  // numbers in a reply, for each cell
constexpr size_t kToldPerTake = 2;  // of these, by the tuned scripts
constexpr int64_t kNotRead = -2;    // granted, of a key that holds something else
// Tickets of the commander: the pending Call, and which of its calls.
constexpr uint64_t kCallBits = 8;
static_assert(base::kCellCallsPerTurnMax <= uint64_t{1} << kCallBits);

// The arguments of one script.  As large as need be: its words are cleared each time.
template <size_t kWordsMax>
class Arguments {
 public:
  void Add(std::string_view word) noexcept { words_[size_++] = word; }
  void Add(int64_t number) noexcept {
    char* const from = bytes_.data() + used_;
    const auto end = std::to_chars(from, bytes_.data() + bytes_.size(), number);
    used_ = static_cast<size_t>(end.ptr - bytes_.data());
    Add(std::string_view(from, static_cast<size_t>(end.ptr - from)));
  }
  // ns as us, with the fraction that is left.
  void AddMicros(int64_t ns) noexcept {
    char* const from = bytes_.data() + used_;
    auto end = std::to_chars(from, bytes_.data() + bytes_.size(), ns / 1000);
    if (const int64_t rest = ns % 1000; rest != 0) {
      const char fraction[] = {'.', static_cast<char>('0' + rest / 100),
                               static_cast<char>('0' + rest / 10 % 10),
                               static_cast<char>('0' + rest % 10)};
      std::memcpy(end.ptr, fraction, sizeof fraction);
      end.ptr += sizeof fraction;
    }
    used_ = static_cast<size_t>(end.ptr - bytes_.data());
    Add(std::string_view(from, static_cast<size_t>(end.ptr - from)));
  }
  [[nodiscard]] std::span<const std::string_view> words() const noexcept {
    return {words_.data(), size_};
  }

 private:
  std::array<std::string_view, kWordsMax> words_;
  std::array<char, kWordsMax * kBytesPerNumber> bytes_;
  size_t size_ = 0;
  size_t used_ = 0;
};

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
template <size_t kWordsMax>
void AddTake(const CellCall& call, const ScriptShape& shape,
             Arguments<kWordsMax>& arguments) noexcept {
  arguments.Add(call.cost * shape.numbers[0]);
  arguments.Add(call.count);
  arguments.Add(shape.numbers[1]);
  arguments.Add(shape.numbers[2]);
}

// What single.lua takes.
template <size_t kWordsMax>
void AddCall(const CellCall& call, const ScriptShape& shape,
             Arguments<kWordsMax>& arguments) noexcept {
  const bool asks = call.op == CellOp::kTake || call.op == CellOp::kPeek;
  const bool never = asks && (call.cost > shape.largest || shape.largest == 0) && call.cost > 0;
  arguments.Add(LetterOf(call.op));
  arguments.Add(asks ? call.cost : std::min(call.cost, shape.most_units));
  arguments.Add(never ? int64_t{0} : call.count);
  if (call.shape->concurrency) {
    arguments.Add(call.owner);
  } else if (shape.bucket && call.op == CellOp::kGiveBack) {
    arguments.AddMicros(call.mark);
  } else {
    arguments.Add(call.mark);
  }
  for (const int64_t number : shape.numbers)
    arguments.Add(number);
}

// Reads what a script told of cell `index` of `size`.  nullopt: not as agreed.
std::optional<CellState> StateOf(const wire::resp::Value& value, size_t index,
                                 size_t size) noexcept {
  using Type = wire::resp::Value::Type;
  if (value.type != Type::kArray) return std::nullopt;
  const std::span<const wire::resp::Value> items = value.items;
  for (const wire::resp::Value& item : items) {
    if (item.type != Type::kInteger) return std::nullopt;
  }
  CellState state;
  if (items.size() == size * kToldPerTake + 1) {  // token_bucket_take, buckets_take
    state.granted = items[index * kToldPerTake].integer;
    state.told[0] = items[index * kToldPerTake + 1].integer;
    state.now_us = items.back().integer;
    return state;
  }
  if (items.size() != size * kToldPerCall + 1) return std::nullopt;
  const auto told = items.subspan(index * kToldPerCall, kToldPerCall);
  state.granted = told[0].integer;
  state.mark = told[1].integer;
  for (size_t i = 0; i < 3; ++i)
    state.told[i] = told[2 + i].integer;
  state.now_us = items.back().integer;
  return state;
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
    pending_.push_back(std::make_unique<Pending>());
    free_.reserve(pending_.size());
  } else {
    index = free_.back();
    free_.pop_back();
  }
  return *pending_[index];
}

void RedisCells::Call(std::span<const CellCall> calls, bool together, Instant deadline,
                      uint64_t ticket, CellSink* sink) noexcept {
  bool possible = calls.size() <= base::kCellCallsPerTurnMax &&
                  pending() < base::kCellCallsPendingMax && !(together && AnyTwice(calls));
  uint32_t index = 0;
  Pending& pending = Take(index);
  pending.ticket = ticket;
  pending.sink = sink;
  CellReply nothing;
  nothing.server = CellReply::Server::kNotAsked;
  pending.replies.assign(calls.size(), nothing);
  pending.asked.clear();
  pending.left = 0;
  bool in_one = calls.size() > 1;
  bool tuned = !together;
  for (const CellCall& call : calls.first(possible ? calls.size() : 0)) {
    const ScriptShape script = ScriptShapeOf(*call.shape);
    const bool sent = IsPossible(call, script);
    tuned = tuned && sent && IsTuned(call, script);
    pending.asked.push_back({.shape = *call.shape,
                             .script = script,
                             .cost = call.cost,
                             .count = call.count,
                             .op = call.op,
                             .sent = sent});
    pending.left += sent ? 1 : 0;
    if (together && !(sent && call.op == CellOp::kTake && call.count == 1)) possible = false;
    in_one = in_one && sent && !Leases(call) && (together || commander_.PlaceOf(call.key) == 0);
  }
  const uint64_t base_ticket = uint64_t{index} << kCallBits;
  if (!possible || pending.left == 0) {
    pending.left = 1;
    pending.in_one = false;
    pending.asked.clear();
    return SendNothing(base_ticket);
  }
  pending.in_one = in_one;
  if (in_one) {
    pending.left = 1;
    if (tuned && !AnyTwice(calls)) return SendTakes(calls, pending, deadline, base_ticket);
    return SendAll(calls, pending, together, deadline, base_ticket);
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    const Asked& asked = pending.asked[i];
    if (asked.sent) SendOne(calls[i], asked.script, deadline, base_ticket + i);
  }
}

bool RedisCells::TakesJoin(std::string_view key, const CellShape& shape) const noexcept {
  return commander_.PlaceOf(key) == 0 && IsTuned(ScriptShapeOf(shape));
}

void RedisCells::SendNothing(uint64_t ticket) noexcept {
  constexpr std::string_view kPing = "PING";
  commander_.Command({}, {&kPing, 1}, Instant::min(), ticket, this);
}

void RedisCells::SendOne(const CellCall& call, const ScriptShape& shape, Instant deadline,
                         uint64_t ticket) noexcept {
  Arguments<kWordsPerCall + kWordsOfLease> arguments;
  if (Leases(call)) {
    std::array<char, base::kCellKeyBytesMax + kLeaseSuffix.size()> leases;
    std::memcpy(leases.data(), call.key.data(), call.key.size());
    std::memcpy(leases.data() + call.key.size(), kLeaseSuffix.data(), kLeaseSuffix.size());
    const std::string_view keys[] = {
        call.key, std::string_view(leases.data(), call.key.size() + kLeaseSuffix.size())};
    AddCall(call, shape, arguments);
    arguments.Add(call.owner);
    arguments.Add(std::max<int64_t>(call.overshoot, 0));
    arguments.Add((call.shape->config.rate.window.count() + 999) / 1000);
    return commander_.Run(*shape.lease, keys, arguments.words(), deadline, ticket, this);
  }
  const redis::Script* script = shape.single;
  if (!IsTuned(call, shape)) {
    AddCall(call, shape, arguments);
  } else if (call.count == 1) {
    script = &scripts::kTokenBucketTake;
    arguments.Add(call.cost * shape.numbers[0]);
    arguments.Add(shape.numbers[1]);
    arguments.Add(shape.numbers[2]);
  } else {
    script = &scripts::kBucketsTake;
    AddTake(call, shape, arguments);
  }
  commander_.Run(*script, {&call.key, 1}, arguments.words(), deadline, ticket, this);
}

void RedisCells::SendTakes(std::span<const CellCall> calls, const Pending& pending,
                           Instant deadline, uint64_t ticket) noexcept {
  Arguments<base::kCellCallsPerTurnMax * kWordsPerTake> arguments;
  std::array<std::string_view, base::kCellCallsPerTurnMax> keys;
  for (size_t i = 0; i < calls.size(); ++i) {
    const ScriptShape& shape = pending.asked[i].script;
    keys[i] = calls[i].key;
    AddTake(calls[i], shape, arguments);
  }
  commander_.Run(scripts::kBucketsTake, {keys.data(), calls.size()}, arguments.words(), deadline,
                 ticket, this);
}

void RedisCells::SendAll(std::span<const CellCall> calls, const Pending& pending, bool together,
                         Instant deadline, uint64_t ticket) noexcept {
  Arguments<1 + base::kCellCallsPerTurnMax * kWordsPerCall> arguments;
  std::array<std::string_view, base::kCellCallsPerTurnMax> keys;
  arguments.Add(std::string_view(together ? "together" : "each"));
  for (size_t i = 0; i < calls.size(); ++i) {
    const ScriptShape& shape = pending.asked[i].script;
    keys[i] = calls[i].key;
    arguments.Add(shape.letters);
    AddCall(calls[i], shape, arguments);
  }
  commander_.Run(scripts::kMulti, {keys.data(), calls.size()}, arguments.words(), deadline, ticket,
                 this);
}

void RedisCells::OnReply(uint64_t ticket, const redis::CommandReply& reply) noexcept {
  const auto index = static_cast<uint32_t>(ticket >> kCallBits);
  const size_t call = ticket & ((uint64_t{1} << kCallBits) - 1);
  Pending& pending = *pending_[index];
  const size_t size = pending.asked.size();  // 0: nothing was sent
  const size_t first = pending.in_one ? 0 : call;
  const size_t end = pending.in_one ? size : std::min(call + 1, size);
  for (size_t i = first; i < end; ++i) {
    const Asked& asked = pending.asked[i];
    CellReply& answer = pending.replies[i];
    answer.server = ServerIn(reply.failure);
    if (reply.failure != redis::Failure::kNone) {
      answer.status = redis::Indeterminate(reply.failure) ? CellReply::Status::kUnknown
                                                          : CellReply::Status::kFailed;
      continue;
    }
    const auto state = StateOf(*reply.value, pending.in_one ? i : 0, pending.in_one ? size : 1);
    if (!state.has_value()) {
      answer.status = CellReply::Status::kUnknown;
    } else if (state->granted != kNotRead) {
      CellCall told;
      told.op = asked.op;
      told.cost = asked.cost;
      told.count = asked.count;
      answer = ReplyOf(asked.shape, asked.script, told, *state);
    }
  }
  if (--pending.left > 0) return;
  CellSink* const sink = pending.sink;
  const uint64_t theirs = pending.ticket;
  sink->OnReplies(theirs, pending.replies);
  free_.push_back(index);
}

}  // namespace flowguard::quota
