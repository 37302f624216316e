// SPDX-License-Identifier: Apache-2.0
//
// For tests: one state with the spec of usual requests and that of prioritised ones.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "limit/spec.h"
#include "limit/test_cell.h"

namespace flowguard::limit {

class BorrowingCell {
 public:
  BorrowingCell(Algorithm algorithm, Config config)
      : usual_(TestCell::MustMake(algorithm, config)),
        prioritised_(TestCell::MustMake(algorithm, Prioritised(config))),
        state_(usual_.words(), 0) {}

  Numbers Decide(int64_t at, int64_t cost, bool priority) {
    const AnySpec& spec = SpecOf(priority);
    if (!spec.one_word()) {
      return spec.Decide(std::span(state_), TestCell::At(at), cost, receipt_);
    }
    auto word = static_cast<int64_t>(state_[0]);
    const Numbers numbers = spec.Decide(word, TestCell::At(at), cost, receipt_);
    state_[0] = static_cast<uint64_t>(word);
    return numbers;
  }
  [[nodiscard]] Numbers Look(int64_t at, int64_t cost, bool priority) const {
    const AnySpec& spec = SpecOf(priority);
    if (spec.one_word()) {
      return spec.Look(static_cast<int64_t>(state_[0]), TestCell::At(at), cost);
    }
    return spec.Look(std::span(state_), TestCell::At(at), cost);
  }
  void GiveBack(int64_t at, const Receipt& receipt) {
    if (!usual_.one_word()) return usual_.GiveBack(std::span(state_), receipt, TestCell::At(at));
    auto word = static_cast<int64_t>(state_[0]);
    usual_.GiveBack(word, receipt, TestCell::At(at));
    state_[0] = static_cast<uint64_t>(word);
  }

  // Of the last Decide.
  [[nodiscard]] const Receipt& receipt() const { return receipt_; }
  [[nodiscard]] const std::vector<uint64_t>& state() const { return state_; }
  [[nodiscard]] const AnySpec& spec() const { return usual_; }
  [[nodiscard]] int64_t KeepUntil() const {
    if (usual_.one_word()) return static_cast<int64_t>(state_[0]);
    return usual_.KeepUntil(state_).time_since_epoch().count();
  }

 private:
  static Config Prioritised(Config config) {
    config.prioritised = true;
    return config;
  }
  [[nodiscard]] const AnySpec& SpecOf(bool priority) const {
    return priority ? prioritised_ : usual_;
  }

  AnySpec usual_;
  AnySpec prioritised_;
  std::vector<uint64_t> state_;
  Receipt receipt_;
};

}  // namespace flowguard::limit
