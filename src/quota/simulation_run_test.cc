// SPDX-License-Identifier: Apache-2.0
#include "quota/simulation_run_test.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/attempt.h"
#include "engine/engine.h"
#include "quota/cell_key.h"
#include "quota/known_cells.h"
#include "quota/shared_store.h"
#include "quota/simulation_bounds_test.h"
#include "quota/simulation_world_test.h"
#include "rules/compiled_rule.h"
#include "testing/fake_request.h"
#include "testing/memory_cells.h"
#include "testing/rules.h"

namespace flowguard::quota {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kDeadline = milliseconds(20);
constexpr Duration kRunFor = seconds(2);
// Calls end within this, so that slots are asked for again.
constexpr Duration kCallMax = milliseconds(300);

class Simulation;

// A node's connection to the server.
class Link final : public CellServer {
 public:
  explicit Link(Simulation& simulation) : simulation_(simulation) {}
  void Call(std::span<const CellCall> calls, bool together, Instant deadline, uint64_t ticket,
            CellSink* sink) noexcept override;
  [[nodiscard]] uint32_t PlaceOf(std::string_view) const noexcept override { return 0; }
  [[nodiscard]] bool TakesJoin(std::string_view, const CellShape& shape) const noexcept override {
    return shape.algorithm == Algorithm::kTokenBucket && !shape.concurrency;
  }

  bool cut_off = false;
  bool dead = false;
  Instant last_arrival;

 private:
  friend class Simulation;
  Simulation& simulation_;
};

class NodeLoop final : public StoreLoop {
 public:
  explicit NodeLoop(World& world) : world_(world) {}
  [[nodiscard]] Instant Now() const noexcept override { return world_.now(); }
  void WakeAt(Instant when) noexcept override {
    when = std::max(when, world_.now());
    if (when >= wake_) return;
    wake_ = when;
    world_.At(when, [this, when] {
      if (dead || wake_ != when) return;  // an earlier one took its place
      wake_ = Instant::max();
      store->Turn(world_.now());
    });
  }
  SharedStore* store = nullptr;
  bool dead = false;

 private:
  World& world_;
  Instant wake_ = Instant::max();
};

// One life of a node.
struct Node {
  Node(Simulation& simulation, World& world) : loop(world), link(simulation) {}
  NodeLoop loop;
  Link link;
  std::unique_ptr<engine::Engine> engine;
  std::unique_ptr<SharedStore> store;
  std::map<std::string, std::vector<Admission>> by_share;  // of rules
};

// One request.
struct Played {
  Node* node = nullptr;
  std::unique_ptr<engine::Attempt> attempt;
  Instant deadline;
  bool answered = false;
};

class Simulation final : public engine::TakeSink {
 public:
  Simulation(uint64_t seed, SimulationCounts& counts) : world_(seed), counts_(counts) {
    Draw(seed);
  }

  std::string Run() {
    for (int i = 0; i < setting_.nodes; ++i)
      Start(i);
    world_.After(milliseconds(100), [this] { Disturb(); });
    const Instant end = world_.now() + kRunFor;
    stop_at_ = end - milliseconds(500);
    while (broken_.empty() && world_.RunOne(end)) {
    }
    if (broken_.empty()) CheckEnd();
    for (const std::unique_ptr<Node>& node : lives_)
      Count(*node);
    return broken_;
  }

  void OnTaken(uint64_t ticket, std::span<const engine::TakeOutcome> outcomes) noexcept override;

 private:
  friend class Link;

  void Draw(uint64_t seed);
  void Start(int number);
  void Disturb();
  void Crash(int number);
  void Request(int number, Node* node);
  void Ended(uint64_t ticket);
  void Book(const Node& node, const engine::RemoteTake& take, const engine::TakeOutcome& outcome);
  void PassDues(Node& node, const engine::Attempt& attempt);
  void CheckGrants();
  // What the cell of a take would be asked.
  struct Question {
    std::string key;
    CellShape shape;
    int64_t cost = 0;
  };
  [[nodiscard]] Question QuestionOf(const engine::RemoteTake& take) const;
  void CheckRefusals(const StoreStatus& before, const StoreStatus& after, const Question& question);
  void CheckEnd();
  void Count(const Node& node);
  void Break(const std::string& what) {
    if (broken_.empty()) broken_ = what;
  }
  [[nodiscard]] int64_t ServerUs() const {
    return NsOf(world_.now()) / 1000 + setting_.server_ahead_us;
  }

