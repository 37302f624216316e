// SPDX-License-Identifier: Apache-2.0
#include "net/timer.h"

#include "base/check.h"

namespace flowguard::net {
namespace {

constexpr uint32_t kArity = 4;

}  // namespace

Timer::~Timer() {
  if (position_ != kNowhere) heap_->Remove(*this);
}

TimerHeap::~TimerHeap() {
  // Timers may outlive the heap at shutdown; they must not look for it then.
  for (Entry& entry : entries_)
    entry.timer->position_ = Timer::kNowhere;
}

Instant TimerHeap::Next() const noexcept {
  return entries_.empty() ? Instant::max() : entries_.front().at;
}

void TimerHeap::Arm(Timer& timer, Instant deadline) noexcept {
  timer.deadline_ = deadline;
  if (timer.position_ == Timer::kNowhere) {
    timer.heap_ = this;
    entries_.emplace_back();
    Up(static_cast<uint32_t>(entries_.size() - 1), {deadline, &timer});
    return;
  }
  FG_DCHECK(timer.heap_ == this);
  if (deadline < entries_[timer.position_].at) Up(timer.position_, {deadline, &timer});
}

void TimerHeap::Fire(Instant now) noexcept {
  while (!entries_.empty() && entries_.front().at <= now) {
    Timer& timer = *entries_.front().timer;
    if (timer.armed() && timer.deadline_ > now) {
      Down(0, {timer.deadline_, &timer});
      continue;
    }
    const bool due = timer.armed();
    Remove(timer);
    timer.deadline_ = Timer::kIdle;
    if (due) timer.callback_(timer.owner_);
  }
}

void TimerHeap::Remove(Timer& timer) noexcept {
  const uint32_t index = timer.position_;
  timer.position_ = Timer::kNowhere;
  const Entry last = entries_.back();
  entries_.pop_back();
  if (index == entries_.size()) return;
  if (index > 0 && last.at < entries_[(index - 1) / kArity].at) {
    Up(index, last);
  } else {
    Down(index, last);
  }
}

void TimerHeap::Place(uint32_t index, Entry entry) noexcept {
  entries_[index] = entry;
  entry.timer->position_ = index;
}

void TimerHeap::Up(uint32_t index, Entry entry) noexcept {
  while (index > 0) {
    const uint32_t parent = (index - 1) / kArity;
    if (entries_[parent].at <= entry.at) break;
    Place(index, entries_[parent]);
    index = parent;
  }
  Place(index, entry);
}

void TimerHeap::Down(uint32_t index, Entry entry) noexcept {
  const auto count = static_cast<uint32_t>(entries_.size());
  while (true) {
    const uint32_t first = index * kArity + 1;
    if (first >= count) break;
    uint32_t least = first;
    for (uint32_t child = first + 1; child < first + kArity && child < count; ++child) {
      if (entries_[child].at < entries_[least].at) least = child;
    }
    if (entry.at <= entries_[least].at) break;
    Place(index, entries_[least]);
    index = least;
  }
  Place(index, entry);
}

}  // namespace flowguard::net
