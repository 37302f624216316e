// SPDX-License-Identifier: Apache-2.0
//
// Which rules a request meets.
//
// A rule's target matches by its resource, by a regular expression for resources, or by
// its route: of those that are set one suffices, for a rule protects one thing that the
// application knows by a name and the gateway by a path.  A rule without any of them meets
// every request, and a disabled rule none.  A request without a path (or with one that does
// not begin with '/') meets no route, and one without a resource no resource.
//
// A rule whose target has conditions (only, except) meets the request if they hold too.
// They are asked before rules are weighed against each other, so that one which does not
// meet the request displaces none.
//
// A rule that relates to a resource (Rule::relate_to) meets the calls of that as well,
// whatever its target and conditions: they are what it counts.  It neither displaces others
// there nor is displaced.
//
// MatchMode::kAll: every rule that matches applies.
// MatchMode::kMostSpecific: of one kind (system apart) those apply
// that no enforced rule of that kind beats; rules of equal rank apply together, and
// a shadow rule never displaces an enforced one.  From best to least:
//   1. an exact resource;
//   2. routes, compared segment by segment from the left: literal, {capture}, *, **
//      (the end of a template counts as a literal); then one that names methods
//      before one that takes any;
//   3. a regular expression;
//   4. a resource prefix, the longer first;
//   5. no target.
// A rule that matches by several of them has the best rank.
//
// How it works.  Wholly literal routes and exact resources are found by one hash.
// Other routes form a tree of segments in which {capture} and * share one branch;
// a path is walked level by level with the set of tree nodes it may be at (as an
// NFA is), so that there is no backtracking: the work is at most
// kRouteSegmentsMax * kRouteFrontierMax look-ups, whatever the path.  Build
// refuses a set of rules in which more than kRulesPerRequestMax could meet one
// request, or more nodes could be reached at once, so neither set overflows.
//
// A regular expression is asked once for a resource (regex_index.h); any may match any
// name, as far as Build knows.
//
// Memory: none allocated by Match itself; an engine of regular expressions may.
// Threads: immutable once built.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "flowguard/regex.h"
#include "flowguard/result.h"
#include "flowguard/rule.h"

#include "base/bounds.h"

namespace flowguard::rules {

// The rules that a request meets, in the order in which they are evaluated
// (access, system, breakers, local limits, concurrency, shared limits; within one of these
// as written), and the segments of its path.
//
// Memory: about 1.3 KiB, not cleared; views into the path that was matched, which
// must live as long.
class MatchSet {
 public:
  struct Match {
    uint32_t rule;  // index in RuleSet::rules
    uint32_t rank;  // the higher, the more specific; compares with those of the same table
    bool by_route;  // its route matched: captures have values
    bool related;   // a call of what the rule relates to: it counts, and is not refused
  };

  MatchSet() noexcept {}  // NOLINT(modernize-use-equals-default): leaves the arrays as they are

  [[nodiscard]] size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] const Match& operator[](size_t i) const noexcept { return matches_[i]; }
  [[nodiscard]] const Match* begin() const noexcept { return matches_.data(); }
  [[nodiscard]] const Match* end() const noexcept { return matches_.data() + size_; }

  // Segment `i` of the path, as RouteTemplate counts them.
  // Requires: a match with by_route whose template captures segment i.
  [[nodiscard]] std::string_view Segment(size_t i) const noexcept {
    return {segments_[i].data, segments_[i].size};
  }

 private:
  friend class Matcher;
  struct Piece {
    const char* data;
    size_t size;
  };
  uint32_t size_ = 0;
  std::array<Match, base::kRulesPerRequestMax> matches_;
  std::array<Piece, base::kRouteSegmentsMax> segments_;
};

// Whether the conditions of targets hold for one request.
class Conditions {
 public:
  virtual ~Conditions() = default;
  // `matches` has the segments of the path, and no rules yet.
  [[nodiscard]] virtual bool Hold(const MatchSet& matches,
                                  MatchSet::Match match) const noexcept = 0;
};

struct MatcherIndex;

class Matcher {
 public:
  Matcher();
  Matcher(Matcher&&) noexcept;
  Matcher& operator=(Matcher&&) noexcept;
  ~Matcher();

  // Errors: kInvalidArgument: more rules than kRulesPerRequestMax could meet one
  // request, naming them and such a request; templates too entangled.
  // Requires: every target is well formed (ParseRoute, ParseResource), and `regex` compiles
  // every regular expression; null: there are none.
  [[nodiscard]] static Result<Matcher> Build(std::span<const Rule> rules, MatchMode mode,
                                             const RegexEngine* regex = nullptr);

  // Fills `out`; what was in it is forgotten.
  // `conditions`: asked once for each rule that matches and has some; null: as if all held.
  // Requires: `path` is normalised and without query (see the file's top).
  void Match(std::string_view resource, std::string_view method, std::string_view path,
             MatchSet& out, const Conditions* conditions = nullptr) const noexcept;

 private:
  explicit Matcher(std::unique_ptr<const MatcherIndex> index);
  std::unique_ptr<const MatcherIndex> index_;
};

}  // namespace flowguard::rules
