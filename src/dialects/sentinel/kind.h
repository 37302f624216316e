// SPDX-License-Identifier: Apache-2.0
//
// Which kind of rules a file holds.  Sentinel's JSON does not say: the file's name tells,
// or the members that only rules of one kind have.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "dialects/problems.h"
#include "dialects/sentinel/rules.h"
#include "text/node.h"

namespace flowguard::dialects::sentinel {

// By the last word of the file's name that names a kind: "orders-flow-rules.json",
// "GatewayFlowRule.json", "app-gw-api-group".
[[nodiscard]] std::optional<Kind> KindOfName(std::string_view file_name);

// The kinds that have all members that occur in the list and belong to any kind, and
// whose necessary members occur in each of its rules.  Of a list without a rule: none.
[[nodiscard]] std::vector<Kind> KindsOfMembers(const text::Node& list);

// The kind by name, else by members; nothing where they contradict each other or tell
// nothing, with a fault that says so.
[[nodiscard]] std::optional<Kind> DetectKind(std::string_view file_name, const text::Node& list,
                                             Problems& problems);

// The rule within a dashboard's entity ({"id":1,"app":"a","rule":{...}}), or the node
// itself.
[[nodiscard]] const text::Node& RuleOfEntity(const text::Node& node);

}  // namespace flowguard::dialects::sentinel
