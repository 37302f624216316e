// SPDX-License-Identifier: Apache-2.0
//
// `flowguard explain`: which rules match a request, by which key, and the verdict of
// fresh cells.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "flowguard/clock.h"
#include "flowguard/rules_text.h"

#include "app/commands.h"
#include "app/rule_keeper.h"
#include "app/settings.h"
#include "base/try.h"
#include "engine/attempt.h"
#include "engine/engine.h"
#include "engine/quota_store.h"
#include "http/ip_address.h"
#include "serve/decision_json.h"
#include "serve/rate_headers.h"
#include "serve/refusal.h"
#include "serve/request_view.h"
#include "serve/status.h"
#include "sources/file_source.h"
#include "text/json_writer.h"
#include "wire/http1.h"

namespace flowguard::app {
namespace {

// The dimensions that were named, and then those of the HTTP request.
class ExplainedRequest final : public engine::RequestView {
 public:
  ExplainedRequest(const serve::NamedRequestView& named, const engine::RequestView* http)
      : named_(named), http_(http) {}

  [[nodiscard]] std::string_view Value(const rules::Dimension& dimension,
                                       std::span<char> scratch) const noexcept override {
    const std::string_view value = named_.Value(dimension, scratch);
    return value.data() == nullptr && http_ != nullptr ? http_->Value(dimension, scratch) : value;
  }

  [[nodiscard]] std::string_view WholeAddress(const rules::Dimension& dimension,
                                              std::span<char> scratch) const noexcept override {
    const std::string_view value = named_.WholeAddress(dimension, scratch);
    return value.data() == nullptr && http_ != nullptr ? http_->WholeAddress(dimension, scratch)
                                                       : value;
  }

