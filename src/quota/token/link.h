// SPDX-License-Identifier: Apache-2.0
//
// One connection to one token server, kept up for ever: connects, registers, sends what a
// turn of the loop gathered in one write, matches answers by their xid, and comes back after a
// loss.
//
//   idle ─► connecting ─► greeting ──an answer──► ready ──break_after missed──► broken
//              ▲   └────────┴── too long, lost ──┐  │                             │
//           waiting ◄────────────────────────────┴──┴── lost, overdue ◄───────────┤
//                                                   ▲────a ping answered in time──┘
//
// A server that answers nothing any more, stopped or behind a broken network, or answers too
// late, is found out by the questions that are not answered in time.  While broken none are
// taken, and a ping now and then asks whether it is back.
//
// Threads: the loop's, save metrics, which any thread may read.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "flowguard/time.h"

#include "base/bounds.h"
#include "net/backoff.h"
#include "net/loop.h"
#include "net/resolver.h"
#include "net/socket.h"
#include "net/timer.h"
#include "wire/token_frames.h"

namespace flowguard::quota::token {

struct LinkOptions {
  std::string endpoint;  // host:port
  // Registered in when connected, and told how many are there; empty: not registered, so that
  // several connections of one process count as one client.
  std::string name_space;
  Duration connect_timeout = std::chrono::seconds(1);
  // Questions in a row that are not answered in time, of those that had at least `patience`.
  int break_after = 5;
  Duration patience = std::chrono::milliseconds(10);
  Duration probe_timeout = std::chrono::milliseconds(20);  // of a ping, while broken
  Duration register_every = std::chrono::seconds(5);
};

class Link;

// Told of what concerns more than one question.
class LinkOwner {
 public:
  virtual void OnUp(Link& link) noexcept = 0;
  // Lost or broken; it tries again by itself.  `problem` is for people.
  virtual void OnDown(Link& link, std::string_view problem) noexcept = 0;
  // How many clients are registered, this one among them.
  virtual void OnClients(Link& link, int32_t clients) noexcept = 0;
  // The end of a question, once, and not from inside Ask; it may ask again.  Null: not answered in
  // time, or the connection was lost; whether it was decided is not known then.
  virtual void OnAnswer(uint64_t ticket, const wire::token::Answer* answer) noexcept = 0;

 protected:
  ~LinkOwner() = default;
};

// What is asked.
struct LinkQuestion {
  wire::token::Type type = wire::token::Type::kFlow;  // flow, param flow, concurrent acquire
  int64_t flow_id = 0;
  int32_t count = 1;
  bool priority = false;
  std::string_view text{};  // of a param flow: its one value
};

class Link final : public net::Watcher, private net::ResolverUser {
 public:
  // `loop` and `owner` must outlive it.
  Link(net::Loop& loop, const LinkOptions& options, LinkOwner& owner, uint64_t seed);
  // Tells nobody: who waits for an answer is forgotten.
  ~Link() override;

  void Start();
  [[nodiscard]] const std::string& endpoint() const noexcept { return options_.endpoint; }

  // Whether questions are taken.
  [[nodiscard]] bool ready() const noexcept { return state_ == State::kReady; }
  // Since when; Requires: ready().
  [[nodiscard]] Instant ready_since() const noexcept { return ready_since_; }

  // Asks, and tells the owner by `deadline`.  False: it is not ready, or as much waits for an
  // answer or to be sent as may.
  // Cost: no allocation once as much was out before; deadlines that come in order.
  [[nodiscard]] bool Ask(const LinkQuestion& question, Instant deadline, uint64_t ticket) noexcept;
  // Gives a token back; nobody is told.  False: there is no connection, or no room.
  [[nodiscard]] bool Release(int64_t token_id) noexcept;

  // Questions without an answer.
  [[nodiscard]] size_t pending() const noexcept { return pending_; }

