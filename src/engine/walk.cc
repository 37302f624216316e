// SPDX-License-Identifier: Apache-2.0
//
// Begin: past the rules that a request meets.  The later steps are in
// walk_later.cc.
#include "engine/walk.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/bounds.h"
#include "base/check.h"

namespace flowguard::engine {
namespace {

using limit::Numbers;

Numbers NeverNumbers() noexcept {
  Numbers numbers;
  numbers.retry_after = kNever;
  return numbers;
}

// The longest key that a store is sent as it is.  That a key is digested may depend
// on nothing but the key, or one client would have two.
constexpr size_t kWholeKeyBytesMax = base::kRemoteKeyBytesMax / base::kRemoteTakesPerRequestMax;
constexpr size_t kIdentityBytes = 8;
constexpr char kDigestTag = 0;  // no DimensionKind

// Writes `key` to `out`, digested if it is long.  Returns the size.
size_t WriteRemoteKey(std::string_view key, char* out) noexcept {
  if (key.size() <= kWholeKeyBytesMax) {
    std::memcpy(out, key.data(), key.size());
    return key.size();
  }
  const base::Hash128 digest = base::HashOf(key, rules::kSharedKeySeed);
  std::memcpy(out, key.data(), kIdentityBytes);
  out[kIdentityBytes] = kDigestTag;
  std::memcpy(out + kIdentityBytes + 1, &digest, sizeof digest);
  return kIdentityBytes + 1 + sizeof digest;
}

}  // namespace

void Walk::RefuseCost() noexcept {
  attempt_.decision_.verdict = Verdict::kRefuse;
  attempt_.decision_.reason = Reason::kInvalidCost;
  attempt_.decision_.retry_after = kNever;
}

// One function, with all that a local limit needs: as calls, its steps cost as much
// in saved registers and stored arguments as in work.
[[gnu::flatten]] Step Walk::Begin(const Snapshot& snapshot, const RequestView& request,
                                  const rules::MatchSet& matches) noexcept {
  if (snapshot.counts) Observe(snapshot, request, matches);
  for (const rules::MatchSet::Match& match : matches) {
    const LoadedRule& loaded = snapshot.rules[match.rule];
    const rules::CompiledRule& compiled = *loaded.compiled;
    const Meeting met{compiled, request, matches, match.by_route};
    switch (compiled.rule.kind) {
      case RuleKind::kAccess:
        if (!Access(loaded, met)) return Finish();
        break;
      case RuleKind::kBreaker:
        if (!request.skip_calls) Breaks(loaded, met);
        break;
      case RuleKind::kSystem:
        if (!systems_done_) Systems(snapshot, request, matches);
        break;
      case RuleKind::kConcurrency:
        if (request.skip_calls) break;
        compiled.plain ? Concurrency(loaded, met) : CountsElsewhere(loaded, met, match.related);
        break;
      case RuleKind::kLimit:
        if (request.skip_limits) break;
        compiled.plain ? LocalLimit(loaded, met) : CountsElsewhere(loaded, met, match.related);
        break;
    }
  }
  if (snapshot.systems.counts() && !systems_done_ && refused_by_ == nullptr) {
    Systems(snapshot, request, matches);
  }
  if (refused_by_ == nullptr && attempt_.remote_count_ > 0) {
    KeepCounted();
    attempt_.phase_ = Attempt::Phase::kRemote;
    return Step::kRemote;
  }
  return Finish();
}

Step Walk::BeginUnmatched(const Snapshot& snapshot, const RequestView& request,
                          const rules::MatchSet& matches) noexcept {
  attempt_.unmatched_ = true;
  Observe(snapshot, request, matches);
  if (snapshot.systems.counts()) Systems(snapshot, request, matches);
  return Finish();
}

void Walk::PeekOne(const LoadedRule& loaded, const Meeting& met, bool related) noexcept {
  as_enforced_ = true;
  if (loaded.compiled->remote()) {
    Report(*loaded.live, loaded.spec, {.allowed = true, .limit = LimitOf(*loaded.spec)});
    return;
  }
  switch (loaded.compiled->rule.kind) {
    case RuleKind::kAccess:
      Access(loaded, met);
      break;
    case RuleKind::kBreaker:
      Breaks(loaded, met);
      break;
    case RuleKind::kSystem:
      PeekSystem(loaded, met);
      break;
    case RuleKind::kConcurrency:
      loaded.compiled->plain ? Concurrency(loaded, met) : CountsElsewhere(loaded, met, related);
      break;
    case RuleKind::kLimit:
      loaded.compiled->plain ? LocalLimit(loaded, met) : CountsElsewhere(loaded, met, related);
      break;
  }
  if (attempt_.decision_.rule == nullptr) attempt_.decision_.rule = &loaded.live->info;
  Finish();
}

bool Walk::Access(const LoadedRule& loaded, const Meeting& met) noexcept {
  const LiveRule& rule = *loaded.live;
  Reason reason = Reason::kNone;
  // A missing value is on no list, and a rule with an allow list refuses it.  Where the
  // dimension skips, the list does not apply; the rule's others do.
  const auto on_list = [&](const rules::AccessCheck& check, size_t place, bool if_skipped) {
    ValueRoom room;
    const std::string_view raw = RawListValueAt(met, check.part, place, room);
    if (raw.data() == nullptr) {
      const MissingPolicy missing = check.part.dimension->missing;
      if (missing == MissingPolicy::kSkip) return if_skipped;
      if (missing == MissingPolicy::kRefuse) reason = Reason::kMissingDimension;
    }
    return check.values.Contains(rules::Normalise(*check.part.dimension, raw, room.lowered));
  };
  // Of several values each must be let through.
  const auto each = [&](const rules::AccessCheck& check, bool wanted) {
    const size_t values = met.request.lists ? ValuesOf(met.request, *check.part.dimension) : 1;
    for (size_t place = 0; place < values; ++place) {
      if (on_list(check, place, wanted) != wanted) return false;
    }
    return true;
  };
  bool passes = true;
  for (const rules::AccessCheck& check : met.rule.deny)
    passes = passes && each(check, false);
  for (const rules::AccessCheck& check : met.rule.allow)
    passes = passes && each(check, true);
  if (passes && reason == Reason::kNone) {
    if (!peek()) AddHold(rule, nullptr, 0);
    return true;
  }
  if (reason == Reason::kNone) reason = Reason::kAccess;
  const Hold::State state = Refused(rule, nullptr, NeverNumbers(), reason);
  if (state == Hold::State::kDegraded && !peek()) AddHold(rule, nullptr, 0).state = state;
  return refused_by_ == nullptr;
}

void Walk::RefuseUnasked(const LoadedRule& loaded, Reason reason) noexcept {
  const Hold::State left = Refused(*loaded.live, nullptr, NeverNumbers(), reason);
  if (left == Hold::State::kDegraded && !peek()) AddHold(*loaded.live, nullptr, 0).state = left;
}

int64_t Walk::CostFor(const LiveRule& rule) const noexcept {
  if (attempt_.request_cost_ > 0) return attempt_.request_cost_;
  return peek() ? 0 : rule.reserve;
}

Hold& Walk::AddHold(const LiveRule& rule, const LiveSpec* spec, int64_t cost) noexcept {
  Hold& hold = DraftHold(rule, spec, cost);
  ++attempt_.hold_count_;
  return hold;
}

Hold& Walk::DraftHold(const LiveRule& rule, const LiveSpec* spec, int64_t cost) noexcept {
  FG_DCHECK(attempt_.hold_count_ < base::kRulesPerRequestMax);
  return *new (attempt_.holds_.data() + attempt_.hold_count_)
      Hold{.rule = &rule,
           .spec = spec,
           .key = {},
           .receipt = {},
           .cost = cost,
           .state = Hold::State::kNone,
           .share_nodes = 0,
           .settles = attempt_.request_cost_ > 0 || rule.has_cost,
           .waits = false,
           .remote = 0};
}

void Walk::LocalLimit(const LoadedRule& loaded, const Meeting& met) noexcept {
  const LiveRule& rule = *loaded.live;
  const LiveSpec* spec = loaded.spec;
  CellRef cell;
  if (rule.single != nullptr) {
    cell.single = rule.single;
  } else {
    if (met.request.lists && EachOfLists(loaded, met)) [[unlikely]] {
      return;
    }
    RequestKey<rules::KeyHash> key;
    if (!MakeKey(loaded, met, ground_.seed, key)) return;
    spec = loaded.SpecFor(*key.quota);
    cell.key = key.key.Hash();
  }
  cell.spec = &*spec->spec;
  cell.shapes = spec->shapes;
  Hold& hold = DraftHold(rule, spec, CostFor(rule));
  hold.key = cell.key;
  TakeRate(hold, cell);
}

// Decides on a cell and, if the request passes and goes on, keeps the draft.
void Walk::TakeRate(Hold& hold, const CellRef& cell) noexcept {
  const LiveRule& rule = *hold.rule;
  // Read once: whatever is in memory is read again behind an atomic step.
  const bool peeks = peek();
  const bool gone = refused_by_ != nullptr;
  const bool counts = gone && rule.count_refused && !peeks;  // for a request refused already
  const TakeMode mode = gone                 ? TakeMode::kExhaust
                        : rule.count_refused ? TakeMode::kTakeOrExhaust
                                             : TakeMode::kTake;
  CellAnswer answer =
      peeks || (gone && !counts)
          ? ground_.cells.Look(cell, now_, hold.cost, attempt_.wait_max_)
          : ground_.cells.Take(cell, now_, hold.cost, mode, attempt_.wait_max_, hold.receipt);
  if (counts) return;  // no answer
  Hold::State taken = hold.cost > 0 ? Hold::State::kRate : Hold::State::kNone;
  if (!answer.numbers.allowed && attempt_.priority_ && hold.spec->prioritised) [[unlikely]] {
    answer = LookToBorrow(hold, cell);
    taken = Hold::State::kLoanLater;
  }
  if (answer.numbers.allowed) {
    hold.state = taken;
    Passed(hold, answer.numbers);
  } else {
    hold.receipt = {};
    hold.state = Refused(rule, hold.spec, answer.numbers, ReasonOf(answer, Reason::kLimit));
    if (hold.state != Hold::State::kDegraded) return;
  }
  if (!peeks && !gone) ++attempt_.hold_count_;
}

void Walk::Concurrency(const LoadedRule& loaded, const Meeting& met) noexcept {
  const LiveRule& rule = *loaded.live;
  const LiveSpec* spec = loaded.spec;
  base::Hash128 hash;
  if (rule.single == nullptr) {
    if (met.request.lists && EachOfLists(loaded, met)) return;
    RequestKey<rules::KeyHash> key;
    if (!MakeKey(loaded, met, ground_.seed, key)) return;
    spec = loaded.SpecFor(*key.quota);
    hash = key.key.Hash();
  }
  Hold& hold = DraftHold(rule, spec, CostFor(rule));
  hold.key = hash;
  TakeSlots(hold);
}

// Takes them if the request passes so far and has an end, or else looks; keeps the draft
// as TakeRate does.
void Walk::TakeSlots(Hold& hold) noexcept {
  const LiveRule& rule = *hold.rule;
  const CellRef cell = CellOf(hold);
  const int64_t slots = hold.spec->concurrency;
  const bool take = attempt_.mode_ == Mode::kEnter && refused_by_ == nullptr;
  const CellAnswer answer = take ? ground_.cells.Enter(cell, now_, slots, hold.cost)
                                 : ground_.cells.LookInside(cell, now_, slots, hold.cost);
  hold.settles = false;
  if (answer.numbers.allowed) {
    if (take) {
      hold.state = Hold::State::kSlot;
      ground_.board.Add(slot_, rule.account, Count::kInflight, hold.cost);
    }
    Passed(hold, answer.numbers);
  } else {
    hold.state = Refused(rule, hold.spec, answer.numbers, ReasonOf(answer, Reason::kConcurrency));
    if (hold.state != Hold::State::kDegraded) return;
  }
  if (!peek() && refused_by_ == nullptr) ++attempt_.hold_count_;
}

void Walk::Shared(const LoadedRule& loaded, const Meeting& met) noexcept {
  if (refused_by_ != nullptr) return;  // nothing remote is spent on a refused request
  if (met.request.lists && EachOfLists(loaded, met)) return;
  RequestKey<rules::KeyBuilder> key;
  if (MakeKey(loaded, met, rules::kSharedKeySeed, key)) Ask(loaded, key);
}

void Walk::Ask(const LoadedRule& loaded, const RequestKey<rules::KeyBuilder>& key) noexcept {
  const LiveRule& rule = *loaded.live;
  const std::string_view encoded = key.key.encoded();
  const LiveSpec* spec = loaded.SpecFor(*key.quota);
  Hold& hold = AddHold(rule, spec, CostFor(rule));
  const bool slot = IsSlot(hold);
  if (slot) hold.settles = false;
  hold.key = base::HashOf(encoded, ground_.seed);
  if (attempt_.remote_count_ == base::kRemoteTakesPerRequestMax) {
    // No list may be so long that a rule behind it is not asked.
    if (lists_ask_) {
      hold.state = Refused(rule, nullptr, NeverNumbers(), Reason::kOverload);
    } else {
      NotAnswered(hold);
    }
    return;
  }
  char* text = attempt_.key_bytes_.data() + attempt_.key_bytes_used_;
  const size_t size = WriteRemoteKey(encoded, text);
  attempt_.key_bytes_used_ = static_cast<uint16_t>(attempt_.key_bytes_used_ + size);
  hold.state = Hold::State::kAsked;
  hold.remote = attempt_.remote_count_;
  new (attempt_.remote_.data() + attempt_.remote_count_++)
      RemoteTake{.rule = rule.remote.get(),
                 .key = {text, size},
                 .config = spec->config,
                 // A check has no end to give a slot back at: it looks.
                 .cost = peek() || (slot && attempt_.mode_ != Mode::kEnter) ? 0 : hold.cost};
}

void Walk::Passed(Hold& hold, const Numbers& numbers) noexcept {
  const LiveRule& rule = *hold.rule;
  if (rule.info.shadow && !as_enforced_) return;
  if (numbers.wait > Duration::zero()) {
    hold.waits = true;
    if (numbers.wait > attempt_.decision_.wait) {
      attempt_.decision_.wait = numbers.wait;
      attempt_.wait_rule_ = &rule;
    }
  }
  const Decision& so_far = attempt_.decision_;
  if (refused_by_ != nullptr || so_far.degraded) return;
  const bool least =
      so_far.rule == nullptr || numbers.remaining < so_far.remaining ||
      (numbers.remaining == so_far.remaining && numbers.reset_after > so_far.reset_after);
  if (least) Report(rule, hold.spec, numbers);
}

Hold::State Walk::Refused(const LiveRule& rule, const LiveSpec* spec, const Numbers& numbers,
                          Reason reason) noexcept {
  Decision& decision = attempt_.decision_;
  if (rule.info.shadow && !as_enforced_) {
    const bool again = std::exchange(let_go_by_, &rule) == &rule;  // for another value
    if (!peek() && !again) ground_.board.Add(slot_, rule.account, Count::kShadowRefused);
    return Hold::State::kSkipped;
  }
  if (rule.info.degrade.enabled) {
    let_go_by_ = &rule;
    if (!decision.degraded && refused_by_ == nullptr) {
      decision.degraded = true;
      Report(rule, spec, numbers);
      decision.retry_after = Duration::zero();
    }
    return Hold::State::kDegraded;
  }
  if (refused_by_ == nullptr || numbers.retry_after > decision.retry_after) {
    refused_by_ = &rule;
    decision.reason = reason;
    Report(rule, spec, numbers);
  }
  return Hold::State::kNone;
}

void Walk::Report(const LiveRule& rule, const LiveSpec* spec, const Numbers& numbers) noexcept {
  Decision& decision = attempt_.decision_;
  decision.limit = numbers.limit;
  decision.remaining = numbers.remaining;
  decision.reset_after = numbers.reset_after;
  decision.retry_after = numbers.retry_after;
  decision.window = spec != nullptr ? spec->window : Duration::zero();
  decision.rule = &rule.info;
}

Step Walk::Finish() noexcept {
  attempt_.phase_ = Attempt::Phase::kIdle;
  if (attempt_.loans_) [[unlikely]] {
    TakeLoans();
  }
  if (attempt_.breakers_) [[unlikely]] {
    EnterBreakers();
  }
  if (refused_by_ != nullptr) return FinishRefused();
  if (attempt_.decision_.wait > Duration::zero()) [[unlikely]] {
    return FinishWaiting();
  }
  if (peek()) {
    attempt_.hold_count_ = 0;
  } else {
    Admit();
  }
  return Step::kDone;
}

void Walk::Admit() noexcept {
  attempt_.entered_at_ = now_;
  if (attempt_.counted_.counts) ground_.statistics.Admitted(attempt_.counted_, slot_, now_);
  attempt_.phase_ =
      attempt_.mode_ == Mode::kEnter ? Attempt::Phase::kEntered : Attempt::Phase::kChecked;
  const LiveRule* counted = nullptr;  // whatever number of values it holds something of
  for (const Hold& hold : holds()) {
    if (hold.state == Hold::State::kSkipped) continue;
    if (hold.state == Hold::State::kRemote) [[unlikely]] {
      Mirror(hold);
    }
    if (hold.rule == counted) continue;
    counted = hold.rule;
    const bool degraded = hold.state == Hold::State::kDegraded;
    ground_.board.Add(slot_, hold.rule->account, degraded ? Count::kDegraded : Count::kPassed);
  }
}

}  // namespace flowguard::engine
