// SPDX-License-Identifier: Apache-2.0
//
// The order of an executor's jobs: which may be asked for now, which wait and until when.
//
//   Add ──► lane: jobs of one resource and the same dimension values, in order
//             │ the first of a lane, when the lane is not held ── TakeReady ──► out
//             ▼                                                                  │
//   TakeExpired, TakeAll           held until an instant ◄───────── PutBack ─────┤
//                                  the next of the lane  ◄───────── Release ─────┘
//
// It asks nobody and runs nothing: the executor asks the Guard for what TakeReady gave out,
// and puts it back or lets it go.  While a lane's first job is out, the lane gives out no
// other, so that jobs of a lane start in order.
//
// The end of a job may let others go before their instant: it is offered to those whose rule
// waits for it, one lane after another.  A job that is out then may have been answered before
// that end, and is asked for again at once when it is put back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "flowguard/decision.h"
#include "flowguard/executor.h"
#include "flowguard/guard.h"
#include "flowguard/time.h"

namespace flowguard::guard {

// Lanes of a rule that are asked for one after another when a job has ended; the others sit
// out their hold.
inline constexpr int kEndOffersMax = 16;

// That a job has ended, as the lanes that wait for a rule are told of it in turn.
struct EndOffer {
  const RuleInfo* rule = nullptr;  // null: none
  int left = 0;                    // lanes that it may still be passed on to
  bool to_several = false;         // may let more than one job go
};

struct QueuedJob {
  Job job;
  uint64_t number = 0;  // in order of Add
  Instant submitted{};
  Instant expires = Instant::max();  // not started after this
  std::string lane;
  Decision decision;  // the last one
  Entry entry;        // waiting: its units are booked
  // As of TakeReady:
  EndOffer offer;            // what made its lane ready
  uint64_t jobs_ended = 0;   // of SlotFreed
  uint64_t holds_ended = 0;  // of ReleaseHolds
};

// Threads: none of its own; the caller locks.
// Cost:    logarithmic in the number of jobs.
class JobQueue {
 public:
  using JobPtr = std::unique_ptr<QueuedJob>;

  JobQueue() = default;
  JobQueue(const JobQueue&) = delete;
  JobQueue& operator=(const JobQueue&) = delete;

  // Jobs that have not been let go, those that are out included.
  [[nodiscard]] size_t size() const noexcept { return size_; }

  void Add(Job job, Instant now);

  // A job whose time to start is over; null: none.
  JobPtr TakeExpired(Instant now);
  // The first of the jobs that may be asked for now; null: none.  It is out until PutBack
  // or Release.
  JobPtr TakeReady(Instant now);
  // The job is the first of its lane again, and the lane is held until `until`.  `slot_of`:
  // the rule that had no slot for it, or whose breaker refused it; SlotFreed ends the hold
  // then.  What would have ended the hold while the job was out does so now.
  void PutBack(JobPtr job, Instant until, const RuleInfo* slot_of);
  // The job has started, or ended without: the next of its lane may go.
  void Release(const QueuedJob& job, bool started);
  // A job that had started ended, and may have left a slot or closed a breaker: of those
  // that wait for that the longest-waiting of each rule, and of the same lane, may be asked
  // for.  When that one does not start, the next of the rule may; behind a breaker, which
  // may let all go, and after a job of several units, also when it does.
  void SlotFreed(const QueuedJob& ended);
  // Ends all holds but of those that wait for booked units.
  void ReleaseHolds();
  // All that are not out.
  std::vector<JobPtr> TakeAll();

  [[nodiscard]] bool HasReady() const noexcept { return !ready_.empty(); }
  // When there is something to take: `now` or later; nullopt: nothing without a call.
  [[nodiscard]] std::optional<Instant> NextDue(Instant now) const;

 private:
  struct Lane {
    enum class Place : uint8_t { kNone, kReady, kHeld };
    const std::string* name = nullptr;
    std::map<uint64_t, JobPtr> jobs;  // by number
    Place place = Place::kNone;       // kNone: its first job is out
    Instant until{};                  // kHeld
    const RuleInfo* slot_of = nullptr;
    EndOffer offer;  // kReady: by what; passed on if its first job does not start
    [[nodiscard]] uint64_t first() const { return jobs.begin()->first; }
  };
  using ByNumber = std::set<std::pair<uint64_t, Lane*>>;

  JobPtr Remove(Lane& lane, std::map<uint64_t, JobPtr>::iterator at);
  void MakeReady(Lane& lane, const EndOffer& offer = {});
  void Offer(Lane& lane, int left, bool to_several);
  void PassOn(const EndOffer& offer, uint64_t after);
  void Hold(Lane& lane, Instant until, const RuleInfo* slot_of);
  void Unplace(Lane& lane);

  std::map<std::string, Lane> lanes_;
  ByNumber ready_;  // lanes by their first job, as below
  std::set<std::pair<Instant, Lane*>> held_;
  std::map<const RuleInfo*, ByNumber> slots_;  // those of held_ that wait for one
  std::set<std::pair<Instant, std::pair<uint64_t, Lane*>>> expiries_;  // of jobs not out
  uint64_t next_number_ = 0;
  uint64_t jobs_ended_ = 0;
  uint64_t holds_ended_ = 0;
  size_t size_ = 0;
};

}  // namespace flowguard::guard
