// SPDX-License-Identifier: Apache-2.0
//
// One epoll loop: descriptors, timers, and work posted from other threads.  A
// server runs one on each worker thread.
//
// Descriptors are watched edge-triggered for reading and writing from the start, so
// that a connection costs one epoll_ctl in its life: whoever watches reads until
// the socket is empty or remembers that it is not.
//
// Time: the clock is read once a turn, after the wait; everything that the turn
// does sees that one Now().
//
// Threads: all but Post and Stop are the loop's own thread only.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "flowguard/clock.h"
#include "flowguard/result.h"
#include "flowguard/time.h"

#include "net/timer.h"

namespace flowguard::net {

// What became of a descriptor.
struct Ready {
  bool readable = false;  // data, or the end of the stream
  bool writable = false;
  bool peer_closed = false;  // the peer sends no more, or the connection is broken
  bool broken = false;       // reset, or an error that the next call will tell
};

// Watches one descriptor.
class Watcher {
 public:
  Watcher() = default;
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;
  virtual ~Watcher() = default;

  virtual void OnReady(Ready ready) noexcept = 0;
  // The turn in which Loop::Retire was called is over: nothing of the loop points
  // here any more, and the watcher may be destroyed or used again.
  virtual void OnRetired() noexcept {}
  // The turn in which Loop::AtTurnEnd was called has done everything else.
  virtual void OnTurnEnd() noexcept {}

 private:
  friend class Loop;
  Watcher* next_retired_ = nullptr;
  bool again_ = false;  // Loop::Again was called, and OnReady not yet
};

class Loop {
 public:
  // `clock` must outlive the loop.
  // Errors: kResourceExhausted when the process has no descriptors left.
  static Result<std::unique_ptr<Loop>> Create(const Clock& clock);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // The time of this turn.
  [[nodiscard]] Instant Now() const noexcept { return now_; }

  [[nodiscard]] const Clock& clock() const noexcept { return clock_; }

  // Waits for events at most `wait_max` (and at most until the next timer), runs
  // everything that is due, and returns how many events there were.  With
  // Duration::zero() it never waits: what a test with a hand-moved clock uses.
  size_t RunOnce(Duration wait_max) noexcept;

  // Turns until Stop.
  void Run() noexcept;
  void Stop() noexcept;

  // Watches `fd`, edge-triggered, reading and writing.  False: the kernel refused.
  [[nodiscard]] bool Watch(int fd, Watcher& watcher) noexcept;
  // As Watch, but level-triggered and for reading only; for listeners.
  [[nodiscard]] bool WatchAccept(int fd, Watcher& watcher) noexcept;
  void Unwatch(int fd) noexcept;

  // No event that is already at hand reaches `watcher` any more; OnRetired runs at
  // the end of the turn.  The descriptor is closed or unwatched by the caller.
  void Retire(Watcher& watcher) noexcept;

  // As Retire, for who destroys the watcher before the loop turns again: no event that
  // is at hand reaches it, and OnRetired does not run.
  void Forget(Watcher& watcher) noexcept;

  // Calls watcher.OnReady (readable) once in the next turn, however often this was called, and
  // that turn does not wait: for who stops early so that others get their share.
  void Again(Watcher& watcher) noexcept;

  // Calls watcher.OnTurnEnd once, after the events and timers of this turn: for who
  // gathers what the turn brings and sends it in one write.  Outside of a turn, and from
  // OnTurnEnd itself: at the end of the next, which then does not wait.
  // Requires: not asked for already.
  void AtTurnEnd(Watcher& watcher) noexcept;

  void Arm(Timer& timer, Instant deadline) noexcept { timers_.Arm(timer, deadline); }
  void ArmAfter(Timer& timer, Duration delay) noexcept { timers_.Arm(timer, now_ + delay); }
  [[nodiscard]] size_t timers() const noexcept { return timers_.size(); }

  // Runs `work` on the loop's thread, in order of posting.
  // Threads: any.
  void Post(std::function<void()> work);

 private:
  static constexpr size_t kEventsMax = 256;

  Loop(const Clock& clock, int epoll_fd, int wake_fd);
  void Silence(Watcher& watcher) noexcept;
  size_t Wait(Duration wait_max) noexcept;
  void RunPosted() noexcept;
  void RunAgain() noexcept;
  void RunTurnEnd() noexcept;
  void RunRetired() noexcept;
  void Wake() noexcept;
  void DrainWakeup() noexcept;

  const Clock& clock_;
  const int epoll_fd_;
  const int wake_fd_;
  Instant now_;
  TimerHeap timers_;
  Watcher* retired_ = nullptr;
  std::vector<Watcher*> again_;             // asked for in this turn
  std::vector<Watcher*> again_running_;     // entries are nulled by Retire
  std::vector<Watcher*> turn_end_;          // as again_
  std::vector<Watcher*> turn_end_running_;  // as again_running_
  bool precise_wait_ = true;                // epoll_pwait2 exists

  struct Events;
  std::unique_ptr<Events> events_;

  std::atomic<bool> stop_{false};
  std::mutex posted_mutex_;
  std::vector<std::function<void()>> posted_;  // guarded by posted_mutex_
  std::vector<std::function<void()>> running_;
};

}  // namespace flowguard::net
