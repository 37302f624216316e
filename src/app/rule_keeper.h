// SPDX-License-Identifier: Apache-2.0
//
// Keeps the engine's rules those of their origin: loads them at start, again on
// SIGHUP, and again when the file changes.  A set with an error changes nothing; it
// is logged with file, line and column, and counted.
//
// Loading again happens on a thread of its own, as large sets take seconds; what comes
// of it is told on the control loop.  One load runs at a time and at most one content
// waits behind it, the latest.  Content that is loaded already is not loaded again.
//
//   Poll, Reload ─► Offer ─► pending_ ─► loader thread ─Post─► Finish ─► next pending_
//
// Threads: one owner (the control loop), and the loader thread that this starts and
//          joins.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "flowguard/clock.h"
#include "flowguard/result.h"
#include "flowguard/rules_text.h"

#include "app/settings.h"
#include "base/hash.h"
#include "engine/engine.h"
#include "net/loop.h"
#include "observe/metrics_writer.h"
#include "serve/token_service.h"
#include "sources/file_source.h"

namespace flowguard::app {

// Reads an origin's text (empty for limits alone) as a rule set.
// Errors: a line each, "file:line:column: ...".
Result<ParsedRules> ReadRuleOrigin(const RuleOrigin& origin, std::string_view text);

// What came of a load.
struct RuleLoad {
  std::string error;  // a line each; empty: loaded
  std::vector<std::string> warnings;
  size_t rules = 0;
  RuleSet token_rules;  // of those the token server's, where there is one
};

struct RuleKeeperOptions {
  bool decision_api = false;  // warn of rules that it cannot hold
  // Has the rules of scope cluster, and must outlive the keeper; null: no token server.
  serve::TokenService* tokens = nullptr;
  // Rules of scope cluster are asked of token servers too, be they counted here or not.
  bool asks_tokens = false;
  bool tokens_alone = false;  // no other door is open: warn of rules that nobody asks
  int64_t token_questions_per_second = serve::kTokenQpsDefault;
};

class RuleKeeper final : public observe::MetricsSource, private net::Watcher {
 public:
  // All must outlive this; the loop turns no more when this is destroyed.
  RuleKeeper(net::Loop& loop, engine::Engine& engine, const Clock& clock, RuleOrigin origin,
             RuleKeeperOptions options);
  ~RuleKeeper() override;

  // The first load.
  // Errors: the file cannot be read, or its rules cannot be used.
  Result<void> Start();
  // Watches the origin's file from now on.
  void Watch();
  // Reads and loads again, whatever the watch says.
  void Reload();
  // The loader thread is at work.
  [[nodiscard]] bool loading() const noexcept { return loading_; }

  // "rules.yaml", or "command line".
  [[nodiscard]] std::string SourceName() const;
  [[nodiscard]] WallTime loaded_at() const noexcept { return loaded_at_; }
  // Of the last reload; empty when it was good.
  [[nodiscard]] const std::string& last_error() const noexcept { return last_error_; }

  // What the token server has of the rules in force.
  [[nodiscard]] const RuleSet& token_rules() const noexcept { return token_rules_; }

  void Collect(observe::MetricsWriter& out) override;

 private:
  void OnReady(net::Ready ready) noexcept override;
  static void OnPollTimer(void* self) noexcept;
  void Poll() noexcept;
  void ArmPoll() noexcept;
  void Offer(std::string content);
  void StartNext();
  static void StepBehindRequests() noexcept;  // the calling thread
  void Finish(RuleLoad load, const base::Hash128& content);
  [[nodiscard]] RuleLoad Load(std::string_view text) const;  // Threads: any
  Result<void> LoadAll(const RuleSet& rules, RuleLoad& load) const;
  Result<void> LoadTokens(const RuleSet& rules) const;
  void Loaded(RuleLoad load, const base::Hash128& content);
  void Good();
  void Failed(const std::string& message);
  [[nodiscard]] const std::string& Path() const noexcept;

  net::Loop& loop_;
  engine::Engine& engine_;
  const Clock& clock_;
  const RuleOrigin origin_;
  const RuleKeeperOptions options_;
  std::optional<std::string> content_;  // what Start read
  std::unique_ptr<sources::FileSource> source_;
  net::Timer poll_timer_;
  std::thread loader_;
  bool loading_ = false;
  std::optional<std::string> pending_;
  RuleSet token_rules_;     // in force; stays as it is while the loader is at work
  base::Hash128 loaded_{};  // of the content in force
  WallTime loaded_at_{};
  std::string last_error_;
  uint64_t loads_ = 0;
  uint64_t failures_ = 0;
};

}  // namespace flowguard::app
