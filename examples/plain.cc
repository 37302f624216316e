// SPDX-License-Identifier: Apache-2.0
//
// FlowGuard in a plain program, with the standard library alone: one limiter, a
// queue consumer whose limits are declared beside it, and a call whose cost is known
// only afterwards.  Exits 0 if what it saw was right.
#include <cstdio>
#include <memory>
#include <string>

#include "flowguard/guard.h"
#include "flowguard/limiter.h"
#include "flowguard/protect.h"

namespace {

using namespace std::chrono_literals;

struct Mail {
  std::string user;
  std::string text;
};

// One limit, no key: three at once, one more each hour.
int OneLimiter() {
  auto limiter = flowguard::Limiter::Create({.rate = {1, 1h}, .burst = 3});
  if (!limiter.ok()) return -1;
  int sent = 0;
  for (int i = 0; i < 10; ++i)
    sent += limiter->TryAcquire() ? 1 : 0;
  return sent;
}

flowguard::RuleSet Rules() {
  flowguard::RuleSet set;
  flowguard::Rule mail;
  mail.name = "mail-per-user";
  mail.on.resource = "mail:send";
  mail.rate = {2, 1h};
  mail.by = {"user"};
  set.rules.push_back(mail);

  flowguard::Rule tokens;
  tokens.name = "model-tokens";
  tokens.on.resource = "model:ask";
  tokens.rate = {1000, 1h};
  tokens.cost = {.reserve = 600, .settle = "", .max_debt = 0};
  set.rules.push_back(tokens);
  return set;
}

// A consumer of a queue: what is over the limit is put back.
int Consume(flowguard::Guard& guard) {
  int put_back = 0;
  auto send = flowguard::Protect(guard, "mail:send")
                  .By("user", [](const Mail& mail) { return mail.user; })
                  .OnBlock([&](const flowguard::Decision&, const Mail&) {
                    ++put_back;
                    return false;
                  })
                  .Wrap([](const Mail& mail) { return !mail.text.empty(); });
  int sent = 0;
  for (int i = 0; i < 5; ++i)
    sent += send(Mail{"ada", "hello"}) ? 1 : 0;
  sent += send(Mail{"bob", "hello"}) ? 1 : 0;
  return put_back == 3 ? sent : -1;
}

// Reserves 600 units, uses 100: the rest is there for the next call.
bool SettlesWithTheActualCost(flowguard::Guard& guard) {
  flowguard::Request request;
  request.resource = "model:ask";
  flowguard::Entry first = guard.Enter(request);
  const bool second_is_refused = !guard.Check(request).allowed();
  first.Settle(flowguard::Outcome::kOk, 100);
  return second_is_refused && guard.Check(request).allowed();
}

}  // namespace

int main() {
  auto guard = flowguard::Guard::Create(Rules());
  if (!guard.ok()) {
    std::fprintf(stderr, "%s\n", guard.error().message.c_str());
    return 1;
  }
  const int alone = OneLimiter();
  const int consumed = Consume(**guard);
  const bool settled = SettlesWithTheActualCost(**guard);
  std::printf("one limiter let %d of 10 through\n", alone);
  std::printf("the consumer sent %d of 6 mails\n", consumed);
  std::printf("unused units came back: %s\n", settled ? "yes" : "no");
  return alone == 3 && consumed == 3 && settled ? 0 : 1;
}
