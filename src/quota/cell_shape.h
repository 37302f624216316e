// SPDX-License-Identifier: Apache-2.0
//
// A CellShape in the numbers of the scripts, and the scripts' replies as limit::Numbers.
//
// Redis counts time in us, and its scripts in doubles, which are exact up to 2^53.
// Windows are rounded up to us.  So is the interval of a bucket, unless that would slow it
// by 0.1 % or more: then the bucket is kept in ns.  (A bucket faster than 1 000 a second
// that takes more than 52 days to fill stays with us.)
#pragma once

#include <cstdint>
#include <string_view>

#include "quota/cell_server.h"
#include "quota/redis/commander.h"

namespace flowguard::quota {

// The letters of a shape's state, as keys end with them: states of other letters are
// not read.
[[nodiscard]] std::string_view LettersOf(const CellShape& shape) noexcept;

// A shape as the scripts have it.
struct ScriptShape {
  std::string_view letters;
  const redis::Script* single = nullptr;
  const redis::Script* lease = nullptr;  // nullptr: does not lease
  int64_t numbers[4] = {};
  int64_t largest = 0;     // units of one request at most
  int64_t most_units = 0;  // that are booked at once at most, with debt
  bool bucket = false;     // token_bucket, leaky_bucket: numbers are T, admit, horizon, scale
  int64_t scale = 1;       // of a bucket: ticks a us
  int64_t capacity = 0;    // of a bucket: what can be had without a wait, in ticks
};
[[nodiscard]] ScriptShape ScriptShapeOf(const CellShape& shape) noexcept;

// What a script tells of one cell.
struct CellState {
  int64_t granted = 0;
  int64_t mark = 0;
  int64_t told[3] = {};
  int64_t now_us = 0;
};

// What is kept of a CellCall to read its reply.
struct CellQuestion {
  int64_t cost = 0;
  int32_t count = 0;
  CellOp op = CellOp::kTake;
};

// What `state` means for a call, whose shape is `script` too: for kTake the answer to the last
// request granted, or to the first one refused; for kPeek what a take would answer; else how things
// stand.
[[nodiscard]] CellReply ReplyOf(const CellShape& shape, const ScriptShape& script,
                                const CellQuestion& call, const CellState& state) noexcept;

}  // namespace flowguard::quota
