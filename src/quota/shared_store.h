// SPDX-License-Identifier: Apache-2.0
//
// The QuotaStore of a loop: turns takes into as few calls on a CellServer as it can,
// without ever granting more than asking for each one by itself would.
//
//   take ─► remembered refusal? ── refuse
//     ├───► used up by this node alone (prefilter)? ── refuse
//     ├───► a unit taken ahead (lease)? ── grant
//     ├───► server away? ── failed: the rule's on_store_failure
//     └───► queue of its cell ─► at the end of the turn, or when the call that is out for
//           this cell is back: one call for all that wait, those of one cost counted
//
// Takes of one cell are granted in order of arrival, the longest prefix that fits.  The
// takes of one request are all or nothing: in one step where their cells live together
// and are idle, else one after the other, with give-back when a later one refuses.
//
// Over-admission: none, but for leases, where it is at most the rule's overshoot.  What
// may have been applied is never asked again, so a lost reply costs units, not limits.
//
// Time: the store waits by its loop's clock; cells are decided by their servers'.
// Threads: the loop's, save status(), which any may call.
// Memory: bounded (base/bounds.h, kStore...); nothing is allocated for a take once as
// many have been out at one time before.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "flowguard/time.h"

#include "base/bounds.h"
#include "engine/quota_store.h"
#include "quota/ask.h"
#include "quota/cell_server.h"
#include "quota/known_cells.h"
#include "quota/node_register.h"
#include "quota/pool.h"
#include "quota/reach.h"
#include "quota/store_loop.h"
#include "quota/store_status.h"

namespace flowguard::quota {

inline constexpr size_t kOwnerNameBytesMax = 48;
inline constexpr Duration kLeaseRefresh = std::chrono::milliseconds(100);
inline constexpr Duration kLeaseIdle = std::chrono::milliseconds(200);  // then it is returned
inline constexpr Duration kLeaseSweep = std::chrono::milliseconds(50);
inline constexpr Duration kRetryPause = std::chrono::milliseconds(500);  // of releases, renewals
// For so many a node counts that is not heard of, and for so many fewer nodes are counted
// before it is believed.
inline constexpr int kBeatsToCount = 3;

struct SharedStoreOptions {
  // Of this store, distinct from every other that uses the servers: who holds leases and
  // slots.  At most kOwnerNameBytesMax.
  std::string owner;
  Duration deadline = std::chrono::milliseconds(20);  // of calls that no request waits for
  // How many nodes share the limits while the register has not counted them; 0: not known.
  int nodes = 0;
  // Who counts them; null: nobody.  One store of a process beats.
  NodeRegister* node_register = nullptr;
  Duration beat_every = std::chrono::seconds(5);
  // Told of each new count, on the store's thread; Engine::SetFallbackNodes.
  std::function<void(int nodes)> on_nodes;
  uint64_t seed = 0;  // of hashes and probes
};

class SharedStore final : public engine::QuotaStore, private CellSink, private NodeSink {
 public:
  // `loop` must outlive the store.  Calls that are out when it is destroyed must not be
  // answered any more: it goes when it is quiet, or together with its server.
  SharedStore(SharedStoreOptions options, StoreLoop& loop, CellServer& server);
  SharedStore(const SharedStore&) = delete;
  SharedStore& operator=(const SharedStore&) = delete;

  // Tickets are distinct among the takes that are out.  `takes` may be answered before it
  // returns.
  void Take(std::span<const engine::RemoteTake> takes, Instant now, Instant deadline,
            uint64_t ticket, engine::TakeSink* sink) noexcept override;
  void Abandon(uint64_t ticket, bool refused) noexcept override;
  void GiveBack(const engine::RemoteTake& take, const limit::Receipt& receipt,
                Instant now) noexcept override;
  void Charge(const engine::RemoteTake& take, int64_t units, Instant now) noexcept override;
  [[nodiscard]] int Nodes() const noexcept override;

  // Sends what waits and does what is due.  The loop calls it when the store asked to be
  // woken.
  void Turn(Instant now) noexcept;

