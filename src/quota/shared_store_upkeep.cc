// SPDX-License-Identifier: Apache-2.0
//
// What a store does by time: deadlines of those who wait, leases that nobody uses, slots
// to renew, servers to probe, the register to beat.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "quota/shared_store.h"

namespace flowguard::quota {
namespace {

constexpr Duration kRenewGrid = std::chrono::milliseconds(500);

}  // namespace

void SharedStore::AddDue(CellOp op, KnownCell& cell, int64_t cost, int64_t mark, uint32_t epoch,
                         int tries) noexcept {
  const bool gives_back = op == CellOp::kGiveBack || (op == CellOp::kReturn && cost > 0);
  if (gives_back) {
    cell.ForgetDenials();
    cell.filter.Forget();
  }
  if (dues_.size() >= base::kStoreDuesMax) {
    StoreCounters::Add(counters_.dues_lost);
    if (op == CellOp::kRelease) UnknownSlots(cell);
    return;
  }
  if (gives_back) cell.returned_at = Instant::max();
  Run run;
  run.op = op;
  run.cell = &cell;
  run.cost = cost;
  run.mark = mark;
  run.epoch = epoch;
  run.tries = tries;
  cells_.Pin(cell);
  dues_.push_back(run);
  WakeSoon();
}

// It was not applied, and the slot is in the way of others until it is.
void SharedStore::ReleaseAgain(const Run& run) noexcept {
  if (run.tries + 1 >= base::kReleaseTriesMax || due_again_.size() >= base::kStoreDuesMax) {
    StoreCounters::Add(counters_.dues_lost);
    return UnknownSlots(*run.cell);
  }
  cells_.Pin(*run.cell);
  due_again_.push_back(run);
  ++due_again_.back().tries;
  again_at_ = std::min(again_at_, now_ + kRetryPause);
}

void SharedStore::Turn(Instant now) noexcept {
  now_ = std::max(now_, now);
  wake_at_ = Instant::max();
  ExpireWaiting(now_);
  Upkeep(now_);
  Flush();
  Wake();
}

void SharedStore::ExpireWaiting(Instant now) noexcept {
  while (first_ending_ != nullptr && first_ending_->deadline <= now) {
    Ask& ask = *first_ending_;
    if (ask.state == Ask::State::kFlying) {
      FailFlying(ask);
      continue;
    }
    Dequeue(ask);
    UnlistEnding(ask);
    Advance(ask);  // fails what is left of it
  }
}

void SharedStore::Upkeep(Instant now) noexcept {
  if (now >= sweep_at_) SweepLeases(now);
  if (now >= renew_at_) RenewSlots(now);
  if (now >= again_at_) {
    again_at_ = Instant::max();
    for (const Run& run : due_again_) {
      AddDue(run.op, *run.cell, run.cost, run.mark, run.epoch, run.tries);
      cells_.Unpin(*run.cell);
    }
    due_again_.clear();
  }
  if (now >= beat_at_) Beat(now);
  SendProbe(now);
}

void SharedStore::SweepLeases(Instant now) noexcept {
  for (size_t i = 0; i < leased_.size();) {
    KnownCell& cell = *leased_[i];
    Lease& lease = cell.lease;
    if (lease.open && now >= lease.expires) {
      StoreCounters::Add(counters_.lease_units_expired, static_cast<uint64_t>(lease.units));
      lease.open = false;
      lease.units = 0;
    } else if (lease.open && now - lease.used_at >= kLeaseIdle) {
      EndLease(cell);
    }
    if (lease.open || lease.asked) {
      ++i;
      continue;
    }
    cell.listed_leased = false;
    leased_[i] = leased_.back();
    leased_.pop_back();
    cells_.Unpin(cell);
  }
  sweep_at_ = leased_.empty() ? Instant::max() : now + kLeaseSweep;
}

void SharedStore::EndLease(KnownCell& cell) noexcept {
  Lease& lease = cell.lease;
  if (!lease.open) return;
  lease.open = false;
  const int64_t unused = std::exchange(lease.units, 0);
  if (unused > 0) lease.size = std::max<int64_t>(lease.size / 2, 1);
  AddDue(CellOp::kReturn, cell, unused, lease.mark, 0);
}

// As many as a node's part of the rate brings in kLeaseRefresh.
int64_t SharedStore::LeaseMax(const KnownCell& cell) const noexcept {
  __extension__ using Wide = __int128;
  const Rate& rate = cell.shape.config.rate;
  if (rate.window <= Duration::zero()) return 1;
  const auto units = static_cast<int64_t>(Wide{rate.limit} * kLeaseRefresh.count() /
                                          rate.window.count() / std::max(Nodes(), 1));
  return std::clamp<int64_t>(units, 1, std::max<int64_t>(cell.overshoot, 1));
}

// Rounded up, so that many cells are renewed in one go over all of them.
Instant SharedStore::NextRenewal(const KnownCell& cell) const noexcept {
  const Duration due = (now_ + cell.shape.config.rate.window / 3).time_since_epoch();
  return Instant((due + kRenewGrid - Duration(1)) / kRenewGrid * kRenewGrid);
}

void SharedStore::HoldSlots(KnownCell& cell, uint32_t epoch, int64_t slots) noexcept {
  cell.slots.Add(epoch, slots);
  if (cell.listed_held) return;
  cell.renew_at = NextRenewal(cell);
  renew_at_ = std::min(renew_at_, cell.renew_at);
  cell.listed_held = true;
  cell.held_at = held_.size();
  cells_.Pin(cell);
  held_.push_back(&cell);
}

void SharedStore::DropSlots(KnownCell& cell, uint32_t epoch, int64_t slots) noexcept {
  cell.slots.Remove(epoch, slots);
  if (!cell.listed_held || cell.slots.any()) return;
  cell.listed_held = false;
  held_[cell.held_at] = held_.back();
  held_[cell.held_at]->held_at = cell.held_at;
  held_.pop_back();
  cells_.Unpin(cell);
}

void SharedStore::RenewSlots(Instant now) noexcept {
  renew_at_ = Instant::max();
  for (KnownCell* const held : held_) {
    KnownCell& cell = *held;
    if (now >= cell.renew_at) {
      cell.renew_at = NextRenewal(cell);
      for (const SlotBook::Entry& entry : cell.slots.entries()) {
        if (entry.held > 0) AddDue(CellOp::kRenew, cell, entry.held, 0, entry.epoch);
      }
    }
    renew_at_ = std::min(renew_at_, cell.renew_at);
  }
}

void SharedStore::SendProbe(Instant now) noexcept {
  Reach::Probe probe;
  while (reach_.NextProbe(now, probe)) {
    Flight* const flight = flights_.Take();
    if (flight == nullptr) return reach_.ProbeEnded(probe.server, false, now);
    flight->kind = Flight::Kind::kProbe;
    flight->server = probe.server;
    flight->count = 0;
    flight->deadline = now + options_.deadline;
    flight->sent_at = now;
    const CellCall call{.op = CellOp::kPeek,
                        .key = {probe.key_bytes.data(), probe.key_size},
                        .shape = &probe.shape,
                        .cost = 0,
                        .owner = {}};
    server_.Call({&call, 1}, /*together=*/false, flight->deadline, flight->pool_index, this);
  }
}

void SharedStore::Open() noexcept {
  open_ = true;
  if (options_.node_register == nullptr) return;
  beat_at_ = now_;
  WakeSoon();
}

void SharedStore::Beat(Instant now) noexcept {
  beat_at_ = now + options_.beat_every;
  if (beating_ || !open_) return;
  beating_ = true;
  // So many beats may be lost before a node counts as gone.
  const Duration ttl = options_.beat_every * kBeatsToCount + options_.deadline;
  options_.node_register->Beat(options_.owner, ttl, now + options_.deadline, 0, this);
}

void SharedStore::OnNodes(uint64_t /*ticket*/, int nodes) noexcept {
  beating_ = false;
  if (nodes <= 0) {
    // The last count holds: a node that is cut off knows of no better one.
    StoreCounters::Add(counters_.beats_failed);
    fewer_since_ = Instant::max();
    return;
  }
  if (nodes >= Nodes()) {
    fewer_since_ = Instant::max();
  } else if (fewer_since_ == Instant::max()) {
    fewer_since_ = now_;
    most_of_fewer_ = nodes;
  } else {
    most_of_fewer_ = std::max(most_of_fewer_, nodes);
  }
  // While nodes start, or come back to a register that was lost, each is counted at its
  // own next beat; until then too few would share the limit, and each would have too much.
  if (nodes < Nodes() && now_ - fewer_since_ < options_.beat_every * kBeatsToCount) return;
  if (fewer_since_ != Instant::max()) nodes = most_of_fewer_;
  fewer_since_ = Instant::max();
  if (nodes == nodes_) return;
  nodes_ = nodes;
  counters_.nodes.store(nodes, std::memory_order_relaxed);
  if (options_.on_nodes) options_.on_nodes(nodes);
}

void SharedStore::Close() noexcept {
  now_ = std::max(now_, loop_.Now());
  closed_ = true;
  for (KnownCell* const cell : leased_)
    EndLease(*cell);
  if (open_ && options_.node_register != nullptr && !beating_) {
    beating_ = true;
    options_.node_register->Beat(options_.owner, Duration::zero(), now_ + options_.deadline, 0,
                                 this);
  }
  open_ = false;
  beat_at_ = Instant::max();
  WakeSoon();
}

bool SharedStore::quiet() const noexcept {
  return flights_.used() == 0 && asks_.used() == 0 && dues_.empty() && !beating_;
}

void SharedStore::Wake() noexcept {
  Instant next = std::min({sweep_at_, renew_at_, again_at_, beat_at_, reach_.NextProbeAt()});
  if (first_ending_ != nullptr) next = std::min(next, first_ending_->deadline);
  if (!dues_.empty()) next = std::min(next, now_ + kRetryPause);
  if (next >= wake_at_) return;
  wake_at_ = next;
  loop_.WakeAt(next);
}

void SharedStore::WakeSoon() noexcept {
  if (wake_at_ <= now_) return;
  wake_at_ = now_;
  loop_.WakeAt(now_);
}

std::string_view SharedStore::OwnerOf(uint32_t epoch, std::span<char> room) const noexcept {
  const size_t name = std::min(options_.owner.size(), kOwnerNameBytesMax);
  std::memcpy(room.data(), options_.owner.data(), name);
  if (epoch == 0) return {room.data(), name};
  room[name] = '.';
  const std::to_chars_result end =
      std::to_chars(room.data() + name + 1, room.data() + room.size(), epoch);
  return {room.data(), static_cast<size_t>(end.ptr - room.data())};
}

}  // namespace flowguard::quota
