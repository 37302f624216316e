// SPDX-License-Identifier: Apache-2.0
//
// Nodes that share limits over a network that loses, delays and cuts off, all in one
// thread and by one clock: the same seed is the same run.
//
// Each node has an engine and a store; one server decides the cells.  The simulation
// plays requests at the nodes and holds what was admitted against what may be:
//
//   grants     no request is admitted by a store without a unit that the server gave out
//              and that was not given back
//   limit      what the store admitted, at the time when it was decided, keeps the bound
//              of its algorithm, with leases at most the overshoot more
//   share      what a node admitted while the store was away keeps the bound of its share
//   prefilter  a refusal by it is one that the server would have given
//   slots      no more calls are in progress than there are slots
//   deadline   every take is answered by its deadline
//
// A node that restarts is a node more for the bounds of shares: it has forgotten what it
// granted.
//
// Faults: lost questions and replies, replies after the deadline, partitions, crashes,
// restarts.  Nothing is duplicated, for a connection does not.
#pragma once

#include <cstdint>
#include <string>

namespace flowguard::quota {

// What a run did, so that a test can tell that it did something.
struct SimulationCounts {
  uint64_t requests = 0;
  uint64_t admitted_by_store = 0;
  uint64_t admitted_by_share = 0;
  uint64_t refused = 0;
  uint64_t unknown = 0;
  uint64_t leased = 0;
  uint64_t denied = 0;
  uint64_t prefiltered = 0;
  uint64_t coalesced = 0;
  uint64_t together = 0;
  uint64_t given_back = 0;
  uint64_t crashes = 0;
  uint64_t fallbacks = 0;

  SimulationCounts& operator+=(const SimulationCounts& other) noexcept;
};

// Plays the run of `seed`.  Returns what was broken, with the seed; empty: nothing.
std::string Simulate(uint64_t seed, SimulationCounts& counts);

}  // namespace flowguard::quota
