// SPDX-License-Identifier: Apache-2.0
//
// A mutex that clang's thread-safety analysis understands, and the words to say
// what it guards.  With other compilers the words mean nothing.
//
//   mutable base::Mutex mutex_;
//   std::vector<Rule> rules_ FG_GUARDED_BY(mutex_);
//   ...
//   base::MutexLock lock(mutex_);
#pragma once

#include <mutex>

#if defined(__clang__)
#define FG_THREAD_ANNOTATION_(x) __attribute__((x))
#else
#define FG_THREAD_ANNOTATION_(x)
#endif

// On a member: only read or written with `mutex` held.
#define FG_GUARDED_BY(mutex) FG_THREAD_ANNOTATION_(guarded_by(mutex))
// On a pointer member: what it points to is guarded.
#define FG_PT_GUARDED_BY(mutex) FG_THREAD_ANNOTATION_(pt_guarded_by(mutex))
// On a function: the caller holds, or must not hold, the mutex.
#define FG_REQUIRES(...) FG_THREAD_ANNOTATION_(requires_capability(__VA_ARGS__))
#define FG_EXCLUDES(...) FG_THREAD_ANNOTATION_(locks_excluded(__VA_ARGS__))
#define FG_ACQUIRE(...) FG_THREAD_ANNOTATION_(acquire_capability(__VA_ARGS__))
#define FG_RELEASE(...) FG_THREAD_ANNOTATION_(release_capability(__VA_ARGS__))
#define FG_TRY_ACQUIRE(...) FG_THREAD_ANNOTATION_(try_acquire_capability(__VA_ARGS__))

namespace flowguard::base {

// Threads: any.  Not recursive.
class FG_THREAD_ANNOTATION_(capability("mutex")) Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() FG_ACQUIRE() { mutex_.lock(); }
  void Unlock() FG_RELEASE() { mutex_.unlock(); }
  [[nodiscard]] bool TryLock() FG_TRY_ACQUIRE(true) { return mutex_.try_lock(); }

  // For std::condition_variable_any.
  void lock() FG_ACQUIRE() { mutex_.lock(); }      // NOLINT(readability-identifier-naming)
  void unlock() FG_RELEASE() { mutex_.unlock(); }  // NOLINT(readability-identifier-naming)

 private:
  std::mutex mutex_;
};

// Holds a Mutex for a block.
class FG_THREAD_ANNOTATION_(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) FG_ACQUIRE(mutex) : mutex_(mutex) { mutex_.Lock(); }
  ~MutexLock() FG_RELEASE() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace flowguard::base
