// SPDX-License-Identifier: Apache-2.0
//
// The request parser's case for callgrind; see instructions.cc.
#include <cstdio>
#include <string_view>

#include "wire/http1.h"

namespace {

constexpr int kTimes = 10'000;

// What a client of a service sends, 205 bytes.
constexpr std::string_view kRequest =
    "GET /service42/items/100100 HTTP/1.1\r\n"
    "Host: api.example.com:8080\r\n"
    "User-Agent: curl/7.88.1\r\n"
    "Accept: */*\r\n"
    "Authorization: Bearer 6f1ed002ab5595859014ebf0951522d9\r\n"
    "X-Tenant-Id: acme\r\n"
    "Connection: keep-alive\r\n"
    "\r\n";
static_assert(kRequest.size() == 205);

__attribute__((noinline)) int CaseHttp1Get(flowguard::wire::RequestHead& head) {
  int parsed = 0;
  for (int i = 0; i < kTimes; ++i) {
    if (flowguard::wire::ParseRequestHead(kRequest, 0, head) == flowguard::wire::ParseStatus::kDone)
      ++parsed;
  }
  return parsed;
}

}  // namespace

int main() {
  flowguard::wire::RequestHead head;
  const int parsed = CaseHttp1Get(head);
  if (parsed != kTimes) std::fprintf(stderr, "%d of %d parsed\n", parsed, kTimes);
  return parsed == kTimes ? 0 : 1;
}
