// SPDX-License-Identifier: Apache-2.0
//
// Cells that live in another process, as the quota store sees them: what is asked of
// one cell, and what comes back.  redis/ answers with scripts; the simulation answers
// from memory.
//
// Time: a cell server decides by its own clock and tells it in each reply.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "flowguard/rule.h"
#include "flowguard/time.h"

#include "limit/numbers.h"

namespace flowguard::quota {

// The instant of a server's clock, in us, that the windows of its cells are aligned to: a
// Monday, 00:00 UTC, of one that counts from the Unix epoch.
inline constexpr int64_t kWindowsSinceUs = int64_t{4} * 24 * 3'600 * 1'000'000;

// The numbers that a cell is decided by.
struct CellShape {
  Algorithm algorithm = Algorithm::kTokenBucket;
  limit::Config config;  // concurrency: rate.limit slots, rate.window the expiry of one
  bool concurrency = false;

  friend bool operator==(const CellShape&, const CellShape&) = default;
};

enum class CellOp : uint8_t {
  kTake,      // `count` requests of `cost` units each: the longest prefix that fits
  kPeek,      // what kTake of one request would answer; takes nothing.  cost may be 0
  kGiveBack,  // `cost` units with `mark`: what a receipt of kTake tells
  kCharge,    // `cost` units more, as debt up to config.max_debt
  // Leases: units taken ahead by `owner`, refused when the cell's outstanding leased
  // units would exceed `overshoot`.
  kLease,  // up to `cost` units, at least 1
  // `cost` units of lease `mark`, which ends with it: the others, and all if cost is 0,
  // were used.  Dropped when the lease has expired.
  kReturn,
  // Concurrency: a slot is held by `owner` until its expiry, which kRenew moves.
  kRenew,    // every slot of `owner`; where it has fewer than `cost`, it has `cost` from here on
  kRelease,  // `cost` slots of `owner`
};

struct CellCall {
  CellOp op = CellOp::kTake;
  std::string_view key;  // as CellKey writes it
  const CellShape* shape = nullptr;
  int64_t cost = 1;
  int32_t count = 1;       // kTake: at most base::kCellRequestsPerCallMax
  int64_t mark = 0;        // kGiveBack, kReturn
  int64_t overshoot = 0;   // kLease
  std::string_view owner;  // kLease, kReturn and concurrency: who holds it
};

struct CellReply {
  enum class Status : uint8_t {
    kDone,
    kFailed,   // not applied, and known not to be
    kUnknown,  // may have been applied: never asked again
  };
  // What the call tells of its server; kReplied goes without saying with kDone.
  enum class Server : uint8_t {
    kAway,      // it did not reply in time, or serves nobody now
    kReplied,   // it did, if only with an error that is this cell's
    kNotAsked,  // nothing
  };
  Status status = Status::kFailed;
  Server server = Server::kAway;
  int32_t granted = 0;     // kTake, kPeek: requests that passed; kLease: units
  limit::Numbers numbers;  // after the call; for the first request refused, if one was
  // Of what was granted, not negative: goes into limit::Receipt::mark.  token_bucket and
  // leaky_bucket: the TAT in ns of the server's clock.  Leases: the lease.
  int64_t mark = 0;
  int64_t now_us = 0;  // the server's clock; with kDone
};

// Told of the end of a Call.
class CellSink {
 public:
  virtual ~CellSink() = default;
  // Exactly once a ticket; `replies` are one for each call, in order, and live until
  // it returns.  Not from inside Call.
  virtual void OnReplies(uint64_t ticket, std::span<const CellReply> replies) noexcept = 0;
};

// Threads: the thread of the loop that it was made for.
class CellServer {
 public:
  virtual ~CellServer() = default;

  // Runs `calls`, in order.  `together`: all of them are kTake with count 1, in one
  // slot, and are granted all or none in one step.  What `calls` views is copied.
  // The answer comes by `deadline`, as kFailed or kUnknown if need be: a reply that is
  // late keeps its place in the connection's order and is dropped.
  virtual void Call(std::span<const CellCall> calls, bool together, Instant deadline,
                    uint64_t ticket, CellSink* sink) noexcept = 0;
  // Whether takes from several cells like this one cost less in one Call than each in its
  // own.
  [[nodiscard]] virtual bool TakesJoin(std::string_view /*key*/,
                                       const CellShape& /*shape*/) const noexcept {
    return false;
  }
  // No call may be made together when this differs: the keys live on different nodes.
  // 0 for all keys on a single server.
  [[nodiscard]] virtual uint32_t PlaceOf(std::string_view key) const noexcept = 0;
  // Which server has the keys of a place now: who fails and answers.  Small numbers; 0 where
  // there is one server, and where it is not known.
  [[nodiscard]] virtual uint32_t ServerOf(uint32_t /*place*/) const noexcept { return 0; }
};

}  // namespace flowguard::quota
