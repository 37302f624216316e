// SPDX-License-Identifier: Apache-2.0
//
// Tokens of concurrency rules: given, given back, and over.
#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "serve/token_service_fixture_test.h"

namespace flowguard::serve {
namespace {

class TokenServiceTokensTest : public TokenServiceFixture {
 protected:
  TokenReply Acquire(int64_t flow_id, int32_t count = 1) {
    return Ask(AcquireQuestion(flow_id, count));
  }
  std::string Release(int64_t token_id) { return Told(Ask(ReleaseQuestion(token_id))); }
  int64_t InFlight() { return service_->engine().Counters().rules.at(0).inflight; }
};

TEST_F(TokenServiceTokensTest, ATokenHoldsItsPlaceUntilItIsReleased) {
  Load({ClusterSlots("slots", 1, 2)});
  const TokenReply first = Acquire(1);
  const TokenReply second = Acquire(1);
  EXPECT_EQ(first.status, Status::kOk);
  EXPECT_EQ(second.status, Status::kOk);
  const TokenReply third = Acquire(1);
  EXPECT_EQ(third.status, Status::kBlocked);
  EXPECT_EQ(third.token_id, 0);
  EXPECT_EQ(Release(first.token_id), "RELEASE_OK");
  EXPECT_EQ(Release(first.token_id), "ALREADY_RELEASE");
  EXPECT_EQ(Acquire(1).status, Status::kOk);
  EXPECT_EQ(Acquire(1).status, Status::kBlocked);
}

TEST_F(TokenServiceTokensTest, TokensAreNeverNothingAndNeverGuessed) {
  Load({ClusterSlots("slots", 1, 100)});
  std::set<int64_t> ids;
  for (int i = 0; i < 100; ++i) {
    const TokenReply reply = Acquire(1);
    EXPECT_GT(reply.token_id, 0);
    ids.insert(reply.token_id);
  }
  EXPECT_EQ(ids.size(), 100u);
  for (const int64_t wrong : {int64_t{0}, int64_t{-1}, int64_t{1}, *ids.begin() + 1})
    EXPECT_EQ(Release(wrong), "ALREADY_RELEASE");
}

TEST_F(TokenServiceTokensTest, OneTokenMayHoldSeveralPlaces) {
  Load({ClusterSlots("slots", 1, 5)});
  const TokenReply token = Acquire(1, 4);
  EXPECT_EQ(token.status, Status::kOk);
  EXPECT_EQ(Acquire(1, 2).status, Status::kBlocked);
  EXPECT_EQ(Release(token.token_id), "RELEASE_OK");
  EXPECT_EQ(Acquire(1, 5).status, Status::kOk);
}

TEST_F(TokenServiceTokensTest, ATokenIsOverAtItsTime) {
  Rule rule = ClusterSlots("slots", 1, 10);
  rule.cluster.token_ttl = seconds(3);
  Load({rule});
  std::vector<int64_t> tokens;
  for (int i = 0; i < 10; ++i)
    tokens.push_back(Acquire(1).token_id);
  EXPECT_EQ(Acquire(1).status, Status::kBlocked);
  now_ += seconds(3) - milliseconds(1);
  service_->Expire(now_);
  EXPECT_EQ(InFlight(), 10);
  EXPECT_EQ(Acquire(1).status, Status::kBlocked);
  now_ += milliseconds(1);
  EXPECT_EQ(Release(tokens.front()), "ALREADY_RELEASE");
  service_->Expire(now_);
  EXPECT_EQ(InFlight(), 0);
}

// Nobody has to have looked meanwhile.
TEST_F(TokenServiceTokensTest, WhoAcquiresFindsThePlacesOfTokensThatAreOver) {
  Load({ClusterSlots("slots", 1, 1)});
  EXPECT_EQ(Acquire(1).status, Status::kOk);
  now_ += seconds(2);
  EXPECT_EQ(Acquire(1).status, Status::kOk);
  EXPECT_EQ(InFlight(), 1);
}

TEST_F(TokenServiceTokensTest, ATokenOutlivesItsRule) {
  Load({ClusterSlots("slots", 1, 1)});
  const TokenReply token = Acquire(1);
  Load(std::vector<Rule>{});
  EXPECT_EQ(Acquire(1).status, Status::kNoRuleExists);
  EXPECT_EQ(Release(token.token_id), "RELEASE_OK");
  Load({ClusterSlots("slots", 1, 1)});
  EXPECT_EQ(Acquire(1).status, Status::kOk);
}

TEST_F(TokenServiceTokensTest, ATableThatIsFullTakesNothing) {
  Load({ClusterSlots("slots", 1, 1'000'000)});
  size_t given = 0;
  std::string refused;
  for (size_t i = 0; i <= kOpenEntriesPerPeerMax; ++i) {
    const TokenReply reply = Acquire(1);
    if (reply.status == Status::kOk) {
      ++given;
    } else {
      refused = Told(reply);
    }
  }
  EXPECT_EQ(given, kOpenEntriesPerPeerMax);
  EXPECT_EQ(refused, "TOO_MANY_REQUEST");
  EXPECT_EQ(InFlight(), static_cast<int64_t>(given));
  now_ += seconds(2);
  service_->Expire(now_);
  EXPECT_EQ(InFlight(), 0);
}

TEST_F(TokenServiceTokensTest, ThreadsNeverHoldMoreThanThereIs) {
  Load({ClusterSlots("slots", 1, 10)});
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  std::atomic<int> given{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&] {
      auto attempt = std::make_unique<engine::Attempt>();
      TokenReply reply;
      for (int asked = 0; asked < 200; ++asked) {
        EXPECT_TRUE(service_->Begin(attempt, AcquireQuestion(1), peer_, nullptr, now_, reply));
        if (reply.status != Status::kOk) continue;
        ++given;
        const int now_inside = ++inside;
        int seen = most.load();
        while (seen < now_inside && !most.compare_exchange_weak(seen, now_inside)) {
        }
        --inside;
        const Question release = ReleaseQuestion(reply.token_id);
        EXPECT_TRUE(service_->Begin(attempt, release, peer_, nullptr, now_, reply));
        EXPECT_EQ(reply.status, Status::kReleaseOk);
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_LE(most, 10);
  EXPECT_GT(given, 0);
  EXPECT_EQ(InFlight(), 0);
  EXPECT_EQ(service_->Tokens().open, 0u);
}

}  // namespace
}  // namespace flowguard::serve
