// SPDX-License-Identifier: Apache-2.0
//
// Uses FlowGuard::core from an installed package: a Limiter, a Guard whose rules are built
// in C++, and an Executor.  Exits 0 if the decisions are right.
#include <chrono>
#include <cstdio>

#include <flowguard/executor.h>
#include <flowguard/guard.h>
#include <flowguard/limiter.h>

int main() {
  using namespace std::chrono_literals;
  auto limiter = flowguard::Limiter::Create({.rate = {2, 1h}});
  if (!limiter.ok()) return 1;
  if (!limiter->TryAcquire() || !limiter->TryAcquire() || limiter->TryAcquire()) return 1;

  flowguard::RuleSet rules;
  rules.rules.emplace_back();
  rules.rules[0].name = "orders";
  rules.rules[0].on.resource = "order:create";
  rules.rules[0].rate = {1, 1h};
  rules.rules[0].by = {"user"};
  auto guard = flowguard::Guard::Create(rules);
  if (!guard.ok()) {
    std::fprintf(stderr, "%s\n", guard.error().message.c_str());
    return 1;
  }
  const flowguard::DimensionValue first[] = {{"user", "ada"}};
  const flowguard::DimensionValue second[] = {{"user", "bob"}};
  flowguard::Request request;
  request.resource = "order:create";
  request.dimensions = first;
  const bool ada = (*guard)->Check(request).allowed();
  const flowguard::Decision refused = (*guard)->Check(request);
  request.dimensions = second;
  const bool bob = (*guard)->Check(request).allowed();
  auto executor = flowguard::Executor::Create(**guard);
  if (!executor.ok()) return 1;
  bool exported = false;
  if (!(*executor)->Submit({.resource = "export", .run = [&] { exported = true; }}).ok()) return 1;
  (*executor)->Shutdown(flowguard::ShutdownMode::kDrain);
  const bool right = ada && bob && exported && !refused.allowed() && refused.retry_after > 59min;
  std::puts(right ? "consumer_core: ok" : "consumer_core: wrong");
  return right ? 0 : 1;
}
