// SPDX-License-Identifier: Apache-2.0
//
// Limits declared beside the code that they protect.
//
//   auto create_order = Protect(guard, "order:create")
//       .By("tenant", [](const Order& o) { return o.tenant; })
//       .OnBlock([](const Decision& d, const Order&) { return Reply::Busy(d.retry_after); })
//       .Wrap([&](const Order& o) { return orders.Create(o); });
//   Reply r = create_order(order);
//
// Works for any callable: request handlers, queue consumers, scheduled jobs.  The
// rules come from the Guard; one may be declared on the spot:
//
//   auto sms = Protect(guard, Rule{.name = "sms", .rate = {30, 1s}, .by = {"ip"}});
//   if (!sms.ok()) return sms.error();
//   auto send = sms->By("ip", [](const Sms& m) { return m.client; }).Wrap(Send);
//
// Each step returns a new protector, so one may be kept and finished in several ways.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "flowguard/decision.h"
#include "flowguard/guard.h"
#include "flowguard/result.h"

namespace flowguard {

namespace protect {

// A step that was not given.
struct None {};

// A dimension and where the call's arguments have it.
template <typename F>
struct Resolver {
  std::string name;
  F value;
};

// A resolver may return text or an optional of it: nullopt is a missing value.
inline std::string_view ViewOf(std::string_view text) noexcept {
  return text;
}
template <typename T>
std::string_view ViewOf(const std::optional<T>& text) noexcept {
  return text ? std::string_view(*text) : std::string_view();
}

// Settles as an error unless told otherwise: the call ended by an exception.
class Settler {
 public:
  explicit Settler(Entry& entry) noexcept : entry_(entry) {}
  ~Settler() { entry_.Settle(Outcome::kError); }
  Settler(const Settler&) = delete;
  Settler& operator=(const Settler&) = delete;

 private:
  Entry& entry_;
};

template <typename Function, typename Steps>
class Protected;

// What is known of a protected call before its function is.
template <typename Keys, typename CostOf, typename SpentOf, typename Failed, typename Block,
          typename Else>
struct Steps {
  Guard* guard = nullptr;
  std::string resource;
  Keys keys;  // std::tuple of Resolver
  Duration timeout{};
  CostOf cost;     // units, from the arguments
  SpentOf spent;   // actual units, from the result
  Failed failed;   // whether a result is an error
  Block block;     // the answer to a refused call
  Else otherwise;  // the cheaper answer
};

}  // namespace protect

// Threads: a value; the wrapped callable may be called from any thread if the
// functions given to it may.
template <typename Keys = std::tuple<>, typename CostOf = protect::None,
          typename SpentOf = protect::None, typename Failed = protect::None,
          typename Block = protect::None, typename Else = protect::None>
class Protector {
 public:
  using Steps = protect::Steps<Keys, CostOf, SpentOf, Failed, Block, Else>;

  explicit Protector(Steps steps) : s_(std::move(steps)) {}

  // One dimension of the key: `value(args...)` is its text (std::string,
  // std::string_view, or an optional of one).
  template <typename F>
  [[nodiscard]] auto By(std::string dimension, F value) const {
    auto keys = std::tuple_cat(
        s_.keys, std::tuple(protect::Resolver<F>{std::move(dimension), std::move(value)}));
    return Next(std::move(keys), s_.cost, s_.spent, s_.failed, s_.block, s_.otherwise);
  }
  // Units that a call takes: `cost(args...)`.
  template <typename F>
  [[nodiscard]] auto Cost(F cost) const {
    return Next(s_.keys, std::move(cost), s_.spent, s_.failed, s_.block, s_.otherwise);
  }
  // Units that a call has turned out to take: `spent(result)`.
  template <typename F>
  [[nodiscard]] auto Spent(F spent) const {
    return Next(s_.keys, s_.cost, std::move(spent), s_.failed, s_.block, s_.otherwise);
  }
  // Which results count as errors: `failed(result)`.  Exceptions always do.
  template <typename F>
  [[nodiscard]] auto FailedIf(F failed) const {
    return Next(s_.keys, s_.cost, s_.spent, std::move(failed), s_.block, s_.otherwise);
  }
  // The answer to a refused call: `block(decision, args...)`.
  template <typename F>
  [[nodiscard]] auto OnBlock(F block) const {
    return Next(s_.keys, s_.cost, s_.spent, s_.failed, std::move(block), s_.otherwise);
  }
  // The cheaper answer, `fallback(args...)`: when a rule says to degrade, and when
  // the call is refused and there is no OnBlock.
  template <typename F>
  [[nodiscard]] auto Fallback(F fallback) const {
    return Next(s_.keys, s_.cost, s_.spent, s_.failed, s_.block, std::move(fallback));
  }
  // How long a call may be held back by rules that wait.  Without it, it is refused.
  [[nodiscard]] Protector Timeout(Duration timeout) const {
    Protector next = *this;
    next.s_.timeout = timeout;
    return next;
  }

  // The protected callable.  It returns what `function` returns, or, with neither
  // OnBlock nor Fallback, an optional of it (a bool, if it returns void) that is
  // empty (false) when the call was refused.
  template <typename Function>
  [[nodiscard]] auto Wrap(Function function) const {
    return protect::Protected<Function, Steps>(std::move(function), s_);
  }

