// SPDX-License-Identifier: Apache-2.0
//
// Entering and leaving a guarded call, measured on request: reads "CASE THREADS" lines and
// answers nanoseconds an entry and thread, or "allocations CASE" and answers how many blocks
// of memory 100,000 entries asked for.  bench/peers/sentinel has the same cases.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "flowguard/guard.h"

#include "measure.h"

namespace {

std::atomic<uint64_t> allocations{0};

}  // namespace

// GCC takes the pair of malloc and free for a mismatch of new and delete.
#pragma GCC diagnostic push
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif
void* operator new(size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(size)) return memory;
  std::abort();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
#pragma GCC diagnostic pop

namespace {

using namespace std::chrono_literals;
using flowguard::Rule;

// A guard, and the resources that its threads go through, one after the other.
struct Case {
  std::unique_ptr<flowguard::Guard> guard;
  std::vector<std::string> resources;

  // Enters and leaves the calls `begin` to `begin + count`.
  void Run(size_t begin, size_t count) {
    for (size_t i = begin; i < begin + count; ++i) {
      flowguard::Request request;
      request.resource = resources[i % resources.size()];
      flowguard::Entry entry = guard->Enter(request);
      bench::Keep(static_cast<bool>(entry));
      entry.Settle(flowguard::Outcome::kOk);
    }
  }
};

Rule FlowRule(const std::string& resource, int64_t limit) {
  Rule rule;
  rule.name = "flow-" + resource;
  rule.on.resource = resource;
  rule.rate = {limit, 1s};
  return rule;
}

Rule BreakerRule(const std::string& resource) {
  Rule rule;
  rule.name = "breaker-" + resource;
  rule.kind = flowguard::RuleKind::kBreaker;
  rule.on.resource = resource;
  rule.breaker.slow_ratio = 0.5;
  rule.breaker.slow_over = 1s;
  rule.breaker.min_calls = 5;
  rule.breaker.window = 1s;
  return rule;
}

// With statistics of every resource, as Sentinel's entries have them.
Case Make(std::vector<Rule> rules, std::vector<std::string> resources, bool statistics = true) {
  flowguard::GuardOptions options;
  options.statistics = statistics;
  auto made = flowguard::Guard::Create({.rules = std::move(rules), .dimensions = {}}, options);
  if (!made.ok()) {
    std::fprintf(stderr, "%s\n", made.error().message.c_str());
    std::exit(1);
  }
  return {std::move(made).value(), std::move(resources)};
}

constexpr int64_t kNeverReached = 1'000'000'000;

std::map<std::string, Case> Cases() {
  std::map<std::string, Case> cases;
  cases["none"] = Make({}, {"resource"});
  cases["accept"] = Make({FlowRule("resource", kNeverReached)}, {"resource"});
  cases["bare"] = Make({FlowRule("resource", kNeverReached)}, {"resource"}, false);
  // Counted by windows, as Sentinel does; its two are 60 here.
  Rule buckets = FlowRule("resource", kNeverReached);
  buckets.algorithm = flowguard::Algorithm::kSlidingBuckets;
  buckets.buckets = 60;
  cases["buckets"] = Make({buckets}, {"resource"});
  cases["reject"] = Make({FlowRule("resource", 1)}, {"resource"});
  cases["breaker"] =
      Make({FlowRule("resource", kNeverReached), BreakerRule("resource")}, {"resource"});
  std::vector<Rule> rules;
  std::vector<std::string> resources;
  for (int i = 0; i < 1'000; ++i) {
    resources.push_back("resource-" + std::to_string(i));
    rules.push_back(FlowRule(resources.back(), kNeverReached));
  }
  cases["thousand"] = Make(std::move(rules), std::move(resources));
  return cases;
}

// Of this thread's entries after the first ones, which fill what is kept for reuse.
uint64_t CountAllocations(Case& one) {
  one.Run(0, 10'000);
  const uint64_t before = allocations.load();
  one.Run(0, 100'000);
  return allocations.load() - before;
}

}  // namespace

int main() {
  std::map<std::string, Case> cases = Cases();
  std::puts("ready");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    const bool count = name == "allocations";
    if (count) words >> name;
    int threads = 0;
    const auto found = cases.find(name);
    if (found == cases.end() || (!count && !(words >> threads && threads > 0))) {
      std::printf("unknown case %s\n", line.c_str());
    } else if (count) {
      std::printf("%llu\n", static_cast<unsigned long long>(CountAllocations(found->second)));
    } else {
      std::printf("%.3f\n", bench::Measure(threads, [&](size_t begin, size_t entries) {
                    found->second.Run(begin, entries);
                  }));
    }
    std::fflush(stdout);
  }
  return 0;
}
