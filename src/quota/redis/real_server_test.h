// SPDX-License-Identifier: Apache-2.0
//
// A client on the system's clock, for tests with real servers.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "flowguard/clock.h"

#include "net/loop.h"
#include "quota/redis/client.h"
#include "quota/redis/reply_log_test.h"
#include "testing/redis_server.h"

namespace flowguard::quota::redis {

struct RealServerTest : ::testing::Test {
  void Make(const std::string& url) {
    client.reset();
    metrics = std::make_unique<Metrics>();
    Result<Options> options = ParseUrl(url);
    ASSERT_TRUE(options.ok()) << options.error().message;
    Result<std::unique_ptr<Commander>> made = MakeCommander(*loop, *options, *metrics, 7);
    ASSERT_TRUE(made.ok()) << made.error().message;
    client = std::move(made).value();
  }
  // Turns the loop until `condition`; whether it came.
  template <typename Condition>
  bool WaitUntil(Condition condition, Duration most = std::chrono::seconds(20)) {
    const Instant end = SystemClock().Now() + most;
    while (!condition()) {
      if (SystemClock().Now() > end) return false;
      loop->RunOnce(std::chrono::milliseconds(5));
    }
    return true;
  }
  void Run(uint64_t ticket, Duration within, const std::string& key = "k") {
    const std::string_view view = key;
    // As a loop's turn would: the time of now.
    client->Run(kIncrement, {&view, 1}, {}, SystemClock().Now() + within, ticket, &log);
  }
  // The reply to one command, or the error's text.
  std::string Ask(const std::vector<std::string>& words, const std::string& key = "") {
    const std::vector<std::string_view> views(words.begin(), words.end());
    const uint64_t ticket = next_ask++;
    client->Command(key, views, SystemClock().Now() + std::chrono::seconds(5), ticket, &log);
    EXPECT_TRUE(WaitUntil([&] { return log.Has(ticket); }));
    return log.TextOf(ticket);
  }
  // Whether a script runs now.
  bool Works(const std::string& key = "k") {
    const uint64_t ticket = next_ask++;
    Run(ticket, std::chrono::milliseconds(200), key);
    WaitUntil([&] { return log.Has(ticket); });
    return log.FailureOf(ticket) == Failure::kNone;
  }

  static inline const Script kIncrement{"increment", "return redis.call('INCR', KEYS[1])",
                                        "61636018f4e6b5817b89791bbed242f93fa089e3"};
  std::unique_ptr<net::Loop> loop = std::move(net::Loop::Create(SystemClock())).value();
  std::unique_ptr<Metrics> metrics;
  ReplyLog log;
  std::unique_ptr<Commander> client;
  uint64_t next_ask = 1'000'000'000;
};

}  // namespace flowguard::quota::redis
