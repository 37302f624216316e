// SPDX-License-Identifier: Apache-2.0
//
// Limits that several programs share, counted in Redis.  Part of FlowGuard::quota.
//
//   auto shared = flowguard::SharedLimits::Open({.redis = "redis://127.0.0.1:6379"});
//   flowguard::GuardOptions options;
//   options.store = (*shared)->store();
//   auto guard = flowguard::Guard::Create(rules, options);     // rules with Scope::kShared
//
//   Decision d = (*guard)->Check(request);   // asks Redis, at most options.store_deadline
//   (*guard)->CheckAsync(request, [](const Decision& d) { ... });  // answers on its thread
//
// What a rule does while Redis does not answer is its own on_store_failure.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "flowguard/result.h"
#include "flowguard/time.h"

namespace flowguard {

namespace engine {
class QuotaStore;
}  // namespace engine

struct SharedLimitsOptions {
  // Where the limits are counted:
  //   redis://[user:password@]host[:port][/database]      rediss:// with TLS
  //   unix:///path/of/socket
  //   redis-sentinel://host:port,host:port/master-name
  //   redis-cluster://host:port,host:port
  // docs/shared-limits.md has all parts and settings.
  std::string redis;
  // How many programs share the limits, as long as Redis has not counted them; 0: not
  // known, and rules that would use this program's share refuse then.
  int nodes = 0;
  // Of what no call waits for: what is given back, and the count of programs.
  Duration deadline = std::chrono::milliseconds(20);
};

// As of about now; counts are of takes (one rule of one request), and only grow.
struct SharedLimitsStatus {
  bool connected = false;  // to a server that can be asked
  bool away = false;       // a server does not answer: rules follow their on_store_failure
  int nodes = 0;           // programs that share the limits; 0: not known
  uint64_t granted = 0;
  uint64_t refused = 0;
  uint64_t failed = 0;  // not asked, or not answered in time
  uint64_t lost = 0;    // give-backs and charges that could not be sent
};

// A connection to where limits are shared, with a thread of its own.  One serves any
// number of Guards, which it must outlive, with what they called back.
//
// Threads: every method may be called from any thread.
class SharedLimits {
 public:
  // Starts the thread, which connects, and connects again for as long as it lives.  A
  // server that cannot be reached is no error.
  // Errors: kInvalidArgument for a URL or files of TLS that cannot be used, and for
  // options out of range; kResourceExhausted without descriptors.
  static Result<std::unique_ptr<SharedLimits>> Open(const SharedLimitsOptions& options);
  // Returns what was taken ahead, at most for twice the deadline, and ends the thread.
  // Requires: not on its own thread, so not from a callback of CheckAsync.
  ~SharedLimits();
  SharedLimits(const SharedLimits&) = delete;
  SharedLimits& operator=(const SharedLimits&) = delete;

  // For GuardOptions::store.  Callbacks of CheckAsync run on the thread: until one
  // returns, nobody else is answered.  A Check or Enter inside one cannot be answered, and
  // ends as if Redis had not; CheckAsync can.
  [[nodiscard]] engine::QuotaStore* store() noexcept;

  // Blocks until there is a connection, or `timeout` has passed; whether there is one.
  [[nodiscard]] bool WaitUntilConnected(Duration timeout) const noexcept;

  [[nodiscard]] SharedLimitsStatus status() const noexcept;

 private:
  struct Parts;
  explicit SharedLimits(std::unique_ptr<Parts> parts) noexcept;

  std::unique_ptr<Parts> parts_;
};

}  // namespace flowguard
