// SPDX-License-Identifier: Apache-2.0
//
// Two workers whose limits are one over Redis, as those of two programs or machines would
// be.  Exits 0 if what it saw was right.
//
//   example_shared [redis://127.0.0.1:6379]
#include "flowguard/shared.h"

#include <atomic>
#include <cstdio>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include <unistd.h>

#include "flowguard/guard.h"

namespace {

using namespace std::chrono_literals;

// Five mails an hour for each user, whoever sends them; and at most two calls at a time to
// the mail server.
flowguard::RuleSet Rules() {
  flowguard::RuleSet set;
  flowguard::Rule mail;
  mail.name = "mail-per-user";
  mail.on.resource = "mail:send";
  mail.rate = {5, 1h};
  mail.by = {"user"};
  mail.scope = flowguard::Scope::kShared;
  // Without Redis each worker goes on with its part of the limit.
  mail.on_store_failure = flowguard::StoreFailurePolicy::kLocal;
  set.rules.push_back(mail);

  flowguard::Rule calls;
  calls.name = "mail-server";
  calls.kind = flowguard::RuleKind::kConcurrency;
  calls.on.resource = "mail:send";
  calls.concurrency = 2;
  calls.scope = flowguard::Scope::kShared;
  set.rules.push_back(calls);
  return set;
}

// One program: its connection, and the guard that asks over it.
class Worker {
 public:
  // Errors, on stderr: false.
  bool Start(const std::string& redis) {
    auto shared = flowguard::SharedLimits::Open({.redis = redis, .nodes = 2});
    if (!shared.ok()) {
      std::fprintf(stderr, "%s\n", shared.error().message.c_str());
      return false;
    }
    shared_ = std::move(shared).value();
    flowguard::GuardOptions options;
    options.store = shared_->store();
    options.store_deadline = 1s;
    auto guard = flowguard::Guard::Create(Rules(), options);
    if (!guard.ok()) {
      std::fprintf(stderr, "%s\n", guard.error().message.c_str());
      return false;
    }
    guard_ = std::move(guard).value();
    // Not needed: until there is a connection, rules follow their on_store_failure.
    return shared_->WaitUntilConnected(10s);
  }

  // How many of `count` mails went.
  int Send(const std::string& user, int count) {
    int sent = 0;
    for (int i = 0; i < count; ++i) {
      const flowguard::DimensionValue dimensions[] = {{"user", user}};
      flowguard::Entry entry =
          guard_->Enter({.resource = "mail:send", .dimensions = dimensions}, 1s);
      if (!entry) continue;
      // ... the call to the mail server ...
      entry.Settle(flowguard::Outcome::kOk);
      ++sent;
    }
    return sent;
  }

  // Whether one more would go, asked without blocking.
  bool MayGo(const std::string& user) {
    const flowguard::DimensionValue dimensions[] = {{"user", user}};
    std::promise<bool> answer;
    guard_->CheckAsync(
        {.resource = "mail:send", .dimensions = dimensions},
        [&](const flowguard::Decision& decision) { answer.set_value(decision.allowed()); });
    return answer.get_future().get();
  }

  [[nodiscard]] flowguard::SharedLimitsStatus status() const { return shared_->status(); }

 private:
  std::unique_ptr<flowguard::SharedLimits> shared_;
  std::unique_ptr<flowguard::Guard> guard_;  // ends first
};

}  // namespace

int main(int argc, char** argv) {
  const std::string redis = argc > 1 ? argv[1] : "redis://127.0.0.1:6379";
  Worker first;
  Worker second;
  if (!first.Start(redis) || !second.Start(redis)) {
    std::fprintf(stderr, "no Redis at %s\n", redis.c_str());
    return 1;
  }
  const std::string user = "ada-" + std::to_string(getpid());
  int by_second = 0;
  std::thread beside([&] { by_second = second.Send(user, 4); });
  const int by_first = first.Send(user, 4);
  beside.join();
  const bool more = first.MayGo(user);
  std::printf("two workers sent %d of 8 mails; one more may go: %s\n", by_first + by_second,
              more ? "yes" : "no");
  std::printf("programs that share the limits: %d\n", second.status().nodes);
  return by_first + by_second == 5 && !more ? 0 : 1;
}
