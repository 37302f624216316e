// SPDX-License-Identifier: Apache-2.0
#include "quota/io_thread.h"

#include <future>
#include <utility>

#include "base/check.h"
#include "base/try.h"

namespace flowguard::quota {

Result<std::unique_ptr<IoThread>> IoThread::Start(const Clock& clock) {
  FG_ASSIGN_OR_RETURN(std::unique_ptr<net::Loop> loop, net::Loop::Create(clock));
  return std::unique_ptr<IoThread>(new IoThread(std::move(loop)));
}

IoThread::IoThread(std::unique_ptr<net::Loop> loop)
    : loop_(std::move(loop)), thread_([this] { loop_->Run(); }) {}

IoThread::~IoThread() {
  loop_->Stop();
  thread_.join();
}

void IoThread::PostAndWait(const std::function<void()>& work) {
  FG_CHECK(std::this_thread::get_id() != thread_.get_id());
  std::promise<void> done;
  loop_->Post([&] {
    work();
    done.set_value();
  });
  done.get_future().wait();
}

}  // namespace flowguard::quota
