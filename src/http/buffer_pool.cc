// SPDX-License-Identifier: Apache-2.0
#include "http/buffer_pool.h"

#include <cstring>

#include "base/check.h"

namespace flowguard::http {

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  Release();
  block_ = std::exchange(other.block_, nullptr);
  capacity_ = std::exchange(other.capacity_, 0);
  begin_ = std::exchange(other.begin_, 0);
  end_ = std::exchange(other.end_, 0);
  pool_ = other.pool_;
  return *this;
}

char* Buffer::Reserve(BufferPool& pool, size_t bytes) {
  if (room() >= bytes) return block_ + end_;
  const size_t content = size();
  if (capacity_ - content >= bytes) {
    std::memmove(block_, block_ + begin_, content);
  } else {
    size_t capacity = 0;
    char* const bigger = pool.Borrow(content + bytes, capacity);
    if (content > 0) std::memcpy(bigger, block_ + begin_, content);
    if (block_ != nullptr) pool_->Return(block_, capacity_);
    block_ = bigger;
    capacity_ = capacity;
    pool_ = &pool;
  }
  begin_ = 0;
  end_ = content;
  return block_ + end_;
}

void Buffer::Append(BufferPool& pool, std::string_view bytes) {
  if (bytes.empty()) return;
  std::memcpy(Reserve(pool, bytes.size()), bytes.data(), bytes.size());
  end_ += bytes.size();
}

void Buffer::Consume(size_t bytes) noexcept {
  FG_DCHECK(bytes <= size());
  begin_ += bytes;
}

void Buffer::Unconsume(size_t bytes) noexcept {
  FG_DCHECK(bytes <= begin_);
  begin_ -= bytes;
}

void Buffer::Release() noexcept {
  if (block_ != nullptr) pool_->Return(std::exchange(block_, nullptr), capacity_);
  capacity_ = begin_ = end_ = 0;
}

BufferPool::~BufferPool() {
  for (std::vector<char*>& blocks : free_) {
    for (char* block : blocks)
      delete[] block;
  }
}

size_t BufferPool::ClassOf(size_t bytes) noexcept {
  size_t index = 0;
  while (index < kSizes.size() && kSizes[index] < bytes)
    ++index;
  return index;
}

char* BufferPool::Borrow(size_t bytes, size_t& capacity) {
  const size_t index = ClassOf(bytes);
  capacity = index < kSizes.size() ? kSizes[index] : bytes;
  lent_bytes_ += capacity;
  if (index < kSizes.size() && !free_[index].empty()) {
    char* const block = free_[index].back();
    free_[index].pop_back();
    return block;
  }
  return new char[capacity];
}

void BufferPool::Return(char* block, size_t capacity) noexcept {
  lent_bytes_ -= capacity;
  const size_t index = ClassOf(capacity);
  if (index < kSizes.size() && kSizes[index] == capacity && free_[index].size() < kFreeMax) {
    free_[index].push_back(block);
    return;
  }
  delete[] block;
}

}  // namespace flowguard::http
