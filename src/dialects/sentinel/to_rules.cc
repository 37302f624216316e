// SPDX-License-Identifier: Apache-2.0
#include "dialects/sentinel/to_rules.h"

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "dialects/sentinel/flow_maker.h"
#include "dialects/sentinel/guard_maker.h"
#include "dialects/sentinel/rule_maker.h"
#include "dialects/sentinel/value_maker.h"
#include "text/node.h"

namespace flowguard::dialects::sentinel {

namespace {

// What rules of one list say about those of another.
struct Context {
  OriginsOfResources origins;
  OwnBreakers own_breakers;
  ApiGroups api_groups;
  std::set<std::string, std::less<>> limited;  // what gateway rules name
};

template <typename Rule>
void Collect(const std::vector<Listed<Rule>>& /*rules*/, Context& /*context*/) {}
void Collect(const std::vector<Listed<FlowRule>>& rules, Context& context) {
  CollectOrigins(rules, context.origins);
}
void Collect(const std::vector<Listed<DegradeRule>>& rules, Context& context) {
  CollectOwnBreakers(rules, context.own_breakers);
}
void Collect(const std::vector<Listed<GatewayFlowRule>>& rules, Context& context) {
  for (const Listed<GatewayFlowRule>& listed : rules)
    context.limited.insert(listed.rule.resource);
}
void Collect(const std::vector<Listed<ApiDefinition>>& rules, Context& context) {
  for (const Listed<ApiDefinition>& listed : rules)
    context.api_groups.emplace(listed.rule.api_name, &listed.rule);
}

void Make(const RuleAt& at, const FlowRule& rule, const Context& context, RuleMaker& maker) {
  MakeFlowRule(at, rule, context.origins, maker);
}
void Make(const RuleAt& at, const DegradeRule& rule, const Context& context, RuleMaker& maker) {
  MakeBreaker(at, rule, context.own_breakers, maker);
}
void Make(const RuleAt& at, const SystemRule& rule, const Context& /*context*/, RuleMaker& maker) {
  MakeSystem(at, rule, maker);
}
void Make(const RuleAt& at, const AuthorityRule& rule, const Context& /*context*/,
          RuleMaker& maker) {
  MakeAccess(at, rule, maker);
}
void Make(const RuleAt& at, const ParamFlowRule& rule, const Context& /*context*/,
          RuleMaker& maker) {
  MakeParamFlowRule(at, rule, maker);
}
void Make(const RuleAt& at, const GatewayFlowRule& rule, const Context& context, RuleMaker& maker) {
  MakeGatewayFlowRule(at, rule, context.api_groups, maker);
}
// A group limits nothing by itself.
void Make(const RuleAt& at, const ApiDefinition& rule, const Context& context, RuleMaker& maker) {
  if (context.limited.contains(rule.api_name)) return;
  maker.report.NoteOfMany(at, "apiName", "limits the group by gateway-flow rules that name it",
                          "found none; convert them together with the group");
}

}  // namespace

ToRulesResult ToRules(std::span<const RuleFile> files, Compat compat) {
  Context context;
  for (const RuleFile& file : files)
    std::visit([&context](const auto& list) { Collect(list, context); }, file.rules);
  RuleMaker maker(compat);
  for (const RuleFile& file : files) {
    const std::string kind(NameOf(KindOf(file.rules)));
    const auto make = [&](const auto& list) {
      for (const auto& listed : list) {
        const RuleAt at{text::Place(file.name, listed.at),
                        kind + " rule #" + std::to_string(listed.index + 1)};
        Make(at, listed.rule, context, maker);
      }
    };
    std::visit(make, file.rules);
  }
  return {maker.Take(), maker.report.Take()};
}

ToRulesResult ToRules(const RuleList& rules, std::string_view file_name, Compat compat) {
  const RuleFile file{std::string(file_name), rules};
  return ToRules({&file, 1}, compat);
}

}  // namespace flowguard::dialects::sentinel
