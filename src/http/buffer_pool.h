// SPDX-License-Identifier: Apache-2.0
//
// Memory that connections borrow while they hold bytes back: a head that has not
// arrived whole, an answer that the client does not take yet.  An idle connection
// holds none.
//
// Three sizes, last in first out, so that the block handed out is warm in the cache.
// Threads: the loop's.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace flowguard::http {

class BufferPool;

// Bytes [begin, end) of a borrowed block.  Empty and without a block by default.
class Buffer {
 public:
  Buffer() noexcept = default;
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer() { Release(); }

  [[nodiscard]] std::string_view view() const noexcept { return {block_ + begin_, end_ - begin_}; }
  [[nodiscard]] size_t size() const noexcept { return end_ - begin_; }
  [[nodiscard]] bool empty() const noexcept { return begin_ == end_; }
  // The block's memory is borrowed, even if no bytes are in it.
  [[nodiscard]] bool borrowed() const noexcept { return block_ != nullptr; }

  // Room for at least `bytes` behind the content; moves the content if need be.
  char* Reserve(BufferPool& pool, size_t bytes);
  void Commit(size_t bytes) noexcept { end_ += bytes; }
  [[nodiscard]] size_t room() const noexcept { return capacity_ - end_; }

  void Append(BufferPool& pool, std::string_view bytes);
  // Forgets `bytes` at the front; the memory stays as it is until the next Reserve.
  void Consume(size_t bytes) noexcept;
  // Takes back the last `bytes` that were consumed.
  void Unconsume(size_t bytes) noexcept;
  void ReleaseIfEmpty() noexcept {
    if (empty()) Release();
  }
  void Release() noexcept;

 private:
  friend class BufferPool;
  char* block_ = nullptr;
  size_t capacity_ = 0;
  size_t begin_ = 0;
  size_t end_ = 0;
  BufferPool* pool_ = nullptr;
};

class BufferPool {
 public:
  BufferPool() = default;
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  ~BufferPool();

  // Bytes lent out now.
  [[nodiscard]] size_t lent_bytes() const noexcept { return lent_bytes_; }

 private:
  friend class Buffer;
  static constexpr std::array<size_t, 4> kSizes = {4096, 16384, 65536, 262144};
  static constexpr size_t kFreeMax = 64;  // blocks of one size kept for the next borrower

  char* Borrow(size_t bytes, size_t& capacity);
  void Return(char* block, size_t capacity) noexcept;
  static size_t ClassOf(size_t bytes) noexcept;

  std::array<std::vector<char*>, kSizes.size()> free_;
  size_t lent_bytes_ = 0;
};

}  // namespace flowguard::http
