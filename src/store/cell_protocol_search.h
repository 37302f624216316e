// SPDX-License-Identifier: Apache-2.0
//
// For the tests of cell_protocol.h.  Every interleaving of two or three threads on a tiny table,
// run through the real cell_protocol.h.
//
// The protocol is written over a Memory.  Here the memory is a recording: a
// thread's call is run again from the start with the answers that it was given so
// far, and the first step for which there is no answer yet is its next step.  A
// state of the search is the table and the answers of each thread; from every
// state every thread is stepped once, and each state is visited once.  Where the
// protocol forgets what it saw (it starts again, it missed the key, it made its
// claim), so does the recording, and many ways become one state.  That the search
// ends at all shows that no schedule makes the threads retry for ever.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/hash.h"
#include "store/cell_protocol.h"

namespace flowguard::store {

inline constexpr int64_t kNow = 1000;
inline constexpr int64_t kUnit = 10;  // a take moves the word this far
inline constexpr int64_t kStepsMax = 200;
inline constexpr size_t kOwners = 5;  // nobody, three keys, and one that only fills places

enum class Op : uint8_t { kLoadOwner, kLoad, kSwap, kStashUsed, kMarkStash };

struct Request {
  Op op{};
  size_t slot = 0;
  Cell expected;
  Cell desired;
  friend bool operator==(const Request&, const Request&) = default;
};

// The table.  Owner k's hidden count of lost cells is kept so that a check can
// tell forgetting from failing.
struct World {
  std::vector<Cell> slots;
  bool stash_used = false;
  int64_t latest = kNow;            // the clock that is ahead of all
  std::array<int, kOwners> lost{};  // live cells overwritten by a claim, by owner

  Cell Apply(const Request& request) {
    switch (request.op) {
      case Op::kLoadOwner:
        return {slots[request.slot].owner, 0};
      case Op::kLoad:
        return slots[request.slot];
      case Op::kStashUsed:
        return {stash_used ? 1U : 0U, 0};
      case Op::kMarkStash:
        stash_used = true;
        return {};
      case Op::kSwap:
        break;
    }
    Cell& cell = slots[request.slot];
    if (cell != request.expected) return {0, 0};
    if (cell.word > latest && request.desired.word < 0) ++lost[cell.owner];
    cell = request.desired;
    return {1, 0};
  }
};

// Answers from a recording; once that is used up, notes the request and lets the
// caller run out on an empty table.
template <size_t kSlots>
class Replay {
 public:
  static constexpr size_t kSlotsPerBucket = kSlots;

  Replay(const std::vector<Cell>& answers, int64_t first_claim)
      : answers_(answers), claim_(first_claim) {}

  uint32_t OwnedBy(size_t start, uint64_t owner) {
    uint32_t mask = 0;
    for (size_t i = 0; i < kSlots; ++i) {
      const Cell found = Ask({Op::kLoadOwner, start + i, {}, {}}, {});
      mask |= uint32_t{found.owner == owner} << i;
    }
    return mask;
  }
  Cell Load(size_t slot) { return Ask({Op::kLoad, slot, {}, {}}, {}); }
  bool Swap(size_t slot, const Cell& expected, const Cell& desired) {
    return Ask({Op::kSwap, slot, expected, desired}, {1, 0}).owner != 0;
  }
  bool StashUsed() { return Ask({Op::kStashUsed, 0, {}, {}}, {}).owner != 0; }
  void MarkStashUsed() { Ask({Op::kMarkStash, 0, {}, {}}, {}); }
  int64_t NewClaim() {
    if (!waiting_) ++claims_;
    claiming_ = true;
    return claim_ - 4 * (claims_ - 1);
  }
  void CountEviction() {}
  void CountStashInsert() {}

  // The function of the call tells that it is run.
  void NoteRun() { run_since_answer_ = run_since_answer_ || !waiting_; }

  [[nodiscard]] bool ended() const { return !waiting_; }
  [[nodiscard]] const Request& request() const { return request_; }
  [[nodiscard]] int64_t claims() const { return claims_; }

  // Starts over: the first place again, and not as a part of inserting.
  [[nodiscard]] bool restarted(size_t first_slot) const {
    return waiting_ && used_ > 0 && request_.op == Op::kLoadOwner && request_.slot == first_slot &&
           !run_at_request_ && !claimed_;
  }
  // Has looked everywhere, found nothing, and is about to insert.
  [[nodiscard]] bool missed() const { return waiting_ && run_at_request_ && only_looked_; }
  // Has just made its claim, in the slot of the last answer.
  [[nodiscard]] bool claimed() const { return waiting_ && claimed_; }
  [[nodiscard]] size_t claimed_slot() const { return last_.slot; }

