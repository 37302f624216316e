// SPDX-License-Identifier: Apache-2.0
//
// Start here.  A Guard holds a set of rules and their state, and answers, for
// every request or call, whether it may go now, must wait, or is refused.
//
//   auto guard = flowguard::Guard::Create(rules);            // Result<unique_ptr<Guard>>
//   Decision d = (*guard)->Check({.resource = "order:create", .dimensions = {{...}}});
//   if (!d.allowed()) return TooMany(d.retry_after);
//
//   Entry e = (*guard)->Enter(request);                      // holds concurrency, settles once
//   if (e) { Work(); e.Settle(Outcome::kOk); }
//
// Rule text (YAML) is read by rules_text.h, in the library FlowGuard::text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "flowguard/breaker_listener.h"
#include "flowguard/clock.h"
#include "flowguard/decision.h"
#include "flowguard/result.h"
#include "flowguard/rule.h"

namespace flowguard {

namespace engine {
class Engine;
class Attempt;
class QuotaStore;
}  // namespace engine
namespace guard {
class SamplerThread;
class StoreDriver;
}  // namespace guard

class Guard;

struct GuardOptions {
  const Clock* clock = nullptr;    // default: SystemClock().  Must outlive the Guard
  size_t cell_capacity = 100'000;  // live keys that are never forgotten (24 bytes each, see docs)
  size_t state_bytes = 64 << 20;   // bound for states larger than a word (sliding_log, ...)
  uint64_t hash_seed = 0;          // 0: drawn at random.  Tests name one
  // Calls that block for a store sleep so long in real time, whatever the clock.
  Duration store_deadline = std::chrono::milliseconds(20);
  BreakerListener* breaker_listener = nullptr;  // may be null; must outlive the Guard
  // Counts what comes of requests, by resource and caller (docs/statistics.md).
  bool statistics = false;
  // While rules limit CPU usage or load, a thread of the Guard reads them once a second.
  // false: who drives engine() tells them, or such rules refuse nothing.
  bool read_system = true;
  std::string system_root{};  // where proc and sys are; empty: the machine's own
  // For shared rules; must outlive the Guard.  Without one such rules are errors.
  engine::QuotaStore* store = nullptr;
};

// A guarded call in progress.  Settles exactly once: by Settle, or as kCancelled
// by its destructor.  Gives concurrency back, and returns or charges the
// difference between reserved and actual cost.
//
// Threads: one at a time; may be moved to, and settled on, another thread.  Must
// not outlive its Guard.
class [[nodiscard]] Entry {
 public:
  Entry() noexcept;  // holds no call, and is false
  // An entry that was moved from is as one that holds no call.
  Entry(Entry&&) noexcept;
  Entry& operator=(Entry&&) noexcept;
  ~Entry();

  [[nodiscard]] explicit operator bool() const noexcept { return decision_.allowed(); }
  [[nodiscard]] const Decision& decision() const noexcept { return decision_; }

  // Ends the call.  A second call does nothing.
  void Settle(Outcome outcome) noexcept;
  // The same, with the actual cost of the call: less than was reserved is given
  // back, more becomes debt of the rules that settle (up to their max_debt).
  void Settle(Outcome outcome, int64_t actual_cost) noexcept;

 private:
  friend class Executor;
  friend class Guard;
  // Attempts are kept for reuse by the thread that ends them.
  struct Recycle {
    void operator()(engine::Attempt* attempt) const noexcept;
  };
  // Begins a call and sleeps out nothing: one that a rule makes wait is waiting(), until
  // Continue, when its wait is over, takes concurrency.  Only that of this process: shared
  // slots are held from the beginning, as a store is asked once.
  Entry(Guard* guard, const Request& request, Duration wait_max, Instant now) noexcept;
  [[nodiscard]] bool waiting() const noexcept;
  void Continue(Instant now) noexcept;
  void End(Outcome outcome, const int64_t* actual_cost) noexcept;

  Decision decision_;
  std::unique_ptr<engine::Attempt, Recycle> attempt_;
  Guard* guard_ = nullptr;
};

// Threads: every method may be called from any thread at any time.  Check takes
// no lock for rules whose cells are one word (token_bucket, leaky_bucket,
// fixed_window).
class Guard {
 public:
  // Errors: kInvalidArgument naming the rule, the field, what was found and what
  // is allowed.
  static Result<std::unique_ptr<Guard>> Create(RuleSet rules, GuardOptions options = {});
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  // Replaces the rules at one instant.  State of unchanged rules is kept; a rule
  // whose limit changed keeps the debt of its cells, and one that counts by windows
  // starts anew if its window changed; a set with an error changes nothing.
  Result<void> Reload(RuleSet rules);

  // Adds a rule that the program itself declares, beside the code that it protects.
  // It holds over reloads, until a reloaded set has a rule of the same name: what
  // operators write wins over what is compiled in.
  // Errors: as Create; kAlreadyExists when another declaration has the name.
  Result<void> Declare(Rule rule);

  // Decides and takes.  With only local rules it never blocks; with shared rules
  // it blocks for the store, at most store_deadline.  Concurrency rules are looked
  // at and not taken (there is no end to give them back): use Enter for those.
  // kWait: the units are taken; the caller waits decision.wait and goes.
  Decision Check(const Request& request) noexcept;
  // The same at a given time, for callers that read the clock once for many calls.
  Decision CheckAt(Instant now, const Request& request) noexcept;
  // Takes nothing: what would a request of this cost be told now?  Cost 0 asks only
  // for the numbers.
  Decision Peek(const Request& request) noexcept;

  // As Check, and sleeps out a wait of at most `timeout` (kAllow then); a longer one
  // is refused at once, and takes nothing.
  Decision CheckFor(const Request& request, Duration timeout) noexcept;

  // Decides without blocking: `done` runs exactly once, before CheckAsync returns
  // if all rules are local, else on the store's thread when it answers, which it does
  // by the deadline.  The Guard has no thread of its own: if a store breaks its word
  // and never answers, a later call that asks it, or the end of the Guard, runs `done`
  // with what the rules say of a store that failed.
  void CheckAsync(const Request& request, std::function<void(const Decision&)> done);

  // Begins a guarded call: Check that also takes concurrency.  A decision of
  // kWait is slept out up to `timeout` (then concurrency is taken); with the
  // default of zero a call that would wait is refused.
  Entry Enter(const Request& request, Duration timeout = {}) noexcept;

  // For front doors that drive decisions themselves (servers).
  [[nodiscard]] engine::Engine& engine() noexcept { return *engine_; }

 private:
  friend class Entry;
  friend class Executor;
  Guard(const GuardOptions& options, std::unique_ptr<engine::Engine> engine);
  [[nodiscard]] Instant Now() const noexcept;
  void SleepUntil(Instant until) const noexcept;
  Decision CheckWithin(Instant now, const Request& request, Duration wait_max) noexcept;
  Result<void> LoadMerged();

  const Clock* clock_;  // null: the process's clock, read without a virtual call
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<guard::StoreDriver> driver_;  // null: no store
  const bool reads_system_;
  const std::string system_root_;
  std::unique_ptr<guard::SamplerThread> sampler_;  // under rules_mutex_; null: never needed yet

  std::mutex rules_mutex_;
  RuleSet loaded_;  // under rules_mutex_, as is:
  std::vector<Rule> declared_;
};

}  // namespace flowguard
