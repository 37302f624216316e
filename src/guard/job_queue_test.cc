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
  queue.Release(*first);
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
  queue.Release(*ended);
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
  queue.Release(*out);
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
          queue.Release(*job);
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
