// SPDX-License-Identifier: Apache-2.0
#include "breaker/call_window.h"

#include <gtest/gtest.h>

#include "breaker/test_breaker.h"

namespace flowguard::breaker {
namespace {

CallCounts Count(CallWindow& window, Instant now, bool bad = false) {
  CallCounts counts;
  EXPECT_TRUE(window.Count(
      now, bad, [] { return true; }, counts));
  return counts;
}

CallCounts Of(int64_t calls, int64_t bad) {
  return {calls, bad};
}

TEST(CallWindowTest, SlidesByBuckets) {
  CallWindow window(ErrorCount(1, 1));  // 10 buckets of 100 ms

  EXPECT_EQ(Count(window, At(0), true), Of(1, 1));
  EXPECT_EQ(Count(window, At(99)), Of(2, 1));
  EXPECT_EQ(Count(window, At(100)), Of(3, 1));
  EXPECT_EQ(Count(window, At(999)), Of(4, 1));
  EXPECT_EQ(Count(window, At(1'000)), Of(3, 0)) << "the first bucket is over";
  EXPECT_EQ(Count(window, At(1'100)), Of(3, 0));
  EXPECT_EQ(Count(window, At(1'899)), Of(4, 0));
  EXPECT_EQ(Count(window, At(1'900)), Of(4, 0)) << "that of 999 is over";
}

// Rules out: a call that counts for longer than the window.
TEST(CallWindowTest, NoCallCountsLongerThanTheWindow) {
  for (int64_t offset = 0; offset < 100; ++offset) {
    CallWindow window(ErrorCount(1, 1));
    Count(window, At(offset), true);
    EXPECT_EQ(Count(window, At(offset + 900)), Of(2, 1)) << offset;
    EXPECT_EQ(Count(window, At(offset + 1'000)), Of(2, 0)) << offset;
  }
}

TEST(CallWindowTest, OneBucketTumblesAtMultiplesOfItsLength) {
  CallWindow window(SentinelForm(ErrorCount(1, 1)));

  EXPECT_EQ(Count(window, At(900), true), Of(1, 1));
  EXPECT_EQ(Count(window, At(999), true), Of(2, 2));
  EXPECT_EQ(Count(window, At(1'000), true), Of(1, 1));
}

TEST(CallWindowTest, LongIdlenessForgetsAll) {
  CallWindow window(ErrorCount(1, 1));
  Count(window, At(0), true);

  EXPECT_EQ(Count(window, At(3'600'000)), Of(1, 0));
  // The slots of the ring are met again; what lay in them is over.
  EXPECT_EQ(Count(window, At(3'600'900)), Of(2, 0));
}

TEST(CallWindowTest, ALateStampCountsInTheNewestBucket) {
  CallWindow window(ErrorCount(1, 1));
  Count(window, At(20'000), true);

  EXPECT_EQ(Count(window, At(10'000), true), Of(2, 2));
  EXPECT_EQ(Count(window, At(20'900)), Of(3, 2));
  EXPECT_EQ(Count(window, At(21'000)), Of(2, 0));
}

// Rules out: counts from before a step back that stay, or come back, until the old time
// is reached again.
TEST(CallWindowTest, AClockThatSteppedBackBeginsAnEmptyWindow) {
  CallWindow window(ErrorCount(1, 1));
  Count(window, At(100'000), true);
  Count(window, At(100'500), true);

  EXPECT_EQ(Count(window, At(50'000)), Of(1, 0));
  EXPECT_EQ(Count(window, At(50'100), true), Of(2, 1));
  EXPECT_EQ(Count(window, At(100'400)), Of(1, 0));
  EXPECT_EQ(Count(window, At(100'600)), Of(2, 0));
}

TEST(CallWindowTest, ClearForgetsAllBuckets) {
  CallWindow window(ErrorCount(1, 1));
  Count(window, At(0), true);
  Count(window, At(500), true);

  window.Clear();

  EXPECT_EQ(window.Look(At(500)), Of(0, 0));
  EXPECT_EQ(Count(window, At(600)), Of(1, 0));
}

TEST(CallWindowTest, ACallThatIsNobodysIsNotCounted) {
  CallWindow window(ErrorCount(1, 1));
  CallCounts counts;

  EXPECT_FALSE(window.Count(
      At(0), true, [] { return false; }, counts));

  EXPECT_EQ(window.Look(At(0)), Of(0, 0));
}

// Rules out: a call counted that was asked about before the window was cleared.
TEST(CallWindowTest, ACallAskedAboutBeforeAClearIsAskedAboutAgain) {
  CallWindow window(ErrorCount(1, 1));
  int asked = 0;
  CallCounts counts;

  const bool counted = window.Count(
      At(0), true,
      [&] {
        if (++asked == 1) window.Clear();
        return asked == 1;
      },
      counts);

  EXPECT_FALSE(counted);
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(window.Look(At(0)), Of(0, 0));
}

TEST(CallWindowTest, LookSeesWhatIsOverWithoutACall) {
  CallWindow window(ErrorCount(1, 1));
  Count(window, At(0), true);
  Count(window, At(500));

  EXPECT_EQ(window.Look(At(500)), Of(2, 1));
  EXPECT_EQ(window.Look(At(1'000)), Of(1, 0));
  EXPECT_EQ(window.Look(At(1'500)), Of(0, 0));
  EXPECT_EQ(window.Look(At(500)), Of(2, 1)) << "a look changes nothing";
}

// Rules out: sixteen million calls that overflow into the errors, or into the tag.
TEST(CallWindowTest, AFullWindowIsHalvedAndKeepsItsRatio) {
  CallWindow window(ErrorRatio(0.5, 1));
  CallCounts counts;
  for (int64_t i = 1; i < CallWindow::kCallsFull; ++i)
    counts = Count(window, At(i < 1'000'000 ? 0 : 300), i % 4 == 0);
  ASSERT_EQ(counts.calls, CallWindow::kCallsFull - 1);

  counts = Count(window, At(300));

  EXPECT_NEAR(static_cast<double>(counts.calls), CallWindow::kCallsFull / 2, 2);
  EXPECT_NEAR(static_cast<double>(counts.bad), CallWindow::kCallsFull / 8, 2);
  EXPECT_GE(counts.calls, base::kBreakerCallsMax);
  EXPECT_EQ(window.Look(At(1'200)).calls, counts.calls - 499'999) << "all buckets were halved";
}

TEST(CallWindowTest, AFullWindowKeepsTheCountOfErrors) {
  CallWindow window(ErrorCount(10, 1));
  for (int i = 0; i < 7; ++i)
    Count(window, At(0), true);
  CallCounts counts;
  for (int64_t i = 7; i < CallWindow::kCallsFull; ++i)
    counts = Count(window, At(300));

  EXPECT_NEAR(static_cast<double>(counts.calls), CallWindow::kCallsFull / 2, 8);
  EXPECT_EQ(counts.bad, 7);
}

}  // namespace
}  // namespace flowguard::breaker
