// SPDX-License-Identifier: Apache-2.0
//
// What the cells of shared rules hold now, read from Redis: nothing is taken, and nothing
// written.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "flowguard/result.h"
#include "flowguard/time.h"

#include "app/settings.h"
#include "engine/quota_store.h"
#include "net/loop.h"
#include "quota/cell_server.h"
#include "quota/redis/commander.h"
#include "quota/redis/metrics.h"
#include "quota/redis_cells.h"

namespace flowguard::app {

// Threads: one owner.
class SharedPeek final : private quota::CellSink {
 public:
  // How long all looks together wait for a connection and for answers.
  static constexpr Duration kWaitMax = std::chrono::seconds(2);

  struct Seen {
    std::string key;              // in Redis; of a rule with shards the first one's
    engine::TakeOutcome outcome;  // what the take would be told now
  };

  // Errors: files of TLS that cannot be used, or no descriptors left.
  static Result<std::unique_ptr<SharedPeek>> Open(const StoreSettings& settings);
  ~SharedPeek() override;
  SharedPeek(const SharedPeek&) = delete;
  SharedPeek& operator=(const SharedPeek&) = delete;

  // Blocks until there is an answer, at most until kWaitMax after Open.  Nothing: none came.
  [[nodiscard]] std::optional<Seen> Look(const engine::RemoteTake& take);

 private:
  explicit SharedPeek(std::unique_ptr<net::Loop> loop);
  void OnReplies(uint64_t ticket, std::span<const quota::CellReply> replies) noexcept override;
  [[nodiscard]] std::optional<quota::CellReply> Ask(const quota::CellCall& call);

  std::unique_ptr<net::Loop> loop_;
  const Instant end_;
  quota::redis::Metrics metrics_;
  std::unique_ptr<quota::redis::Commander> commander_;
  std::unique_ptr<quota::RedisCells> cells_;
  std::optional<quota::CellReply> reply_;
  uint64_t ticket_ = 0;  // of the call that is out
};

}  // namespace flowguard::app
