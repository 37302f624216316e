// SPDX-License-Identifier: Apache-2.0
#include "quota/redis/error_reply.h"

#include <gtest/gtest.h>

namespace flowguard::quota::redis {
namespace {

Failure FailureOf(std::string_view text) {
  return ReadErrorReply(text).failure;
}

TEST(ErrorReply, TheFirstWordTells) {
  EXPECT_EQ(FailureOf("READONLY You can't write against a read only replica."), Failure::kReadOnly);
  EXPECT_EQ(FailureOf("LOADING Redis is loading the dataset in memory"), Failure::kLoading);
  EXPECT_EQ(FailureOf("BUSY Redis is busy running a script."), Failure::kLoading);
  EXPECT_EQ(FailureOf("TRYAGAIN Multiple keys request during rehashing"), Failure::kLoading);
  EXPECT_EQ(FailureOf("CLUSTERDOWN Hash slot not served"), Failure::kLoading);
  EXPECT_EQ(FailureOf("MASTERDOWN Link with MASTER is down"), Failure::kLoading);
  EXPECT_EQ(FailureOf("OOM command not allowed when used memory > 'maxmemory'."),
            Failure::kOutOfMemory);
  EXPECT_EQ(FailureOf("NOAUTH Authentication required."), Failure::kDenied);
  EXPECT_EQ(FailureOf("WRONGPASS invalid username-password pair"), Failure::kDenied);
  EXPECT_EQ(FailureOf("NOPERM this user has no permissions"), Failure::kDenied);
  EXPECT_EQ(FailureOf("WRONGTYPE Operation against a key"), Failure::kScriptError);
  EXPECT_EQ(FailureOf("ERR BUSY is a word here"), Failure::kScriptError);
  EXPECT_EQ(FailureOf("BUSYKEY Target key name already exists."), Failure::kScriptError);
  EXPECT_EQ(FailureOf(""), Failure::kScriptError);
}

TEST(ErrorReply, FindsTheWordThatAnOlderServerWraps) {
  EXPECT_EQ(FailureOf("ERR Error running script (call to f_ab): @user_script:1: -OOM command not "
                      "allowed when used memory > 'maxmemory'."),
            Failure::kOutOfMemory);
  EXPECT_EQ(FailureOf("ERR Error running script (call to f_ab): @user_script:1: -READONLY You "
                      "can't write against a read only replica."),
            Failure::kReadOnly);
  EXPECT_EQ(FailureOf("ERR Error running script (call to f_ab): @user_script:1: attempt to"),
            Failure::kScriptError);
}

TEST(ErrorReply, ReadsDetours) {
  EXPECT_EQ(ReadErrorReply("NOSCRIPT No matching script. Please use EVAL.").detour,
            Detour::kNoScript);
  const ErrorReply moved = ReadErrorReply("MOVED 3999 10.0.0.7:6381");
  EXPECT_EQ(moved.detour, Detour::kMoved);
  EXPECT_EQ(moved.slot, 3999);
  EXPECT_EQ(moved.endpoint, "10.0.0.7:6381");
  const ErrorReply ask = ReadErrorReply("ASK 16383 :6381");
  EXPECT_EQ(ask.detour, Detour::kAsk);
  EXPECT_EQ(ask.endpoint, ":6381");
  for (const char* const broken : {"MOVED", "MOVED ", "MOVED 1", "MOVED x a:1", "MOVED 16384 a:1",
                                   "MOVED 1 nowhere", "ASK -1 a:1"}) {
    EXPECT_EQ(ReadErrorReply(broken).detour, Detour::kNone) << broken;
    EXPECT_EQ(ReadErrorReply(broken).failure, Failure::kScriptError) << broken;
  }
}

}  // namespace
}  // namespace flowguard::quota::redis
