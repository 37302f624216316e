// SPDX-License-Identifier: Apache-2.0
//
// Takes the questions of one worker's clients to the token service, and where the counts
// lie in a store, to that and back.
//
//   Ask ─► TokenService::Begin ─┬─► reply
//                               └─► store ─► TokenService::Resume ─► session, if it is there
//
// A client gives up after 20 ms.  The store has store_deadline; then this node's share
// decides, and the answer leaves 12 ms after the question at the latest.
//
// Threads: the loop's, save OnTaken (the store's).
// Memory:  5 KiB for each question that waits.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "flowguard/time.h"

#include "engine/attempt.h"
#include "engine/quota_store.h"
#include "net/loop.h"
#include "serve/open_entries.h"
#include "serve/token_counters.h"
#include "serve/token_service.h"
#include "wire/token_frames.h"

namespace flowguard::serve {

class TokenSession;

// Appends the frame that answers a question of `type` so.  What has no place in it is left out.
void AppendReply(int32_t xid, int8_t type, const TokenReply& reply, std::string& out);

class TokenQuestions final : public engine::TakeSink {
 public:
  // All must outlive this.  `store`: of this loop; null: the service has no rules that need
  // one.
  TokenQuestions(net::Loop& loop, TokenService& service, engine::QuotaStore* store,
                 Duration store_deadline, TokenServerCounters& counters);
  ~TokenQuestions() override;

  // True: `reply` is the answer.  False: it comes by session.AnswerLater.
  // Requires: `question` has a head, and is no ping that is well formed.
  [[nodiscard]] bool Ask(const wire::token::Question& question, TokenSession& session,
                         TokenReply& reply) noexcept;

  // Questions that wait for the store.
  [[nodiscard]] size_t waiting() const noexcept { return waiting_.size() - free_.size(); }

  // Gives back what tokens took from the store.  Call it before that closes; the
  // destructor does it as well.
  void EndTokens() noexcept;

  // engine::TakeSink
  void OnTaken(uint64_t ticket, std::span<const engine::TakeOutcome> outcomes) noexcept override;

 private:
  struct Waiting;

  Waiting& Keep(const wire::token::Question& question, TokenSession& session);
  void AskStore(Waiting& waiting) noexcept;
  void OnStoreAnswer(Waiting& waiting, uint64_t ticket,
                     std::span<const engine::TakeOutcome> outcomes) noexcept;
  void Finish(Waiting& waiting, std::span<const engine::TakeOutcome> outcomes) noexcept;
  void Cancel(engine::Attempt& attempt) noexcept;
  // The deadline is over and the store did not say so.
  void AbandonTake(Waiting& waiting) noexcept;
  void Free(Waiting& waiting) noexcept;
  void CountWaiting() noexcept;
  static void OnTimer(void* waiting) noexcept;

  net::Loop& loop_;
  TokenService& service_;
  engine::QuotaStore* const store_;
  const std::shared_ptr<StoreDues> dues_;  // null without a store
  const Duration store_deadline_;
  TokenServerCounters& counters_;
  std::unique_ptr<engine::Attempt> attempt_;
  std::vector<std::unique_ptr<Waiting>> waiting_;  // all that were ever needed at once
  std::vector<Waiting*> free_;
  std::string frame_;  // the answer being written
  // What is posted to the loop does nothing once this is gone.
  const std::shared_ptr<const bool> posted_to_ = std::make_shared<const bool>(true);
};

}  // namespace flowguard::serve
