// SPDX-License-Identifier: Apache-2.0
//
// A namespace of a token server at work: how many questions of it are decided, and what they
// were answered.  And the clients that are registered, by namespace.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "flowguard/time.h"

#include "base/bounds.h"
#include "base/mutex.h"
#include "base/thread_slot.h"
#include "wire/token_frames.h"

namespace flowguard::serve {

// Lets through `most` questions at once, and as many in each second that follows: a token
// bucket of one word.
// Threads: any.  No lock, no allocation.
class QuestionGuard {
 public:
  // What is used up stays so when that changes, for the same part of a second.
  // Requires: 1 <= most <= kRatePerSecondMax.
  void Set(int64_t most) noexcept;
  // False: there were too many of late.  Requires: Set was called.
  [[nodiscard]] bool Pass(Instant now) noexcept;

 private:
  std::atomic<int64_t> tat_ns_{0};  // theoretical arrival time
  std::atomic<int64_t> interval_ns_{0};
  std::atomic<int64_t> capacity_ns_{0};
};

// By status, as its value + kTokenStatusOffset.
inline constexpr size_t kTokenStatuses = 12;
inline constexpr int kTokenStatusOffset = 4;

// Threads: any.
class TokenSpace {
 public:
  explicit TokenSpace(std::string name) : name_(std::move(name)) {}

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] QuestionGuard& guard() noexcept { return guard_; }

  // Requires: `slot` is base::ThreadSlot() of the calling thread.
  void Count(size_t slot, wire::token::Status status) noexcept {
    const auto place = static_cast<size_t>(static_cast<int>(status) + kTokenStatusOffset);
    base::AddInSlot(slot, lines_[slot].answered[place], uint64_t{1});
  }
  [[nodiscard]] std::array<uint64_t, kTokenStatuses> Answered() const noexcept;

 private:
  struct alignas(64) Line {
    std::array<std::atomic<uint64_t>, kTokenStatuses> answered{};
  };

  const std::string name_;
  alignas(64) QuestionGuard guard_;
  std::array<Line, base::kThreadSlots> lines_;
};

// Who is connected.  Holds names of namespaces that have clients only, so it is bounded as
// connections are.
// Threads: any; one lock.
class TokenClients {
 public:
  // Result: the clients there, this one among them.
  size_t Join(std::string_view name_space);
  // Requires: one joined there.
  void Leave(std::string_view name_space);
  [[nodiscard]] size_t In(std::string_view name_space) const;
  [[nodiscard]] size_t InAll() const;

 private:
  mutable base::Mutex mutex_;
  std::map<std::string, size_t, std::less<>> clients_ FG_GUARDED_BY(mutex_);  // no zeros
  size_t all_ FG_GUARDED_BY(mutex_) = 0;
};

}  // namespace flowguard::serve
