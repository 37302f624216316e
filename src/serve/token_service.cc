// SPDX-License-Identifier: Apache-2.0
#include "serve/token_service.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "flowguard/decision.h"

#include "base/bounds.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/thread_slot.h"
#include "base/try.h"

namespace flowguard::serve {
namespace {

using rules::FlowQuestion;
using wire::token::Question;
using wire::token::Status;
using wire::token::Type;

// A question as the engine sees it.  The one dimension that its rules know is the value.
class FlowRequest final : public engine::RequestView {
 public:
  FlowRequest(const TokenFlow& flow, const Question& question) noexcept : values_(question.values) {
    resource = flow.resource;
    cost = question.count * flow.needs;
    priority = question.priority;
    lists = values_.count() > 1;
  }

  [[nodiscard]] std::string_view Value(const rules::Dimension& dimension,
                                       std::span<char> scratch) const noexcept override {
    return ValueAt(dimension, 0, scratch);
  }
  [[nodiscard]] size_t ValueCount(const rules::Dimension& /*dimension*/) const noexcept override {
    return values_.count();
  }
  [[nodiscard]] std::string_view ValueAt(const rules::Dimension& /*dimension*/, size_t place,
                                         std::span<char> /*scratch*/) const noexcept override {
    wire::token::Values rest = values_;
    std::string_view value;
    for (size_t i = 0; i <= place && rest.count() > 0; ++i)
      value = rest.Next();
    return value;
  }

