// SPDX-License-Identifier: Apache-2.0
#include "quota/prepared_shapes.h"

namespace flowguard::quota {

void PreparedShape::WriteTakes(int64_t cost) noexcept {
  cost_ = cost;
  const int64_t ticks = cost * script_.numbers[0];
  wire::resp::WordWriter take(take_bytes_);
  take.Add(ticks);
  take.Add(script_.numbers[1]);
  take.Add(script_.numbers[2]);
  take_ = take.words();
  wire::resp::WordWriter joined(joined_take_bytes_);
  joined.Add(ticks);
  joined.Add(int64_t{1});
  joined.Add(script_.numbers[1]);
  joined.Add(script_.numbers[2]);
  joined_take_ = joined.words();
}

// Rules differ by these mostly; others that meet only take turns.
size_t PreparedShapes::PlaceOf(const CellShape& shape) noexcept {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
  const auto limit = static_cast<uint64_t>(shape.config.rate.limit);
  const auto window = static_cast<uint64_t>(shape.config.rate.window.count());
  const auto burst = static_cast<uint64_t>(shape.config.burst);
  const uint64_t mixed = ((limit * kOdd + window) * kOdd + burst) * kOdd +
                         static_cast<uint64_t>(shape.algorithm) * kOdd;
  return mixed >> 32 & (base::kPreparedShapesKept - 1);
}

PreparedShape& PreparedShapes::Prepare(const CellShape& shape) noexcept {
  PreparedShape*& kept = kept_[PlaceOf(shape)];
  if (kept != nullptr) Release(*kept);
  kept = pool_.Take();
  kept->shape_ = shape;
  kept->script_ = ScriptShapeOf(shape);
  kept->cost_ = -1;
  kept->uses_ = 2;
  return *kept;
}

}  // namespace flowguard::quota