 private:
  Cell Ask(const Request& request, const Cell& otherwise) {
    if (waiting_) return otherwise;
    if (used_ == answers_.size()) {
      waiting_ = true;
      request_ = request;
      run_at_request_ = run_since_answer_;
      return otherwise;
    }
    const Cell& answer = answers_[used_++];
    claimed_ = claiming_ && request.op == Op::kSwap && answer.owner != 0;
    claiming_ = false;
    only_looked_ = only_looked_ && (request.op == Op::kLoadOwner || request.op == Op::kStashUsed) &&
                   !run_since_answer_;
    run_since_answer_ = false;
    last_ = request;
    return answer;
  }

  const std::vector<Cell>& answers_;
  int64_t claim_;
  int64_t claims_ = 0;
  size_t used_ = 0;
  bool waiting_ = false;
  bool claiming_ = false;
  bool claimed_ = false;
  bool only_looked_ = true;
  bool run_since_answer_ = false;
  bool run_at_request_ = false;
  Request request_;
  Request last_;
};

enum class Kind : uint8_t { kTake, kGiveBack, kPeek };

struct Call {
  Kind kind{};
  uint64_t key = 1;
  int64_t now = kNow;
  int64_t capacity = 1;  // of takes, in units
};

using Program = std::vector<Call>;

// A take as a GCRA does it.
inline bool Take(int64_t& word, const Call& call) {
  const int64_t next = std::max(word, call.now) + kUnit;
  if (next > call.now + call.capacity * kUnit) return false;
  word = next;
  return true;
}

inline bool GiveBack(int64_t& word) {
  word -= kUnit;
  return true;
}

// What a run of all programs came to: the answers in order of thread and call, and
// what each key owes at the end.
struct Outcome {
  std::vector<int64_t> answers;
  std::array<int64_t, kOwners> debt{};
  friend auto operator<=>(const Outcome&, const Outcome&) = default;
};

inline std::string ToString(const Outcome& outcome) {
  std::string text = "answers";
  for (const int64_t answer : outcome.answers)
    text += " " + std::to_string(answer);
  text += " debts";
  for (const int64_t debt : outcome.debt)
    text += " " + std::to_string(debt);
  return text;
}

// The same calls on a plain map, one whole call at a time, in every order.
class Specification {
 public:
  explicit Specification(const std::vector<Program>& programs, std::array<int64_t, kOwners> words)
      : programs_(programs) {
    std::vector<size_t> next(programs.size(), 0);
    std::vector<std::vector<int64_t>> answers(programs.size());
    for (const Program& program : programs) {
      for (const Call& call : program)
        latest_ = std::max(latest_, call.now);
    }
    Explore(next, answers, words);
  }

  [[nodiscard]] int64_t latest() const { return latest_; }
  [[nodiscard]] bool Allows(const Outcome& outcome) const { return outcomes_.contains(outcome); }

 private:
  void Explore(std::vector<size_t> next, const std::vector<std::vector<int64_t>>& answers,
               const std::array<int64_t, kOwners>& words) {
    bool ended = true;
    for (size_t t = 0; t < programs_.size(); ++t) {
      if (next[t] == programs_[t].size()) continue;
      ended = false;
      const Call& call = programs_[t][next[t]];
      ++next[t];
      Step(t, call, next, answers, words);
      // Who is ahead may have forgotten what for others is not over yet.
      if (words[call.key] != 0 && words[call.key] <= latest_) {
        auto forgotten = words;
        forgotten[call.key] = 0;
        Step(t, call, next, answers, forgotten);
      }
      --next[t];
    }
    if (!ended) return;
    Outcome outcome;
    for (const auto& of_thread : answers) {
      outcome.answers.insert(outcome.answers.end(), of_thread.begin(), of_thread.end());
    }
    for (size_t k = 1; k < 4; ++k)
      outcome.debt[k] = Debt(words[k]);
    outcomes_.insert(outcome);
  }

  void Step(size_t thread, const Call& call, const std::vector<size_t>& next,
            std::vector<std::vector<int64_t>> answers, std::array<int64_t, kOwners> words) {
    int64_t& word = words[call.key];
    const bool live = word > call.now;
    int64_t seen = live ? word : 0;
    int64_t answer = 0;
    switch (call.kind) {
      case Kind::kTake:
        answer = Take(seen, call) ? 1 : 0;
        if (answer != 0) word = seen;
        break;
      case Kind::kGiveBack:
        answer = live ? 1 : 0;
        if (live) word -= kUnit;
        break;
      case Kind::kPeek:
        answer = seen;
        break;
    }
    answers[thread].push_back(answer);
    Explore(next, answers, words);
  }

