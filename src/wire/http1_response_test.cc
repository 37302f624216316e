// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <gtest/gtest.h>

#include "wire/http1.h"

namespace flowguard::wire {
namespace {

class ResponseTest : public ::testing::Test {
 protected:
  ParseStatus Parse(std::string_view bytes, bool to_head = false) {
    bytes_ = bytes;
    return ParseResponseHead(bytes_, 0, to_head, head_);
  }

  std::string bytes_;
  ResponseHead head_;
};

TEST_F(ResponseTest, ReadsAPlainResponse) {
  ASSERT_EQ(Parse("HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\nServer: x\r\n\r\nabc"),
            ParseStatus::kDone);

  EXPECT_EQ(head_.status, 404);
  EXPECT_EQ(head_.reason, "Not Found");
  EXPECT_EQ(head_.body, BodyFraming::kLength);
  EXPECT_EQ(head_.content_length, 3u);
  EXPECT_TRUE(head_.keep_alive);
  EXPECT_EQ(head_.consumed, bytes_.size() - 3);
}

TEST_F(ResponseTest, TheReasonMayBeEmptyOrMissing) {
  ASSERT_EQ(Parse("HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n"), ParseStatus::kDone);
  EXPECT_EQ(head_.reason, "");
  ASSERT_EQ(Parse("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n"), ParseStatus::kDone);
  EXPECT_EQ(head_.status, 200);
}

TEST_F(ResponseTest, FindsTheEndOfTheBody) {
  ASSERT_EQ(Parse("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), ParseStatus::kDone);
  EXPECT_EQ(head_.body, BodyFraming::kChunked);
  EXPECT_TRUE(head_.keep_alive);

  ASSERT_EQ(Parse("HTTP/1.1 200 OK\r\n\r\n"), ParseStatus::kDone);
  EXPECT_EQ(head_.body, BodyFraming::kUntilClose);
  EXPECT_FALSE(head_.keep_alive);

  ASSERT_EQ(Parse("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), ParseStatus::kDone);
  EXPECT_EQ(head_.body, BodyFraming::kNone);
  EXPECT_TRUE(head_.keep_alive);
}

TEST_F(ResponseTest, SomeResponsesHaveNoBodyWhateverTheySay) {
  ASSERT_EQ(Parse("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", /*to_head=*/true),
            ParseStatus::kDone);
  EXPECT_EQ(head_.body, BodyFraming::kNone);
  EXPECT_TRUE(head_.keep_alive);
  EXPECT_FALSE(head_.headers.lines[0].hop_by_hop);

  ASSERT_EQ(Parse("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n"), ParseStatus::kDone);
  EXPECT_EQ(head_.body, BodyFraming::kNone);
  EXPECT_TRUE(head_.keep_alive);

  ASSERT_EQ(Parse("HTTP/1.1 100 Continue\r\n\r\n"), ParseStatus::kDone);
  EXPECT_EQ(head_.body, BodyFraming::kNone);
  EXPECT_TRUE(head_.keep_alive);
}

// Rules out: the unannounced body of a 204 taken for the next response.
TEST_F(ResponseTest, AConnectionWhose204ClaimsABodyIsNotReused) {
  ASSERT_EQ(Parse("HTTP/1.1 204 No Content\r\nContent-Length: 9\r\n\r\n"), ParseStatus::kDone);
  EXPECT_EQ(head_.body, BodyFraming::kNone);
  EXPECT_FALSE(head_.keep_alive);
  EXPECT_TRUE(head_.headers.lines[0].hop_by_hop);

  ASSERT_EQ(Parse("HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n"),
            ParseStatus::kDone);
  EXPECT_FALSE(head_.keep_alive);
}

TEST_F(ResponseTest, KeepsAliveAsTheVersionSays) {
  ASSERT_EQ(Parse("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n"), ParseStatus::kDone);
  EXPECT_FALSE(head_.keep_alive);
  ASSERT_EQ(Parse("HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\n"),
            ParseStatus::kDone);
  EXPECT_TRUE(head_.keep_alive);
  ASSERT_EQ(Parse("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\n"),
            ParseStatus::kDone);
  EXPECT_FALSE(head_.keep_alive);
}

// Rules out: a lying upstream whose response ends in two places.
TEST_F(ResponseTest, RefusesContradictoryLengths) {
  for (const char* lines :
       {"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n", "Content-Length: 5, 5\r\n",
        "Content-Length: -1\r\n", "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"}) {
    EXPECT_EQ(Parse("HTTP/1.1 200 OK\r\n" + std::string(lines) + "\r\n"), ParseStatus::kBad)
        << lines;
  }
  EXPECT_EQ(Parse("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), ParseStatus::kBad);
}

TEST_F(ResponseTest, RefusesStatusLinesThatAreNotStrict) {
  for (const char* line :
       {"HTTP/2.0 200 OK", "HTTP/1.2 200 OK", "HTTP/1.1 099 X", "HTTP/1.1 20 OK",
        "HTTP/1.1 2000 OK", "HTTP/1.1  200 OK", "HTTP/1.1 2x0 OK", "http/1.1 200 OK", "ICY 200 OK",
        "HTTP/1.1 200 O\x01K", "\r\nHTTP/1.1 200 OK", "HTTP/1.1 200-OK", "<html>"}) {
    EXPECT_EQ(Parse(std::string(line) + "\r\n\r\n"), ParseStatus::kBad) << line;
  }
  EXPECT_EQ(Parse("HTTP/1.1 200 OK\nA: b\n\n"), ParseStatus::kBad);
}

TEST_F(ResponseTest, BoundsTheHead) {
  const std::string start = "HTTP/1.1 200 OK\r\nA: ";
  EXPECT_EQ(Parse(start + std::string(base::kHeadBytesMax, 'a')), ParseStatus::kBad);
  EXPECT_EQ(head_.bad, BadReason::kHeadTooLarge);
}

}  // namespace
}  // namespace flowguard::wire