 private:
  template <typename K, typename C, typename S, typename F, typename B, typename E>
  auto Next(K keys, C cost, S spent, F failed, B block, E otherwise) const {
    using Made = Protector<K, C, S, F, B, E>;
    return Made({s_.guard, s_.resource, std::move(keys), s_.timeout, std::move(cost),
                 std::move(spent), std::move(failed), std::move(block), std::move(otherwise)});
  }

  Steps s_;
};

// Protects calls of `resource` by the rules that the Guard has for it.  The Guard
// must outlive what Wrap returns.
[[nodiscard]] inline Protector<> Protect(Guard& guard, std::string resource) {
  return Protector<>({.guard = &guard,
                      .resource = std::move(resource),
                      .keys = {},
                      .timeout = {},
                      .cost = {},
                      .spent = {},
                      .failed = {},
                      .block = {},
                      .otherwise = {}});
}

// Declares `rule` (see Guard::Declare) and protects its resource by it.  Without a
// target, the rule's name is the resource.
// Errors: those of Guard::Declare.
[[nodiscard]] inline Result<Protector<>> Protect(Guard& guard, Rule rule) {
  if (rule.on == Target{}) rule.on.resource = rule.name;
  std::string resource = rule.on.resource;
  Result<void> declared = guard.Declare(std::move(rule));
  if (!declared.ok()) return std::move(declared).error();
  return Protect(guard, std::move(resource));
}

namespace protect {

template <typename Function, typename Steps>
class Protected {
 public:
  Protected(Function function, Steps steps)
      : function_(std::move(function)), s_(std::move(steps)) {}

  template <typename... Args>
  auto operator()(Args&&... args) {
    using R = std::invoke_result_t<Function&, Args...>;
    return std::apply(
        [&](const auto&... keys) {
          return Resolve<R>(std::tuple(keys.value(args...)...), std::forward<Args>(args)...);
        },
        s_.keys);
  }

 private:
  template <typename T>
  static constexpr bool kGiven = !std::is_same_v<T, None>;
  static constexpr bool kAnswersRefusals =
      kGiven<decltype(Steps::block)> || kGiven<decltype(Steps::otherwise)>;
  // What a call returns.
  template <typename R>
  using Answer = std::conditional_t<kAnswersRefusals, R,
                                    std::conditional_t<std::is_void_v<R>, bool, std::optional<R>>>;

  // `values` own the text of the dimensions while the call is decided.  The arguments
  // are looked at until then, and go on as they came to the one function that answers.
  template <typename R, typename Values, typename... Args>
  Answer<R> Resolve(const Values& values, Args&&... args) {
    constexpr size_t kCount = std::tuple_size_v<Values>;
    std::array<DimensionValue, kCount> dimensions;
    size_t used = 0;
    ForEach(values, std::make_index_sequence<kCount>(), [&](const auto& key, const auto& value) {
      const std::string_view text = ViewOf(value);
      if (text.data() != nullptr) dimensions[used++] = {key.name, text};
    });
    Request request{
        .resource = s_.resource, .method = {}, .path = {}, .dimensions = {dimensions.data(), used}};
    if constexpr (kGiven<decltype(Steps::cost)>) request.cost = s_.cost(args...);
    Entry entry = s_.guard->Enter(request, s_.timeout);
    return entry ? Call<R>(entry, std::forward<Args>(args)...)
                 : Blocked<R>(entry.decision(), std::forward<Args>(args)...);
  }

  template <typename Values, size_t... kIndex, typename F>
  void ForEach(const Values& values, std::index_sequence<kIndex...>, [[maybe_unused]] F f) {
    (f(std::get<kIndex>(s_.keys), std::get<kIndex>(values)), ...);
  }

  template <typename R, typename... Args>
  Answer<R> Call(Entry& entry, Args&&... args) {
    const Settler settler(entry);
    if constexpr (kGiven<decltype(Steps::otherwise)>) {
      if (entry.decision().degraded)
        return Finish<R>(entry, s_.otherwise, std::forward<Args>(args)...);
    }
    return Finish<R>(entry, function_, std::forward<Args>(args)...);
  }

  template <typename R, typename F, typename... Args>
  Answer<R> Finish(Entry& entry, F& function, Args&&... args) {
    if constexpr (std::is_void_v<R>) {
      std::invoke(function, std::forward<Args>(args)...);
      entry.Settle(Outcome::kOk);
      if constexpr (!kAnswersRefusals) return true;
    } else {
      R result = std::invoke(function, std::forward<Args>(args)...);
      Outcome outcome = Outcome::kOk;
      if constexpr (kGiven<decltype(Steps::failed)>) {
        if (s_.failed(result)) outcome = Outcome::kError;
      }
      if constexpr (kGiven<decltype(Steps::spent)>) {
        entry.Settle(outcome, s_.spent(result));
      } else {
        entry.Settle(outcome);
      }
      return result;
    }
  }

  template <typename R, typename... Args>
  Answer<R> Blocked(const Decision& decision, [[maybe_unused]] Args&&... args) {
    if constexpr (kGiven<decltype(Steps::block)>) {
      return std::invoke(s_.block, decision, std::forward<Args>(args)...);
    } else if constexpr (kGiven<decltype(Steps::otherwise)>) {
      return std::invoke(s_.otherwise, std::forward<Args>(args)...);
    } else if constexpr (std::is_void_v<R>) {
      return false;
    } else {
      return std::nullopt;
    }
  }

  Function function_;
  Steps s_;
};

}  // namespace protect

}  // namespace flowguard
