// SPDX-License-Identifier: Apache-2.0
#include "text/node.h"

#include "text/utf8.h"

namespace flowguard::text {

namespace {

constexpr size_t kShownBytesMax = 60;

}  // namespace

const Node* Node::Find(std::string_view key) const noexcept {
  for (const Member& member : members) {
    if (member.key == key) return &member.value;
  }
  return nullptr;
}

Node NodeOf(Kind kind, Position at) {
  Node node;
  node.kind = kind;
  node.at = at;
  return node;
}

std::string Quote(std::string_view text) {
  std::string shown = "\"";
  for (const char c : text.substr(0, WholeCharacters(text, kShownBytesMax))) {
    shown += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  if (text.size() > kShownBytesMax) shown += "...";
  return shown + '"';
}

std::string Describe(const Node& node) {
  switch (node.kind) {
    case Kind::kNull:
      return "nothing";
    case Kind::kSequence:
      return "a list";
    case Kind::kMap:
      return "a map";
    case Kind::kScalar:
      return Quote(node.scalar);
  }
  return {};
}

std::string Place(std::string_view file_name, Position at) {
  std::string place(file_name);
  place += ':';
  place += std::to_string(at.line);
  place += ':';
  place += std::to_string(at.column);
  return place;
}

}  // namespace flowguard::text
