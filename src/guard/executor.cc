// SPDX-License-Identifier: Apache-2.0
//
// The threads of an executor, and what becomes of a job that JobQueue gives out:
//
//   TakeExpired ─► kExpired
//   TakeReady ─► ask the Guard ─► admitted ─► Release ─► run ─► kRan, kFailed
//                   │   └─► never ─► Release ─► kRefused
//                   └─► booked, or refused for a time ─► PutBack
//
// An idle thread sleeps until something is due or somebody calls.  Whoever goes to run a job
// wakes another thread for what is queued, since it will not look itself for long.
#include "flowguard/executor.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/bounds.h"
#include "base/mutex.h"
#include "base/try.h"
#include "guard/job_queue.h"

namespace flowguard {
namespace {

using guard::JobQueue;
using guard::QueuedJob;
using JobPtr = JobQueue::JobPtr;

// When a rule that refuses cannot say for how long.
constexpr Duration kRetryUntold = std::chrono::milliseconds(100);
// Of a job that lacks a slot.  A store says when the first slot runs out that nobody gives
// back; one is given back at any time, and other processes do not tell of it.
constexpr Duration kSlotRetryMax = std::chrono::seconds(1);
// Of one sleep; whoever wakes sleeps again.
constexpr Duration kSleepMax = std::chrono::minutes(10);

Error Invalid(const Job& job, const std::string& what) {
  return Error::InvalidArgument("job of \"" + job.resource.substr(0, base::kResourceBytesMax) +
                                "\": " + what);
}

Result<void> CheckJob(const Job& job) {
  if (!job.run) return Invalid(job, "run: empty; it is the function to call");
  if (job.cost < 0 || job.cost > base::kCostMax) {
    return Invalid(job, "cost: " + std::to_string(job.cost) + "; allowed are 0 to " +
                            std::to_string(base::kCostMax));
  }
  if (job.start_within && *job.start_within <= Duration::zero()) {
    return Invalid(job, "start_within: " + std::to_string(job.start_within->count()) +
                            " ns; it is at least 1 ns");
  }
  if (job.dimensions.size() > base::kJobDimensionsMax) {
    return Invalid(job, "dimensions: " + std::to_string(job.dimensions.size()) + "; at most " +
                            std::to_string(base::kJobDimensionsMax));
  }
  size_t bytes = job.resource.size();
  for (const auto& [name, value] : job.dimensions)
    bytes += name.size() + value.size();
  if (bytes > base::kJobTextBytesMax) {
    return Invalid(job, "resource and dimensions: " + std::to_string(bytes) + " bytes; at most " +
                            std::to_string(base::kJobTextBytesMax));
  }
  return {};
}

Result<void> CheckOptions(const ExecutorOptions& options) {
  if (options.threads < 1 || options.threads > base::kExecutorThreadsMax) {
    return Error::InvalidArgument("threads: " + std::to_string(options.threads) +
                                  "; allowed are 1 to " +
                                  std::to_string(base::kExecutorThreadsMax));
  }
  if (options.capacity < 1 || options.capacity > base::kExecutorJobsMax) {
    return Error::InvalidArgument("capacity: " + std::to_string(options.capacity) +
                                  "; allowed are 1 to " + std::to_string(base::kExecutorJobsMax));
  }
  return {};
}

std::string ByRule(const Decision& decision) {
  return decision.rule != nullptr ? " by rule \"" + decision.rule->name + '"' : "";
}

std::string TextOf(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

// What a job's callback is told.
Error ErrorOf(JobEnd end, const QueuedJob& queued, const std::exception_ptr& exception) {
  const Decision& decision = queued.decision;
  const std::string job = "job of \"" + queued.job.resource + "\": ";
  switch (end) {
    case JobEnd::kRan:
      return {ErrorCode::kOk, {}};
    case JobEnd::kFailed:
      return {ErrorCode::kUnknown, job + "failed: " + TextOf(exception)};
    case JobEnd::kRefused: {
      std::string why = "refused for ever" + ByRule(decision);
      if (decision.reason == Reason::kInvalidCost) {
        why += ": its cost of " + std::to_string(queued.job.cost) + " is above " +
               std::to_string(decision.limit) + ", the most that can be had at once";
      }
      return {ErrorCode::kFailedPrecondition, job + why};
    }
    case JobEnd::kExpired: {
      const bool asked = !decision.allowed() || decision.verdict == Verdict::kWait;
      return {ErrorCode::kDeadlineExceeded,
              job + "not started within " + std::to_string(queued.job.start_within->count()) +
                  " ns" + (asked ? "; last kept waiting" + ByRule(decision) : "")};
    }
    case JobEnd::kDropped:
      return {ErrorCode::kCancelled, job + "dropped, as the executor was shut down"};
  }
  return {};
}

}  // namespace

struct Executor::Impl {
  Impl(Guard& its_guard, const ExecutorOptions& its_options) noexcept
      : guard(its_guard), options(its_options) {}

