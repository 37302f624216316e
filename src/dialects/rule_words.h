// SPDX-License-Identifier: Apache-2.0
//
// The words of closed sets in rule text, shared by reading and writing.  Of two
// words for one value the first is written.
#pragma once

#include "flowguard/rule.h"

#include "dialects/fields.h"

namespace flowguard::dialects {

inline constexpr Word<Algorithm> kAlgorithmWords[] = {
    {"token_bucket", Algorithm::kTokenBucket},
    {"leaky_bucket", Algorithm::kLeakyBucket},
    {"sliding_log", Algorithm::kSlidingLog},
    {"sliding_buckets", Algorithm::kSlidingBuckets},
    {"sliding_window", Algorithm::kSlidingWindow},
    {"fixed_window", Algorithm::kFixedWindow},
    {"weighted_average", Algorithm::kWeightedAverage},
    {"smooth_bursty", Algorithm::kSmoothBursty},
    {"warm_up", Algorithm::kWarmUp},
    {"warm_up_window", Algorithm::kWarmUpWindow},
    {"leap_array", Algorithm::kLeapArray},
    {"step_bucket", Algorithm::kStepBucket},
};

inline constexpr Word<Scope> kScopeWords[] = {
    {"local", Scope::kLocal},
    {"shared", Scope::kShared},
    {"cluster", Scope::kCluster},
};

// A value of any type has no word.
inline constexpr Word<ValueType> kValueTypeWords[] = {
    {"int", ValueType::kInt},       {"long", ValueType::kLong},     {"byte", ValueType::kByte},
    {"double", ValueType::kDouble}, {"float", ValueType::kFloat},   {"short", ValueType::kShort},
    {"bool", ValueType::kBool},     {"string", ValueType::kString},
};

inline constexpr Word<StoreFailurePolicy> kStoreFailureWords[] = {
    {"local", StoreFailurePolicy::kLocal},
    {"open", StoreFailurePolicy::kOpen},
    {"closed", StoreFailurePolicy::kClosed},
};

inline constexpr Word<CellTag> kCellTagWords[] = {
    {"key", CellTag::kKey},
    {"resource", CellTag::kResource},
};

inline constexpr Word<RefuseBody> kRefuseBodyWords[] = {
    {"problem", RefuseBody::kProblem},
    {"unified", RefuseBody::kUnified},
    {"text", RefuseBody::kText},
};

inline constexpr Word<MatchMode> kMatchWords[] = {
    {"all", MatchMode::kAll},
    {"most_specific", MatchMode::kMostSpecific},
};

inline constexpr Word<Compat> kCompatWords[] = {
    {"none", Compat::kNone},
    {"sentinel", Compat::kSentinel},
};

}  // namespace flowguard::dialects
