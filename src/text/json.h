// SPDX-License-Identifier: Apache-2.0
//
// JSON text to a tree of nodes.  Numbers keep their digits as written, so none is
// rounded on the way.
#pragma once

#include <string_view>

#include "flowguard/result.h"

#include "text/node.h"

namespace flowguard::text {

// Strings are scalars with `quoted` set; numbers, true and false are scalars without.
//
// Errors: kInvalidArgument "name:line:column: ..." for text that is no JSON or no
//         UTF-8, is empty, repeats a key in one object, or exceeds
//         kRuleFileBytesMax, kTextDepthMax or kTextNodesMax.
// Threads: any.
Result<Node> ParseJson(std::string_view text, std::string_view name);

}  // namespace flowguard::text
