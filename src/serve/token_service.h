// SPDX-License-Identifier: Apache-2.0
//
// What a token server decides: questions of Sentinel's token protocol, answered by the rules
// of scope cluster that its files hold.
//
//   FLOW                  a limit without a key
//   PARAM_FLOW            a limit by values, a key each: all of them go, or none
//   CONCURRENT_ACQUIRE    a concurrency rule: held until CONCURRENT_RELEASE of the token, or
//                         for the rule's token_ttl
//
// The rules stand in an engine of the service's own (token_rules.h): what holds of its limits,
// exact under concurrency, bounded in memory, kept across reloads, holds here.  A limit per
// client is multiplied with the clients that are connected, at most once in kClientsLookEvery; with
// a store each server counts it for its own clients.  Beyond 64 they count in steps of 1/32.
// A rule belongs to a namespace, which bounds how many questions of it are decided in a
// second; rules of the namespace "default" count the clients of all namespaces.
//
//   what is asked                                    answer
//   a body that is not well formed, a flow id or
//   count below 1, a param flow without values       BAD_REQUEST
//   a flow id that no rule for such questions has    NO_RULE_EXISTS
//   more questions of the namespace than it may,
//   more values than a request may have keys (32,
//   shared 8), a table of tokens that is full        TOO_MANY_REQUEST
//   a store that does not answer, and no share       FAIL
//   too little is left                               BLOCKED; SHOULD_WAIT with the units taken,
//                                                    where a prioritised flow may borrow them
//   a token that nobody holds (any more)             ALREADY_RELEASE
//
// Threads: all methods from any thread.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "flowguard/result.h"
#include "flowguard/time.h"

#include "base/mutex.h"
#include "engine/attempt.h"
#include "engine/engine.h"
#include "engine/generations.h"
#include "engine/quota_store.h"
#include "http/ip_address.h"
#include "serve/open_entries.h"
#include "serve/token_rules.h"
#include "serve/token_space.h"
#include "wire/token_frames.h"

namespace flowguard::serve {

inline constexpr Duration kClientsLookEvery = std::chrono::milliseconds(100);

struct TokenServiceOptions {
  // The counts live in the store of the driver: the rules are shared ones there.
  bool shared = false;
  int nodes = 0;           // token servers that share them, as engine::EngineOptions
  size_t cells = 0;        // the same; 0: as there
  size_t state_bytes = 0;  // the same
  bool statistics = true;
  uint64_t hash_seed = 0;
};

// What a question of a flow, a param flow or a token is answered.
struct TokenReply {
  wire::token::Status status = wire::token::Status::kFail;
  int32_t remaining = 0;  // of several values -1
  int32_t wait_ms = 0;
  int64_t token_id = 0;
};

// Questions by what became of them.
struct TokenCounts {
  // Empty: what belongs to no namespace that has rules, and releases of tokens.
  std::string name_space;
  // By wire::token::Status, as its value + kTokenStatusOffset.
  std::array<uint64_t, kTokenStatuses> answered{};
  size_t clients = 0;  // connected, and registered there
};

class TokenService {
 public:
  // Errors: those of engine::Engine::Create.
  static Result<std::unique_ptr<TokenService>> Create(const TokenServiceOptions& options);
  ~TokenService();
  TokenService(const TokenService&) = delete;
  TokenService& operator=(const TokenService&) = delete;

  // Replaces the rules of all namespaces.  Counts of rules that stay go on.
  // Errors: a line each, with the place of the rule: those of CheckTokenRules,
  //         MakeTokenRules and engine::Engine::Load; more than kTokenNamespacesMax namespaces since
  //         the start. Nothing has changed then.
  // Cost:   Begin goes on meanwhile; Load and Look wait for each other.
  Result<void> Load(std::vector<TokenNamespace> namespaces, Instant now);

  // Multiplies limits per client anew, if clients came or went, and not less than
  // kClientsLookEvery after the last time.  Until then those that came have what those before
  // them had, and the first of all nothing: call it often.
  // Cost: a look at the clients of the namespaces that have such limits; that of an
  //       engine::Engine::Load where their numbers changed.
  void Look(Instant now);

  // A client registers in a namespace.  Result: the clients there, this one among them.
  int32_t Join(std::string_view name_space);
  // One that registered there leaves, or registers elsewhere.
  void Leave(std::string_view name_space);

  // Decides a question that is no ping.  True: `reply` is the answer, and `attempt` may be used
  // again.  False: the store has to be asked for attempt->remote_takes(), and Resume follows,
  // with the same attempt; or Cancel.  Only of a service whose rules are shared.
  // `dues`: the way back to the store of the calling loop, or null.
  // Cost:    about that of a decision; no lock and no allocation, save for tokens.
  [[nodiscard]] bool Begin(std::unique_ptr<engine::Attempt>& attempt,
                           const wire::token::Question& question, const http::IpAddress& peer,
                           const std::shared_ptr<StoreDues>& dues, Instant now,
                           TokenReply& reply) noexcept;

