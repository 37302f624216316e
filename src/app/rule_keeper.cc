// SPDX-License-Identifier: Apache-2.0
#include "app/rule_keeper.h"

#include <algorithm>
#include <iterator>
#include <system_error>
#include <utility>

#include <sys/resource.h>
#include <unistd.h>

#include "flowguard/rules_text.h"

#include "app/rule_split.h"
#include "base/log.h"
#include "base/try.h"
#include "dialects/config_yaml.h"
#include "rules/route.h"
#include "serve/decision_api.h"

namespace flowguard::app {
namespace {

using base::Log;
using base::LogLevel;

// Each line of `text` as a message of its own.
void LogLines(LogLevel level, std::string_view text) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    Log(level, text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
}

}  // namespace

Result<ParsedRules> ReadRuleOrigin(const RuleOrigin& origin, std::string_view text) {
  ParsedRules parsed;
  if (!origin.rules_path.empty()) {
    FG_ASSIGN_OR_RETURN(parsed, ParseRules(text, origin.rules_path));
  } else if (!origin.config_path.empty()) {
    FG_ASSIGN_OR_RETURN(dialects::ParsedConfig config,
                        dialects::ParseConfig(text, origin.config_path));
    if (config.config.inline_rules) parsed.rules = std::move(*config.config.inline_rules);
    parsed.warnings = std::move(config.warnings);
  }
  std::vector<Rule>& rules = parsed.rules.rules;
  rules.insert(rules.begin(), origin.limits.begin(), origin.limits.end());
  if (origin.fold_case) {
    for (Rule& rule : rules)
      rule.on.route = rules::FoldRoute(rule.on.route);
  }
  return parsed;
}

RuleKeeper::RuleKeeper(net::Loop& loop, engine::Engine& engine, const Clock& clock,
                       RuleOrigin origin, RuleKeeperOptions options)
    : loop_(loop),
      engine_(engine),
      clock_(clock),
      origin_(std::move(origin)),
      options_(options),
      poll_timer_(&RuleKeeper::OnPollTimer, this) {}

// A load takes a whole core for seconds; on a small machine that is a core which requests
// need.  Where it is not allowed, loads go at the usual priority.
void RuleKeeper::StepBehindRequests() noexcept {
  constexpr int kLoaderNice = 5;  // a third of the share of a thread at 0, not none
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kLoaderNice);  // of this thread alone
}

RuleKeeper::~RuleKeeper() {
  if (loader_.joinable()) loader_.join();
  if (source_ != nullptr && source_->fd() >= 0) loop_.Unwatch(source_->fd());
}

const std::string& RuleKeeper::Path() const noexcept {
  return origin_.rules_path.empty() ? origin_.config_path : origin_.rules_path;
}

std::string RuleKeeper::SourceName() const {
  return Path().empty() ? "command line" : Path();
}

Result<void> RuleKeeper::Start() {
  if (!Path().empty()) {
    FG_ASSIGN_OR_RETURN(content_, sources::ReadFile(Path()));
  }
  const std::string_view content = content_ ? std::string_view(*content_) : std::string_view();
  RuleLoad load = Load(content);
  if (!load.error.empty()) return Error::InvalidArgument(load.error);
  Loaded(std::move(load), base::HashOf(content, 0));
  return {};
}

RuleLoad RuleKeeper::Load(std::string_view text) const {
  RuleLoad load;
  const Result<ParsedRules> parsed = ReadRuleOrigin(origin_, text);
  if (!parsed.ok()) {
    load.error = parsed.error().message;
    return load;
  }
  load.warnings = parsed->warnings;
  load.rules = parsed->rules.rules.size();
  if (const auto loaded = LoadAll(parsed->rules, load); !loaded.ok()) {
    load.error = loaded.error().message;
  }
  return load;
}

// Those of scope cluster into the token service, if there is one, and the others into the
// engine, or all if it asks token servers; or none anywhere.
Result<void> RuleKeeper::LoadAll(const RuleSet& rules, RuleLoad& load) const {
  SplitRules split;
  if (options_.tokens != nullptr) {
    split = SplitTokenRules(rules);
    FG_RETURN_IF_ERROR(LoadTokens(split.tokens));
  }
  const bool parted = options_.tokens != nullptr && !options_.asks_tokens;
  const RuleSet& others = parted ? split.others : rules;
  std::vector<std::string> warnings;
  if (auto loaded = engine_.Load(others, &warnings, clock_.Now()); !loaded.ok()) {
    // They were in force a moment ago.
    if (options_.tokens != nullptr) static_cast<void>(LoadTokens(token_rules_));
    return loaded;
  }
  const auto warn = [&load](std::vector<std::string> more) {
    std::ranges::move(more, std::back_inserter(load.warnings));
  };
  warn(std::move(warnings));
  if (options_.tokens != nullptr) warn(TokenWarnings(split, options_.tokens_alone));
  if (!options_.tokens_alone) {
    warn(options_.decision_api ? serve::DecisionApiWarnings(others)
                               : serve::ResourceWarnings(others));
  }
  load.token_rules = std::move(split.tokens);
  return {};
}

