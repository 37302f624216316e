// SPDX-License-Identifier: Apache-2.0
#include "guard/job_queue.h"

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace flowguard::guard {
namespace {

using std::chrono::seconds;
using JobPtr = JobQueue::JobPtr;

constexpr Instant kStart(std::chrono::hours(1'000));

Job Of(std::string resource, std::optional<Duration> start_within = std::nullopt) {
  Job job;
  job.resource = std::move(resource);
  job.start_within = start_within;
  return job;
}

std::string NameOf(const JobPtr& job) {
  return job == nullptr ? "none" : job->job.resource + '-' + std::to_string(job->number);
}

TEST(JobQueueTest, GivesOutTheOldestOfTheJobsThatMayGo) {
  JobQueue queue;
  for (const char* resource : {"a", "b", "a", "c"})
    queue.Add(Of(resource), kStart);

  JobPtr first = queue.TakeReady(kStart);
  EXPECT_EQ(NameOf(first), "a-0");
  EXPECT_EQ(NameOf(queue.TakeReady(kStart)), "b-1");
  EXPECT_EQ(NameOf(queue.TakeReady(kStart)), "c-3") << "a lane's first job is out";
  EXPECT_EQ(NameOf(queue.TakeReady(kStart)), "none");
  queue.Release(*first, true);
  EXPECT_EQ(NameOf(queue.TakeReady(kStart)), "a-2");
  EXPECT_EQ(queue.size(), 3u) << "those that are out are queued";
}

TEST(JobQueueTest, AJobThatWasPutBackIsHeldAndHoldsItsLane) {
  JobQueue queue;
  queue.Add(Of("a"), kStart);
  queue.Add(Of("a"), kStart);
  queue.Add(Of("b"), kStart);
  queue.PutBack(queue.TakeReady(kStart), kStart + seconds(2), nullptr);

  EXPECT_EQ(NameOf(queue.TakeReady(kStart)), "b-2");
  EXPECT_EQ(queue.NextDue(kStart), kStart + seconds(2));
  EXPECT_EQ(NameOf(queue.TakeReady(kStart + seconds(2) - Duration(1))), "none");
  EXPECT_EQ(NameOf(queue.TakeReady(kStart + seconds(2))), "a-0");
  EXPECT_EQ(queue.NextDue(kStart + seconds(2)), std::nullopt);
}

TEST(JobQueueTest, DimensionsMakeLanesWhateverCharactersTheyHave) {
  JobQueue queue;
  Job job = Of("a");
  job.dimensions = {{"user", "x1:y"}};
  queue.Add(job, kStart);
  job.dimensions = {{"user", "x"}, {"y", ""}};
  queue.Add(job, kStart);
  job.dimensions = {{"user", "x1:y"}};
  queue.Add(job, kStart);

  EXPECT_EQ(NameOf(queue.TakeReady(kStart)), "a-0");
  EXPECT_EQ(NameOf(queue.TakeReady(kStart)), "a-1");
  EXPECT_EQ(NameOf(queue.TakeReady(kStart)), "none");
}

TEST(JobQueueTest, AJobMayStartUntilItsDeadlineAndNotAfterIt) {
  JobQueue queue;
  queue.Add(Of("a", seconds(1)), kStart);
  queue.Add(Of("a"), kStart);
  const Instant deadline = kStart + seconds(1);

  EXPECT_EQ(queue.TakeExpired(deadline), nullptr);
  queue.PutBack(queue.TakeReady(deadline), deadline + seconds(9), nullptr);
  EXPECT_EQ(queue.NextDue(deadline), deadline + Duration(1));
  EXPECT_EQ(NameOf(queue.TakeExpired(deadline + Duration(1))), "a-0");
  EXPECT_EQ(NameOf(queue.TakeReady(deadline + Duration(1))), "a-1") << "the hold was the first's";
}

TEST(JobQueueTest, ADeadlineBeyondTheEndOfTimeIsNone) {
  JobQueue queue;
  queue.Add(Of("a", kNever), kStart);

  EXPECT_EQ(queue.TakeExpired(Instant::max()), nullptr);
}

TEST(JobQueueTest, AFreeSlotIsForTheOldestOfEachRuleAndForItsLane) {
  const RuleInfo small;
  const RuleInfo large;
  JobQueue queue;
  for (const char* resource : {"a", "b", "c", "d", "e"})
    queue.Add(Of(resource), kStart);
  const JobPtr ended = queue.TakeReady(kStart);
  queue.Release(*ended, true);
  const Instant later = kStart + seconds(60);
  queue.PutBack(queue.TakeReady(kStart), later, &small);
  queue.PutBack(queue.TakeReady(kStart), later, &small);
  queue.PutBack(queue.TakeReady(kStart), later, &large);
  queue.PutBack(queue.TakeReady(kStart), later, nullptr);
  queue.Add(Of("a"), kStart);
  queue.PutBack(queue.TakeReady(kStart), later, &small);

  queue.SlotFreed(*ended);

  EXPECT_EQ(NameOf(queue.TakeReady(kStart)), "b-1");
  EXPECT_EQ(NameOf(queue.TakeReady(kStart)), "d-3");
  EXPECT_EQ(NameOf(queue.TakeReady(kStart)), "a-5");
  EXPECT_EQ(NameOf(queue.TakeReady(kStart)), "none");
}

// Rules out: a slot that was freed while a job was being asked for, and that it then sat
// beside for the whole of its hold.
TEST(JobQueueTest, AJobThatWasOutWhenAnotherEndedIsAskedForOnceMore) {
  const RuleInfo slots;
  JobQueue queue;
  for (const char* resource : {"a", "b", "c"})
    queue.Add(Of(resource), kStart);
  const JobPtr ended = queue.TakeReady(kStart);
  queue.Release(*ended, true);
  JobPtr lacks_slot = queue.TakeReady(kStart);
  JobPtr lacks_units = queue.TakeReady(kStart);
  const Instant later = kStart + seconds(60);

  queue.SlotFreed(*ended);
  queue.PutBack(std::move(lacks_slot), later, &slots);
  queue.PutBack(std::move(lacks_units), later, nullptr);

  lacks_slot = queue.TakeReady(kStart);
  ASSERT_EQ(NameOf(lacks_slot), "b-1");
  EXPECT_EQ(NameOf(queue.TakeReady(kStart)), "none") << "the end of a job brings no units";
  queue.PutBack(std::move(lacks_slot), later, &slots);
  EXPECT_EQ(NameOf(queue.TakeReady(kStart)), "none") << "once for a job that ended";
}

TEST(JobQueueTest, AJobThatWasOutWhenHoldsWereEndedIsAskedForOnceMoreButForABookedOne) {
  const auto guard = Guard::Create({}).value();
  JobQueue queue;
  queue.Add(Of("a"), kStart);
  queue.Add(Of("b"), kStart);
  JobPtr refused = queue.TakeReady(kStart);
  JobPtr booked = queue.TakeReady(kStart);
  booked->entry = guard->Enter({.resource = "b"});
  ASSERT_TRUE(booked->entry);
  const Instant later = kStart + seconds(60);

  queue.ReleaseHolds();
  queue.PutBack(std::move(refused), later, nullptr);
  queue.PutBack(std::move(booked), later, nullptr);

  refused = queue.TakeReady(kStart);
  ASSERT_EQ(NameOf(refused), "a-0");
  EXPECT_EQ(NameOf(queue.TakeReady(kStart)), "none");
  queue.PutBack(std::move(refused), later, nullptr);
  EXPECT_EQ(NameOf(queue.TakeReady(kStart)), "none");
}

// A queue where job 0 has started, and those of other lanes wait for `rule`.
class JobQueueOfferTest : public ::testing::Test {
 protected:
  void Wait(int lanes, std::optional<Duration> first_within = std::nullopt, int64_t units = 0) {
    Job started = Of("started");
    started.cost = units;
    queue_.Add(std::move(started), kStart);
    ended_ = queue_.TakeReady(kStart);
    queue_.Release(*ended_, true);
    for (int i = 0; i < lanes; ++i) {
      queue_.Add(Of("w" + std::to_string(i), i == 0 ? first_within : std::nullopt), kStart);
      queue_.PutBack(queue_.TakeReady(kStart), kLater, &rule_);
    }
  }
  static constexpr Instant kLater = kStart + seconds(60);
  RuleInfo rule_;
  JobQueue queue_;
  JobPtr ended_;
};

// Rules out: a freed slot that nobody takes, since the one that it was offered to did not start.
TEST_F(JobQueueOfferTest, ASlotIsPassedOnUntilAJobStarts) {
  const RuleInfo other;
  Wait(5);

  queue_.SlotFreed(*ended_);
  JobPtr job = queue_.TakeReady(kStart);
  ASSERT_EQ(NameOf(job), "w0-1");
  EXPECT_EQ(NameOf(queue_.TakeReady(kStart)), "none");
  queue_.PutBack(std::move(job), kLater, &rule_);
  job = queue_.TakeReady(kStart);
  ASSERT_EQ(NameOf(job), "w1-2") << "past one that has no slot, as of another key";
  queue_.PutBack(std::move(job), kLater, &other);
  job = queue_.TakeReady(kStart);
  ASSERT_EQ(NameOf(job), "w2-3") << "past one that another rule refuses";
  queue_.Release(*job, false);
  job = queue_.TakeReady(kStart);
  ASSERT_EQ(NameOf(job), "w3-4") << "past one that was refused for ever";
  queue_.Release(*job, true);
  EXPECT_EQ(NameOf(queue_.TakeReady(kStart)), "none");
}

TEST_F(JobQueueOfferTest, ASlotIsPassedOnWhenTheJobThatItWasOfferedToExpires) {
  Wait(2, seconds(1));

  queue_.SlotFreed(*ended_);
  const Instant late = kStart + seconds(1) + Duration(1);
  EXPECT_EQ(NameOf(queue_.TakeExpired(late)), "w0-1");

  EXPECT_EQ(NameOf(queue_.TakeReady(late)), "w1-2");
}

TEST_F(JobQueueOfferTest, AClosedBreakerIsToldOfToTheNextAlsoWhenAJobStarts) {
  rule_.kind = RuleKind::kBreaker;
  Wait(kEndOffersMax + 3);

  queue_.SlotFreed(*ended_);

  for (int i = 0; i < kEndOffersMax + 3; ++i) {
    const JobPtr job = queue_.TakeReady(kStart);
    ASSERT_EQ(NameOf(job), "w" + std::to_string(i) + '-' + std::to_string(i + 1));
    queue_.Release(*job, true);
  }
}

TEST_F(JobQueueOfferTest, TheSlotsOfAJobOfSeveralUnitsAreForSeveralJobs) {
  Wait(3, std::nullopt, /*units=*/2);

  queue_.SlotFreed(*ended_);

  for (const char* name : {"w0-1", "w1-2"}) {
    const JobPtr job = queue_.TakeReady(kStart);
    ASSERT_EQ(NameOf(job), name);
    queue_.Release(*job, true);
  }
  JobPtr last = queue_.TakeReady(kStart);
  ASSERT_EQ(NameOf(last), "w2-3") << "it finds that there are no more";
  queue_.PutBack(std::move(last), kLater, &rule_);
  EXPECT_EQ(NameOf(queue_.TakeReady(kStart)), "none");
}

TEST_F(JobQueueOfferTest, TheEndOfAJobIsNotOfferedWithoutEnd) {
  Wait(kEndOffersMax + 1);

  queue_.SlotFreed(*ended_);
  int offered = 0;
  while (JobPtr job = queue_.TakeReady(kStart)) {
    ++offered;
    queue_.PutBack(std::move(job), kLater, &rule_);
  }

  EXPECT_EQ(offered, kEndOffersMax);
}

TEST(JobQueueTest, TakingAllLeavesThoseThatAreOut) {
  JobQueue queue;
  for (const char* resource : {"b", "a", "b", "a"})
    queue.Add(Of(resource, seconds(1)), kStart);
  JobPtr out = queue.TakeReady(kStart);

  const std::vector<JobPtr> all = queue.TakeAll();

  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(NameOf(all[0]), "a-1");
  EXPECT_EQ(NameOf(all[2]), "a-3");
  EXPECT_EQ(queue.size(), 1u);
  queue.Release(*out, false);
  EXPECT_EQ(queue.size(), 0u);
  EXPECT_EQ(queue.NextDue(kStart), std::nullopt);
}

// The same, done by looking at every job.
class SlowQueue {
 public:
  struct Entry {
    uint64_t number;
    std::string lane;
    Instant expires;
    Instant held;
    bool out = false;
  };

  void Add(std::string lane, Instant expires) {
    jobs.push_back({next_++, std::move(lane), expires, Instant::min(), false});
  }
  std::optional<uint64_t> Ready(Instant now) {
    for (Entry& job : jobs) {
      const auto first = std::find_if(jobs.begin(), jobs.end(),
                                      [&job](const Entry& o) { return o.lane == job.lane; });
      if (first->number != job.number || job.out || job.held > now) continue;
      job.out = true;
      return job.number;
    }
    return std::nullopt;
  }
  std::optional<uint64_t> Expired(Instant now) {
    auto late = jobs.end();
    for (auto at = jobs.begin(); at != jobs.end(); ++at) {
      if (at->out || at->expires >= now) continue;
      if (late == jobs.end() || at->expires < late->expires) late = at;
    }
    if (late == jobs.end()) return std::nullopt;
    const uint64_t number = late->number;
    jobs.erase(late);
    return number;
  }
  void Remove(uint64_t number) { jobs.erase(Find(number)); }
  std::vector<Entry>::iterator Find(uint64_t number) {
    return std::find_if(jobs.begin(), jobs.end(),
                        [number](const Entry& job) { return job.number == number; });
  }
  std::vector<Entry> jobs;

 private:
  uint64_t next_ = 0;
};

TEST(JobQueueTest, DoesAsTheSlowModelOverRandomWalks) {
  constexpr uint32_t kSeed = 20'261;
  SCOPED_TRACE(kSeed);
  std::mt19937 random(kSeed);
  const auto below = [&random](int n) {
    return static_cast<int>(random() % static_cast<uint32_t>(n));
  };
  int given_out = 0;
  int expired = 0;
  for (int round = 0; round < 40; ++round) {
    JobQueue queue;
    SlowQueue model;
    std::vector<JobPtr> out;
    Instant now = kStart;
    for (int step = 0; step < 400; ++step) {
      now += Duration(below(3));
      const int action = below(10);
      if (action < 4) {
        const std::string lane(1, static_cast<char>('a' + below(6)));
        const int within = below(60);
        queue.Add(within < 40 ? Of(lane, Duration(within + 1)) : Of(lane), now);
        model.Add(lane, within < 40 ? now + Duration(within + 1) : Instant::max());
      } else if (action < 6 && !out.empty()) {
        const auto at = out.begin() + below(static_cast<int>(out.size()));
        JobPtr job = std::move(*at);
        out.erase(at);
        if (below(2) == 0) {
          queue.Release(*job, true);
          model.Remove(job->number);
        } else {
          const Instant until = now + Duration(below(20));
          model.Find(job->number)->out = false;
          model.Find(job->number)->held = until;
          queue.PutBack(std::move(job), until, nullptr);
        }
      } else if (action == 6) {
        const JobPtr job = queue.TakeExpired(now);
        expired += job != nullptr ? 1 : 0;
        ASSERT_EQ(job == nullptr ? std::nullopt : std::optional(job->number), model.Expired(now));
      } else {
        JobPtr job = queue.TakeReady(now);
        ASSERT_EQ(job == nullptr ? std::nullopt : std::optional(job->number), model.Ready(now));
        given_out += job != nullptr ? 1 : 0;
        if (job != nullptr) out.push_back(std::move(job));
      }
      ASSERT_EQ(queue.size(), model.jobs.size());
    }
  }
  EXPECT_GT(given_out, 500);
  EXPECT_GT(expired, 200);
}

}  // namespace
}  // namespace flowguard::guard