 public:
  [[nodiscard]] int64_t Debt(int64_t word) const { return std::max(word - latest_, int64_t{0}); }

 private:
  const std::vector<Program>& programs_;
  int64_t latest_ = 0;
  std::set<Outcome> outcomes_;
};

// Where one thread stands.
struct Local {
  size_t call = 0;               // that it is in
  std::vector<int64_t> results;  // of calls that ended
  std::vector<Cell> answers;     // to the steps of this call
  int64_t claims = 0;            // made before those
};

template <size_t kSlots>
class Search {
 public:
  // Keys 1 and 2 have the first two buckets in opposite order; key 3 shares key 1's.
  static CellPlaces PlacesOf(uint64_t key) {
    if (key == 2) return {{kSlots, 0, 2 * kSlots}};
    return {{0, kSlots, 2 * kSlots}};
  }

  Search(std::vector<Program> programs, World world, bool may_evict)
      : programs_(std::move(programs)),
        may_evict_(may_evict),
        specification_(programs_, WordsOf(world)) {
    world.latest = specification_.latest();
    Visit(world, std::vector<Local>(programs_.size()));
  }

  [[nodiscard]] size_t states() const { return seen_.size(); }
  [[nodiscard]] size_t ends() const { return ends_; }

 private:
  static std::array<int64_t, kOwners> WordsOf(const World& world) {
    std::array<int64_t, kOwners> words{};
    for (const Cell& cell : world.slots) {
      if (cell.owner != 0) words[cell.owner] = cell.word;
    }
    return words;
  }

  // Runs the thread's current call on its answers.
  static int64_t Run(const Call& call, Replay<kSlots>& memory) {
    CellProtocol<Replay<kSlots>> protocol(memory);
    const CellPlaces places = PlacesOf(call.key);
    int64_t answer = 0;
    switch (call.kind) {
      case Kind::kTake: {
        auto take = [&](int64_t& word) {
          memory.NoteRun();
          answer = Take(word, call) ? 1 : 0;
          return answer != 0;
        };
        protocol.Update(places, call.key, call.now, take);
        break;
      }
      case Kind::kGiveBack: {
        auto give = [&](int64_t& word) {
          memory.NoteRun();
          return GiveBack(word);
        };
        answer = protocol.UpdateExisting(places, call.key, call.now, give) ? 1 : 0;
        break;
      }
      case Kind::kPeek:
        answer = protocol.Read(places, call.key, call.now);
        break;
    }
    return answer;
  }

  static Replay<kSlots> Recording(size_t thread, const Local& local) {
    return Replay<kSlots>(local.answers, -1 - static_cast<int64_t>(thread) - 4 * local.claims);
  }

  // The request that the thread waits with; first forgets what it forgets.
  Request Settle(size_t thread, Local& local) const {
    for (;;) {
      if (local.call == programs_[thread].size()) return {};
      const Call& call = programs_[thread][local.call];
      Replay<kSlots> memory = Recording(thread, local);
      const int64_t result = Run(call, memory);
      if (memory.ended()) {
        local.results.push_back(result);
        ++local.call;
        local.claims += memory.claims();
        local.answers.clear();
        continue;
      }
      Local shorter = local;
      if (memory.restarted(PlacesOf(call.key).start[0])) {
        shorter.answers.clear();
        shorter.claims += memory.claims();
      } else if (memory.missed()) {
        shorter.answers.assign(2 * kSlots + 1, Cell{});
      } else if (memory.claimed()) {
        shorter.answers = AnswersToClaim(call, memory.claimed_slot());
      } else {
        return memory.request();
      }
      Replay<kSlots> again = Recording(thread, shorter);
      Run(call, again);
      EXPECT_EQ(again.request(), memory.request()) << "the recording forgot what mattered";
      local = shorter;
      return memory.request();
    }
  }

  // The plainest way to a claim of that slot: all places before it are live.
  static std::vector<Cell> AnswersToClaim(const Call& call, size_t slot) {
    const CellPlaces places = PlacesOf(call.key);
    std::vector<Cell> answers(2 * kSlots + 1);
    size_t place = 0;
    while (places.start[place / kSlots] + place % kSlots != slot)
      ++place;
    for (size_t i = 0; i < (place / kSlots + 1) * kSlots; ++i) {
      const int64_t word = i < place ? kNow * 100 : 0;
      answers.push_back({3, word});
    }
    if (place >= 2 * kSlots) answers.push_back({});
    answers.push_back({1, 0});
    return answers;
  }

