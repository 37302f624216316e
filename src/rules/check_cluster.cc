// SPDX-License-Identifier: Apache-2.0
//
// Rules that a token server counts: what it can count, and answer at once; and what its
// protocol cannot say.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "base/bounds.h"
#include "rules/address_block.h"
#include "rules/check_rule.h"
#include "rules/cluster_key.h"

namespace flowguard::rules {
namespace {

const Rule kDefaults;
constexpr std::string_view kOwner = "rules with scope cluster";

// Counts that are answered at once, without a queue, a warmth or a place at a process.
constexpr std::array<Algorithm, 7> kCounted = {
    Algorithm::kTokenBucket,   Algorithm::kSlidingLog,  Algorithm::kSlidingBuckets,
    Algorithm::kSlidingWindow, Algorithm::kFixedWindow, Algorithm::kWeightedAverage,
    Algorithm::kLeapArray,
};

void CheckAlgorithm(const Rule& rule, FaultsAt& faults) {
  if (std::find(kCounted.begin(), kCounted.end(), rule.algorithm) != kCounted.end()) return;
  std::string counted;
  for (const Algorithm one : kCounted)
    counted.append(counted.empty() ? "" : ", ").append(NameOf(one));
  faults.Error("scope", "found cluster with algorithm " + std::string(NameOf(rule.algorithm)) +
                            "; a token server counts by " + counted);
}

void CheckClusterLimit(const Rule& rule, FaultsAt& faults) {
  CheckAlgorithm(rule, faults);
  const auto beside = [&](std::string_view field, bool found, std::string_view why) {
    if (found) faults.Error(field, "found with scope cluster; " + std::string(why));
  };
  beside("wait", rule.wait != kDefaults.wait, "a token server has no queue");
  beside("count_refused", rule.count_refused, "a token server takes nothing for a refused request");
  beside("cost.settle", !rule.cost.settle.empty(),
         "tokens are neither given back nor charged afterwards");
  beside("cost.max_debt", rule.cost.max_debt != kDefaults.cost.max_debt,
         "nothing is charged afterwards");
  if (rule.cost.reserve > base::kTokensMax)
    faults.Error("cost.reserve", "found " + std::to_string(rule.cost.reserve) +
                                     " with scope cluster; a token server is asked for " +
                                     std::to_string(base::kTokensMax) + " at most");
  if (rule.cluster.token_ttl != kDefaults.cluster.token_ttl)
    faults.Misplaced("token_ttl", "rules of kind concurrency");
}

void CheckClusterConcurrency(const Rule& rule, FaultsAt& faults) {
  if (!rule.by.empty()) {
    faults.Error("by",
                 "found in a concurrency rule with scope cluster; tokens of calls in progress "
                 "have no key at a token server");
  }
  const Duration ttl = rule.cluster.token_ttl;
  if (ttl < base::kTokenTtlMin || ttl > base::kTokenTtlMax)
    faults.Error("token_ttl", "found " + std::to_string(ttl.count()) + " ns; allowed 1ms to 1h");
}

}  // namespace

void CheckCluster(const Rule& rule, FaultsAt& faults) {
  if (rule.scope != Scope::kCluster) {
    if (rule.cluster.flow_id != kDefaults.cluster.flow_id) faults.Misplaced("flow_id", kOwner);
    if (!rule.cluster.name_space.empty()) faults.Misplaced("namespace", kOwner);
    if (rule.cluster.per_client) faults.Misplaced("per_client", kOwner);
    if (rule.cluster.token_ttl != kDefaults.cluster.token_ttl)
      faults.Misplaced("token_ttl", kOwner);
    const auto typed = [](const Override& one) { return one.type != ValueType::kAny; };
    if (std::any_of(rule.overrides.begin(), rule.overrides.end(), typed))
      faults.Misplaced("overrides: type", kOwner);
    return;
  }
  if (!CountsUnits(rule.kind)) return;  // told with its kind
  if (rule.cluster.flow_id < 0)
    faults.Error("flow_id", "found " + std::to_string(rule.cluster.flow_id) +
                                "; above 0, or leave it away (then it is made from the name)");
  const std::string& space = rule.cluster.name_space;
  // It stands beside the rule's name in that of the rule at the token server, which says how
  // long both may be.
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._:/-@").find(c) != std::string_view::npos;
  };
  if (space.size() > base::kRuleNameBytesMax || !std::all_of(space.begin(), space.end(), good))
    faults.Error("namespace", "a name has 1 to " + std::to_string(base::kRuleNameBytesMax) +
                                  " letters, digits and . _ : / - @");
  if (rule.kind == RuleKind::kLimit) {
    CheckClusterLimit(rule, faults);
  } else {
    CheckClusterConcurrency(rule, faults);
  }
  if (rule.by.size() > 1 && !rule.overrides.empty()) {
    faults.Error("overrides",
                 "found beside several dimensions in by; a token server is told such a key as a "
                 "whole, and has no exceptions for a part of it");
  }
}

bool CheckClusterValue(const Dimension& dimension, const Override& entry, const std::string& field,
                       FaultsAt& faults) {
  std::string scratch(base::kKeyValueInlineMax, '\0');
  std::string text(Normalise(dimension, entry.value, scratch));
  AddressBlock block;
  if (dimension.kind == DimensionKind::kIp && ParseAddressBlock(text, block)) {
    const bool whole = block.prefix_bits == AddressBlock{}.prefix_bits;
    if (IsIpv4(block) && !whole) {
      faults.Error(field,
                   "a block of addresses; a token server has exceptions for single values only");
      return false;
    }
    text = AddressText(block);
  }
  const std::optional<std::string> canonical = CanonicalText(entry.type, text);
  if (entry.value.size() > base::kClusterValueBytesMax) {
    faults.Error(field, "found " + std::to_string(entry.value.size()) +
                            " bytes; with scope cluster a value has at most " +
                            std::to_string(base::kClusterValueBytesMax));
    return false;
  }
  if (!canonical) {
    faults.Error(field, "no value of type " + std::string(NameOf(entry.type)));
  } else if (*canonical != entry.value) {
    faults.Error(field, "a token server compares texts; write \"" + *canonical + "\"");
  }
  return canonical == entry.value;
}

}  // namespace flowguard::rules
