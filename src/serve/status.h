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
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "flowguard/time.h"

#include "base/bounds.h"
#include "engine/engine.h"
#include "http/ip_address.h"
#include "serve/request_view.h"
#include "wire/http1.h"

namespace flowguard::serve {

// The normalised path of the gateway's status page.  A request for it counts against no
// limit and is not passed on.
inline constexpr std::string_view kStatusPath = "/.flowguard/status";

// Memory:  48 KiB.  Threads: one owner; one a worker.
class StatusPage {
 public:
  // Both must outlive the page.
  StatusPage(const engine::Engine& engine, const RequestViewOptions& options)
      : engine_(engine), view_(options) {}

  // Appends the answer's body (JSON) and returns its status: 200, or 400 with a
  // problem document when `path` or `method` cannot be used.
  int Write(const wire::RequestHead& head, const http::IpAddress& peer, Instant now,
            std::string& body);

 private:
  const engine::Engine& engine_;
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
