// SPDX-License-Identifier: Apache-2.0
//
// One case of the hot path, run a known number of times, for callgrind: its
// instruction counts do not depend on how busy the machine is.
//
//   fg_instructions CASE        the region counted is Case()
//
// tools/check_instructions.py runs it and holds the counts against
// bench/instructions.txt.
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "flowguard/guard.h"
#include "flowguard/keyed_limiter.h"
#include "flowguard/limiter.h"

namespace {

using namespace std::chrono_literals;

constexpr int kTimes = 10'000;
const flowguard::Instant kStart = flowguard::Instant(std::chrono::hours(24 * 10));

struct Subjects {
  flowguard::Limiter limiter = flowguard::Limiter::Create({.rate = {1'000'000'000, 1s}}).value();
  std::unique_ptr<flowguard::KeyedLimiter> keyed =
      flowguard::KeyedLimiter::Create({.rate = {1'000'000'000, 1s}, .hash_seed = 7}).value();
  std::unique_ptr<flowguard::Guard> guard;
  bool refusing = false;
};

std::unique_ptr<flowguard::Guard> GuardOf(int rules, int64_t limit, bool statistics) {
  flowguard::RuleSet set;
  for (int i = 0; i < rules; ++i) {
    flowguard::Rule rule;
    rule.name = "rule-" + std::to_string(i);
    rule.on.route = "GET /service" + std::to_string(i) + "/items/{id}";
    rule.rate = {limit, limit == 1 ? flowguard::Duration(1h) : flowguard::Duration(1s)};
    rule.by = {"ip"};
    set.rules.push_back(rule);
  }
  flowguard::GuardOptions options;
  options.hash_seed = 7;
  options.statistics = statistics;
  return flowguard::Guard::Create(set, options).value();
}

__attribute__((noinline)) int CaseLimiter(Subjects& s) {
  int allowed = 0;
  for (int i = 0; i < kTimes; ++i)
    allowed += s.limiter.TryAcquireAt(kStart + i * 1us);
  return allowed;
}

__attribute__((noinline)) int CaseKeyed(Subjects& s) {
  int allowed = 0;
  for (int i = 0; i < kTimes; ++i)
    allowed += s.keyed->TryAcquireAt(kStart + i * 1us, "192.0.2.77");
  return allowed;
}

__attribute__((noinline)) int CaseGuard(Subjects& s, const flowguard::Request& request) {
  int allowed = 0;
  for (int i = 0; i < kTimes; ++i) {
    allowed += s.guard->CheckAt(kStart + i * 1us, request).allowed();
  }
  return allowed;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  Subjects subjects;
  int allowed = 0;
  int expected = kTimes;
  if (name == "limiter") {
    allowed = CaseLimiter(subjects);
  } else if (name == "keyed") {
    allowed = CaseKeyed(subjects);
  } else if (name == "guard-100" || name == "guard-10000" || name == "guard-refused" ||
             name == "guard-statistics") {
    const bool refused = name == "guard-refused";
    subjects.guard = GuardOf(name == "guard-10000" ? 10'000 : 100, refused ? 1 : 1'000'000'000,
                             name == "guard-statistics");
    expected = refused ? 1 : kTimes;
    const flowguard::DimensionValue dimensions[] = {{"ip", "192.0.2.77"}};
    flowguard::Request request;
    request.method = "GET";
    request.path = "/service42/items/1001";
    request.dimensions = dimensions;
    // The first decision of a thread allocates its counters, and malloc may tidy up then
    // what the building of the rules has freed; later ones allocate nothing.
    static_cast<void>(subjects.guard->CheckAt(kStart - 2h, request));
    // So many in one moment that a thread has statistics of its own from then on.
    for (int i = 0; i < 100 && name == "guard-statistics"; ++i)
      static_cast<void>(subjects.guard->CheckAt(kStart, request));
    allowed = CaseGuard(subjects, request);
  } else {
    std::fprintf(stderr,
                 "usage: fg_instructions limiter|keyed|guard-100|guard-10000|guard-refused|"
                 "guard-statistics\n");
    return 2;
  }
  if (allowed != expected) std::fprintf(stderr, "%d of %d allowed\n", allowed, expected);
  return allowed == expected ? 0 : 1;
}
