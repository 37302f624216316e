// SPDX-License-Identifier: Apache-2.0
#include "dialects/rules_writer.h"

#include <chrono>
#include <string>

#include <gtest/gtest.h>

#include "flowguard/rules_text.h"

#include "dialects/same_rules.h"

namespace flowguard::dialects {
namespace {

using namespace std::chrono_literals;

// A set in which every member differs from its default.
RuleSet EverythingSet() {
  Rule limit;
  limit.name = "every field: \"quoted\" \\ \n \xC3\xA9 #";
  limit.enabled = false;
  limit.shadow = true;
  limit.on.resource = "order:*";
  limit.on.resource_regex = R"(order:[a-z]+\d"{2} #)";
  limit.on.route = "GET|HEAD /orders/{id}/**";
  limit.on.only = {{"tenant", {"acme", "globex-*"}}, {"path:id", {"*"}}};
  limit.on.except = {{"ip", {"10.0.0.0/8", "fd00::/8"}}, {"header:x-a", {"a, b: {c}", "null"}}};
  limit.rate = {4'294'967'301, 90s};
  limit.algorithm = Algorithm::kLeakyBucket;
  limit.wait = 1500ms;
  limit.count_refused = true;
  limit.cost = {7, "header:x-usage", 20'000};
  limit.scope = Scope::kShared;
  limit.on_store_failure = StoreFailurePolicy::kClosed;
  limit.tag = CellTag::kResource;
  limit.lease.overshoot = 50;
  limit.shards = 4;
  limit.prefilter = true;
  limit.by = {"tenant", "header:x-key", "null", "true", "5", "- x", ""};
  limit.overrides = {{"a, b: {c}", {0, 1s}, {}}, {"\x7f*", {3, 24h}, 9}};
  limit.refuse = {503, "later: please", {{"x-a", "b # c"}, {"x-empty", ""}}, RefuseBody::kText};
  limit.degrade = {true, "x-degraded: 1", 200, "{\"a\": 1}\n", "application/json"};
  Rule buckets;
  buckets.name = "buckets";
  buckets.rate = {600, 60s};
  buckets.algorithm = Algorithm::kSlidingBuckets;
  buckets.buckets = 12;
  Rule warming;
  warming.name = "warming";
  warming.rate = {100, 1s};
  warming.algorithm = Algorithm::kWarmUp;
  warming.warm_up = 10s;
  warming.cold_factor = 5;
  Rule bucket;
  bucket.name = "burst";
  bucket.rate = {100, 1s};
  bucket.burst = 200;
  Rule system;
  system.name = "system";
  system.kind = RuleKind::kSystem;
  system.system.load = 6.5;
  system.system.cpu = 0.85;
  system.system.avg_rt = 200ms;
  system.system.inflight = 2'000;
  system.system.qps = 5'000;
  Rule concurrency;
  concurrency.name = "concurrency";
  concurrency.kind = RuleKind::kConcurrency;
  concurrency.concurrency = 40;
  concurrency.scope = Scope::kShared;
  concurrency.on_store_failure = StoreFailurePolicy::kOpen;
  concurrency.by = {"user"};
  concurrency.overrides = {{"1001", {80, Duration{}}, {}}};
  Rule related;
  related.name = "related";
  related.kind = RuleKind::kConcurrency;
  related.concurrency = 3;
  related.relate_to = "db: write";
  Rule access;
  access.name = "access";
  access.kind = RuleKind::kAccess;
  access.allow = {{"tenant", {"acme", "globex-*"}}, {"ip", {}}};
  access.deny = {{"ip", {"10.0.0.0/8", "fd00::/8"}}};
  Rule slow;
  slow.name = "slow";
  slow.kind = RuleKind::kBreaker;
  slow.by = {"resource"};
  slow.breaker.slow_ratio = 1.0 / 3;
  slow.breaker.slow_over = 1500us;
  slow.breaker.min_calls = 7;
  slow.breaker.window = 20s;
  slow.breaker.open_for = 1500ms;
  slow.breaker.probes = 3;
  Rule failing;
  failing.name = "failing";
  failing.kind = RuleKind::kBreaker;
  failing.breaker.error_ratio = 0;
  Rule errors = failing;
  errors.name = "errors";
  errors.breaker.error_ratio.reset();
  errors.breaker.error_count = 12;
  Rule cluster;
  cluster.name = "cluster";
  cluster.rate = {9, 1s};
  cluster.algorithm = Algorithm::kSlidingLog;
  cluster.borrow = 100ms;
  cluster.scope = Scope::kCluster;
  cluster.on_store_failure = StoreFailurePolicy::kOpen;
  cluster.cluster.flow_id = 9'223'372'036'854'775'807;
  cluster.cluster.name_space = "shop";
  cluster.cluster.per_client = true;
  cluster.by = {"user"};
  cluster.overrides = {{"7", {1, 1s}, {}, ValueType::kInt},
                       {"7", {2, 1s}, {}, ValueType::kLong},
                       {"7", {3, 1s}, {}, ValueType::kByte},
                       {"7", {4, 1s}, {}, ValueType::kShort},
                       {"7", {5, 1s}, {}, ValueType::kFloat},
                       {"7", {6, 1s}, {}, ValueType::kDouble},
                       {"7", {7, 1s}, 8, ValueType::kString},
                       {"true", {8, 1s}, {}, ValueType::kBool},
                       {"vip", {9, 1s}, {}}};
  Rule tokens;
  tokens.name = "tokens";
  tokens.kind = RuleKind::kConcurrency;
  tokens.concurrency = 3;
  tokens.scope = Scope::kCluster;
  tokens.cluster.token_ttl = 1500ms;
  RuleSet set;
  set.match = MatchMode::kMostSpecific;
  set.compat = Compat::kSentinel;
  set.rules = {limit,  buckets, bucket,  concurrency, access,  slow,  failing,
               errors, warming, related, system,      cluster, tokens};
  set.dimensions = {
      {"tenant", "header:x-tenant-id", MissingPolicy::kShare, "default", true, true},
      {"user", "cookie:sid", MissingPolicy::kSkip, "", false, false},
      {"sku", "query:sku", MissingPolicy::kRefuse, "", true, false},
      {"odd name", "method", MissingPolicy::kShare, "refuse", false, true},
      {"bare", "", MissingPolicy::kShare, "", false, false},
  };
  return set;
}

TEST(WriteRulesTest, EveryFieldReadsBackAsItWas) {
  const RuleSet set = EverythingSet();
  const std::string written = WriteRules(set);

  const auto read = ParseRules(written, "written.yaml");

  ASSERT_TRUE(read.ok()) << read.error().message << "\n" << written;
  EXPECT_TRUE(SameRules(set, read->rules)) << written;
  EXPECT_EQ(WriteRules(read->rules), written);
}

TEST(WriteRulesTest, LeavesOutWhatIsTheDefault) {
  RuleSet set;
  Rule rule;
  rule.name = "per-client";
  rule.rate = {100, 1s};
  rule.burst = 200;
  rule.by = {"ip"};
  rule.on.route = "POST /orders";
  set.rules = {rule};

  EXPECT_EQ(WriteRules(set),
            "rules:\n"
            "  - name: per-client\n"
            "    on: {route: \"POST /orders\"}\n"
            "    limit: 100/s burst 200\n"
            "    by: [ip]\n");
}

TEST(WriteRulesTest, EmptySetIsWrittenAsAnEmptyList) {
  EXPECT_EQ(WriteRules(RuleSet{}), "rules: []\n");
}

// A key of a YAML map that is not marked as one ends after 1024 characters.
TEST(WriteRulesTest, LongOverrideValueReadsBack) {
  RuleSet set;
  Rule rule;
  rule.name = "r";
  rule.rate = {1, 1s};
  rule.by = {"user"};
  rule.overrides = {{std::string(5'000, 'x'), {2, 1s}, {}}, {"short", {3, 1s}, {}}};
  set.rules = {rule};

  const auto read = ParseRules(WriteRules(set), "written.yaml");

  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_TRUE(SameRules(set, read->rules));
}

// A key stands once in a map.
TEST(WriteRulesTest, TheOverridesOfOneValueStandTogether) {
  RuleSet set;
  Rule rule;
  rule.name = "r";
  rule.rate = {1, 1s};
  rule.scope = Scope::kCluster;
  rule.by = {"user"};
  rule.overrides = {{"7", {2, 1s}, {}, ValueType::kInt},
                    {"8", {3, 1s}, {}},
                    {"7", {4, 1s}, {}, ValueType::kLong}};
  set.rules = {rule};

  EXPECT_EQ(WriteRules(set),
            "rules:\n"
            "  - name: r\n"
            "    limit: 1/s\n"
            "    scope: cluster\n"
            "    on_store_failure: local\n"
            "    by: [user]\n"
            "    overrides: {\"7\": [{rate: 2/s, type: int}, {rate: 4/s, type: long}], "
            "\"8\": 3/s}\n");
}

TEST(SameRulesTest, SeesADifferenceInAnyPart) {
  const RuleSet set = EverythingSet();
  RuleSet other = set;
  other.rules[4].deny[0].values[1] = "fd01::/8";
  RuleSet nearly = set;
  nearly.rules[0].on.except[0].values[0] = "10.0.0.0/9";
  RuleSet unlike = set;
  unlike.compat = Compat::kNone;
  EXPECT_FALSE(SameRules(set, unlike));
  RuleSet unrelated = set;
  Rule& related = unrelated.rules[9];
  ASSERT_FALSE(related.relate_to.empty());
  related.relate_to.clear();
  RuleSet moved = set;
  moved.rules[0].origin = "elsewhere.yaml:1:1";

  EXPECT_FALSE(SameRules(set, other));
  EXPECT_FALSE(SameRules(set, nearly));
  EXPECT_FALSE(SameRules(set, unrelated));
  EXPECT_TRUE(SameRules(set, moved));
}

}  // namespace
}  // namespace flowguard::dialects
