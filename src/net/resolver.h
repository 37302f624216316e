// SPDX-License-Identifier: Apache-2.0
//
// Names asked of the system's resolver without holding up the loop.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "net/address.h"
#include "net/loop.h"

namespace flowguard::net {

// Told of the end of a search.
class ResolverUser {
 public:
  // `found` is empty when the name has no address.
  virtual void OnResolved(const std::vector<Address>& found) noexcept = 0;

 protected:
  ~ResolverUser() = default;
};

// One search at a time.  The C library asks on a thread of its own; the loop looks
// for the end of it every few milliseconds.
//
// Threads: the loop's.
class Resolver {
 public:
  Resolver(Loop& loop, ResolverUser& user) noexcept;
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // Looks for "host:port"; the user is told, not from inside.  Gives up an earlier search.
  void Start(const std::string& host_port);
  void Cancel() noexcept;

 private:
  static constexpr Duration kLookEvery = std::chrono::milliseconds(2);
  struct Search;
  void Look() noexcept;

  Loop& loop_;
  ResolverUser& user_;
  std::unique_ptr<Search> search_;
  Timer timer_;
};

}  // namespace flowguard::net
