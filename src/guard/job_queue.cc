// SPDX-License-Identifier: Apache-2.0
#include "guard/job_queue.h"

#include <algorithm>
#include <string_view>

namespace flowguard::guard {
namespace {

// Lengths first, so that no two jobs of different values have one name.
void AppendPart(std::string& name, std::string_view part) {
  name += std::to_string(part.size());
  name += ':';
  name += part;
}

std::string LaneName(const Job& job) {
  std::string name;
  AppendPart(name, job.resource);
  for (const auto& [dimension, value] : job.dimensions) {
    AppendPart(name, dimension);
    AppendPart(name, value);
  }
  return name;
}

constexpr Duration kInstantStep(1);

}  // namespace

void JobQueue::Add(Job job, Instant now) {
  auto queued = std::make_unique<QueuedJob>();
  queued->number = next_number_++;
  queued->submitted = now;
  if (job.start_within && *job.start_within < Instant::max() - now - kInstantStep) {
    queued->expires = now + *job.start_within;
  }
  queued->lane = LaneName(job);
  queued->job = std::move(job);

  const auto [at, is_new] = lanes_.try_emplace(queued->lane);
  Lane& lane = at->second;
  lane.name = &at->first;
  if (queued->expires != Instant::max()) {
    expiries_.insert({queued->expires, {queued->number, &lane}});
  }
  lane.jobs.emplace(queued->number, std::move(queued));
  ++size_;
  // One that is not new has jobs before this one, in it or out.
  if (is_new) MakeReady(lane);
}

JobQueue::JobPtr JobQueue::Remove(Lane& lane, std::map<uint64_t, JobPtr>::iterator at) {
  JobPtr job = std::move(at->second);
  lane.jobs.erase(at);
  if (job->expires != Instant::max()) expiries_.erase({job->expires, {job->number, &lane}});
  return job;
}

JobQueue::JobPtr JobQueue::TakeExpired(Instant now) {
  if (expiries_.empty() || expiries_.begin()->first >= now) return nullptr;
  const auto [number, lane] = expiries_.begin()->second;
  const auto at = lane->jobs.find(number);
  const bool was_first = at == lane->jobs.begin();
  const bool in_place = lane->place != Lane::Place::kNone;
  const EndOffer offer = was_first ? lane->offer : EndOffer();
  // A hold was the first job's, not the lane's.
  if (was_first && in_place) Unplace(*lane);
  JobPtr job = Remove(*lane, at);
  --size_;
  if (was_first && in_place) {
    if (lane->jobs.empty()) {
      lanes_.erase(lanes_.find(job->lane));
    } else {
      MakeReady(*lane);
    }
  }
  PassOn(offer, number);
  return job;
}

JobQueue::JobPtr JobQueue::TakeReady(Instant now) {
  while (!held_.empty() && held_.begin()->first <= now) {
    Lane& due = *held_.begin()->second;
    Unplace(due);
    MakeReady(due);
  }
  if (ready_.empty()) return nullptr;
  Lane& lane = *ready_.begin()->second;
  const EndOffer offer = lane.offer;
  Unplace(lane);
  JobPtr job = Remove(lane, lane.jobs.begin());
  job->offer = offer;
  job->jobs_ended = jobs_ended_;
  job->holds_ended = holds_ended_;
  return job;
}

void JobQueue::PutBack(JobPtr job, Instant until, const RuleInfo* slot_of) {
  Lane& lane = lanes_.find(job->lane)->second;
  if (job->expires != Instant::max()) expiries_.insert({job->expires, {job->number, &lane}});
  const uint64_t number = job->number;
  const EndOffer offer = job->offer;
  const bool booked = static_cast<bool>(job->entry);
  const bool outdated = !booked && (job->holds_ended != holds_ended_ ||
                                    (slot_of != nullptr && job->jobs_ended != jobs_ended_));
  lane.jobs.emplace(number, std::move(job));
  if (outdated) {
    MakeReady(lane, offer);
  } else {
    Hold(lane, until, slot_of);
    PassOn(offer, number);
  }
}

void JobQueue::Release(const QueuedJob& job, bool started) {
  --size_;
  const auto at = lanes_.find(job.lane);
  if (at->second.jobs.empty()) {
    lanes_.erase(at);
  } else {
    MakeReady(at->second);
  }
  if (!started) {
    PassOn(job.offer, job.number);
  } else if (job.offer.to_several) {
    // Only those that were asked for in vain count.
    EndOffer offer = job.offer;
    ++offer.left;
    PassOn(offer, job.number);
  }
}

void JobQueue::SlotFreed(const QueuedJob& ended) {
  ++jobs_ended_;
  if (slots_.empty()) return;
  const bool several = ended.job.cost > 1;
  std::vector<Lane*> oldest;
  for (const auto& [rule, waiting] : slots_)
    oldest.push_back(waiting.begin()->second);
  for (Lane* lane : oldest)
    Offer(*lane, kEndOffersMax - 1, several || lane->slot_of->kind == RuleKind::kBreaker);
  const auto same = lanes_.find(ended.lane);
  if (same != lanes_.end() && same->second.slot_of != nullptr) Offer(same->second, 0, false);
}

void JobQueue::Offer(Lane& lane, int left, bool to_several) {
  const EndOffer offer{lane.slot_of, left, to_several};
  Unplace(lane);
  MakeReady(lane, offer);
}

void JobQueue::PassOn(const EndOffer& offer, uint64_t after) {
  if (offer.rule == nullptr || offer.left == 0) return;
  const auto waiting = slots_.find(offer.rule);
  if (waiting == slots_.end()) return;
  const auto next = waiting->second.lower_bound({after + 1, nullptr});
  if (next != waiting->second.end()) Offer(*next->second, offer.left - 1, offer.to_several);
}

void JobQueue::ReleaseHolds() {
  ++holds_ended_;
  std::vector<Lane*> lanes;
  for (const auto& [until, lane] : held_) {
    const bool booked = static_cast<bool>(lane->jobs.begin()->second->entry);
    if (!booked) lanes.push_back(lane);
  }
  for (Lane* lane : lanes) {
    Unplace(*lane);
    MakeReady(*lane);
  }
}

std::vector<JobQueue::JobPtr> JobQueue::TakeAll() {
  std::vector<JobPtr> all;
  for (auto at = lanes_.begin(); at != lanes_.end();) {
    Lane& lane = at->second;
    const bool is_out = lane.place == Lane::Place::kNone;
    Unplace(lane);
    while (!lane.jobs.empty()) {
      all.push_back(Remove(lane, lane.jobs.begin()));
      --size_;
    }
    at = is_out ? std::next(at) : lanes_.erase(at);
  }
  std::sort(all.begin(), all.end(),
            [](const JobPtr& a, const JobPtr& b) { return a->number < b->number; });
  return all;
}

std::optional<Instant> JobQueue::NextDue(Instant now) const {
  if (!ready_.empty()) return now;
  std::optional<Instant> due;
  if (!held_.empty()) due = held_.begin()->first;
  if (!expiries_.empty()) {
    const Instant expired = expiries_.begin()->first + kInstantStep;
    due = due ? std::min(*due, expired) : expired;
  }
  if (due) due = std::max(*due, now);
  return due;
}

// --- where a lane stands

void JobQueue::MakeReady(Lane& lane, const EndOffer& offer) {
  lane.place = Lane::Place::kReady;
  lane.offer = offer;
  ready_.insert({lane.first(), &lane});
}

void JobQueue::Hold(Lane& lane, Instant until, const RuleInfo* slot_of) {
  lane.place = Lane::Place::kHeld;
  lane.until = until;
  lane.slot_of = slot_of;
  held_.insert({until, &lane});
  if (slot_of != nullptr) slots_[slot_of].insert({lane.first(), &lane});
}

void JobQueue::Unplace(Lane& lane) {
  if (lane.place == Lane::Place::kReady) ready_.erase({lane.first(), &lane});
  if (lane.place == Lane::Place::kHeld) held_.erase({lane.until, &lane});
  if (lane.slot_of != nullptr) {
    const auto waiting = slots_.find(lane.slot_of);
    waiting->second.erase({lane.first(), &lane});
    if (waiting->second.empty()) slots_.erase(waiting);
  }
  lane.place = Lane::Place::kNone;
  lane.slot_of = nullptr;
  lane.offer = {};
}

}  // namespace flowguard::guard
