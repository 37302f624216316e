// SPDX-License-Identifier: Apache-2.0
//
// What the worst path can do to a RouteIndex: proven when rules are loaded, so that
// the walk of a request needs no bound of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rules/hits.h"
#include "rules/route_index.h"

namespace flowguard::rules {

// A request that meets too many rules.
struct Overlap {
  std::string path;
  unsigned method = kOtherMethod;  // number of the method
  std::vector<Entry> entries;      // what it meets
  bool proven = true;  // false: the search was given up, entries are some of the suspects
};

// Looks for a path and method that meet more than `allowed` entries.  nullopt: none
// exists.
//
// Exact, by branch and bound over the tree: a branch is left as soon as what it can
// still meet at most is not too many, so for rules as people write them one pass over
// the tree is enough.  Bounded by kOverlapStepsMax; then `proven` is false.
[[nodiscard]] std::optional<Overlap> FindOverlap(const RouteIndex& index, unsigned method_count,
                                                 size_t allowed);

// An upper bound of the nodes at which one path can be at once.
[[nodiscard]] size_t MostNodesAtOnce(const RouteIndex& index);

}  // namespace flowguard::rules
