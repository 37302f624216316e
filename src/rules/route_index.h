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

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
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

// Finds where the segments of one path end: all slashes of 64 bytes at once, so that
// a segment costs two steps on a mask.
class SegmentEnds {
 public:
  explicit SegmentEnds(std::string_view body) noexcept
      : SegmentEnds(body.data(), body.data() + body.size(), 0) {
    slashes_ = SlashesIn(window_, Size());
  }
  // `slashes`: those not asked for yet of the kWindow bytes from `window`.
  SegmentEnds(const char* window, const char* end, uint64_t slashes) noexcept
      : window_(window), end_(end), slashes_(slashes) {}

  static constexpr std::ptrdiff_t kWindow = 64;

  // Bit i: at[i] is a slash.  Requires: size <= kWindow.
  static uint64_t SlashesIn(const char* at, size_t size) noexcept;

  // The end of the segment behind the last one that was asked for.
  [[nodiscard]] const char* Next() noexcept {
    while (slashes_ == 0) {
      if (end_ - window_ <= kWindow) return end_;
      window_ += kWindow;
      slashes_ = SlashesIn(window_, Size());
    }
    const char* const at = window_ + std::countr_zero(slashes_);
    slashes_ &= slashes_ - 1;
    return at;
  }

 private:
  [[nodiscard]] size_t Size() const noexcept {
    return static_cast<size_t>(std::min(end_ - window_, kWindow));
  }

#if defined(__SSE2__)
  static uint64_t Slashes16(const char* at) noexcept {
    return MaskOf(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
  }
  static uint64_t Slashes8(const char* at) noexcept {
    return MaskOf(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)));
  }
  static uint64_t MaskOf(__m128i bytes) noexcept {
    return static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('/'))));
  }
#endif

  const char* window_;
  const char* end_;
  uint64_t slashes_;
};

inline uint64_t SegmentEnds::SlashesIn(const char* at, size_t size) noexcept {
#if defined(__SSE2__)
  // Loads from both ends that may overlap: no byte beyond the path is touched.
  if (size >= 16) {
    uint64_t slashes = Slashes16(at) | Slashes16(at + size - 16) << (size - 16);
    if (size > 32) slashes |= Slashes16(at + 16) << 16 | Slashes16(at + size - 32) << (size - 32);
    return slashes;
  }
  if (size >= 8) return Slashes8(at) | Slashes8(at + size - 8) << (size - 8);
#endif
  uint64_t slashes = 0;
  for (size_t i = 0; i < size; ++i)
    slashes |= uint64_t{at[i] == '/'} << i;
  return slashes;
}

class RouteIndex {
 public:
  struct Node {
    uint32_t any_child = 0;   // 0: none (the root is nobody's child)
    uint32_t only_child = 0;  // of literals, when there is one alone: found without a hash
    TextTable::Place only_text;
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
      const uint32_t literal = literals_.Find(0, body);
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
  // Nodes that one path may be at.
  struct Frontier {
    Frontier() noexcept {}  // NOLINT(modernize-use-equals-default): leaves the array as it is
    Frontier(std::initializer_list<uint32_t> from) noexcept {
      for (const uint32_t node : from)
        Add(node);
    }
    void Add(uint32_t node) noexcept {
      FG_DCHECK(size < base::kRouteFrontierMax);
      nodes[size++] = node;
    }
    size_t size = 0;
    std::array<uint32_t, base::kRouteFrontierMax> nodes;
  };

  template <typename Found, typename Segment>
  void WalkTree(std::string_view body, Found&& found, Segment&& segment) const noexcept;
  // From the segment that begins at `at`, with the nodes `here` behind those before.
  template <typename Found, typename Segment>
  void WalkMany(Frontier here, size_t level, const char* at, const char* end, SegmentEnds ends,
                Found&& found, Segment&& segment) const noexcept;

  template <typename Found>
  [[gnu::noinline]] void Enter(uint32_t number, bool ends, Found&& found) const noexcept {
    const Node& node = nodes_[number];
    if (node.rest.count != 0) found(EntriesOf(node.rest));
    if (ends && node.exact.count != 0) found(EntriesOf(node.exact));
  }

  // The literal child of `node`, which is number `at`; or kNone.
  [[nodiscard]] uint32_t LiteralChild(const Node& node, uint32_t at,
                                      std::string_view text) const noexcept {
    if (node.only_child != 0) {
      return edges_.Is(node.only_text, text) ? node.only_child : TextTable::kNone;
    }
    if (!node.has_literals) return TextTable::kNone;
    return edges_.Find(at, text);
  }

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
  const Node* const nodes = nodes_.data();
  const Node* node = nodes;
  if (node->rest.count != 0) found(EntriesOf(node->rest));
  const char* const begin = body.data();
  const char* const end = begin + body.size();
  if (end - begin > SegmentEnds::kWindow) [[unlikely]] {
    WalkMany({0}, 0, begin, end, SegmentEnds(body), found, segment);
    return;
  }
  // Most paths are short, and at one node all the way.
  uint64_t slashes = SegmentEnds::SlashesIn(begin, body.size());
  uint32_t here = 0;
  const char* at = begin;
  for (size_t level = 0; !body.empty(); ++level) {
    if (level == base::kRouteSegmentsMax) return;  // no template is longer
    const char* const stop = slashes != 0 ? begin + std::countr_zero(slashes) : end;
    slashes &= slashes - 1;
    const std::string_view text(at, static_cast<size_t>(stop - at));
    segment(level, text);
    const uint32_t any = node->any_child;
    const uint32_t child = LiteralChild(*node, here, text);
    if (child != TextTable::kNone && any != 0) [[unlikely]] {
      Enter(child, stop == end, found);
      Enter(any, stop == end, found);
      if (stop != end) {
        WalkMany({child, any}, level + 1, stop + 1, end, SegmentEnds(begin, end, slashes), found,
                 segment);
      }
      return;
    }
    here = child != TextTable::kNone ? child : any;
    if (here == 0) return;
    node = nodes + here;
    if (node->rest.count != 0) found(EntriesOf(node->rest));
    if (stop == end) break;
    at = stop + 1;
  }
  if (node->exact.count != 0) found(EntriesOf(node->exact));
}

template <typename Found, typename Segment>
[[gnu::noinline]] void RouteIndex::WalkMany(Frontier here, size_t level, const char* at,
                                            const char* end, SegmentEnds ends, Found&& found,
                                            Segment&& segment) const noexcept {
  const Node* const nodes = nodes_.data();
  for (;; ++level) {
    if (level == base::kRouteSegmentsMax) return;
    const char* const stop = ends.Next();
    const std::string_view text(at, static_cast<size_t>(stop - at));
    segment(level, text);
    Frontier next;
    const auto enter = [&](uint32_t node) {
      next.Add(node);
      if (nodes[node].rest.count != 0) found(EntriesOf(nodes[node].rest));
    };
    for (size_t i = 0; i < here.size; ++i) {
      const Node& node = nodes[here.nodes[i]];
      const uint32_t child = LiteralChild(node, here.nodes[i], text);
      if (child != TextTable::kNone) enter(child);
      if (node.any_child != 0) enter(node.any_child);
    }
    if (next.size == 0) return;
    here.size = next.size;
    std::copy_n(next.nodes.begin(), next.size, here.nodes.begin());
    if (stop == end) break;
    at = stop + 1;
  }
  for (size_t i = 0; i < here.size; ++i) {
    const Node& node = nodes[here.nodes[i]];
    if (node.exact.count != 0) found(EntriesOf(node.exact));
  }
}

}  // namespace flowguard::rules