  World world_;
  SimulationCounts& counts_;
  Setting setting_;
  testing::MemoryCells cells_;
  std::vector<std::unique_ptr<Node>> lives_;  // all, the dead ones too
  std::vector<Node*> nodes_;                  // the living
  std::map<uint64_t, Played> played_;
  uint64_t last_ticket_ = 0;
  // Units that requests hold that a store admitted, and those that it took ahead.
  int64_t held_ = 0;
  int64_t slots_ = 0;
  int64_t asked_back_ = 0;
  std::vector<Admission> by_store_;  // of the first rule
  std::map<std::pair<const Node*, std::string>, int64_t> in_progress_;
  Instant stop_at_;
  std::string broken_;
};

void Link::Call(std::span<const CellCall> calls, bool together, Instant deadline, uint64_t ticket,
                CellSink* sink) noexcept {
  struct Sent {
    std::vector<CellCall> calls;
    std::deque<std::pair<std::string, std::string>> texts;
    std::deque<CellShape> shapes;
    bool ended = false;
  };
  World& world = simulation_.world_;
  const auto sent = std::make_shared<Sent>();
  for (const CellCall& call : calls) {
    sent->texts.emplace_back(call.key, call.owner);
    sent->shapes.push_back(*call.shape);
    CellCall& copy = sent->calls.emplace_back(call);
    copy.key = sent->texts.back().first;
    copy.owner = sent->texts.back().second;
    copy.shape = &sent->shapes.back();
  }
  const auto end = [this, sent, ticket, sink](std::span<const CellReply> replies) {
    if (dead || std::exchange(sent->ended, true)) return;
    sink->OnReplies(ticket, replies);
  };
  const auto give_up = [sent, end](CellReply::Status status) {
    std::vector<CellReply> replies(sent->calls.size());
    for (CellReply& reply : replies)
      reply.status = status;
    end(replies);
  };
  const Setting& setting = simulation_.setting_;
  // Sometimes it is known that nothing left.
  if (cut_off && world.Chance(0.5)) {
    world.At(std::min(world.now() + microseconds(10), deadline),
             [give_up] { give_up(CellReply::Status::kFailed); });
    return;
  }
  world.At(deadline, [this, sent, give_up] {
    if (!sent->ended) ++simulation_.counts_.unknown;
    give_up(CellReply::Status::kUnknown);
  });
  if (cut_off || world.Chance(setting.loss)) return;
  const auto delay = [&] { return Duration(world.Between(50'000, setting.delay_max.count())); };
  // A connection keeps its order.
  last_arrival = std::max(last_arrival + Duration(1), world.now() + delay());
  const Duration back = delay();
  const bool lost = world.Chance(setting.loss);
  world.At(last_arrival, [this, sent, together, end, back, lost, &world] {
    const auto replies = std::make_shared<std::vector<CellReply>>(
        simulation_.cells_.Run(sent->calls, together, simulation_.ServerUs()));
    if (lost || cut_off) return;
    world.After(back, [end, replies] { end(*replies); });
  });
}

void Simulation::Draw(uint64_t seed) {
  Setting& s = setting_;
  const auto any = [this](auto... values) {
    const auto list = {values...};
    return *(list.begin() + world_.Between(0, static_cast<int64_t>(list.size()) - 1));
  };
  s.nodes = static_cast<int>(world_.Between(1, 4));
  Rule rule = testing::SharedRule("first", world_.Between(4, 60), milliseconds(any(200, 500, 1000)),
                                  StoreFailurePolicy::kLocal);
  rule.algorithm =
      any(Algorithm::kTokenBucket, Algorithm::kTokenBucket, Algorithm::kSlidingLog,
          Algorithm::kFixedWindow, Algorithm::kSlidingWindow, Algorithm::kSlidingBuckets);
  const bool plain = rule.algorithm != Algorithm::kSlidingLog;
  const bool small = rule.algorithm != Algorithm::kSlidingBuckets && plain;
  s.cost_max = any(1, 1, 3);
  switch (world_.Between(0, 3)) {
    case 0:
      if (plain) {
        rule.rate.limit *= 20;
        rule.lease.overshoot = world_.Between(2, 40);
      }
      break;
    case 1:
      rule.prefilter = small;
      break;
    case 2:
      if (rule.rate.limit >= 12) rule.shards = static_cast<int>(world_.Between(2, 4));
      break;
    default:
      break;
  }
  s.rules.push_back(rule);
  if (world_.Chance(0.4)) {
    s.rules.push_back(
        testing::SharedRule("second", world_.Between(2, 40), milliseconds(500),
                            any(StoreFailurePolicy::kClosed, StoreFailurePolicy::kLocal)));
    s.rules.back().shadow = world_.Chance(0.2);
  }
  if (world_.Chance(0.3)) {
    Rule slots = testing::ConcurrencyRule("slots", world_.Between(2, 10));
    slots.scope = Scope::kShared;
    slots.on_store_failure = StoreFailurePolicy::kClosed;
    s.rules.push_back(slots);
  }
  // A third of the runs have a quiet network, so that what is exact is seen to be.
  const bool quiet = seed % 3 == 0;
  s.loss = quiet ? 0 : any(0.0, 0.01, 0.1);
  s.delay_max = quiet ? milliseconds(1) : milliseconds(any(1, 5, 25));
  s.crash = quiet ? 0 : any(0.0, 0.0, 0.05);
  s.partition = quiet ? 0 : any(0.0, 0.05, 0.2);
  s.give_back = any(0.0, 0.0, 0.1);
  s.server_ahead_us = world_.Between(-1'000'000'000, 1'000'000'000);
  const int64_t per_window = std::max<int64_t>(rule.rate.limit, 8) * any(1, 2, 3);
  s.every = Duration(rule.rate.window.count() * s.nodes / per_window);
}

void Simulation::Start(int number) {
  if (static_cast<size_t>(number) >= nodes_.size()) nodes_.resize(static_cast<size_t>(number) + 1);
  lives_.push_back(std::make_unique<Node>(*this, world_));
  Node& node = *lives_.back();
  engine::EngineOptions engine_options;
  engine_options.cell_capacity = 64;
  engine_options.state_bytes = 256 * 1024;
  engine_options.hash_seed = 1;
  engine_options.remote_allowed = true;
  engine_options.fallback_nodes = setting_.nodes;
  auto engine = engine::Engine::Create(engine_options);
  RuleSet set;
  set.rules = setting_.rules;
  if (!engine.ok() || !(*engine)->Load(set).ok()) return Break("the rules do not load");
  node.engine = *std::move(engine);
  SharedStoreOptions options;
  options.owner = "life-" + std::to_string(lives_.size());
  options.nodes = setting_.nodes;
  options.seed = static_cast<uint64_t>(number) + 1;
  node.store = std::make_unique<SharedStore>(options, node.loop, node.link);
  node.loop.store = node.store.get();
  nodes_[static_cast<size_t>(number)] = &node;
  world_.After(Duration(world_.Between(0, setting_.every.count())),
               [this, number, &node] { Request(number, &node); });
}

// Cuts nodes off and joins them again, kills them and starts others.
void Simulation::Disturb() {
  if (world_.now() > stop_at_) {
    for (Node* const node : nodes_)
      node->link.cut_off = false;
    return;
  }
  for (int i = 0; i < setting_.nodes; ++i) {
    Link& link = nodes_[static_cast<size_t>(i)]->link;
    if (world_.Chance(link.cut_off ? 0.3 : setting_.partition)) link.cut_off = !link.cut_off;
    if (world_.Chance(setting_.crash)) Crash(i);
  }
  // Sometimes it is the server that nobody reaches.
  if (world_.Chance(setting_.partition / 4)) {
    for (Node* const node : nodes_)
      node->link.cut_off = true;
  }
  world_.After(milliseconds(100), [this] { Disturb(); });
}

void Simulation::Crash(int number) {
  Node& node = *nodes_[static_cast<size_t>(number)];
  node.link.dead = true;
  node.loop.dead = true;
  ++counts_.crashes;
  for (auto at = played_.begin(); at != played_.end();) {
    if (at->second.node != &node) {
      ++at;
      continue;
    }
    node.engine->Cancel(*at->second.attempt, world_.now());
    at = played_.erase(at);
  }
  for (auto& [key, slots] : in_progress_) {
    if (key.first == &node) slots_ -= std::exchange(slots, 0);
  }
  Start(number);
}

void Simulation::Request(int number, Node* node) {
  if (node->link.dead || world_.now() > stop_at_) return;
  world_.After(Duration(world_.Between(1, setting_.every.count() * 2)),
               [this, number, node] { Request(number, node); });
  // Now and then several at once, so that there is something to coalesce.
  const int64_t count = world_.Chance(0.2) ? world_.Between(2, 6) : 1;
  for (int64_t i = 0; i < count && broken_.empty(); ++i) {
    ++counts_.requests;
    const uint64_t ticket = ++last_ticket_;
    Played& played = played_[ticket];
    played.node = node;
    played.attempt = std::make_unique<engine::Attempt>();
    played.deadline = world_.now() + kDeadline;
    engine::Attempt& attempt = *played.attempt;
    testing::FakeRequest request("r");
    request.cost = world_.Between(1, setting_.cost_max);
    const engine::Step step =
        node->engine->Begin(attempt, request, engine::Mode::kEnter, world_.now());
    if (step != engine::Step::kRemote) return Break("a request did not need the store");
    const StoreStatus before = node->store->status();
    const Question question = QuestionOf(attempt.remote_takes()[0]);
    const Instant deadline = played.deadline;
    node->store->Take(attempt.remote_takes(), world_.now(), deadline, ticket, this);
    CheckRefusals(before, node->store->status(), question);
    world_.At(deadline + Duration(1), [this, ticket] {
      const auto found = played_.find(ticket);
      if (found != played_.end() && !found->second.answered) Break("no answer by the deadline");
    });
  }
}

Simulation::Question Simulation::QuestionOf(const engine::RemoteTake& take) const {
  Question question;
  question.shape = ShapeOf(take, 0);
  question.key = CellKey(take, question.shape).text();
  question.cost = take.cost;
  return question;
}

// What was refused without asking, the server would refuse too.
void Simulation::CheckRefusals(const StoreStatus& before, const StoreStatus& after,
                               const Question& question) {
  const Rule& rule = setting_.rules[0];
  if (rule.shards > 1 || setting_.rules.size() > 1) return;
  const bool prefiltered = after.prefiltered > before.prefiltered;
  // What others give back is noticed late.
  const bool nothing_returns = setting_.give_back == 0 && rule.lease.overshoot == 0;
  const bool denied = after.denied > before.denied && nothing_returns;
  if (!prefiltered && !denied) return;
  const limit::Numbers numbers =
      cells_.Look(question.key, question.shape, question.cost, ServerUs());
  if (numbers.allowed) {
    Break(std::string(prefiltered ? "the prefilter" : "a remembered refusal") +
          " refused what the server would have granted");
  }
}

void Simulation::OnTaken(uint64_t ticket, std::span<const engine::TakeOutcome> outcomes) noexcept {
  const auto found = played_.find(ticket);
  if (found == played_.end() || found->second.answered) return Break("answered twice, or unasked");
  Played& played = found->second;
  Node& node = *played.node;
  engine::Attempt& attempt = *played.attempt;
  played.answered = true;
  if (world_.now() > played.deadline) return Break("answered after the deadline");
  const std::span<const engine::RemoteTake> takes = attempt.remote_takes();
  for (size_t i = 0; i < takes.size(); ++i)
    Book(node, takes[i], outcomes[i]);
  node.engine->Resume(attempt, outcomes, world_.now());
  PassDues(node, attempt);
  CheckGrants();
  if (!attempt.entered()) {
    ++counts_.refused;
    played_.erase(found);
    return;
  }
  for (size_t i = 0; i < takes.size(); ++i) {
    const bool local = outcomes[i].status == engine::TakeOutcome::Status::kFailed;
    const Rule& rule = takes[i].rule->rule;
    if (rule.name == "first" && outcomes[i].status == engine::TakeOutcome::Status::kTaken) {
      by_store_.push_back({NsOf(world_.now()), takes[i].cost});
    }
    if (local && rule.on_store_failure == StoreFailurePolicy::kLocal && !rule.shadow) {
      node.by_share[rule.name].push_back({NsOf(world_.now()), takes[i].cost});
      ++counts_.admitted_by_share;
    }
  }
  world_.After(Duration(world_.Between(1'000, kCallMax.count())),
               [this, ticket] { Ended(ticket); });
}

void Simulation::Ended(uint64_t ticket) {
  const auto found = played_.find(ticket);
  if (found == played_.end()) return;  // its node is dead
  Played& played = found->second;
  if (world_.Chance(setting_.give_back)) {
    ++counts_.given_back;
    played.node->engine->Cancel(*played.attempt, world_.now());
  } else {
    played.node->engine->Settle(*played.attempt, Outcome::kOk, std::nullopt, world_.now());
  }
  PassDues(*played.node, *played.attempt);
  played_.erase(found);
}

// What a store says that it took.
void Simulation::Book(const Node& node, const engine::RemoteTake& take,
                      const engine::TakeOutcome& outcome) {
  if (outcome.status != engine::TakeOutcome::Status::kTaken || outcome.receipt.cost == 0) return;
  ++counts_.admitted_by_store;
  if (take.rule->rule.kind == RuleKind::kConcurrency) {
    slots_ += outcome.receipt.cost;
    in_progress_[{&node, take.rule->rule.name}] += outcome.receipt.cost;
    if (slots_ > setting_.rules.back().concurrency) {
      Break(std::to_string(slots_) + " calls in " +
            std::to_string(setting_.rules.back().concurrency) + " slots");
    }
    return;
  }
  held_ += outcome.receipt.cost;
}

void Simulation::PassDues(Node& node, const engine::Attempt& attempt) {
  for (const engine::Attempt::StoreDue& due : attempt.store_dues()) {
    if (due.take->rule->rule.kind == RuleKind::kConcurrency) {
      slots_ -= due.receipt.cost;
      in_progress_[{&node, due.take->rule->rule.name}] -= due.receipt.cost;
    } else {
      held_ -= due.receipt.cost;
      asked_back_ += due.receipt.cost;
    }
    node.store->GiveBack(*due.take, due.receipt, world_.now());
  }
}

// Units that requests have from a store were given out by the server, and not returned.
void Simulation::CheckGrants() {
  const testing::MemoryCells::Totals& totals = cells_.totals();
  const int64_t given_out =
      totals.granted + totals.leased - totals.given_back - totals.lease_returned;
  if (held_ > given_out) {
    Break("requests hold " + std::to_string(held_) + " units of " + std::to_string(given_out) +
          " that were given out");
  }
}

void Simulation::CheckEnd() {
  const Rule& rule = setting_.rules[0];
  limit::Config config;
  config.rate = rule.rate;
  // Decided at the server up to a deadline before it is known here, which smears windows:
  // what may come late is what the deadline's length brings, and a batch of it at once.
  if (setting_.give_back == 0) {
    limit::Config wider = config;
    wider.rate.window -= 2 * kDeadline;
    if (rule.algorithm != Algorithm::kTokenBucket) {
      const std::string broken =
          HoldAgainst(rule.algorithm, wider, rule.lease.overshoot, by_store_);
      if (!broken.empty()) Break("store: " + broken);
    } else {
      const int64_t smear = rule.rate.limit * kDeadline.count() / rule.rate.window.count() + 1;
      const std::string broken =
          HoldAgainst(rule.algorithm, config, rule.lease.overshoot + smear, by_store_);
      if (!broken.empty()) Break("store: " + broken);
    }
  }
  for (const std::unique_ptr<Node>& node : lives_) {
    for (const auto& by_rule : node->by_share) {
      const std::string& name = by_rule.first;
      const auto& admitted = by_rule.second;
      if (setting_.give_back > 0) continue;
      const Rule& shared = *std::find_if(setting_.rules.begin(), setting_.rules.end(),
                                         [&](const Rule& one) { return one.name == name; });
      limit::Config part;
      part.rate = shared.rate;
      const int nodes = setting_.nodes;
      if (shared.algorithm == Algorithm::kTokenBucket) {
        part.burst = std::max<int64_t>(part.rate.limit / nodes, 1);
        part.rate.window *= nodes;
      } else {
        part.rate.limit = std::max<int64_t>(part.rate.limit / nodes, 1);
      }
      const std::string broken = HoldAgainst(shared.algorithm, part, 0, admitted);
      if (!broken.empty()) Break("share of " + name + ": " + broken);
    }
  }
}

void Simulation::Count(const Node& node) {
  const StoreStatus status = node.store->status();
  counts_.leased += status.leased;
  counts_.denied += status.denied;
  counts_.prefiltered += status.prefiltered;
  counts_.coalesced += status.coalesced;
  counts_.together += status.together;
  counts_.fallbacks += status.fallback_entered;
  // Attempts that are open go with the run.
  for (auto& [ticket, played] : played_) {
    if (played.node == &node) node.engine->Cancel(*played.attempt, world_.now());
  }
}

}  // namespace

SimulationCounts& SimulationCounts::operator+=(const SimulationCounts& other) noexcept {
  requests += other.requests;
  admitted_by_store += other.admitted_by_store;
  admitted_by_share += other.admitted_by_share;
  refused += other.refused;
  unknown += other.unknown;
  leased += other.leased;
  denied += other.denied;
  prefiltered += other.prefiltered;
  coalesced += other.coalesced;
  together += other.together;
  given_back += other.given_back;
  crashes += other.crashes;
  fallbacks += other.fallbacks;
  return *this;
}

std::string Simulate(uint64_t seed, SimulationCounts& counts) {
  Simulation simulation(seed, counts);
  const std::string broken = simulation.Run();
  return broken.empty() ? broken : "seed " + std::to_string(seed) + ": " + broken;
}

}  // namespace flowguard::quota
