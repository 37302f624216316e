// SPDX-License-Identifier: Apache-2.0
//
// A token service with rules, questions to it, and a time that the test moves.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/attempt.h"
#include "serve/token_service.h"
#include "serve/token_value.h"

namespace flowguard::serve {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using wire::token::Question;
using wire::token::Status;
using wire::token::Type;

inline std::string NameOf(Status status) {
  switch (status) {
    case Status::kBadRequest:
      return "BAD_REQUEST";
    case Status::kTooManyRequests:
      return "TOO_MANY_REQUEST";
    case Status::kFail:
      return "FAIL";
    case Status::kOk:
      return "OK";
    case Status::kBlocked:
      return "BLOCKED";
    case Status::kShouldWait:
      return "SHOULD_WAIT";
    case Status::kNoRuleExists:
      return "NO_RULE_EXISTS";
    case Status::kNoRefRuleExists:
      return "NO_REF_RULE_EXISTS";
    case Status::kNotAvailable:
      return "NOT_AVAILABLE";
    case Status::kReleaseOk:
      return "RELEASE_OK";
    case Status::kAlreadyRelease:
      return "ALREADY_RELEASE";
  }
  return "?";
}

// "OK 2", "BLOCKED", "SHOULD_WAIT 200".  What else is set shows.
inline std::string Told(const TokenReply& reply) {
  std::string text = NameOf(reply.status);
  if (reply.status == Status::kOk || reply.remaining != 0)
    text += " " + std::to_string(reply.remaining);
  if (reply.status == Status::kShouldWait || reply.wait_ms != 0)
    text += " " + std::to_string(reply.wait_ms);
  return text;
}

inline Rule ClusterRule(std::string name, int64_t flow_id, int64_t limit,
                        Algorithm algorithm = Algorithm::kSlidingLog) {
  Rule rule;
  rule.name = std::move(name);
  rule.rate = {limit, seconds(1)};
  rule.algorithm = algorithm;
  rule.scope = Scope::kCluster;
  rule.cluster.flow_id = flow_id;
  return rule;
}

inline Rule ClusterSlots(std::string name, int64_t flow_id, int64_t most) {
  Rule rule;
  rule.name = std::move(name);
  rule.kind = RuleKind::kConcurrency;
  rule.concurrency = most;
  rule.scope = Scope::kCluster;
  rule.cluster.flow_id = flow_id;
  return rule;
}

inline Override For(ValueType type, std::string value, int64_t limit) {
  Override one;
  one.type = type;
  one.value = std::move(value);
  one.rate = {limit, seconds(1)};
  return one;
}

inline std::string Text(std::string_view text) {
  return EncodeTokenValue(ValueType::kString, text).value();
}

inline TokenNamespace Space(std::string name, std::vector<Rule> rules) {
  TokenNamespace space;
  space.name = std::move(name);
  space.rules.rules = std::move(rules);
  return space;
}

inline Question FlowQuestion(int64_t flow_id, int32_t count = 1, bool priority = false) {
  Question question;
  question.type = static_cast<int8_t>(Type::kFlow);
  question.flow_id = flow_id;
  question.count = count;
  question.priority = priority;
  return question;
}

// `bytes` outlives it.
inline Question ParamQuestion(int64_t flow_id, std::string_view bytes, size_t values,
                              int32_t count = 1) {
  Question question = FlowQuestion(flow_id, count);
  question.type = static_cast<int8_t>(Type::kParamFlow);
  question.values = wire::token::Values(bytes, values);
  return question;
}

inline Question AcquireQuestion(int64_t flow_id, int32_t count = 1) {
  Question question = FlowQuestion(flow_id, count);
  question.type = static_cast<int8_t>(Type::kConcurrentAcquire);
  return question;
}

inline Question ReleaseQuestion(int64_t token_id) {
  Question question;
  question.type = static_cast<int8_t>(Type::kConcurrentRelease);
  question.token_id = token_id;
  return question;
}

class TokenServiceFixture : public ::testing::Test {
 protected:
  void Make(const TokenServiceOptions& options) {
    service_ = TokenService::Create(options).value();
  }
  // "": it was loaded.
  std::string TryLoad(std::vector<TokenNamespace> spaces) {
    const Result<void> loaded = service_->Load(std::move(spaces), now_);
    return loaded.ok() ? "" : loaded.error().message;
  }
  void Load(std::vector<Rule> rules) { Load({Space("default", std::move(rules))}); }
  void Load(std::vector<TokenNamespace> spaces) { ASSERT_EQ(TryLoad(std::move(spaces)), ""); }

  // Requires: no store is to be asked.
  TokenReply Ask(const Question& question) {
    TokenReply reply;
    EXPECT_TRUE(service_->Begin(attempt_, question, peer_, nullptr, now_, reply));
    return reply;
  }
  std::string Flow(int64_t flow_id, int32_t count = 1, bool priority = false) {
    return Told(Ask(FlowQuestion(flow_id, count, priority)));
  }
  std::string Param(int64_t flow_id, const std::vector<std::string>& values, int32_t count = 1) {
    std::string bytes;
    for (const std::string& value : values)
      bytes += value;
    return Told(Ask(ParamQuestion(flow_id, bytes, values.size(), count)));
  }
  // One after the other.
  std::string Flows(int times, int64_t flow_id, bool priority = false) {
    return Several(times, [&] { return Flow(flow_id, 1, priority); });
  }
  std::string Params(int times, int64_t flow_id, const std::string& value) {
    return Several(times, [&] { return Param(flow_id, {value}); });
  }
  template <typename F>
  static std::string Several(int times, F&& ask) {
    std::string told;
    for (int i = 0; i < times; ++i)
      told.append(told.empty() ? "" : ", ").append(ask());
    return told;
  }
  uint64_t Answered(std::string_view space, Status status) {
    for (const TokenCounts& counts : service_->Counted()) {
      if (counts.name_space != space) continue;
      return counts.answered[static_cast<size_t>(static_cast<int>(status) + kTokenStatusOffset)];
    }
    return 0;
  }

  const Instant start_ = Instant(hours(24 * 8));
  Instant now_ = start_;
  http::IpAddress peer_ = http::IpAddress::Parse("192.0.2.7").value();
  std::unique_ptr<TokenService> service_ = TokenService::Create({}).value();
  std::unique_ptr<engine::Attempt> attempt_ = std::make_unique<engine::Attempt>();
};

}  // namespace flowguard::serve
