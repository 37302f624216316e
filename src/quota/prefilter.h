// SPDX-License-Identifier: Apache-2.0
//
// What this node alone took of a shared cell, as a cell of its own: when that is used up,
// so is the shared one, and need not be asked.
//
// Sound because the shared cell has all of these takes and more: every algorithm here
// refuses the more, the more was taken, and a give-back returns at most its own take's
// undrained part.  Two things could make the copy refuse what the server admits, and both
// are met: its clock (the time asked about is the latest that the server's clock can
// show), and our own give-backs (which make it forget everything).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "flowguard/rule.h"
#include "flowguard/time.h"

#include "limit/numbers.h"
#include "limit/spec.h"

namespace flowguard::quota {

class Prefilter {
 public:
  // Begins to filter.  Algorithms whose state is larger than a few words, or whose
  // refusals do not grow with what was taken, are left alone.
  void Enable(Algorithm algorithm, const limit::Config& config);
  void Clear() noexcept;
  [[nodiscard]] bool enabled() const noexcept { return enabled_; }

  // The server told `now_us` to a question that left at `sent`, in a reply of `received`.
  void Sync(Instant sent, Instant received, int64_t now_us) noexcept;
  // The server granted `times` takes of `cost` each at its `now_us`.
  void Took(int64_t now_us, int64_t cost, int32_t times) noexcept;
  // What was taken is not known to be held any more.
  void Forget() noexcept;

  // The refusal that the server would give now, if it must refuse.
  [[nodiscard]] std::optional<limit::Numbers> Refusal(Instant now, int64_t cost) const noexcept;

 private:
  static constexpr size_t kWordsMax = 4;

  [[nodiscard]] std::span<uint64_t> state() noexcept { return {words_.data(), spec_->words()}; }
  [[nodiscard]] std::span<const uint64_t> state() const noexcept {
    return {words_.data(), spec_->words()};
  }

  bool enabled_ = false;  // spec_ is there; first, for it is asked of every take
  std::optional<limit::AnySpec> spec_;
  int64_t word_ = 0;
  std::array<uint64_t, kWordsMax> words_{};
  // The server's clock less ours, at most; none: not known yet.
  std::optional<int64_t> ahead_ns_;
};

}  // namespace flowguard::quota
