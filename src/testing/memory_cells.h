// SPDX-License-Identifier: Apache-2.0
//
// The cells of a CellServer in memory, decided by the library's own algorithms: what a
// server answers, apart from when and whether its answers arrive.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "limit/spec.h"
#include "quota/cell_server.h"

namespace flowguard::testing {

// Threads: one owner.
class MemoryCells {
 public:
  // Units that went out and came back, over all cells.  What came back had been granted,
  // drained or not.
  struct Totals {
    int64_t granted = 0;
    int64_t leased = 0;
    int64_t given_back = 0;
    int64_t lease_returned = 0;
  };

  std::vector<quota::CellReply> Run(std::span<const quota::CellCall> calls, bool together,
                                    int64_t now_us) {
    std::vector<quota::CellReply> replies;
    if (together && !AllFit(calls, now_us)) {
      for (const quota::CellCall& call : calls)
        replies.push_back(Peek(call, now_us));
      for (quota::CellReply& reply : replies)
        reply.granted = 0;
      return replies;
    }
    for (const quota::CellCall& call : calls)
      replies.push_back(RunOne(call, now_us));
    return replies;
  }

  // What a take of `cost` would be told.
  limit::Numbers Look(std::string_view key, const quota::CellShape& shape, int64_t cost,
                      int64_t now_us) {
    quota::CellCall call;
    call.key = key;
    call.shape = &shape;
    call.cost = cost;
    return Peek(call, now_us).numbers;
  }
  [[nodiscard]] const Totals& totals() const noexcept { return totals_; }
  [[nodiscard]] int64_t SlotsInUse(std::string_view key, int64_t now_us) {
    return InUse(cells_[std::string(key)], now_us);
  }
  // Everything is as if it had never been asked: a server without its memory.
  void Clear() { cells_.clear(); }
  // The only cell there is.
  [[nodiscard]] std::string OnlyKey() const { return cells_.begin()->first; }
  [[nodiscard]] size_t size() const noexcept { return cells_.size(); }

 private:
  struct Lease {
    int64_t mark = 0;
    int64_t units = 0;
    int64_t expires_us = 0;
    limit::Receipt receipt;
  };
  struct Slots {
    std::string owner;
    int64_t count = 0;
    int64_t expires_us = 0;
  };
  struct Cell {
    std::optional<quota::CellShape> shape;
    std::optional<limit::AnySpec> spec;
    int64_t word = 0;
    std::vector<uint64_t> words;
    std::vector<Lease> leases;
    std::vector<Slots> slots;
  };

  static Instant At(int64_t us) { return Instant(Duration((us - quota::kWindowsSinceUs) * 1000)); }

  Cell& Get(const quota::CellCall& call) {
    Cell& cell = cells_[std::string(call.key)];
    if (cell.shape == *call.shape) return cell;
    // Another rule set: a debt in time is kept, other states begin anew.
    cell.shape = *call.shape;
    if (call.shape->concurrency) return cell;
    cell.spec = *limit::AnySpec::Make(call.shape->algorithm, call.shape->config);
    if (cell.spec->one_word()) return cell;
    cell.words.assign(cell.spec->words(), 0);
    return cell;
  }

  static limit::Numbers Decide(Cell& cell, Instant now, int64_t cost, limit::Receipt& receipt) {
    return cell.spec->one_word() ? cell.spec->Decide(cell.word, now, cost, receipt)
                                 : cell.spec->Decide(std::span(cell.words), now, cost, receipt);
  }
  static limit::Numbers LookAt(const Cell& cell, Instant now, int64_t cost) {
    return cell.spec->one_word()
               ? cell.spec->Look(cell.word, now, cost)
               : cell.spec->Look(std::span<const uint64_t>(cell.words), now, cost);
  }
  static void GiveBack(Cell& cell, const limit::Receipt& receipt, Instant now) {
    if (cell.spec->one_word()) {
      cell.spec->GiveBack(cell.word, receipt, now);
    } else {
      cell.spec->GiveBack(std::span(cell.words), receipt, now);
    }
  }
  static int64_t InUse(Cell& cell, int64_t now_us) {
    std::erase_if(cell.slots, [&](const Slots& one) { return one.expires_us <= now_us; });
    int64_t sum = 0;
    for (const Slots& one : cell.slots)
      sum += one.count;
    return sum;
  }
  static int64_t Outstanding(Cell& cell, int64_t now_us) {
    std::erase_if(cell.leases, [&](const Lease& one) { return one.expires_us <= now_us; });
    int64_t sum = 0;
    for (const Lease& one : cell.leases)
      sum += one.units;
    return sum;
  }
  static int64_t WindowUs(const quota::CellCall& call) {
    return call.shape->config.rate.window.count() / 1000;
  }
  static limit::Numbers Inside(const quota::CellCall& call, int64_t in_use, int64_t cost) {
    limit::Numbers numbers;
    numbers.limit = call.shape->config.rate.limit;
    numbers.allowed = cost <= numbers.limit - in_use;
    numbers.remaining = std::clamp<int64_t>(numbers.limit - in_use, 0, numbers.limit);
    if (!numbers.allowed) numbers.retry_after = std::chrono::seconds(1);
    return numbers;
  }

