// SPDX-License-Identifier: Apache-2.0
//
// System rules as text: read, written, and what is wrong with them.
#include <string>

#include <gtest/gtest.h>

#include "flowguard/rules_text.h"

#include "dialects/rules_writer.h"
#include "dialects/same_rules.h"

namespace flowguard::dialects {
namespace {

using namespace std::chrono_literals;

std::string Text(const std::string& system) {
  return "rules:\n  - {name: machine, system: " + system + "}\n";
}

std::string ErrorOf(const std::string& system) {
  const auto parsed = ParseRules(Text(system), "rules.yaml");
  return parsed.ok() ? "" : parsed.error().message;
}

TEST(SystemRuleTextTest, EveryFieldIsReadAndWritten) {
  const auto parsed =
      ParseRules(Text("{cpu: 85%, load: 6.5, inflight: 2_000, avg_rt: 200ms, qps: 5000}"), "r");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const Rule& rule = parsed->rules.rules.at(0);
  EXPECT_EQ(rule.kind, RuleKind::kSystem);
  EXPECT_EQ(rule.system.cpu, 0.85);
  EXPECT_EQ(rule.system.load, 6.5);
  EXPECT_EQ(rule.system.inflight, 2'000);
  EXPECT_EQ(rule.system.avg_rt, 200ms);
  EXPECT_EQ(rule.system.qps, 5'000);
  EXPECT_EQ(WriteRules(parsed->rules),
            "rules:\n"
            "  - name: machine\n"
            "    system: {cpu: 0.85, load: 6.5, inflight: 2000, avg_rt: 200ms, qps: 5000}\n");
}

TEST(SystemRuleTextTest, WhatIsWrittenReadsBackTheSame) {
  for (const std::string system :
       {"{cpu: 0}", "{cpu: 1}", "{load: 0}", "{load: 1000000}", "{load: 0.25}", "{inflight: 0}",
        "{avg_rt: 0}", "{avg_rt: 1h}", "{qps: 0}", "{qps: 1000000000, cpu: 33.3%}"}) {
    const auto parsed = ParseRules(Text(system), "r");
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    const auto again = ParseRules(WriteRules(parsed->rules), "r");
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_TRUE(SameRules(parsed->rules, again->rules)) << system;
  }
}

TEST(SystemRuleTextTest, FaultsAreToldWithTheirPlace) {
  EXPECT_EQ(ErrorOf("{}"),
            "rules.yaml:2:29: system: found none of cpu, load, inflight, avg_rt and qps; write at "
            "least one, like {cpu: 0.85}");
  EXPECT_EQ(ErrorOf("{cpu: 1.5}"),
            "rules.yaml:2:35: cpu: \"1.5\" is above 1, the whole; write 0.5 or 50%");
  EXPECT_EQ(ErrorOf("{load: -1}"),
            "rules.yaml:2:36: load: \"-1\" is not a load average; write a number such as 6 or 2.5");
  EXPECT_EQ(ErrorOf("{load: nan}"),
            "rules.yaml:2:36: load: \"nan\" is not a load average; write a number such as 6 or "
            "2.5");
  EXPECT_EQ(ErrorOf("{load: 1000001}"),
            "rules.yaml:2:36: load: found 1000001; at most 1000000 is allowed");
  EXPECT_EQ(ErrorOf("{load: [1]}"),
            "rules.yaml:2:36: load: found a list; a number such as 6 or 2.5 is allowed");
  EXPECT_NE(ErrorOf("{inflight: -1}").find("rules.yaml:2:40: inflight: "), std::string::npos)
      << ErrorOf("{inflight: -1}");
  EXPECT_NE(ErrorOf("{qps: 1000000001}").find("rules.yaml:2:35: qps: "), std::string::npos)
      << ErrorOf("{qps: 1000000001}");
  EXPECT_NE(ErrorOf("{avg_rt: 2h}").find("rules.yaml:2:38: avg_rt: "), std::string::npos)
      << ErrorOf("{avg_rt: 2h}");
  EXPECT_NE(ErrorOf("{cpus: 1}").find("did you mean \"cpu\"?"), std::string::npos)
      << ErrorOf("{cpus: 1}");
  EXPECT_NE(ErrorOf("0.85").find("rules.yaml:2:29: system: "), std::string::npos)
      << ErrorOf("0.85");
}

TEST(SystemRuleTextTest, FieldsOfOtherKindsAreRefused) {
  EXPECT_NE(ErrorOf("{cpu: 0.85}, by: [ip]").find("by: goes with"), std::string::npos);
  EXPECT_NE(ErrorOf("{cpu: 0.85}, limit: 1/s").find("more than one of limit"), std::string::npos);
  EXPECT_EQ(ErrorOf("{cpu: 0.85}, shadow: true"), "");
}

}  // namespace
}  // namespace flowguard::dialects
