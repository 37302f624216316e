// SPDX-License-Identifier: Apache-2.0
//
// Counts what each thread allocates, in place of the standard operators.  Included by one
// source of a program.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

thread_local int64_t allocations = 0;

}  // namespace

// GCC takes the pair of malloc and free for a mismatch of new and delete.
#pragma GCC diagnostic push
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif
void* operator new(size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  std::abort();
}
// std::stable_sort asks this way for its buffer, and gives it back the other.
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size);
}
// Cache lines of their own: the size is a multiple of what they are aligned to.
void* operator new(size_t size, std::align_val_t alignment) {
  ++allocations;
  if (void* memory = std::aligned_alloc(static_cast<size_t>(alignment), size)) return memory;
  std::abort();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}
#pragma GCC diagnostic pop
