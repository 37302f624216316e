// SPDX-License-Identifier: Apache-2.0
//
// The first commands of a connection: HELLO or AUTH, the name, the database, the role.
#pragma once

#include <cstdint>
#include <string>

#include "quota/redis/options.h"
#include "wire/resp.h"

namespace flowguard::quota::redis {

// Who is greeted, and what it must be.
struct GreetingOptions {
  std::string user;
  std::string password;
  std::string client_name;
  int database = 0;
  int protocol = 3;
  bool require_master = false;
};

// One question at a time: what to send next depends on the answer.  HELLO is new in
// Redis 6; where it is unknown, AUTH and RESP2 take its place.
//
// Threads: one owner.
class Greeting {
 public:
  enum class Outcome : uint8_t { kGoOn, kReady, kFailed };

  // `options` must outlive it.
  explicit Greeting(const GreetingOptions& options) noexcept : options_(options) {}

  // Writes the first question.  kReady: there is none.
  Outcome Begin(wire::resp::CommandBuffer& out);
  // Takes the answer; kGoOn: the next question is written.
  Outcome OnReply(const wire::resp::Value& reply, wire::resp::CommandBuffer& out);

  // Why it failed, in the server's words.
  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }

 private:
  enum class Step : uint8_t { kHello, kAuth, kName, kSelect, kRole, kEnd };

  Outcome Ask(Step step, wire::resp::CommandBuffer& out);
  [[nodiscard]] bool IsAsked(Step step) const noexcept;
  Outcome Fail(std::string problem);

  const GreetingOptions& options_;
  Step step_ = Step::kHello;
  bool greeted_ = false;  // HELLO did the work of AUTH
  std::string problem_;
};

}  // namespace flowguard::quota::redis
