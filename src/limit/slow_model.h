// SPDX-License-Identifier: Apache-2.0
//
// Slow and obvious models of the algorithms, written from their definitions and not
// from their code: token levels, lists of time stamps, maps of counts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "flowguard/rule.h"

#include "limit/numbers.h"
#include "limit/wide.h"

namespace flowguard::limit {

// Requires of callers: time never steps back.
class Model {
 public:
  virtual ~Model() = default;
  // Whether `cost` (>= 1) units may go at `now` (perhaps after a wait).
  [[nodiscard]] virtual bool Fits(int64_t now, int64_t cost) = 0;
  // Takes them; result: what GiveBack needs.
  virtual int64_t Take(int64_t now, int64_t cost) = 0;
  virtual void GiveBack(int64_t now, int64_t cost, int64_t mark) = 0;
  virtual void Charge(int64_t now, int64_t units) = 0;
};

// Token bucket by its level, in units of 1/T token; leaky_bucket with capacity wait + T.
class LevelModel : public Model {
 public:
  LevelModel(const Config& config, bool leaky)
      : interval_((config.rate.window.count() + config.rate.limit - 1) / config.rate.limit),
        wait_(leaky ? 0 : config.wait.count()),
        leaky_(leaky) {
    const int64_t burst = config.burst == 0 ? config.rate.limit : config.burst;
    capacity_ = leaky ? config.wait.count() + interval_ : burst * interval_;
    floor_ = -wait_ - config.max_debt * interval_;
    level_ = capacity_;
  }
  bool Fits(int64_t now, int64_t cost) override {
    Refill(now);
    return cost * interval_ <= capacity_ && level_ - cost * interval_ >= -wait_;
  }
  int64_t Take(int64_t now, int64_t cost) override {
    Refill(now);
    level_ -= cost * interval_;
    return FullAt(now);
  }
  void GiveBack(int64_t now, int64_t cost, int64_t mark) override {
    Refill(now);
    if (leaky_ && FullAt(now) != mark) return;  // someone queued behind
    level_ = std::min(level_ + std::clamp<int64_t>(mark - now, 0, cost * interval_), capacity_);
  }
  void Charge(int64_t now, int64_t units) override {
    Refill(now);
    if (level_ > floor_) level_ = std::max(level_ - units * interval_, floor_);
  }

 private:
  [[nodiscard]] int64_t FullAt(int64_t now) const { return now + capacity_ - level_; }
  void Refill(int64_t now) {
    level_ = std::min(capacity_, level_ + (now - last_));
    last_ = now;
  }
  int64_t interval_, capacity_ = 0, floor_ = 0, wait_;
  bool leaky_;
  int64_t level_ = 0, last_ = 0;
};

// Every unit's stamp, in a list; a debt that becomes stamps as stamps leave the window.
class LogModel : public Model {
 public:
  explicit LogModel(const Config& config)
      : limit_(config.rate.limit), window_(config.rate.window.count()), most_(config.max_debt) {}
  bool Fits(int64_t now, int64_t cost) override {
    Settle(now);
    return Live(now) + debt_ + cost <= limit_;
  }
  int64_t Take(int64_t now, int64_t cost) override {
    Settle(now);
    stamps_.insert(stamps_.end(), static_cast<size_t>(cost), now);
    return now;
  }
  void GiveBack(int64_t now, int64_t cost, int64_t mark) override {
    Settle(now);
    const int64_t present = std::min(cost, std::count(stamps_.begin(), stamps_.end(), mark));
    for (int64_t unit = 0; unit < present; ++unit) {
      if (debt_ > 0) {
        --debt_;
      } else {
        stamps_.erase(std::find(stamps_.begin(), stamps_.end(), mark));
      }
    }
  }
  void Charge(int64_t now, int64_t units) override {
    Settle(now);
    while (units > 0 && Live(now) + debt_ < limit_) {
      stamps_.push_back(now);
      --units;
    }
    debt_ = std::min(debt_ + units, most_);
  }

 private:
  [[nodiscard]] int64_t Live(int64_t now) const {
    return std::count_if(stamps_.begin(), stamps_.end(),
                         [&](int64_t stamp) { return stamp > now - window_; });
  }
  void Settle(int64_t now) {
    std::sort(stamps_.begin(), stamps_.end());
    while (!stamps_.empty() && stamps_.front() <= now - window_) {
      const int64_t freed_at = stamps_.front() + window_;
      stamps_.erase(stamps_.begin());
      if (debt_ > 0) {
        --debt_;
        stamps_.push_back(freed_at);
      }
    }
  }
  int64_t limit_, window_, most_, debt_ = 0;
  std::vector<int64_t> stamps_;
};

// Counts by slice of time: buckets or windows.  Subclasses say what is used.
class SlicedModel : public Model {
 public:
  SlicedModel(const Config& config, int64_t slice)
      : limit_(config.rate.limit), slice_(slice), most_(config.rate.limit + config.max_debt) {}
  bool Fits(int64_t now, int64_t cost) override { return Used(now) + cost <= limit_; }
  int64_t Take(int64_t now, int64_t cost) override {
    counts_[now / slice_] += cost;
    return now / slice_;
  }
  void GiveBack(int64_t, int64_t cost, int64_t mark) override {
    counts_[mark] -= std::min(cost, counts_[mark]);
  }
  void Charge(int64_t now, int64_t units) override {
    counts_[now / slice_] += std::clamp<int64_t>(most_ - Used(now), 0, units);
  }

