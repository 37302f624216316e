// SPDX-License-Identifier: Apache-2.0
//
// Calls that cross threads in every order: what is answered late is told to nobody, and
// what was taken for nothing goes back.
#include "quota/threaded_store.h"

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/bounds.h"
#include "rules/compiled_rule.h"
#include "testing/fake_quota_store.h"
#include "testing/redis_server.h"
#include "testing/rules.h"

namespace flowguard::quota {
namespace {

using engine::TakeOutcome;
using std::chrono::hours;
using std::chrono::milliseconds;
using testing::FakeQuotaStore;
using testing::WaitFor;
using Script = FakeQuotaStore::Script;

// Remembers what it was told; may hold the thread that tells it.
class Sink final : public engine::TakeSink {
 public:
  void OnTaken(uint64_t ticket, std::span<const TakeOutcome> outcomes) noexcept override {
    ++times;
    last_ticket = ticket;
    last_size = outcomes.size();
    entered.set_value();
    if (hold.valid()) hold.wait();
    left = true;
  }

  std::promise<void> entered;
  std::future<void> hold;
  std::atomic<int> times{0};
  std::atomic<uint64_t> last_ticket{0};
  std::atomic<size_t> last_size{0};
  std::atomic<bool> left{false};
};

// What the store on the thread was asked last.
class LastAsked final : public engine::QuotaStore {
 public:
  void Take(std::span<const engine::RemoteTake> takes, Instant now, Instant deadline,
            uint64_t ticket, engine::TakeSink* sink) noexcept override {
    within = deadline - now;
    key = takes[0].key;
    const std::vector<TakeOutcome> outcomes(takes.size());
    sink->OnTaken(ticket, outcomes);
  }
  void Abandon(uint64_t, bool) noexcept override {}
  void GiveBack(const engine::RemoteTake& take, const limit::Receipt&, Instant) noexcept override {
    key = take.key;
  }
  void Charge(const engine::RemoteTake& take, int64_t, Instant) noexcept override {
    key = take.key;
  }
  [[nodiscard]] int Nodes() const noexcept override { return 0; }

  Duration within{};
  std::string key;
};

class ThreadedStoreTest : public ::testing::Test {
 protected:
  ThreadedStoreTest() { rule_.rule = testing::SharedRule("r", 10, hours(1)); }

  void TearDown() override { store_.Quiesce(); }  // as the last caller does

  [[nodiscard]] engine::RemoteTake TakeOf(std::string_view key) const {
    engine::RemoteTake take;
    take.rule = &rule_;
    take.key = key;
    take.config.rate = rule_.rule.rate;
    return take;
  }
  void Take(uint64_t ticket, Sink& sink) {
    const engine::RemoteTake take = TakeOf("key");
    store_.Take({&take, 1}, Instant{}, Instant{} + milliseconds(20), ticket, &sink);
  }
  // The thread stands until the promise is kept, and then does `work`.
  void Stand(
      std::promise<void>& until, std::function<void()> work = [] {}) {
    io_->Post(
        [gate = std::make_shared<std::future<void>>(until.get_future()), work = std::move(work)] {
          gate->wait();
          work();
        });
  }

