// SPDX-License-Identifier: Apache-2.0
//
// A SystemSampler with a thread of its own, for a program that has no loop.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "engine/engine.h"
#include "guard/system_sampler.h"

namespace flowguard::guard {

// Threads: made and destroyed by one; the destructor waits for a reading under way.
class SamplerThread {
 public:
  // `engine` must outlive it.
  SamplerThread(engine::Engine& engine, std::string root);
  ~SamplerThread();
  SamplerThread(const SamplerThread&) = delete;
  SamplerThread& operator=(const SamplerThread&) = delete;

 private:
  void Run();

  SystemSampler sampler_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ends_ = false;  // under mutex_
  std::thread thread_;
};

}  // namespace flowguard::guard