  bool AllFit(std::span<const quota::CellCall> calls, int64_t now_us) {
    return std::all_of(calls.begin(), calls.end(), [&](const quota::CellCall& call) {
      return Peek(call, now_us).numbers.allowed;
    });
  }

  quota::CellReply Peek(const quota::CellCall& call, int64_t now_us) {
    Cell& cell = Get(call);
    quota::CellReply reply;
    reply.status = quota::CellReply::Status::kDone;
    reply.now_us = now_us;
    reply.numbers = call.shape->concurrency ? Inside(call, InUse(cell, now_us), call.cost)
                                            : LookAt(cell, At(now_us), call.cost);
    reply.granted = reply.numbers.allowed ? 1 : 0;
    return reply;
  }

  quota::CellReply RunOne(const quota::CellCall& call, int64_t now_us) {
    using quota::CellOp;
    Cell& cell = Get(call);
    quota::CellReply reply;
    reply.status = quota::CellReply::Status::kDone;
    reply.now_us = now_us;
    switch (call.op) {
      case CellOp::kPeek:
        return Peek(call, now_us);
      case CellOp::kTake:
        call.shape->concurrency ? TakeSlots(call, cell, now_us, reply)
                                : TakeUnits(call, cell, now_us, reply);
        break;
      case CellOp::kGiveBack:
        totals_.given_back += call.cost;
        GiveBack(cell, {call.cost, call.mark}, At(now_us));
        break;
      case CellOp::kCharge:
        if (cell.spec->one_word()) {
          cell.spec->Charge(cell.word, call.cost, At(now_us));
        } else {
          cell.spec->Charge(std::span(cell.words), call.cost, At(now_us));
        }
        break;
      case CellOp::kLease:
        TakeLease(call, cell, now_us, reply);
        break;
      case CellOp::kReturn:
        ReturnLease(call, cell, now_us);
        break;
      case CellOp::kRenew:
        Renew(call, cell, now_us);
        break;
      case CellOp::kRelease:
        Release(call, cell, now_us);
        break;
    }
    return reply;
  }

  void TakeUnits(const quota::CellCall& call, Cell& cell, int64_t now_us, quota::CellReply& reply) {
    for (int32_t i = 0; i < call.count; ++i) {
      limit::Receipt receipt;
      reply.numbers = Decide(cell, At(now_us), call.cost, receipt);
      if (!reply.numbers.allowed) return;
      ++reply.granted;
      reply.mark = receipt.mark;
      totals_.granted += call.cost;
    }
  }

  static void TakeSlots(const quota::CellCall& call, Cell& cell, int64_t now_us,
                        quota::CellReply& reply) {
    for (int32_t i = 0; i < call.count; ++i) {
      reply.numbers = Inside(call, InUse(cell, now_us), call.cost);
      if (!reply.numbers.allowed) return;
      ++reply.granted;
      reply.numbers.remaining -= call.cost;
      cell.slots.push_back({std::string(call.owner), call.cost, now_us + WindowUs(call)});
    }
  }

  void TakeLease(const quota::CellCall& call, Cell& cell, int64_t now_us, quota::CellReply& reply) {
    const int64_t room = call.overshoot - Outstanding(cell, now_us);
    const int64_t left = LookAt(cell, At(now_us), 0).remaining;
    const int64_t units = std::min({call.cost, room, left});
    reply.numbers = LookAt(cell, At(now_us), 1);
    if (units < 1) return;
    limit::Receipt receipt;
    reply.numbers = Decide(cell, At(now_us), units, receipt);
    if (!reply.numbers.allowed) return;
    reply.granted = static_cast<int32_t>(units);
    reply.mark = ++last_lease_;
    totals_.leased += units;
    cell.leases.push_back({last_lease_, units, now_us + WindowUs(call), receipt});
  }

  void ReturnLease(const quota::CellCall& call, Cell& cell, int64_t now_us) {
    Outstanding(cell, now_us);
    const auto found = std::find_if(cell.leases.begin(), cell.leases.end(),
                                    [&](const Lease& one) { return one.mark == call.mark; });
    if (found == cell.leases.end()) return;
    limit::Receipt receipt = found->receipt;
    receipt.cost = std::min(call.cost, found->units);
    totals_.lease_returned += receipt.cost;
    cell.leases.erase(found);
    if (receipt.cost > 0) GiveBack(cell, receipt, At(now_us));
  }

  static void Renew(const quota::CellCall& call, Cell& cell, int64_t now_us) {
    InUse(cell, now_us);
    int64_t missing = call.cost;
    for (Slots& one : cell.slots) {
      if (one.owner != call.owner) continue;
      one.expires_us = now_us + WindowUs(call);
      missing -= one.count;
    }
    if (missing > 0)
      cell.slots.push_back({std::string(call.owner), missing, now_us + WindowUs(call)});
  }

  static void Release(const quota::CellCall& call, Cell& cell, int64_t now_us) {
    InUse(cell, now_us);
    int64_t left = call.cost;
    for (Slots& one : cell.slots) {
      if (one.owner != call.owner) continue;
      const int64_t gone = std::min(left, one.count);
      one.count -= gone;
      left -= gone;
    }
    std::erase_if(cell.slots, [](const Slots& one) { return one.count == 0; });
  }

  std::map<std::string, Cell> cells_;
  int64_t last_lease_ = 0;
  Totals totals_;
};

}  // namespace flowguard::testing
