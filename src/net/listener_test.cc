// SPDX-License-Identifier: Apache-2.0
#include "net/listener.h"

#include <array>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "testing/manual_clock.h"

namespace flowguard::net {
namespace {

class Collect final : public Acceptor {
 public:
  void OnAccept(Fd fd, const Address& from) noexcept override {
    fds.push_back(std::move(fd));
    peer = from;
  }
  std::vector<Fd> fds;
  Address peer;
};

struct ListenerTest : ::testing::Test {
  Fd Dial() {
    Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(fd.get(), listener->address().raw(), listener->address().raw_size()), 0);
    return fd;
  }
  testing::ManualClock clock;
  std::unique_ptr<Loop> loop = std::move(Loop::Create(clock)).value();
  Collect collect;
  std::unique_ptr<Listener> listener =
      std::move(Listener::Open(*loop, *Address::Parse("127.0.0.1:0"), collect)).value();
};

TEST_F(ListenerTest, PortZeroIsBoundToARealPort) {
  EXPECT_NE(listener->address().port(), 0);
}

TEST_F(ListenerTest, TwoListenersShareAnAddress) {
  const auto second = Listener::Open(*loop, listener->address(), collect);
  EXPECT_TRUE(second.ok());
}

// Rules out: two processes that share a port, each with half of the limits, in silence.
TEST_F(ListenerTest, AnAddressThatSomebodyListensOnIsNotFree) {
  const auto taken = Listener::CheckFree(listener->address());
  ASSERT_FALSE(taken.ok());
  EXPECT_NE(taken.error().message.find(listener->address().ToString()), std::string::npos);
  EXPECT_NE(taken.error().message.find("in use"), std::string::npos);
}

TEST_F(ListenerTest, AnAddressIsFreeAgainWhileItsConnectionsLive) {
  const Fd client = Dial();
  loop->RunOnce(Duration::zero());
  ASSERT_EQ(collect.fds.size(), 1U);
  listener->Close();
  EXPECT_TRUE(Listener::CheckFree(listener->address()).ok());
}

TEST_F(ListenerTest, SaysWhichAddressCannotBeBound) {
  const auto failed = Listener::Open(*loop, *Address::Parse("192.0.2.1:80"), collect);
  ASSERT_FALSE(failed.ok());
  EXPECT_NE(failed.error().message.find("192.0.2.1:80"), std::string::npos);
}

TEST_F(ListenerTest, AcceptedSocketsSendWithoutDelay) {
  const Fd client = Dial();
  loop->RunOnce(Duration::zero());
  ASSERT_EQ(collect.fds.size(), 1U);
  int on = 0;
  socklen_t size = sizeof on;
  getsockopt(collect.fds[0].get(), IPPROTO_TCP, TCP_NODELAY, &on, &size);
  EXPECT_EQ(on, 1);
  EXPECT_EQ(collect.peer.port(), LocalAddress(client.get()).port());
}

TEST_F(ListenerTest, CloseAcceptsWhatTheKernelHasQueuedFirst) {
  std::vector<Fd> clients;
  for (int i = 0; i < 10; ++i)
    clients.push_back(Dial());
  listener->Close();
  EXPECT_EQ(collect.fds.size(), 10U);
}

TEST_F(ListenerTest, WithoutDescriptorsItClosesOneAndPausesInsteadOfSpinning) {
  const Fd waiting = Dial();
  const Fd other = Dial();
  rlimit old{};
  getrlimit(RLIMIT_NOFILE, &old);
  const Fd probe(socket(AF_INET, SOCK_STREAM, 0));
  rlimit tight = old;
  tight.rlim_cur = static_cast<rlim_t>(probe.get()) + 1;  // every number below is taken
  setrlimit(RLIMIT_NOFILE, &tight);

  const size_t first = loop->RunOnce(Duration::zero());
  const size_t second = loop->RunOnce(Duration::zero());
  setrlimit(RLIMIT_NOFILE, &old);

  EXPECT_EQ(first, 1U);
  EXPECT_EQ(second, 0U) << "still awake for a connection it cannot take";
  EXPECT_TRUE(collect.fds.empty());
  EXPECT_EQ(listener->counters().shed, 1U);
  clock.Advance(std::chrono::seconds(1));
  loop->RunOnce(Duration::zero());
  loop->RunOnce(Duration::zero());
  EXPECT_EQ(collect.fds.size(), 1U);
}

}  // namespace
}  // namespace flowguard::net
