// SPDX-License-Identifier: Apache-2.0
#include "quota/redis/error_reply.h"

#include <array>
#include <charconv>
#include <utility>

#include "quota/redis/slot.h"

namespace flowguard::quota::redis {
namespace {

constexpr std::array<std::pair<std::string_view, Failure>, 10> kWords{{
    {"READONLY", Failure::kReadOnly},
    {"LOADING", Failure::kLoading},
    {"BUSY", Failure::kLoading},
    {"TRYAGAIN", Failure::kLoading},
    {"CLUSTERDOWN", Failure::kLoading},
    {"MASTERDOWN", Failure::kLoading},
    {"OOM", Failure::kOutOfMemory},
    {"NOAUTH", Failure::kDenied},
    {"WRONGPASS", Failure::kDenied},
    {"NOPERM", Failure::kDenied},
}};

std::string_view FirstWord(std::string_view text) noexcept {
  return text.substr(0, text.find(' '));
}

Failure FailureOf(std::string_view text) noexcept {
  const std::string_view word = FirstWord(text);
  for (const auto& [known, failure] : kWords) {
    if (word == known) return failure;
  }
  return Failure::kScriptError;
}

// "3999 10.0.0.7:6381"
bool ReadRedirect(std::string_view text, ErrorReply& reply) noexcept {
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, reply.slot);
  if (error != std::errc() || at == end || *at != ' ' || reply.slot >= kSlots) return false;
  reply.endpoint = text.substr(static_cast<size_t>(at - text.data()) + 1);
  return reply.endpoint.find(':') != std::string_view::npos;
}

}  // namespace

ErrorReply ReadErrorReply(std::string_view text) noexcept {
  ErrorReply reply;
  const std::string_view word = FirstWord(text);
  if (word == "NOSCRIPT") {
    reply.detour = Detour::kNoScript;
    return reply;
  }
  if (word == "MOVED" || word == "ASK") {
    const std::string_view rest = text.substr(word.size());
    if (!rest.empty() && ReadRedirect(rest.substr(1), reply))
      reply.detour = word == "ASK" ? Detour::kAsk : Detour::kMoved;
    return reply;
  }
  reply.failure = FailureOf(text);
  constexpr std::string_view kWrapped = "ERR Error running script";
  if (text.substr(0, kWrapped.size()) == kWrapped) {
    const size_t inner = text.find(": -");
    if (inner != std::string_view::npos) reply.failure = FailureOf(text.substr(inner + 3));
  }
  return reply;
}

}  // namespace flowguard::quota::redis
