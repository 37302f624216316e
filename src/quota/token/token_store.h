// SPDX-License-Identifier: Apache-2.0
//
// The QuotaStore of cluster rules: each take is a question to a token server.
//
//   take ─► a server that answers? none ── failed: the rule's on_store_failure
//            └─► question ─► OK, SHOULD_WAIT ── taken
//                            BLOCKED ── refused
//                            anything else, or nothing in time ── failed
//
// Of several servers the first that answers is asked, in the order in which they are given;
// all are connected, so another one takes over with the next question.  One that comes back
// is asked again when it has been there for kSettle.
//
// The protocol takes nothing back but tokens, and peeks at nothing: of the takes of one
// request, which are asked one after the other, those that were granted before another one
// refused are lost, and counted; a peek is answered as if nothing had been taken, unasked.
//
// Threads: the loop's, save status(), which any may call.
// Memory:  bounded: kTokenCallsMax requests; more are answered as failed.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "flowguard/rule.h"
#include "flowguard/time.h"

#include "base/bounds.h"
#include "engine/quota_store.h"
#include "net/loop.h"
#include "quota/token/link.h"

namespace flowguard::quota::token {

inline constexpr Duration kSettle = std::chrono::seconds(1);

struct TokenStoreOptions {
  std::vector<std::string> servers;  // host:port, 1 to kTokenServersMax, the preferred first
  std::string name_space = "default";
  // Whether this store is counted among the clients of its namespace: one of a process is.
  bool registers = true;
  Duration timeout = std::chrono::milliseconds(20);  // of a question
  // How many processes share the limits while no server has told; 0: not known.
  int nodes = 0;
  // Told of each new count of clients; Engine::SetClusterNodes.
  std::function<void(int nodes)> on_nodes;
  uint64_t seed = 0;
};

// A reading.  Counts are of takes, and only grow.
struct TokenStoreStatus {
  int server = -1;  // that is asked, by place in the options; -1: none answers
  uint64_t granted = 0;
  uint64_t refused = 0;
  uint64_t failed = 0;
  uint64_t failed_away = 0;  // of these, at once, for no server answers
  uint64_t lost = 0;         // granted, and the request was refused by another rule
  uint64_t moved = 0;        // times that another server was turned to
  int clients = 0;           // registered in the namespace; 0: not known
};

class TokenStore final : public engine::QuotaStore, private LinkOwner {
 public:
  // Begins to connect when the loop turns.  `loop` must outlive it.
  TokenStore(net::Loop& loop, TokenStoreOptions options);
  ~TokenStore() override;
  TokenStore(const TokenStore&) = delete;
  TokenStore& operator=(const TokenStore&) = delete;

  // Tickets are distinct among the takes that are out.
  void Take(std::span<const engine::RemoteTake> takes, Instant now, Instant deadline,
            uint64_t ticket, engine::TakeSink* sink) noexcept override;
  void Abandon(uint64_t ticket, bool refused) noexcept override;
  // A token goes back to the server; units of a limit cannot, and are counted as lost.
  void GiveBack(const engine::RemoteTake& take, const limit::Receipt& receipt,
                Instant now) noexcept override;
  // Nothing: rules of scope cluster cannot charge.
  void Charge(const engine::RemoteTake& take, int64_t units, Instant now) noexcept override;
  [[nodiscard]] int Nodes() const noexcept override;

  // Requests that wait for an answer.
  [[nodiscard]] size_t pending() const noexcept { return by_ticket_.size(); }
  [[nodiscard]] TokenStoreStatus status() const noexcept;
  [[nodiscard]] std::span<const std::unique_ptr<Link>> links() const noexcept { return links_; }

 private:
  static constexpr size_t kTakesMax = base::kRemoteTakesPerRequestMax;

  // What is kept of a take.
  struct Question {
    LinkQuestion asks;  // its text views `texts` of the call
    bool soft = false;  // its refusal stops nothing
    bool askable = false;
    bool peeks = false;
    Rate rate;
  };
  struct Call {
    uint64_t ticket = 0;
    engine::TakeSink* sink = nullptr;  // null: nobody waits any more
    bool refused = false;              // the request did not go
    Instant deadline;
    size_t count = 0;
    size_t next = 0;  // that is asked, or is to be
    std::array<Question, kTakesMax> questions;
    std::array<engine::TakeOutcome, kTakesMax> outcomes;
    std::string texts;
  };

  void OnUp(Link& link) noexcept override;
  void OnDown(Link& link, std::string_view problem) noexcept override;
  void OnClients(Link& link, int32_t clients) noexcept override;
  void OnAnswer(uint64_t place, const wire::token::Answer* answer) noexcept override;

  [[nodiscard]] std::unique_ptr<Link> NewLink(const std::string& server, uint64_t seed);
  [[nodiscard]] Link* Preferred() noexcept;
  // Asks the questions from `next` on until one has to be waited for, or all are answered.
  // True: they are.
  [[nodiscard]] bool GoOn(Call& call, size_t place) noexcept;
  void End(Call& call, size_t place) noexcept;
  // The rest is not asked, for one has refused.
  void Refuse(Call& call) noexcept;
  // To every server that can be told: which one gave it is not kept, and no other one has it.
  // False: to none.
  bool Release(int64_t token_id) noexcept;
  // What is held of an outcome goes back, or is lost.
  void Undo(const Question& question, engine::TakeOutcome& outcome) noexcept;
  static engine::TakeOutcome OutcomeOf(const Question& question,
                                       const wire::token::Answer& answer) noexcept;
  void Count(const engine::TakeOutcome& outcome) noexcept;
  static void Add(std::atomic<uint64_t>& counter, uint64_t by = 1) noexcept {
    counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }

  net::Loop& loop_;
  const TokenStoreOptions options_;
  std::vector<std::unique_ptr<Link>> links_;  // in the order of the options
  int asked_server_ = -1;
  bool told_fewer_ = false;                   // clients than before, the last time
  bool has_asked_ = false;                    // before that it is no matter who came first
  std::vector<std::unique_ptr<Call>> calls_;  // all that were ever needed at once
  std::vector<size_t> free_;
  std::unordered_map<uint64_t, size_t> by_ticket_;

  std::atomic<int> server_{-1};
  std::atomic<int> nodes_;
  std::atomic<int> clients_{0};
  std::atomic<uint64_t> granted_{0};
  std::atomic<uint64_t> refused_{0};
  std::atomic<uint64_t> failed_{0};
  std::atomic<uint64_t> failed_away_{0};
  std::atomic<uint64_t> lost_{0};
  std::atomic<uint64_t> moved_{0};
};

}  // namespace flowguard::quota::token