  // What is kept of a question whose answer comes later.
  struct Later {
    int64_t flow_id = 0;
    int8_t type = 0;
    int32_t count = 0;
    int32_t values = 0;  // of a param flow
  };
  static Later KeepOf(const wire::token::Question& question) noexcept;
  // `outcomes`: as of engine::Engine::Resume; none: the store has not answered.
  void Resume(std::unique_ptr<engine::Attempt>& attempt, const Later& question,
              std::span<const engine::TakeOutcome> outcomes, const http::IpAddress& peer,
              const std::shared_ptr<StoreDues>& dues, Instant now, TokenReply& reply) noexcept;
  // The one who asked has gone before the store answered.  Its take is the driver's to
  // abandon.
  void Cancel(engine::Attempt& attempt, Instant now) noexcept;

  // Gives back tokens whose time is over.  Call it now and then.
  void Expire(Instant now);
  // Settles the tokens that took from a store through `dues`, before that closes.
  void EndTokens(const StoreDues& dues, Instant now);

  [[nodiscard]] engine::Engine& engine() noexcept { return *engine_; }
  [[nodiscard]] OpenEntriesCounters Tokens() const { return tokens_.Counters(); }
  // By namespace: every one that had rules since the start, and what belongs to none.
  [[nodiscard]] std::vector<TokenCounts> Counted() const;

 private:
  // What questions are looked up in.
  struct Table {
    TokenFlows flows;
    std::vector<TokenSpace*> spaces;  // by TokenFlow::space
  };
  // A question that the engine has answered.
  struct Asked {
    rules::FlowQuestion question;
    size_t values;
    int64_t units;
    const TokenFlow& flow;
    const http::IpAddress& peer;
    const std::shared_ptr<StoreDues>& dues;
  };

  TokenService(const TokenServiceOptions& options, std::unique_ptr<engine::Engine> engine);

  Result<void> Publish(std::span<const TokenNamespace> namespaces,
                       const std::vector<size_t>& clients, Instant now) FG_REQUIRES(load_mutex_);
  [[nodiscard]] Result<void> CheckRoom(std::span<const TokenNamespace> namespaces) const;
  [[nodiscard]] std::vector<TokenSpace*> SpacesOf(std::span<const TokenNamespace> namespaces);
  [[nodiscard]] static size_t InSteps(size_t clients) noexcept;
  [[nodiscard]] bool HasClients(const TokenSpace& space) const;
  // Of each namespace whose rules count them; of others 1.
  [[nodiscard]] std::vector<size_t> ClientsOf(std::span<const TokenNamespace> namespaces,
                                              const std::vector<bool>& counts_clients) const;

  [[nodiscard]] wire::token::Status Release(int64_t token_id,
                                            const std::shared_ptr<StoreDues>& dues,
                                            Instant now) noexcept;
  void Answer(std::unique_ptr<engine::Attempt>& attempt, const Asked& asked, Instant now,
              TokenReply& reply) noexcept;
  // Of an attempt that went: gives back what the units needed beyond those that they take.
  void SettleNeeds(engine::Attempt& attempt, int64_t units, Instant now) noexcept;
  void GiveToken(std::unique_ptr<engine::Attempt>& attempt, const Asked& asked, Instant now,
                 TokenReply& reply) noexcept;
  void CancelAndPass(engine::Attempt& attempt, const std::shared_ptr<StoreDues>& dues,
                     Instant now) noexcept;

  const bool shared_;
  const std::unique_ptr<engine::Engine> engine_;
  OpenEntries tokens_;
  engine::Generations<Table> table_;
  TokenSpace nowhere_;  // counts what belongs to no namespace
  TokenClients clients_;
  mutable base::Mutex spaces_mutex_;
  // By name; none is ever taken out, for questions point to them.
  std::map<std::string, std::unique_ptr<TokenSpace>, std::less<>> spaces_ FG_GUARDED_BY(
      spaces_mutex_);
  base::Mutex load_mutex_;                                             // before spaces_mutex_
  std::vector<TokenNamespace> namespaces_ FG_GUARDED_BY(load_mutex_);  // as loaded last
  TokenWindows windows_ FG_GUARDED_BY(load_mutex_);                    // the same
  std::vector<bool> counts_clients_ FG_GUARDED_BY(load_mutex_);        // by place there
  std::vector<size_t> seen_clients_ FG_GUARDED_BY(load_mutex_);        // the same
  std::optional<Instant> multiplied_ FG_GUARDED_BY(load_mutex_);       // by Look, the last time
};

}  // namespace flowguard::serve
