// SPDX-License-Identifier: Apache-2.0
//
// Flights: what waits for a cell leaves in one group of calls, and its replies come back
// together.  Cells whose takes cost the server less in company share a flight.  One flight is out
// for a cell at a time, so what arrives meanwhile is counted into one call, and takes of a cell are
// decided in order.
#include <algorithm>
#include <array>

#include "base/check.h"
#include "limit/validate.h"
#include "quota/shared_store.h"

namespace flowguard::quota {
namespace {

using limit::Numbers;
using limit::Receipt;

// Room that a flight keeps for the end of one lease and the begin of the next.
constexpr size_t kLeaseRuns = 2;
constexpr int64_t kNsPerUs = 1'000;
// Between the deadlines of takes that share a flight.
constexpr Duration kDeadlinesApartMax = std::chrono::milliseconds(2);

// Requests of one cost as one call, unless each has to be told its own wait.
bool Counts(const CellShape& shape) noexcept {
  return shape.config.wait == Duration::zero() && shape.algorithm != Algorithm::kLeakyBucket;
}

// The mark of a request that was granted `after` units before the last of its call.  Of a
// token bucket it is the TAT, in ns: earlier, by no less than those units take on a server
// that counts in us.
int64_t MarkBefore(const CellShape& shape, int64_t mark, int64_t after) noexcept {
  if (after == 0 || shape.concurrency || shape.algorithm != Algorithm::kTokenBucket) return mark;
  const int64_t interval_ns = limit::IntervalNs(shape.config.rate) + kNsPerUs;
  return after > mark / interval_ns ? 0 : mark - after * interval_ns;
}

CellReply::Server ServerIn(const CellReply& reply) noexcept {
  return reply.status == CellReply::Status::kDone ? CellReply::Server::kReplied : reply.server;
}

bool Says(std::span<const CellReply> replies, CellReply::Server server) noexcept {
  return std::any_of(replies.begin(), replies.end(),
                     [server](const CellReply& reply) { return ServerIn(reply) == server; });
}

// A release must not overtake what says that its slot is held.
bool WaitsForRenewal(CellOp op, const KnownCell& cell) noexcept {
  return op == CellOp::kRelease && cell.renewals_out > 0;
}

// No remembered refusal may be older than a give-back that the server saw after it.
bool BeforeOurGiveBack(const KnownCell& cell, Instant sent_at) noexcept {
  return sent_at <= cell.returned_at;
}

}  // namespace

void SharedStore::MarkDirty(KnownCell& cell) noexcept {
  if (cell.listed_dirty) return;
  cell.listed_dirty = true;
  cells_.Pin(cell);
  dirty_.push_back(&cell);
  WakeSoon();
}

void SharedStore::Flush() noexcept {
  // Give-backs first, so that who waits may have what they return.
  FlushDues();
  Flight* joint = nullptr;
  flushing_.swap(dirty_);
  for (KnownCell* const cell : flushing_) {
    cell->listed_dirty = false;
    FlushCell(*cell, joint);
    cells_.Unpin(*cell);
  }
  flushing_.clear();
  if (joint != nullptr) Send(*joint);
}

// `joint`: the flight that gathers takes of several cells; null: none is open.
void SharedStore::FlushCell(KnownCell& cell, Flight*& joint) noexcept {
  if (cell.in_flight || cell.first == nullptr) return;
  if (cell.joins && joint != nullptr && !Joins(*joint, cell)) {
    Send(*joint);
    joint = nullptr;
  }
  Flight* flight = cell.joins ? joint : nullptr;
  if (flight == nullptr) {
    flight = flights_.Take();
    if (flight == nullptr) {
      // The next turn tries again, and one comes when a flight lands.
      cell.listed_dirty = true;
      cells_.Pin(cell);
      dirty_.push_back(&cell);
      return;
    }
    flight->kind = Flight::Kind::kBatch;
    flight->count = 0;
    flight->deadline = Instant::min();
  }
  AddTakes(*flight, cell);
  AddLease(*flight, cell);
  cell.in_flight = true;
  if (!cell.joins) return Send(*flight);
  joint = flight;
}

// A cell's next call waits for the last deadline of its flight.
bool SharedStore::Joins(const Flight& flight, const KnownCell& cell) noexcept {
  const Instant deadline = cell.first->deadline;
  return flight.count + kLeaseRuns < flight.runs.size() &&
         flight.runs[0].cell->place == cell.place &&
         std::max(deadline, flight.deadline) - std::min(deadline, flight.deadline) <=
             kDeadlinesApartMax;
}

SharedStore::Run& SharedStore::AddRun(Flight& flight, CellOp op, KnownCell& cell) noexcept {
  FG_DCHECK(flight.count < flight.runs.size());
  Run& run = flight.runs[flight.count++];
  run = {};
  run.op = op;
  run.cell = &cell;
  cells_.Pin(cell);
  return run;
}

void SharedStore::AddTakes(Flight& flight, KnownCell& cell) noexcept {
  const bool counts = Counts(cell.shape);
  while (cell.first != nullptr) {
    Ask& ask = *cell.first;
    AskPart& part = ask.parts[ask.at];
    const CellOp op = part.cost > 0 ? CellOp::kTake : CellOp::kPeek;
    Run* run = flight.count > 0 ? &flight.runs[flight.count - 1] : nullptr;
    const bool joins = run != nullptr && run->cell == &cell && counts && op == CellOp::kTake &&
                       run->op == op && run->cost == part.cost &&
                       run->count < base::kCellRequestsPerCallMax;
    if (!joins && flight.count + kLeaseRuns == flight.runs.size()) return;
    Dequeue(ask);
    ask.state = Ask::State::kFlying;
    // Who has less time left fails alone.
    flight.deadline = std::max(flight.deadline, ask.deadline);
    if (joins) {
      run->last->next = &ask;
      StoreCounters::Add(counters_.coalesced);
    } else {
      run = &AddRun(flight, op, cell);
      run->first = &ask;
      run->cost = part.cost;
      if (cell.shape.concurrency) run->epoch = cell.slots.epoch();
    }
    run->last = &ask;
    ++run->count;
  }
}

// Who asks anyway takes a few units ahead for those who come next.
void SharedStore::AddLease(Flight& flight, KnownCell& cell) noexcept {
  if (!cell.leases) return;
  Lease& lease = cell.lease;
  if (lease.size <= 1 || lease.asked || lease.units > 0) return;
  if (lease.open) {
    // It is spent: what was taken is not outstanding any more.
    lease.open = false;
    AddRun(flight, CellOp::kReturn, cell).mark = lease.mark;
  }
  lease.asked = true;
  AddRun(flight, CellOp::kLease, cell).cost = lease.size;
}

void SharedStore::SendTogether(Ask& ask) noexcept {
  Flight* const flight = flights_.Take();
  if (flight == nullptr) return Advance(ask);
  flight->kind = Flight::Kind::kTogether;
  flight->count = 0;
  flight->ask = &ask;
  flight->deadline = ask.deadline;
  for (size_t i = 0; i < ask.count; ++i) {
    KnownCell& cell = *ask.parts[i].cell;
    Run& run = AddRun(*flight, CellOp::kTake, cell);
    run.count = 1;
    run.cost = ask.parts[i].cost;
    if (cell.shape.concurrency) run.epoch = cell.slots.epoch();
    cell.in_flight = true;
  }
  ask.state = Ask::State::kFlying;
  StoreCounters::Add(counters_.together);
  Send(*flight);
}

void SharedStore::FlushDues() noexcept {
  size_t next = 0;
  size_t put_off = 0;  // of those before next: not sent yet
  while (next < dues_.size()) {
    if (WaitsForRenewal(dues_[next].op, *dues_[next].cell)) {
      dues_[put_off++] = dues_[next++];
      continue;
    }
    Flight* const flight = flights_.Take();
    if (flight == nullptr) break;
    flight->kind = Flight::Kind::kDues;
    flight->count = 0;
    flight->deadline = now_ + options_.deadline;
    const uint32_t place = dues_[next].cell->place;
    while (next < dues_.size() && flight->count < flight->runs.size() &&
           dues_[next].cell->place == place &&
           !WaitsForRenewal(dues_[next].op, *dues_[next].cell)) {
      KnownCell& cell = *dues_[next].cell;
      if (cell.returned_at == Instant::max()) cell.returned_at = now_;
      if (dues_[next].op == CellOp::kRenew) ++cell.renewals_out;
      flight->runs[flight->count++] = dues_[next++];
    }
    Send(*flight);
  }
  dues_.erase(dues_.begin() + static_cast<std::ptrdiff_t>(put_off),
              dues_.begin() + static_cast<std::ptrdiff_t>(next));
}

void SharedStore::Send(Flight& flight) noexcept {
  std::array<CellCall, base::kCellCallsPerFlightMax> calls;
  std::array<std::array<char, base::kCellOwnerBytesMax>, base::kCellCallsPerFlightMax> owners;
  for (size_t i = 0; i < flight.count; ++i) {
    const Run& run = flight.runs[i];
    const bool owned =
        run.cell->shape.concurrency || run.op == CellOp::kLease || run.op == CellOp::kReturn;
    calls[i] = {.op = run.op,
                .key = run.cell->key(),
                .shape = &run.cell->shape,
                .cost = run.cost,
                .count = std::max(run.count, 1),
                .mark = run.mark,
                .overshoot = run.cell->overshoot,
                .owner = owned ? OwnerOf(run.epoch, owners[i]) : std::string_view()};
  }
  flight.sent_at = now_;
  StoreCounters::Add(counters_.flights);
  StoreCounters::Add(counters_.calls, flight.count);
  server_.Call({calls.data(), flight.count}, flight.kind == Flight::Kind::kTogether,
               flight.deadline, flight.pool_index, this);
}

void SharedStore::OnReplies(uint64_t ticket, std::span<const CellReply> replies) noexcept {
  now_ = std::max(now_, loop_.Now());
  Flight& flight = flights_[ticket];
  if (flight.kind == Flight::Kind::kProbe) {
    reach_.ProbeEnded(flight.server, Says(replies, CellReply::Server::kReplied), now_);
    flights_.Return(&flight);
    return WakeSoon();
  }
  const KnownCell& first = *flight.runs[0].cell;
  const uint32_t server = server_.ServerOf(first.place);
  if (Says(replies, CellReply::Server::kAway)) {
    reach_.Failed(server, first, now_);
  } else if (Says(replies, CellReply::Server::kReplied)) {
    reach_.Answered(server);
  }
  switch (flight.kind) {
    case Flight::Kind::kBatch:
      OnBatch(flight, replies);
      break;
    case Flight::Kind::kTogether:
      OnTogether(flight, replies);
      break;
    default:
      OnDues(flight, replies);
  }
  for (size_t i = 0; i < flight.count; ++i)
    cells_.Unpin(*flight.runs[i].cell);
  flights_.Return(&flight);
  WakeSoon();
}

void SharedStore::OnBatch(Flight& flight, std::span<const CellReply> replies) noexcept {
  // What the replies say holds for all of them, so it is learnt before anybody is told.
  for (size_t i = 0; i < flight.count; ++i)
    Learn(flight, flight.runs[i], replies[i]);
  for (size_t i = 0; i < flight.count; ++i) {
    Run& run = flight.runs[i];
    if (run.op == CellOp::kLease) OnLeaseReply(flight, run, replies[i]);
  }
  for (size_t i = 0; i < flight.count; ++i) {
    if (flight.runs[i].first != nullptr) OnTakeReply(flight, flight.runs[i], replies[i]);
  }
  for (size_t i = 0; i < flight.count; ++i) {
    KnownCell& cell = *flight.runs[i].cell;
    if (i == 0 || &cell != flight.runs[i - 1].cell) Landed(cell);
  }
}

void SharedStore::OnTakeReply(const Flight&, Run& run, const CellReply& reply) noexcept {
  KnownCell& cell = *run.cell;
  const bool done = reply.status == CellReply::Status::kDone;
  int32_t index = 0;
  for (Ask* ask = run.first; ask != nullptr; ++index) {
    Ask* const next = ask->next;
    ask->next = nullptr;
    UnlistEnding(*ask);
    if (!done) {
      Fail(*ask);
      Resume(*ask);
    } else if (run.op == CellOp::kPeek) {
      Numbers numbers = reply.numbers;
      numbers.wait = Duration::zero();
      Grant(*ask, numbers, {}, reply.now_us);
      Resume(*ask);
    } else if (index < reply.granted) {
      const int64_t after = (reply.granted - 1 - index) * run.cost;
      Numbers numbers = reply.numbers;
      numbers.remaining = std::clamp<int64_t>(numbers.remaining + after, 0, numbers.limit);
      const int64_t mark = cell.shape.concurrency ? run.epoch : reply.mark;
      Grant(*ask, numbers, {.cost = run.cost, .mark = MarkBefore(cell.shape, mark, after)},
            reply.now_us);
      Resume(*ask);
    } else if (ask->abandoned) {
      Fail(*ask);
      Resume(*ask);
    } else {
      ask->state = Ask::State::kWaiting;
      if (!Refuse(*ask, reply.numbers, reply.now_us)) Advance(*ask);
    }
    ask = next;
  }
}

void SharedStore::OnTogether(Flight& flight, std::span<const CellReply> replies) noexcept {
  Ask& ask = *flight.ask;
  bool done = true;
  bool granted = true;
  for (size_t i = 0; i < flight.count; ++i) {
    Learn(flight, flight.runs[i], replies[i]);
    done = done && replies[i].status == CellReply::Status::kDone;
    granted = granted && replies[i].granted == 1;
  }
  bool refused = false;
  for (ask.at = 0; ask.at < ask.count; ++ask.at) {
    const Run& run = flight.runs[ask.at];
    const CellReply& reply = replies[ask.at];
    const bool last = ask.at + size_t{1} == ask.count;
    if (!done) {
      Fail(ask);
    } else if (granted) {
      const int64_t mark = run.cell->shape.concurrency ? run.epoch : reply.mark;
      Grant(ask, reply.numbers, {.cost = run.cost, .mark = mark}, reply.now_us);
    } else if (!reply.numbers.allowed || (last && !refused)) {
      refused = true;
      ask.outcomes[ask.at] = {.status = engine::TakeOutcome::Status::kRefused,
                              .numbers = reply.numbers,
                              .receipt = {},
                              .store_time_us = reply.now_us};
      ask.outcomes[ask.at].numbers.allowed = false;
      ask.parts[ask.at].settled = true;
    } else {
      NotAsked(ask, ask.at);
    }
  }
  Resume(ask);
  for (size_t i = 0; i < flight.count; ++i)
    Landed(*flight.runs[i].cell);
}

void SharedStore::Learn(const Flight& flight, const Run& run, const CellReply& reply) noexcept {
  KnownCell& cell = *run.cell;
  const bool take = run.op == CellOp::kTake;
  if (reply.status != CellReply::Status::kDone) {
    const bool unknown = reply.status == CellReply::Status::kUnknown;
    if (take && unknown && cell.shape.concurrency) UnknownSlots(cell);
    return;
  }
  if (cell.filters) cell.filter.Sync(flight.sent_at, now_, reply.now_us);
  if (!take) return;
  cell.last = reply.numbers;
  cell.last.allowed = true;
  cell.last.retry_after = Duration::zero();
  cell.last.wait = Duration::zero();
  if (reply.granted > 0) {
    if (cell.filters) cell.filter.Took(reply.now_us, run.cost, reply.granted);
    if (cell.shape.concurrency) HoldSlots(cell, run.epoch, run.cost * reply.granted);
  }
  const bool refused = reply.granted < run.count && !reply.numbers.allowed;
  // Slots free when calls end, not when a time is over.
  if (refused && !cell.shape.concurrency && !BeforeOurGiveBack(cell, flight.sent_at)) {
    cell.denials.Add(run.cost, reply.numbers, flight.sent_at, now_);
    cell.denies = true;
  }
  if (!cell.leases) return;
  Lease& lease = cell.lease;
  const int64_t nodes = std::max(Nodes(), 1);
  if (refused) {
    lease.size = 1;
  } else if (reply.numbers.remaining / 2 / nodes < lease.size) {
    // Near exhaustion, where others would miss what lies here.
    lease.size = std::max<int64_t>(reply.numbers.remaining / 2 / nodes, 1);
  } else {
    lease.size = std::min(lease.size * 2, LeaseMax(cell));
  }
}

void SharedStore::OnLeaseReply(const Flight& flight, const Run& run,
                               const CellReply& reply) noexcept {
  KnownCell& cell = *run.cell;
  Lease& lease = cell.lease;
  lease.asked = false;
  if (reply.status != CellReply::Status::kDone || reply.granted <= 0) {
    lease.size = 1;
    return;
  }
  StoreCounters::Add(counters_.leases);
  lease.units = reply.granted;
  lease.mark = reply.mark;
  lease.open = true;
  lease.expires = flight.sent_at + cell.shape.config.rate.window;
  lease.used_at = now_;
  if (!cell.listed_leased) {
    cell.listed_leased = true;
    cells_.Pin(cell);
    leased_.push_back(&cell);
  }
  sweep_at_ = std::min(sweep_at_, now_ + kLeaseSweep);
  if (closed_) EndLease(cell);
}

void SharedStore::OnDues(Flight& flight, std::span<const CellReply> replies) noexcept {
  for (size_t i = 0; i < flight.count; ++i) {
    const Run& run = flight.runs[i];
    const CellReply::Status status = replies[i].status;
    if (run.op == CellOp::kRenew) --run.cell->renewals_out;
    if (status == CellReply::Status::kDone) continue;
    if (run.op == CellOp::kRenew) {
      // It may be carried out yet.
      if (status == CellReply::Status::kUnknown) cells_.BeginEpoch(*run.cell);
      run.cell->renew_at = now_ + kRetryPause;
      renew_at_ = std::min(renew_at_, run.cell->renew_at);
    } else if (run.op != CellOp::kRelease) {
      StoreCounters::Add(counters_.dues_lost);
    } else if (status == CellReply::Status::kUnknown) {
      UnknownSlots(*run.cell);
    } else {
      ReleaseAgain(run);
    }
  }
}

// The cell's flight is back: those who waited for it are answered by what it learnt, and
// what is left goes in the next one.
void SharedStore::Landed(KnownCell& cell) noexcept {
  cell.in_flight = false;
  while (cell.first != nullptr && !cell.in_flight) {
    Ask& ask = *cell.first;
    const AskPart& part = ask.parts[ask.at];
    const bool local = HasLeased(part) || cell.Denial(part.cost, now_) ||
                       cell.Filtered(part.cost, now_) || reach_.Away(server_.ServerOf(cell.place));
    if (!local) break;
    Dequeue(ask);
    UnlistEnding(ask);
    Advance(ask);
  }
  if (cell.first != nullptr && !cell.in_flight) MarkDirty(cell);
}

void SharedStore::UnknownSlots(KnownCell& cell) noexcept {
  StoreCounters::Add(counters_.slots_leaked);
  cells_.BeginEpoch(cell);
}

}  // namespace flowguard::quota
