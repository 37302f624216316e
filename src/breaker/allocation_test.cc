// SPDX-License-Identifier: Apache-2.0
//
// That a breaker allocates nothing once it is made.
#include <atomic>
#include <cstdlib>
#include <new>

#include <gtest/gtest.h>

#include "breaker/breaker.h"
#include "breaker/test_breaker.h"

namespace {
std::atomic<int64_t> allocations{0};
}  // namespace

// GCC takes the pair of malloc and free for a mismatch of new and delete.
#pragma GCC diagnostic push
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif
void* operator new(size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) std::abort();
  return memory;
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
#pragma GCC diagnostic pop

namespace flowguard::breaker {
namespace {

class Counter : public BreakerObserver {
 public:
  void OnTransition(const BreakerEvent&) override { ++events; }
  int events = 0;
};

TEST(BreakerAllocationTest, ABreakerAllocatesNothingOnceItIsMade) {
  BreakerSpec spec = ErrorRatio(0.5, 4);
  spec.probes = 3;
  Counter counter;
  const auto breaker = Breaker::Create(spec, &counter).value();
  const int64_t before = allocations.load();

  int64_t refused = 0;
  for (int64_t ms = 0; ms < 100'000; ms += 7) {
    BreakerAdmission admission = breaker->TryEnter(At(ms));
    if (!admission.admitted()) {
      ++refused;
      continue;
    }
    const bool ill = ms / 10'000 % 2 == 0;
    breaker->Settle(admission.ticket, ill ? Outcome::kError : Outcome::kOk, Ms(3), At(ms + 3));
  }

  EXPECT_EQ(allocations.load(), before);
  EXPECT_GT(refused, 1'000);
  EXPECT_GE(counter.events, 20);
}

// What docs/breakers.md says of memory.
TEST(BreakerAllocationTest, ABreakerOfTenBucketsTakesUnderOneKibibyte) {
  EXPECT_LE(sizeof(Breaker) + 10 * 16 + 24, 1024u);
}

}  // namespace
}  // namespace flowguard::breaker
