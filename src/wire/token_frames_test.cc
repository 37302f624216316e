// SPDX-License-Identifier: Apache-2.0
#include "wire/token_frames.h"

#include <array>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace flowguard::wire::token {
namespace {

constexpr int8_t kFlow = static_cast<int8_t>(Type::kFlow);

// "000D 0000": the bytes.
std::string Bytes(std::string_view hex) {
  std::string bytes;
  std::string digits;
  for (const char c : hex) {
    if (c == ' ') continue;
    digits += c;
    if (digits.size() < 2) continue;
    bytes += static_cast<char>(std::stoi(digits, nullptr, 16));
    digits.clear();
  }
  return bytes;
}

std::string MessageOf(std::string_view frame) {
  const Frame read = ReadFrame(frame);
  EXPECT_EQ(read.kind, Frame::Kind::kMessage);
  EXPECT_EQ(read.size, frame.size());
  return std::string(read.message);
}

std::string Flow(int32_t xid, int64_t flow_id, int32_t count, bool priority) {
  std::string out;
  AppendFlow(xid, flow_id, count, priority, out);
  return out;
}

std::string FlowAnswer(Status status, int32_t remaining, int32_t wait_ms) {
  std::string out;
  AppendFlowAnswer(1, kFlow, status, remaining, wait_ms, out);
  return out;
}

// --- as Sentinel's own peers write them

TEST(TokenFrameVectors, Pings) {
  std::string out;
  AppendPing(0, "appA", out);
  EXPECT_EQ(out, Bytes("000D 00000000 00 00000004 61707041"));
  out.clear();
  AppendPong(0, 1, out);
  EXPECT_EQ(out, Bytes("000A 00000000 00 00 00000001"));
  out.clear();
  AppendStatus(0, 0, Status::kFail, out);
  EXPECT_EQ(out, Bytes("0006 00000000 00 FF"));
}

TEST(TokenFrameVectors, Flows) {
  EXPECT_EQ(Flow(1, 1001, 1, false), Bytes("0012 00000001 01 00000000000003E9 00000001 00"));
  EXPECT_EQ(FlowAnswer(Status::kOk, 9, 0), Bytes("000E 00000001 01 00 00000009 00000000"));
  EXPECT_EQ(FlowAnswer(Status::kBlocked, 0, 0), Bytes("000E 00000001 01 01 00000000 00000000"));
  EXPECT_EQ(FlowAnswer(Status::kShouldWait, 0, 200),
            Bytes("000E 00000001 01 02 00000000 000000C8"));
  EXPECT_EQ(FlowAnswer(Status::kNoRuleExists, 0, 0),
            Bytes("000E 00000001 01 03 00000000 00000000"));
  EXPECT_EQ(FlowAnswer(Status::kTooManyRequests, 0, 0),
            Bytes("000E 00000001 01 FE 00000000 00000000"));
  EXPECT_EQ(FlowAnswer(Status::kBadRequest, 0, 0), Bytes("000E 00000001 01 FC 00000000 00000000"));
}

TEST(TokenFrameVectors, ParamFlows) {
  const std::string values = Bytes("00 00000007 07 00000002 6162");
  std::string out;
  AppendParamFlow(2, 1001, 1, Values(values, 2), out);
  EXPECT_EQ(out, Bytes("0021 00000002 02 00000000000003E9 00000001 00000002"
                       "00 00000007 07 00000002 6162"));
}

TEST(TokenFrameVectors, ThePongOfAnySize) {
  const auto connected = [](std::string_view body) {
    return ReadAnswer(Bytes("00000000 00 00") + Bytes(body)).remaining;
  };
  EXPECT_EQ(connected("07"), 7);
  EXPECT_EQ(connected("00000102"), 0x102);
  EXPECT_EQ(connected("0000010203"), 0x102);
  EXPECT_EQ(connected(""), -1);
}

TEST(TokenFrameVectors, SizesOfValues) {
  // int, bool, byte, long, double, texts: kind and payload.
  const std::vector<std::pair<std::string, size_t>> values = {{"00 00000001", 5},
                                                              {"06 01", 2},
                                                              {"02 7F", 2},
                                                              {"01 0000000000000001", 9},
                                                              {"03 3FF0000000000000", 9},
                                                              {"07 00000003 616263", 8},
                                                              {"05 0001", 3},
                                                              {"04 3F800000", 5}};
  for (const auto& [hex, size] : values) {
    const std::string bytes = Bytes(hex);
    Values one(bytes, 1);
    EXPECT_EQ(one.Next().size(), size) << hex;
    EXPECT_EQ(one.count(), 0U);
  }
}

// --- questions

TEST(TokenQuestionTest, AFlowIsReadAsWritten) {
  const std::string message = MessageOf(Flow(-7, -2, 2'000'000'000, true));
  const Question question = ReadQuestion(message);
  EXPECT_EQ(question.fault, Question::Fault::kNone);
  EXPECT_EQ(question.xid, -7);
  EXPECT_EQ(question.type, kFlow);
  EXPECT_EQ(question.flow_id, -2);
  EXPECT_EQ(question.count, 2'000'000'000);
  EXPECT_TRUE(question.priority);
}

TEST(TokenQuestionTest, AFlowOfTwelveBytesHasNoPriority) {
  const Question question = ReadQuestion(Bytes("00000001 01 00000000000003E9 00000005"));
  EXPECT_EQ(question.fault, Question::Fault::kNone);
  EXPECT_EQ(question.count, 5);
  EXPECT_FALSE(question.priority);
}

TEST(TokenQuestionTest, OursOfConcurrencyAreReadAsWritten) {
  std::string out;
  AppendConcurrentAcquire(3, 1001, 2, out);
  Question question = ReadQuestion(MessageOf(out));
  EXPECT_EQ(question.fault, Question::Fault::kNone);
  EXPECT_EQ(question.flow_id, 1001);
  EXPECT_EQ(question.count, 2);
  out.clear();
  AppendConcurrentRelease(4, -1, out);
  question = ReadQuestion(MessageOf(out));
  EXPECT_EQ(question.fault, Question::Fault::kNone);
  EXPECT_EQ(question.token_id, -1);
}

TEST(TokenQuestionTest, ABlankPingIsNoFault) {
  EXPECT_EQ(ReadQuestion(Bytes("00000000 00")).fault, Question::Fault::kNone);
  const std::string named = Bytes("00000000 00 00000004 61707041");
  EXPECT_EQ(ReadQuestion(named).name_space, "appA");
}

TEST(TokenQuestionTest, ValuesAreToldApartByTheirClass) {
  const std::string message =
      Bytes("00000002 02 00000000000003E9 00000001 00000002 00 00000007 01 0000000000000007");
  Question question = ReadQuestion(message);
  ASSERT_EQ(question.fault, Question::Fault::kNone);
  ASSERT_EQ(question.values.count(), 2U);
  const std::string_view whole = question.values.Next();
  const std::string_view wide = question.values.Next();
  EXPECT_NE(whole, wide);
  EXPECT_EQ(whole.size(), 5U);
  EXPECT_EQ(wide.size(), 9U);
}

struct Faulty {
  const char* name;
  const char* message;
  Question::Fault fault;
};
class TokenFaults : public testing::TestWithParam<Faulty> {};

TEST_P(TokenFaults, AreToldWithXidAndType) {
  const Question question = ReadQuestion(Bytes(GetParam().message));
  EXPECT_EQ(question.fault, GetParam().fault);
  if (question.fault == Question::Fault::kNoHead) return;
  EXPECT_EQ(question.xid, 9);
}
constexpr auto kNoHead = Question::Fault::kNoHead;
constexpr auto kUnknownType = Question::Fault::kUnknownType;
constexpr auto kBadBody = Question::Fault::kBadBody;
INSTANTIATE_TEST_SUITE_P(
    All, TokenFaults,
    testing::Values(
        Faulty{"Nothing", "", kNoHead}, Faulty{"NoType", "00000009", kNoHead},
        Faulty{"Type5", "00000009 05", kUnknownType},
        Faulty{"TypeBelow0", "00000009 FF", kUnknownType},
        Faulty{"ShortFlow", "00000009 01 00000000000003E9 000000", kBadBody},
        Faulty{"NoFlow", "00000009 01", kBadBody},
        Faulty{"PingWithoutSize", "00000009 00 0000", kBadBody},
        Faulty{"PingBelow0", "00000009 00 FFFFFFFF", kBadBody},
        Faulty{"PingCutShort", "00000009 00 00000005 61", kBadBody},
        Faulty{"NoValues", "00000009 02 00000000000003E9 00000001", kBadBody},
        Faulty{"ValuesBelow0", "00000009 02 00000000000003E9 00000001 FFFFFFFF", kBadBody},
        Faulty{"FewerValues", "00000009 02 00000000000003E9 00000001 00000002 00 00000007",
               kBadBody},
        Faulty{"UnknownKind", "00000009 02 00000000000003E9 00000001 00000001 08 00000007",
               kBadBody},
        Faulty{"TextBelow0", "00000009 02 00000000000003E9 00000001 00000001 07 FFFFFFFF 00",
               kBadBody},
        Faulty{"TextCutShort", "00000009 02 00000000000003E9 00000001 00000001 07 00000002 61",
               kBadBody},
        Faulty{"ReleaseCutShort", "00000009 04 00000000000003", kBadBody}),
    [](const auto& one) { return one.param.name; });

TEST(TokenQuestionTest, AParamFlowWithoutValuesIsWellFormed) {
  const Question question = ReadQuestion(Bytes("00000009 02 00000000000003E9 00000001 00000000"));
  EXPECT_EQ(question.fault, Question::Fault::kNone);
  EXPECT_EQ(question.values.count(), 0U);
}

// --- answers

TEST(TokenAnswerTest, AFlowsHasEightBytesOrIsNone) {
  const Answer answer = ReadAnswer(MessageOf(FlowAnswer(Status::kShouldWait, -1, 200)));
  EXPECT_TRUE(answer.good);
  EXPECT_EQ(answer.xid, 1);
  EXPECT_EQ(answer.status, Status::kShouldWait);
  EXPECT_EQ(answer.remaining, -1);
  EXPECT_EQ(answer.wait_ms, 200);
  EXPECT_FALSE(ReadAnswer(Bytes("00000001 01 00")).good);
  EXPECT_FALSE(ReadAnswer(Bytes("00000001 01 00 00000000 00000000 00")).good);
  EXPECT_FALSE(ReadAnswer(Bytes("00000001 01")).good);
  EXPECT_FALSE(ReadAnswer(Bytes("00000001 09 00 00000000 00000000")).good);
}

TEST(TokenAnswerTest, TokensAreReadAsWritten) {
  std::string out;
  AppendTokenAnswer(5, Status::kOk, 0x1234567890abcdef, out);
  const Answer answer = ReadAnswer(MessageOf(out));
  EXPECT_TRUE(answer.good);
  EXPECT_EQ(answer.token_id, 0x1234567890abcdef);
}

// --- frames

TEST(TokenFrameTest, OneThatIsNotAllThereWaits) {
  const std::string frame = Flow(1, 1001, 1, false);
  for (size_t size = 0; size < frame.size(); ++size)
    EXPECT_EQ(ReadFrame(std::string_view(frame).substr(0, size)).kind, Frame::Kind::kNeedMore);
  EXPECT_EQ(ReadFrame(frame + "more").size, frame.size());
}

TEST(TokenFrameTest, AnEmptyOneIsAMessageOfNothing) {
  const Frame frame = ReadFrame(Bytes("0000 00"));
  EXPECT_EQ(frame.kind, Frame::Kind::kMessage);
  EXPECT_EQ(frame.size, 2U);
  EXPECT_EQ(ReadQuestion(frame.message).fault, Question::Fault::kNoHead);
}

TEST(TokenFrameTest, OfOneThatIsTooLongTheHeadIsThere) {
  const std::string begin = Bytes("FFFF 00000007 02 00");
  const Frame frame = ReadFrame(begin);
  EXPECT_EQ(frame.kind, Frame::Kind::kTooLong);
  EXPECT_EQ(frame.size, 0xffffU + 2);
  EXPECT_EQ(ReadQuestion(frame.message).xid, 7);
  EXPECT_EQ(ReadFrame(begin.substr(0, 6)).kind, Frame::Kind::kNeedMore);
}

// Sentinel's client sends up to 1,024 bytes of values, of which its server refuses the last.
TEST(TokenFrameTest, AsManyValuesAsAClientSendsAreRead) {
  std::string values;
  AppendStringValue(std::string(kValuesMax - 5, 'x'), values);
  ASSERT_EQ(values.size(), kValuesMax);
  std::string out;
  AppendParamFlow(1, 1001, 1, Values(values, 1), out);
  EXPECT_GT(out.size(), kPrefixBytes + kMessageMax);
  const std::string message = MessageOf(out);
  EXPECT_EQ(ReadQuestion(message).fault, Question::Fault::kNone);
  EXPECT_EQ(ReadQuestion(message).values.bytes(), values);
}

}  // namespace
}  // namespace flowguard::wire::token
