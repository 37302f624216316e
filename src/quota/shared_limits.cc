// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>

#include "flowguard/clock.h"
#include "flowguard/shared.h"

#include "base/bounds.h"
#include "base/try.h"
#include "quota/io_thread.h"
#include "quota/redis/options.h"
#include "quota/redis_store.h"
#include "quota/threaded_store.h"

namespace flowguard {
namespace {

// Between looks at what the thread is about.
constexpr Duration kLookEvery = std::chrono::milliseconds(1);

// Looks until `done`, at most for `most`; whether it came.
template <typename Done>
bool LookUntil(Done done, Duration most) noexcept {
  const Clock& clock = SystemClock();
  const Instant end = clock.Now() + most;
  for (;;) {
    if (done()) return true;
    const Instant now = clock.Now();
    if (now >= end) return false;
    clock.SleepUntil(now + kLookEvery);
  }
}

Result<void> CheckOptions(const SharedLimitsOptions& options) {
  if (options.nodes < 0 || options.nodes > base::kNodesMax) {
    return Error::InvalidArgument("nodes: " + std::to_string(options.nodes) + "; it is from 0 to " +
                                  std::to_string(base::kNodesMax));
  }
  if (options.deadline <= Duration::zero()) {
    return Error::InvalidArgument("deadline: " + std::to_string(options.deadline.count()) +
                                  " ns; it is at least 1 ns");
  }
  return {};
}

}  // namespace

// `redis` lives on the thread: it begins and ends there.
struct SharedLimits::Parts {
  explicit Parts(std::unique_ptr<quota::IoThread> thread) noexcept : io(std::move(thread)) {}

  Duration deadline{};
  std::unique_ptr<quota::IoThread> io;
  std::unique_ptr<quota::RedisStore> redis;
  std::unique_ptr<quota::ThreadedStore> store;
};

Result<std::unique_ptr<SharedLimits>> SharedLimits::Open(const SharedLimitsOptions& options) {
  FG_RETURN_IF_ERROR(CheckOptions(options));
  quota::RedisStoreOptions with;
  FG_ASSIGN_OR_RETURN(with.redis, quota::redis::ParseUrl(options.redis));
  with.owner = quota::MakeNodeName();
  with.deadline = options.deadline;
  with.nodes = options.nodes;
  FG_ASSIGN_OR_RETURN(auto io, quota::IoThread::Start(SystemClock()));
  auto parts = std::make_unique<Parts>(std::move(io));
  parts->deadline = options.deadline;
  with.on_nodes = [&parts = *parts](int nodes) { parts.store->set_nodes(nodes); };
  Result<void> made;
  parts->io->PostAndWait([&] {
    auto redis = quota::RedisStore::Create(parts->io->loop(), std::move(with));
    if (!redis.ok()) {
      made = std::move(redis).error();
      return;
    }
    parts->redis = std::move(redis).value();
    parts->store =
        std::make_unique<quota::ThreadedStore>(*parts->io, parts->redis->store(), options.nodes);
    parts->redis->Open();
  });
  FG_RETURN_IF_ERROR(std::move(made));
  return std::unique_ptr<SharedLimits>(new SharedLimits(std::move(parts)));
}

SharedLimits::SharedLimits(std::unique_ptr<Parts> parts) noexcept : parts_(std::move(parts)) {}

SharedLimits::~SharedLimits() {
  quota::IoThread& io = *parts_->io;
  io.PostAndWait([this] { parts_->redis->Close(); });
  // What it sends now is answered, or failed, by the deadline.
  LookUntil(
      [&] {
        bool quiet = false;
        io.PostAndWait([&] { quiet = parts_->redis->quiet(); });
        return quiet;
      },
      2 * parts_->deadline);
  io.PostAndWait([this] { parts_->redis = nullptr; });
}

engine::QuotaStore* SharedLimits::store() noexcept {
  return parts_->store.get();
}

bool SharedLimits::WaitUntilConnected(Duration timeout) const noexcept {
  return LookUntil([this] { return status().connected; }, timeout);
}

SharedLimitsStatus SharedLimits::status() const noexcept {
  const quota::StoreStatus from = parts_->redis->status();
  SharedLimitsStatus status;
  status.connected = parts_->redis->metrics().connected.value() > 0;
  status.away = from.places_away > 0;
  status.nodes = parts_->store->Nodes();
  status.granted = from.granted;
  status.refused = from.refused;
  status.failed = from.failed;
  status.lost = from.dues_lost + parts_->store->dues_lost();
  return status;
}

}  // namespace flowguard
