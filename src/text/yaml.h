// SPDX-License-Identifier: Apache-2.0
//
// YAML text to a tree of nodes.
//
// One document of plain maps, lists and scalars: anchors, aliases and tags are
// refused, so the tree is never larger than the text (an alias bomb cannot be
// written down); so are duplicate keys, which YAML readers commonly let through.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "flowguard/result.h"

#include "text/node.h"

namespace flowguard::text {

// A tree that may have faults which do not hide the rest of it: duplicate keys,
// anchors, aliases, tags.
struct YamlDocument {
  Node root;
  struct Fault {
    Position at;
    std::string message;
  };
  std::vector<Fault> faults;  // at most kTextFaultsMax
};

// For readers that tell all faults of a file at once.
// Errors: kInvalidArgument "file:line:column: ..." for text that is no YAML or no
//         UTF-8, is empty, holds control characters or a second document, or
//         exceeds kRuleFileBytesMax, kTextDepthMax or kTextNodesMax.
// Threads: any.
Result<YamlDocument> ReadYaml(std::string_view text, std::string_view file_name);

// The tree of a document without any fault.
// Errors: as ReadYaml, and its faults, one a line.
// Threads: any.
Result<Node> ParseYaml(std::string_view text, std::string_view file_name);

}  // namespace flowguard::text