 protected:
  [[nodiscard]] virtual int64_t Used(int64_t now) const = 0;
  [[nodiscard]] int64_t Count(int64_t slice) const {
    const auto found = counts_.find(slice);
    return found == counts_.end() ? 0 : found->second;
  }
  int64_t limit_, slice_, most_;
  std::map<int64_t, int64_t> counts_;
};

class BucketsModel : public SlicedModel {
 public:
  explicit BucketsModel(const Config& config)
      : SlicedModel(config, (config.rate.window.count() + config.buckets - 1) / config.buckets),
        buckets_(config.buckets) {}

 protected:
  [[nodiscard]] int64_t Used(int64_t now) const override {
    int64_t used = 0;
    for (int64_t back = 0; back <= buckets_; ++back)
      used += Count(now / slice_ - back);
    return used;
  }
  int64_t buckets_;
};

class HalvesModel : public SlicedModel {
 public:
  explicit HalvesModel(const Config& config)
      : SlicedModel(config, config.rate.window.count() / 2) {}

 protected:
  [[nodiscard]] int64_t Used(int64_t now) const override {
    return Count(now / slice_) + Count(now / slice_ - 1);
  }
};

class WindowModel : public SlicedModel {
 public:
  explicit WindowModel(const Config& config) : SlicedModel(config, config.rate.window.count()) {}

 protected:
  [[nodiscard]] int64_t Used(int64_t now) const override {
    const Int128 left = slice_ - now % slice_;
    const Int128 share = left * Count(now / slice_ - 1);
    return Count(now / slice_) + static_cast<int64_t>((share + slice_ - 1) / slice_);
  }
};

class AverageModel : public SlicedModel {
 public:
  explicit AverageModel(const Config& config) : SlicedModel(config, config.rate.window.count()) {}
  bool Fits(int64_t now, int64_t cost) override {
    const Int128 elapsed = now % slice_;
    const Int128 weighted =
        elapsed * Count(now / slice_) + (Int128{slice_} - elapsed) * Count(now / slice_ - 1);
    return weighted / slice_ < limit_ && Count(now / slice_) + cost <= limit_;
  }

 protected:
  [[nodiscard]] int64_t Used(int64_t now) const override { return Count(now / slice_); }
};

// Fixed windows, unit by unit: charged units go to the first window with room.
class FixedModel : public SlicedModel {
 public:
  explicit FixedModel(const Config& config) : SlicedModel(config, config.rate.window.count()) {}
  void Charge(int64_t now, int64_t units) override {
    int64_t window = now / slice_;
    int64_t room = most_;
    for (const auto& [index, count] : counts_)
      room -= index >= window ? count : 0;
    for (int64_t left = std::min(units, room); left > 0; ++window) {
      const int64_t booked = std::min(left, limit_ - Count(window));
      counts_[window] += booked;
      left -= booked;
    }
  }
  // What was carried over moves up.
  void GiveBack(int64_t now, int64_t cost, int64_t mark) override {
    const int64_t window = now / slice_;
    if (mark < window) return;
    int64_t used = 0;
    for (const auto& [index, count] : counts_)
      used += index >= window ? count : 0;
    counts_.erase(counts_.lower_bound(window), counts_.end());
    most_ += limit_;  // no cap on what was there already
    Charge(now, std::max<int64_t>(used - cost, 0));
    most_ -= limit_;
  }

 protected:
  [[nodiscard]] int64_t Used(int64_t now) const override { return Count(now / slice_); }
};

// Guava's permits by their own variables: the next free ticket and what is stored, in ns
// of idleness.  What a permit costs is left to the subclasses.
class TicketModel : public Model {
 public:
  explicit TicketModel(const Config& config)
      : interval_((config.rate.window.count() + config.rate.limit - 1) / config.rate.limit),
        wait_(config.wait.count()),
        debt_(config.max_debt) {}
  bool Fits(int64_t now, int64_t /*cost*/) override {
    Idle(now);
    return next_ - wait_ <= now;
  }

