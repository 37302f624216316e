// SPDX-License-Identifier: Apache-2.0
#include "quota/token/token_store.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "quota/soft_rule.h"
#include "rules/cluster_key.h"
#include "rules/compiled_rule.h"
#include "rules/flow_id.h"

namespace flowguard::quota::token {

using engine::RemoteTake;
using engine::TakeOutcome;
using wire::token::Answer;
using wire::token::Status;
using wire::token::Type;

namespace {

LinkOptions LinkOf(const TokenStoreOptions& options, const std::string& server) {
  LinkOptions link;
  link.endpoint = server;
  if (options.registers) link.name_space = options.name_space;
  link.patience = options.timeout / 2;
  link.probe_timeout = options.timeout;
  return link;
}

Type TypeOf(const Rule& rule) noexcept {
  switch (rules::FlowQuestionOf(rule)) {
    case rules::FlowQuestion::kFlow:
      return Type::kFlow;
    case rules::FlowQuestion::kParamFlow:
      return Type::kParamFlow;
    case rules::FlowQuestion::kConcurrent:
      return Type::kConcurrentAcquire;
  }
  return Type::kFlow;
}

// Of a take that is not asked: nothing is held of it, and it does not refuse.
TakeOutcome Untouched(const Rate& rate) noexcept {
  TakeOutcome outcome;
  outcome.status = TakeOutcome::Status::kTaken;
  outcome.numbers.allowed = true;
  outcome.numbers.limit = rate.limit;
  outcome.numbers.remaining = rate.limit;
  return outcome;
}

}  // namespace

TokenStore::TokenStore(net::Loop& loop, TokenStoreOptions options)
    : loop_(loop), options_(std::move(options)), nodes_(options_.nodes) {
  FG_CHECK(!options_.servers.empty() && options_.servers.size() <= base::kTokenServersMax);
  uint64_t seed = options_.seed;
  for (const std::string& server : options_.servers) {
    links_.push_back(NewLink(server, seed++));
    links_.back()->Start();
  }
}

// Here, for its owner is a private base.
std::unique_ptr<Link> TokenStore::NewLink(const std::string& server, uint64_t seed) {
  return std::unique_ptr<Link>(new Link(loop_, LinkOf(options_, server), *this, seed));
}

TokenStore::~TokenStore() = default;

// The first that answers; but one that has just come back waits while another one does.
Link* TokenStore::Preferred() noexcept {
  int best = -1;
  for (size_t i = 0; i < links_.size() && best < 0; ++i) {
    const Link& link = *links_[i];
    const bool settled = link.ready() && loop_.Now() - link.ready_since() >= kSettle;
    const bool asked = asked_server_ == static_cast<int>(i);
    const bool alone =
        !has_asked_ || asked_server_ < 0 || !links_[static_cast<size_t>(asked_server_)]->ready();
    if (link.ready() && (settled || asked || alone)) best = static_cast<int>(i);
  }
  if (best != asked_server_) {
    if (best >= 0 && moved_.load(std::memory_order_relaxed) + (asked_server_ >= 0 ? 1 : 0) > 0) {
      base::Log(base::LogLevel::kInfo, "cluster rules are counted by token server " +
                                           links_[static_cast<size_t>(best)]->endpoint());
    }
    if (best >= 0) Add(moved_);
    asked_server_ = best;
    server_.store(best, std::memory_order_relaxed);
  }
  return best < 0 ? nullptr : links_[static_cast<size_t>(best)].get();
}

void TokenStore::Take(std::span<const RemoteTake> takes, Instant now, Instant deadline,
                      uint64_t ticket, engine::TakeSink* sink) noexcept {
  FG_DCHECK(takes.size() <= kTakesMax);
  const bool away = Preferred() == nullptr;
  has_asked_ = has_asked_ || !away;
  if (away || by_ticket_.size() >= base::kTokenCallsMax) {
    const std::array<TakeOutcome, kTakesMax> none{};
    Add(failed_, takes.size());
    if (away) Add(failed_away_, takes.size());
    return sink->OnTaken(ticket, std::span(none).first(takes.size()));
  }
  if (free_.empty()) {
    free_.push_back(calls_.size());
    calls_.push_back(std::make_unique<Call>());
  }
  const size_t place = free_.back();
  free_.pop_back();
  Call& call = *calls_[place];
  call.ticket = ticket;
  call.sink = sink;
  call.refused = false;
  call.deadline = std::min(deadline, now + options_.timeout);
  call.count = takes.size();
  call.next = 0;
  call.texts.clear();
  std::array<std::pair<size_t, size_t>, kTakesMax> texts{};
  for (size_t i = 0; i < takes.size(); ++i) {
    const Rule& rule = takes[i].rule->rule;
    Question& question = call.questions[i];
    question.asks = {.type = TypeOf(rule), .flow_id = rules::FlowIdOf(rule)};
    question.peeks = takes[i].cost == 0;
    question.askable = takes[i].cost > 0 && takes[i].cost <= std::numeric_limits<int32_t>::max();
    question.asks.count = question.askable ? static_cast<int32_t>(takes[i].cost) : 0;
    question.soft = IsSoft(rule);
    question.rate = takes[i].config.rate;
    call.outcomes[i] = {};
    if (question.asks.type != Type::kParamFlow) continue;
    const std::string_view text = rules::ClusterKeyOf(takes[i].key);
    texts[i] = {call.texts.size(), text.size()};
    call.texts += text;
  }
  for (size_t i = 0; i < takes.size(); ++i)
    call.questions[i].asks.text =
        std::string_view(call.texts).substr(texts[i].first, texts[i].second);
  by_ticket_.emplace(ticket, place);
  if (GoOn(call, place)) End(call, place);
}

bool TokenStore::GoOn(Call& call, size_t place) noexcept {
  for (; call.next < call.count; ++call.next) {
    const Question& question = call.questions[call.next];
    if (question.peeks) {
      call.outcomes[call.next] = Untouched(question.rate);
      continue;
    }
    Link* const link = Preferred();
    // Behind the deadline a server would take what nobody gets.
    const bool asks = question.askable && link != nullptr && call.deadline > loop_.Now();
    if (asks && link->Ask(question.asks, call.deadline, place)) return false;
    Add(failed_);
    if (link == nullptr) Add(failed_away_);
  }
  return true;
}

void TokenStore::OnAnswer(uint64_t place, const Answer* answer) noexcept {
  Call& call = *calls_[place];
  const Question& question = call.questions[call.next];
  TakeOutcome& outcome = call.outcomes[call.next++];
  if (answer != nullptr) outcome = OutcomeOf(question, *answer);
  Count(outcome);
  if (outcome.status == TakeOutcome::Status::kRefused && !question.soft) {
    Refuse(call);
    return End(call, place);
  }
  // Who went knows by now that nothing more is asked for it.
  if (call.sink == nullptr) call.next = call.count;
  if (GoOn(call, place)) End(call, place);
}

bool TokenStore::Release(int64_t token_id) noexcept {
  bool told = false;
  for (const std::unique_ptr<Link>& link : links_)
    told |= link->Release(token_id);
  return told;
}

void TokenStore::Undo(const Question& question, TakeOutcome& outcome) noexcept {
  const limit::Receipt held = std::exchange(outcome.receipt, {});
  if (held.cost == 0) return;
  const bool token = question.asks.type == Type::kConcurrentAcquire;
  if (!token || !Release(held.mark)) Add(lost_);
}

void TokenStore::Refuse(Call& call) noexcept {
  for (size_t i = 0; i < call.next; ++i)
    Undo(call.questions[i], call.outcomes[i]);
  for (size_t i = call.next; i < call.count; ++i)
    call.outcomes[i] = Untouched(call.questions[i].rate);
}

void TokenStore::End(Call& call, size_t place) noexcept {
  engine::TakeSink* const sink = std::exchange(call.sink, nullptr);
  const uint64_t ticket = call.ticket;
  if (sink == nullptr && call.refused) {
    // Nobody waits, and the request did not go.
    for (size_t i = 0; i < call.count; ++i)
      Undo(call.questions[i], call.outcomes[i]);
  }
  by_ticket_.erase(ticket);
  // The sink may take again, in another place: this one is free when it has returned.
  if (sink != nullptr) sink->OnTaken(ticket, std::span(call.outcomes).first(call.count));
  free_.push_back(place);
}

TakeOutcome TokenStore::OutcomeOf(const Question& question, const Answer& answer) noexcept {
  TakeOutcome outcome;
  outcome.numbers.limit = question.rate.limit;
  outcome.numbers.remaining = std::clamp<int64_t>(answer.remaining, 0, question.rate.limit);
  // The protocol tells no time: the window is the most that it can be.
  outcome.numbers.reset_after = question.rate.window;
  switch (answer.status) {
    case Status::kShouldWait:
      outcome.numbers.wait = std::chrono::milliseconds(std::max(answer.wait_ms, 0));
      [[fallthrough]];
    case Status::kOk:
      outcome.status = TakeOutcome::Status::kTaken;
      outcome.numbers.allowed = true;
      outcome.receipt = {.cost = question.asks.count, .mark = answer.token_id};
      break;
    case Status::kBlocked:
      outcome.status = TakeOutcome::Status::kRefused;
      outcome.numbers.retry_after = question.rate.window;
      break;
    default:
      break;
  }
  return outcome;
}

void TokenStore::Count(const TakeOutcome& outcome) noexcept {
  switch (outcome.status) {
    case TakeOutcome::Status::kTaken:
      return Add(granted_);
    case TakeOutcome::Status::kRefused:
      return Add(refused_);
    case TakeOutcome::Status::kFailed:
      return Add(failed_);
  }
}

void TokenStore::Abandon(uint64_t ticket, bool refused) noexcept {
  const auto found = by_ticket_.find(ticket);
  if (found == by_ticket_.end()) return;
  Call& call = *calls_[found->second];
  call.sink = nullptr;
  call.refused = refused;
}

void TokenStore::GiveBack(const RemoteTake& take, const limit::Receipt& receipt,
                          Instant /*now*/) noexcept {
  if (receipt.cost == 0) return;
  if (take.rule->rule.kind != RuleKind::kConcurrency) return Add(lost_);
  if (!Release(receipt.mark)) Add(lost_);
}

void TokenStore::Charge(const RemoteTake& /*take*/, int64_t /*units*/, Instant /*now*/) noexcept {}

int TokenStore::Nodes() const noexcept {
  return nodes_.load(std::memory_order_relaxed);
}

void TokenStore::OnUp(Link& link) noexcept {
  static_cast<void>(Preferred());  // tells who is asked from now on
  base::Log(base::LogLevel::kInfo, "token server " + link.endpoint() + " answers");
}

void TokenStore::OnDown(Link& link, std::string_view problem) noexcept {
  static_cast<void>(Preferred());
  base::Log(base::LogLevel::kWarn, "token server " + link.endpoint() + ": " + std::string(problem));
}

void TokenStore::OnClients(Link& link, int32_t clients) noexcept {
  if (&link != Preferred()) return;
  // A server that has just started knows only those who have come back already: fewer are
  // believed when they are told a second time.
  const bool fewer = clients < clients_.load(std::memory_order_relaxed);
  const bool told_fewer = std::exchange(told_fewer_, fewer);
  if ((fewer && !told_fewer) || clients == clients_.load(std::memory_order_relaxed)) return;
  clients_.store(clients, std::memory_order_relaxed);
  const int nodes = std::min(clients, base::kNodesMax);
  nodes_.store(nodes, std::memory_order_relaxed);
  if (options_.on_nodes) options_.on_nodes(nodes);
}

TokenStoreStatus TokenStore::status() const noexcept {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  return {.server = server_.load(kRelaxed),
          .granted = granted_.load(kRelaxed),
          .refused = refused_.load(kRelaxed),
          .failed = failed_.load(kRelaxed),
          .failed_away = failed_away_.load(kRelaxed),
          .lost = lost_.load(kRelaxed),
          .moved = moved_.load(kRelaxed),
          .clients = clients_.load(kRelaxed)};
}

}  // namespace flowguard::quota::token
