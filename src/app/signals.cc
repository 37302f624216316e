// SPDX-License-Identifier: Apache-2.0
#include "app/signals.h"

#include <csignal>
#include <utility>

#include <sys/signalfd.h>
#include <unistd.h>

namespace flowguard::app {
namespace {

sigset_t Watched() noexcept {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGHUP, SIGTERM, SIGINT})
    sigaddset(&set, number);
  return set;
}

}  // namespace

void BlockReloadSignal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  static_cast<void>(std::signal(SIGPIPE, SIG_IGN));  // a client that left is an error of the write
}

void BlockSignals() {
  const sigset_t set = Watched();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

Result<std::unique_ptr<SignalWatch>> SignalWatch::Create(net::Loop& loop,
                                                         std::function<void(int)> on_signal) {
  const sigset_t set = Watched();
  net::Fd fd(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!fd) return Error{ErrorCode::kResourceExhausted, "signals cannot be watched"};
  const int raw = fd.get();
  std::unique_ptr<SignalWatch> watch(new SignalWatch(loop, std::move(fd), std::move(on_signal)));
  if (!loop.Watch(raw, *watch)) {
    return Error{ErrorCode::kResourceExhausted, "signals cannot be watched"};
  }
  return watch;
}

SignalWatch::SignalWatch(net::Loop& loop, net::Fd fd, std::function<void(int)> on_signal)
    : loop_(loop), fd_(std::move(fd)), on_signal_(std::move(on_signal)) {}

SignalWatch::~SignalWatch() {
  loop_.Unwatch(fd_.get());
}

void SignalWatch::OnReady(net::Ready /*ready*/) noexcept {
  signalfd_siginfo info;
  while (read(fd_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    on_signal_(static_cast<int>(info.ssi_signo));
  }
}

}  // namespace flowguard::app