 private:
  const wire::token::Values values_;
};

// Requires: it is the type of one.
FlowQuestion QuestionOf(Type type) noexcept {
  switch (type) {
    case Type::kFlow:
      return FlowQuestion::kFlow;
    case Type::kParamFlow:
      return FlowQuestion::kParamFlow;
    default:
      return FlowQuestion::kConcurrent;
  }
}

Status StatusOf(Reason reason) noexcept {
  switch (reason) {
    case Reason::kOverload:
      return Status::kTooManyRequests;
    case Reason::kStoreFailure:
      return Status::kFail;  // clients have a rule of their own for that
    default:
      return Status::kBlocked;
  }
}

int32_t Clamped(int64_t number) noexcept {
  return static_cast<int32_t>(std::clamp<int64_t>(number, 0, std::numeric_limits<int32_t>::max()));
}

int32_t MillisecondsUp(Duration wait) noexcept {
  return Clamped(std::chrono::ceil<std::chrono::milliseconds>(wait).count());
}

// Never 0, and not to be guessed.
int64_t NewTokenId() noexcept {
  for (;;) {
    const auto id = static_cast<int64_t>(base::RandomSeed() >> 1);
    if (id != 0) return id;
  }
}

EntryId EntryOf(int64_t token_id) noexcept {
  return {.high = 0, .low = static_cast<uint64_t>(token_id)};
}

}  // namespace

TokenService::TokenService(const TokenServiceOptions& options,
                           std::unique_ptr<engine::Engine> engine)
    : shared_(options.shared),
      engine_(std::move(engine)),
      tokens_(*engine_, base::kOpenEntriesMax, kOpenEntriesPerPeerMax),
      table_(std::make_unique<Table>()),
      nowhere_("") {}

TokenService::~TokenService() = default;

Result<std::unique_ptr<TokenService>> TokenService::Create(const TokenServiceOptions& options) {
  engine::EngineOptions with;
  if (options.cells != 0) with.cell_capacity = options.cells;
  if (options.state_bytes != 0) with.state_bytes = options.state_bytes;
  with.hash_seed = options.hash_seed;
  with.remote_allowed = options.shared;
  with.fallback_nodes = options.nodes;
  with.statistics = options.statistics;
  FG_ASSIGN_OR_RETURN(auto engine, engine::Engine::Create(with));
  return std::unique_ptr<TokenService>(new TokenService(options, std::move(engine)));
}

Result<void> TokenService::Load(std::vector<TokenNamespace> namespaces, Instant now) {
  const base::MutexLock lock(load_mutex_);
  for (TokenNamespace& space : namespaces) {
    std::erase_if(space.rules.rules,
                  [](const Rule& rule) { return rule.scope != Scope::kCluster; });
  }
  FG_RETURN_IF_ERROR(CheckTokenRules(namespaces));
  std::vector<bool> counts_clients;
  for (const TokenNamespace& space : namespaces) {
    counts_clients.push_back(
        std::any_of(space.rules.rules.begin(), space.rules.rules.end(),
                    [](const Rule& rule) { return rule.enabled && rule.cluster.per_client; }));
  }
  std::vector<size_t> clients = ClientsOf(namespaces, counts_clients);
  FG_RETURN_IF_ERROR(Publish(namespaces, clients, now));
  namespaces_ = std::move(namespaces);
  counts_clients_ = std::move(counts_clients);
  seen_clients_ = std::move(clients);
  return {};
}

void TokenService::Look(Instant now) {
  const base::MutexLock lock(load_mutex_);
  if (multiplied_ && now - *multiplied_ < kClientsLookEvery) return;
  std::vector<size_t> clients = ClientsOf(namespaces_, counts_clients_);
  if (clients == seen_clients_) return;
  multiplied_ = now;
  const Result<void> published = Publish(namespaces_, clients, now);
  if (!published.ok()) {
    base::Log(base::LogLevel::kWarn,
              "limits per client stay those of the clients before: " + published.error().message);
  }
  // Tried again when they change again.
  seen_clients_ = std::move(clients);
}

// The engine first: what the table names without it is answered as gone.
Result<void> TokenService::Publish(std::span<const TokenNamespace> namespaces,
                                   const std::vector<size_t>& clients, Instant now) {
  FG_ASSIGN_OR_RETURN(TokenRules made, MakeTokenRules(namespaces, clients, shared_, windows_));
  FG_RETURN_IF_ERROR(CheckRoom(namespaces));
  FG_RETURN_IF_ERROR(engine_->Load(made.counted, nullptr, now));
  auto table = std::make_unique<Table>();
  table->flows = std::move(made.flows);
  table->spaces = SpacesOf(namespaces);
  table_.Replace(std::move(table));
  windows_ = std::move(made.windows);
  return {};
}

Result<void> TokenService::CheckRoom(std::span<const TokenNamespace> namespaces) const {
  const base::MutexLock lock(spaces_mutex_);
  size_t needed = spaces_.size();
  for (const TokenNamespace& space : namespaces)
    needed += spaces_.contains(space.name) ? 0 : 1;
  if (needed <= base::kTokenNamespacesMax) return {};
  return Error{ErrorCode::kResourceExhausted, "namespaces: found " + std::to_string(needed) +
                                                  " since the start; at most " +
                                                  std::to_string(base::kTokenNamespacesMax) +
                                                  " are allowed, restart to load others"};
}

std::vector<TokenSpace*> TokenService::SpacesOf(std::span<const TokenNamespace> namespaces) {
  const base::MutexLock lock(spaces_mutex_);
  std::vector<TokenSpace*> spaces;
  for (const TokenNamespace& one : namespaces) {
    std::unique_ptr<TokenSpace>& space = spaces_[one.name];
    if (space == nullptr) space = std::make_unique<TokenSpace>(one.name);
    space->guard().Set(one.questions_per_second);
    spaces.push_back(space.get());
  }
  return spaces;
}

// Of many clients the last ones count in steps of 1/32 to 1/64, rounded down: each number is
// another limit, and limits are remembered for a process's life.
size_t TokenService::InSteps(size_t clients) noexcept {
  constexpr int kExactBits = 6;
  const int dropped = std::max(static_cast<int>(std::bit_width(clients)) - kExactBits, 0);
  return clients >> dropped << dropped;
}

bool TokenService::HasClients(const TokenSpace& space) const {
  return (space.name() == kDefaultNamespace ? clients_.InAll() : clients_.In(space.name())) > 0;
}

std::vector<size_t> TokenService::ClientsOf(std::span<const TokenNamespace> namespaces,
                                            const std::vector<bool>& counts_clients) const {
  std::vector<size_t> clients;
  for (size_t i = 0; i < namespaces.size(); ++i) {
    const bool all = namespaces[i].name == kDefaultNamespace;
    clients.push_back(!counts_clients[i] ? 1
                      : all              ? InSteps(clients_.InAll())
                                         : InSteps(clients_.In(namespaces[i].name)));
  }
  return clients;
}

int32_t TokenService::Join(std::string_view name_space) {
  return Clamped(static_cast<int64_t>(clients_.Join(name_space)));
}

void TokenService::Leave(std::string_view name_space) {
  clients_.Leave(name_space);
}

bool TokenService::Begin(std::unique_ptr<engine::Attempt>& attempt, const Question& question,
                         const http::IpAddress& peer, const std::shared_ptr<StoreDues>& dues,
                         Instant now, TokenReply& reply) noexcept {
  const size_t slot = base::ThreadSlot();
  reply = {};
  const auto answered = [&](TokenSpace& space, Status status) {
    reply.status = status;
    space.Count(slot, status);
    return true;
  };
  const auto type = static_cast<Type>(question.type);
  if (question.fault == Question::Fault::kUnknownType || type == Type::kPing) {
    return answered(nowhere_, Status::kFail);
  }
  if (question.fault != Question::Fault::kNone) return answered(nowhere_, Status::kBadRequest);
  if (type == Type::kConcurrentRelease) {
    return answered(nowhere_, Release(question.token_id, dues, now));
  }
  const bool no_value = type == Type::kParamFlow && question.values.count() == 0;
  if (question.flow_id <= 0 || question.count <= 0 || no_value) {
    return answered(nowhere_, Status::kBadRequest);
  }
  const auto table = table_.Get(slot);
  const TokenFlows::Known* const known = table->flows.Find(question.flow_id);
  if (known == nullptr) return answered(nowhere_, Status::kNoRuleExists);
  const FlowQuestion asks = QuestionOf(type);
  const TokenFlow* const flow = table->flows.Of(*known, asks);
  TokenSpace& space = *table->spaces[(flow != nullptr ? *flow : table->flows.AnyOf(*known)).space];
  if (!space.guard().Pass(now)) return answered(space, Status::kTooManyRequests);
  if (flow == nullptr) return answered(space, Status::kNoRuleExists);
  // One that has just come counts with the next Look; until then it decides by itself.
  if (flow->closed) return answered(space, HasClients(space) ? Status::kFail : Status::kBlocked);
  const bool holds = asks == FlowQuestion::kConcurrent;
  if (holds) tokens_.Expire(now);
  const bool settles = holds || flow->needs > 1;
  const engine::Step step =
      engine_->Begin(*attempt, FlowRequest(*flow, question),
                     settles ? engine::Mode::kEnter : engine::Mode::kCheck, now);
  if (step == engine::Step::kRemote) return false;
  Answer(attempt, {asks, question.values.count(), question.count, *flow, peer, dues}, now, reply);
  return answered(space, reply.status);
}

TokenService::Later TokenService::KeepOf(const Question& question) noexcept {
  return {.flow_id = question.flow_id,
          .type = question.type,
          .count = question.count,
          .values = static_cast<int32_t>(question.values.count())};
}

void TokenService::Resume(std::unique_ptr<engine::Attempt>& attempt, const Later& question,
                          std::span<const engine::TakeOutcome> outcomes,
                          const http::IpAddress& peer, const std::shared_ptr<StoreDues>& dues,
                          Instant now, TokenReply& reply) noexcept {
  const size_t slot = base::ThreadSlot();
  reply = {};
  engine_->Resume(*attempt, outcomes, now);
  if (dues != nullptr) dues->Pass(*attempt);
  const FlowQuestion asks = QuestionOf(static_cast<Type>(question.type));
  const auto table = table_.Get(slot);
  const TokenFlows::Known* const known = table->flows.Find(question.flow_id);
  const TokenFlow* const flow = known == nullptr ? nullptr : table->flows.Of(*known, asks);
  if (flow == nullptr) {  // it was taken out of the rules meanwhile
    CancelAndPass(*attempt, dues, now);
    reply.status = Status::kNoRuleExists;
    nowhere_.Count(slot, reply.status);
    return;
  }
  Answer(attempt, {asks, static_cast<size_t>(question.values), question.count, *flow, peer, dues},
         now, reply);
  table->spaces[flow->space]->Count(slot, reply.status);
}

void TokenService::Answer(std::unique_ptr<engine::Attempt>& attempt, const Asked& asked,
                          Instant now, TokenReply& reply) noexcept {
  const Decision decision = attempt->decision();
  if (asked.flow.needs > 1) SettleNeeds(*attempt, asked.units, now);
  switch (decision.verdict) {
    case Verdict::kRefuse:
      reply.status = StatusOf(decision.reason);
      return;
    case Verdict::kWait:
      reply.status = Status::kShouldWait;
      reply.wait_ms = MillisecondsUp(decision.wait);
      return;
    case Verdict::kAllow:
      break;
  }
  // Rules in shadow are told nothing of.
  const bool gone = decision.rule == nullptr && !asked.flow.shadow;
  if (gone) {
    CancelAndPass(*attempt, asked.dues, now);
    reply.status = Status::kNoRuleExists;
  } else if (asked.question == FlowQuestion::kConcurrent) {
    GiveToken(attempt, asked, now, reply);
  } else {
    reply.status = Status::kOk;
    reply.remaining = asked.values > 1 ? -1 : Clamped(decision.remaining / asked.flow.needs);
  }
}

void TokenService::SettleNeeds(engine::Attempt& attempt, int64_t units, Instant now) noexcept {
  engine_->Continue(attempt, now);
  engine_->Settle(attempt, Outcome::kOk, units, now);
}

void TokenService::GiveToken(std::unique_ptr<engine::Attempt>& attempt, const Asked& asked,
                             Instant now, TokenReply& reply) noexcept {
  const int64_t id = NewTokenId();
  const bool remote = !attempt->remote_takes().empty();
  const bool kept = attempt->entered() &&
                    tokens_.AddAs(EntryOf(id), attempt, asked.peer, now + asked.flow.token_ttl,
                                  remote ? asked.dues : nullptr);
  if (!kept) {
    CancelAndPass(*attempt, asked.dues, now);
    reply.status = Status::kTooManyRequests;
    return;
  }
  attempt = std::make_unique<engine::Attempt>();
  reply.status = Status::kOk;
  reply.token_id = id;
}

Status TokenService::Release(int64_t token_id, const std::shared_ptr<StoreDues>& dues,
                             Instant now) noexcept {
  if (token_id <= 0) return Status::kAlreadyRelease;
  const bool held = tokens_.End(EntryOf(token_id), Outcome::kOk, std::nullopt, now);
  // Before the next question of this loop, if the token came of one.
  if (dues != nullptr) dues->PassBrought();
  return held ? Status::kReleaseOk : Status::kAlreadyRelease;
}

void TokenService::CancelAndPass(engine::Attempt& attempt, const std::shared_ptr<StoreDues>& dues,
                                 Instant now) noexcept {
  engine_->Cancel(attempt, now);
  if (dues != nullptr) dues->Pass(attempt);
}

void TokenService::Cancel(engine::Attempt& attempt, Instant now) noexcept {
  engine_->Cancel(attempt, now);
}

void TokenService::Expire(Instant now) {
  tokens_.Expire(now);
}

void TokenService::EndTokens(const StoreDues& dues, Instant now) {
  tokens_.SettleOwing(dues, now);
}

std::vector<TokenCounts> TokenService::Counted() const {
  const base::MutexLock lock(spaces_mutex_);
  std::vector<TokenCounts> counted;
  size_t elsewhere = clients_.InAll();
  for (const auto& [name, space] : spaces_) {
    const size_t clients = clients_.In(name);
    elsewhere -= std::min(elsewhere, clients);
    counted.push_back({.name_space = name, .answered = space->Answered(), .clients = clients});
  }
  counted.push_back({.name_space = {}, .answered = nowhere_.Answered(), .clients = elsewhere});
  return counted;
}

}  // namespace flowguard::serve
