// SPDX-License-Identifier: Apache-2.0
#include "http/buffer_pool.h"

#include <string>

#include <gtest/gtest.h>

namespace flowguard::http {
namespace {

TEST(BufferPoolTest, AnEmptyBufferHoldsNoMemory) {
  BufferPool pool;
  Buffer buffer;
  EXPECT_EQ(pool.lent_bytes(), 0U);
  buffer.Append(pool, "abc");
  EXPECT_EQ(pool.lent_bytes(), 4096U);
  buffer.Consume(3);
  buffer.ReleaseIfEmpty();
  EXPECT_EQ(pool.lent_bytes(), 0U);
}

TEST(BufferPoolTest, ContentSurvivesGrowthAndReturns) {
  BufferPool pool;
  Buffer buffer;
  std::string expected;
  for (int i = 0; i < 300; ++i) {
    const std::string piece(static_cast<size_t>(i), static_cast<char>('a' + i % 26));
    buffer.Append(pool, piece);
    expected += piece;
  }
  buffer.Consume(100);
  EXPECT_EQ(buffer.view(), expected.substr(100));
  buffer.Unconsume(50);
  EXPECT_EQ(buffer.view(), expected.substr(50));
  Buffer moved = std::move(buffer);
  EXPECT_EQ(moved.view(), expected.substr(50));
  moved.Release();
  EXPECT_EQ(pool.lent_bytes(), 0U);
}

TEST(BufferPoolTest, RoomAtTheFrontIsUsedBeforeMoreIsBorrowed) {
  BufferPool pool;
  Buffer buffer;
  buffer.Append(pool, std::string(4000, 'x'));
  buffer.Consume(3990);
  buffer.Append(pool, std::string(1000, 'y'));
  EXPECT_EQ(pool.lent_bytes(), 4096U);
  EXPECT_EQ(buffer.view(), std::string(10, 'x') + std::string(1000, 'y'));
}

}  // namespace
}  // namespace flowguard::http
