// SPDX-License-Identifier: Apache-2.0
#include "quota/redis/greeting.h"

#include <string_view>
#include <utility>

namespace flowguard::quota::redis {
namespace {

using wire::resp::Value;

bool BeginsWith(std::string_view text, std::string_view with) noexcept {
  return text.substr(0, with.size()) == with;
}

// The server knows no HELLO, or not this version.
bool IsUnknown(std::string_view error) noexcept {
  return BeginsWith(error, "ERR unknown command") || BeginsWith(error, "NOPROTO");
}

std::string_view UserOf(const GreetingOptions& options) noexcept {
  return options.user.empty() ? std::string_view("default") : std::string_view(options.user);
}

}  // namespace

Greeting::Outcome Greeting::Begin(wire::resp::CommandBuffer& out) {
  greeted_ = false;
  problem_.clear();
  return Ask(Step::kHello, out);
}

bool Greeting::IsAsked(Step step) const noexcept {
  switch (step) {
    case Step::kHello:
      return options_.protocol >= 3;
    case Step::kAuth:
      return !greeted_ && !options_.password.empty();
    case Step::kName:
      return !options_.client_name.empty();
    case Step::kSelect:
      return options_.database != 0;
    case Step::kRole:
      return options_.require_master;
    case Step::kEnd:
      break;
  }
  return true;
}

// Writes the first question from `step` on that there is to ask.
Greeting::Outcome Greeting::Ask(Step step, wire::resp::CommandBuffer& out) {
  while (!IsAsked(step))
    step = static_cast<Step>(static_cast<int>(step) + 1);
  step_ = step;
  switch (step) {
    case Step::kHello:
      out.Begin(options_.password.empty() ? 2 : 5);
      out.Word("HELLO");
      out.Word("3");
      if (!options_.password.empty()) {
        out.Word("AUTH");
        out.Word(UserOf(options_));
        out.Word(options_.password);
      }
      break;
    case Step::kAuth:
      // With one word a server older than Redis 6 understands it, too.
      out.Begin(options_.user.empty() ? 2 : 3);
      out.Word("AUTH");
      if (!options_.user.empty()) out.Word(options_.user);
      out.Word(options_.password);
      break;
    case Step::kName:
      out.Begin(3);
      out.Word("CLIENT");
      out.Word("SETNAME");
      out.Word(options_.client_name);
      break;
    case Step::kSelect:
      out.Begin(2);
      out.Word("SELECT");
      out.Word(static_cast<uint64_t>(options_.database));
      break;
    case Step::kRole:
      out.Begin(1);
      out.Word("ROLE");
      break;
    case Step::kEnd:
      return Outcome::kReady;
  }
  return Outcome::kGoOn;
}

Greeting::Outcome Greeting::Fail(std::string problem) {
  problem_ = std::move(problem);
  return Outcome::kFailed;
}

Greeting::Outcome Greeting::OnReply(const Value& reply, wire::resp::CommandBuffer& out) {
  const bool refused = reply.type == Value::Type::kError;
  const std::string words(refused ? reply.text : std::string_view());
  switch (step_) {
    case Step::kHello:
      if (refused && !IsUnknown(words)) return Fail("HELLO: " + words);
      greeted_ = !refused;
      break;
    case Step::kAuth:
      if (refused) return Fail("AUTH: " + words);
      break;
    case Step::kName:
      break;  // for people only; a user may lack the right
    case Step::kSelect:
      if (refused) return Fail("SELECT: " + words);
      break;
    case Step::kRole:
      // A user without the right to ask is told by READONLY.
      if (refused && !BeginsWith(words, "NOPERM")) return Fail("ROLE: " + words);
      if (!refused && (reply.items.empty() || reply.items.front().text != "master"))
        return Fail("the server is no master");
      break;
    case Step::kEnd:
      break;
  }
  return Ask(static_cast<Step>(static_cast<int>(step_) + 1), out);
}

}  // namespace flowguard::quota::redis
