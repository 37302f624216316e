// SPDX-License-Identifier: Apache-2.0
#include "http/fields.h"

#include <array>
#include <string>

#include <gtest/gtest.h>

namespace flowguard::http {
namespace {

class FieldsTest : public ::testing::Test {
 protected:
  const wire::HeaderList& Parse(std::string_view lines) {
    bytes_ = "GET / HTTP/1.1\r\nHost: x\r\n" + std::string(lines) + "\r\n";
    EXPECT_EQ(wire::ParseRequestHead(bytes_, 0, head_), wire::ParseStatus::kDone);
    return head_.headers;
  }

  std::string bytes_;
  wire::RequestHead head_;
  std::array<char, 32> scratch_{};
};

TEST_F(FieldsTest, HeaderNamesHaveNoCase) {
  const FieldValue found =
      FindHeader(Parse("X-API-Key: A\r\n"), "x-api-key", RepeatedLines::kAmbiguous, scratch_);

  EXPECT_EQ(found.status, FieldStatus::kFound);
  EXPECT_EQ(found.value, "A");
}

// Rules out: a key header sent twice, so that limiter and upstream read different ones.
TEST_F(FieldsTest, DifferingLinesOfAKeyHeaderAreAmbiguous) {
  const auto& headers = Parse("x-api-key: A\r\nX-API-Key: B\r\n");

  EXPECT_EQ(FindHeader(headers, "x-api-key", RepeatedLines::kAmbiguous, scratch_).status,
            FieldStatus::kAmbiguous);
  EXPECT_EQ(FindHeader(headers, "x-api-key", RepeatedLines::kFirst, scratch_).value, "A");
  EXPECT_EQ(FindHeader(headers, "x-api-key", RepeatedLines::kJoin, scratch_).value, "A, B");
}

TEST_F(FieldsTest, EqualLinesAreOne) {
  const auto& headers = Parse("x-k: A\r\nx-k:  A \r\n");

  EXPECT_EQ(FindHeader(headers, "x-k", RepeatedLines::kAmbiguous, scratch_).value, "A");
}

TEST_F(FieldsTest, JoinsAreBoundedByTheScratchSpace) {
  const auto& headers = Parse("x-k: 0123456789\r\nx-k: 0123456789\r\nx-k: 01234567\r\n");

  EXPECT_EQ(FindHeader(headers, "x-k", RepeatedLines::kJoin, scratch_).value,
            "0123456789, 0123456789, 01234567");
  EXPECT_EQ(FindHeader(headers, "x-k", RepeatedLines::kJoin, std::span(scratch_).first(31)).status,
            FieldStatus::kTooLong);
}

// Rules out: a missing value taken for an empty one.
TEST_F(FieldsTest, AbsentIsNotEmpty) {
  const auto& headers = Parse("x-empty:\r\nCookie: e=\r\n");

  EXPECT_EQ(FindHeader(headers, "x-empty", RepeatedLines::kAmbiguous, scratch_).status,
            FieldStatus::kFound);
  EXPECT_EQ(FindHeader(headers, "x-none", RepeatedLines::kAmbiguous, scratch_).status,
            FieldStatus::kAbsent);
  EXPECT_EQ(FindCookie(headers, "e").status, FieldStatus::kFound);
  EXPECT_EQ(FindCookie(headers, "n").status, FieldStatus::kAbsent);
  EXPECT_EQ(FindQueryParameter("a=&b", "a", scratch_).status, FieldStatus::kFound);
  EXPECT_EQ(FindQueryParameter("a=&b", "b", scratch_).status, FieldStatus::kFound);
  EXPECT_EQ(FindQueryParameter("a=&b", "", scratch_).status, FieldStatus::kAbsent);
}

// Rules out: special characters in a value breaking it off or skipping it.
TEST_F(FieldsTest, HeaderValuesAreTakenByteByByte) {
  for (const char* value : {"a+b", "a b", "a%20b", "a\"b", "nil", "\xFF\xFE"}) {
    const auto& headers = Parse("x-user: " + std::string(value) + "\r\n");
    EXPECT_EQ(FindHeader(headers, "x-user", RepeatedLines::kAmbiguous, scratch_).value, value);
  }
}

TEST_F(FieldsTest, CookiesAreFoundByTheirWholeName) {
  const auto& headers =
      Parse("Cookie: xsid=1; sid2=2;sid=\"three\" \r\nCookie: late=5; =6; bare\r\n");

  EXPECT_EQ(FindCookie(headers, "sid").value, "three");
  EXPECT_EQ(FindCookie(headers, "late").value, "5");
  EXPECT_EQ(FindCookie(headers, "SID").status, FieldStatus::kAbsent);
  EXPECT_EQ(FindCookie(headers, "bare").status, FieldStatus::kAbsent);
}

TEST_F(FieldsTest, QueryParametersAreDecoded) {
  EXPECT_EQ(FindQueryParameter("a=1&token=x%2By+z&b=2", "token", scratch_).value, "x+y z");
  EXPECT_EQ(FindQueryParameter("t%6Fken=1", "token", scratch_).value, "1");
  EXPECT_EQ(FindQueryParameter("xtoken=1&token2=2", "token", scratch_).status,
            FieldStatus::kAbsent);
  EXPECT_EQ(FindQueryParameter("a=b=c", "a", scratch_).value, "b=c");
  EXPECT_EQ(FindQueryParameter("a=%zz%4", "a", scratch_).value, "%zz%4");
}

// Rules out: a fresh bucket for each request, by a value in front of the one that the
// upstream reads.
TEST_F(FieldsTest, DifferingRepeatsOfAParameterAreAmbiguous) {
  for (const char* query : {"id=0&id=victim", "id=victim&id=0", "id&id=victim", "id=a&x&i%64=b",
                            "id=a&id=A", "id=a&id=a&id=ab", "id=%zz&id=%zy"}) {
    EXPECT_EQ(FindQueryParameter(query, "id", scratch_).status, FieldStatus::kAmbiguous) << query;
    EXPECT_EQ(FindQueryParameter(query, "id", {}).status, FieldStatus::kAmbiguous) << query;
  }
  const FieldValue equal = FindQueryParameter("id=a+b&id=a%20b&i%64=%61 b", "id", scratch_);
  EXPECT_EQ(equal.status, FieldStatus::kFound);
  EXPECT_EQ(equal.value, "a b");
  EXPECT_EQ(FindQueryParameter("id&id=&id", "id", scratch_).status, FieldStatus::kFound);
}

TEST_F(FieldsTest, DifferingRepeatsOfACookieAreAmbiguous) {
  for (const char* lines :
       {"Cookie: sid=0; sid=victim\r\n", "Cookie: sid=0\r\nCookie: a=1; sid=victim\r\n",
        "Cookie: sid=; sid=victim\r\n", "Cookie: sid=a; sid=A\r\n"}) {
    EXPECT_EQ(FindCookie(Parse(lines), "sid").status, FieldStatus::kAmbiguous) << lines;
  }
  const FieldValue equal =
      FindCookie(Parse("Cookie: sid=a; sid=\"a\"\r\nCookie: sid=a\r\n"), "sid");
  EXPECT_EQ(equal.status, FieldStatus::kFound);
  EXPECT_EQ(equal.value, "a");
}

TEST_F(FieldsTest, AnUndecodedParameterIsNotCopiedAndHasNoBound) {
  const std::string query = "a=" + std::string(1000, 'x');

  EXPECT_EQ(FindQueryParameter(query, "a", scratch_).value.data(), query.data() + 2);
  EXPECT_EQ(FindQueryParameter(query + "+", "a", scratch_).status, FieldStatus::kTooLong);
}

}  // namespace
}  // namespace flowguard::http
