// SPDX-License-Identifier: Apache-2.0
//
// Structured text as one tree of nodes with positions, whether it was written as
// YAML or JSON.  Readers of rules and configuration see this tree only, so every
// message can say where in the file the fault is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace flowguard::text {

// Both count from 1; a column is a byte of the line.
struct Position {
  int line = 1;
  int column = 1;

  friend bool operator==(const Position&, const Position&) = default;
};

enum class Kind : uint8_t { kNull, kScalar, kSequence, kMap };

struct Member;

// A value.  Invariants: scalar is empty unless kScalar, items unless kSequence,
// members unless kMap; keys of one map are distinct.
//
// Threads: a plain value.
struct Node {
  Kind kind = Kind::kNull;
  bool quoted = false;  // written in quotes: "5", not 5
  Position at;
  std::string scalar;  // as written, quotes and escapes resolved
  std::vector<Node> items;
  std::vector<Member> members;  // in the order of the file

  [[nodiscard]] bool IsNull() const noexcept { return kind == Kind::kNull; }
  [[nodiscard]] bool IsScalar() const noexcept { return kind == Kind::kScalar; }
  [[nodiscard]] bool IsSequence() const noexcept { return kind == Kind::kSequence; }
  [[nodiscard]] bool IsMap() const noexcept { return kind == Kind::kMap; }

  // The value of a key of a map, or null.
  // Cost: linear in the number of members.
  [[nodiscard]] const Node* Find(std::string_view key) const noexcept;
};

// One key of a map with its value.
struct Member {
  std::string key;
  Position key_at;
  Node value;
};

// An empty value of a kind.
[[nodiscard]] Node NodeOf(Kind kind, Position at);

// What was found, for messages: a map, a list, nothing, or the scalar as by Quote.
[[nodiscard]] std::string Describe(const Node& node);

// The text in quotes on one line, for messages; cut short when long.
[[nodiscard]] std::string Quote(std::string_view text);

// "rules.yaml:12:9"
[[nodiscard]] std::string Place(std::string_view file_name, Position at);

}  // namespace flowguard::text
