// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "wire/resp.h"
#include "wire/resp_text_test.h"

namespace flowguard::wire::resp {
namespace {

std::string All(const CommandBuffer& buffer) {
  return std::string(buffer.View(buffer.begin(), buffer.end()));
}

TEST(RespWriter, WritesCommandsAsArraysOfStrings) {
  CommandBuffer out;
  out.Begin(3);
  out.Word("SET");
  out.Word("");
  out.Word(std::string_view("a\r\n\0b", 5));
  out.Begin(1);
  out.Word(uint64_t{18446744073709551615U});
  EXPECT_EQ(All(out), std::string("*3\r\n$3\r\nSET\r\n$0\r\n\r\n$5\r\na\r\n\0b\r\n"
                                  "*1\r\n$20\r\n18446744073709551615\r\n",
                                  61));
}

TEST(RespWriter, EncodesWordsInRoomOfItsUser) {
  std::array<char, 8 * WordBytes(kNumberBytesMax)> room;
  WordWriter first(room);
  EXPECT_EQ(first.words().count, 0U);
  first.Add("EVAL");
  first.Add("");
  first.Add(INT64_MIN);
  first.Add(int64_t{0});
  const EncodedWords words = first.words();
  EXPECT_EQ(words.bytes, "$4\r\nEVAL\r\n$0\r\n\r\n$20\r\n-9223372036854775808\r\n$1\r\n0\r\n");
  std::array<char, 8 * WordBytes(kNumberBytesMax)> other_room;
  WordWriter other(other_room);
  other.Add(EncodedWords());
  other.Add(words);
  other.Add(std::string(100, 'x'));
  const std::vector<std::string> expected{"EVAL", "", "-9223372036854775808", "0",
                                          std::string(100, 'x')};
  EXPECT_EQ(WordsOf(other.words()), expected);
}

TEST(RespWriter, PositionsStandWhileTheBufferMoves) {
  CommandBuffer out;
  std::string expected;
  uint64_t dropped = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::string word = std::to_string(i * 7919);
    const uint64_t at = out.end();
    out.Word(word);
    const std::string bytes = "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
    ASSERT_EQ(out.View(at, out.end()), bytes);
    expected += bytes;
    if (i % 3 == 0) dropped += bytes.size();
    out.Drop(dropped);
  }
  EXPECT_EQ(All(out), expected.substr(dropped));
}

TEST(RespWriter, RepeatsWhatStandsInItWhenThatMakesItGrow) {
  CommandBuffer out;
  out.Word(std::string(100, 'x'));
  const std::string once = All(out);
  std::string expected = once;
  for (int i = 0; i < 12; ++i) {
    out.Repeat(0, out.end());
    expected += expected;
  }
  EXPECT_EQ(All(out), expected);
}

TEST(RespWriter, TakesOutAndTakesBack) {
  CommandBuffer out;
  out.Raw("abcdef");
  out.Slide(1, 3, 3);
  out.Truncate(4);
  EXPECT_EQ(All(out), "adef");
  out.Drop(4);
  EXPECT_EQ(out.size(), 0U);
  EXPECT_EQ(out.begin(), 4U);
  out.Raw("g");
  EXPECT_EQ(out.View(4, 5), "g");
}

}  // namespace
}  // namespace flowguard::wire::resp
