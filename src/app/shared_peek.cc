// SPDX-License-Identifier: Apache-2.0
#include "app/shared_peek.h"

#include <algorithm>
#include <utility>

#include "flowguard/clock.h"

#include "base/hash.h"
#include "base/try.h"
#include "quota/cell_key.h"
#include "quota/known_cells.h"
#include "quota/redis/client.h"
#include "rules/compiled_rule.h"

namespace flowguard::app {
namespace {

using limit::Numbers;

constexpr Duration kTurn = std::chrono::milliseconds(5);

// Of shards, the whole: any of them may be asked, and each was told the same cost.
void AddShard(const Numbers& shard, int64_t cost, Numbers& whole) noexcept {
  const int64_t booked = shard.allowed ? cost : 0;
  whole.remaining += shard.remaining + booked;
  whole.reset_after = std::max(whole.reset_after, shard.reset_after);
  whole.retry_after = std::min(whole.retry_after, shard.retry_after);
  whole.allowed = whole.allowed || shard.allowed;
}

}  // namespace

Result<std::unique_ptr<SharedPeek>> SharedPeek::Open(const StoreSettings& settings) {
  FG_ASSIGN_OR_RETURN(std::unique_ptr<net::Loop> loop, net::Loop::Create(SystemClock()));
  std::unique_ptr<SharedPeek> peek(new SharedPeek(std::move(loop)));
  FG_ASSIGN_OR_RETURN(peek->commander_,
                      quota::redis::MakeCommander(*peek->loop_, settings.redis, peek->metrics_,
                                                  base::RandomSeed()));
  peek->cells_ = std::make_unique<quota::RedisCells>(*peek->commander_);
  return peek;
}

SharedPeek::SharedPeek(std::unique_ptr<net::Loop> loop)
    : loop_(std::move(loop)), end_(SystemClock().Now() + kWaitMax) {}

// What is out is not answered any more once the client is gone.
SharedPeek::~SharedPeek() {
  commander_ = nullptr;
}

std::optional<SharedPeek::Seen> SharedPeek::Look(const engine::RemoteTake& take) {
  const Rule& rule = take.rule->rule;
  Seen seen;
  Numbers& whole = seen.outcome.numbers;
  whole.retry_after = kNever;
  for (int shard = 0; shard < rule.shards; ++shard) {
    const quota::CellShape shape = quota::ShapeOf(take, shard);
    const quota::CellKey key(
        take, shape,
        {.tag_by_resource = rule.tag == CellTag::kResource, .shard = rule.shards > 1 ? shard : -1});
    const quota::CellCall call{.op = quota::CellOp::kPeek,
                               .key = key.text(),
                               .shape = &shape,
                               .cost = take.cost,
                               .owner = {}};
    const std::optional<quota::CellReply> reply = Ask(call);
    if (!reply) return std::nullopt;
    if (shard == 0) seen.key = key.text();
    if (rule.shards == 1) {
      whole = reply->numbers;
    } else {
      AddShard(reply->numbers, take.cost, whole);
    }
  }
  if (rule.shards > 1) {
    whole.limit = take.config.burst > 0 ? take.config.burst : take.config.rate.limit;
    whole.remaining =
        std::clamp<int64_t>(whole.remaining - (whole.allowed ? take.cost : 0), 0, whole.limit);
  }
  using Status = engine::TakeOutcome::Status;
  seen.outcome.status = whole.allowed ? Status::kTaken : Status::kRefused;
  return seen;
}

std::optional<quota::CellReply> SharedPeek::Ask(const quota::CellCall& call) {
  while (SystemClock().Now() < end_) {
    if (metrics_.connected.value() == 0) {
      loop_->RunOnce(kTurn);
      continue;
    }
    reply_.reset();
    cells_->Call({&call, 1}, /*together=*/false, end_, ++ticket_, this);
    while (!reply_ && SystemClock().Now() < end_)
      loop_->RunOnce(kTurn);
    // What was not applied may be asked again: a cluster may not know its slots yet.
    if (reply_ && reply_->status == quota::CellReply::Status::kDone) return reply_;
    if (reply_) loop_->RunOnce(kTurn);
  }
  return std::nullopt;
}

void SharedPeek::OnReplies(uint64_t ticket, std::span<const quota::CellReply> replies) noexcept {
  if (ticket == ticket_) reply_ = replies[0];
}

}  // namespace flowguard::app
