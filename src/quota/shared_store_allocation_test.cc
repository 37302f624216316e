// SPDX-License-Identifier: Apache-2.0
//
// A store allocates nothing for a take once as many have been out at one time before.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "quota/shared_store.h"
#include "rules/compiled_rule.h"
#include "testing/rules.h"
#include "testing/thread_allocations.h"

namespace flowguard::quota {
namespace {

class StillLoop final : public StoreLoop {
 public:
  [[nodiscard]] Instant Now() const noexcept override { return now; }
  void WakeAt(Instant) noexcept override {}
  Instant now = Instant(std::chrono::hours(24 * 8));
};

// Grants everything, when told.
class GenerousServer final : public CellServer {
 public:
  void Call(std::span<const CellCall> calls, bool, Instant, uint64_t ticket,
            CellSink* sink) noexcept override {
    Asked& asked = asked_[size_++];
    asked.ticket = ticket;
    asked.sink = sink;
    asked.count = calls.size();
    for (size_t i = 0; i < calls.size(); ++i) {
      asked.replies[i].status = CellReply::Status::kDone;
      asked.replies[i].granted = calls[i].count;
      asked.replies[i].numbers.allowed = true;
      asked.replies[i].numbers.limit = 1'000'000;
      asked.replies[i].numbers.remaining = 1'000'000;
      asked.replies[i].mark = 1;
    }
  }
  [[nodiscard]] uint32_t PlaceOf(std::string_view) const noexcept override { return 0; }
  void AnswerAll() {
    for (size_t i = 0; i < size_; ++i) {
      const Asked asked = asked_[i];
      asked.sink->OnReplies(asked.ticket, {asked.replies.data(), asked.count});
    }
    size_ = 0;
  }

 private:
  struct Asked {
    uint64_t ticket = 0;
    CellSink* sink = nullptr;
    size_t count = 0;
    std::array<CellReply, base::kCellCallsPerFlightMax> replies;
  };
  std::array<Asked, 256> asked_;
  size_t size_ = 0;
};

class CountingSink final : public engine::TakeSink {
 public:
  void OnTaken(uint64_t, std::span<const engine::TakeOutcome> outcomes) noexcept override {
    ++answers;
    receipt = outcomes[0].receipt;
  }
  int answers = 0;
  limit::Receipt receipt;
};

TEST(SharedStoreAllocationTest, NothingIsAllocatedForATake) {
  StillLoop loop;
  GenerousServer server;
  SharedStoreOptions options;
  options.owner = "node-a";
  SharedStore store(options, loop, server);
  CountingSink sink;
  rules::CompiledRule rule;
  rule.rule = testing::SharedRule("r", 1'000'000, std::chrono::seconds(1));
  std::vector<std::string> keys;
  for (int i = 0; i < 50; ++i)
    keys.push_back("12345678" + std::to_string(i));
  uint64_t ticket = 0;
  const auto round = [&] {
    for (size_t i = 0; i + 1 < keys.size(); ++i) {
      std::array<engine::RemoteTake, 2> takes;
      for (size_t n = 0; n < takes.size(); ++n) {
        takes[n].rule = &rule;
        takes[n].key = keys[i + n];
        takes[n].config.rate = rule.rule.rate;
      }
      const std::span<const engine::RemoteTake> asked(takes.data(), 1 + i % 2);
      store.Take(asked, loop.now, loop.now + std::chrono::milliseconds(20), ++ticket, &sink);
      if (i % 5 == 0) store.GiveBack(takes[0], {.cost = 1, .mark = 1}, loop.now);
      if (i % 7 == 0) store.Abandon(ticket, true);
    }
    for (int i = 0; i < 4; ++i) {
      store.Turn(loop.now);
      server.AnswerAll();
    }
  };
  round();
  round();
  ASSERT_TRUE(store.quiet());
  const int64_t before = allocations;
  const int answers = sink.answers;

  for (int i = 0; i < 100; ++i)
    round();

  EXPECT_EQ(allocations, before);
  EXPECT_GT(sink.answers, answers + 4'000);
}

}  // namespace
}  // namespace flowguard::quota