  // By value of what matters: two states of equal text go on alike.
  static std::string TextOf(const World& world, const std::vector<Local>& locals) {
    std::string text;
    const auto add = [&text](const void* bytes, size_t size) {
      text.append(static_cast<const char*>(bytes), size);
    };
    const auto add_all = [&](const auto& items) {
      const size_t size = items.size();
      add(&size, sizeof(size));
      add(items.data(), size * sizeof(items[0]));
    };
    add_all(world.slots);
    text.push_back(world.stash_used ? '1' : '0');
    add_all(world.lost);
    for (const Local& local : locals) {
      add(&local.call, sizeof(local.call));
      add(&local.claims, sizeof(local.claims));
      add_all(local.results);
      add_all(local.answers);
    }
    return text;
  }

  void Visit(const World& world, const std::vector<Local>& locals) {
    if (::testing::Test::HasFailure()) return;
    std::vector<Local> settled = locals;
    std::vector<Request> requests;
    for (size_t t = 0; t < programs_.size(); ++t)
      requests.push_back(Settle(t, settled[t]));
    const base::Hash128 name = base::HashOf(TextOf(world, settled), 0);
    if (!seen_.emplace(name.low, name.high).second) return;
    CheckOneCellAKey(world);
    bool all_ended = true;
    for (size_t t = 0; t < programs_.size(); ++t) {
      if (settled[t].call == programs_[t].size()) continue;
      all_ended = false;
      ASSERT_LT(settled[t].claims + static_cast<int64_t>(settled[t].answers.size()), kStepsMax)
          << "a thread retries without end";
      World after = world;
      std::vector<Local> next = settled;
      next[t].answers.push_back(after.Apply(requests[t]));
      Visit(after, next);
    }
    if (!all_ended) return;
    std::vector<int64_t> results;
    for (const Local& local : settled) {
      results.insert(results.end(), local.results.begin(), local.results.end());
    }
    CheckEnd(world, results);
  }

  void CheckOneCellAKey(const World& world) {
    std::array<int, kOwners> cells{};
    for (const Cell& cell : world.slots) {
      if (cell.owner != 0 && cell.word >= 0) ++cells[cell.owner];
    }
    for (size_t k = 1; k < cells.size(); ++k)
      ASSERT_LE(cells[k], 1) << "key " << k;
  }

  void CheckEnd(const World& world, const std::vector<int64_t>& results) {
    ++ends_;
    for (const Cell& cell : world.slots)
      ASSERT_GE(cell.word, 0) << "a claim was left behind";
    const int lost = world.lost[1] + world.lost[2] + world.lost[3];
    ASSERT_TRUE(may_evict_ || lost + world.lost[4] == 0)
        << "a live cell was taken though there was room";
    if (lost != 0) return;
    Outcome outcome{results, {}};
    for (size_t k = 1; k < 4; ++k)
      outcome.debt[k] = specification_.Debt(WordsOf(world)[k]);
    ASSERT_TRUE(specification_.Allows(outcome)) << ToString(outcome);
  }

  std::vector<Program> programs_;
  bool may_evict_;
  Specification specification_;
  std::set<std::pair<uint64_t, uint64_t>> seen_;
  size_t ends_ = 0;
};

template <size_t kSlots>
World TableOf(std::vector<Cell> cells) {
  cells.resize(3 * kSlots);
  World world;
  world.slots = std::move(cells);
  return world;
}

template <size_t kSlots>
void Explore(std::vector<Program> programs, World world, bool may_evict = false) {
  const Search<kSlots> search(std::move(programs), std::move(world), may_evict);
  EXPECT_GT(search.ends(), 0U);
  std::printf("  %zu states, %zu ends\n", search.states(), search.ends());
}

inline const Call kTakeA{Kind::kTake, 1, kNow, 1};
inline const Call kTakeB{Kind::kTake, 2, kNow, 1};
inline const Call kTakeC{Kind::kTake, 3, kNow, 1};
inline const Call kTakeA2{Kind::kTake, 1, kNow, 2};
inline const Call kGiveBackA{Kind::kGiveBack, 1, kNow, 0};
inline const Call kPeekA{Kind::kPeek, 1, kNow, 0};

}  // namespace flowguard::store
