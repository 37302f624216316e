// SPDX-License-Identifier: Apache-2.0
//
// JSON as people and Alibaba's fastjson 1.x write and read it, to the same tree of
// nodes as ParseJson.  Beyond JSON it takes
//   - text in single quotes, keys without quotes (letters, digits, _ and $),
//   - comments: // to the end of the line, /* ... */,
//   - commas too many, at any place: [1,,2,], {,a:1,},
//   - line ends and tabs within quotes, the escapes \' \/ \v \0 to \7 and \xHH,
//   - numbers as +5, 007, 5., 10L, 1.5F, 1.5D,
//   - a key twice: the last one counts,
//   - no text at all, or comments alone: null.
// What is JSON reads as by ParseJson.
#pragma once

#include <string_view>
#include <vector>

#include "flowguard/result.h"

#include "text/duplicate_keys.h"
#include "text/node.h"

namespace flowguard::text {

// `duplicates` tells of the members that a later one with the same key replaced, at most
// kTextFaultsMax of them.
struct LenientDocument {
  Node root;
  std::vector<DuplicateKey> duplicates;
};

// Numbers are scalars with their digits as written, without the letter behind them.
//
// Errors: kInvalidArgument "name:line:column: ..." for text that is not even that, or no
//         UTF-8, or exceeds kRuleFileBytesMax, kTextDepthMax or kTextNodesMax.
// Threads: any.
// Cost:   linear in the text, and n log n in the members of an object.
Result<LenientDocument> ReadLenientJson(std::string_view text, std::string_view name);

}  // namespace flowguard::text
