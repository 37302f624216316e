// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "wire/http1.h"

namespace flowguard::wire {
namespace {

class RequestTest : public ::testing::Test {
 protected:
  ParseStatus Parse(std::string_view bytes) {
    bytes_ = bytes;
    return ParseRequestHead(bytes_, 0, head_);
  }
  // The parse of a request with these header lines behind Host.
  ParseStatus ParseLines(std::string_view lines) {
    return Parse("POST /x HTTP/1.1\r\nHost: a\r\n" + std::string(lines) + "\r\n");
  }
  // The status that a bad message is answered with; 0 when it is not bad.
  int BadStatus(std::string_view bytes) {
    return Parse(bytes) == ParseStatus::kBad ? StatusFor(head_.bad) : 0;
  }
  int BadStatusOfLines(std::string_view lines) {
    return ParseLines(lines) == ParseStatus::kBad ? StatusFor(head_.bad) : 0;
  }

  std::string bytes_;
  RequestHead head_;
};

TEST_F(RequestTest, ReadsAPlainGet) {
  ASSERT_EQ(Parse("GET /a/b?c=d HTTP/1.1\r\nHost: example.com:8080\r\nAccept:*/*\r\n\r\nrest"),
            ParseStatus::kDone);

  EXPECT_EQ(head_.method, Method::kGet);
  EXPECT_EQ(head_.method_text, "GET");
  EXPECT_EQ(head_.target, "/a/b?c=d");
  EXPECT_EQ(head_.form, TargetForm::kOrigin);
  EXPECT_EQ(head_.minor_version, 1);
  EXPECT_EQ(head_.host, "example.com:8080");
  EXPECT_EQ(head_.body, BodyFraming::kNone);
  EXPECT_TRUE(head_.keep_alive);
  EXPECT_EQ(head_.consumed, bytes_.size() - 4);
  ASSERT_EQ(head_.headers.count, 2u);
  EXPECT_EQ(head_.headers.lines[1].name, "Accept");
  EXPECT_EQ(head_.headers.lines[1].value, "*/*");
}

TEST_F(RequestTest, KnowsTheMethods) {
  for (const auto& [text, method] : {std::pair{"GET", Method::kGet},
                                     {"HEAD", Method::kHead},
                                     {"POST", Method::kPost},
                                     {"PUT", Method::kPut},
                                     {"DELETE", Method::kDelete},
                                     {"OPTIONS", Method::kOptions},
                                     {"PATCH", Method::kPatch},
                                     {"TRACE", Method::kTrace},
                                     {"PURGE", Method::kOther},
                                     {"get", Method::kOther}}) {
    ASSERT_EQ(Parse(std::string(text) + " / HTTP/1.1\r\nHost: a\r\n\r\n"), ParseStatus::kDone);
    EXPECT_EQ(head_.method, method) << text;
    EXPECT_EQ(head_.method_text, text);
  }
}

TEST_F(RequestTest, TrimsValuesAndFindsKnownNamesInAnyCase) {
  ASSERT_EQ(ParseLines("X-FORWARDED-for: \t 1.2.3.4 \t\r\nx-Real-Ip:\r\nx-forwarded-for: 5\r\n"),
            ParseStatus::kDone);

  EXPECT_EQ(head_.headers.Find(KnownHeader::kXForwardedFor)->value, "1.2.3.4");
  EXPECT_EQ(head_.headers.Find(KnownHeader::kXRealIp)->value, "");
  EXPECT_EQ(head_.headers.Find(KnownHeader::kCookie), nullptr);
  EXPECT_EQ(head_.headers.lines[3].known, KnownHeader::kXForwardedFor);
}

TEST_F(RequestTest, ParsingAgainForgetsTheLastRequest) {
  ASSERT_EQ(Parse("POST / HTTP/1.1\r\nHost: a\r\nCookie: c\r\nExpect: 100-continue\r\n"
                  "TE: trailers\r\nContent-Length: 5\r\n\r\n"),
            ParseStatus::kDone);
  ASSERT_EQ(Parse("GET / HTTP/1.0\r\n\r\n"), ParseStatus::kDone);

  EXPECT_EQ(head_.headers.count, 0u);
  EXPECT_EQ(head_.headers.Find(KnownHeader::kCookie), nullptr);
  EXPECT_EQ(head_.host, "");
  EXPECT_EQ(head_.body, BodyFraming::kNone);
  EXPECT_EQ(head_.content_length, 0u);
  EXPECT_FALSE(head_.expect_continue);
  EXPECT_FALSE(head_.te_trailers);
}

TEST_F(RequestTest, ReadsBodyFraming) {
  ASSERT_EQ(ParseLines("Content-Length: 0012\r\n"), ParseStatus::kDone);
  EXPECT_EQ(head_.body, BodyFraming::kLength);
  EXPECT_EQ(head_.content_length, 12u);

  ASSERT_EQ(ParseLines("Content-Length: 0\r\n"), ParseStatus::kDone);
  EXPECT_EQ(head_.body, BodyFraming::kNone);

  ASSERT_EQ(ParseLines("Transfer-Encoding: CHUNKED\r\n"), ParseStatus::kDone);
  EXPECT_EQ(head_.body, BodyFraming::kChunked);
}

// Rules out: two readers that see two body lengths, so that a request is smuggled.
TEST_F(RequestTest, RefusesContradictoryOrMalformedLengths) {
  for (const char* lines : {"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
                            "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
                            "Content-Length: 5\r\nContent-Length: 6\r\n",
                            "Content-Length: 5\r\ncontent-length: 5\r\n",
                            "Content-Length: 5, 5\r\n",
                            "Content-Length: 5,\r\n",
                            "Content-Length: +5\r\n",
                            "Content-Length: -5\r\n",
                            "Content-Length: 5 5\r\n",
                            "Content-Length: 0x5\r\n",
                            "Content-Length: 5;\r\n",
                            "Content-Length:\r\n",
                            "Content-Length: 5.0\r\n",
                            "Content-Length: 99999999999999999999\r\n",
                            "Content-Length: 18446744073709551617\r\n",
                            "Transfer-Encoding: chunked\t\r\n",
                            "Transfer-Encoding: chunked \r\n",
                            "Transfer-Encoding:  chunked\r\n",
                            "Transfer-Encoding:\tchunked\r\n",
                            "Transfer-Encoding: chunked,\r\n",
                            "Transfer-Encoding: ,chunked\r\n",
                            "Transfer-Encoding: chunked, gzip\r\n",
                            "Transfer-Encoding: gzip, chunked\r\n",
                            "Transfer-Encoding: chunked;x=1\r\n",
                            "Transfer-Encoding:\r\n",
                            "Transfer-Encoding: \"chunked\"\r\n",
                            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"}) {
    EXPECT_EQ(BadStatusOfLines(lines), 400) << lines;
  }
}

TEST_F(RequestTest, RefusesCodingsThatItDoesNotKnow) {
  for (const char* coding : {"xchunked", "gzip", "identity", "chunke", "chunkedd"}) {
    EXPECT_EQ(BadStatusOfLines("Transfer-Encoding: " + std::string(coding) + "\r\n"), 501)
        << coding;
  }
}

TEST_F(RequestTest, RefusesTransferEncodingOnHttp10) {
  EXPECT_EQ(BadStatus("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
}

// Rules out: line ends, names and folds that another parser reads differently.
TEST_F(RequestTest, RefusesLinesThatAreNotStrict) {
  for (const char* lines :
       {"A: b\n", "A: b\rC: d\r\n", "A: b\r\r\n", "A : b\r\n", " A: b\r\n", "A: b\r\n c\r\n",
        "A: b\r\n\tc\r\n", ": b\r\n", "A\r\n", "A b: c\r\n", "A\xC3: b\r\n", "A(: b\r\n",
        "Content-Length\t: 5\r\n", "Transfer-Encoding : chunked\r\n",
        "X: y\r\n Transfer-Encoding: chunked\r\n", "A: \x01\r\n", "A: b\x7F\r\n", "A: \x0B\r\n"}) {
    EXPECT_EQ(BadStatusOfLines(lines), 400) << lines;
  }
  EXPECT_EQ(BadStatusOfLines(std::string_view("A: b\0c\r\n", 8)), 400);
  EXPECT_EQ(BadStatusOfLines(std::string_view("A\0: b\r\n", 7)), 400);
  EXPECT_EQ(BadStatus("GET / HTTP/1.1\r\nHost: a\r\n\n"), 400);
  EXPECT_EQ(BadStatus("GET / HTTP/1.1\nHost: a\r\n\r\n"), 400);
}

// Faults are seen wherever they stand in a line, whatever the width of the scan.
TEST_F(RequestTest, SeesAControlByteAtEveryPlace) {
  for (size_t at = 0; at < 40; ++at) {
    std::string value(40, 'v');
    value[at] = '\x1F';
    EXPECT_EQ(BadStatusOfLines("A: " + value + "\r\n"), 400) << at;
    std::string name(40, 'n');
    name[at] = '@';
    EXPECT_EQ(BadStatusOfLines(name + ": v\r\n"), 400) << at;
    std::string target = "/" + std::string(40, 't');
    target[at + 1] = '\x7F';
    EXPECT_EQ(BadStatus("GET " + target + " HTTP/1.1\r\nHost: a\r\n\r\n"), 400) << at;
  }
}

TEST_F(RequestTest, LetsUnusualButHarmlessBytesThrough) {
  ASSERT_EQ(Parse("M!#$%&'*+-.^_`|~9 /\xC3\xA9{}|\\^\"<>[] HTTP/1.1\r\nHost: a\r\n"
                  "x_y.z!: \xFF\t\"\\\r\n\r\n"),
            ParseStatus::kDone);
  EXPECT_EQ(head_.headers.lines[1].name, "x_y.z!");
  EXPECT_EQ(head_.headers.lines[1].value, "\xFF\t\"\\");
}

TEST_F(RequestTest, RefusesRequestLinesThatAreNotStrict) {
  for (const char* line : {"GET  / HTTP/1.1",
                           "GET / HTTP/1.1 ",
                           "GET /  HTTP/1.1",
                           " GET / HTTP/1.1",
                           "GET /",
                           "GET / http/1.1",
                           "GET / HTTP/1.1x",
                           "GET / HTTP/11.1",
                           "GET / HTTP/1",
                           "GET a HTTP/1.1",
                           "GET * HTTP/1.1",
                           "GET ftp://a/ HTTP/1.1",
                           "GET http:///x HTTP/1.1",
                           "GET http://u@h/ HTTP/1.1",
                           "GET http:/a HTTP/1.1",
                           "G\tT / HTTP/1.1",
                           "GET\t/ HTTP/1.1",
                           "(GET / HTTP/1.1",
                           "GET / HTTPS/1.1",
                           "OPTIONS ** HTTP/1.1",
                           "GET //x\x01 HTTP/1.1"}) {
    EXPECT_EQ(BadStatus(std::string(line) + "\r\nHost: a\r\n\r\n"), 400) << line;
  }
}

TEST_F(RequestTest, NamesTheVersionsAndMethodsThatItDoesNotServe) {
  EXPECT_EQ(BadStatus("GET / HTTP/2.0\r\n\r\n"), 505);
  EXPECT_EQ(BadStatus("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505);
  EXPECT_EQ(BadStatus("GET / HTTP/1.2\r\nHost: a\r\n\r\n"), 505);
  EXPECT_EQ(BadStatus("GET / HTTP/0.9\r\n\r\n"), 505);
  EXPECT_EQ(BadStatus("CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n"), 501);
  EXPECT_EQ(BadStatus(std::string(base::kMethodBytesMax + 1, 'M')), 501);
}

// Rules out: a request that two readers route to two hosts.
TEST_F(RequestTest, RefusesAMissingRepeatedOrImpossibleHost) {
  EXPECT_EQ(BadStatus("GET / HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(BadStatus("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(BadStatus("GET / HTTP/1.0\r\nHost: a\r\nX: y\r\nHOST: b\r\n\r\n"), 400);
  for (const char* host : {"a b", "a/b", "a?b", "a#b", "u@a", "a,b", "a\\b", "\"a\"", "\xC3\xA9"}) {
    EXPECT_EQ(BadStatus("GET / HTTP/1.1\r\nHost: " + std::string(host) + "\r\n\r\n"), 400) << host;
  }
  EXPECT_EQ(Parse("GET / HTTP/1.1\r\nHost: [2001:db8::1]:80\r\n\r\n"), ParseStatus::kDone);
  EXPECT_EQ(Parse("GET / HTTP/1.1\r\nHost:\r\n\r\n"), ParseStatus::kDone);
}

// Rules out a byte that is missed where 16 bytes are looked at together.
TEST_F(RequestTest, SeesAByteThatIsNoHostsAtEveryPlace) {
  for (size_t length = 1; length <= 40; ++length) {
    for (size_t at = 0; at < length; ++at) {
      std::string host(length, 'h');
      for (const char usual : {'.', ':', '_', '%', '[', '-', '7'}) {
        host[at] = usual;
        ASSERT_EQ(Parse("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n"), ParseStatus::kDone)
            << host;
        ASSERT_EQ(head_.host, host);
      }
      for (const char bad : {'/', '@', '<', '\x80', '"'}) {
        host[at] = bad;
        ASSERT_EQ(BadStatus("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n"), 400) << host;
      }
    }
  }
}

TEST_F(RequestTest, KeepsATabAtEveryPlaceOfAValue) {
  for (size_t length = 3; length <= 40; ++length) {
    for (size_t at = 1; at + 1 < length; ++at) {
      std::string value(length, 'v');
      value[at] = '\t';
      ASSERT_EQ(ParseLines("A: " + value + "\r\n"), ParseStatus::kDone);
      ASSERT_EQ(head_.headers.lines[1].value, value);
    }
  }
}

TEST_F(RequestTest, AnAbsoluteTargetNamesTheHost) {
  ASSERT_EQ(Parse("GET http://b.example:81/x?y HTTP/1.1\r\nHost: a\r\n\r\n"), ParseStatus::kDone);
  EXPECT_EQ(head_.form, TargetForm::kAbsolute);
  EXPECT_EQ(head_.host, "b.example:81");
  EXPECT_EQ(head_.target, "http://b.example:81/x?y");

  ASSERT_EQ(Parse("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"), ParseStatus::kDone);
  EXPECT_EQ(head_.form, TargetForm::kAsterisk);
}

TEST_F(RequestTest, KeepsAliveAsTheVersionSays) {
  const auto keeps = [&](const char* version, const char* lines) {
    EXPECT_EQ(Parse("GET / HTTP/" + std::string(version) + "\r\nHost: a\r\n" + lines + "\r\n"),
              ParseStatus::kDone);
    return head_.keep_alive;
  };
  EXPECT_TRUE(keeps("1.1", ""));
  EXPECT_TRUE(keeps("1.1", "Connection: keep-alive\r\n"));
  EXPECT_FALSE(keeps("1.1", "Connection: Close\r\n"));
  EXPECT_FALSE(keeps("1.1", "Connection: keep-alive, x ,CLOSE\r\n"));
  EXPECT_FALSE(keeps("1.1", "Connection: x\r\nConnection: close\r\n"));
  EXPECT_TRUE(keeps("1.1", "Proxy-Connection: close\r\n"));
  EXPECT_FALSE(keeps("1.0", ""));
  EXPECT_TRUE(keeps("1.0", "Connection: Keep-Alive\r\n"));
  EXPECT_FALSE(keeps("1.0", "Connection: keep-alive, close\r\n"));
}

TEST_F(RequestTest, MarksWhatIsNotPassedOn) {
  ASSERT_EQ(ParseLines("Connection: X-Hop,, close\r\nX-Hop: 1\r\nx-hop: 2\r\nTE: trailers\r\n"
                       "Keep-Alive: 5\r\nUpgrade: h2c\r\nProxy-Connection: x\r\nX-End: 3\r\n"),
            ParseStatus::kDone);

  std::string passed;
  for (const Header& header : head_.headers.all())
    if (!header.hop_by_hop) passed += std::string(header.name) + ";";
  EXPECT_EQ(passed, "Host;X-End;");
  EXPECT_TRUE(head_.te_trailers);
}

// Rules out: a client that has the proxy drop who it is, or its framing.
TEST_F(RequestTest, ConnectionCannotNominateFramingOrIdentity) {
  ASSERT_EQ(ParseLines("X-Forwarded-For: 1\r\nContent-Length: 2\r\nAuthorization: b\r\n"
                       "Connection: x-forwarded-for, content-length, host, authorization\r\n"),
            ParseStatus::kDone);

  for (const Header& header : head_.headers.all())
    EXPECT_EQ(header.hop_by_hop, header.known == KnownHeader::kConnection) << header.name;
}

TEST_F(RequestTest, BoundsConnectionOptions) {
  std::string options = "a";
  for (size_t i = 1; i < base::kConnectionOptionsMax; ++i)
    options += ",a";
  EXPECT_EQ(ParseLines("Connection: " + options + "\r\n"), ParseStatus::kDone);
  EXPECT_EQ(BadStatusOfLines("Connection: " + options + ",a\r\n"), 431);
  EXPECT_EQ(BadStatusOfLines("Connection: a b\r\n"), 400);
}

TEST_F(RequestTest, ExpectsContinueOnlyForABody) {
  ASSERT_EQ(ParseLines("Expect: 100-Continue\r\nContent-Length: 3\r\n"), ParseStatus::kDone);
  EXPECT_TRUE(head_.expect_continue);
  ASSERT_EQ(ParseLines("Expect: 100-continue\r\n"), ParseStatus::kDone);
  EXPECT_FALSE(head_.expect_continue);
  ASSERT_EQ(Parse("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"),
            ParseStatus::kDone);
  EXPECT_FALSE(head_.expect_continue);
  EXPECT_EQ(BadStatusOfLines("Expect: 200-ok\r\n"), 417);
}

TEST_F(RequestTest, UpgradesNeedBothLinesAndHttp11) {
  ASSERT_EQ(ParseLines("Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"),
            ParseStatus::kDone);
  EXPECT_TRUE(head_.upgrade);
  ASSERT_EQ(ParseLines("Upgrade: websocket\r\n"), ParseStatus::kDone);
  EXPECT_FALSE(head_.upgrade);
  ASSERT_EQ(ParseLines("Connection: upgrade\r\n"), ParseStatus::kDone);
  EXPECT_FALSE(head_.upgrade);
  ASSERT_EQ(Parse("GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"),
            ParseStatus::kDone);
  EXPECT_FALSE(head_.upgrade);
}

TEST_F(RequestTest, OneEmptyLineBeforeARequestIsTolerated) {
  ASSERT_EQ(Parse("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), ParseStatus::kDone);
  EXPECT_EQ(head_.consumed, bytes_.size());
  EXPECT_EQ(BadStatus("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(BadStatus("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
}

TEST_F(RequestTest, BoundsTheTarget) {
  const std::string longest = "/" + std::string(base::kTargetBytesMax - 1, 'a');
  EXPECT_EQ(Parse("GET " + longest + " HTTP/1.1\r\nHost: a\r\n\r\n"), ParseStatus::kDone);
  EXPECT_EQ(BadStatus("GET " + longest + "a HTTP/1.1\r\nHost: a\r\n\r\n"), 414);
  EXPECT_EQ(BadStatus("GET " + longest + "a"), 414);
}

TEST_F(RequestTest, BoundsTheNumberOfLines) {
  std::string lines;
  for (size_t i = 1; i < base::kHeaderCountMax; ++i)
    lines += "a: b\r\n";
  EXPECT_EQ(ParseLines(lines), ParseStatus::kDone);
  EXPECT_EQ(head_.headers.count, base::kHeaderCountMax);
  EXPECT_EQ(BadStatusOfLines(lines + "a: b\r\n"), 431);
}

TEST_F(RequestTest, BoundsTheBytesOfTheHead) {
  const std::string start = "GET / HTTP/1.1\r\nHost: a\r\nA: ";
  const std::string fits = start + std::string(base::kHeadBytesMax - start.size() - 4, 'a');
  EXPECT_EQ(Parse(fits + "\r\n\r\n"), ParseStatus::kDone);
  EXPECT_EQ(BadStatus(fits + "a\r\n\r\n"), 431);
  EXPECT_EQ(Parse(fits + "\r\n\r"), ParseStatus::kNeedMore);
  EXPECT_EQ(BadStatus(fits + "aaaa"), 431);
}

// A head that trickles in gives the same result at every cut.
TEST_F(RequestTest, EveryPrefixNeedsMoreAndTheWholeIsDone) {
  const std::string whole =
      "\r\nPOST /orders?id=1 HTTP/1.1\r\nHost: example.com\r\nContent-Length: 5\r\n"
      "X-Forwarded-For: 1.1.1.1\r\nConnection: keep-alive\r\n\r\n";
  for (size_t n = 0; n < whole.size(); ++n) {
    // A copy of its own, so that a read past the end is seen by the sanitizer.
    const auto part = std::make_unique<char[]>(n + 1);
    whole.copy(part.get(), n);
    EXPECT_EQ(ParseRequestHead({part.get(), n}, 0, head_), ParseStatus::kNeedMore) << n;
    EXPECT_EQ(ParseRequestHead({part.get(), n}, n > 0 ? n - 1 : 0, head_), ParseStatus::kNeedMore);
  }
  EXPECT_EQ(ParseRequestHead(whole, whole.size() - 1, head_), ParseStatus::kDone);
  EXPECT_EQ(head_.consumed, whole.size());
}

TEST_F(RequestTest, RecognisesExactlyTheKnownNames) {
  EXPECT_EQ(Recognise("RateLimit"), KnownHeader::kRateLimit);
  EXPECT_EQ(Recognise("x-RATELIMIT-remaining"), KnownHeader::kXRateLimitRemaining);
  EXPECT_EQ(Recognise("te"), KnownHeader::kTe);
  for (const char* other : {"t", "tf", "hosts", "hosu", "content_length", "x-forwarded-fox",
                            "transfer-encodinh", "viA2", "x-ratelimit-remaininh"}) {
    EXPECT_EQ(Recognise(other), KnownHeader::kOther) << other;
  }
}

}  // namespace
}  // namespace flowguard::wire
