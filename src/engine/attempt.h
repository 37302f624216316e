// SPDX-License-Identifier: Apache-2.0
//
// One request's way through the engine: what it took so far, what it still asks of
// a store, and the answer.  Fixed size; nothing in it is allocated.
//
// An attempt that Begin left with something to end must be ended by its driver:
//
//   after Begin or Resume            driver
//   kRemote                          ask the store, then Resume (or Cancel)
//   kDone, mode kEnter, kWait        wait, then Continue (or Cancel)
//   kDone, mode kEnter, admitted     Settle when the call ends (or Cancel: it never went)
//   kDone, mode kCheck, allowed      nothing; Cancel while it has not gone
//   kDone, refused, or kPeek         nothing
//
// It holds no rule snapshot: rules may be reloaded any number of times while an
// attempt lives, and it ends on the cells that it was admitted by.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "flowguard/decision.h"

#include "base/bounds.h"
#include "base/hash.h"
#include "breaker/breaker.h"
#include "engine/engine.h"
#include "engine/quota_store.h"
#include "engine/statistics.h"
#include "limit/numbers.h"

namespace flowguard::engine {

struct LiveRule;
struct LiveSpec;

// A rule that let the request pass, and what is held of its cell.
struct Hold {
  enum class State : uint8_t {
    kNone,       // nothing held
    kDegraded,   // nothing held: over its limit, and the request goes on marked
    kSkipped,    // nothing held: would have refused, but is in shadow
    kRate,       // units of a local cell
    kLoanLater,  // units that are to come, which Finish takes
    kSlot,       // concurrency: released when the call ends
    kSlotLater,  // concurrency that Continue takes
    kAsked,      // a remote take without an answer yet
    kRemote,     // units or slots of a store
    kCall,       // a call, or a probe, that a breaker admitted and will hear of
    kCallLater,  // a breaker that did not refuse; admits at the end of Begin, or in Continue
  };
  const LiveRule* rule;
  const LiveSpec* spec;
  union {  // by the kind of rule
    base::Hash128 key;
    breaker::Breaker* breaker;
  };
  union {  // by state
    limit::Receipt receipt;
    breaker::BreakerTicket ticket;  // kCall
  };
  int64_t cost;  // units asked for
  State state;
  int16_t share_nodes;  // > 0: this node's share of so many, for the store did not answer
  bool settles;         // the actual cost counts for it
  bool waits;           // booked beyond what is there now
  uint8_t remote;       // kAsked, kRemote: its place in remote_takes()
  int64_t actual = -1;  // units that the call turned out to cost for this rule; < 0: not told
};

// Threads:  one at a time.
class Attempt {
 public:
  Attempt() noexcept {}  // NOLINT(modernize-use-equals-default): leaves the arrays unwritten
  // Requires: nothing to end any more (see above).
  ~Attempt();
  // Remote takes view the keys inside.
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  [[nodiscard]] const Decision& decision() const noexcept { return decision_; }

  // After Step::kRemote: what to ask the store, all or nothing, in this order.
  // After an admission: what a store was asked and took.
  [[nodiscard]] std::span<const RemoteTake> remote_takes() const noexcept {
    return {remote_.data(), remote_count_};
  }

  // The clock of the store when it decided, in us: of several takes the latest; 0: the
  // last Resume had no answer that the store itself decided.
  [[nodiscard]] int64_t store_time_us() const noexcept { return store_time_us_; }

  // Step::kRemote was returned and Resume not yet called.
  [[nodiscard]] bool remote_pending() const noexcept { return phase_ == Phase::kRemote; }
  // kWait in mode kEnter: Continue or Cancel comes next.
  [[nodiscard]] bool waiting() const noexcept { return phase_ == Phase::kWaiting; }
  // A Settle is due.
  [[nodiscard]] bool entered() const noexcept { return phase_ == Phase::kEntered; }

  // A Settle is due that only statistics would hear: no rule met the request.
  [[nodiscard]] bool only_counted() const noexcept { return entered() && unmatched_ && !inside_; }

  // The rules that hold something of this attempt, in order.  One may settle with what
  // a header of the response says (cost.settle): its driver reads that and tells.
  [[nodiscard]] size_t hold_count() const noexcept { return hold_count_; }
  // Lower-cased name; empty: rule `hold` settles by no header.
  [[nodiscard]] std::string_view settle_header(size_t hold) const noexcept;
  // Settle takes this for rule `hold`, whatever it is told of the whole call.
  // Requires: units >= 0.
  void set_actual_cost(size_t hold, int64_t units) noexcept;

  // Give-backs and charges for a store, left by Resume, Cancel or Settle for the
  // driver to pass on (the engine does no I/O).  Valid until the next engine call
  // on this attempt.
  struct StoreDue {
    const RemoteTake* take;
    limit::Receipt receipt;  // give back this much, or
    int64_t charge;          // charge this many units more
  };
  [[nodiscard]] std::span<const StoreDue> store_dues() const noexcept {
    return {dues_.data(), due_count_};
  }

 private:
  friend class Walk;
  friend class Engine;

  enum class Phase : uint8_t { kIdle, kRemote, kChecked, kWaiting, kEntered };

  // Room for objects that are written before they are read, and never destroyed.
  template <typename T, size_t kCount>
  class Room {
   public:
    [[nodiscard]] T* data() noexcept { return reinterpret_cast<T*>(bytes_); }
    [[nodiscard]] const T* data() const noexcept { return reinterpret_cast<const T*>(bytes_); }

   private:
    alignas(T) std::byte bytes_[sizeof(T) * kCount];
  };

  Decision decision_;
  Phase phase_ = Phase::kIdle;
  Mode mode_ = Mode::kCheck;
  uint8_t hold_count_ = 0;
  uint8_t remote_count_ = 0;
  uint8_t due_count_ = 0;
  bool breakers_ = false;      // some holds are of breakers
  bool priority_ = false;      // it may borrow, and waits
  bool loans_ = false;         // some holds are to borrow
  bool unmatched_ = false;     // no rule met the request
  bool inside_ = false;        // counted by system rules among the calls in progress
  bool inside_later_ = false;  // Continue does that
  uint16_t key_bytes_used_ = 0;
  int64_t request_cost_ = 0;
  Instant entered_at_{};
  int64_t store_time_us_ = 0;
  Duration wait_max_{};
  const LiveRule* wait_rule_ = nullptr;
  // System rules: the fewest calls that one of them allows at once, and which that is; and
  // the request among those of its second.
  int64_t calls_most_ = 0;
  const LiveRule* calls_rule_ = nullptr;
  limit::Receipt turn_;
  CountedAt counted_;
  Room<Hold, base::kRulesPerRequestMax> holds_;
  Room<RemoteTake, base::kRemoteTakesPerRequestMax> remote_;
  Room<StoreDue, base::kRemoteTakesPerRequestMax> dues_;
  std::array<char, base::kRemoteKeyBytesMax> key_bytes_;
};

}  // namespace flowguard::engine
