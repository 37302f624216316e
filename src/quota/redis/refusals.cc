// SPDX-License-Identifier: Apache-2.0
#include "quota/redis/refusals.h"

namespace flowguard::quota::redis {

Refusals::~Refusals() {
  loop_.Forget(*this);
}

void Refusals::Add(uint64_t ticket, ReplySink* sink, std::string_view why) {
  if (waiting_.empty()) loop_.AtTurnEnd(*this);
  waiting_.push_back({ticket, sink, why});
}

void Refusals::OnTurnEnd() noexcept {
  telling_.swap(waiting_);
  for (const Refusal& refusal : telling_) {
    metrics_.replies[static_cast<size_t>(Failure::kNotSent)].Add(1);
    refusal.sink->OnReply(refusal.ticket, {Failure::kNotSent, refusal.why, nullptr});
  }
  telling_.clear();
}

}  // namespace flowguard::quota::redis
