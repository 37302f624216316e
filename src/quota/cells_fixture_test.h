// SPDX-License-Identifier: Apache-2.0
//
// RedisCells on a redis-server of the test's own, asked one call at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "quota/redis_cells.h"
#include "quota/scripts/redis_fixture_test.h"

namespace flowguard::quota {

inline constexpr int64_t kMondayUs = int64_t{4} * 24 * 3600 * 1'000'000;
inline constexpr int64_t kStartUs = 1'796'000'000'000'000;

class CellsTest : public ::testing::Test, protected CellSink {
 protected:
  static void SetUpTestSuite() { process_ = new RedisProcess; }
  static void TearDownTestSuite() { delete process_; }
  CellsTest() : commander(*process_), cells(commander) {
    commander.now_us = kStartUs;
    commander.connection.Ask({"FLUSHALL"});
  }

  std::vector<CellReply> AskAll(std::span<const CellCall> calls, bool together = false) {
    replies_.clear();
    cells.Call(calls, together, Instant{}, 7, this);
    EXPECT_TRUE(replies_.empty()) << "told from inside Call";
    commander.Flush();
    EXPECT_EQ(replies_.size(), calls.size());
    return replies_;
  }
  CellReply Ask(const CellCall& call) { return AskAll({&call, 1}).front(); }
  CellReply Take(const CellShape& shape, int64_t cost = 1, int32_t count = 1,
                 std::string_view key = "k") {
    CellCall call;
    call.key = key;
    call.shape = &shape;
    call.cost = cost;
    call.count = count;
    return Ask(call);
  }
  CellReply AskOp(CellOp op, const CellShape& shape, int64_t cost, int64_t mark = 0) {
    CellCall call;
    call.op = op;
    call.key = "k";
    call.shape = &shape;
    call.cost = cost;
    call.mark = mark;
    return Ask(call);
  }
  // The key as Redis has it, with its TTL as it was set.
  std::string Dump(const std::string& key) {
    return commander.connection.AskText({"DUMP", key}) + "/" +
           std::to_string(commander.connection.AskNumber({"PEXPIRETIME", key}));
  }
  int64_t TtlMs(const std::string& key) { return commander.connection.AskNumber({"PTTL", key}); }

  BlockingCommander commander;
  RedisCells cells;

 private:
  void OnReplies(uint64_t ticket, std::span<const CellReply> replies) noexcept override {
    EXPECT_EQ(ticket, 7U);
    replies_.assign(replies.begin(), replies.end());
  }
  std::vector<CellReply> replies_;
  static inline RedisProcess* process_ = nullptr;
};

}  // namespace flowguard::quota
