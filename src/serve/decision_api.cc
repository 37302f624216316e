// SPDX-License-Identifier: Apache-2.0
#include "serve/decision_api.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "base/bounds.h"
#include "base/hash.h"
#include "http/path.h"

namespace flowguard::serve {
namespace {

constexpr std::string_view kJson = "application/json";
constexpr std::string_view kProblemJson = "application/problem+json";
constexpr std::string_view kBadIp = "request: dimensions: ip: the value is no IP address";
constexpr std::string_view kBadMethod = "request: methods are in upper case";
constexpr std::string_view kBadPath = "request: path cannot be read as the path of a request";
constexpr Duration kExpireEvery = std::chrono::milliseconds(500);

// The path of a raw target.
std::string_view PathOf(std::string_view target) noexcept {
  return target.substr(0, target.find('?'));
}

// Decides without a store behind the engine: rules that need one fall to their
// failure policy at once.
void Begin(engine::Engine& engine, engine::Attempt& attempt, const engine::RequestView& view,
           engine::Mode mode, Instant now) noexcept {
  engine::Step step = engine.Begin(attempt, view, mode, now);
  while (step == engine::Step::kRemote) {
    const std::array<engine::TakeOutcome, base::kRemoteTakesPerRequestMax> failed{};
    step = engine.Resume(attempt, std::span(failed).first(attempt.remote_takes().size()), now);
  }
}

// A question as the engine sees it.
class QuestionView {
 public:
  QuestionView(const Question& question, const RequestViewOptions& options)
      : dimensions_(Views(question)), view_(dimensions_, options.ipv6_prefix) {
    view_.resource = question.resource;
    view_.method = question.method;
    view_.cost = question.cost;
    if (IsMiscasedMethod(question.method)) error_ = kBadMethod;
    for (const auto& [name, value] : dimensions_) {
      if (name == "ip" && !ParseIpDimension(value)) error_ = kBadIp;
    }
    if (question.path.empty()) return;
    buffer_.resize(question.path.size() * 3);  // escaping triples at most
    const http::NormalisedPath normal = http::NormalisePath(question.path, options.path, buffer_);
    if (normal.status != http::PathStatus::kOk) error_ = kBadPath;
    view_.path = normal.path;
  }

  // Why the question cannot be answered; empty: it can.
  [[nodiscard]] std::string_view error() const noexcept { return error_; }
  [[nodiscard]] const NamedRequestView& view() const noexcept { return view_; }
  void set_wait_max(Duration wait_max) noexcept { view_.wait_max = wait_max; }

 private:
  static std::vector<DimensionValue> Views(const Question& question) {
    std::vector<DimensionValue> views;
    views.reserve(question.dimensions.size());
    for (const auto& [name, value] : question.dimensions)
      views.push_back({name, value});
    return views;
  }

  std::vector<DimensionValue> dimensions_;
  std::vector<char> buffer_;
  NamedRequestView view_;
  std::string_view error_;
};

// What becomes of a wait that is not sat out.
Decision Overload(Decision decision) noexcept {
  decision.verdict = Verdict::kRefuse;
  decision.reason = Reason::kOverload;
  decision.retry_after = std::exchange(decision.wait, {});
  return decision;
}

std::string PlaceOf(const Rule& rule) {
  const std::string place = rule.origin.empty() ? std::string() : rule.origin + ": ";
  return place + "rule \"" + rule.name + "\": ";
}

constexpr std::string_view kNoStore = "Cache-Control: no-store\r\n";
constexpr std::string_view kEnding = "this server is ending and lets no call wait: ask another";

}  // namespace

// A request whose answer is put off until its wait is over.
struct DecisionApi::Waiting {
  explicit Waiting(DecisionApi& owner) : api(owner), timer(&DecisionApi::OnWaitOver, this) {}

