// SPDX-License-Identifier: Apache-2.0
//
// Calls that began with /v1/enter and end, maybe on another connection, with
// /v1/exit.  A call whose time to live is over is settled as cancelled: who entered
// and died holds nothing for ever.
//
// Invariants
//   (1) At most `open_max` entries are open, `per_peer_max` of one address.
//   (2) Every entry settles exactly once: by End, by Expire, by SettleOwing, or by the
//       destructor.
//   (3) An id is 128 random bits, or what its caller made of as many as its protocol has room
//       for; nobody ends an entry that he was not given.
//   (4) What an entry took from a store goes back to that one, on that one's loop,
//       whichever thread settles it.
//
// Threads: any; one lock, held for a look-up and never while the engine works.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "flowguard/decision.h"
#include "flowguard/time.h"

#include "base/bounds.h"
#include "base/mutex.h"
#include "engine/attempt.h"
#include "engine/engine.h"
#include "engine/quota_store.h"
#include "http/ip_address.h"
#include "net/loop.h"

namespace flowguard::serve {

struct EntryId {
  uint64_t high = 0;
  uint64_t low = 0;

  // 32 hexadecimal digits.
  [[nodiscard]] std::string ToString() const;
  static std::optional<EntryId> Parse(std::string_view text) noexcept;
  // All zeros, never given to an entry: the id of calls that hold nothing.
  static constexpr EntryId Nothing() noexcept { return {}; }

  friend auto operator<=>(const EntryId&, const EntryId&) = default;
};

// The way back to the store of a loop: give-backs and charges of attempts, brought from
// any thread and passed on by the loop's.
class StoreDues final : public std::enable_shared_from_this<StoreDues> {
 public:
  // Both must live until Close has returned.
  StoreDues(net::Loop& loop, engine::QuotaStore& store) noexcept : loop_(loop), store_(store) {}

  // Passes on what an attempt owes that an engine call has just left.
  // Threads: the loop's.
  void Pass(const engine::Attempt& attempt) noexcept;

  // Has that done by the loop, soon; after Close, by nobody.
  // Threads: any.
  void Bring(std::unique_ptr<engine::Attempt> attempt);

  // Passes on what was brought until now.
  // Threads: the loop's.
  void PassBrought() noexcept;

  // The same, for the last time.
  // Threads: the loop's, or any once that one has ended.
  void Close() noexcept;

 private:
  net::Loop& loop_;
  engine::QuotaStore& store_;
  base::Mutex mutex_;
  std::vector<std::unique_ptr<engine::Attempt>> brought_ FG_GUARDED_BY(mutex_);
  bool closed_ FG_GUARDED_BY(mutex_) = false;
};

struct OpenEntriesCounters {
  size_t open = 0;
  uint64_t settled = 0;  // by End
  uint64_t expired = 0;
  uint64_t refused = 0;  // because the table was full, or the address had its share
};

// Of one address, of all that are open: a quarter stays for the others.
inline constexpr size_t kOpenEntriesPerPeerMax = base::kOpenEntriesMax / 4 * 3;

class OpenEntries {
 public:
  // `engine` must outlive this.
  OpenEntries(engine::Engine& engine, size_t open_max, size_t per_peer_max)
      : engine_(engine), open_max_(open_max), per_peer_max_(per_peer_max) {}
  ~OpenEntries();
  OpenEntries(const OpenEntries&) = delete;
  OpenEntries& operator=(const OpenEntries&) = delete;

  // Keeps an admitted attempt of `peer` until `expires`.  Nothing when there is no room:
  // the attempt stays with the caller, who cancels it.  `dues`: of the store that the
  // attempt took from; null: it asked none.
  // Requires: attempt->entered().
  std::optional<EntryId> Add(std::unique_ptr<engine::Attempt>& attempt, const http::IpAddress& peer,
                             Instant expires, std::shared_ptr<StoreDues> dues = nullptr);
  // The same under an id that the caller has made.  False: there is no room, or an entry
  // that has the id.
  bool AddAs(EntryId id, std::unique_ptr<engine::Attempt>& attempt, const http::IpAddress& peer,
             Instant expires, std::shared_ptr<StoreDues> dues);

  // Settles an entry.  False: there is none with this id (never given, ended already,
  // or expired).
  bool End(EntryId id, Outcome outcome, std::optional<int64_t> actual_cost, Instant now);

  // Abandons what has expired by `now` (Engine::Abandon); how many.
  size_t Expire(Instant now);

  // Abandons all that was added with `dues`: its store is about to end.
  void SettleOwing(const StoreDues& dues, Instant now);

  [[nodiscard]] OpenEntriesCounters Counters() const;

 private:
  using Peer = std::array<uint8_t, 16>;
  struct Open {
    std::unique_ptr<engine::Attempt> attempt;
    Instant expires;
    Peer peer;
    std::shared_ptr<StoreDues> dues;
  };
  using OpenMap = std::map<EntryId, Open>;

  // Forgets an entry; what it held is the caller's to settle.
  Open Remove(OpenMap::iterator at) FG_REQUIRES(mutex_);
  // `outcome` unset: nobody told how the call ended.
  void Settle(Open entry, std::optional<Outcome> outcome, std::optional<int64_t> actual_cost,
              Instant now);

  engine::Engine& engine_;
  const size_t open_max_;
  const size_t per_peer_max_;
  mutable base::Mutex mutex_;
  OpenMap open_ FG_GUARDED_BY(mutex_);
  std::map<Peer, size_t> open_of_peer_ FG_GUARDED_BY(mutex_);  // no zeros
  std::set<std::pair<Instant, EntryId>> by_expiry_ FG_GUARDED_BY(mutex_);
  OpenEntriesCounters counters_ FG_GUARDED_BY(mutex_);
  Instant latest_ FG_GUARDED_BY(mutex_);  // the latest time seen, for the destructor
};

}  // namespace flowguard::serve
