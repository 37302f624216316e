// SPDX-License-Identifier: Apache-2.0
#include "guard/sampler_thread.h"

#include <utility>

#include "base/system_now.h"

namespace flowguard::guard {

SamplerThread::SamplerThread(engine::Engine& engine, std::string root)
    : sampler_(engine, std::move(root)), thread_([this] { Run(); }) {}

SamplerThread::~SamplerThread() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void SamplerThread::Run() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    lock.unlock();
    sampler_.Sample(base::SystemNow());
    lock.lock();
    wake_.wait_for(lock, kSampleEvery, [this] { return ends_; });
  }
}

}  // namespace flowguard::guard
