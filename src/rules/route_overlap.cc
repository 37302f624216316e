// SPDX-License-Identifier: Apache-2.0
#include "rules/route_overlap.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace flowguard::rules {

namespace {

constexpr size_t kOverlapStepsMax = 2'000'000;

struct Edge {
  std::string_view text;
  uint32_t child;
};
using Children = std::vector<std::vector<Edge>>;  // literal ones, by node

// A segment that is none of the literals in sight.
constexpr std::string_view kAnySegment = "x";

Children ChildrenOf(const RouteIndex& index) {
  Children children(index.nodes().size());
  for (const TextTable::Item& edge : index.edges())
    children[edge.parent].push_back({edge.text, edge.value});
  for (std::vector<Edge>& edges : children) {
    std::sort(edges.begin(), edges.end(),
              [](const Edge& a, const Edge& b) { return a.text < b.text; });
  }
  return children;
}

class Search {
 public:
  Search(const RouteIndex& index, const Children& children, unsigned method, size_t allowed)
      : index_(index),
        children_(children),
        method_(method),
        allowed_(allowed),
        most_(index.nodes().size()) {
    // Children stand behind their parents, so one pass from the end is bottom up.
    for (size_t i = most_.size(); i-- > 0;) {
      const RouteIndex::Node& node = index_.nodes()[i];
      size_t below = node.any_child != 0 ? most_[node.any_child] : 0;
      size_t literal = 0;
      for (const Edge& edge : children_[i])
        literal = std::max(literal, most_[edge.child]);
      below += literal;
      most_[i] = Count(node.rest) + std::max(Count(node.exact), below);
    }
  }

  // True when a path was found, or the search given up.
  bool Run() { return Visit({0}, 0); }
  [[nodiscard]] Overlap Found() const {
    Overlap overlap{"", method_, {}, !given_up_};
    for (const std::string_view segment : path_)
      overlap.path.append("/").append(segment);
    if (path_.empty()) overlap.path = "/";
    const auto found = [&](std::span<const Entry> entries) {
      for (const Entry& entry : entries) {
        if (Meets(entry)) overlap.entries.push_back(entry);
      }
    };
    index_.Walk(overlap.path, found, [](size_t, std::string_view) {});
    return overlap;
  }

 private:
  [[nodiscard]] bool Meets(const Entry& entry) const {
    return ((entry.methods >> method_) & 1) != 0;
  }
  [[nodiscard]] size_t Count(EntrySpan span) const {
    const auto entries = index_.EntriesOf(span);
    return static_cast<size_t>(std::count_if(entries.begin(), entries.end(),
                                             [&](const Entry& entry) { return Meets(entry); }));
  }

  // `met`: by ** at the nodes passed on the way here.
  bool Visit(const std::vector<uint32_t>& nodes, size_t met) {
    size_t most = met;
    size_t ends_here = met;
    for (const uint32_t node : nodes) {
      most += most_[node];
      met += Count(index_.nodes()[node].rest);
      ends_here += Count(index_.nodes()[node].rest) + Count(index_.nodes()[node].exact);
    }
    if (most <= allowed_) return false;
    if (ends_here > allowed_) return true;
    std::vector<uint32_t> any;
    std::map<std::string_view, std::vector<uint32_t>> by_literal;
    for (const uint32_t node : nodes) {
      if (index_.nodes()[node].any_child != 0) any.push_back(index_.nodes()[node].any_child);
      for (const Edge& edge : children_[node])
        by_literal[edge.text].push_back(edge.child);
      steps_ += 1 + children_[node].size();
    }
    if (steps_ > kOverlapStepsMax) {
      given_up_ = true;
      return true;
    }
    // A segment that no literal names meets no more than one that some literal names.
    if (by_literal.empty() && !any.empty()) by_literal[kAnySegment] = {};
    for (auto& [text, next] : by_literal) {
      next.insert(next.end(), any.begin(), any.end());
      path_.push_back(text);
      if (Visit(next, met)) return true;
      path_.pop_back();
    }
    return false;
  }

  const RouteIndex& index_;
  const Children& children_;
  const unsigned method_;
  const size_t allowed_;
  std::vector<size_t> most_;  // by node: the most that it and what is below can meet
  std::vector<std::string_view> path_;
  size_t steps_ = 0;
  bool given_up_ = false;
};

// Literal paths meet their own entries and those of the tree: walk each.
std::optional<Overlap> FindLiteralOverlap(const RouteIndex& index, unsigned method_count,
                                          size_t allowed) {
  for (const TextTable::Item& literal : index.literal_paths()) {
    Overlap overlap{"/" + std::string(literal.text), kOtherMethod, {}, true};
    const auto found = [&](std::span<const Entry> entries) {
      overlap.entries.insert(overlap.entries.end(), entries.begin(), entries.end());
    };
    index.Walk(overlap.path, found, [](size_t, std::string_view) {});
    if (overlap.entries.size() <= allowed) continue;
    for (unsigned i = 0; i <= method_count; ++i) {
      const unsigned method = i == method_count ? kOtherMethod : i;
      Overlap of_method{overlap.path, method, {}, true};
      for (const Entry& entry : overlap.entries) {
        if (((entry.methods >> method) & 1) != 0) of_method.entries.push_back(entry);
      }
      if (of_method.entries.size() > allowed) return of_method;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Overlap> FindOverlap(const RouteIndex& index, unsigned method_count, size_t allowed) {
  if (auto overlap = FindLiteralOverlap(index, method_count, allowed)) return overlap;
  const Children children = ChildrenOf(index);
  for (unsigned i = 0; i <= method_count; ++i) {
    Search search(index, children, i == method_count ? kOtherMethod : i, allowed);
    if (search.Run()) return search.Found();
  }
  return std::nullopt;
}

size_t MostNodesAtOnce(const RouteIndex& index) {
  const Children children = ChildrenOf(index);
  const size_t count = index.nodes().size();
  // wide[n][d]: the most nodes, d levels below n, that one path can be at.
  std::vector<std::vector<size_t>> wide(count);
  const auto add_below = [](std::vector<size_t>& sums, const std::vector<size_t>& more,
                            auto merge) {
    if (sums.size() < more.size() + 1) sums.resize(more.size() + 1);
    for (size_t d = 0; d < more.size(); ++d)
      sums[d + 1] = merge(sums[d + 1], more[d]);
  };
  for (size_t i = count; i-- > 0;) {
    std::vector<size_t> sums{1};
    for (const Edge& edge : children[i]) {
      add_below(sums, wide[edge.child], [](size_t a, size_t b) { return std::max(a, b); });
      wide[edge.child] = {};
    }
    const uint32_t any = index.nodes()[i].any_child;
    if (any != 0) {
      add_below(sums, wide[any], [](size_t a, size_t b) { return a + b; });
      wide[any] = {};
    }
    wide[i] = std::move(sums);
  }
  return *std::max_element(wide[0].begin(), wide[0].end());
}

}  // namespace flowguard::rules
