// SPDX-License-Identifier: Apache-2.0
//
// Asks: from a Take to its answer.  The calls that they become are in
// shared_store_flights.cc, what happens by time in shared_store_upkeep.cc.
#include "quota/shared_store.h"

#include <algorithm>
#include <utility>

#include "quota/soft_rule.h"
#include "rules/compiled_rule.h"

namespace flowguard::quota {
namespace {

using engine::RemoteTake;
using engine::TakeOutcome;
using limit::Numbers;
using limit::Receipt;

constexpr size_t kTicketBuckets = size_t{1} << 15;
static_assert(kTicketBuckets >= 2 * base::kStoreAsksMax);

// A receipt's mark must say which shard, or which lease, it is of: GiveBack gets nothing
// else.  Marks of servers are times or numbers of windows, never negative.
constexpr int64_t kShardFactor = base::kShardsMax;

// With the shard in it.  The TAT of a token bucket becomes a few ns earlier, for which less
// comes back; other marks are small enough to be multiplied.  Nothing: what cannot be said
// cannot be given back.
std::optional<int64_t> MarkWithShard(const KnownCell& cell, int64_t mark, int shard) noexcept {
  if (cell.shape.algorithm == Algorithm::kTokenBucket) {
    return mark - mark % kShardFactor + shard;
  }
  if (mark > INT64_MAX / kShardFactor - 1) return std::nullopt;
  return mark * kShardFactor + shard;
}

int64_t MarkWithoutShard(const KnownCell& cell, int64_t mark) noexcept {
  return cell.shape.algorithm == Algorithm::kTokenBucket ? mark - mark % kShardFactor
                                                         : mark / kShardFactor;
}

// The time of a decision that no server made.
constexpr int64_t kNotAsked = 0;

int64_t LeaseReceipt(int64_t lease) noexcept {
  return -1 - lease;
}

// The answer of one shard as the whole cell would give it.
void ScaleToWhole(const AskPart& part, Numbers& numbers) noexcept {
  if (part.shards <= 1) return;
  numbers.limit = part.whole_limit;
  numbers.remaining = std::min(numbers.remaining * part.shards, part.whole_limit);
}

}  // namespace

SharedStore::SharedStore(SharedStoreOptions options, StoreLoop& loop, CellServer& server)
    : options_(std::move(options)),
      loop_(loop),
      server_(server),
      cells_(server, options_.seed, counters_),
      reach_(options_.seed, counters_),
      asks_(base::kStoreAsksMax),
      flights_(base::kStoreFlightsMax),
      by_ticket_(kTicketBuckets),
      now_(loop.Now()) {
  // Who does not count has no say, for the configured number would stand beside the count.
  if (options_.node_register != nullptr)
    counters_.nodes.store(options_.nodes, std::memory_order_relaxed);
}

int SharedStore::Nodes() const noexcept {
  return nodes_ > 0 ? nodes_ : options_.nodes;
}

void SharedStore::Take(std::span<const RemoteTake> takes, Instant now, Instant deadline,
                       uint64_t ticket, engine::TakeSink* sink) noexcept {
  now_ = std::max(now_, now);
  if (closed_ || takes.size() > base::kRemoteTakesPerRequestMax) {
    return AnswerFailed(takes.size(), ticket, sink);
  }
  Ask* const ask = asks_.Take();
  if (ask == nullptr) {
    StoreCounters::Add(counters_.failed_full, takes.size());
    return AnswerFailed(takes.size(), ticket, sink);
  }
  ask->abandoned = false;
  ask->refused = false;
  ask->told = false;
  ask->at = 0;
  ask->ticket = ticket;
  ask->sink = sink;
  ask->deadline = deadline;
  Ask*& bucket = by_ticket_[ticket & (kTicketBuckets - 1)];
  ask->chain = bucket;
  bucket = ask;
  Fill(*ask, takes);
  Start(*ask);
}

void SharedStore::Fill(Ask& ask, std::span<const RemoteTake> takes) {
  ask.count = static_cast<uint8_t>(takes.size());
  for (size_t i = 0; i < takes.size(); ++i) {
    const RemoteTake& take = takes[i];
    AskPart& part = ask.parts[i];
    part = {};
    ask.outcomes[i] = {};
    part.cost = take.cost;
    part.soft = IsSoft(take.rule->rule);
    if (take.rule->rule.shards > 1) FillShards(part, take);
    part.cell = cells_.Get(take, std::max<int>(part.shard, 0));
    if (part.cell == nullptr) {
      StoreCounters::Add(counters_.failed_full);
      part.settled = true;  // as failed
    } else {
      cells_.Pin(*part.cell);
    }
  }
}

void SharedStore::FillShards(AskPart& part, const RemoteTake& take) {
  const int shards = take.rule->rule.shards;
  const int shard = static_cast<int>(next_shard_++ % static_cast<uint32_t>(shards));
  part.shards = static_cast<int16_t>(shards);
  part.shard = static_cast<int16_t>(shard);
  part.whole_limit = take.config.burst > 0 ? take.config.burst : take.config.rate.limit;
  if (take.cost == 0) return;
  part.other_shard = static_cast<int16_t>((shard + 1) % shards);
  part.other = cells_.Get(take, part.other_shard);
  if (part.other != nullptr) cells_.Pin(*part.other);
}

void SharedStore::Start(Ask& ask) noexcept {
  ask.state = Ask::State::kWaiting;
  if (RefusedAhead(ask)) return Finish(ask);
  if (FitsTogether(ask)) return SendTogether(ask);
  Advance(ask);
}

// Nothing is asked for a request that one of its cells is known to refuse.
bool SharedStore::RefusedAhead(Ask& ask) noexcept {
  for (size_t i = 0; i < ask.count; ++i) {
    const AskPart& part = ask.parts[i];
    if (part.settled || part.soft || part.shards > 1 || HasLeased(part)) continue;
    std::optional<Numbers> numbers = RememberedRefusal(part);
    if (!numbers) continue;
    for (size_t other = 0; other < ask.count; ++other)
      NotAsked(ask, other);
    ask.outcomes[i] = {.status = TakeOutcome::Status::kRefused, .numbers = *numbers, .receipt = {}};
    return true;
  }
  return false;
}

bool SharedStore::FitsTogether(const Ask& ask) const noexcept {
  if (ask.count < 2) return false;
  const KnownCell* const first = ask.parts[0].cell;
  for (size_t i = 0; i < ask.count; ++i) {
    const AskPart& part = ask.parts[i];
    const KnownCell* const cell = part.cell;
    if (part.settled || part.soft || part.cost == 0 || part.shards > 1) return false;
    if (cell->place != first->place || cell->in_flight || cell->first != nullptr) return false;
    if ((cell->leases && cell->lease.units > 0) || reach_.Away(server_.ServerOf(cell->place)))
      return false;
    for (size_t other = 0; other < i; ++other) {
      if (ask.parts[other].cell == cell) return false;
    }
  }
  return true;
}

void SharedStore::Advance(Ask& ask) noexcept {
  while (ask.at < ask.count) {
    if (ask.parts[ask.at].settled) {
      ++ask.at;
      continue;
    }
    if (ask.deadline <= now_) {
      StoreCounters::Add(counters_.failed_late);
      Fail(ask);
      continue;
    }
    const Local local = TryLocally(ask);
    if (local == Local::kEnded) return;
    if (local == Local::kNo) return Enqueue(ask);
  }
  Finish(ask);
}

SharedStore::Local SharedStore::TryLocally(Ask& ask) noexcept {
  AskPart& part = ask.parts[ask.at];
  if (HasLeased(part)) {
    GrantLeased(ask);
    return Local::kSettled;
  }
  if (const std::optional<Numbers> numbers = RememberedRefusal(part); numbers) {
    return Refuse(ask, *numbers, kNotAsked) ? Local::kEnded : Local::kSettled;
  }
  if (reach_.Away(server_.ServerOf(part.cell->place))) {
    StoreCounters::Add(counters_.failed_away);
    Fail(ask);
    return Local::kSettled;
  }
  return Local::kNo;
}

std::optional<Numbers> SharedStore::RememberedRefusal(const AskPart& part) noexcept {
  if (part.cost == 0 || !part.cell->MayRefuse()) return std::nullopt;
  std::optional<Numbers> numbers = part.cell->Denial(part.cost, now_);
  if (numbers) {
    StoreCounters::Add(counters_.denied);
    return numbers;
  }
  numbers = part.cell->Filtered(part.cost, now_);
  if (numbers) StoreCounters::Add(counters_.prefiltered);
  return numbers;
}

bool SharedStore::HasLeased(const AskPart& part) const noexcept {
  if (!part.cell->leases) return false;
  const Lease& lease = part.cell->lease;
  return part.cost > 0 && lease.open && lease.units >= part.cost && now_ < lease.expires;
}

void SharedStore::GrantLeased(Ask& ask) noexcept {
  AskPart& part = ask.parts[ask.at];
  Lease& lease = part.cell->lease;
  lease.units -= part.cost;
  lease.used_at = now_;
  Numbers numbers = part.cell->last;
  numbers.remaining = std::clamp<int64_t>(numbers.remaining + lease.units, 0, numbers.limit);
  StoreCounters::Add(counters_.leased);
  Grant(ask, numbers, {.cost = part.cost, .mark = LeaseReceipt(lease.mark)}, kNotAsked);
}

void SharedStore::Grant(Ask& ask, const Numbers& numbers, const Receipt& receipt,
                        int64_t time_us) noexcept {
  AskPart& part = ask.parts[ask.at];
  TakeOutcome& outcome = ask.outcomes[ask.at];
  outcome = {.status = TakeOutcome::Status::kTaken,
             .numbers = numbers,
             .receipt = receipt,
             .store_time_us = time_us};
  outcome.numbers.allowed = true;
  outcome.numbers.retry_after = Duration::zero();
  ScaleToWhole(part, outcome.numbers);
  if (part.shards > 1) {
    const std::optional<int64_t> mark = MarkWithShard(*part.cell, receipt.mark, part.shard);
    outcome.receipt = mark ? Receipt{receipt.cost, *mark} : Receipt{};
  }
  part.settled = true;
}

bool SharedStore::Refuse(Ask& ask, const Numbers& numbers, int64_t time_us) noexcept {
  AskPart& part = ask.parts[ask.at];
  if (part.other != nullptr && part.other_shard >= 0) {
    std::swap(part.cell, part.other);
    part.shard = part.other_shard;
    part.other_shard = -1;
    return false;
  }
  TakeOutcome& outcome = ask.outcomes[ask.at];
  outcome = {.status = TakeOutcome::Status::kRefused,
             .numbers = numbers,
             .receipt = {},
             .store_time_us = time_us};
  outcome.numbers.allowed = false;
  ScaleToWhole(part, outcome.numbers);
  part.settled = true;
  if (part.soft) return false;
  GiveBackTaken(ask, /*slots_only=*/false);
  for (size_t i = ask.at + size_t{1}; i < ask.count; ++i)
    NotAsked(ask, i);
  Finish(ask);
  return true;
}

void SharedStore::Fail(Ask& ask) noexcept {
  ask.outcomes[ask.at] = {};
  ask.parts[ask.at].settled = true;
}

// Of a request that another rule refuses: it would not have been in the way.
void SharedStore::NotAsked(Ask& ask, size_t index) noexcept {
  AskPart& part = ask.parts[index];
  if (part.cell == nullptr) return;
  TakeOutcome& outcome = ask.outcomes[index];
  outcome = {.status = TakeOutcome::Status::kTaken, .numbers = part.cell->last, .receipt = {}};
  outcome.numbers.allowed = true;
  outcome.numbers.retry_after = Duration::zero();
  outcome.numbers.wait = Duration::zero();
  part.settled = true;
}

void SharedStore::GiveBackTaken(Ask& ask, bool slots_only) noexcept {
  for (size_t i = 0; i < ask.count; ++i) {
    const AskPart& part = ask.parts[i];
    Receipt& receipt = ask.outcomes[i].receipt;
    if (part.cell == nullptr || receipt.cost == 0) continue;
    if (slots_only && !part.cell->shape.concurrency) continue;
    const int64_t mark =
        part.shards > 1 ? MarkWithoutShard(*part.cell, receipt.mark) : receipt.mark;
    GiveBackTo(*part.cell, receipt.cost, mark);
    receipt = {};
  }
}

void SharedStore::GiveBackTo(KnownCell& cell, int64_t cost, int64_t mark) noexcept {
  if (cell.shape.concurrency) {
    const auto epoch = static_cast<uint32_t>(mark);
    DropSlots(cell, epoch, cost);
    AddDue(CellOp::kRelease, cell, cost, 0, epoch);
    return;
  }
  if (mark < 0) {
    Lease& lease = cell.lease;
    const bool same = lease.open && LeaseReceipt(lease.mark) == mark && now_ < lease.expires;
    if (same) {
      lease.units += cost;
    } else {
      StoreCounters::Add(counters_.lease_units_expired, static_cast<uint64_t>(cost));
    }
    return;
  }
  AddDue(CellOp::kGiveBack, cell, cost, mark, 0);
}

void SharedStore::GiveBack(const RemoteTake& take, const Receipt& receipt, Instant now) noexcept {
  now_ = std::max(now_, now);
  if (receipt.cost <= 0) return;
  const bool sharded = take.rule->rule.shards > 1;
  const int shard = sharded ? static_cast<int>(receipt.mark % kShardFactor) : 0;
  KnownCell* const cell = cells_.Get(take, shard);
  if (cell == nullptr) {
    StoreCounters::Add(counters_.dues_lost);
    return;
  }
  GiveBackTo(*cell, receipt.cost, sharded ? MarkWithoutShard(*cell, receipt.mark) : receipt.mark);
}

void SharedStore::Charge(const RemoteTake& take, int64_t units, Instant now) noexcept {
  now_ = std::max(now_, now);
  if (units <= 0) return;
  // Which shard was taken from is not told; over many calls the charges spread as takes do.
  const int shards = take.rule->rule.shards;
  const int shard =
      shards > 1 ? static_cast<int>(next_shard_++ % static_cast<uint32_t>(shards)) : 0;
  KnownCell* const cell = cells_.Get(take, shard);
  if (cell == nullptr) {
    StoreCounters::Add(counters_.dues_lost);
    return;
  }
  AddDue(CellOp::kCharge, *cell, units, 0, 0);
}

void SharedStore::Abandon(uint64_t ticket, bool refused) noexcept {
  Ask* const ask = FindAsk(ticket);
  if (ask == nullptr) return;
  StoreCounters::Add(counters_.abandoned);
  ask->abandoned = true;
  ask->refused = refused;
  UnlistEnding(*ask);
  if (ask->state == Ask::State::kFlying) return;  // Resume does the rest
  Dequeue(*ask);
  GiveBackTaken(*ask, /*slots_only=*/!refused);
  Drop(*ask);
}

void SharedStore::Resume(Ask& ask) noexcept {
  ask.state = Ask::State::kWaiting;
  if (!ask.abandoned) return Advance(ask);
  // A slot is given back in any case: nobody will say when its call ends.
  GiveBackTaken(ask, /*slots_only=*/!ask.refused);
  Drop(ask);
}

void SharedStore::Finish(Ask& ask) noexcept {
  if (ask.abandoned) return Drop(ask);
  Tell(ask);
  Release(ask);
}

void SharedStore::FailFlying(Ask& ask) noexcept {
  UnlistEnding(ask);
  // What the call brings yet is not the request's any more: units stay taken, as those of a lost
  // reply, and slots go back.
  ask.told = true;
  ask.abandoned = true;
  ask.refused = false;
  Tell(ask);
  ask.outcomes.fill({});
}

void SharedStore::Tell(Ask& ask) noexcept {
  for (size_t i = 0; i < ask.count; ++i) {
    switch (ask.outcomes[i].status) {
      case TakeOutcome::Status::kTaken:
        // Nothing was taken where another rule refused.
        if (ask.outcomes[i].receipt.cost > 0 || ask.parts[i].cost == 0)
          StoreCounters::Add(counters_.granted);
        break;
      case TakeOutcome::Status::kRefused:
        StoreCounters::Add(counters_.refused);
        break;
      case TakeOutcome::Status::kFailed:
        StoreCounters::Add(counters_.failed);
        break;
    }
  }
  // From here on nobody finds it, so that it cannot be abandoned from inside the sink.
  Unlist(ask);
  ask.sink->OnTaken(ask.ticket, {ask.outcomes.data(), ask.count});
}

void SharedStore::Drop(Ask& ask) noexcept {
  if (!ask.told) Unlist(ask);
  Release(ask);
}

void SharedStore::Unlist(Ask& ask) noexcept {
  Ask** link = &by_ticket_[ask.ticket & (kTicketBuckets - 1)];
  while (*link != &ask)
    link = &(*link)->chain;
  *link = ask.chain;
}

void SharedStore::Release(Ask& ask) noexcept {
  for (size_t i = 0; i < ask.count; ++i) {
    AskPart& part = ask.parts[i];
    if (part.cell != nullptr) cells_.Unpin(*part.cell);
    if (part.other != nullptr) cells_.Unpin(*part.other);
  }
  ask.state = Ask::State::kFree;
  asks_.Return(&ask);
}

Ask* SharedStore::FindAsk(uint64_t ticket) noexcept {
  Ask* ask = by_ticket_[ticket & (kTicketBuckets - 1)];
  while (ask != nullptr && ask->ticket != ticket)
    ask = ask->chain;
  return ask;
}

void SharedStore::Enqueue(Ask& ask) noexcept {
  KnownCell& cell = *ask.parts[ask.at].cell;
  ask.state = Ask::State::kWaiting;
  ask.next = nullptr;
  ask.prev = cell.last_ask;
  (cell.last_ask != nullptr ? cell.last_ask->next : cell.first) = &ask;
  cell.last_ask = &ask;
  ListEnding(ask);
  if (!cell.in_flight) MarkDirty(cell);
}

void SharedStore::Dequeue(Ask& ask) noexcept {
  KnownCell& cell = *ask.parts[ask.at].cell;
  (ask.prev != nullptr ? ask.prev->next : cell.first) = ask.next;
  (ask.next != nullptr ? ask.next->prev : cell.last_ask) = ask.prev;
  ask.next = nullptr;
  ask.prev = nullptr;
}

// Nearly always the last: callers have one deadline.
void SharedStore::ListEnding(Ask& ask) noexcept {
  ask.listed_ending = true;
  Ask* before = last_ending_;
  while (before != nullptr && before->deadline > ask.deadline)
    before = before->prev_ending;
  ask.prev_ending = before;
  ask.next_ending = before != nullptr ? before->next_ending : first_ending_;
  (before != nullptr ? before->next_ending : first_ending_) = &ask;
  (ask.next_ending != nullptr ? ask.next_ending->prev_ending : last_ending_) = &ask;
  if (ask.prev_ending == nullptr) WakeSoon();
}

void SharedStore::UnlistEnding(Ask& ask) noexcept {
  if (!ask.listed_ending) return;
  ask.listed_ending = false;
  (ask.prev_ending != nullptr ? ask.prev_ending->next_ending : first_ending_) = ask.next_ending;
  (ask.next_ending != nullptr ? ask.next_ending->prev_ending : last_ending_) = ask.prev_ending;
  ask.next_ending = nullptr;
  ask.prev_ending = nullptr;
}

void SharedStore::AnswerFailed(size_t count, uint64_t ticket, engine::TakeSink* sink) noexcept {
  const std::array<TakeOutcome, base::kRemoteTakesPerRequestMax> failed{};
  StoreCounters::Add(counters_.failed, count);
  sink->OnTaken(ticket, {failed.data(), std::min(count, failed.size())});
}

}  // namespace flowguard::quota
