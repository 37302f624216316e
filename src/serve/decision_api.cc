// SPDX-License-Identifier: Apache-2.0
#include "serve/decision_api.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/bounds.h"
#include "base/hash.h"
#include "http/path.h"
#include "serve/store_patience.h"

namespace flowguard::serve {
namespace {

constexpr std::string_view kJson = "application/json";
constexpr std::string_view kProblemJson = "application/problem+json";
constexpr std::string_view kBadIp = "request: dimensions: ip: the value is no IP address";
constexpr std::string_view kBadMethod = "request: methods are in upper case";
constexpr std::string_view kBadPath = "request: path cannot be read as the path of a request";
constexpr Duration kExpireEvery = std::chrono::milliseconds(500);
// A ticket: how often its object was used before, and in the low half the object's place,
// counted from here: the gateway, which may ask the same store, counts from 0.
constexpr uint64_t kFirstPlace = uint64_t{1} << 31;
constexpr uint64_t kTicketStep = uint64_t{1} << 32;

// The path of a raw target.
std::string_view PathOf(std::string_view target) noexcept {
  return target.substr(0, target.find('?'));
}

// A question as the engine sees it.
class QuestionView {
 public:
  QuestionView(const Question& question, const RequestViewOptions& options)
      : dimensions_(Views(question)), view_(dimensions_, options.ipv6_prefix) {
    view_.resource = question.resource;
    view_.method = question.method;
    view_.cost = question.cost;
    view_.priority = question.priority;
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

// A request whose answer is put off until the store has answered or its wait is over.
struct DecisionApi::Waiting {
  enum class Stage : uint8_t {
    kFree,
    kAsking,    // the store was asked
    kOrphaned,  // the client left while the store was asked
    kParked,    // waits for its turn
  };

  Waiting(DecisionApi& owner, uint64_t first_ticket)
      : api(owner), timer(&DecisionApi::OnTimer, this), ticket(first_ticket) {}

  DecisionApi& api;
  net::Timer timer;
  uint64_t ticket;
  Stage stage = Stage::kFree;
  bool given_up = false;  // the take
  http::Deferred answer;
  std::unique_ptr<engine::Attempt> attempt;  // null: kFree
  Caller caller;
  StatusAnswer status;  // of a status
};

DecisionApi::DecisionApi(net::Loop& loop, engine::Engine& engine, OpenEntries& entries,
                         const DecisionApiOptions& options, engine::QuotaStore* store)
    : loop_(loop),
      engine_(engine),
      entries_(entries),
      options_(options),
      store_(store),
      dues_(store == nullptr ? nullptr : std::make_shared<StoreDues>(loop, *store)),
      view_(options.view),
      status_(engine, options.view),
      attempt_(std::make_unique<engine::Attempt>()),
      expire_timer_(&DecisionApi::OnExpireTimer, this),
      random_(base::RandomSeed()) {
  view_.skip_calls = true;  // only /v1/auth asks by it
  loop_.ArmAfter(expire_timer_, kExpireEvery);
}

DecisionApi::~DecisionApi() {
  for (const auto& waiting : waiting_) {
    if (waiting->attempt == nullptr) continue;
    if (waiting->stage == Waiting::Stage::kAsking && !waiting->given_up) {
      store_->Abandon(waiting->ticket, true);
    }
    Cancel(*waiting->attempt, loop_.Now());
  }
  EndEntries();
  if (dues_ != nullptr) dues_->Close();
}

void DecisionApi::EndEntries() noexcept {
  if (dues_ == nullptr) return;
  entries_.SettleOwing(*dues_, loop_.Now());
  dues_->PassBrought();
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
  const Caller caller{.question = Question::kAuth,
                      .deny_status = DenyStatus(head.target),
                      .time_to_live = {},
                      .peer = {}};
  if (view_.exempt()) return AnswerAuth(Decision{}, caller.deny_status, responder);
  const Instant now = responder.now();
  view_.wait_max = WaitMax();
  const bool asks = Begin(*attempt_, view_, engine::Mode::kCheck, now);
  if (view_.ambiguous()) {
    Cancel(*attempt_, now);
    return Problem(400, view_.ambiguity(), responder);
  }
  const Decision& decision = attempt_->decision();
  const bool waits = !asks && decision.verdict == Verdict::kWait;
  if (waits && draining_) {
    const Decision refused = Overload(decision);
    Cancel(*attempt_, now);
    return AnswerAuth(refused, caller.deny_status, responder);
  }
  if (!asks && !waits) return AnswerAuth(decision, caller.deny_status, responder);
  Waiting& waiting =
      Postpone(std::exchange(attempt_, std::make_unique<engine::Attempt>()), caller, responder);
  asks ? Ask(waiting) : Park(waiting);
}

void DecisionApi::AnswerAuth(const Decision& decision, int deny_status,
                             http::Responder& responder) {
  WriteAuth(decision,
            {.head = responder.head_only(),
             .close = !responder.keep_alive(),
             .status = deny_status,
             .decided_at = responder.now(),
             .draw = Draw(),
             .date = responder.date_line()},
            responder.out());
  responder.Done();
}

void DecisionApi::WriteAuth(const Decision& decision, const RefusalRequest& request,
                            std::string& out) const {
  if (!decision.allowed()) return AppendRefusal(decision, options_.refusal, request, out);
  // Exactly 200: Envoy and the Gateway API take any other code for a failure.
  out += "HTTP/1.1 200 OK\r\n";
  out += request.date;
  if (options_.refusal.rate_headers.on_success) {
    AppendRateHeaders(decision, options_.refusal.rate_headers, out);
  }
  if (options_.refusal.decided_at) {
    AppendDecidedAt(request.decided_at, request.store_time_us, out);
  }
  if (decision.degraded) AppendDegradeMark(decision, out);
  if (request.close) out += "Connection: close\r\n";
  out += "Content-Length: 0\r\n\r\n";
}

void DecisionApi::Check(std::string_view body, const http::PeerInfo& /*peer*/,
                        http::Responder& responder) {
  const auto question = ReadQuestion(body, QuestionKind::kCheck);
  if (!question.ok()) return Problem(400, question.error().message, responder);
  const QuestionView view(*question, options_.view);
  if (!view.error().empty()) return Problem(400, view.error(), responder);
  const engine::Mode mode = question->peek ? engine::Mode::kPeek : engine::Mode::kCheck;
  if (Begin(*attempt_, view.view(), mode, responder.now())) {
    const Caller caller{
        .question = Question::kCheck, .deny_status = 0, .time_to_live = {}, .peer = {}};
    return Ask(
        Postpone(std::exchange(attempt_, std::make_unique<engine::Attempt>()), caller, responder));
  }
  json_.clear();
  AppendDecision(attempt_->decision(), json_);
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
  const Caller caller{.question = Question::kEnter,
                      .deny_status = 0,
                      .time_to_live = question->time_to_live,
                      .peer = peer.ip};
  auto attempt = std::make_unique<engine::Attempt>();
  if (Begin(*attempt, view.view(), engine::Mode::kEnter, now)) {
    return Ask(Postpone(std::move(attempt), caller, responder));
  }
  if (attempt->waiting() && draining_) {
    Cancel(*attempt, now);
    return Problem(503, kEnding, responder);
  }
  if (attempt->waiting()) return Park(Postpone(std::move(attempt), caller, responder));
  const int status = FinishEnter(attempt, caller, now);
  responder.Send(status, status == 200 ? kJson : kProblemJson, json_, kNoStore);
}

int DecisionApi::FinishEnter(std::unique_ptr<engine::Attempt>& attempt, const Caller& caller,
                             Instant now) {
  json_.clear();
  const Decision decision = attempt->decision();
  if (!decision.allowed()) {
    AppendDecision(decision, json_);
    return 200;
  }
  // No rule matched: an entry would hold nothing but its place.  It went, and so its turn is
  // taken.
  if (attempt->only_counted()) engine_.Abandon(*attempt, now);
  const bool holds = attempt->entered();
  const auto id = holds ? entries_.Add(attempt, caller.peer, now + caller.time_to_live,
                                       attempt->remote_takes().empty() ? nullptr : dues_)
                        : EntryId::Nothing();
  if (!id) {
    Cancel(*attempt, now);
    AppendProblemDocument(503, "too many open entries: end some with /v1/exit", json_);
    return 503;
  }
  AppendEntered(decision, *id, caller.time_to_live, json_);
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
  // Before the next request of this worker, if the entry was its own.
  if (dues_ != nullptr) dues_->PassBrought();
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
  StatusAnswer answer;
  const int status = status_.Read(head, peer.ip, responder.now(), *attempt_, answer, json_);
  if (status == 200 && attempt_->remote_pending()) {
    const Caller caller{
        .question = Question::kStatus, .deny_status = 0, .time_to_live = {}, .peer = {}};
    Waiting& waiting =
        Postpone(std::exchange(attempt_, std::make_unique<engine::Attempt>()), caller, responder);
    waiting.status = std::move(answer);
    return Ask(waiting);
  }
  if (status == 200) answer.Write(json_);
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

bool DecisionApi::Begin(engine::Attempt& attempt, const engine::RequestView& view,
                        engine::Mode mode, Instant now) noexcept {
  if (engine_.Begin(attempt, view, mode, now) == engine::Step::kDone) return false;
  if (store_ != nullptr) return true;
  engine_.Resume(attempt, {}, now);  // as failed
  return false;
}

void DecisionApi::Cancel(engine::Attempt& attempt, Instant now) noexcept {
  engine_.Cancel(attempt, now);
  PassDues(attempt);
}

void DecisionApi::PassDues(const engine::Attempt& attempt) noexcept {
  if (dues_ != nullptr) dues_->Pass(attempt);
}

void DecisionApi::Ask(Waiting& waiting) noexcept {
  const Instant now = loop_.Now();
  waiting.stage = Waiting::Stage::kAsking;
  store_->Take(waiting.attempt->remote_takes(), now, now + options_.store_deadline, waiting.ticket,
               this);
  loop_.ArmAfter(waiting.timer, options_.store_deadline + kStoreTellMax);
}

void DecisionApi::OnTaken(uint64_t ticket, std::span<const engine::TakeOutcome> outcomes) noexcept {
  std::vector<engine::TakeOutcome> copy(outcomes.begin(), outcomes.end());
  loop_.Post([this, ticket, copy = std::move(copy), api = std::weak_ptr(posted_to_)] {
    if (api.expired()) return;
    const uint64_t place = (ticket & UINT32_MAX) - kFirstPlace;
    if (place < waiting_.size()) OnStoreAnswer(*waiting_[place], ticket, copy);
  });
}

void DecisionApi::OnStoreAnswer(Waiting& waiting, uint64_t ticket,
                                std::span<const engine::TakeOutcome> outcomes) noexcept {
  const bool orphaned = waiting.stage == Waiting::Stage::kOrphaned;
  if (ticket != waiting.ticket) return;
  if (waiting.stage != Waiting::Stage::kAsking && !orphaned) return;
  const Instant now = loop_.Now();
  waiting.timer.Disarm();
  engine::Attempt& attempt = *waiting.attempt;
  const Question question = waiting.caller.question;
  if (question == Question::kStatus) waiting.status.Heard(attempt.remote_takes(), outcomes);
  engine_.Resume(attempt, outcomes, now);
  PassDues(attempt);
  if (orphaned) {
    // Both came: the answer, then our word that nobody waits.
    Cancel(attempt, now);
    return Free(waiting);
  }
  // A check tells its caller to wait, and a status waits for nothing.
  const bool waits = attempt.decision().verdict == Verdict::kWait;
  if (!waits || question == Question::kCheck || question == Question::kStatus) {
    return Answer(waiting);
  }
  draining_ || parked_ >= base::kParkedMax ? RefuseWait(waiting) : Park(waiting);
}

void DecisionApi::AbandonTake(Waiting& waiting) noexcept {
  if (std::exchange(waiting.given_up, true)) return;
  store_->Abandon(waiting.ticket, true);
  // An answer that was under way already is in the loop's queue ahead of this.
  loop_.Post([this, &waiting, ticket = waiting.ticket, api = std::weak_ptr(posted_to_)] {
    if (!api.expired()) OnAbandoned(waiting, ticket);
  });
}

void DecisionApi::OnAbandoned(Waiting& waiting, uint64_t ticket) noexcept {
  if (ticket != waiting.ticket) return;
  if (waiting.stage == Waiting::Stage::kAsking) return OnStoreAnswer(waiting, ticket, {});
  if (waiting.stage != Waiting::Stage::kOrphaned) return;
  Cancel(*waiting.attempt, loop_.Now());
  Free(waiting);
}

Duration DecisionApi::WaitMax() const noexcept {
  return parked_ >= base::kParkedMax ? Duration::zero() : kNever;
}

DecisionApi::Waiting& DecisionApi::Postpone(std::unique_ptr<engine::Attempt> attempt,
                                            const Caller& caller, http::Responder& responder) {
  if (free_.empty()) {
    waiting_.push_back(std::make_unique<Waiting>(*this, kFirstPlace + waiting_.size()));
    free_.push_back(waiting_.back().get());
  }
  Waiting& waiting = *free_.back();
  free_.pop_back();
  waiting.answer = responder.Defer(&waiting);
  waiting.attempt = std::move(attempt);
  waiting.caller = caller;
  return waiting;
}

void DecisionApi::Park(Waiting& waiting) noexcept {
  waiting.stage = Waiting::Stage::kParked;
  ++parked_;
  loop_.ArmAfter(waiting.timer, waiting.attempt->decision().wait);
}

void DecisionApi::OnTimer(void* waiting) noexcept {
  auto& over = *static_cast<Waiting*>(waiting);
  over.stage == Waiting::Stage::kAsking ? over.api.AbandonTake(over) : over.api.EndWait(over);
}

void DecisionApi::OnGone(void* waiter) noexcept {
  auto& waiting = *static_cast<Waiting*>(waiter);
  if (waiting.stage == Waiting::Stage::kAsking) {
    waiting.stage = Waiting::Stage::kOrphaned;
    waiting.timer.Disarm();
    return AbandonTake(waiting);
  }
  Cancel(*waiting.attempt, loop_.Now());
  Free(waiting);
}

void DecisionApi::Drain() noexcept {
  draining_ = true;
  for (const auto& waiting : waiting_) {
    if (waiting->stage == Waiting::Stage::kParked) RefuseWait(*waiting);
  }
}

void DecisionApi::Free(Waiting& waiting) noexcept {
  if (waiting.stage == Waiting::Stage::kParked) --parked_;
  waiting.timer.Disarm();
  waiting.ticket += kTicketStep;
  waiting.stage = Waiting::Stage::kFree;
  waiting.given_up = false;
  waiting.answer = {};
  waiting.status = {};
  waiting.attempt.reset();
  free_.push_back(&waiting);
}

void DecisionApi::EndWait(Waiting& waiting) noexcept {
  if (waiting.caller.question == Question::kEnter) {
    engine_.Continue(*waiting.attempt, loop_.Now());
    PassDues(*waiting.attempt);
  }
  Answer(waiting);
}

void DecisionApi::Answer(Waiting& waiting) noexcept {
  const Instant now = loop_.Now();
  http::Deferred reply = waiting.answer;
  std::unique_ptr<engine::Attempt> attempt = std::move(waiting.attempt);
  const Caller caller = waiting.caller;
  const StatusAnswer said = std::exchange(waiting.status, {});
  Free(waiting);
  json_.clear();
  if (caller.question == Question::kAuth) {
    RefusalRequest request = LaterAuth(reply, caller.deny_status);
    request.store_time_us = attempt->store_time_us();
    WriteAuth(attempt->decision(), request, json_);
    return reply.SendWhole(json_);
  }
  int status = 200;
  if (caller.question == Question::kEnter) {
    status = FinishEnter(attempt, caller, now);
  } else if (caller.question == Question::kStatus) {
    said.Write(json_);
  } else {
    AppendDecision(attempt->decision(), json_);
  }
  reply.Send(status, status == 200 ? kJson : kProblemJson, json_, kNoStore);
}

void DecisionApi::RefuseWait(Waiting& waiting) noexcept {
  http::Deferred reply = waiting.answer;
  const Decision refused = Overload(waiting.attempt->decision());
  const Caller caller = waiting.caller;
  Cancel(*waiting.attempt, loop_.Now());
  Free(waiting);
  json_.clear();
  if (caller.question == Question::kAuth) {
    WriteAuth(refused, LaterAuth(reply, caller.deny_status), json_);
    return reply.SendWhole(json_);
  }
  if (!draining_) {
    AppendDecision(refused, json_);
    return reply.Send(200, kJson, json_, kNoStore);
  }
  AppendProblemDocument(503, kEnding, json_);
  reply.Send(503, kProblemJson, json_, kNoStore);
}

RefusalRequest DecisionApi::LaterAuth(const http::Deferred& reply, int deny_status) noexcept {
  return {.head = reply.head_only(),
          .close = !reply.keep_alive(),
          .status = deny_status,
          .decided_at = loop_.Now(),
          .draw = Draw(),
          .date = reply.date_line()};
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
    if (!rule.enabled) continue;
    if (rule.kind == RuleKind::kConcurrency)
      warnings.push_back(PlaceOf(rule) +
                         "/v1/auth does not hold concurrency, as it is not told when the call "
                         "ends; use /v1/enter and /v1/exit");
    if (rule.kind == RuleKind::kBreaker)
      warnings.push_back(PlaceOf(rule) +
                         "/v1/auth does not ask breakers, as it is not told how the call ends; use "
                         "/v1/enter and /v1/exit");
  }
  return warnings;
}

std::vector<std::string> ResourceWarnings(const RuleSet& rules) {
  std::vector<std::string> warnings;
  for (const Rule& rule : rules.rules) {
    const bool by_name = !rule.on.resource.empty() || !rule.on.resource_regex.empty();
    if (!rule.enabled || !by_name || !rule.on.route.empty()) continue;
    warnings.push_back(PlaceOf(rule) +
                       "on.resource: meets no request of the gateway or /v1/auth, which have no "
                       "resource; the library, /v1/check and /v1/enter name one");
  }
  return warnings;
}

}  // namespace flowguard::serve
