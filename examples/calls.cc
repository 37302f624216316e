// SPDX-License-Identifier: Apache-2.0
//
// Calls to others that are limited and cut off when they turn slow: text messages by a
// vendor, and a database.  Each has a cheaper answer for what is refused.  Exits 0 if what it
// saw was right.
#include <array>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "flowguard/guard.h"
#include "flowguard/protect.h"

namespace {

using namespace std::chrono_literals;

// Longer than slow_over of the breakers below.
constexpr auto kSlowCall = 150ms;

flowguard::Rule SlowCallBreaker(const char* name, const char* resource) {
  flowguard::Rule rule;
  rule.name = name;
  rule.kind = flowguard::RuleKind::kBreaker;
  rule.on.resource = resource;
  // Opens when more than half of at least four calls within ten seconds took over 100 ms.
  rule.breaker.slow_ratio = 0.5;
  rule.breaker.slow_over = 100ms;
  rule.breaker.min_calls = 4;
  rule.breaker.window = 10s;
  rule.breaker.open_for = 300ms;
  return rule;
}

flowguard::RuleSet Rules() {
  flowguard::RuleSet set;
  set.rules.push_back(SlowCallBreaker("sms-vendor", "sms:send"));
  set.rules.push_back(SlowCallBreaker("stock-db-slow", "db:stock"));

  flowguard::Rule messages;
  messages.name = "sms-per-user";
  messages.on.resource = "sms:send";
  messages.rate = {3, 1h};
  messages.by = {"user"};
  set.rules.push_back(messages);

  flowguard::Rule connections;
  connections.name = "stock-db-connections";
  connections.kind = flowguard::RuleKind::kConcurrency;
  connections.on.resource = "db:stock";
  connections.concurrency = 8;
  set.rules.push_back(connections);
  return set;
}

// --- text messages: Guard::Enter by hand

class Vendor {
 public:
  void set_slow(bool slow) { slow_ = slow; }
  bool Deliver(const std::string& /*user*/, const std::string& text) {
    if (slow_) std::this_thread::sleep_for(kSlowCall);
    return !text.empty();
  }

 private:
  bool slow_ = false;
};

enum class Sent { kByText, kByMail, kTooMany };

class Messages {
 public:
  Messages(flowguard::Guard& guard, Vendor& vendor) : guard_(guard), vendor_(vendor) {}

  // What is refused since the user had too many is not sent; what is refused since the
  // vendor is slow goes by mail.
  Sent Send(const std::string& user, const std::string& text) {
    const std::array dimensions = {flowguard::DimensionValue{"user", user}};
    flowguard::Request request;
    request.resource = "sms:send";
    request.dimensions = dimensions;
    flowguard::Entry entry = guard_.Enter(request);
    if (!entry) {
      retry_after_ = entry.decision().retry_after;
      return entry.decision().reason == flowguard::Reason::kBreaker ? Sent::kByMail
                                                                    : Sent::kTooMany;
    }
    const bool delivered = vendor_.Deliver(user, text);
    entry.Settle(delivered ? flowguard::Outcome::kOk : flowguard::Outcome::kError);
    return delivered ? Sent::kByText : Sent::kByMail;
  }
  [[nodiscard]] flowguard::Duration retry_after() const { return retry_after_; }

 private:
  flowguard::Guard& guard_;
  Vendor& vendor_;
  flowguard::Duration retry_after_{};
};

bool SendMessages(flowguard::Guard& guard) {
  Vendor vendor;
  Messages messages(guard, vendor);
  std::map<Sent, int> ada;
  for (int i = 0; i < 5; ++i)
    ++ada[messages.Send("ada", "hello")];
  std::printf("of 5 messages to one user, %d were sent and %d too many\n", ada[Sent::kByText],
              ada[Sent::kTooMany]);

  vendor.set_slow(true);
  int slow = 0;
  while (slow < 10 && messages.Send("user-" + std::to_string(slow), "hello") == Sent::kByText)
    ++slow;
  const auto start = std::chrono::steady_clock::now();
  const bool by_mail = messages.Send("eve", "hello") == Sent::kByMail;
  const bool at_once = std::chrono::steady_clock::now() - start < kSlowCall;
  std::printf("the vendor turned slow: cut off after %d slow calls, the next went by mail %s\n",
              slow, at_once ? "at once" : "late");

  // Well again: one call tries, and all go once it was quick.
  vendor.set_slow(false);
  std::this_thread::sleep_for(messages.retry_after());
  const bool again = messages.Send("eve", "hello") == Sent::kByText &&
                     messages.Send("bob", "hello") == Sent::kByText;
  std::printf("the vendor is well again: %s\n", again ? "messages go" : "messages do not go");
  return ada[Sent::kByText] == 3 && ada[Sent::kTooMany] == 2 && slow >= 4 && slow < 10 && by_mail &&
         at_once && again;
}

// --- the database: Protect, with a fallback

struct Stock {
  int units = 0;
  bool from_cache = false;
};

bool ReadStock(flowguard::Guard& guard) {
  bool slow = false;
  std::map<std::string, int> cache = {{"book", 6}};
  auto read = flowguard::Protect(guard, "db:stock")
                  .By("sku", [](const std::string& sku) { return sku; })
                  .Fallback([&](const std::string& sku) {
                    return Stock{cache[sku], true};
                  })
                  .Wrap([&](const std::string& sku) {
                    if (slow) std::this_thread::sleep_for(kSlowCall);
                    cache[sku] = 7;
                    return Stock{7, false};
                  });
  const Stock fresh = read("book");
  slow = true;
  Stock last;
  for (int i = 0; i < 10 && !last.from_cache; ++i)
    last = read("book");
  std::printf("stock by the database: %d; with the database slow, from the cache: %d\n",
              fresh.units, last.units);
  return !fresh.from_cache && fresh.units == 7 && last.from_cache && last.units == 7;
}

}  // namespace

int main() {
  auto guard = flowguard::Guard::Create(Rules());
  if (!guard.ok()) {
    std::fprintf(stderr, "%s\n", guard.error().message.c_str());
    return 1;
  }
  const bool messages = SendMessages(**guard);
  const bool stock = ReadStock(**guard);
  return messages && stock ? 0 : 1;
}
