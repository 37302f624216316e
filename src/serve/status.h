// SPDX-License-Identifier: Apache-2.0
//
// What a client has left, told without spending any of it.
//
//   GET /.flowguard/status?path=/orders&method=POST        (gateway)
//   GET /v1/status?path=/orders&method=POST                (decision API)
//
//   {"path":"/orders","method":"POST","rules":[{"rule":"per-client","kind":"limit",
//    "allowed":true,"limit":200,"remaining":150,"reset_after_ms":500,
//    "retry_after_ms":0}]}
//
// The client is the one that asks: its own address, headers and cookies.  Keys are not
// shown, nor rules in shadow mode, nor access lists.
//
// Shared rules are asked of their store.  Where it does not answer, or a rule of this
// process refuses before it would be asked, their numbers but the limit are null.  Their
// retry_after_ms is that until the whole quota is there again.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "flowguard/time.h"

#include "base/bounds.h"
#include "engine/attempt.h"
#include "engine/engine.h"
#include "engine/quota_store.h"
#include "http/ip_address.h"
#include "serve/request_view.h"
#include "wire/http1.h"

namespace flowguard::serve {

// The normalised path of the gateway's status page.  A request for it counts against no
// limit and is not passed on.
inline constexpr std::string_view kStatusPath = "/.flowguard/status";

// One answer, while shared rules wait for their store.
class StatusAnswer {
 public:
  // What the store says of `takes`, in their order; empty: nothing.
  void Heard(std::span<const engine::RemoteTake> takes,
             std::span<const engine::TakeOutcome> outcomes);
  // Appends the body (JSON).
  void Write(std::string& body) const;

 private:
  friend class StatusPage;

  struct Row {
    std::string rule;
    RuleKind kind = RuleKind::kLimit;
    bool known = true;  // false: the limit alone
    bool allowed = false;
    Decision numbers;
  };
  std::string path_;
  std::string method_;
  std::vector<Row> rows_;
};

// Memory:  48 KiB.  Threads: one owner; one a worker.
class StatusPage {
 public:
  // Both must outlive the page.
  StatusPage(engine::Engine& engine, const RequestViewOptions& options)
      : engine_(engine), view_(options) {}

  // Returns 200, or 400 or 414 with a problem document in `body` when `path` or `method`
  // cannot be used.  With 200, `attempt` may be left with remote takes pending: the
  // caller asks the store, tells `answer` of it, and resumes the attempt.
  int Read(const wire::RequestHead& head, const http::IpAddress& peer, Instant now,
           engine::Attempt& attempt, StatusAnswer& answer, std::string& body);

 private:
  engine::Engine& engine_;
  HttpRequestView view_;
  std::array<char, base::kTargetBytesMax> path_;
};

// Appends one rule's numbers as members of a JSON object that is open:
// "limit":200,"remaining":150,"reset_after_ms":500,"retry_after_ms":0.
// Milliseconds are rounded up; null stands for "waiting does not help".
void AppendNumbers(const Decision& decision, std::string& out);

// Appends a problem document: {"type":"about:blank","title":…,"status":…,"detail":…}.
void AppendProblemDocument(int status, std::string_view detail, std::string& out);

}  // namespace flowguard::serve
