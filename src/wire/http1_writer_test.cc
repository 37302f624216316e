// SPDX-License-Identifier: Apache-2.0
#include "wire/http1_writer.h"

#include <array>
#include <chrono>
#include <limits>
#include <string>

#include <gtest/gtest.h>

namespace flowguard::wire {
namespace {

std::string Date(int64_t seconds) {
  std::array<char, kHttpDateBytes> out;
  return std::string(FormatHttpDate(WallTime(std::chrono::seconds(seconds)), out));
}

TEST(HeadWriterTest, WritesAResponseHead) {
  std::array<char, 256> buffer;
  HeadWriter out(buffer);

  out.StatusLine(429);
  out.Add("retry-after", 1);
  out.AddLine("content-type", "text/plain");
  out.End();

  EXPECT_TRUE(out.ok());
  EXPECT_EQ(out.view(),
            "HTTP/1.1 429 Too Many Requests\r\nretry-after: 1\r\ncontent-type: text/plain\r\n\r\n");
}

TEST(HeadWriterTest, WritesARequestHeadThatParses) {
  std::array<char, 256> buffer;
  HeadWriter out(buffer);
  out.RequestLine("PURGE", "/x?y");
  out.Forward({.name = "HoSt", .value = "a:1"});
  out.Add("content-length", std::numeric_limits<uint32_t>::max());
  out.End();

  RequestHead head;
  ASSERT_EQ(ParseRequestHead(out.view(), 0, head), ParseStatus::kDone);
  EXPECT_EQ(head.method_text, "PURGE");
  EXPECT_EQ(head.target, "/x?y");
  EXPECT_EQ(head.host, "a:1");
  EXPECT_EQ(head.content_length, 4294967295u);
}

TEST(HeadWriterTest, StatusesWithoutANameAndForeignReasons) {
  std::array<char, 128> buffer;
  HeadWriter out(buffer);

  out.StatusLine(599);
  out.StatusLine(200, "Fine");
  out.StatusLine(200, "");

  EXPECT_EQ(out.view(), "HTTP/1.1 599 \r\nHTTP/1.1 200 Fine\r\nHTTP/1.1 200 \r\n");
  EXPECT_EQ(ReasonPhrase(503), "Service Unavailable");
  EXPECT_EQ(ReasonPhrase(599), "");
}

// Rules out: a message text or header value that ends the line and writes another.
TEST(HeadWriterTest, ValuesCannotEndTheirLine) {
  std::array<char, 128> buffer;
  HeadWriter out(buffer);

  out.Add("x", std::string_view("a\r\nset-cookie: b\0\x7F\tc", 20));

  EXPECT_EQ(out.view(), "x: a  set-cookie: b  \tc\r\n");
}

TEST(HeadWriterTest, WhatDoesNotFitIsNotWrittenInPart) {
  std::array<char, 12> buffer;
  HeadWriter out(buffer);

  out.AddLine("a", "b");
  out.AddLine("long", "value");
  out.AddLine("c", "d");

  EXPECT_FALSE(out.ok());
  EXPECT_EQ(out.view(), "a: b\r\n");
}

TEST(HttpDateTest, WritesTheFixedForm) {
  EXPECT_EQ(Date(784111777), "Sun, 06 Nov 1994 08:49:37 GMT");
  EXPECT_EQ(Date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
  EXPECT_EQ(Date(951827696), "Tue, 29 Feb 2000 12:34:56 GMT");
  EXPECT_EQ(Date(4102444799), "Thu, 31 Dec 2099 23:59:59 GMT");
}

TEST(WordsTest, TokensAndValues) {
  EXPECT_TRUE(IsToken("x-retry_1"));
  EXPECT_FALSE(IsToken(""));
  EXPECT_FALSE(IsToken("a b"));
  EXPECT_FALSE(IsToken("a\xC3"));
  EXPECT_TRUE(IsFieldValue(""));
  EXPECT_TRUE(IsFieldValue("a\t\xC3\xA9"));
  EXPECT_FALSE(IsFieldValue("a\r\nb"));
  EXPECT_FALSE(IsFieldValue(std::string_view("a\0", 2)));
}

}  // namespace
}  // namespace flowguard::wire