Result<void> RuleKeeper::LoadTokens(const RuleSet& rules) const {
  return options_.tokens->Load(TokenNamespaces(rules, options_.token_questions_per_second),
                               clock_.Now());
}

void RuleKeeper::Loaded(RuleLoad load, const base::Hash128& content) {
  loaded_ = content;
  token_rules_ = std::move(load.token_rules);
  for (const std::string& warning : load.warnings)
    Log(LogLevel::kWarn, warning);
  if (load.rules == 0) Log(LogLevel::kWarn, "there are no rules: every request passes");
  Log(LogLevel::kInfo, "loaded " + std::to_string(load.rules) + " rules from " + SourceName());
  Good();
}

void RuleKeeper::Good() {
  ++loads_;
  loaded_at_ = clock_.WallNow();
  last_error_.clear();
}

void RuleKeeper::Offer(std::string content) {
  pending_ = std::move(content);
  if (!loading_) StartNext();
}

void RuleKeeper::StartNext() {
  if (!pending_) return;
  std::string content = *std::exchange(pending_, std::nullopt);
  const base::Hash128 hash = base::HashOf(content, 0);
  if (hash == loaded_) {
    Log(LogLevel::kInfo, SourceName() + " has not changed: the rules stay as they are");
    return Good();
  }
  if (loader_.joinable()) loader_.join();  // it has told its end: no wait
  auto load = [this, hash, content = std::move(content)] {
    StepBehindRequests();
    loop_.Post([this, hash, load = Load(content)]() mutable { Finish(std::move(load), hash); });
  };
  try {
    loader_ = std::thread(std::move(load));
    loading_ = true;
  } catch (const std::system_error& error) {
    Failed(SourceName() + ": no thread to load it: " + error.what());
  }
}

void RuleKeeper::Finish(RuleLoad load, const base::Hash128& content) {
  loading_ = false;
  if (load.error.empty()) {
    Loaded(std::move(load), content);
  } else {
    Failed(load.error);
  }
  StartNext();
}

void RuleKeeper::Failed(const std::string& message) {
  ++failures_;
  last_error_ = message;
  LogLines(LogLevel::kError, message);
  Log(LogLevel::kError, "the rules stay as they were");
}

void RuleKeeper::Watch() {
  if (Path().empty()) return;
  source_ = std::make_unique<sources::FileSource>(sources::FileSource::Options{.path = Path()},
                                                  std::move(content_), loop_.Now());
  if (source_->fd() < 0 || !loop_.Watch(source_->fd(), *this)) {
    Log(LogLevel::kWarn, Path() + ": changes are found by looking from time to time only");
  }
  ArmPoll();
}

void RuleKeeper::ArmPoll() noexcept {
  loop_.Arm(poll_timer_, source_->NextPoll());
}

void RuleKeeper::OnReady(net::Ready /*ready*/) noexcept {
  Poll();
}

void RuleKeeper::OnPollTimer(void* self) noexcept {
  static_cast<RuleKeeper*>(self)->Poll();
}

void RuleKeeper::Poll() noexcept {
  auto content = source_->Poll(loop_.Now());
  if (!content.ok()) {
    Failed(content.error().message);
  } else if (content->has_value()) {
    Offer(std::move(**content));
  }
  ArmPoll();
}

void RuleKeeper::Reload() {
  if (source_ == nullptr) {
    Log(LogLevel::kInfo, "nothing to reload: the rules come from the command line");
    return;
  }
  auto content = source_->ReadNow(loop_.Now());
  if (!content.ok()) return Failed(content.error().message);
  Offer(*std::move(content));
}

void RuleKeeper::Collect(observe::MetricsWriter& out) {
  using observe::MetricType;
  out.Family("flowguard_config_load", MetricType::kCounter, "Rule sets loaded, by result.");
  out.Sample({{"result", "success"}}, loads_);
  out.Sample({{"result", "failure"}}, failures_);
  out.Family("flowguard_config_last_success_timestamp_seconds", MetricType::kGauge,
             "When the rules in force were loaded, in seconds since 1970.");
  out.SampleSeconds(std::span<const observe::Label>(),
                    static_cast<uint64_t>(loaded_at_.time_since_epoch().count()));
  out.Family("flowguard_config_last_load_successful", MetricType::kGauge,
             "1 when the last load was good, 0 when the rules stayed as they were.");
  out.Sample(std::span<const observe::Label>(), uint64_t{last_error_.empty() ? 1u : 0u});
}

}  // namespace flowguard::app