  rules::CompiledRule rule_;
  FakeQuotaStore fake_;
  std::unique_ptr<IoThread> io_ = std::move(IoThread::Start(SystemClock())).value();
  ThreadedStore store_{*io_, fake_, 3};
};

TEST_F(ThreadedStoreTest, AnswersOnTheThreadWhatWasAskedOnAnother) {
  Sink sink;
  Take(7, sink);
  sink.entered.get_future().wait();
  EXPECT_EQ(sink.last_ticket, 7U);
  EXPECT_EQ(sink.last_size, 1U);
  EXPECT_EQ(fake_.Held(), 1);
  store_.GiveBack(TakeOf("key"), {.cost = 1, .mark = 0}, Instant{});
  store_.Charge(TakeOf("key"), 4, Instant{});
  store_.Quiesce();
  EXPECT_EQ(fake_.Held(), 4);
  EXPECT_EQ(store_.Nodes(), 3);
  store_.set_nodes(5);
  EXPECT_EQ(store_.Nodes(), 5);
}

TEST_F(ThreadedStoreTest, KeysMayEndAndTimesMayBeOfAnotherClock) {
  LastAsked asked;
  ThreadedStore store(*io_, asked, 0);
  Sink sink;
  {
    const std::string key = "of the caller";
    const engine::RemoteTake take = TakeOf(key);
    store.Take({&take, 1}, Instant{}, Instant{} + hours(1), 1, &sink);
  }
  sink.entered.get_future().wait();
  store.Quiesce();
  EXPECT_EQ(asked.key, "of the caller");
  EXPECT_LE(asked.within, hours(1) + milliseconds(1));
  EXPECT_GT(asked.within, hours(1) - std::chrono::minutes(1));
  {
    const std::string key = "another";
    store.GiveBack(TakeOf(key), {.cost = 1, .mark = 0}, Instant{});
  }
  store.Quiesce();
  EXPECT_EQ(asked.key, "another");
}

TEST_F(ThreadedStoreTest, WhatIsAbandonedBeforeItLeftIsNotAsked) {
  std::promise<void> go;
  Stand(go);
  Sink sink;
  Take(1, sink);
  store_.Abandon(1, /*refused=*/true);
  go.set_value();
  store_.Quiesce();
  EXPECT_EQ(fake_.takes(), 0);
  EXPECT_EQ(fake_.abandoned(), 0);
  EXPECT_EQ(sink.times, 0);
}

TEST_F(ThreadedStoreTest, AnAnswerFasterThanTheWordThatNobodyWaitsGoesBackIfRefused) {
  for (const bool refused : {true, false}) {
    fake_.Next(Script::kWhenTold);
    Sink sink;
    Take(1, sink);
    ASSERT_TRUE(WaitFor([&] { return fake_.takes() > 0; }));
    store_.Quiesce();
    std::promise<void> go;
    Stand(go, [this] { fake_.AnswerAll(); });
    store_.Abandon(1, refused);
    go.set_value();
    store_.Quiesce();
    EXPECT_EQ(sink.times, 0);
    EXPECT_EQ(fake_.Held(), refused ? 0 : 1);
    EXPECT_EQ(fake_.abandoned(), 0) << "it had its end";
  }
}

TEST_F(ThreadedStoreTest, TheStoreIsToldWhatNobodyWaitsFor) {
  fake_.Next(Script::kWhenTold);
  Sink sink;
  Take(1, sink);
  store_.Quiesce();
  store_.Abandon(1, /*refused=*/true);
  store_.Quiesce();
  EXPECT_EQ(fake_.abandoned(), 1);
  EXPECT_EQ(fake_.Held(), 0);
  EXPECT_EQ(sink.times, 0);
}

TEST_F(ThreadedStoreTest, NoSinkIsCalledOnceAbandonReturned) {
  Sink sink;
  std::promise<void> leave;
  sink.hold = leave.get_future();
  Take(1, sink);
  sink.entered.get_future().wait();
  bool left = false;
  std::thread abandons([&] {
    store_.Abandon(1, true);
    left = sink.left;
  });
  leave.set_value();
  abandons.join();
  EXPECT_TRUE(left);
  EXPECT_EQ(sink.times, 1);
}

TEST_F(ThreadedStoreTest, MoreThanThereIsRoomForFailsAndIsCounted) {
  std::promise<void> go;
  Stand(go);
  for (size_t i = 0; i < base::kStoreDuesMax + 3; ++i)
    store_.Charge(TakeOf("key"), 1, Instant{});
  EXPECT_EQ(store_.dues_lost(), 3U);
  std::vector<std::unique_ptr<Sink>> sinks;
  for (size_t i = 0; i < base::kStoreCallsMax; ++i) {
    sinks.push_back(std::make_unique<Sink>());
    Take(i, *sinks.back());
  }
  Sink sink;
  Take(base::kStoreCallsMax, sink);
  EXPECT_EQ(sink.times, 1) << "at once";
  EXPECT_EQ(sink.last_size, 1U);
  for (size_t i = 0; i < sinks.size(); ++i)
    store_.Abandon(i, true);
  go.set_value();
  store_.Quiesce();
  EXPECT_EQ(fake_.Held(), static_cast<int64_t>(base::kStoreDuesMax));
  EXPECT_EQ(fake_.takes(), 0);
}

}  // namespace
}  // namespace flowguard::quota