  void Work() noexcept FG_EXCLUDES(mutex);
  void Advance(JobPtr job, Instant now) FG_EXCLUDES(mutex);
  void Run(JobPtr job, Entry entry, Instant now) FG_EXCLUDES(mutex);
  void Hold(JobPtr job, Instant until, const RuleInfo* slot_of) FG_EXCLUDES(mutex);
  // `counter` counts this end.
  void End(const QueuedJob& job, JobEnd end, Duration queued, const std::exception_ptr& exception);
  void Sleep(std::optional<Instant> due, Instant now) FG_REQUIRES(mutex);
  // A job has left the queue: others may be due, or all may be done.
  void WakeOthers() FG_REQUIRES(mutex);
  void DropAll() FG_EXCLUDES(mutex);
  void Close(ShutdownMode mode) FG_EXCLUDES(mutex);

  Guard& guard;
  const ExecutorOptions options;
  base::Mutex joining;  // taken before mutex
  std::vector<std::thread> threads FG_GUARDED_BY(joining);
  mutable base::Mutex mutex;
  std::condition_variable_any wake;
  JobQueue queue FG_GUARDED_BY(mutex);
  ExecutorCounters counters FG_GUARDED_BY(mutex);  // `queued` is the queue's size
  bool closed FG_GUARDED_BY(mutex) = false;
  bool dropping FG_GUARDED_BY(mutex) = false;
  size_t telling FG_GUARDED_BY(mutex) = 0;  // calls of DropAll that tell of what they took
};

// --- the threads

void Executor::Impl::Work() noexcept {
  for (;;) {
    mutex.Lock();
    const Instant now = guard.Now();
    JobPtr late = queue.TakeExpired(now);
    JobPtr ready = late == nullptr ? queue.TakeReady(now) : nullptr;
    if (late != nullptr) {
      ++counters.expired;
      WakeOthers();
    } else if (ready != nullptr) {
      // Asking may take its time, and the end of a job may have made several lanes ready.
      if (queue.HasReady()) wake.notify_one();
    } else {
      // A drain returns when its threads have: not before all jobs have been told of.
      const bool done = closed && queue.size() == 0 && telling == 0;
      if (!done) Sleep(queue.NextDue(now), now);
      mutex.Unlock();
      if (done) return;
      continue;
    }
    mutex.Unlock();
    if (late != nullptr) {
      late->entry = Entry();
      End(*late, JobEnd::kExpired, now - late->submitted, nullptr);
    } else {
      Advance(std::move(ready), now);
    }
  }
}

void Executor::Impl::Sleep(std::optional<Instant> due, Instant now) {
  if (!due) {
    wake.wait(mutex);
  } else {
    wake.wait_for(mutex, std::min(*due - now, kSleepMax));
  }
}

void Executor::Impl::WakeOthers() {
  if (queue.size() > 0) {
    wake.notify_one();
  } else if (closed) {
    wake.notify_all();
  }
}

// Asks the rules for a job, or goes on with what they booked for it.
void Executor::Impl::Advance(JobPtr job, Instant now) {
  Entry entry = std::move(job->entry);
  if (entry.waiting()) {
    entry.Continue(now);
  } else {
    std::vector<DimensionValue> dimensions;
    for (const auto& [name, value] : job->job.dimensions)
      dimensions.push_back({name, value});
    const Request request{.resource = job->job.resource,
                          .method = {},
                          .path = {},
                          .dimensions = dimensions,
                          .cost = job->job.cost};
    const Duration wait_max = job->expires == Instant::max() ? kNever : job->expires - now;
    entry = Entry(&guard, request, wait_max, now);
  }
  const Decision& decision = job->decision = entry.decision();
  if (entry.waiting()) {
    job->entry = std::move(entry);
    Hold(std::move(job), now + decision.wait, nullptr);
  } else if (entry) {
    Run(std::move(job), std::move(entry), now);
  } else if (decision.retry_after == kNever) {
    {
      const base::MutexLock lock(mutex);
      ++counters.asked;
      ++counters.refused;
      queue.Release(*job, /*started=*/false);
      WakeOthers();
    }
    End(*job, JobEnd::kRefused, now - job->submitted, nullptr);
  } else {
    const bool slot = decision.reason == Reason::kConcurrency;
    Duration retry = decision.retry_after > Duration::zero() ? decision.retry_after : kRetryUntold;
    if (slot) retry = std::min(retry, kSlotRetryMax);
    // A store may have taken its time to answer.
    const Instant answered = guard.Now();
    const Instant until = retry < Instant::max() - answered ? answered + retry : Instant::max();
    // The end of a probe may close a breaker long before that.
    const bool by_end = slot || decision.reason == Reason::kBreaker;
    Hold(std::move(job), until, by_end ? decision.rule : nullptr);
  }
}

void Executor::Impl::Hold(JobPtr job, Instant until, const RuleInfo* slot_of) {
  {
    const base::MutexLock lock(mutex);
    ++counters.asked;
    if (!dropping) {
      queue.PutBack(std::move(job), until, slot_of);
      return;
    }
    ++counters.dropped;
    queue.Release(*job, /*started=*/false);
    WakeOthers();
  }
  job->entry = Entry();
  End(*job, JobEnd::kDropped, guard.Now() - job->submitted, nullptr);
}

void Executor::Impl::Run(JobPtr job, Entry entry, Instant now) {
  {
    const base::MutexLock lock(mutex);
    ++counters.asked;
    ++counters.running;
    queue.Release(*job, /*started=*/true);
    WakeOthers();
  }
  std::exception_ptr exception;
  try {
    job->job.run();
  } catch (...) {
    exception = std::current_exception();
  }
  entry.Settle(exception == nullptr ? Outcome::kOk : Outcome::kError);
  {
    const base::MutexLock lock(mutex);
    --counters.running;
    ++(exception == nullptr ? counters.ran : counters.failed);
    queue.SlotFreed(*job);
    WakeOthers();
  }
  End(*job, exception == nullptr ? JobEnd::kRan : JobEnd::kFailed, now - job->submitted, exception);
}

void Executor::Impl::End(const QueuedJob& job, JobEnd end, Duration queued,
                         const std::exception_ptr& exception) {
  if (!job.job.done) return;
  JobReport report;
  report.end = end;
  report.queued = queued;
  report.decision = job.decision;
  report.exception = exception;
  report.error = ErrorOf(end, job, exception);
  try {
    job.job.done(report);
  } catch (...) {  // NOLINT(bugprone-empty-catch): there is nobody to tell
  }
}

// --- the end

void Executor::Impl::DropAll() {
  std::vector<JobPtr> jobs;
  {
    const base::MutexLock lock(mutex);
    jobs = queue.TakeAll();
    counters.dropped += jobs.size();
    ++telling;
  }
  const Instant now = guard.Now();
  for (const JobPtr& job : jobs) {
    job->entry = Entry();
    End(*job, JobEnd::kDropped, now - job->submitted, nullptr);
  }
  const base::MutexLock lock(mutex);
  --telling;
  WakeOthers();
}

void Executor::Impl::Close(ShutdownMode mode) {
  {
    const base::MutexLock lock(mutex);
    closed = true;
    dropping |= mode == ShutdownMode::kDrop;
    wake.notify_all();
  }
  if (mode == ShutdownMode::kDrop) DropAll();
  const base::MutexLock lock(joining);
  for (std::thread& thread : threads)
    thread.join();
  threads.clear();
}

// --- what callers call

Executor::Executor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Executor::~Executor() {
  impl_->Close(ShutdownMode::kDrop);
}

Result<std::unique_ptr<Executor>> Executor::Create(Guard& guard, const ExecutorOptions& options) {
  FG_RETURN_IF_ERROR(CheckOptions(options));
  // Ends those threads that were started when one cannot be.
  std::unique_ptr<Executor> executor(new Executor(std::make_unique<Impl>(guard, options)));
  Impl& impl = *executor->impl_;
  const base::MutexLock lock(impl.joining);
  for (int i = 0; i < options.threads; ++i) {
    try {
      impl.threads.emplace_back([&impl] { impl.Work(); });
    } catch (const std::system_error& e) {
      return Error{ErrorCode::kResourceExhausted, "thread " + std::to_string(i + 1) + " of " +
                                                      std::to_string(options.threads) + ": " +
                                                      e.what()};
    }
  }
  return executor;
}

Result<void> Executor::Submit(Job job) {
  FG_RETURN_IF_ERROR(CheckJob(job));
  Impl& impl = *impl_;
  const Instant now = impl.guard.Now();
  const base::MutexLock lock(impl.mutex);
  if (impl.closed) return Error::Unavailable("the executor is shut down and takes no more jobs");
  if (impl.queue.size() >= impl.options.capacity) {
    ++impl.counters.rejected;
    return Error{ErrorCode::kResourceExhausted,
                 "the executor's queue is full: " + std::to_string(impl.queue.size()) +
                     " jobs; capacity is " + std::to_string(impl.options.capacity)};
  }
  impl.queue.Add(std::move(job), now);
  ++impl.counters.submitted;
  impl.wake.notify_one();
  return {};
}

void Executor::Shutdown(ShutdownMode mode) {
  impl_->Close(mode);
}

void Executor::AskAgain() {
  const base::MutexLock lock(impl_->mutex);
  impl_->queue.ReleaseHolds();
  impl_->wake.notify_all();
}

void Executor::Wake() {
  const base::MutexLock lock(impl_->mutex);
  impl_->wake.notify_all();
}

ExecutorCounters Executor::counters() const {
  const base::MutexLock lock(impl_->mutex);
  ExecutorCounters counters = impl_->counters;
  counters.queued = impl_->queue.size();
  return counters;
}

}  // namespace flowguard
