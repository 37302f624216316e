// SPDX-License-Identifier: Apache-2.0
#include "rules/flow_id.h"

#include <algorithm>
#include <limits>

#include "base/hash.h"

namespace flowguard::rules {

FlowQuestion FlowQuestionOf(const Rule& rule) noexcept {
  if (rule.kind == RuleKind::kConcurrency) return FlowQuestion::kConcurrent;
  return rule.by.empty() ? FlowQuestion::kFlow : FlowQuestion::kParamFlow;
}

std::string_view NameOf(FlowQuestion question) noexcept {
  switch (question) {
    case FlowQuestion::kFlow:
      return "a limit without by";
    case FlowQuestion::kParamFlow:
      return "a limit with by";
    case FlowQuestion::kConcurrent:
      return "a concurrency rule";
  }
  return "unknown";
}

int64_t FlowIdOf(const Rule& rule) noexcept {
  if (rule.cluster.flow_id != 0) return rule.cluster.flow_id;
  constexpr uint64_t kSeed = 0;  // the same everywhere, and for ever
  constexpr auto kMask = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  return std::max<int64_t>(static_cast<int64_t>(base::Hash64(rule.name, kSeed) & kMask), 1);
}

}  // namespace flowguard::rules
