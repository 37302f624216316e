// SPDX-License-Identifier: Apache-2.0
//
// Rules of whose key a dimension has several values in the request.  Each value, and of
// several lists each combination, has a key of its own; the rule lets the request go if all
// of its keys do, and holds something of all or of none.  A key that comes up twice is asked
// once, for twice the cost: for one after the other the first would pass, and the second
// tell of a wait that never helps.
#include <algorithm>
#include <array>
#include <tuple>

#include "base/bounds.h"
#include "engine/one_of_lists.h"
#include "engine/walk.h"

namespace flowguard::engine {
namespace {

// The distinct keys of one request under one rule, in the order of their hashes: of two
// requests that ask for the same keys at once, one goes.
class Keys {
 public:
  struct One {
    base::Hash128 hash;
    const LiveSpec* spec;
    int64_t times;
  };

  // Requires: at most kRulesPerRequestMax times.
  void Add(const base::Hash128& hash, const LiveSpec* spec) noexcept {
    One* const last = keys_.data() + size_;
    One* const at =
        std::lower_bound(keys_.data(), last, hash, [](const One& one, const base::Hash128& wanted) {
          return std::tie(one.hash.high, one.hash.low) < std::tie(wanted.high, wanted.low);
        });
    if (at != last && at->hash == hash) {
      ++at->times;
      return;
    }
    std::move_backward(at, last, last + 1);
    *at = {hash, spec, 1};
    ++size_;
  }
  [[nodiscard]] const One* begin() const noexcept { return keys_.data(); }
  [[nodiscard]] const One* end() const noexcept { return keys_.data() + size_; }

 private:
  std::array<One, base::kRulesPerRequestMax> keys_;
  size_t size_ = 0;
};

// No more than a request can cost at all, which is beyond every limit.
int64_t CostOf(int64_t cost, int64_t times) noexcept {
  return std::min(cost * times, base::kCostMax);
}

}  // namespace

bool Walk::EachOfLists(const LoadedRule& loaded, const Meeting& met) noexcept {
  OneOfLists lists(met.request, met.rule.by);
  const size_t keys = lists.Combinations();
  if (keys == 1) return false;
  // The other rules leave one hold at most, each.
  size_t room = base::kRulesPerRequestMax + 1 - met.matches.size() - further_keys_;
  if (met.rule.remote()) {
    room = std::min<size_t>(room, base::kRemoteTakesPerRequestMax - attempt_.remote_count_);
  }
  if (keys > room) {
    RefuseUnasked(loaded, Reason::kOverload);
    return true;
  }
  further_keys_ += keys - 1;
  const Meeting one{met.rule, lists, met.matches, met.by_route};
  const size_t first = attempt_.hold_count_;
  const Waits before = SoFar();
  met.rule.remote() ? AskEach(loaded, one, lists) : TakeEach(loaded, one, lists);
  if (let_go_by_ == loaded.live) LetGoWhole(holds().subspan(first), before);
  return true;
}

void Walk::TakeEach(const LoadedRule& loaded, const Meeting& one, OneOfLists& lists) noexcept {
  const LiveRule& rule = *loaded.live;
  Keys keys;
  do {
    RequestKey<rules::KeyHash> key;
    // A value that is missing is so in every combination.
    if (!MakeKey(loaded, one, ground_.seed, key)) return;
    keys.Add(key.key.Hash(), loaded.SpecFor(*key.quota));
  } while (lists.Next());
  for (const Keys::One& key : keys) {
    if (rule.info.kind == RuleKind::kBreaker) {
      AskBreakerOf(loaded, key.hash);
      continue;
    }
    Hold& hold = DraftHold(rule, key.spec, CostOf(CostFor(rule), key.times));
    hold.key = key.hash;
    IsSlot(hold) ? TakeSlots(hold) : TakeRate(hold, CellOf(hold));
  }
}

void Walk::AskEach(const LoadedRule& loaded, const Meeting& one, OneOfLists& lists) noexcept {
  const size_t first = attempt_.hold_count_;
  lists_ask_ = true;
  do {
    RequestKey<rules::KeyBuilder> key;
    if (!MakeKey(loaded, one, rules::kSharedKeySeed, key)) return;
    const base::Hash128 hash = base::HashOf(key.key.encoded(), ground_.seed);
    const std::span<Hold> asked = holds().subspan(first);
    const auto same = std::find_if(asked.begin(), asked.end(),
                                   [&](const Hold& hold) { return hold.key == hash; });
    if (same == asked.end()) {
      Ask(loaded, key);
      continue;
    }
    same->cost = CostOf(same->cost + CostFor(*loaded.live), 1);
    RemoteTake& take = attempt_.remote_.data()[same->remote];
    if (take.cost > 0) take.cost = same->cost;
  } while (lists.Next());
}

void Walk::LetGoWhole(std::span<Hold> holds, const Waits& before) noexcept {
  for (Hold& hold : holds) {
    if (hold.state == Hold::State::kDegraded) continue;
    GiveBack(hold, /*refused=*/true);
    hold.state = Hold::State::kSkipped;
  }
  attempt_.decision_.wait = before.wait;
  attempt_.wait_rule_ = before.rule;
}

}  // namespace flowguard::engine
