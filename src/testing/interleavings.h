// SPDX-License-Identifier: Apache-2.0
//
// For tests: runs a few threads one step at a time, in every order with at most so many
// preemptions.  A step is what a thread does up to its next atomic operation or lock; a
// preemption takes the turn from a thread that could go on.  Steps are seen by all in one
// order: what a weaker memory may do on top is for ThreadSanitizer.
//
// Every order is run from the start: a run follows the choices of the last one up to the
// last choice that has an alternative left, and takes that.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/check.h"
#include "base/mutex.h"

namespace flowguard::testing {

class Interleaving {
 public:
  using Program = std::function<void()>;

  struct Choice {
    size_t taken = 0;
    size_t options = 0;
  };

  // Runs the programs once, by `choices`; adds the choices that those do not tell.
  static void Run(const std::vector<Program>& programs, int preemptions_max,
                  std::vector<Choice>& choices) {
    Interleaving run(programs.size(), preemptions_max, choices);
    std::vector<std::thread> threads;
    for (size_t id = 0; id < programs.size(); ++id) {
      threads.emplace_back([&run, &programs, id] {
        run.WaitForTurn(id);
        Current() = {&run, id};
        programs[id]();
        Current() = {};
        run.threads_[id].ended = true;
        run.GiveTurn(run.Choose());
      });
    }
    run.GiveTurn(run.Choose());
    for (std::thread& thread : threads)
      thread.join();
  }

  // Called by the threads of a run before each step; elsewhere nothing.
  static void Step() {
    const Place place = Current();
    if (place.run == nullptr) return;
    const size_t next = place.run->Choose();
    if (next == place.id) return;
    place.run->GiveTurn(next);
    place.run->WaitForTurn(place.id);
  }
  // The same; the calling thread cannot go on while `lock_held`.
  static void StepUntilFree(const bool& lock_held) {
    const Place place = Current();
    if (place.run == nullptr) return;
    place.run->threads_[place.id].waits_for = &lock_held;
    Step();
    place.run->threads_[place.id].waits_for = nullptr;
  }

 private:
  struct Place {
    Interleaving* run = nullptr;
    size_t id = 0;
  };
  struct Thread {
    bool ended = false;
    const bool* waits_for = nullptr;

    [[nodiscard]] bool Able() const { return !ended && (waits_for == nullptr || !*waits_for); }
  };
  static constexpr size_t kNobody = static_cast<size_t>(-1);

  Interleaving(size_t threads, int preemptions_max, std::vector<Choice>& choices)
      : threads_(threads), preemptions_left_(preemptions_max), choices_(choices) {}

  static Place& Current() {
    thread_local Place place;
    return place;
  }

  void WaitForTurn(size_t id) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return turn_ == id; });
  }
  void GiveTurn(size_t id) {
    const std::lock_guard lock(mutex_);
    turn_ = id;
    changed_.notify_all();
  }

  // Who takes the next step; nobody when all have ended.
  size_t Choose() {
    std::vector<size_t> able;  // the last one first, so that choice 0 is no preemption
    for (size_t i = 0; i < threads_.size(); ++i) {
      const size_t id = (last_ + i) % threads_.size();
      if (threads_[id].Able()) able.push_back(id);
    }
    if (able.empty()) {
      for (const Thread& thread : threads_)
        FG_CHECK(thread.ended);  // else they wait for each other, and nothing can end them
      return kNobody;
    }
    const bool could_go_on = able[0] == last_;
    if (could_go_on && preemptions_left_ == 0) able.resize(1);
    if (depth_ == choices_.size()) choices_.push_back({0, able.size()});
    const size_t taken = choices_[depth_++].taken;
    if (could_go_on && taken > 0) --preemptions_left_;
    last_ = able.at(taken);
    return last_;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  size_t turn_ = kNobody;
  // Only whoever has the turn touches these.
  std::vector<Thread> threads_;
  int preemptions_left_;
  std::vector<Choice>& choices_;
  size_t depth_ = 0;
  size_t last_ = 0;
};

// Calls `make` for the programs of each run, and `check` after it.  Returns the runs.
template <class Make, class Check>
size_t RunAllInterleavings(int preemptions_max, const Make& make, const Check& check) {
  std::vector<Interleaving::Choice> choices;
  for (size_t runs = 1;; ++runs) {
    Interleaving::Run(make(), preemptions_max, choices);
    check();
    if (::testing::Test::HasFailure()) return runs;
    while (!choices.empty() && choices.back().taken + 1 == choices.back().options)
      choices.pop_back();
    if (choices.empty()) return runs;
    ++choices.back().taken;
  }
}

// The atomics and the lock of such threads.
struct SteppedSync {
  template <class T>
  class Atomic {
   public:
    explicit Atomic(T value) : value_(value) {}
    T load(std::memory_order) const noexcept {  // NOLINT(readability-identifier-naming)
      Interleaving::Step();
      return value_;
    }
    void store(T value, std::memory_order) noexcept {  // NOLINT(readability-identifier-naming)
      Interleaving::Step();
      value_ = value;
    }
    // NOLINTNEXTLINE(readability-identifier-naming)
    bool compare_exchange_weak(T& expected, T desired, std::memory_order) noexcept {
      Interleaving::Step();
      const bool same = value_ == expected;
      (same ? value_ : expected) = same ? desired : value_;
      return same;
    }

   private:
    T value_;
  };

  class FG_THREAD_ANNOTATION_(capability("mutex")) Mutex {
   public:
    void Take() {
      Interleaving::StepUntilFree(held_);
      held_ = true;
    }
    void Leave() { held_ = false; }

   private:
    bool held_ = false;
  };

  class FG_THREAD_ANNOTATION_(scoped_lockable) Lock {
   public:
    explicit Lock(Mutex& mutex) FG_ACQUIRE(mutex) : mutex_(mutex) { mutex_.Take(); }
    ~Lock() FG_RELEASE() { mutex_.Leave(); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    Mutex& mutex_;
  };
};

}  // namespace flowguard::testing
