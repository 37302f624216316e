// SPDX-License-Identifier: Apache-2.0
#include "net/loop.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace flowguard::net {
namespace {

// Takes the place of a watcher whose events are no longer wanted.
char forgotten_tag;
void* const kForgotten = &forgotten_tag;

}  // namespace

struct Loop::Events {
  std::array<epoll_event, kEventsMax> at;
  size_t count = 0;
  size_t next = 0;  // first one that was not handed out yet
};

Result<std::unique_ptr<Loop>> Loop::Create(const Clock& clock) {
  const int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  const int wake_fd = epoll_fd < 0 ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd < 0) {
    const std::string reason = std::strerror(errno);
    if (epoll_fd >= 0) close(epoll_fd);
    return Error{ErrorCode::kResourceExhausted, "event loop: " + reason};
  }
  std::unique_ptr<Loop> loop(new Loop(clock, epoll_fd, wake_fd));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = nullptr;  // the wake-up
  if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, wake_fd, &event) != 0) {
    return Error{ErrorCode::kResourceExhausted, std::string("event loop: ") + std::strerror(errno)};
  }
  return loop;
}

Loop::Loop(const Clock& clock, int epoll_fd, int wake_fd)
    : clock_(clock),
      epoll_fd_(epoll_fd),
      wake_fd_(wake_fd),
      now_(clock.Now()),
      events_(std::make_unique<Events>()) {}

Loop::~Loop() {
  RunRetired();
  close(wake_fd_);
  close(epoll_fd_);
}

bool Loop::Watch(int fd, Watcher& watcher) noexcept {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.ptr = &watcher;
  return epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) == 0;
}

bool Loop::WatchAccept(int fd, Watcher& watcher) noexcept {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = &watcher;
  return epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) == 0;
}

void Loop::Unwatch(int fd) noexcept {
  epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
}

void Loop::Retire(Watcher& watcher) noexcept {
  Silence(watcher);
  watcher.next_retired_ = retired_;
  retired_ = &watcher;
}

void Loop::Forget(Watcher& watcher) noexcept {
  Silence(watcher);
  for (Watcher** at = &retired_; *at != nullptr; at = &(*at)->next_retired_) {
    if (*at == &watcher) {
      *at = watcher.next_retired_;
      break;
    }
  }
}

void Loop::Silence(Watcher& watcher) noexcept {
  for (size_t i = events_->next; i < events_->count; ++i) {
    if (events_->at[i].data.ptr == &watcher) events_->at[i].data.ptr = kForgotten;
  }
  watcher.again_ = false;
  std::erase(again_, &watcher);
  std::replace(again_running_.begin(), again_running_.end(), &watcher,
               static_cast<Watcher*>(nullptr));
  std::erase(turn_end_, &watcher);
  std::replace(turn_end_running_.begin(), turn_end_running_.end(), &watcher,
               static_cast<Watcher*>(nullptr));
}

size_t Loop::Wait(Duration wait_max) noexcept {
  using std::chrono::seconds;
  Duration wait = std::clamp(wait_max, Duration::zero(), Duration(seconds(3600)));
  if (!again_.empty() || !turn_end_.empty()) wait = Duration::zero();
  if (wait > Duration::zero() && timers_.Next() != Instant::max()) {
    wait = std::clamp(timers_.Next() - clock_.Now(), Duration::zero(), wait);
  }
  int count = -1;
  if (precise_wait_) {
    timespec ts{};
    ts.tv_sec = wait.count() / 1'000'000'000;
    ts.tv_nsec = wait.count() % 1'000'000'000;
    count = epoll_pwait2(epoll_fd_, events_->at.data(), static_cast<int>(kEventsMax), &ts, nullptr);
    if (count < 0 && errno == ENOSYS) precise_wait_ = false;
  }
  if (!precise_wait_) {
    const auto ms = static_cast<int>((wait.count() + 999'999) / 1'000'000);
    count = epoll_wait(epoll_fd_, events_->at.data(), static_cast<int>(kEventsMax), ms);
  }
  return count > 0 ? static_cast<size_t>(count) : 0;
}

size_t Loop::RunOnce(Duration wait_max) noexcept {
  events_->count = Wait(wait_max);
  events_->next = 0;
  now_ = clock_.Now();
  again_running_.swap(again_);  // who asks again in this turn waits for the next
  while (events_->next < events_->count) {
    const epoll_event event = events_->at[events_->next++];
    if (event.data.ptr == kForgotten) continue;
    if (event.data.ptr == nullptr) {
      DrainWakeup();
      RunPosted();
      continue;
    }
    Ready ready;
    ready.broken = (event.events & (EPOLLERR | EPOLLHUP)) != 0;
    ready.peer_closed = ready.broken || (event.events & EPOLLRDHUP) != 0;
    ready.readable = ready.peer_closed || (event.events & EPOLLIN) != 0;
    ready.writable = (event.events & EPOLLOUT) != 0;
    static_cast<Watcher*>(event.data.ptr)->OnReady(ready);
  }
  RunAgain();
  timers_.Fire(now_);
  RunTurnEnd();
  RunRetired();
  return events_->count;
}

void Loop::Run() noexcept {
  while (!stop_.load(std::memory_order_acquire))
    RunOnce(std::chrono::hours(1));
}

void Loop::Stop() noexcept {
  stop_.store(true, std::memory_order_release);
  Wake();
}

void Loop::Again(Watcher& watcher) noexcept {
  if (std::exchange(watcher.again_, true)) return;
  again_.push_back(&watcher);
}

void Loop::RunAgain() noexcept {
  for (size_t i = 0; i < again_running_.size(); ++i) {
    if (again_running_[i] == nullptr) continue;
    again_running_[i]->again_ = false;
    Ready ready;
    ready.readable = true;
    again_running_[i]->OnReady(ready);
  }
  again_running_.clear();
}

void Loop::AtTurnEnd(Watcher& watcher) noexcept {
  turn_end_.push_back(&watcher);
}

void Loop::RunTurnEnd() noexcept {
  turn_end_running_.swap(turn_end_);
  for (size_t i = 0; i < turn_end_running_.size(); ++i) {
    if (turn_end_running_[i] != nullptr) turn_end_running_[i]->OnTurnEnd();
  }
  turn_end_running_.clear();
}

void Loop::Post(std::function<void()> work) {
  {
    const std::lock_guard<std::mutex> lock(posted_mutex_);
    posted_.push_back(std::move(work));
  }
  Wake();
}

void Loop::Wake() noexcept {
  const uint64_t one = 1;
  // A full counter wakes as well, so a short write is no loss.
  [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof one);
}

void Loop::DrainWakeup() noexcept {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = read(wake_fd_, &count, sizeof count);
}

void Loop::RunPosted() noexcept {
  {
    const std::lock_guard<std::mutex> lock(posted_mutex_);
    running_.swap(posted_);
  }
  for (std::function<void()>& work : running_)
    work();
  running_.clear();
}

void Loop::RunRetired() noexcept {
  while (retired_ != nullptr) {
    Watcher* const first = retired_;
    retired_ = first->next_retired_;
    first->next_retired_ = nullptr;
    first->OnRetired();
  }
}

}  // namespace flowguard::net
