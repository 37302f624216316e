// SPDX-License-Identifier: Apache-2.0
//
// Shapes of cells as commands need them.  Thousands of cells have the shape of their rule,
// so that what a shape is in the numbers of the scripts, and the words of a take, is
// worked out once and kept for the calls that follow.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bounds.h"
#include "quota/cell_server.h"
#include "quota/cell_shape.h"
#include "quota/pool.h"
#include "wire/resp.h"

namespace flowguard::quota {

class PreparedShape {
 public:
  [[nodiscard]] const CellShape& shape() const noexcept { return shape_; }
  [[nodiscard]] const ScriptShape& script() const noexcept { return script_; }

  // The words of one request of `cost` units, for token_bucket_take.lua and for
  // buckets_take.lua.  Good until the next call.
  // Requires: script().bucket.
  // Cost: none where the last request cost as much.
  [[nodiscard]] const wire::resp::EncodedWords& TakeWords(int64_t cost) noexcept {
    if (cost != cost_) WriteTakes(cost);
    return take_;
  }
  [[nodiscard]] const wire::resp::EncodedWords& JoinedTakeWords(int64_t cost) noexcept {
    if (cost != cost_) WriteTakes(cost);
    return joined_take_;
  }

 private:
  friend class PreparedShapes;
  template <typename T>
  friend class Pool;

  static constexpr size_t kNumberWordBytes = wire::resp::WordBytes(wire::resp::kNumberBytesMax);

  void WriteTakes(int64_t cost) noexcept;

  CellShape shape_;
  ScriptShape script_;
  int64_t cost_ = -1;  // of the words; -1: none are written
  wire::resp::EncodedWords take_;
  wire::resp::EncodedWords joined_take_;
  size_t uses_ = 0;
  std::array<char, 3 * kNumberWordBytes> take_bytes_;
  std::array<char, 4 * kNumberWordBytes> joined_take_bytes_;

 public:
  size_t pool_index = 0;
};

// Threads: one owner.
class PreparedShapes {
 public:
  // A shape, in use until Release.
  // Cost: a comparison where the shape was asked for lately; allocates only while more are
  // in use than ever before.
  [[nodiscard]] PreparedShape& Get(const CellShape& shape) noexcept {
    PreparedShape* const kept = kept_[PlaceOf(shape)];
    if (kept == nullptr || kept->shape_ != shape) return Prepare(shape);
    ++kept->uses_;
    return *kept;
  }
  void Release(PreparedShape& shape) noexcept {
    if (--shape.uses_ == 0) pool_.Return(&shape);
  }

 private:
  [[nodiscard]] static size_t PlaceOf(const CellShape& shape) noexcept;
  PreparedShape& Prepare(const CellShape& shape) noexcept;

  // Each of these counts as one use.
  std::array<PreparedShape*, base::kPreparedShapesKept> kept_{};
  // One more than can be kept and in use, so that it is never full.
  Pool<PreparedShape> pool_{base::kPreparedShapesKept +
                            base::kCellCallsPendingMax * base::kCellCallsPerTurnMax + 1};
};

}  // namespace flowguard::quota
