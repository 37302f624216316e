// SPDX-License-Identifier: Apache-2.0
//
// What a rule file with a mistake is told, word by word.
#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "flowguard/rules_text.h"

#include "base/bounds.h"

namespace flowguard {
namespace {

std::string ErrorOf(std::string_view yaml) {
  const auto parsed = ParseRules(yaml, "rules.yaml");
  return parsed.ok() ? "ok" : parsed.error().message;
}

// The error of one rule in braces; its fields begin at column 15 of line 2.
std::string FieldError(const std::string& fields) {
  return ErrorOf("rules:\n  - {name: r, " + fields + "}\n");
}

TEST(RuleErrorsTest, MisspeltFieldIsCorrected) {
  EXPECT_EQ(
      ErrorOf("rules:\n  - name: r\n    limit: 1/s\n    algoritm: sliding_log\n"),
      "rules.yaml:4:5: unknown field \"algoritm\"; did you mean \"algorithm\"? allowed: name, "
      "enabled, shadow, on, limit, concurrency, access, breaker, system, algorithm, buckets, wait, "
      "borrow, warm_up, cold_factor, count_refused, cost, relate_to, by, overrides, scope, "
      "on_store_failure, lease, shards, prefilter, tag, flow_id, namespace, per_client, token_ttl, "
      "refuse, "
      "degrade");
  EXPECT_EQ(ErrorOf("rulez: []\nrules: []\n"),
            "rules.yaml:1:1: unknown field \"rulez\"; did you mean \"rules\"? allowed: rules, "
            "dimensions, match, compat");
}

TEST(RuleErrorsTest, UnknownFieldUnlikeAnyIsNotGuessedAt) {
  EXPECT_EQ(FieldError("limit: 1/s, cost: {price: 1}"),
            "rules.yaml:2:34: unknown field \"price\"; allowed: reserve, settle, max_debt");
}

TEST(RuleErrorsTest, MisspeltValueIsCorrected) {
  EXPECT_EQ(FieldError("limit: 1/s, algorithm: sliding_lgo"),
            "rules.yaml:2:38: algorithm: unknown value \"sliding_lgo\"; did you mean "
            "\"sliding_log\"? allowed: token_bucket, leaky_bucket, sliding_log, sliding_buckets, "
            "sliding_window, fixed_window, weighted_average, smooth_bursty, warm_up, "
            "warm_up_window, leap_array, step_bucket");
  EXPECT_EQ(FieldError("limit: 1/s, scope: clutser"),
            "rules.yaml:2:34: scope: unknown value \"clutser\"; did you mean \"cluster\"? "
            "allowed: local, shared, cluster");
  EXPECT_EQ(FieldError("limit: 1/s, on_store_failure: openn"),
            "rules.yaml:2:45: on_store_failure: unknown value \"openn\"; did you mean \"open\"? "
            "allowed: local, open, closed");
  EXPECT_EQ(FieldError("limit: 1/s, refuse: {body: html}"),
            "rules.yaml:2:42: body: unknown value \"html\"; allowed: problem, unified, text");
  EXPECT_EQ(ErrorOf("match: most-specific\nrules: []\n"),
            "rules.yaml:1:8: match: unknown value \"most-specific\"; did you mean "
            "\"most_specific\"? allowed: all, most_specific");
}

TEST(RuleErrorsTest, FieldsOfSharedRules) {
  EXPECT_EQ(FieldError("limit: 1/s, scope: shared, lease: {}"),
            "rules.yaml:2:49: lease: overshoot is missing; write {overshoot: 100}");
  EXPECT_EQ(FieldError("limit: 1/s, scope: shared, lease: {overshot: 5}"),
            "rules.yaml:2:49: lease: overshoot is missing; write {overshoot: 100}\n"
            "rules.yaml:2:50: unknown field \"overshot\"; did you mean \"overshoot\"? allowed: "
            "overshoot");
  EXPECT_EQ(FieldError("limit: 1/s, scope: shared, tag: resorce"),
            "rules.yaml:2:47: tag: unknown value \"resorce\"; did you mean \"resource\"? allowed: "
            "key, resource");
  EXPECT_EQ(FieldError("limit: 1/s, scope: shared, shards: 99"),
            "rules.yaml:2:50: shards: \"99\" is too large; the maximum is 16");
  EXPECT_EQ(
      FieldError("limit: 1/s, prefiltre: true"),
      "rules.yaml:2:27: unknown field \"prefiltre\"; did you mean \"prefilter\"? allowed: "
      "name, enabled, shadow, on, limit, concurrency, access, breaker, system, algorithm, buckets, "
      "wait, borrow, warm_up, cold_factor, count_refused, cost, relate_to, by, overrides, scope, "
      "on_store_failure, "
      "lease, shards, prefilter, tag, flow_id, namespace, per_client, token_ttl, refuse, degrade");
  EXPECT_EQ(FieldError("concurrency: 4, lease: {overshoot: 5}"),
            "rules.yaml:2:31: lease: goes with limit, not with concurrency");
}

TEST(RuleErrorsTest, FieldsOfClusterRules) {
  const std::string cluster = "limit: 1/s, scope: cluster, on_store_failure: open, ";
  EXPECT_EQ(
      FieldError(cluster + "flowid: 7"),
      "rules.yaml:2:67: unknown field \"flowid\"; did you mean \"flow_id\"? allowed: name, "
      "enabled, shadow, on, limit, concurrency, access, breaker, system, algorithm, buckets, "
      "wait, borrow, warm_up, cold_factor, count_refused, cost, relate_to, by, overrides, "
      "scope, on_store_failure, lease, shards, prefilter, tag, flow_id, namespace, per_client, "
      "token_ttl, refuse, degrade");
  EXPECT_EQ(FieldError(cluster + "flow_id: 0"),
            "rules.yaml:2:76: flow_id: \"0\" is too small; the minimum is 1");
  EXPECT_EQ(FieldError(cluster + "flow_id: 9223372036854775808"),
            "rules.yaml:2:76: flow_id: \"9223372036854775808\" is too large; the maximum is "
            "9223372036854775807");
  EXPECT_EQ(FieldError(cluster + "token_ttl: 2s"),
            "rules.yaml:2:67: token_ttl: goes with concurrency, not with limit");
  EXPECT_EQ(FieldError("concurrency: 4, scope: cluster, on_store_failure: open, token_ttl: 2h"),
            "rules.yaml:2:82: token_ttl: \"2h\" is too long; the maximum is 1h");
  EXPECT_EQ(FieldError("limit: 1/s, flow_id: 7, per_client: true"),
            "rules.yaml:2:36: flow_id: goes with scope: cluster, not with local\n"
            "rules.yaml:2:51: per_client: goes with scope: cluster, not with local");
  EXPECT_EQ(FieldError("access: {deny: {ip: [x]}}, flow_id: 7"),
            "rules.yaml:2:42: flow_id: goes with limit or concurrency, not with access");
}

TEST(RuleErrorsTest, TypesOfOverrides) {
  const std::string cluster =
      "limit: 1/s, scope: cluster, on_store_failure: open, by: user, overrides: ";
  EXPECT_EQ(FieldError(cluster + "{7: {rate: 5/s, type: itn}}"),
            "rules.yaml:2:110: type: unknown value \"itn\"; did you mean \"int\"? allowed: int, "
            "long, byte, double, float, short, bool, string");
  EXPECT_EQ(FieldError(cluster + "{7: {type: int}}"),
            "rules.yaml:2:92: overrides: rate is missing; write {rate: 100/s, burst: 200}");
  EXPECT_EQ(FieldError(cluster + "{7: {rate: 5/s, typ: int}}"),
            "rules.yaml:2:104: unknown field \"typ\"; did you mean \"type\"? allowed: rate, burst, "
            "type");
  EXPECT_EQ(FieldError(cluster + "{7: []}"),
            "rules.yaml:2:92: overrides: the list is empty; write 100/s");
  EXPECT_EQ(FieldError("limit: 1/s, by: user, overrides: {7: {rate: 5/s, type: int}}"),
            "rules.yaml:2:70: type: goes with scope: cluster, not with local");
}

TEST(RuleErrorsTest, RateSaysWhatIsAllowedAtItsOwnColumn) {
  EXPECT_EQ(FieldError("limit: 10/x"),
            "rules.yaml:2:25: limit: unknown unit \"x\"; use us, ms, s, min, h, d");
  EXPECT_EQ(FieldError("limit: \"10/x\""),
            "rules.yaml:2:26: limit: unknown unit \"x\"; use us, ms, s, min, h, d");
  EXPECT_EQ(FieldError("limit: 100"),
            "rules.yaml:2:22: limit: \"100\" has no time; write 100/s or 100 per 10s");
  EXPECT_EQ(FieldError("limit: 0.5/s"),
            "rules.yaml:2:22: limit: \"0.5\" is not a whole number; write 1 per 2s");
  EXPECT_EQ(FieldError("limit: {rate: 10/x}"),
            "rules.yaml:2:32: rate: unknown unit \"x\"; use us, ms, s, min, h, d");
}

// Absurd and negative numbers are told at load, never wrapped, clamped or unlimited.
TEST(RuleErrorsTest, NumbersOutOfRangeNameTheBound) {
  EXPECT_EQ(FieldError("limit: 98765432198765432198765/h"),
            "rules.yaml:2:22: limit: \"98765432198765432198765\" is too large; the maximum is "
            "1000000000000");
  EXPECT_EQ(FieldError("limit: -1/s"), "rules.yaml:2:22: limit: -1 is negative; the minimum is 0");
  EXPECT_EQ(FieldError("concurrency: 98765432198765432198765"),
            "rules.yaml:2:28: concurrency: \"98765432198765432198765\" is too large; the maximum "
            "is 1000000000000");
  EXPECT_EQ(FieldError("concurrency: -3"),
            "rules.yaml:2:28: concurrency: -3 is negative; the minimum is 0");
  EXPECT_EQ(FieldError("limit: 1/s burst 0"),
            "rules.yaml:2:32: limit: burst \"0\" is too small; the minimum is 1");
  EXPECT_EQ(FieldError("limit: 1/s, algorithm: sliding_buckets, buckets: 4294967301"),
            "rules.yaml:2:64: buckets: \"4294967301\" is too large; the maximum is 1000");
  EXPECT_EQ(FieldError("limit: 1/s, wait: 2h"),
            "rules.yaml:2:33: wait: \"2h\" is too long; the maximum is 1h");
  EXPECT_EQ(FieldError("limit: 1/s, refuse: {status: 42}"),
            "rules.yaml:2:44: status: \"42\" is too small; the minimum is 400");
}

TEST(RuleErrorsTest, ValueOfTheWrongKindSaysWhatWasFound) {
  EXPECT_EQ(FieldError("limit: [1]"),
            "rules.yaml:2:22: limit: found a list; one word or text is allowed");
  EXPECT_EQ(FieldError("limit: 1/s, enabled: yes"),
            "rules.yaml:2:36: enabled: found \"yes\"; allowed: true, false");
  EXPECT_EQ(FieldError("limit: 1/s, by: {ip: 1}"),
            "rules.yaml:2:31: by: found a map; a list of words is allowed");
  EXPECT_EQ(FieldError("limit: 1/s, on: /orders"),
            "rules.yaml:2:31: on: found \"/orders\"; write {route: \"POST /orders\"} or {resource: "
            "\"order:create\"}");
  EXPECT_EQ(FieldError("limit: 1/s, on: {}"),
            "rules.yaml:2:31: on: neither route nor resource; leave `on` out for every request");
  EXPECT_EQ(FieldError("limit: 1/s, wait: 300"),
            "rules.yaml:2:36: wait: \"300\" has no unit; use ns, us, ms, s, min, h, d");
  EXPECT_EQ(FieldError("limit: 1/s, degrade: [x]"),
            "rules.yaml:2:36: degrade: found a list; allowed: true, false, or a map");
  EXPECT_EQ(FieldError("limit: 1/s, overrides: [x]"),
            "rules.yaml:2:38: overrides: found a list; a map is allowed");
  EXPECT_EQ(FieldError("access: {allow: [acme]}"),
            "rules.yaml:2:31: allow: found a list; a map is allowed");
  EXPECT_EQ(FieldError("limit:"),
            "rules.yaml:2:15: limit: found nothing; one word or text is allowed");
  EXPECT_EQ(ErrorOf("rules: {}\n"), "rules.yaml:1:8: rules: found a map; a list is allowed");
  EXPECT_EQ(ErrorOf("rules:\n  - limit\n"),
            "rules.yaml:2:5: rule: found \"limit\"; a map is allowed");
}

TEST(RuleErrorsTest, RuleNeedsANameAndOneKind) {
  EXPECT_EQ(ErrorOf("rules:\n  - limit: 1/s\n"), "rules.yaml:2:5: rule: name is missing");
  EXPECT_EQ(
      ErrorOf("rules:\n  - name: r\n"),
      "rules.yaml:2:5: rule: no limit, concurrency, access, breaker or system; one of them is "
      "needed");
  EXPECT_EQ(
      FieldError("limit: 1/s, concurrency: 4"),
      "rules.yaml:2:5: rule: more than one of limit, concurrency, access, breaker and system; "
      "write a rule for each");
}

// Of two rules with one name the old one would go on deciding unseen.
TEST(RuleErrorsTest, NameThatIsTakenIsAnErrorWithBothPlaces) {
  EXPECT_EQ(ErrorOf("rules:\n  - {name: a, limit: 1/s}\n  - {name: a, limit: 2/s}\n"),
            "rules.yaml:3:12: name: \"a\" is the name of another rule, at rules.yaml:2:12");
}

TEST(RuleErrorsTest, BreakerOpensByOneWholeCondition) {
  EXPECT_EQ(FieldError("breaker: {min_calls: 20}"),
            "rules.yaml:2:24: breaker: found neither of slow and errors; a breaker opens by one of "
            "them");
  EXPECT_EQ(FieldError("breaker: {slow: {over: 1s, ratio: 0.5}, errors: {count: 3}}"),
            "rules.yaml:2:24: breaker: found both of slow and errors; a breaker opens by one of "
            "them, write a rule for each");
  EXPECT_EQ(FieldError("breaker: {slow: {over: 800ms}}"),
            "rules.yaml:2:31: slow: ratio is missing; write {over: 800ms, ratio: 0.5}");
  EXPECT_EQ(FieldError("breaker: {errors: {}}"),
            "rules.yaml:2:33: errors: found neither of ratio and count; write {ratio: 0.5} or "
            "{count: 10}");
  EXPECT_EQ(FieldError("breaker: {errors: {ratio: 0.5, count: 3}}"),
            "rules.yaml:2:33: errors: found both of ratio and count; write {ratio: 0.5} or "
            "{count: 10}");
}

TEST(RuleErrorsTest, BreakerNumbersHaveBounds) {
  EXPECT_EQ(FieldError("breaker: {errors: {ratio: 1.5}}"),
            "rules.yaml:2:41: ratio: \"1.5\" is above 1, the whole; write 0.5 or 50%");
  EXPECT_EQ(FieldError("breaker: {errors: {ratio: nan}}"),
            "rules.yaml:2:41: ratio: \"nan\" is not a part of the whole; write 0.5 or 50%");
  EXPECT_EQ(FieldError("breaker: {errors: {ratio: -1}}"),
            "rules.yaml:2:41: ratio: \"-1\" is not a part of the whole; write 0.5 or 50%");
  EXPECT_EQ(FieldError("breaker: {errors: {count: 3}, open_for: 0}"),
            "rules.yaml:2:55: open_for: \"0\" is too short; the minimum is 1ms");
  EXPECT_EQ(FieldError("breaker: {errors: {count: 3}, probes: 0}"),
            "rules.yaml:2:53: probes: \"0\" is too small; the minimum is 1");
  EXPECT_EQ(
      FieldError("breaker: {errors: {count: 3}, minCalls: 2}"),
      "rules.yaml:2:45: unknown field \"minCalls\"; did you mean \"min_calls\"? allowed: slow, "
      "errors, min_calls, window, open_for, probes");
  EXPECT_EQ(
      FieldError("breaker: {errors: {count: 3}}, limit: 5/s"),
      "rules.yaml:2:5: rule: more than one of limit, concurrency, access, breaker and system; "
      "write a rule for each");
  EXPECT_EQ(FieldError("breaker: {errors: {count: 3}}, scope: shared"),
            "rules.yaml:2:46: scope: goes with limit or concurrency, not with breaker");
}

TEST(RuleErrorsTest, FieldsOfWarmingUp) {
  EXPECT_EQ(FieldError("limit: 1/s, warm_up: 10s"),
            "rules.yaml:2:36: warm_up: goes with warm_up or warm_up_window, not with token_bucket");
  EXPECT_EQ(FieldError("limit: 1/s, algorithm: smooth_bursty, cold_factor: 3"),
            "rules.yaml:2:66: cold_factor: goes with warm_up or warm_up_window, not with "
            "smooth_bursty");
  EXPECT_EQ(FieldError("concurrency: 4, warm_up: 10s"),
            "rules.yaml:2:31: warm_up: goes with limit, not with concurrency");
  EXPECT_EQ(FieldError("limit: 1/s, algorithm: warm_up_window, warm_up: 10s, wait: 1s"),
            "rules.yaml:2:74: wait: goes with token_bucket, leaky_bucket, smooth_bursty or "
            "warm_up, not with warm_up_window");
  EXPECT_EQ(FieldError("limit: 1/s burst 5, algorithm: warm_up, warm_up: 10s"),
            "rules.yaml:2:22: limit: burst goes with token_bucket, smooth_bursty or step_bucket, "
            "not with warm_up");
  EXPECT_EQ(FieldError("limit: 1/s, algorithm: warm_up, warm_up: 10s, cold_factor: 0"),
            "rules.yaml:2:74: cold_factor: \"0\" is too small; the minimum is 1");
  EXPECT_EQ(FieldError("limit: 1/s, algorithm: warm_up, warm_up: 1y"),
            "rules.yaml:2:57: warm_up: unknown unit \"y\"; use ns, us, ms, s, min, h, d");
}

// A field that its rule never looks at must not be accepted and dead.
TEST(RuleErrorsTest, FieldsThatDoNotFitAreErrors) {
  EXPECT_EQ(FieldError("concurrency: 4, algorithm: token_bucket"),
            "rules.yaml:2:31: algorithm: goes with limit, not with concurrency");
  EXPECT_EQ(FieldError("access: {deny: {ip: [10.0.0.1]}}, by: [ip]"),
            "rules.yaml:2:49: by: goes with limit, concurrency or breaker, not with access");
  EXPECT_EQ(FieldError("limit: 1/s, buckets: 10"),
            "rules.yaml:2:36: buckets: goes with sliding_buckets, not with token_bucket");
  EXPECT_EQ(FieldError("limit: 1/s, algorithm: fixed_window, borrow: 1s"),
            "rules.yaml:2:60: borrow: goes with token_bucket, sliding_log, sliding_buckets or "
            "leap_array, not with fixed_window");
  EXPECT_EQ(FieldError("concurrency: 1, borrow: 1s"),
            "rules.yaml:2:31: borrow: goes with limit, not with concurrency");
  EXPECT_EQ(FieldError("limit: 1/s, algorithm: sliding_log, wait: 1s"),
            "rules.yaml:2:57: wait: goes with token_bucket, leaky_bucket, smooth_bursty or "
            "warm_up, not with sliding_log");
  EXPECT_EQ(FieldError("limit: 1/s burst 2, algorithm: sliding_log"),
            "rules.yaml:2:22: limit: burst goes with token_bucket, smooth_bursty or step_bucket, "
            "not with sliding_log");
  EXPECT_EQ(FieldError("limit: 1/s, burst: 2"),
            "rules.yaml:2:34: burst: belongs to limit; write limit: 100/s burst 200");
  EXPECT_EQ(FieldError("limit: {rate: 1/s burst 2, burst: 3}"),
            "rules.yaml:2:49: burst: burst stands in the rate and beside it; once is enough");
}

// A star within a segment, or a pattern without its slash, would never match.
TEST(RuleErrorsTest, DeadPatternsAreErrorsAtTheirPlace) {
  EXPECT_EQ(FieldError("limit: 1/s, on: {route: /a/foo*bar}").substr(0, 24),
            "rules.yaml:2:39: route: ");
  EXPECT_EQ(FieldError("limit: 1/s, on: {route: api/account}").substr(0, 24),
            "rules.yaml:2:39: route: ");
  EXPECT_EQ(FieldError("limit: 1/s, on: {resource: \"foo*bar\"}").substr(0, 27),
            "rules.yaml:2:42: resource: ");
}

// An empty or cut-off file must not wipe the rules; a deliberate `rules: []` does.
TEST(RuleErrorsTest, FileWithoutRulesIsAnError) {
  EXPECT_EQ(ErrorOf(""), "rules.yaml:1:1: the file is empty");
  EXPECT_EQ(ErrorOf("\n# nothing\n"), "rules.yaml:1:1: the file is empty");
  EXPECT_EQ(ErrorOf("rules:\n"), "rules.yaml:1:1: rules: found nothing; a list is allowed");
  EXPECT_EQ(ErrorOf("match: all\n"),
            "rules.yaml:1:1: the file: rules is missing; write `rules: []` to have none");
  EXPECT_EQ(ErrorOf("- []"), "rules.yaml:1:1: the file: found a list; a map is allowed");
  // Sentinel's, but of what kind?
  EXPECT_EQ(ErrorOf("[]").substr(0, 48), "rules.yaml:1:1: the kind of the rules is unclear");
  EXPECT_EQ(ErrorOf("rules: [{name: a, limit: 1/s}, {name").substr(0, 13), "rules.yaml:1:");
}

// One run of the checker shows all there is to mend.
TEST(RuleErrorsTest, EveryFaultIsToldInTheOrderOfTheFile) {
  EXPECT_EQ(ErrorOf("rules:\n"
                    "  - {name: a, limit: 10/x, shadow: maybe}\n"
                    "  - {name: b, concurrency: many}\n"
                    "  - {name: c, limit: 1/s, limit: 2/s}\n"
                    "  - {name: d, limit: 1/s, degrade: perhaps}\n"),
            "rules.yaml:2:25: limit: unknown unit \"x\"; use us, ms, s, min, h, d\n"
            "rules.yaml:2:36: shadow: found \"maybe\"; allowed: true, false\n"
            "rules.yaml:3:28: concurrency: \"many\" is not a whole number\n"
            "rules.yaml:4:27: duplicate key \"limit\"; it is at 4:15 already\n"
            "rules.yaml:5:36: degrade: found \"perhaps\"; allowed: true, false");
}

TEST(RuleErrorsTest, FaultsAreBoundedAndTheRestCounted) {
  std::string yaml = "rules:\n";
  for (size_t i = 0; i < base::kTextFaultsMax + 7; ++i) {
    yaml += "  - {name: r" + std::to_string(i) + ", limit: 10/x}\n";
  }

  const std::string error = ErrorOf(yaml);

  EXPECT_EQ(std::count(error.begin(), error.end(), '\n'),
            static_cast<std::ptrdiff_t>(base::kTextFaultsMax));
  EXPECT_EQ(error.substr(error.rfind('\n')), "\nand 7 more");
}

TEST(RuleErrorsTest, AliasBombIsRefused) {
  std::string yaml = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 30; ++i) {
    const std::string before = std::to_string(i - 1);
    yaml += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [*a" + before + ", *a" +
            before + ", *a" + before + "]\n";
  }

  const std::string error = ErrorOf(yaml + "rules: *a29\n");

  EXPECT_NE(error.find("rules.yaml:1:5: the anchor &a0 is not supported"), std::string::npos);
}

TEST(RuleErrorsTest, DimensionHasOneSource) {
  EXPECT_EQ(ErrorOf("rules: []\ndimensions:\n  t: {header: a, cookie: b}\n"),
            "rules.yaml:3:26: cookie: a dimension has one source; found a second");
  EXPECT_EQ(ErrorOf("rules: []\ndimensions:\n  t: {heder: a}\n"),
            "rules.yaml:3:7: unknown field \"heder\"; did you mean \"header\"? allowed: header, "
            "cookie, query, path, param, source, missing, trim, lower");
}

}  // namespace
}  // namespace flowguard
