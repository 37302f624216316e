// SPDX-License-Identifier: Apache-2.0
//
// A cpp-httplib server with FlowGuard ahead of its routing: no handler can be
// reached around the limit.
//
//   example_httplib_server [--self-test]     serves 127.0.0.1:8090 until Ctrl-C
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include <httplib.h>

#include "flowguard/guard.h"
#include "flowguard/rules_text.h"

namespace {

constexpr std::string_view kRules = R"(
rules:
  - name: per-client
    limit: 3/min
    by: [ip]
  - name: create-order
    on: {route: "POST /orders"}
    limit: 1/min
    by: [user]
    refuse: {message: "Too many orders, please retry shortly"}
)";

// Seconds for Retry-After: whole, rounded up, at least one.
long RetryAfterSeconds(flowguard::Duration wait) {
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(wait).count();
  return seconds < 1 ? 1 : static_cast<long>(seconds);
}

// Asks the guard; answers the request itself when it may not go.
httplib::Server::HandlerResponse Limit(flowguard::Guard& guard, const httplib::Request& request,
                                       httplib::Response& response) {
  const std::string user = request.get_header_value("X-User-Id");
  const flowguard::DimensionValue dimensions[] = {{"ip", request.remote_addr}, {"user", user}};
  flowguard::Request question;
  question.method = request.method;
  question.path = request.path;
  question.dimensions = dimensions;
  const flowguard::Decision decision = guard.Check(question);
  if (decision.allowed()) return httplib::Server::HandlerResponse::Unhandled;
  response.status = decision.rule->refuse.status;
  if (decision.retry_after != flowguard::kNever) {
    response.set_header("Retry-After", std::to_string(RetryAfterSeconds(decision.retry_after)));
  }
  response.set_content(
      "{\"code\":429,\"message\":\"" + decision.rule->refuse.message + "\",\"success\":false}",
      "application/json");
  return httplib::Server::HandlerResponse::Handled;
}

// Sends four requests from one client and expects three to pass.
int SelfTest(int port) {
  httplib::Client client("127.0.0.1", port);
  int statuses[4] = {};
  for (int& status : statuses) {
    const auto answer = client.Get("/hello");
    status = answer ? answer->status : -1;
  }
  const bool right =
      statuses[0] == 200 && statuses[1] == 200 && statuses[2] == 200 && statuses[3] == 429;
  std::printf("answers: %d %d %d %d\n", statuses[0], statuses[1], statuses[2], statuses[3]);
  return right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const bool self_test = argc > 1 && std::string_view(argv[1]) == "--self-test";
  auto parsed = flowguard::ParseRules(kRules, "rules");
  if (!parsed.ok()) {
    std::fprintf(stderr, "%s\n", parsed.error().message.c_str());
    return 1;
  }
  auto guard = flowguard::Guard::Create(parsed->rules);
  if (!guard.ok()) {
    std::fprintf(stderr, "%s\n", guard.error().message.c_str());
    return 1;
  }

  httplib::Server server;
  server.set_pre_routing_handler([&](const httplib::Request& request, httplib::Response& response) {
    return Limit(**guard, request, response);
  });
  server.Get("/hello", [](const httplib::Request&, httplib::Response& response) {
    response.set_content("hello\n", "text/plain");
  });
  server.Post("/orders",
              [](const httplib::Request&, httplib::Response& response) { response.status = 201; });

  if (!self_test) return server.listen("127.0.0.1", 8090) ? 0 : 1;
  const int port = server.bind_to_any_port("127.0.0.1");
  std::thread serving([&] { server.listen_after_bind(); });
  while (!server.is_running())
    std::this_thread::yield();
  const int status = SelfTest(port);
  server.stop();
  serving.join();
  return status;
}
