// SPDX-License-Identifier: Apache-2.0
#include "quota/redis/command_queue.h"

#include <algorithm>
#include <utility>

#include "base/bounds.h"
#include "base/check.h"

namespace flowguard::quota::redis {
namespace {

constexpr size_t kRingAtFirst = 256;

}  // namespace

CommandQueue::CommandQueue() : ring_(kRingAtFirst) {}

bool CommandQueue::HasRoom(size_t bytes) const noexcept {
  return count_ < base::kRedisPendingMax && bytes_.size() + bytes <= base::kRedisPendingBytesMax;
}

void CommandQueue::Push(const PendingCommand& command) noexcept {
  if (count_ == ring_.size()) {
    std::vector<PendingCommand> larger(2 * ring_.size());
    for (size_t i = 0; i < count_; ++i)
      larger[i] = At(i);
    ring_.swap(larger);
    head_ = 0;
  }
  if (command.sink != nullptr) {
    if (waited_ == count_) ordered_ = true;
    if (waited_ != count_ && command.deadline < last_deadline_) ordered_ = false;
    last_deadline_ = command.deadline;
  }
  PendingCommand& last = At(count_++);
  last = command;
  last.begin = written_;
  last.size = static_cast<uint32_t>(bytes_.end() - written_);
  written_ = bytes_.end();
}

PendingCommand CommandQueue::Pop() noexcept {
  FG_DCHECK(!empty());
  const PendingCommand first = ring_[head_];
  head_ = (head_ + 1) & (ring_.size() - 1);
  --count_;
  if (waited_ > 0) --waited_;
  return first;
}

void CommandQueue::MarkSent(size_t bytes) noexcept {
  sent_ += bytes;
  offered_ = std::max(offered_, sent_);
}

Instant CommandQueue::NextDeadline() noexcept {
  while (waited_ < count_ && At(waited_).sink == nullptr)
    ++waited_;
  if (waited_ == count_) return Instant::max();
  if (ordered_) return At(waited_).deadline;
  Instant next = Instant::max();
  for (size_t i = waited_; i < count_; ++i) {
    if (At(i).sink != nullptr) next = std::min(next, At(i).deadline);
  }
  return next;
}

void CommandQueue::Expire(Instant now, std::vector<PendingCommand>& left,
                          std::vector<PendingCommand>& unsent) {
  bool take_out = false;
  for (size_t i = waited_; i < count_; ++i) {
    PendingCommand& command = At(i);
    if (command.sink == nullptr) continue;
    if (command.deadline > now) {
      if (ordered_) break;
      continue;
    }
    if (command.begin >= offered_) {
      take_out = true;
      continue;
    }
    left.push_back(command);
    command.sink = nullptr;
  }
  if (take_out) TakeOutUnsent(now, unsent);
}

// Closes the gaps, in the ring and in the bytes.
void CommandQueue::TakeOutUnsent(Instant now, std::vector<PendingCommand>& unsent) {
  size_t kept = 0;
  uint64_t end = front().begin;
  for (size_t i = 0; i < count_; ++i) {
    PendingCommand command = At(i);
    if (command.sink != nullptr && command.begin >= offered_ && command.deadline <= now) {
      unsent.push_back(command);
      continue;
    }
    if (command.begin >= offered_) {
      bytes_.Slide(end, command.begin, command.size);
      command.begin = end;
    }
    end = command.end();
    At(kept++) = command;
  }
  count_ = kept;
  waited_ = 0;
  written_ = end;
  bytes_.Truncate(end);
}

void CommandQueue::Clear() noexcept {
  FG_DCHECK(empty());
  bytes_.Drop(bytes_.end());
  sent_ = offered_ = written_ = bytes_.end();
  waited_ = 0;
}

}  // namespace flowguard::quota::redis