  // Only grow.
  struct Metrics {
    std::atomic<uint64_t> connects{0};
    std::atomic<uint64_t> asked{0};
    std::atomic<uint64_t> answered{0};
    std::atomic<uint64_t> missed{0};  // not answered in time
    std::atomic<uint64_t> late{0};    // answers to those
    std::atomic<uint64_t> broken{0};  // times that it was found out to be
  };
  [[nodiscard]] const Metrics& metrics() const noexcept { return metrics_; }

  void OnReady(net::Ready ready) noexcept override;
  void OnTurnEnd() noexcept override;

 private:
  enum class State : uint8_t {
    kIdle,
    kResolving,
    kConnecting,
    kGreeting,
    kReady,
    kBroken,
    kWaiting,
  };
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr size_t kReadBytes = 16 * 1024;
  static constexpr Duration kProbeFirst = std::chrono::milliseconds(100);
  static constexpr Duration kProbeMax = std::chrono::milliseconds(500);
  // A connection that lived so long was a good one.
  static constexpr Duration kGoodLife = std::chrono::seconds(1);

  // A question without an answer; those that wait are a list in the order of deadlines.
  struct Asked {
    uint64_t ticket = 0;
    Instant deadline{};
    int32_t xid = 0;      // 0: free
    bool patient = true;  // its end tells of the server, if it is missed
    uint32_t before = kNone;
    uint32_t behind = kNone;  // of a free one: the next free one
  };

  void OnResolved(const std::vector<net::Address>& found) noexcept override;
  void Connect();
  void Use(net::Fd fd);
  void OnConnected();
  void Ping(int32_t xid) noexcept;
  void Probe() noexcept;
  void OnPong(const wire::token::Answer& answer) noexcept;
  void BecomeReady() noexcept;
  void Close(std::string_view problem) noexcept;
  void CloseQuietly() noexcept;
  void LoseAll() noexcept;

  [[nodiscard]] bool HasRoom() const noexcept {
    return out_.size() - sent_ < base::kTokenUnsentBytesMax;
  }
  uint32_t Enlist(Instant deadline, uint64_t ticket) noexcept;
  void Missed(bool patient) noexcept;
  void Delist(uint32_t place) noexcept;
  [[nodiscard]] int32_t NextXid(uint32_t place) noexcept;
  void AskForFlush() noexcept;
  void Flush() noexcept;
  void Receive() noexcept;
  // False: the connection is closed.
  [[nodiscard]] bool ReadAnswers() noexcept;
  void OnAnswerRead(const wire::token::Answer& answer) noexcept;
  void OnStateTimer() noexcept;
  void OnDeadlineTimer() noexcept;
  static void Add(std::atomic<uint64_t>& counter) noexcept {
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  net::Loop& loop_;
  const LinkOptions options_;
  LinkOwner& owner_;
  Metrics metrics_;
  net::Resolver resolver_;
  net::Backoff backoff_;
  net::Timer state_timer_;     // connecting, waiting, probing, registering again
  net::Timer deadline_timer_;  // of the oldest question
  State state_ = State::kIdle;
  net::Fd fd_;
  uint32_t attempts_ = 0;
  Instant ready_since_{};
  int missed_ = 0;  // in a row
  // While broken: since when nothing at all was heard, and the ping that is out.
  Instant silent_since_{};
  Duration probe_wait_{};
  Instant probed_at_{};
  int32_t probe_xid_ = -1;  // below 0, so that no question has it

  std::string out_;
  size_t sent_ = 0;  // of out_
  bool flush_asked_ = false;
  bool blocked_ = false;  // the socket takes no more now
  std::string in_;        // the begin of an answer

  std::vector<Asked> asked_;  // all that were ever needed at once
  uint32_t free_ = kNone;
  uint32_t oldest_ = kNone;
  uint32_t newest_ = kNone;
  size_t pending_ = 0;
  int32_t turn_ = 0;   // of xids
  std::string value_;  // scratch
};

}  // namespace flowguard::quota::token
