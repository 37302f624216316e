// SPDX-License-Identifier: Apache-2.0
//
// A CellServer that answers when and how a test tells it: in any order, late, as failed,
// or with an outcome that is not known although it was applied.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "quota/cell_server.h"
#include "testing/memory_cells.h"

namespace flowguard::testing {

// Threads: one owner.
class ScriptedCellServer final : public quota::CellServer {
 public:
  struct Asked {
    std::vector<quota::CellCall> calls;
    std::deque<std::pair<std::string, std::string>> texts;  // keys and owners
    std::deque<quota::CellShape> shapes;
    bool together = false;
    Instant deadline;
    uint64_t ticket = 0;
    quota::CellSink* sink = nullptr;
  };

  void Call(std::span<const quota::CellCall> calls, bool together, Instant deadline,
            uint64_t ticket, quota::CellSink* sink) noexcept override {
    Asked& asked = asked_.emplace_back();
    asked.together = together;
    asked.deadline = deadline;
    asked.ticket = ticket;
    asked.sink = sink;
    for (const quota::CellCall& call : calls) {
      asked.texts.emplace_back(call.key, call.owner);
      asked.shapes.push_back(*call.shape);
      quota::CellCall& copy = asked.calls.emplace_back(call);
      copy.key = asked.texts.back().first;
      copy.owner = asked.texts.back().second;
      copy.shape = &asked.shapes.back();
    }
  }
  // Keys that begin alike up to '}' live together, if keys are spread.
  [[nodiscard]] uint32_t PlaceOf(std::string_view key) const noexcept override {
    if (!spread_) return 0;
    return static_cast<uint32_t>(std::hash<std::string_view>()(key.substr(0, key.find('}'))));
  }

  // As many servers as are set share the places.
  [[nodiscard]] uint32_t ServerOf(uint32_t place) const noexcept override {
    return place % servers_;
  }

  [[nodiscard]] bool TakesJoin(std::string_view /*key*/,
                               const quota::CellShape& shape) const noexcept override {
    return joins_ && shape.algorithm == Algorithm::kTokenBucket && !shape.concurrency;
  }

  // Server time is so far ahead of the time given to it.
  void set_ahead_us(int64_t ahead_us) { ahead_us_ = ahead_us; }
  void set_spread(bool spread) { spread_ = spread; }
  // Takes from token buckets are asked in company.
  void set_joins(bool joins) { joins_ = joins; }
  void set_servers(uint32_t servers) { servers_ = servers; }

  // What is out, the oldest first.
  [[nodiscard]] const std::deque<Asked>& asked() const noexcept { return asked_; }
  [[nodiscard]] MemoryCells& cells() noexcept { return cells_; }

  // Decides the call at `index` at `now` and answers it.
  void Answer(Instant now, size_t index = 0) {
    const Asked asked = Remove(index);
    const std::vector<quota::CellReply> replies = Decide(asked, now);
    asked.sink->OnReplies(asked.ticket, replies);
  }
  void AnswerAll(Instant now) {
    while (!asked_.empty())
      Answer(now);
  }
  // Decides, and loses the reply.
  void Lose(Instant now, size_t index = 0) {
    const Asked asked = Remove(index);
    static_cast<void>(Decide(asked, now));
    End(asked, quota::CellReply::Status::kUnknown);
  }
  // The server replies with an error of the cells', and applies nothing.
  void AnswerError(size_t index = 0) {
    End(Remove(index), quota::CellReply::Status::kFailed, quota::CellReply::Server::kReplied);
  }
  // Nothing is applied.
  void Fail(size_t index = 0) { End(Remove(index), quota::CellReply::Status::kFailed); }
  void FailAll() {
    while (!asked_.empty())
      Fail();
  }

 private:
  Asked Remove(size_t index) {
    // Views are into deques, which keep their elements' places when they are moved.
    Asked asked = std::move(asked_[index]);
    asked_.erase(asked_.begin() + static_cast<std::ptrdiff_t>(index));
    return asked;
  }
  std::vector<quota::CellReply> Decide(const Asked& asked, Instant now) {
    return cells_.Run(asked.calls, asked.together,
                      now.time_since_epoch().count() / 1000 + ahead_us_);
  }
  static void End(const Asked& asked, quota::CellReply::Status status,
                  quota::CellReply::Server server = quota::CellReply::Server::kAway) {
    std::vector<quota::CellReply> replies(asked.calls.size());
    for (quota::CellReply& reply : replies) {
      reply.status = status;
      reply.server = server;
    }
    asked.sink->OnReplies(asked.ticket, replies);
  }

  std::deque<Asked> asked_;
  MemoryCells cells_;
  int64_t ahead_us_ = 0;
  bool joins_ = false;
  bool spread_ = false;
  uint32_t servers_ = 1;
};

}  // namespace flowguard::testing
