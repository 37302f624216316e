// SPDX-License-Identifier: Apache-2.0
#include "wire/http1_chunked.h"

#include <string>

#include <gtest/gtest.h>

#include "base/bounds.h"

namespace flowguard::wire {
namespace {

ParseStatus StatusOf(std::string_view bytes) {
  ChunkedDecoder decoder;
  return decoder.Feed(bytes).status;
}

TEST(ChunkedTest, PassesAMessageThroughAndStopsAtItsEnd) {
  const std::string body = "5\r\nhello\r\nA;x=\"y\"\r\n0123456789\r\n0\r\nX-Sum: 1\r\n\r\n";
  ChunkedDecoder decoder;

  const auto piece = decoder.Feed(body + "GET / HTTP/1.1");

  EXPECT_EQ(piece.status, ParseStatus::kDone);
  EXPECT_EQ(piece.taken, body.size());
  EXPECT_EQ(decoder.data_bytes(), 15u);
  EXPECT_TRUE(decoder.done());
  EXPECT_EQ(decoder.Feed("more").taken, 0u);
}

TEST(ChunkedTest, DecodesPieceByPiece) {
  std::string_view rest = "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
  ChunkedDecoder decoder;
  std::string data;
  ParseStatus status = ParseStatus::kNeedMore;

  while (status == ParseStatus::kNeedMore && !rest.empty()) {
    const auto piece = decoder.Next(rest);
    data += piece.data;
    status = piece.status;
    rest.remove_prefix(piece.taken);
  }

  EXPECT_EQ(status, ParseStatus::kDone);
  EXPECT_EQ(data, "abcde");
}

TEST(ChunkedTest, GivesTheSameByteByByte) {
  const std::string body = "00a;e\r\n0123456789\r\n0\r\nA: b\r\nC:\r\n\r\n";
  ChunkedDecoder decoder;

  for (size_t i = 0; i + 1 < body.size(); ++i) {
    const auto piece = decoder.Feed({&body[i], 1});
    ASSERT_EQ(piece.status, ParseStatus::kNeedMore) << i;
    ASSERT_EQ(piece.taken, 1u);
  }

  EXPECT_EQ(decoder.Feed({&body.back(), 1}).status, ParseStatus::kDone);
}

// Rules out: chunk framing that another reader takes for something else.
TEST(ChunkedTest, RefusesFramingThatIsNotStrict) {
  for (const char* body : {"\r\n",
                           "x\r\n",
                           " 5\r\nhello\r\n",
                           "5 \r\nhello\r\n",
                           "5\t;x\r\n",
                           "+5\r\nhello\r\n",
                           "-1\r\n",
                           "0x5\r\nhello\r\n",
                           "5\nhello\r\n",
                           "5\rhello\r\n",
                           "5;a\nb\r\n",
                           "5;a\rb\r\n",
                           "5;\x01\r\n",
                           "5\r\nhello\n",
                           "5\r\nhelloX\r\n",
                           "5\r\nhell\r\n0\r\n\r\n",
                           "0\r\n\n",
                           "0\r\n\rX",
                           "0\r\nA\r\n",
                           "0\r\n: b\r\n",
                           "0\r\nA : b\r\n",
                           "0\r\nA: b\n",
                           "0\r\nA: b\r\n c\r\n",
                           "0\r\nA: \x7F\r\n"}) {
    EXPECT_EQ(StatusOf(body), ParseStatus::kBad) << body;
  }
}

TEST(ChunkedTest, RefusesSizesThatDoNotFit) {
  EXPECT_EQ(StatusOf("7fffffffffffffff\r\n"), ParseStatus::kNeedMore);
  EXPECT_EQ(StatusOf("8000000000000000\r\n"), ParseStatus::kBad);
  EXPECT_EQ(StatusOf("10000000000000000\r\n"), ParseStatus::kBad);
  EXPECT_EQ(StatusOf("0000000000000001\r\n"), ParseStatus::kNeedMore);
  EXPECT_EQ(StatusOf("00000000000000001\r\n"), ParseStatus::kBad);
}

TEST(ChunkedTest, TellsWhereItBroke) {
  ChunkedDecoder decoder;
  const auto piece = decoder.Feed("1\r\naX");

  EXPECT_EQ(piece.status, ParseStatus::kBad);
  EXPECT_EQ(piece.taken, 4u);
  EXPECT_EQ(decoder.Feed("\r\n0\r\n\r\n").status, ParseStatus::kBad);
}

TEST(ChunkedTest, BoundsTheExtensionsOfALine) {
  const std::string longest(base::kChunkLineBytesMax, 'e');
  EXPECT_EQ(StatusOf("1;" + longest), ParseStatus::kNeedMore);
  EXPECT_EQ(StatusOf("1;" + longest + "e"), ParseStatus::kBad);
}

// Rules out: a body that is nothing but extensions, without end.
TEST(ChunkedTest, BoundsTheExtensionsOfAMessageByItsData) {
  ChunkedDecoder decoder;
  const std::string thin = "1;" + std::string(1000, 'e') + "\r\nd\r\n";
  ParseStatus status = ParseStatus::kNeedMore;
  size_t chunks = 0;
  while (status == ParseStatus::kNeedMore && chunks < 1000) {
    status = decoder.Feed(thin).status;
    ++chunks;
  }
  EXPECT_EQ(status, ParseStatus::kBad);
  EXPECT_LE(chunks, base::kChunkExtensionBytesMax / 1000 + 1);

  // As much data as extensions may go on for ever.
  decoder.Reset();
  const std::string fair = "64;" + std::string(100, 'e') + "\r\n" + std::string(100, 'd') + "\r\n";
  for (int i = 0; i < 10'000; ++i)
    ASSERT_EQ(decoder.Feed(fair).status, ParseStatus::kNeedMore);
}

TEST(ChunkedTest, BoundsTrailers) {
  std::string trailers = "0\r\n";
  for (size_t i = 0; i < base::kTrailerCountMax; ++i)
    trailers += "a: b\r\n";
  EXPECT_EQ(StatusOf(trailers + "\r\n"), ParseStatus::kDone);
  EXPECT_EQ(StatusOf(trailers + "a: b\r\n\r\n"), ParseStatus::kBad);
  EXPECT_EQ(StatusOf("0\r\na: " + std::string(base::kTrailerBytesMax, 'b')), ParseStatus::kBad);
}

// Rules out: framing, routing or identity slipped in behind the body.
TEST(ChunkedTest, TrailersCannotNameWhatTheHeadDecides) {
  for (const char* name : {"Content-Length", "transfer-encoding", "HOST", "Authorization", "Cookie",
                           "X-Forwarded-For", "Connection", "Expect"}) {
    EXPECT_EQ(StatusOf("0\r\n" + std::string(name) + ": 1\r\n\r\n"), ParseStatus::kBad) << name;
  }
  EXPECT_EQ(StatusOf("0\r\nServer-Timing: x\r\ngrpc-status: 0\r\n\r\n"), ParseStatus::kDone);
  EXPECT_EQ(StatusOf("0\r\n" + std::string(200, 'n') + ": x\r\n\r\n"), ParseStatus::kDone);
}

}  // namespace
}  // namespace flowguard::wire
