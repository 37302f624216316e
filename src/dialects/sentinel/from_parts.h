// SPDX-License-Identifier: Apache-2.0
//
// What dimensions and conditions of FlowGuard's rules are in Sentinel's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "flowguard/rule.h"

#include "dialects/sentinel/rules.h"

namespace flowguard::dialects::sentinel {

// What a gateway rule counts by, where the dimension is the client's address, the host, a
// header, a URL parameter or a cookie.
[[nodiscard]] std::optional<GatewayParamFlowItem> GatewayItem(const RuleSet& set,
                                                              const std::string& name);

// The index of arg0, arg1, ...; nothing for another name.
[[nodiscard]] std::optional<int32_t> ArgumentIndex(std::string_view name);

// The values under this dimension, or null.
[[nodiscard]] const std::vector<std::string>* ValuesUnder(const std::vector<ValuesOf>& lists,
                                                          std::string_view dimension);

}  // namespace flowguard::dialects::sentinel
