// SPDX-License-Identifier: Apache-2.0
//
// The two macros of Result: return early with its error.
#pragma once

#include "flowguard/result.h"

#define FG_TRY_CONCAT_(a, b) a##b
#define FG_TRY_NAME_(a, b) FG_TRY_CONCAT_(a, b)

#define FG_RETURN_IF_ERROR(expression)                        \
  do {                                                        \
    auto fg_result = (expression);                            \
    if (!fg_result.ok()) return std::move(fg_result).error(); \
  } while (false)

// `target` may be a declaration, which takes no parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define FG_ASSIGN_OR_RETURN(target, expression)                   \
  auto FG_TRY_NAME_(fg_result_, __LINE__) = (expression);         \
  if (!FG_TRY_NAME_(fg_result_, __LINE__).ok())                   \
    return std::move(FG_TRY_NAME_(fg_result_, __LINE__)).error(); \
  target = std::move(FG_TRY_NAME_(fg_result_, __LINE__)).value()
// NOLINTEND(bugprone-macro-parentheses)