 private:
  const serve::NamedRequestView& named_;
  const engine::RequestView* http_;
};

// A request as typed, kept together with everything that views it.
struct Request {
  std::vector<DimensionValue> dimensions;
  serve::RequestViewOptions options;
  std::string raw_head;
  wire::RequestHead head;
  std::unique_ptr<serve::HttpRequestView> http;
  std::unique_ptr<serve::NamedRequestView> named;
  std::unique_ptr<ExplainedRequest> view;
};

struct Explained {
  std::vector<engine::Explanation> rules;
  Decision verdict;
};

Error Fault(std::string message) {
  return Error::InvalidArgument(std::move(message));
}

Result<void> ReadDimensions(const ExplainFlags& flags, Request& request) {
  for (const std::string& text : flags.dimensions) {
    const size_t at = text.find('=');
    if (at == 0 || at == std::string::npos)
      return Fault("--dim: \"" + text + "\": expected NAME=VALUE");
    const std::string_view whole = text;
    request.dimensions.push_back({whole.substr(0, at), whole.substr(at + 1)});
  }
  return {};
}

// Writes the head that a client would send, and reads it as the gateway does.
Result<void> ReadHead(const ExplainFlags& flags, Request& request) {
  request.raw_head = flags.method + " " + (flags.path.empty() ? "/" : flags.path) +
                     " HTTP/1.1\r\nHost: localhost\r\n";
  for (const std::string& header : flags.headers) {
    const size_t at = header.find(':');
    if (at == std::string::npos || !wire::IsToken(std::string_view(header).substr(0, at))) {
      return Fault("--header: \"" + header + "\": expected NAME:VALUE");
    }
    request.raw_head += header + "\r\n";
  }
  request.raw_head += "\r\n";
  const auto status = wire::ParseRequestHead(request.raw_head, 0, request.head);
  if (status != wire::ParseStatus::kDone || request.head.consumed != request.raw_head.size()) {
    return Fault("this is no HTTP request: " + std::string(wire::Describe(request.head.bad)));
  }
  const auto ip = http::IpAddress::Parse(flags.ip);
  if (!ip) return Fault("--ip: \"" + flags.ip + "\": expected an IPv4 or IPv6 address");
  request.http = std::make_unique<serve::HttpRequestView>(request.options);
  if (request.http->Assign(request.head, *ip) != 0) {
    return Fault("--path: \"" + flags.path + "\" cannot be read as the path of a request");
  }
  return {};
}

Result<std::unique_ptr<Request>> ReadRequest(const ExplainFlags& flags) {
  if (flags.path.empty() && flags.resource.empty()) {
    return Fault("give --path or --resource, or both");
  }
  auto request = std::make_unique<Request>();
  FG_RETURN_IF_ERROR(ReadDimensions(flags, *request));
  FG_RETURN_IF_ERROR(ReadHead(flags, *request));
  request->named =
      std::make_unique<serve::NamedRequestView>(request->dimensions, request->options.ipv6_prefix);
  request->view = std::make_unique<ExplainedRequest>(*request->named, request->http.get());
  request->view->resource = flags.resource;
  request->view->cost = flags.cost;
  if (!flags.path.empty()) {
    request->view->method = flags.method;
    request->view->path = request->http->path;
  }
  return request;
}

Result<RuleSet> ReadRules(const ExplainFlags& flags) {
  RuleOrigin origin;
  origin.rules_path = flags.rules.value_or("");
  for (const std::string& text : flags.limits) {
    FG_ASSIGN_OR_RETURN(Rule rule, ParseLimit(text));
    origin.limits.push_back(std::move(rule));
  }
  std::string text;
  if (flags.rules) {
    FG_ASSIGN_OR_RETURN(text, sources::ReadFile(*flags.rules));
  }
  FG_ASSIGN_OR_RETURN(ParsedRules parsed, ReadRuleOrigin(origin, text));
  return std::move(parsed.rules);
}

// What a store would answer where nobody has taken anything.
engine::TakeOutcome FreshOutcome(const engine::RemoteTake& take) {
  const int64_t limit = take.config.burst > 0 ? take.config.burst : take.config.rate.limit;
  engine::TakeOutcome outcome;
  outcome.numbers.limit = limit;
  outcome.numbers.allowed = take.cost <= limit;
  outcome.numbers.remaining = outcome.numbers.allowed ? limit - take.cost : limit;
  if (!outcome.numbers.allowed) outcome.numbers.retry_after = kNever;
  outcome.status = outcome.numbers.allowed ? engine::TakeOutcome::Status::kTaken
                                           : engine::TakeOutcome::Status::kRefused;
  return outcome;
}

Result<Explained> Ask(const RuleSet& rules, const Request& request, Instant now) {
  FG_ASSIGN_OR_RETURN(const std::unique_ptr<engine::Engine> engine,
                      engine::Engine::Create({.remote_allowed = true}));
  FG_RETURN_IF_ERROR(engine->Load(rules));
  Explained explained;
  explained.rules = engine->Explain(*request.view, now);
  engine::Attempt attempt;
  if (engine->Begin(attempt, *request.view, engine::Mode::kCheck, now) == engine::Step::kRemote) {
    std::vector<engine::TakeOutcome> outcomes;
    for (const engine::RemoteTake& take : attempt.remote_takes())
      outcomes.push_back(FreshOutcome(take));
    engine->Resume(attempt, outcomes, now);
  }
  explained.verdict = attempt.decision();
  // The texts of the decision live in the engine, which ends here.
  explained.verdict.rule = nullptr;
  for (engine::Explanation& rule : explained.rules)
    rule.decision.rule = nullptr;
  return explained;
}

std::string_view VerdictWord(const Decision& decision) noexcept {
  if (!decision.allowed()) return "refuse";
  return decision.verdict == Verdict::kWait ? "wait" : "allow";
}

std::string Seconds(Duration d) {
  if (d == kNever) return "never";
  char text[40];
  const int size =
      std::snprintf(text, sizeof text, "%.3fs", std::chrono::duration<double>(d).count());
  return {text, static_cast<size_t>(size)};
}

void PrintText(const Explained& explained) {
  if (explained.rules.empty()) {
    std::puts("no rule matches: the request passes");
    return;
  }
  for (const engine::Explanation& rule : explained.rules) {
    std::printf(
        "%s\n  matched by  %s\n  key         %s\n  limit       %lld\n  remaining   %lld\n"
        "  reset       %s\n  verdict     %s\n",
        rule.rule.c_str(), rule.matched_by.c_str(),
        rule.key.empty() ? "(one for all)" : rule.key.c_str(),
        static_cast<long long>(rule.decision.limit),
        static_cast<long long>(rule.decision.remaining), Seconds(rule.decision.reset_after).c_str(),
        std::string(VerdictWord(rule.decision)).c_str());
  }
  std::printf("verdict: %s", std::string(VerdictWord(explained.verdict)).c_str());
  if (!explained.verdict.allowed()) {
    std::printf(" (%s), retry after %s",
                std::string(serve::ReasonWord(explained.verdict.reason)).c_str(),
                Seconds(explained.verdict.retry_after).c_str());
  }
  std::puts("");
}

void PrintJson(const Explained& explained) {
  std::string out = "{\"rules\":[";
  for (const engine::Explanation& rule : explained.rules) {
    if (&rule != &explained.rules.front()) out += ',';
    out += "{\"rule\":";
    text::AppendJsonString(out, rule.rule);
    out += ",\"matched_by\":";
    text::AppendJsonString(out, rule.matched_by);
    out += ",\"key\":";
    text::AppendJsonString(out, rule.key);
    out += ",\"verdict\":";
    text::AppendJsonString(out, VerdictWord(rule.decision));
    out += ',';
    serve::AppendNumbers(rule.decision, out);
    out += '}';
  }
  out += "],\"verdict\":";
  text::AppendJsonString(out, VerdictWord(explained.verdict));
  out += ",\"reason\":";
  text::AppendJsonString(out, serve::ReasonWord(explained.verdict.reason));
  out += ',';
  serve::AppendNumbers(explained.verdict, out);
  out += '}';
  std::printf("%s\n", out.c_str());
}

}  // namespace

int Explain(const ExplainFlags& flags, bool color) {
  const auto fail = [color](const Error& error, int exit_code) {
    PrintError(error.message, color);
    return exit_code;
  };
  if (!flags.rules && flags.limits.empty()) {
    return fail(Fault("give --rules FILE or --limit RULE"), kExitUsage);
  }
  const auto request = ReadRequest(flags);
  if (!request.ok()) return fail(request.error(), kExitUsage);
  const Result<RuleSet> rules = ReadRules(flags);
  if (!rules.ok()) return fail(rules.error(), kExitFailure);
  const Result<Explained> explained = Ask(*rules, **request, SystemClock().Now());
  if (!explained.ok()) return fail(explained.error(), kExitFailure);
  if (flags.output == Output::kJson) {
    PrintJson(*explained);
  } else {
    PrintText(*explained);
  }
  return kExitOk;
}

}  // namespace flowguard::app