  DecisionApi& api;
  net::Timer timer;
  http::Deferred answer;
  std::unique_ptr<engine::Attempt> attempt;  // null: nobody waits here now
  Duration time_to_live{};                   // of an enter; zero: an auth
  http::IpAddress peer;                      // of an enter
  int deny_status = 0;                       // of an auth
};

DecisionApi::DecisionApi(net::Loop& loop, engine::Engine& engine, OpenEntries& entries,
                         const DecisionApiOptions& options)
    : loop_(loop),
      engine_(engine),
      entries_(entries),
      options_(options),
      view_(options.view),
      status_(engine, options.view),
      attempt_(std::make_unique<engine::Attempt>()),
      expire_timer_(&DecisionApi::OnExpireTimer, this),
      random_(base::RandomSeed()) {
  view_.skip_concurrency = true;  // only /v1/auth asks by it
  loop_.ArmAfter(expire_timer_, kExpireEvery);
}

DecisionApi::~DecisionApi() {
  for (const auto& waiting : waiting_) {
    if (waiting->attempt != nullptr) engine_.Cancel(*waiting->attempt, loop_.Now());
  }
}

void DecisionApi::Handle(const wire::RequestHead& head, std::string_view body,
                         const http::PeerInfo& peer, http::Responder& responder) noexcept {
  if (IsAuthTarget(head.target)) return Auth(head, peer, responder);
  const std::string_view path = PathOf(head.target);
  const bool get = head.method == wire::Method::kGet || head.method == wire::Method::kHead;
  const bool post = head.method == wire::Method::kPost;
  if (path == "/v1/status") {
    if (!get) return Problem(405, "expected GET", responder, "Allow: GET, HEAD\r\n");
    return Status(head, peer, responder);
  }
  using Action = void (DecisionApi::*)(std::string_view, const http::PeerInfo&, http::Responder&);
  constexpr std::pair<std::string_view, Action> kActions[] = {{"/v1/check", &DecisionApi::Check},
                                                              {"/v1/enter", &DecisionApi::Enter},
                                                              {"/v1/exit", &DecisionApi::Exit}};
  for (const auto& [name, action] : kActions) {
    if (path != name) continue;
    if (!post) return Problem(405, "expected POST", responder, "Allow: POST\r\n");
    return (this->*action)(body, peer, responder);
  }
  Problem(404, "no such path; there are /v1/check, /v1/auth, /v1/enter, /v1/exit, /v1/status",
          responder);
}

void DecisionApi::Auth(const wire::RequestHead& head, const http::PeerInfo& peer,
                       http::Responder& responder) noexcept {
  const OriginalRequest original =
      FindOriginalRequest(head, options_.view.client.trusted.Contains(peer.ip));
  if (original.conflicting) {
    return Problem(400, "contradictory header lines about the original request", responder);
  }
  if (IsMiscasedMethod(original.method)) return Problem(400, kBadMethod, responder);
  if (const int status = view_.Assign(head, peer.ip, original.method, original.target);
      status != 0) {
    return Problem(status, "the original request's path cannot be used", responder);
  }
  if (view_.exempt()) return AnswerAuth(Decision{}, head.target, responder);
  const Instant now = responder.now();
  view_.wait_max = WaitMax();
  Begin(engine_, *attempt_, view_, engine::Mode::kCheck, now);
  const Decision& decision = attempt_->decision();
  if (view_.ambiguous()) {
    engine_.Cancel(*attempt_, now);
    return Problem(400, view_.ambiguity(), responder);
  }
  if (decision.verdict != Verdict::kWait) return AnswerAuth(decision, head.target, responder);
  if (draining_) {
    const Decision refused = Overload(decision);
    engine_.Cancel(*attempt_, now);
    return AnswerAuth(refused, head.target, responder);
  }
  Waiting& waiting =
      Postpone(std::exchange(attempt_, std::make_unique<engine::Attempt>()), responder);
  waiting.deny_status = DenyStatus(head.target);
}

void DecisionApi::AnswerAuth(const Decision& decision, std::string_view target,
                             http::Responder& responder) {
  std::string& out = responder.out();
  const bool close = !responder.keep_alive();
  if (!decision.allowed()) {
    AppendRefusal(decision, options_.refusal,
                  {.head = responder.head_only(),
                   .close = close,
                   .status = DenyStatus(target),
                   .decided_at = responder.now(),
                   .draw = Draw(),
                   .date = responder.date_line()},
                  out);
    return responder.Done();
  }
  // Exactly 200: Envoy and the Gateway API take any other code for a failure.
  out += "HTTP/1.1 200 OK\r\n";
  out += responder.date_line();
  if (options_.refusal.rate_headers.on_success) {
    AppendRateHeaders(decision, options_.refusal.rate_headers, out);
  }
  if (options_.refusal.decided_at) AppendDecidedAt(responder.now(), out);
  if (decision.degraded) AppendDegradeMark(decision, out);
  if (close) out += "Connection: close\r\n";
  out += "Content-Length: 0\r\n\r\n";
  responder.Done();
}

void DecisionApi::Check(std::string_view body, const http::PeerInfo& /*peer*/,
                        http::Responder& responder) {
  const auto question = ReadQuestion(body, QuestionKind::kCheck);
  if (!question.ok()) return Problem(400, question.error().message, responder);
  const QuestionView view(*question, options_.view);
  if (!view.error().empty()) return Problem(400, view.error(), responder);
  engine::Attempt attempt;
  Begin(engine_, attempt, view.view(), question->peek ? engine::Mode::kPeek : engine::Mode::kCheck,
        responder.now());
  json_.clear();
  AppendDecision(attempt.decision(), json_);
  responder.Send(200, kJson, json_, kNoStore);
}

void DecisionApi::Enter(std::string_view body, const http::PeerInfo& peer,
                        http::Responder& responder) {
  const auto question = ReadQuestion(body, QuestionKind::kEnter);
  if (!question.ok()) return Problem(400, question.error().message, responder);
  QuestionView view(*question, options_.view);
  if (!view.error().empty()) return Problem(400, view.error(), responder);
  view.set_wait_max(WaitMax());
  const Instant now = responder.now();
  entries_.Expire(now);
  auto attempt = std::make_unique<engine::Attempt>();
  Begin(engine_, *attempt, view.view(), engine::Mode::kEnter, now);
  if (attempt->waiting() && draining_) {
    engine_.Cancel(*attempt, now);
    return Problem(503, kEnding, responder);
  }
  if (attempt->waiting()) {
    Waiting& waiting = Postpone(std::move(attempt), responder);
    waiting.time_to_live = question->time_to_live;
    waiting.peer = peer.ip;
    return;
  }
  const int status = FinishEnter(attempt, peer.ip, question->time_to_live, now);
  responder.Send(status, status == 200 ? kJson : kProblemJson, json_, kNoStore);
}

int DecisionApi::FinishEnter(std::unique_ptr<engine::Attempt>& attempt, const http::IpAddress& peer,
                             Duration time_to_live, Instant now) {
  json_.clear();
  const Decision decision = attempt->decision();
  if (!decision.allowed()) {
    AppendDecision(decision, json_);
    return 200;
  }
  // No rule matched: an entry would hold nothing but its place.
  const bool holds = attempt->entered();
  const auto id = holds ? entries_.Add(attempt, peer, now + time_to_live) : EntryId::Nothing();
  if (!id) {
    engine_.Cancel(*attempt, now);
    AppendProblemDocument(503, "too many open entries: end some with /v1/exit", json_);
    return 503;
  }
  AppendEntered(decision, *id, time_to_live, json_);
  return 200;
}

void DecisionApi::Exit(std::string_view body, const http::PeerInfo& /*peer*/,
                       http::Responder& responder) {
  const auto exit = ReadExit(body);
  if (!exit.ok()) return Problem(400, exit.error().message, responder);
  const Instant now = responder.now();
  const bool ended = exit->id == EntryId::Nothing() ||
                     entries_.End(exit->id, exit->outcome, exit->actual_cost, now);
  entries_.Expire(now);
  if (!ended) {
    return Problem(404,
                   "no open entry has this id: it was never given, has ended already, or its "
                   "time to live is over",
                   responder);
  }
  responder.Send(200, kJson, "{\"settled\":true}", kNoStore);
}

void DecisionApi::Status(const wire::RequestHead& head, const http::PeerInfo& peer,
                         http::Responder& responder) {
  json_.clear();
  const int status = status_.Write(head, peer.ip, responder.now(), json_);
  responder.Send(status, status == 200 ? kJson : kProblemJson, json_, kNoStore);
}

void DecisionApi::Problem(int status, std::string_view detail, http::Responder& responder,
                          std::string_view extra_lines) {
  json_.clear();
  AppendProblemDocument(status, detail, json_);
  lines_ = kNoStore;
  lines_ += extra_lines;
  responder.Send(status, kProblemJson, json_, lines_);
}

Duration DecisionApi::WaitMax() const noexcept {
  return free_.empty() && waiting_.size() >= base::kParkedMax ? Duration::zero() : kNever;
}

DecisionApi::Waiting& DecisionApi::Postpone(std::unique_ptr<engine::Attempt> attempt,
                                            http::Responder& responder) {
  if (free_.empty()) {
    waiting_.push_back(std::make_unique<Waiting>(*this));
    free_.push_back(waiting_.back().get());
  }
  Waiting& waiting = *free_.back();
  free_.pop_back();
  waiting.answer = responder.Defer(&waiting);
  loop_.ArmAfter(waiting.timer, attempt->decision().wait);
  waiting.attempt = std::move(attempt);
  return waiting;
}

void DecisionApi::OnWaitOver(void* waiting) noexcept {
  auto& over = *static_cast<Waiting*>(waiting);
  over.api.EndWait(over);
}

void DecisionApi::OnGone(void* waiter) noexcept {
  auto& waiting = *static_cast<Waiting*>(waiter);
  engine_.Cancel(*waiting.attempt, loop_.Now());
  Free(waiting);
}

void DecisionApi::Drain() noexcept {
  draining_ = true;
  for (const auto& waiting : waiting_) {
    if (waiting->attempt != nullptr) RefuseWait(*waiting);
  }
}

void DecisionApi::Free(Waiting& waiting) noexcept {
  waiting.timer.Disarm();
  waiting.answer = {};
  waiting.attempt.reset();
  waiting.time_to_live = {};
  waiting.deny_status = 0;
  free_.push_back(&waiting);
}

void DecisionApi::EndWait(Waiting& waiting) noexcept {
  const Instant now = loop_.Now();
  http::Deferred reply = waiting.answer;
  std::unique_ptr<engine::Attempt> attempt = std::move(waiting.attempt);
  const Duration time_to_live = waiting.time_to_live;
  const http::IpAddress peer = waiting.peer;
  Free(waiting);
  if (time_to_live == Duration::zero()) {
    lines_.clear();
    const Decision& decision = attempt->decision();
    if (options_.refusal.rate_headers.on_success) {
      AppendRateHeaders(decision, options_.refusal.rate_headers, lines_);
    }
    if (decision.degraded) AppendDegradeMark(decision, lines_);
    return reply.Send(200, "", "", lines_);
  }
  engine_.Continue(*attempt, now);
  const int status = FinishEnter(attempt, peer, time_to_live, now);
  reply.Send(status, status == 200 ? kJson : kProblemJson, json_, kNoStore);
}

void DecisionApi::RefuseWait(Waiting& waiting) noexcept {
  const Instant now = loop_.Now();
  http::Deferred reply = waiting.answer;
  const Decision refused = Overload(waiting.attempt->decision());
  const bool enter = waiting.time_to_live > Duration::zero();
  const int deny_status = waiting.deny_status;
  engine_.Cancel(*waiting.attempt, now);
  Free(waiting);
  json_.clear();
  if (enter) {
    AppendProblemDocument(503, kEnding, json_);
    return reply.Send(503, kProblemJson, json_, kNoStore);
  }
  AppendRefusal(refused, options_.refusal,
                {.head = reply.head_only(),
                 .close = !reply.keep_alive(),
                 .status = deny_status,
                 .decided_at = now,
                 .draw = Draw(),
                 .date = reply.date_line()},
                json_);
  reply.SendWhole(json_);
}

void DecisionApi::OnExpireTimer(void* self) noexcept {
  auto& api = *static_cast<DecisionApi*>(self);
  api.entries_.Expire(api.loop_.Now());
  api.loop_.ArmAfter(api.expire_timer_, kExpireEvery);
}

uint64_t DecisionApi::Draw() noexcept {
  // SplitMix64.
  random_ += 0x9e3779b97f4a7c15U;
  uint64_t mixed = random_;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9U;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebU;
  return mixed ^ (mixed >> 31);
}

std::vector<std::string> DecisionApiWarnings(const RuleSet& rules) {
  std::vector<std::string> warnings;
  for (const Rule& rule : rules.rules) {
    if (rule.kind != RuleKind::kConcurrency || !rule.enabled) continue;
    warnings.push_back(PlaceOf(rule) +
                       "/v1/auth does not hold concurrency, as it is not told when the call ends; "
                       "use /v1/enter and /v1/exit");
  }
  return warnings;
}

std::vector<std::string> ResourceWarnings(const RuleSet& rules) {
  std::vector<std::string> warnings;
  for (const Rule& rule : rules.rules) {
    if (!rule.enabled || rule.on.resource.empty() || !rule.on.route.empty()) continue;
    warnings.push_back(PlaceOf(rule) +
                       "on.resource: meets no request of the gateway or /v1/auth, which have no "
                       "resource; the library, /v1/check and /v1/enter name one");
  }
  return warnings;
}

}  // namespace flowguard::serve
