// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "wire/resp.h"
#include "wire/resp_text_test.h"

namespace flowguard::wire::resp {
namespace {

using Status = Reader::Status;

// The reply as text, or "fault at N: why".
std::string ReadWhole(std::string_view bytes) {
  Reader reader;
  const Status status = reader.Read(bytes);
  if (status == Status::kNeedMore) return "needs more";
  if (status == Status::kBad)
    return "fault at " + std::to_string(reader.problem_at()) + ": " + std::string(reader.problem());
  EXPECT_EQ(reader.consumed(), bytes.size());
  return ToText(reader.value());
}

struct Case {
  std::string bytes;
  std::string text;
};

const std::vector<Case>& Replies() {
  static const std::vector<Case> kCases{
      {"+OK\r\n", "'OK'"},
      {"+\r\n", "''"},
      {"-NOSCRIPT No matching script\r\n", "error 'NOSCRIPT No matching script'"},
      {":0\r\n", "0"},
      {":-12\r\n", "-12"},
      {":+12\r\n", "12"},
      {":9223372036854775807\r\n", "9223372036854775807"},
      {":-9223372036854775808\r\n", "-9223372036854775808"},
      {"$0\r\n\r\n", "''"},
      {"$4\r\na\r\nb\r\n", "'a\r\nb'"},
      {"$-1\r\n", "null"},
      {"*-1\r\n", "null"},
      {"_\r\n", "null"},
      {"#t\r\n", "1"},
      {"#f\r\n", "0"},
      {",3.25\r\n", "double 3.25"},
      {",-inf\r\n", "double -inf"},
      {"(-3492890328409238509324850943850943825024385\r\n",
       "'-3492890328409238509324850943850943825024385'"},
      {"!9\r\nERR wrong\r\n", "error 'ERR wrong'"},
      {"=8\r\ntxt:some\r\n", "'some'"},
      {"*0\r\n", "[]"},
      {"*3\r\n:1\r\n$1\r\na\r\n*1\r\n_\r\n", "[1 'a' [null]]"},
      {"*3\r\n:1\r\n:1000\r\n:1764508169123456\r\n", "[1 1000 1764508169123456]"},
      {"*2\r\n:12345678\r\n:123456789\r\n", "[12345678 123456789]"},
      {"*3\r\n:1\r\n:-2\r\n:12345678901234567\r\n", "[1 -2 12345678901234567]"},
      {"*3\r\n:1\r\n:2\r\n+a\r\n", "[1 2 'a']"},
      {"*2\r\n*2\r\n:1\r\n:2\r\n*1\r\n*1\r\n:00000000000000003\r\n", "[[1 2] [[3]]]"},
      {"~2\r\n+a\r\n+b\r\n", "['a' 'b']"},
      {"%2\r\n+a\r\n:1\r\n+b\r\n*2\r\n:2\r\n:3\r\n", "map['a' 1 'b' [2 3]]"},
      {">2\r\n+message\r\n+x\r\n", "push['message' 'x']"},
      {"|1\r\n+ttl\r\n:3600\r\n:7\r\n", "7"},
      {"|1\r\n+a\r\n*1\r\n:1\r\n|0\r\n:7\r\n", "7"},
      {"*2\r\n|1\r\n+ttl\r\n:1\r\n:7\r\n:8\r\n", "[7 8]"},
  };
  return kCases;
}

TEST(RespReader, ReadsEveryType) {
  for (const Case& c : Replies())
    EXPECT_EQ(ReadWhole(c.bytes), c.text) << c.bytes;
}

TEST(RespReader, ReadsTheSameWhereverTheBytesAreCut) {
  for (const Case& c : Replies()) {
    for (size_t cut = 0; cut < c.bytes.size(); ++cut) {
      Reader reader;
      // Copies of the exact size in new places, so that nothing is kept of the old one.
      const auto part = std::make_unique<std::string>(c.bytes.substr(0, cut));
      ASSERT_EQ(reader.Read(*part), Status::kNeedMore) << c.bytes << cut;
      const std::string whole = c.bytes + "+next\r\n";
      ASSERT_EQ(reader.Read(whole), Status::kDone) << c.bytes << cut;
      EXPECT_EQ(ToText(reader.value()), c.text);
      EXPECT_EQ(reader.consumed(), c.bytes.size());
      ASSERT_EQ(reader.Read(std::string_view(whole).substr(reader.consumed())), Status::kDone);
      EXPECT_EQ(ToText(reader.value()), "'next'") << "nothing is left of the reply before";
    }
  }
}

TEST(RespReader, ReadsTheSameByteByByte) {
  for (const Case& c : Replies()) {
    Reader reader;
    for (size_t n = 0; n < c.bytes.size(); ++n)
      ASSERT_EQ(reader.Read(c.bytes.substr(0, n)), Status::kNeedMore) << c.bytes << n;
    ASSERT_EQ(reader.Read(c.bytes), Status::kDone) << c.bytes;
    EXPECT_EQ(ToText(reader.value()), c.text);
  }
}

// Rules out: digits that are taken eight at a time and read otherwise than one by one.
TEST(RespReader, ReadsNumbersOfEveryLengthWhateverFollows) {
  for (size_t length = 1; length <= 19; ++length) {
    for (const char first : {'1', '9', '0'}) {
      std::string digits(1, first);
      while (digits.size() < length)
        digits += static_cast<char>('0' + digits.size() * 7 % 10);
      if (length == 19 && first == '9') digits[1] = '1';  // 64 bits end soon after
      const std::string text = std::to_string(std::stoll(digits));
      for (const char* const next : {"", ":1\r\n", "+0123456789\r\n"}) {
        Reader reader;
        const std::string bytes = ":" + digits + "\r\n" + next;
        ASSERT_EQ(reader.Read(bytes), Status::kDone) << bytes;
        EXPECT_EQ(ToText(reader.value()), text);
        EXPECT_EQ(reader.consumed(), digits.size() + 3);
      }
    }
  }
}

TEST(RespReader, SaysWhatIsWrongAndWhere) {
  const std::vector<Case> cases{
      {"HTTP/1.1 400 Bad Request\r\n", "fault at 0: no type of RESP begins with this byte"},
      {":12a\r\n", "fault at 3: not a number"},
      {":\r\n", "fault at 1: not a number"},
      {":--1\r\n", "fault at 2: not a number"},
      {":9223372036854775808\r\n", "fault at 1: a number that 64 bits do not hold"},
      {":12345678x\r\n", "fault at 9: not a number"},
      {":1234567:\r\n", "fault at 8: not a number"},
      {":1234567/\r\n", "fault at 8: not a number"},
      {":123456\xb1\r\n", "fault at 7: not a number"},
      {":1234567890123456\rx", "fault at 18: a carriage return within a line"},
      {":99999999999999999999\r\n", "fault at 1: a number that 64 bits do not hold"},
      {"*2\r\n:1\r\n:1x\r\n", "fault at 10: not a number"},
      {"*2\r\n:1\r\n?\r\n", "fault at 8: no type of RESP begins with this byte"},
      {":1\rx", "fault at 3: a carriage return within a line"},
      {"+a\rb\r\n", "fault at 3: a carriage return within a line"},
      {"$-2\r\n", "fault at 0: a negative length"},
      {"!-1\r\n", "fault at 0: a negative length"},
      {"*-2\r\n", "fault at 0: a negative number of items"},
      {"%-1\r\n", "fault at 0: a negative number of items"},
      {"$3\r\nabcd\r\n", "fault at 7: a string that does not end where its length says"},
      {"$1048577\r\n", "fault at 0: a longer string than allowed"},
      {"*65537\r\n", "fault at 0: more items than allowed"},
      {"*9223372036854775807\r\n", "fault at 0: more items than allowed"},
      {"%32768\r\n", "fault at 0: more items than allowed"},
      {"*1\r\n*65535\r\n", "fault at 4: more items than allowed"},
      {"*1\r\n>1\r\n:1\r\n", "fault at 4: a push within a reply"},
      {"$?\r\n;4\r\n", "fault at 1: a streamed reply, which is not supported"},
      {"*?\r\n", "fault at 1: a streamed reply, which is not supported"},
      {"#x\r\n", "fault at 0: a boolean is t or f"},
      {"_x\r\n", "fault at 0: a null with a text"},
      {",abc\r\n", "fault at 0: not a double"},
      {"(12x\r\n", "fault at 0: not a big number"},
      {"=3\r\ntxt\r\n", "fault at 0: a verbatim string without its format"},
      {"=4\r\ntxtx\r\n", "fault at 4: a verbatim string without its format"},
  };
  for (const Case& c : cases)
    EXPECT_EQ(ReadWhole(c.bytes), c.text) << c.bytes;
}

TEST(RespReader, BoundsLevelsAndLines) {
  std::string nested;
  for (size_t i = 0; i < base::kRespDepthMax; ++i)
    nested += "*1\r\n";
  EXPECT_EQ(ReadWhole(nested + ":1\r\n").substr(0, 4), "[[[[");
  EXPECT_EQ(ReadWhole(nested + "*1\r\n:1\r\n"), "fault at 64: too many levels");
  std::string integers;
  for (size_t i = 0; i < base::kRespItemsMax; ++i)
    integers += ":7\r\n";
  const std::string most = "*" + std::to_string(base::kRespItemsMax - 1) + "\r\n";
  EXPECT_EQ(ReadWhole(most + integers.substr(4)).substr(0, 6), "[7 7 7");
  EXPECT_EQ(ReadWhole("*" + std::to_string(base::kRespItemsMax) + "\r\n" + integers),
            "fault at 0: more items than allowed");
  EXPECT_EQ(ReadWhole("+" + std::string(base::kRespLineBytesMax, 'x')), "needs more");
  EXPECT_EQ(ReadWhole("+" + std::string(base::kRespLineBytesMax + 1, 'x')),
            "fault at 0: a longer line than allowed");
  std::string attributes;
  for (size_t i = 0; i <= base::kRespItemsMax; ++i)
    attributes += "|0\r\n";
  EXPECT_EQ(ReadWhole(attributes).substr(0, 5), "fault") << "attributes without end";
}

TEST(RespReader, ALargeReplyMayMoveItsItems) {
  std::string bytes = "*3000\r\n";
  std::string text = "[";
  for (int i = 0; i < 3000; ++i) {
    bytes += "*2\r\n:" + std::to_string(i) + "\r\n*1\r\n+x\r\n";
    text += (i == 0 ? "[" : " [") + std::to_string(i) + " ['x']]";
  }
  EXPECT_EQ(ReadWhole(bytes), text + "]");
}

}  // namespace
}  // namespace flowguard::wire::resp
