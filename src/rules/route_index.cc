// SPDX-License-Identifier: Apache-2.0
#include "rules/route_index.h"

namespace flowguard::rules {

namespace {

std::string BodyOf(const RouteTemplate& route) {
  std::string body;
  for (const RouteSegment& segment : route.segments) {
    if (!body.empty()) body += '/';
    body += segment.text;
  }
  return body;
}

}  // namespace

void RouteIndex::Add(const RouteTemplate& route, const Entry& entry) {
  if (route.literal()) {
    const uint32_t fresh = static_cast<uint32_t>(literal_lists_.size());
    const uint32_t at = literals_.Insert(0, BodyOf(route), fresh);
    if (at == fresh) literal_lists_.push_back(lists_.NewList());
    lists_.Add(literal_lists_[at], entry);
    return;
  }
  has_tree_ = true;
  uint32_t node = 0;
  bool rest = false;
  for (const RouteSegment& segment : route.segments) {
    if (segment.kind == RouteSegment::Kind::kRest) {
      rest = true;
      break;
    }
    const uint32_t fresh = static_cast<uint32_t>(nodes_.size());
    uint32_t child = fresh;
    if (segment.kind == RouteSegment::Kind::kLiteral) {
      nodes_[node].has_literals = true;
      child = edges_.Insert(node, segment.text, fresh);
    } else if (nodes_[node].any_child != 0) {
      child = nodes_[node].any_child;
    } else {
      nodes_[node].any_child = fresh;
    }
    if (child == fresh) {
      nodes_.emplace_back();
      exact_lists_.push_back(0);
      rest_lists_.push_back(0);
    }
    node = child;
  }
  uint32_t& list = rest ? rest_lists_[node] : exact_lists_[node];
  if (list == 0) list = lists_.NewList();
  lists_.Add(list, entry);
}

void RouteIndex::Finish() {
  entries_.clear();
  literal_entries_.clear();
  for (const uint32_t list : literal_lists_)
    literal_entries_.push_back(lists_.Lay(list, entries_));
  for (size_t i = 0; i < nodes_.size(); ++i) {
    nodes_[i].exact = lists_.Lay(exact_lists_[i], entries_);
    nodes_[i].rest = lists_.Lay(rest_lists_[i], entries_);
  }
  std::vector<uint32_t> literals(nodes_.size());
  const std::vector<TextTable::Item> edges = edges_.Items();
  for (const TextTable::Item& edge : edges)
    ++literals[edge.parent];
  for (const TextTable::Item& edge : edges) {
    if (literals[edge.parent] != 1) continue;
    nodes_[edge.parent].only_child = edge.value;
    nodes_[edge.parent].only_text = edge.place;
  }
}

}  // namespace flowguard::rules
