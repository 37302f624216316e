// SPDX-License-Identifier: Apache-2.0
//
// A sink that keeps what it is told.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "quota/redis/commander.h"
#include "wire/resp_text_test.h"

namespace flowguard::quota::redis {

class ReplyLog final : public ReplySink {
 public:
  struct Entry {
    Failure failure = Failure::kNone;
    std::string text;  // the value, or the error
  };

  void OnReply(uint64_t ticket, const CommandReply& reply) noexcept override {
    EXPECT_EQ(replies.count(ticket), 0U) << "ticket " << ticket << " was answered before";
    EXPECT_EQ(reply.failure == Failure::kNone, reply.value != nullptr);
    replies[ticket] = {reply.failure, reply.value != nullptr ? wire::resp::ToText(*reply.value)
                                                             : std::string(reply.error)};
    order.push_back(ticket);
    if (on_reply) on_reply(ticket);
  }
  [[nodiscard]] bool Has(uint64_t ticket) const { return replies.count(ticket) != 0; }
  [[nodiscard]] Failure FailureOf(uint64_t ticket) const {
    const auto found = replies.find(ticket);
    EXPECT_NE(found, replies.end()) << "ticket " << ticket << " has no reply";
    return found == replies.end() ? Failure::kNone : found->second.failure;
  }
  [[nodiscard]] std::string TextOf(uint64_t ticket) const {
    const auto found = replies.find(ticket);
    return found == replies.end() ? "no reply" : found->second.text;
  }
  [[nodiscard]] size_t Count(Failure failure) const {
    size_t count = 0;
    for (const auto& [ticket, entry] : replies)
      count += entry.failure == failure ? 1 : 0;
    return count;
  }

  std::map<uint64_t, Entry> replies;
  std::vector<uint64_t> order;
  std::function<void(uint64_t)> on_reply;
};

}  // namespace flowguard::quota::redis