 protected:
  void Idle(int64_t now) {
    if (now <= next_) return;
    stored_ = std::min(most_, stored_ + (now - next_));
    next_ = now;
  }
  int64_t interval_, wait_, debt_;
  int64_t most_ = 0, stored_ = 0, next_ = 0;
};

class BurstyModel : public TicketModel {
 public:
  explicit BurstyModel(const Config& config) : TicketModel(config) {
    most_ = (config.burst == 0 ? config.rate.limit : config.burst) * interval_;
    stored_ = most_;
  }
  int64_t Take(int64_t now, int64_t cost) override {
    Idle(now);
    const int64_t spent = std::min(stored_, cost * interval_);
    stored_ -= spent;
    next_ += cost * interval_ - spent;
    return FullAt();
  }
  void GiveBack(int64_t now, int64_t cost, int64_t mark) override {
    Idle(now);
    const int64_t left = std::clamp<int64_t>(mark - now, 0, cost * interval_);
    const int64_t unpaid = std::min(left, next_ - now);
    next_ -= unpaid;
    stored_ = std::min(most_, stored_ + left - unpaid);
  }
  void Charge(int64_t now, int64_t units) override {
    Idle(now);
    const int64_t spent = std::min(stored_, units * interval_);
    stored_ -= spent;
    const int64_t latest = std::max(next_, now + wait_ + debt_ * interval_);
    next_ = std::min(latest, next_ + units * interval_ - spent);
  }

 private:
  [[nodiscard]] int64_t FullAt() const { return next_ + most_ - stored_; }
};

class WarmingModel : public TicketModel {
 public:
  explicit WarmingModel(const Config& config)
      : TicketModel(config), factor_(config.cold_factor), period_(config.warm_up.count()) {
    most_ = period_;
    stored_ = most_;
    permit_ = (2 * (factor_ + 1) * interval_ + factor_ + 4) / (factor_ + 5);
    cold_ = 4 * period_ / (factor_ + 5);
  }
  int64_t Take(int64_t now, int64_t cost) override {
    Idle(now);
    before_ = {.next = next_, .stored = stored_, .cost = cost};
    const Int128 price = Price(stored_, cost);
    next_ += static_cast<int64_t>(price);
    stored_ = std::max<int64_t>(stored_ - cost * permit_, 0);
    mark_ = next_;
    return next_;
  }
  // Of the latest take alone: what is left of it is taken again.
  void GiveBack(int64_t now, int64_t cost, int64_t mark) override {
    if (mark != mark_ || mark != next_ || now >= next_ || cost == 0) return;
    before_.cost -= cost;
    // The last units of a take are those that are given back.
    const int64_t kept = before_.stored - before_.cost * permit_;
    const auto price = static_cast<int64_t>(Price(kept, cost));
    next_ = std::max(next_ - price, now);
    stored_ = std::max<int64_t>(kept, 0);
    mark_ = next_;
  }
  void Charge(int64_t now, int64_t units) override {
    Idle(now);
    const int64_t latest = now + wait_ + debt_ * interval_ * factor_;
    if (next_ >= latest) return;
    next_ = static_cast<int64_t>(std::min<Int128>(latest, next_ + Price(stored_, units)));
    stored_ = std::max<int64_t>(stored_ - units * permit_, 0);
    mark_ = -1;
  }

 private:
  struct Before {
    int64_t next = 0, stored = 0, cost = 0;
  };
  // The trapezoid: from `stored` on, what is above the threshold costs more, by
  // (factor - 1) * interval at its top.
  [[nodiscard]] Int128 Price(int64_t stored, int64_t cost) const {
    const Int128 above = std::max<int64_t>(stored - (most_ - cold_), 0);
    const Int128 used = std::min<Int128>(above, static_cast<Int128>(cost) * permit_);
    const Int128 steps = Int128{factor_ + 5} * (factor_ + 5) * (factor_ - 1);
    const Int128 halves = (above + (above - used)) * used * steps;
    const Int128 scale = Int128{16} * (factor_ + 1) * period_;
    return Int128{cost} * interval_ + (halves + scale - 1) / scale;
  }
  int64_t factor_, period_, permit_ = 0, cold_ = 0;
  Before before_;
  int64_t mark_ = -1;
};

// Window by window from the first on, each with its own limit.
class WarmingWindowModel : public Model {
 public:
  explicit WarmingWindowModel(const Config& config)
      : limit_(config.rate.limit),
        window_(config.rate.window.count()),
        factor_(config.cold_factor),
        debt_(config.max_debt) {
    const Int128 permits = Int128{config.warm_up.count()} * limit_;
    warning_ = static_cast<int64_t>(permits / window_) / (factor_ - 1);
    const Int128 range = 2 * permits / (Int128{window_} * (factor_ + 1));
    most_ = warning_ + std::max<int64_t>(static_cast<int64_t>(range), 1);
    stored_ = most_;
  }
  bool Fits(int64_t now, int64_t cost) override {
    Reach(now);
    return went_ + cost <= Allowed() || (went_ == 0 && cost <= limit_);
  }
  int64_t Take(int64_t now, int64_t cost) override {
    Reach(now);
    went_ += cost;
    return now_;
  }
  void GiveBack(int64_t now, int64_t cost, int64_t mark) override {
    Reach(now);
    if (mark == now_) went_ -= std::min(went_, cost);
  }
  void Charge(int64_t now, int64_t units) override {
    Reach(now);
    went_ += std::clamp<int64_t>(limit_ + debt_ - went_, 0, units);
  }
  // As Sentinel writes it, with a slope.
  [[nodiscard]] int64_t Allowed() const {
    if (stored_ <= warning_) return limit_;
    const long double slope =
        (factor_ - 1.0L) / static_cast<long double>(limit_ * (most_ - warning_));
    const long double allowed =
        1 / (static_cast<long double>(stored_ - warning_) * slope + 1.0L / limit_);
    return std::max<int64_t>(static_cast<int64_t>(allowed + 1e-9L), 1);
  }
  int64_t Left(int64_t now) {
    Reach(now);
    return std::max<int64_t>(Allowed() - went_, 0);
  }

