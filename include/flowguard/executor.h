// SPDX-License-Identifier: Apache-2.0
//
// A bounded queue of jobs that run when the rules of a Guard let them: for heavy work that
// may come later but not all at once, such as exports, reports and mails.
//
//   auto executor = flowguard::Executor::Create(guard, {.threads = 2, .capacity = 1'000});
//   auto queued = (*executor)->Submit({.resource = "report:export",
//                                      .dimensions = {{"user", user}},
//                                      .run = [=] { Export(order); },
//                                      .done = [=](const JobReport& report) { Tell(report); }});
//   if (!queued.ok()) return Busy(queued.error().message);
//
// Where a refused call is answered at once (guard.h, protect.h), a refused job stays queued
// and is asked for again when the rules say that it may go.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "flowguard/decision.h"
#include "flowguard/guard.h"
#include "flowguard/result.h"
#include "flowguard/time.h"

namespace flowguard {

// How a job ended.  Every job that Submit took ends exactly once.
enum class JobEnd : uint8_t {
  kRan,      // `run` returned
  kFailed,   // `run` threw
  kRefused,  // a rule will never let it go: its cost is above what the rule can grant, ...
  kExpired,  // it could not be started within its start_within
  kDropped,  // Shutdown dropped it before it was started; one that rules were just being
             // asked for, and that they admit, runs
};

struct JobReport {
  JobEnd end = JobEnd::kRan;
  // From Submit to when it started or, of one that never did, to its end.
  Duration queued{};
  // What the rules last said of it: what admitted it, or what kept it waiting.
  Decision decision{};
  // What `run` threw (kFailed only).
  std::exception_ptr exception{};
  // For a person.  Of kRan its code is kOk; of kFailed kUnknown with the exception's text, of
  // kRefused kFailedPrecondition, of kExpired kDeadlineExceeded, of kDropped kCancelled.
  Error error{ErrorCode::kOk, {}};
};

// A job, and what rules are asked for it.
struct Job {
  std::string resource{};                                         // "report:export"
  std::vector<std::pair<std::string, std::string>> dimensions{};  // {"user", "u42"}, ...
  int64_t cost = 0;                        // units; 0: what each rule reserves (1 unless told)
  std::optional<Duration> start_within{};  // from Submit; later it is not started any more
  std::function<void()> run{};
  // Called once, when the job has ended; may be empty.  What it throws ends there.
  std::function<void(const JobReport&)> done{};
};

struct ExecutorOptions {
  int threads = 1;          // jobs that run at one time
  size_t capacity = 1'000;  // jobs that are queued at one time; those that run are no more
};

// As of one instant.  `queued` and `running` go up and down, the others only grow; at every
// instant submitted = queued + running + ran + failed + refused + expired + dropped.
struct ExecutorCounters {
  uint64_t submitted = 0;  // taken by Submit
  uint64_t rejected = 0;   // not taken, for the queue was full
  uint64_t asked = 0;      // times that the rules were asked for a job, or its wait had ended
  size_t queued = 0;
  size_t running = 0;
  uint64_t ran = 0;
  uint64_t failed = 0;
  uint64_t refused = 0;
  uint64_t expired = 0;
  uint64_t dropped = 0;
};

enum class ShutdownMode : uint8_t {
  kDrain,  // what is queued runs, when the rules let it
  kDrop,   // what is queued ends as kDropped
};

// Jobs of one resource and the same dimension values are let go in the order in which they
// were submitted; two of them may run at one time on two threads.  Those of others go past one that
// has to wait: of all jobs that may go, the one submitted first is asked for first.
//
// A job that a rule makes wait holds what was booked for it and starts when the wait ends:
// its units, and its slots of shared concurrency rules, which no other job or process has
// meanwhile; those of this process it takes when it starts.  One that a rule refuses is asked
// for again after the rule's retry_after and not before, but for two reasons.  Where a slot is
// wanting, or a breaker refuses, it is also asked for when a job of this executor ends: the
// job of the rule that waits longest, then those behind it, until one takes the slot or a
// few were asked in vain.  And a slot that another process may give back is asked for every
// second.  A rule that degrades lets a job run at once, and the report's decision says
// `degraded`; where it degrades with a status, to answer in the call's place, the job runs all
// the same and no breaker counts it, so such a rule is not for jobs.
//
// A job occupies no thread while it waits; asking for one occupies it for as long as
// Guard::Enter takes, which with shared rules is that of the store.
//
// Threads:  every method may be called from any thread at any time, those of jobs and
//           callbacks included, but for Shutdown and the destructor.  `run` is called on a
//           thread of the executor; `done` too, but for a job that is dropped also on one
//           that is in Shutdown or the destructor.
// Time:     that of the Guard's clock.
class Executor {
 public:
  // Starts the threads.  The Guard must outlive the executor.
  // Errors: kInvalidArgument for options out of range; kResourceExhausted when the system
  // has no more threads.
  static Result<std::unique_ptr<Executor>> Create(Guard& guard,
                                                  const ExecutorOptions& options = {});
  // Shutdown(kDrop), if there was none.
  // Requires: not from a job or callback of this executor, and every call of Shutdown has
  // returned, those that cut another short too.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Queues a job.  Does not ask the rules, and does not block.
  // Errors, and the job is not taken: kInvalidArgument for a job without `run`, or with a
  // cost, time or text out of range; kResourceExhausted when the queue is full; kUnavailable
  // after Shutdown.
  Result<void> Submit(Job job);

  // Takes no more jobs, ends those that are queued, and returns when all have ended and been
  // told of, whichever call ended them; jobs that run are never interrupted.  A drain lasts
  // as long as the rules make it: a second call, with kDrop, cuts it short.
  // Requires: not from a job or callback of this executor.
  void Shutdown(ShutdownMode mode);

  // Asks at once for every job that waits to be asked for again: what a rule said may no
  // longer hold after Guard::Reload.  Jobs that wait for booked units keep their turn.
  void AskAgain();

  // Looks at the Guard's clock now.  Only for a clock that jumps, as a test's does: threads
  // sleep in real time until something is due.
  void Wake();

  [[nodiscard]] ExecutorCounters counters() const;

 private:
  struct Impl;
  explicit Executor(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace flowguard
