// SPDX-License-Identifier: Apache-2.0
//
// A cell of any algorithm for tests: spec and state together, time as plain
// nanoseconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <utility>
#include <vector>

#include "limit/spec.h"

namespace flowguard::limit {

class TestCell {
 public:
  TestCell(Algorithm algorithm, const Config& config)
      : spec_(MustMake(algorithm, config)), buckets_(config.buckets), state_(spec_.words(), 0) {}

  // What a limiter that comes to be at `at` starts with.
  void StartAt(int64_t at) { spec_.StartAt(At(at)); }

  // The same cell under new numbers.  As the engine does it: where units are counted by
  // windows, another window has cells of its own; a log of another limit has its state
  // carried over; the rest is read as it is.
  void Reload(const Config& config) {
    const AnySpec old = std::exchange(spec_, MustMake(spec_.algorithm(), config));
    const bool by_time = spec_.algorithm() == Algorithm::kTokenBucket ||
                         spec_.algorithm() == Algorithm::kLeakyBucket || spec_.pays_forward();
    const bool other_buckets =
        spec_.algorithm() == Algorithm::kSlidingBuckets && config.buckets != buckets_;
    const bool anew = !by_time && (config.rate.window != old.window() || other_buckets);
    buckets_ = config.buckets;
    if (!anew && old.words() == spec_.words()) return;
    const std::vector<uint64_t> before =
        std::exchange(state_, std::vector<uint64_t>(spec_.words()));
    word_ = 0;
    if (!anew) spec_.Adopt(old, before, state_);
  }

  Numbers Decide(int64_t at, int64_t cost) {
    if (spec_.one_word()) return spec_.Decide(word_, At(at), cost, receipt_);
    return spec_.Decide(std::span(state_), At(at), cost, receipt_);
  }
  [[nodiscard]] Numbers Look(int64_t at, int64_t cost) const {
    if (spec_.one_word()) return spec_.Look(word_, At(at), cost);
    return spec_.Look(std::span(state_), At(at), cost);
  }
  void GiveBack(int64_t at, const Receipt& receipt) {
    if (spec_.one_word()) return spec_.GiveBack(word_, receipt, At(at));
    spec_.GiveBack(std::span(state_), receipt, At(at));
  }
  void Charge(int64_t at, int64_t units) {
    if (spec_.one_word()) return spec_.Charge(word_, units, At(at));
    spec_.Charge(std::span(state_), units, At(at));
  }
  Numbers TakeUpTo(int64_t at, int64_t cost) {
    if (spec_.one_word()) return spec_.TakeUpTo(word_, At(at), cost, receipt_);
    return spec_.TakeUpTo(std::span(state_), At(at), cost, receipt_);
  }

  // Of the last Decide or TakeUpTo.
  [[nodiscard]] const Receipt& receipt() const { return receipt_; }
  [[nodiscard]] const AnySpec& spec() const { return spec_; }
  // Every bit of the state.
  [[nodiscard]] std::vector<uint64_t> state() const {
    return spec_.one_word() ? std::vector{static_cast<uint64_t>(word_)} : state_;
  }
  // When the state equals a fresh one.
  [[nodiscard]] int64_t KeepUntil() const {
    if (spec_.one_word()) return word_;
    return spec_.KeepUntil(state_).time_since_epoch().count();
  }

  static Instant At(int64_t ns) { return Instant(Duration(ns)); }
  static AnySpec MustMake(Algorithm algorithm, const Config& config) {
    Result<AnySpec> spec = AnySpec::Make(algorithm, config);
    if (!spec.ok()) {
      std::fprintf(stderr, "bad test config: %s\n", spec.error().message.c_str());
      std::abort();
    }
    return *spec;
  }

 private:
  AnySpec spec_;
  int buckets_;
  int64_t word_ = 0;
  std::vector<uint64_t> state_;
  Receipt receipt_;
};

}  // namespace flowguard::limit