  // Begins to beat; before that, and after Close, the register is left alone.
  void Open() noexcept;
  // Returns what was taken ahead and leaves the register.  Takes fail from here on.
  void Close() noexcept;
  // Nothing is out and nothing waits.
  [[nodiscard]] bool quiet() const noexcept;

  // Threads: any.
  [[nodiscard]] StoreStatus status() const noexcept { return counters_.Read(); }

 private:
  // One call of a flight.
  struct Run {
    CellOp op = CellOp::kTake;
    KnownCell* cell = nullptr;  // pinned
    Ask* first = nullptr;       // kTake, kPeek: who is answered by it, in order
    Ask* last = nullptr;
    int32_t count = 0;
    int64_t cost = 0;
    int64_t mark = 0;
    uint32_t epoch = 0;
    int tries = 0;
  };
  struct Flight {
    enum class Kind : uint8_t { kBatch, kTogether, kDues, kProbe };
    size_t pool_index = 0;
    Kind kind = Kind::kBatch;
    Instant sent_at;
    Instant deadline;
    Ask* ask = nullptr;   // kTogether
    uint32_t server = 0;  // kProbe
    size_t count = 0;
    std::array<Run, base::kCellCallsPerFlightMax> runs;
  };

  // --- shared_store.cc: asks
  void Fill(Ask& ask, std::span<const engine::RemoteTake> takes);
  void FillShards(AskPart& part, const engine::RemoteTake& take);
  void Start(Ask& ask) noexcept;
  bool RefusedAhead(Ask& ask) noexcept;
  [[nodiscard]] bool FitsTogether(const Ask& ask) const noexcept;
  // Goes on with the first part that is not settled, until the ask waits or has ended.
  void Advance(Ask& ask) noexcept;
  // Whether the part `at` can be settled without asking; if so, it has been, and the ask
  // may have ended.
  enum class Local : uint8_t { kNo, kSettled, kEnded };
  Local TryLocally(Ask& ask) noexcept;
  [[nodiscard]] std::optional<limit::Numbers> RememberedRefusal(const AskPart& part) noexcept;
  [[nodiscard]] bool HasLeased(const AskPart& part) const noexcept;
  // `time_us`: of the server's clock when it decided; 0: it did not.
  void Grant(Ask& ask, const limit::Numbers& numbers, const limit::Receipt& receipt,
             int64_t time_us) noexcept;
  void GrantLeased(Ask& ask) noexcept;
  // The part is refused: another shard is asked, the next part, or all is over (true).
  bool Refuse(Ask& ask, const limit::Numbers& numbers, int64_t time_us) noexcept;
  void Fail(Ask& ask) noexcept;
  void NotAsked(Ask& ask, size_t index) noexcept;
  void GiveBackTaken(Ask& ask, bool slots_only) noexcept;
  // Of a cell, with the mark as its server or its lease gave it.
  void GiveBackTo(KnownCell& cell, int64_t cost, int64_t mark) noexcept;
  // A reply came for the part `at`: on with the ask, or what Abandon asked for.
  void Resume(Ask& ask) noexcept;
  void Finish(Ask& ask) noexcept;
  void Tell(Ask& ask) noexcept;
  // Its time is over, and the call that it is in goes on for others.
  void FailFlying(Ask& ask) noexcept;
  void Drop(Ask& ask) noexcept;
  void Unlist(Ask& ask) noexcept;
  void Release(Ask& ask) noexcept;
  void Enqueue(Ask& ask) noexcept;
  void Dequeue(Ask& ask) noexcept;
  void ListEnding(Ask& ask) noexcept;
  void UnlistEnding(Ask& ask) noexcept;
  [[nodiscard]] Ask* FindAsk(uint64_t ticket) noexcept;
  void AnswerFailed(size_t count, uint64_t ticket, engine::TakeSink* sink) noexcept;