 private:
  void Reach(int64_t now) {
    for (; now_ < now / window_; ++now_) {
      if (stored_ == most_ && went_ == 0) {
        now_ = now / window_;  // as cold as it gets
        break;
      }
      const int64_t busy = std::max<int64_t>(limit_ / factor_, 1);
      if (stored_ < warning_ || went_ < busy) stored_ = std::min(stored_ + limit_, most_);
      stored_ = std::max<int64_t>(stored_ - went_, 0);
      went_ = 0;
    }
  }
  int64_t limit_, window_, factor_, debt_;
  int64_t warning_ = 0, most_ = 0, stored_ = 0;
  int64_t now_ = 0, went_ = 0;
};

// Sentinel's bucket of a hot parameter by its own variables: the time of the last filling and
// the tokens that are left since then.
class StepModel : public Model {
 public:
  explicit StepModel(const Config& config)
      : limit_(config.rate.limit),
        window_(config.rate.window.count()),
        most_(config.burst == 0 ? config.rate.limit : config.burst),
        debt_(config.max_debt) {}
  bool Fits(int64_t now, int64_t cost) override { return cost <= Tokens(now); }
  int64_t Take(int64_t now, int64_t cost) override {
    tokens_ = Tokens(now) - cost;
    if (IsFilledAt(now)) filled_at_ = now;
    return filled_at_;
  }
  void GiveBack(int64_t /*now*/, int64_t cost, int64_t mark) override {
    if (mark == filled_at_) tokens_ = std::min(tokens_ + cost, most_);
  }
  void Charge(int64_t now, int64_t units) override {
    if (Tokens(now) > -debt_) Take(now, std::min(units, Tokens(now) + debt_));
  }

 private:
  [[nodiscard]] bool IsFilledAt(int64_t now) const {
    return filled_at_ < 0 || now - filled_at_ > window_;
  }
  [[nodiscard]] int64_t Tokens(int64_t now) const {
    if (filled_at_ < 0) return most_;
    if (!IsFilledAt(now)) return tokens_;
    const Int128 added = Int128{now - filled_at_} * limit_ / window_;
    return static_cast<int64_t>(std::min<Int128>(tokens_ + added, most_));
  }
  int64_t limit_, window_, most_, debt_;
  int64_t filled_at_ = -1, tokens_ = 0;
};

inline std::unique_ptr<Model> MakeModel(Algorithm algorithm, const Config& config) {
  switch (algorithm) {
    case Algorithm::kTokenBucket:
      return std::make_unique<LevelModel>(config, false);
    case Algorithm::kLeakyBucket:
      return std::make_unique<LevelModel>(config, true);
    case Algorithm::kSlidingLog:
      return std::make_unique<LogModel>(config);
    case Algorithm::kSlidingBuckets:
      return std::make_unique<BucketsModel>(config);
    case Algorithm::kSlidingWindow:
      return std::make_unique<WindowModel>(config);
    case Algorithm::kFixedWindow:
      return std::make_unique<FixedModel>(config);
    case Algorithm::kWeightedAverage:
      return std::make_unique<AverageModel>(config);
    case Algorithm::kSmoothBursty:
      return std::make_unique<BurstyModel>(config);
    case Algorithm::kWarmUp:
      return std::make_unique<WarmingModel>(config);
    case Algorithm::kWarmUpWindow:
      return std::make_unique<WarmingWindowModel>(config);
    case Algorithm::kLeapArray:
      return std::make_unique<HalvesModel>(config);
    case Algorithm::kStepBucket:
      return std::make_unique<StepModel>(config);
  }
  return nullptr;
}

}  // namespace flowguard::limit
