// SPDX-License-Identifier: Apache-2.0
//
// What a walk leaves in the statistics.  Where a request is counted is found at its begin,
// while the rule set is at hand; what came of it is counted when that is known, once.
#include <string_view>

#include "base/bounds.h"
#include "engine/walk.h"

namespace flowguard::engine {
namespace {

// Longer names are counted by their beginning.
std::string_view Bounded(std::string_view name, size_t bytes_max) noexcept {
  return name.substr(0, bytes_max);
}

// The rule whose route says best what the request asks for; null: it meets no route.
const LoadedRule* BestRoute(const Snapshot& snapshot, const rules::MatchSet& matches) noexcept {
  const rules::MatchSet::Match* best = nullptr;
  for (const rules::MatchSet::Match& match : matches) {
    if (match.by_route && (best == nullptr || match.rank > best->rank)) best = &match;
  }
  return best != nullptr ? &snapshot.rules[best->rule] : nullptr;
}

const LoadedRule* OfResource(const Snapshot& snapshot, const rules::MatchSet& matches,
                             std::string_view resource) noexcept {
  for (const rules::MatchSet::Match& match : matches) {
    const LoadedRule& loaded = snapshot.rules[match.rule];
    if (loaded.by_name_alone || loaded.counted_as == resource) return &loaded;
  }
  return nullptr;
}

// The caller's name; empty: the request has none.
std::string_view OriginOf(const rules::Dimension& dimension, const RequestView& request,
                          ValueRoom& room) noexcept {
  std::string_view raw;
  if (dimension.kind == rules::DimensionKind::kMethod) {
    raw = request.method;
  } else if (dimension.kind != rules::DimensionKind::kPath &&
             dimension.kind != rules::DimensionKind::kResource) {
    raw = request.Observed(dimension, room.composed);
  }
  if (raw.data() == nullptr && dimension.missing != MissingPolicy::kShare) return {};
  return rules::Normalise(dimension, raw, room.lowered);
}

}  // namespace

void Walk::Observe(const Snapshot& snapshot, const RequestView& request,
                   const rules::MatchSet& matches) noexcept {
  if (peek()) return;
  CountedAt& at = attempt_.counted_;
  at.counts = true;
  at.ends = attempt_.mode_ == Mode::kEnter && !request.skip_calls;
  stats::StatsTable* const table = ground_.statistics.table();
  if (table == nullptr) return;
  std::string_view resource = Bounded(request.resource, base::kResourceBytesMax);
  const LoadedRule* known = nullptr;
  if (resource.empty()) {
    known = BestRoute(snapshot, matches);
    if (known == nullptr) return;  // the entrance is all that can be said of it
    resource = known->counted_as;
  } else {
    known = OfResource(snapshot, matches, request.resource);
  }
  if (known != nullptr && known->stats) {
    pinned_ = &known->stats;
    at.resource = pinned_->get();
  } else {
    at.resource_ref = table->Get(resource, {}, now_);
    at.resource = at.resource_ref.get();
  }
  ValueRoom room;
  const std::string_view origin =
      Bounded(OriginOf(*snapshot.origin, request, room), base::kKeyValueInlineMax);
  if (origin.empty()) return;
  at.origin_ref = table->Get(resource, origin, now_);
  // Where the table is full the resource may be among the others too.
  if (at.origin_ref.get() == at.resource) {
    at.origin_ref = {};
    return;
  }
  at.origin = at.origin_ref.get();
}

void Walk::KeepCounted() noexcept {
  CountedAt& at = attempt_.counted_;
  if (pinned_ != nullptr && !at.resource_ref) at.resource_ref = pinned_->Again();
}

void Walk::CountRefused() noexcept {
  if (!attempt_.counted_.counts || peek()) return;
  ground_.statistics.Refused(attempt_.counted_, slot_, now_);
  attempt_.counted_.Clear();
}

void Walk::CountEnded(Outcome outcome) noexcept {
  if (!attempt_.counted_.counts) return;
  if (attempt_.counted_.ends) {
    ground_.statistics.Ended(attempt_.counted_, slot_, now_, outcome, now_ - attempt_.entered_at_);
  }
  attempt_.counted_.Clear();
}

void Walk::CountCancelled() noexcept {
  if (!attempt_.counted_.counts) return;
  if (attempt_.counted_.ends && attempt_.entered()) ground_.statistics.Abandoned(attempt_.counted_);
  attempt_.counted_.Clear();
}

}  // namespace flowguard::engine
