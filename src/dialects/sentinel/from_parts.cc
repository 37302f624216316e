// SPDX-License-Identifier: Apache-2.0
#include "dialects/sentinel/from_parts.h"

#include <string_view>

#include "dialects/sentinel/to_rules.h"

namespace flowguard::dialects::sentinel {

std::optional<GatewayParamFlowItem> GatewayItem(const RuleSet& set, const std::string& name) {
  std::string source = name;
  for (const DimensionSpec& spec : set.dimensions) {
    if (spec.name == name) source = spec.source;
  }
  GatewayParamFlowItem item;
  const size_t colon = source.find(':');
  const std::string_view kind = std::string_view(source).substr(0, colon);
  if (source == "ip") return item;
  if (colon == std::string::npos) return std::nullopt;
  item.field_name = source.substr(colon + 1);
  if (kind == "header") {
    item.parse_strategy = kParseHeader;
    if (item.field_name != "host") return item;
    item.parse_strategy = kParseHost;
    item.field_name.clear();
    return item;
  }
  if (kind == "query") item.parse_strategy = kParseUrlParam;
  if (kind == "cookie") item.parse_strategy = kParseCookie;
  if (item.parse_strategy == kParseClientIp) return std::nullopt;
  return item;
}

std::optional<int32_t> ArgumentIndex(std::string_view name) {
  if (name.substr(0, kArgumentDimension.size()) != kArgumentDimension) return std::nullopt;
  const std::string digits(name.substr(kArgumentDimension.size()));
  const size_t sign = digits.starts_with('-') ? 1 : 0;
  const bool number = digits.size() > sign && digits.size() < 10 &&
                      digits.find_first_not_of("0123456789", sign) == std::string::npos;
  if (!number) return std::nullopt;
  return std::stoi(digits);
}

const std::vector<std::string>* ValuesUnder(const std::vector<ValuesOf>& lists,
                                            std::string_view dimension) {
  for (const ValuesOf& list : lists) {
    if (list.dimension == dimension) return &list.values;
  }
  return nullptr;
}

}  // namespace flowguard::dialects::sentinel
