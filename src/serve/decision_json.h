// SPDX-License-Identifier: Apache-2.0
//
// The decision API's JSON: questions read, answers written.
//
//   {"resource":"order:create","dimensions":{"user":"u42","param:sku":["1001","1002"]},"cost":1}
//   {"allowed":true,"verdict":"allow","reason":"none","rule":"per-user","degraded":false,
//    "limit":100,"remaining":99,"reset_after_ms":10,"retry_after_ms":0,"wait_ms":0}
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "flowguard/decision.h"
#include "flowguard/result.h"
#include "flowguard/time.h"

#include "serve/open_entries.h"

namespace flowguard::serve {

// The body of /v1/check and /v1/enter.
struct Question {
  std::string resource;
  std::string method;
  std::string path;                                             // as given; not normalised
  std::vector<std::pair<std::string, std::string>> dimensions;  // each value of a list
  int64_t cost = 0;
  bool priority = false;
  bool peek = false;                                 // /v1/check only
  Duration time_to_live = std::chrono::seconds(60);  // /v1/enter only: "ttl_ms"
};

enum class QuestionKind : uint8_t { kCheck, kEnter };

// Errors: kInvalidArgument "request:LINE:COLUMN: what was found; what is allowed".
Result<Question> ReadQuestion(std::string_view body, QuestionKind kind);

// The body of /v1/exit.
struct Exit {
  EntryId id;
  Outcome outcome = Outcome::kOk;
  std::optional<int64_t> actual_cost;
};

// Errors: as ReadQuestion.
Result<Exit> ReadExit(std::string_view body);

// Appends the answer to a check.
void AppendDecision(const Decision& decision, std::string& out);

// Appends the answer to an enter that was let in.
void AppendEntered(const Decision& decision, const EntryId& id, Duration time_to_live,
                   std::string& out);

}  // namespace flowguard::serve
