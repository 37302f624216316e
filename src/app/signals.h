// SPDX-License-Identifier: Apache-2.0
//
// Signals as events of a loop: SIGHUP, SIGTERM, SIGINT.
#pragma once

#include <functional>
#include <memory>

#include "flowguard/result.h"

#include "net/loop.h"
#include "net/socket.h"

namespace flowguard::app {

// Blocks SIGHUP for this thread and those that it starts, and ignores SIGPIPE: what
// would end the process while it starts and is no wish that it ends.
void BlockReloadSignal();
// Blocks all three for this thread and those that it starts.  Call it before the first
// thread.
void BlockSignals();

class SignalWatch final : private net::Watcher {
 public:
  // `on_signal` runs on the loop's thread with the signal's number.
  // Errors: kResourceExhausted when the process has no descriptors left.
  static Result<std::unique_ptr<SignalWatch>> Create(net::Loop& loop,
                                                     std::function<void(int)> on_signal);
  ~SignalWatch() override;

 private:
  SignalWatch(net::Loop& loop, net::Fd fd, std::function<void(int)> on_signal);
  void OnReady(net::Ready ready) noexcept override;

  net::Loop& loop_;
  net::Fd fd_;
  std::function<void(int)> on_signal_;
};

}  // namespace flowguard::app
