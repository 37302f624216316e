// SPDX-License-Identifier: Apache-2.0
//
// A guarded call in progress.  Its attempt comes from, and goes back to, a small
// store of the calling thread, so that entering allocates nothing in the long run.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>

#include "flowguard/guard.h"

#include "base/bounds.h"
#include "engine/attempt.h"
#include "engine/engine.h"
#include "guard/request_adapter.h"
#include "guard/store_driver.h"

namespace flowguard {
namespace {

using engine::Attempt;

// Attempts kept for reuse.  Ended entries may outlive it: thread-local objects of the
// program may be destroyed later.
class Pool {
 public:
  Pool() = default;
  ~Pool() {
    gone = true;
    for (size_t i = 0; i < count_; ++i)
      delete kept_[i];
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  static Attempt* Get() noexcept {
    if (gone) return new Attempt;
    Pool& pool = Mine();
    return pool.count_ > 0 ? pool.kept_[--pool.count_] : new Attempt;
  }
  static void Put(Attempt* attempt) noexcept {
    if (!gone) {
      Pool& pool = Mine();
      if (pool.count_ < pool.kept_.size()) {
        pool.kept_[pool.count_++] = attempt;
        return;
      }
    }
    delete attempt;
  }

 private:
  static Pool& Mine() noexcept {
    thread_local Pool pool;
    return pool;
  }

  static thread_local constinit bool gone;
  std::array<Attempt*, base::kAttemptPoolMax> kept_{};
  size_t count_ = 0;
};
thread_local constinit bool Pool::gone = false;

// What an entry says that holds no call.
Decision NoCall() noexcept {
  Decision decision;
  decision.verdict = Verdict::kRefuse;
  return decision;
}

}  // namespace

void Entry::Recycle::operator()(engine::Attempt* attempt) const noexcept {
  Pool::Put(attempt);
}

Entry::Entry() noexcept : decision_(NoCall()) {}

Entry::Entry(Guard* guard, const Request& request, Duration wait_max, Instant now) noexcept
    : attempt_(Pool::Get()), guard_(guard) {
  const guard::RequestAdapter view(request, std::max(wait_max, Duration::zero()));
  if (guard->engine_->Begin(*attempt_, view, engine::Mode::kEnter, now) == engine::Step::kRemote) {
    guard->driver_->Run(*attempt_, now);
  }
  decision_ = attempt_->decision();
  if (!attempt_->entered() && !attempt_->waiting()) attempt_ = nullptr;
}

bool Entry::waiting() const noexcept {
  return attempt_ != nullptr && attempt_->waiting();
}

void Entry::Continue(Instant now) noexcept {
  guard_->engine_->Continue(*attempt_, now);
  if (guard_->driver_ != nullptr) guard_->driver_->PassOnDues(*attempt_, now);
  decision_ = attempt_->decision();
  if (!attempt_->entered()) attempt_ = nullptr;
}

Entry Guard::Enter(const Request& request, Duration timeout) noexcept {
  const Instant now = Now();
  Entry entry(this, request, timeout, now);
  if (entry.waiting()) {
    const Instant until = now + entry.decision_.wait;
    SleepUntil(until);
    entry.Continue(std::max(Now(), until));
  }
  return entry;
}

Entry::Entry(Entry&& other) noexcept
    : decision_(std::exchange(other.decision_, NoCall())),
      attempt_(std::move(other.attempt_)),
      guard_(std::exchange(other.guard_, nullptr)) {}

Entry& Entry::operator=(Entry&& other) noexcept {
  if (this == &other) return *this;
  End(Outcome::kCancelled, nullptr);
  decision_ = std::exchange(other.decision_, NoCall());
  attempt_ = std::move(other.attempt_);
  guard_ = std::exchange(other.guard_, nullptr);
  return *this;
}

Entry::~Entry() {
  End(Outcome::kCancelled, nullptr);
}

void Entry::Settle(Outcome outcome) noexcept {
  End(outcome, nullptr);
}

void Entry::Settle(Outcome outcome, int64_t actual_cost) noexcept {
  End(outcome, &actual_cost);
}

void Entry::End(Outcome outcome, const int64_t* actual_cost) noexcept {
  if (attempt_ == nullptr) return;
  const Instant now = guard_->Now();
  const std::optional<int64_t> actual =
      actual_cost != nullptr ? std::optional<int64_t>(*actual_cost) : std::nullopt;
  if (attempt_->waiting()) {
    guard_->engine_->Cancel(*attempt_, now);
  } else {
    guard_->engine_->Settle(*attempt_, outcome, actual, now);
  }
  if (guard_->driver_ != nullptr) guard_->driver_->PassOnDues(*attempt_, now);
  attempt_ = nullptr;
}

}  // namespace flowguard
