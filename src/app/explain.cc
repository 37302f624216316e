// SPDX-License-Identifier: Apache-2.0
//
// `flowguard explain`: which rules match a request, by which key, and the verdict: of fresh
// cells for local rules, and of what Redis holds now for shared ones where a store is named.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "flowguard/clock.h"
#include "flowguard/rules_text.h"

#include "app/commands.h"
#include "app/rule_keeper.h"
#include "app/settings.h"
#include "app/shared_peek.h"
#include "base/try.h"
#include "engine/attempt.h"
#include "engine/engine.h"
#include "engine/quota_store.h"
#include "http/ip_address.h"
#include "rules/compiled_rule.h"
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
      : named_(named), http_(http) {
    lists = named.lists;
  }

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

  // A dimension with several values was named.
  [[nodiscard]] size_t ValueCount(const rules::Dimension& dimension) const noexcept override {
    return named_.ValueCount(dimension);
  }
  [[nodiscard]] std::string_view ValueAt(const rules::Dimension& dimension, size_t place,
                                         std::span<char> scratch) const noexcept override {
    return place > 0 ? named_.ValueAt(dimension, place, scratch) : Value(dimension, scratch);
  }
  [[nodiscard]] std::string_view WholeAddressAt(const rules::Dimension& dimension, size_t place,
                                                std::span<char> scratch) const noexcept override {
    return place > 0 ? named_.WholeAddressAt(dimension, place, scratch)
                     : WholeAddress(dimension, scratch);
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

struct ExplainedRule {
  engine::Explanation told;
  std::string redis_key;  // of a shared rule that was looked up; else empty
};

struct Explained {
  std::vector<ExplainedRule> rules;
  Decision verdict;
  bool store_away = false;  // the store has not answered
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

Result<std::unique_ptr<Request>> ReadRequest(const ExplainFlags& flags,
                                             const serve::RequestViewOptions& view) {
  if (flags.path.empty() && flags.resource.empty()) {
    return Fault("give --path or --resource, or both");
  }
  auto request = std::make_unique<Request>();
  request->options = view;
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

Result<RunOptions> ReadOptions(const ExplainFlags& flags) {
  RunFlags run;
  run.config = flags.config;
  run.rules = flags.rules;
  run.store = flags.store;
  if (!flags.limits.empty()) run.limits = flags.limits;
  return ReadRunOptions(run);
}

Result<RuleSet> ReadRules(const RuleOrigin& origin) {
  const std::string& path = origin.rules_path.empty() ? origin.config_path : origin.rules_path;
  std::string text;
  if (!path.empty()) {
    FG_ASSIGN_OR_RETURN(text, sources::ReadFile(path));
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

// Answers takes by what the store holds, or as if it held nothing.
class Answers {
 public:
  explicit Answers(SharedPeek* peek) noexcept : peek_(peek) {}

  // `redis_key`: where it was looked up, if it was.
  engine::TakeOutcome To(const engine::RemoteTake& take, std::string& redis_key) {
    // Nobody can look at what a token server has counted without taking of it.
    const bool unknown = take.rule->rule.scope == Scope::kCluster;
    if (peek_ == nullptr || away_ || unknown) return FreshOutcome(take);
    std::optional<SharedPeek::Seen> seen = peek_->Look(take);
    away_ = !seen;
    if (away_) return FreshOutcome(take);
    redis_key = std::move(seen->key);
    return seen->outcome;
  }
  [[nodiscard]] bool away() const noexcept { return away_; }

 private:
  SharedPeek* peek_;
  bool away_ = false;
};

// What the request is told by the rules of `set`.
Result<Decision> AskAll(const RuleSet& set, const Request& request, engine::Mode mode, Instant now,
                        Answers& answers, std::string& redis_key) {
  FG_ASSIGN_OR_RETURN(const std::unique_ptr<engine::Engine> engine,
                      engine::Engine::Create({.remote_allowed = true, .cluster_allowed = true}));
  FG_RETURN_IF_ERROR(engine->Load(set));
  engine::Attempt attempt;
  if (engine->Begin(attempt, *request.view, mode, now) == engine::Step::kRemote) {
    std::vector<engine::TakeOutcome> outcomes;
    for (const engine::RemoteTake& take : attempt.remote_takes())
      outcomes.push_back(answers.To(take, redis_key));
    engine->Resume(attempt, outcomes, now);
  }
  Decision decision = attempt.decision();
  engine->Cancel(attempt, now);
  // The texts of the decision live in the engine, which ends here.
  decision.rule = nullptr;
  return decision;
}

// What the store says of one shared rule, whatever the others say.
Result<void> LookUp(const RuleSet& rules, const Request& request, Instant now, Answers& answers,
                    ExplainedRule& explained) {
  if (!explained.told.not_met.empty()) return {};
  const auto named = [&](const Rule& rule) { return rule.name == explained.told.rule; };
  const auto found = std::find_if(rules.rules.begin(), rules.rules.end(), named);
  if (found == rules.rules.end() || found->scope != Scope::kShared) return {};
  RuleSet alone = rules;
  alone.rules = {*found};
  alone.rules[0].shadow = false;
  FG_ASSIGN_OR_RETURN(const Decision decision, AskAll(alone, request, engine::Mode::kEnter, now,
                                                      answers, explained.redis_key));
  if (!explained.redis_key.empty()) explained.told.decision = decision;
  return {};
}

Result<Explained> Ask(const RuleSet& rules, const Request& request, SharedPeek* peek, Instant now) {
  Answers answers(peek);
  Explained explained;
  {
    FG_ASSIGN_OR_RETURN(const std::unique_ptr<engine::Engine> engine,
                        engine::Engine::Create({.remote_allowed = true, .cluster_allowed = true}));
    FG_RETURN_IF_ERROR(engine->Load(rules));
    for (engine::Explanation& rule : engine->Explain(*request.view, now)) {
      rule.decision.rule = nullptr;
      explained.rules.push_back({.told = std::move(rule), .redis_key = {}});
    }
  }
  if (peek != nullptr) {
    for (ExplainedRule& rule : explained.rules)
      FG_RETURN_IF_ERROR(LookUp(rules, request, now, answers, rule));
  }
  std::string ignored;
  FG_ASSIGN_OR_RETURN(explained.verdict,
                      AskAll(rules, request, engine::Mode::kCheck, now, answers, ignored));
  explained.store_away = answers.away();
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
  for (const ExplainedRule& one : explained.rules) {
    const engine::Explanation& rule = one.told;
    if (!rule.not_met.empty()) {
      std::printf("%s\n  matched by  %s\n  not met     %s\n", rule.rule.c_str(),
                  rule.matched_by.c_str(), rule.not_met.c_str());
      continue;
    }
    std::printf(
        "%s\n  matched by  %s\n  key         %s\n%s%s%s  limit       %lld\n  remaining   %lld\n"
        "  reset       %s\n  verdict     %s\n",
        rule.rule.c_str(), rule.matched_by.c_str(),
        rule.key.empty() ? "(one for all)" : rule.key.c_str(),
        one.redis_key.empty() ? "" : "  in Redis    ", one.redis_key.c_str(),
        one.redis_key.empty() ? "" : "\n", static_cast<long long>(rule.decision.limit),
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
  for (const ExplainedRule& one : explained.rules) {
    const engine::Explanation& rule = one.told;
    if (&one != &explained.rules.front()) out += ',';
    out += "{\"rule\":";
    text::AppendJsonString(out, rule.rule);
    out += ",\"matched_by\":";
    text::AppendJsonString(out, rule.matched_by);
    if (!rule.not_met.empty()) {
      out += ",\"not_met\":";
      text::AppendJsonString(out, rule.not_met);
      out += '}';
      continue;
    }
    out += ",\"key\":";
    text::AppendJsonString(out, rule.key);
    if (!one.redis_key.empty()) {
      out += ",\"redis_key\":";
      text::AppendJsonString(out, one.redis_key);
    }
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
  if (!flags.config && !flags.rules && flags.limits.empty()) {
    return fail(Fault("give --rules FILE, --config FILE or --limit RULE"), kExitUsage);
  }
  const Result<RunOptions> options = ReadOptions(flags);
  if (!options.ok()) return fail(options.error(), kExitUsage);
  const Result<ExplainSettings> settings = MakeExplainSettings(*options);
  if (!settings.ok()) return fail(settings.error(), kExitFailure);
  const auto request = ReadRequest(flags, settings->view);
  if (!request.ok()) return fail(request.error(), kExitUsage);
  const Result<RuleSet> rules = ReadRules(settings->rules);
  if (!rules.ok()) return fail(rules.error(), kExitFailure);
  std::unique_ptr<SharedPeek> peek;
  if (settings->store) {
    auto opened = SharedPeek::Open(*settings->store);
    if (!opened.ok()) return fail(opened.error(), kExitFailure);
    peek = std::move(opened).value();
  }
  const Result<Explained> explained = Ask(*rules, **request, peek.get(), SystemClock().Now());
  if (!explained.ok()) return fail(explained.error(), kExitFailure);
  if (explained->store_away) {
    PrintWarning("store: Redis does not answer; shared rules are shown as if nothing were taken",
                 color);
  }
  if (flags.output == Output::kJson) {
    PrintJson(*explained);
  } else {
    PrintText(*explained);
  }
  return kExitOk;
}

}  // namespace flowguard::app
