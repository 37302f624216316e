// SPDX-License-Identifier: Apache-2.0
//
// The JSON that Sentinel's own classes serialise to.
#include "dialects/sentinel/writer.h"

#include <string>

#include <gtest/gtest.h>

#include "dialects/sentinel/reading_test.h"

namespace flowguard::dialects::sentinel {
namespace {

TEST(WriteRulesTest, Flow) {
  EXPECT_EQ(RulesOf(Kind::kFlow, "[{resource:'r',count:20}]"),
            R"([{"clusterMode":false,"controlBehavior":0,"count":20.0,"grade":1,)"
            R"("limitApp":"default","maxQueueingTimeMs":500,"regex":false,"resource":"r",)"
            R"("strategy":0,"warmUpPeriodSec":10}])");
}

TEST(WriteRulesTest, FlowOfACluster) {
  EXPECT_EQ(RulesOf(Kind::kFlow, "[{resource:'r',count:20,clusterConfig:{flowId:'111'}}]"),
            R"([{"clusterConfig":{"acquireRefuseStrategy":0,"clientOfflineTime":2000,)"
            R"("fallbackToLocalWhenFail":true,"flowId":111,"resourceTimeout":2000,)"
            R"("resourceTimeoutStrategy":0,"sampleCount":10,"strategy":0,"thresholdType":0,)"
            R"("windowIntervalMs":1000},"clusterMode":false,"controlBehavior":0,"count":20.0,)"
            R"("grade":1,"limitApp":"default","maxQueueingTimeMs":500,"regex":false,)"
            R"("resource":"r","strategy":0,"warmUpPeriodSec":10}])");
}

TEST(WriteRulesTest, Degrade) {
  EXPECT_EQ(RulesOf(Kind::kDegrade, "[{resource:'r',count:50,timeWindow:10}]"),
            R"([{"count":50.0,"grade":0,"minRequestAmount":5,"regex":false,"resource":"r",)"
            R"("slowRatioThreshold":1.0,"statIntervalMs":1000,"timeWindow":10}])");
}

TEST(WriteRulesTest, System) {
  EXPECT_EQ(RulesOf(Kind::kSystem, "[{}]"),
            R"([{"avgRt":-1,"highestCpuUsage":-1.0,"highestSystemLoad":-1.0,"maxThread":-1,)"
            R"("qps":-1.0,"regex":false}])");
}

TEST(WriteRulesTest, Authority) {
  EXPECT_EQ(RulesOf(Kind::kAuthority, "[{resource:'r',limitApp:'a,b',strategy:1}]"),
            R"([{"limitApp":"a,b","regex":false,"resource":"r","strategy":1}])");
}

TEST(WriteRulesTest, ParamFlow) {
  EXPECT_EQ(RulesOf(Kind::kParamFlow,
                    "[{resource:'r',paramIdx:0,count:5,"
                    "paramFlowItemList:[{object:'v',count:10,classType:'java.lang.String'}]}]"),
            R"([{"burstCount":0,"clusterMode":false,"controlBehavior":0,"count":5.0,)"
            R"("durationInSec":1,"grade":1,"maxQueueingTimeMs":0,)"
            R"("paramFlowItemList":[{"classType":"java.lang.String","count":10,"object":"v"}],)"
            R"("paramIdx":0,"regex":false,"resource":"r"}])");
}

TEST(WriteRulesTest, GatewayFlow) {
  EXPECT_EQ(RulesOf(Kind::kGatewayFlow,
                    "[{resource:'g',count:3,paramItem:{parseStrategy:2,fieldName:'H'}}]"),
            R"([{"burst":0,"controlBehavior":0,"count":3.0,"grade":1,"intervalSec":1,)"
            R"("maxQueueingTimeoutMs":500,)"
            R"("paramItem":{"fieldName":"H","matchStrategy":0,"parseStrategy":2},)"
            R"("resource":"g","resourceMode":0}])");
}

TEST(WriteRulesTest, ApiDefinition) {
  EXPECT_EQ(RulesOf(Kind::kApiDefinition,
                    "[{apiName:'n',predicateItems:[{pattern:'/a/**',matchStrategy:1}]}]"),
            R"([{"apiName":"n","predicateItems":[{"matchStrategy":1,"pattern":"/a/**"}]}])");
}

TEST(WriteRulesTest, IdsAndTextsOfEveryKindAreKept) {
  EXPECT_EQ(RulesOf(Kind::kAuthority, "[{id:7,resource:'q\"\\\\/\\u0001\\u00e9 ',limitApp:'a'}]"),
            "[{\"id\":7,\"limitApp\":\"a\",\"regex\":false,"
            "\"resource\":\"q\\\"\\\\/\\u0001\xC3\xA9 \",\"strategy\":0}]");
}

}  // namespace
}  // namespace flowguard::dialects::sentinel
