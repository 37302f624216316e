// SPDX-License-Identifier: Apache-2.0
//
// That entering and settling allocates nothing once a thread has begun.
#include <array>
#include <cstdint>

#include <gtest/gtest.h>

#include "flowguard/guard.h"

#include "testing/manual_clock.h"
#include "testing/rules.h"
#include "testing/thread_allocations.h"

namespace flowguard {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(EntryAllocationTest, AnEntryAllocatesNothingWhetherItGoesOrIsRefused) {
  testing::ManualClock clock;
  Rule per_user = testing::LimitRule("per-user", 50, seconds(1));
  per_user.by = {"user"};
  Rule refuses = testing::LimitRule("closed", 0, seconds(1));
  refuses.on.resource = "closed";
  GuardOptions options;
  options.clock = &clock;
  const auto guard =
      Guard::Create({.rules = {per_user, refuses, testing::ConcurrencyRule("slots", 3),
                               testing::ErrorCountBreaker("breaker", 4)},
                     .dimensions = {}},
                    options)
          .value();
  const std::array dimensions = {DimensionValue{"user", "ann"}};
  int went = 0;
  int refused = 0;
  const auto enter = [&](int i) {
    Request request;
    request.resource = i % 7 == 0 ? "closed" : "open";
    request.dimensions = dimensions;
    Entry entry = guard->Enter(request);
    ++(entry ? went : refused);
    entry.Settle(i / 200 % 2 == 0 && i % 3 == 0 ? Outcome::kError : Outcome::kOk);
    clock.Advance(milliseconds(10));
  };
  for (int i = 0; i < 2'000; ++i)
    enter(i);  // the thread's own lines, and what is kept for reuse
  went = refused = 0;
  const int64_t before = allocations;

  for (int i = 0; i < 20'000; ++i)
    enter(i);

  EXPECT_EQ(allocations, before);
  EXPECT_GT(went, 1'000);
  EXPECT_GT(refused, 3'000) << "by the limit of 0, and by the open breaker";
}

}  // namespace
}  // namespace flowguard