  // --- shared_store_flights.cc: calls and their replies
  void Flush() noexcept;
  void FlushCell(KnownCell& cell, Flight*& joint) noexcept;
  [[nodiscard]] static bool Joins(const Flight& flight, const KnownCell& cell) noexcept;
  void FlushDues() noexcept;
  void SendTogether(Ask& ask) noexcept;
  void AddTakes(Flight& flight, KnownCell& cell) noexcept;
  void AddLease(Flight& flight, KnownCell& cell) noexcept;
  Run& AddRun(Flight& flight, CellOp op, KnownCell& cell) noexcept;
  void Send(Flight& flight) noexcept;
  void OnReplies(uint64_t ticket, std::span<const CellReply> replies) noexcept override;
  void OnBatch(Flight& flight, std::span<const CellReply> replies) noexcept;
  void OnTogether(Flight& flight, std::span<const CellReply> replies) noexcept;
  void OnDues(Flight& flight, std::span<const CellReply> replies) noexcept;
  void OnTakeReply(const Flight& flight, Run& run, const CellReply& reply) noexcept;
  void OnLeaseReply(const Flight& flight, const Run& run, const CellReply& reply) noexcept;
  void Landed(KnownCell& cell) noexcept;
  void MarkDirty(KnownCell& cell) noexcept;
  void Learn(const Flight& flight, const Run& run, const CellReply& reply) noexcept;
  void UnknownSlots(KnownCell& cell) noexcept;

  // --- shared_store_upkeep.cc: what is due by time
  void AddDue(CellOp op, KnownCell& cell, int64_t cost, int64_t mark, uint32_t epoch,
              int tries = 0) noexcept;
  void ReleaseAgain(const Run& run) noexcept;
  void ExpireWaiting(Instant now) noexcept;
  void Upkeep(Instant now) noexcept;
  void SweepLeases(Instant now) noexcept;
  void EndLease(KnownCell& cell) noexcept;
  void RenewSlots(Instant now) noexcept;
  void Beat(Instant now) noexcept;
  void SendProbe(Instant now) noexcept;
  void OnNodes(uint64_t ticket, int nodes) noexcept override;
  void Wake() noexcept;
  void WakeSoon() noexcept;
  void HoldSlots(KnownCell& cell, uint32_t epoch, int64_t slots) noexcept;
  void DropSlots(KnownCell& cell, uint32_t epoch, int64_t slots) noexcept;
  [[nodiscard]] Instant NextRenewal(const KnownCell& cell) const noexcept;
  [[nodiscard]] int64_t LeaseMax(const KnownCell& cell) const noexcept;
  [[nodiscard]] std::string_view OwnerOf(uint32_t epoch, std::span<char> room) const noexcept;

  const SharedStoreOptions options_;
  StoreLoop& loop_;
  CellServer& server_;
  StoreCounters counters_;
  KnownCells cells_;
  Reach reach_;
  Pool<Ask> asks_;
  Pool<Flight> flights_;
  std::vector<Ask*> by_ticket_;
  Ask* first_ending_ = nullptr;
  Ask* last_ending_ = nullptr;
  std::vector<KnownCell*> dirty_;
  std::vector<KnownCell*> flushing_;
  std::vector<KnownCell*> leased_;  // pinned
  std::vector<KnownCell*> held_;    // pinned; those with slots
  std::vector<Run> dues_;           // their cells are pinned
  std::vector<Run> due_again_;      // releases that were not applied
  Instant now_;
  Instant wake_at_ = Instant::max();
  Instant sweep_at_ = Instant::max();
  Instant renew_at_ = Instant::max();
  Instant again_at_ = Instant::max();
  Instant beat_at_ = Instant::max();
  // That fewer nodes are counted than Nodes(), beat for beat, and the most of them.
  Instant fewer_since_ = Instant::max();
  int most_of_fewer_ = 0;
  uint32_t next_shard_ = 0;
  int nodes_ = 0;
  bool open_ = false;
  bool closed_ = false;
  bool beating_ = false;
};

}  // namespace flowguard::quota
