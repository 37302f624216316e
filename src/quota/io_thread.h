// SPDX-License-Identifier: Apache-2.0
//
// A loop on a thread of its own, for a program that has none: the embedding library.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "flowguard/clock.h"
#include "flowguard/result.h"

#include "net/loop.h"

namespace flowguard::quota {

class IoThread {
 public:
  // `clock` must outlive it.
  // Errors: as net::Loop::Create.
  static Result<std::unique_ptr<IoThread>> Start(const Clock& clock);
  // Ends the thread after the turn that it is in.  What lives on the loop is destroyed
  // before, by PostAndWait.
  ~IoThread();
  IoThread(const IoThread&) = delete;
  IoThread& operator=(const IoThread&) = delete;

  [[nodiscard]] net::Loop& loop() noexcept { return *loop_; }

  // Runs `work` on the thread, in order of posting.
  // Threads: any.
  void Post(std::function<void()> work) { loop_->Post(std::move(work)); }
  // The same, and returns when it is done.
  // Threads: any but its own.
  void PostAndWait(const std::function<void()>& work);

 private:
  explicit IoThread(std::unique_ptr<net::Loop> loop);

  std::unique_ptr<net::Loop> loop_;
  std::thread thread_;
};

}  // namespace flowguard::quota
