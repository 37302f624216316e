// SPDX-License-Identifier: Apache-2.0
//
// Uses FlowGuard::text from an installed package: rules as YAML.
#include <cstdio>

#include <flowguard/guard.h>
#include <flowguard/rules_text.h>

int main() {
  auto parsed = flowguard::ParseRules("rules:\n  - name: all\n    limit: 1/h\n", "inline");
  if (!parsed.ok()) {
    std::fprintf(stderr, "%s\n", parsed.error().message.c_str());
    return 1;
  }
  auto guard = flowguard::Guard::Create(parsed->rules);
  if (!guard.ok()) return 1;
  flowguard::Request request;
  request.resource = "anything";
  const bool right = (*guard)->Check(request).allowed() && !(*guard)->Check(request).allowed();
  std::puts(right ? "consumer_text: ok" : "consumer_text: wrong");
  return right ? 0 : 1;
}
