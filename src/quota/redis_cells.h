// SPDX-License-Identifier: Apache-2.0
//
// Cells in Redis, decided there by the scripts of scripts/.
//
// A take from a bucket is a tuned script, as are takes from several of them in one Call.
// Other calls of one Call that are on a single server are one script too, as are takes
// that go together.  A failure
// whose effect is unknown is told as that; nothing is ever sent twice.
//
// Of takes that go together and were refused, granted is 0 for all, and numbers.allowed
// tells those that would have gone.  A lease refused for the overshoot alone has
// numbers.allowed too.  kReturn ends its lease: what does not come back was spent.
// kGiveBack for slots is kRelease.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/bounds.h"
#include "quota/cell_server.h"
#include "quota/cell_shape.h"
#include "quota/prepared_shapes.h"
#include "quota/redis/commander.h"

namespace flowguard::quota {

// Threads: the thread of the commander's loop.
class RedisCells final : public CellServer, private redis::ReplySink {
 public:
  // `commander` must outlive every Call, and answer nothing any more when this is gone: what
  // is pending then is not told.
  explicit RedisCells(redis::Commander& commander) noexcept : commander_(commander) {}
  RedisCells(const RedisCells&) = delete;
  RedisCells& operator=(const RedisCells&) = delete;

  // At most kCellCallsPerTurnMax calls.  More, a shape that does not do what is asked, keys
  // that are together twice, and what comes when kCellCallsPendingMax are pending, are
  // answered kFailed.
  // Cost: no allocation once as many calls of as many cells were pending before.
  void Call(std::span<const CellCall> calls, bool together, Instant deadline, uint64_t ticket,
            CellSink* sink) noexcept override;
  [[nodiscard]] uint32_t PlaceOf(std::string_view key) const noexcept override {
    return commander_.PlaceOf(key);
  }
  [[nodiscard]] uint32_t ServerOf(uint32_t place) const noexcept override {
    return commander_.ServerOf(place);
  }
  [[nodiscard]] bool TakesJoin(std::string_view key,
                               const CellShape& shape) const noexcept override;

  // Calls that wait for their answer.
  [[nodiscard]] size_t pending() const noexcept { return pending_.size() - free_.size(); }

 private:
  // What is kept of a call to read its reply.
  struct Asked {
    PreparedShape* shape = nullptr;  // in use
    CellQuestion question;
    bool sent = true;
  };
  struct Several {
    std::vector<Asked> asked;
    std::vector<CellReply> replies;  // as many, or where nothing is asked as many as were called
  };
  // That of a single call, as most are, in one line of memory: replies come when thousands
  // of others have been sent, or read.
  struct alignas(64) Pending {
    uint64_t ticket = 0;
    CellSink* sink = nullptr;
    Asked one;                         // single
    std::unique_ptr<Several> several;  // else
    uint32_t left = 0;                 // replies of scripts that are to come
    bool single = false;
    bool in_one = false;  // one script answers them all
  };

  void OnReply(uint64_t ticket, const redis::CommandReply& reply) noexcept override;
  Pending& Take(uint32_t& index) noexcept;
  void CallOne(const CellCall& call, Pending& pending, Instant deadline, uint64_t ticket) noexcept;
  void CallSeveral(std::span<const CellCall> calls, bool together, Pending& pending,
                   Instant deadline, uint64_t ticket) noexcept;
  void SendOne(const CellCall& call, PreparedShape& shape, Instant deadline,
               uint64_t ticket) noexcept;
  void SendTakes(std::span<const CellCall> calls, std::span<const Asked> asked, Instant deadline,
                 uint64_t ticket) noexcept;
  void SendAll(std::span<const CellCall> calls, std::span<const Asked> asked, bool together,
               Instant deadline, uint64_t ticket) noexcept;
  // Sends a command that never leaves, so that the sink is told from outside Call that none
  // of `calls` was asked.
  void Refuse(size_t calls, Pending& pending, uint64_t ticket) noexcept;
  void OnReplyToSeveral(uint32_t index, size_t call, const redis::CommandReply& reply) noexcept;

  redis::Commander& commander_;
  PreparedShapes shapes_;
  std::vector<Pending> pending_;  // moved by a Call, and so by a sink
  std::vector<uint32_t> free_;
};

}  // namespace flowguard::quota
