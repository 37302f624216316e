// SPDX-License-Identifier: Apache-2.0
//
// Uses FlowGuard::quota from an installed package: two guards with one limit on the Redis
// whose URL is the argument.  Exits 0 if the decisions are right.
#include <chrono>
#include <cstdio>

#include <flowguard/guard.h>
#include <flowguard/shared.h>

int main(int argc, char** argv) {
  using namespace std::chrono_literals;
  if (argc != 2) return 2;
  auto shared = flowguard::SharedLimits::Open({.redis = argv[1]});
  auto other = flowguard::SharedLimits::Open({.redis = argv[1]});
  if (!shared.ok() || !other.ok()) return 1;
  if (!(*shared)->WaitUntilConnected(10s) || !(*other)->WaitUntilConnected(10s)) return 1;

  flowguard::RuleSet rules;
  rules.rules.emplace_back();
  rules.rules[0].name = "orders";
  rules.rules[0].rate = {2, 1h};
  rules.rules[0].scope = flowguard::Scope::kShared;
  rules.rules[0].on_store_failure = flowguard::StoreFailurePolicy::kClosed;
  flowguard::GuardOptions options;
  options.store_deadline = 5s;
  options.store = (*shared)->store();
  auto guard = flowguard::Guard::Create(rules, options);
  options.store = (*other)->store();
  auto beside = flowguard::Guard::Create(rules, options);
  if (!guard.ok() || !beside.ok()) return 1;

  flowguard::Request request;
  request.resource = "order:create";
  const bool right = (*guard)->Check(request).allowed() && (*beside)->Check(request).allowed() &&
                     !(*guard)->Check(request).allowed() && !(*beside)->Check(request).allowed();
  std::puts(right ? "consumer_quota: ok" : "consumer_quota: wrong");
  return right ? 0 : 1;
}
