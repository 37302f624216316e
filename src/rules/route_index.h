// SPDX-License-Identifier: Apache-2.0
//
// All routes of a rule set: wholly literal ones in a hash table, the others in a
// tree of segments.
//
// Tree: a node stands for a sequence of segments; its literal children are edges in
// one hash table for all nodes, and all wildcards of one place ({capture} and *) are
// one child.  `rest` entries (**) match at a node and anywhere below, `exact` ones
// where a path ends.
//
// Invariant: Walk's two sets of nodes never overflow; see route_overlap.h.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/bounds.h"
#include "base/check.h"
#include "rules/hits.h"
#include "rules/route.h"
#include "rules/text_table.h"

namespace flowguard::rules {

// What is matched of a path: what follows its first slash, without one slash at the
// end.  Requires: path begins with '/'.
[[nodiscard]] inline std::string_view PathBody(std::string_view path) noexcept {
  path.remove_prefix(1);
  if (!path.empty() && path.back() == '/') path.remove_suffix(1);
  return path;
}

// Finds where the segments of one path end.
class SegmentEnds {
 public:
  explicit SegmentEnds(std::string_view body) noexcept
      : begin_(body.data()), end_(body.data() + body.size()) {}

  // The first slash from `at`, or the end.  Requires: `at` is in the path.
  [[nodiscard]] const char* From(const char* at) const noexcept {
#if defined(__SSE2__)
    for (; end_ - at >= kStep; at += kStep) {
      const unsigned slashes = SlashesAt(at);
      if (slashes != 0) return at + std::countr_zero(slashes);
    }
    if (end_ - begin_ >= kStep) {
      // The last bytes, with some before `at` that are shifted out.
      const unsigned slashes = SlashesAt(end_ - kStep) >> (kStep - (end_ - at));
      return slashes == 0 ? end_ : at + std::countr_zero(slashes);
    }
#endif
    while (at != end_ && *at != '/')
      ++at;
    return at;
  }

 private:
#if defined(__SSE2__)
  static constexpr std::ptrdiff_t kStep = 16;

  static unsigned SlashesAt(const char* at) noexcept {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    return static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('/'))));
  }
#endif

  const char* begin_;
  const char* end_;
};

class RouteIndex {
 public:
  struct Node {
    uint32_t any_child = 0;  // 0: none (the root is nobody's child)
    bool has_literals = false;
    EntrySpan exact;
    EntrySpan rest;
  };

  RouteIndex() : nodes_(1), exact_lists_(1), rest_lists_(1) {}

  void Add(const RouteTemplate& route, const Entry& entry);
  // After the last Add.
  void Finish();

  [[nodiscard]] bool empty() const noexcept { return literals_.size() == 0 && !has_tree_; }

  // Calls found(entries) for every route that `path` matches, whatever its methods,
  // and segment(i, text) for the segments before.
  // Requires: path begins with '/'; Finish was called; MostNodesAtOnce() fits.
  template <typename Found, typename Segment>
  void Walk(std::string_view path, Found&& found, Segment&& segment) const noexcept {
    const std::string_view body = PathBody(path);
    if (literals_.size() != 0) {
      const uint32_t literal = literals_.Find(0, body, TextTable::HashOf(body));
      if (literal != TextTable::kNone) found(EntriesOf(literal_entries_[literal]));
    }
    if (has_tree_) WalkTree(body, found, segment);
  }

  // For route_overlap.h, which proves bounds over all paths.
  [[nodiscard]] const std::vector<Node>& nodes() const noexcept { return nodes_; }
  [[nodiscard]] std::vector<TextTable::Item> edges() const { return edges_.Items(); }
  [[nodiscard]] std::vector<TextTable::Item> literal_paths() const { return literals_.Items(); }
  [[nodiscard]] std::span<const Entry> EntriesOf(EntrySpan span) const noexcept {
    return {entries_.data() + span.begin, span.count};
  }

 private:
  using Frontier = std::array<uint32_t, base::kRouteFrontierMax>;

  template <typename Found, typename Segment>
  void WalkTree(std::string_view body, Found&& found, Segment&& segment) const noexcept;

  TextTable literals_;  // body -> index in literal_entries_
  std::vector<EntrySpan> literal_entries_;
  bool has_tree_ = false;
  std::vector<Node> nodes_;  // children behind their parents; [0] is the root
  TextTable edges_;          // (node, segment) -> node
  std::vector<Entry> entries_;

  // While building: list numbers, side by side with the above.
  EntryLists lists_;
  std::vector<uint32_t> literal_lists_;
  std::vector<uint32_t> exact_lists_;
  std::vector<uint32_t> rest_lists_;
};

template <typename Found, typename Segment>
void RouteIndex::WalkTree(std::string_view body, Found&& found, Segment&& segment) const noexcept {
  std::array<Frontier, 2> sets;  // written before read
  uint32_t* here = sets[0].data();
  uint32_t* next = sets[1].data();
  size_t here_count = 1;
  here[0] = 0;
  const Node* const nodes = nodes_.data();
  const auto enter = [&](uint32_t node) {
    if (nodes[node].rest.count != 0) found(EntriesOf(nodes[node].rest));
  };
  enter(0);
  const SegmentEnds ends(body);
  const char* at = body.data();
  const char* const end = at + body.size();
  for (size_t level = 0; !body.empty(); ++level) {
    if (level == base::kRouteSegmentsMax) return;  // no template is longer
    const char* const stop = ends.From(at);
    const std::string_view text(at, static_cast<size_t>(stop - at));
    segment(level, text);
    uint64_t hash = 0;
    bool hashed = false;
    size_t next_count = 0;
    for (size_t i = 0; i < here_count; ++i) {
      const Node& node = nodes[here[i]];
      if (node.has_literals) {
        if (!hashed) hash = TextTable::HashOf(text);
        hashed = true;
        const uint32_t child = edges_.Find(here[i], text, hash);
        if (child != TextTable::kNone) {
          FG_DCHECK(next_count < base::kRouteFrontierMax);
          next[next_count++] = child;
          enter(child);
        }
      }
      if (node.any_child != 0) {
        FG_DCHECK(next_count < base::kRouteFrontierMax);
        next[next_count++] = node.any_child;
        enter(node.any_child);
      }
    }
    if (next_count == 0) return;
    std::swap(here, next);
    here_count = next_count;
    if (stop == end) break;
    at = stop + 1;
  }
  for (size_t i = 0; i < here_count; ++i) {
    const Node& node = nodes[here[i]];
    if (node.exact.count != 0) found(EntriesOf(node.exact));
  }
}

}  // namespace flowguard::rules
