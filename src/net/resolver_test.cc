// SPDX-License-Identifier: Apache-2.0
#include "net/resolver.h"

#include <memory>
#include <optional>

#include <gtest/gtest.h>

#include "flowguard/clock.h"

namespace flowguard::net {
namespace {

class Asker final : public ResolverUser {
 public:
  void OnResolved(const std::vector<Address>& addresses) noexcept override { found = addresses; }
  std::optional<std::vector<Address>> found;
};

struct ResolverTest : ::testing::Test {
  void Wait() {
    for (int turn = 0; turn < 10'000 && !asker.found; ++turn)
      loop->RunOnce(std::chrono::milliseconds(10));
  }
  std::unique_ptr<Loop> loop = std::move(Loop::Create(SystemClock())).value();
  Asker asker;
  Resolver resolver{*loop, asker};
};

TEST_F(ResolverTest, FindsTheAddressesOfAName) {
  resolver.Start("localhost:6379");
  EXPECT_FALSE(asker.found) << "never from inside";
  Wait();
  ASSERT_TRUE(asker.found);
  ASSERT_FALSE(asker.found->empty());
  EXPECT_EQ(asker.found->front().port(), 6379);
}

TEST_F(ResolverTest, ANameThatCannotBeHasNoAddress) {
  resolver.Start("no host:6379");
  Wait();
  ASSERT_TRUE(asker.found);
  EXPECT_TRUE(asker.found->empty());
}

TEST_F(ResolverTest, TellsNothingAfterCancel) {
  resolver.Start("localhost:6379");
  resolver.Cancel();
  for (int turn = 0; turn < 5; ++turn)
    loop->RunOnce(std::chrono::milliseconds(5));
  EXPECT_FALSE(asker.found);
}

}  // namespace
}  // namespace flowguard::net
