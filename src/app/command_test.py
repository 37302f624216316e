# SPDX-License-Identifier: Apache-2.0
"""The flowguard command as its users meet it: exit codes, streams, signals."""
import http.client
import json
import pathlib
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "e2e"))
import harness  # noqa: E402
import redis_servers  # noqa: E402
from harness import ask, run_once, signal, wait_until  # noqa: E402

DECISIONS = ("decisions", "admin")

GOOD = """rules:
  - name: per-client
    limit: 2/min
    by: [ip]
"""
WIDER = GOOD.replace("2/min", "5/min")
BAD = GOOD.replace("limit:", "limitt:")
MANY = 20_000


def many_rules(count):
    return "rules:\n" + "".join(
        f"  - {{name: r{i}, on: {{route: \"GET /r{i}/{{id}}\"}}, limit: {i + 1}/s}}\n"
        for i in range(count))


class UsageTest(unittest.TestCase):
    def test_no_command_is_a_usage_error_on_stderr(self):
        code, out, err = run_once()
        self.assertEqual((code, out), (2, ""))
        self.assertIn("error:", err)

    def test_help_is_data(self):
        code, out, err = run_once("run", "--help")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("--upstream", out)
        self.assertIn("Examples:", out)

    def test_unknown_flag(self):
        self.assertEqual(run_once("run", "--bogus")[0], 2)

    def test_version(self):
        code, out, _ = run_once("version")
        self.assertEqual(code, 0)
        self.assertRegex(out, r"^flowguard \d+\.\d+\.\d+\n$")
        _, out, _ = run_once("version", "--output", "json")
        self.assertRegex(json.loads(out)["version"], r"^\d+\.\d+\.\d+$")

    def test_nothing_to_serve(self):
        code, out, err = run_once("run")
        self.assertEqual((code, out), (2, ""))
        self.assertIn("--upstream", err)

    def test_each_bad_flag_names_itself_and_what_is_allowed(self):
        for flags, words in [
                (["--upstream", "http://x", "--listen", "nonsense"], ["--listen", "nonsense"]),
                (["--decisions", "--workers", "0"], ["--workers", "auto"]),
                (["--decisions", "--workers", "many"], ["--workers", "many"]),
                (["--decisions", "--log-level", "loud"], ["--log-level", "debug, info, warn"]),
                (["--decisions", "--drain-timeout", "soon"], ["--drain-timeout", "soon"]),
                (["--decisions", "--cells", "-1"], ["--cells"]),
                (["--decisions", "--state-bytes", "64MB"], ["--state-bytes", "MiB"]),
                (["--decisions", "--limit", "ten/s"], ["--limit", "ten/s"]),
                (["--listen", "127.0.0.1:0"], ["--listen", "--upstream"]),
        ]:
            with self.subTest(flags=flags):
                code, out, err = run_once("run", *flags)
                self.assertEqual((code, out), (2, ""), err)
                for word in words:
                    self.assertIn(word, err)

    def test_colours_only_on_a_terminal(self):
        self.assertNotIn("\x1b", run_once("run")[2])

    # A variable that is set counts, be it empty, and never falls back in silence.
    def test_environment_is_read_and_an_empty_value_is_no_default(self):
        code, _, err = run_once("run", "--decisions", env={"FLOWGUARD_WORKERS": ""})
        self.assertEqual(code, 2)
        self.assertIn("--workers", err)

    def test_a_flag_goes_before_the_environment(self):
        code, _, err = run_once("run", "--decisions", "--log-level", "loud",
                                env={"FLOWGUARD_LOG_LEVEL": "info"})
        self.assertEqual(code, 2)
        self.assertIn("loud", err)

    def test_tls_upstreams_are_refused_with_the_reason(self):
        code, _, err = run_once("run", "--upstream", "https://127.0.0.1:1")
        self.assertEqual(code, 1)
        self.assertIn("https://127.0.0.1:1", err)


class ValidateTest(harness.Case):
    def test_good_file(self):
        path = self.write("rules.yaml", GOOD)
        code, out, err = run_once("validate", path)
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(out, f"{path}: ok (rules, 1 rule)\n")

    def test_a_rule_that_no_http_request_meets_is_a_warning(self):
        text = "rules: [{name: a, on: {resource: x}, limit: 1/s}]\n"
        code, out, err = run_once("validate", self.write("rules.yaml", text))
        self.assertEqual(code, 0)
        self.assertIn("on.resource: meets no request of the gateway", err)

        by_regex = "rules: [{name: a, on: {resource_regex: x+}, limit: 1/s}]\n"
        code, out, err = run_once("validate", self.write("rules.yaml", by_regex))
        self.assertEqual(code, 0)
        self.assertIn("on.resource: meets no request of the gateway", err)

        decisions = "decisions: {listen: '127.0.0.1:0'}\n"
        code, out, err = run_once("validate", self.write("flowguard.yaml", decisions + text))
        self.assertEqual((code, err), (0, ""))

    def test_bad_file_tells_line_and_column(self):
        path = self.write("rules.yaml", BAD)
        code, out, err = run_once("validate", path)
        self.assertEqual((code, out), (1, ""))
        self.assertIn(f"{path}:3:5: ", err)
        self.assertIn("limit", err)

    def test_one_bad_file_of_several_fails(self):
        good, bad = self.write("good.yaml", GOOD), self.write("bad.yaml", BAD)
        code, out, _ = run_once("validate", good, bad)
        self.assertEqual(code, 1)
        self.assertIn("good.yaml: ok", out)

    def test_missing_file(self):
        code, _, err = run_once("validate", "/nonexistent/rules.yaml")
        self.assertEqual(code, 1)
        self.assertIn("/nonexistent/rules.yaml", err)

    def test_no_file_is_a_usage_error(self):
        self.assertEqual(run_once("validate")[0], 2)

    def test_configuration_with_the_rule_file_that_it_names(self):
        self.write("rules.yaml", BAD)
        config = self.write("flowguard.yaml", "decisions: {listen: \"127.0.0.1:0\"}\n"
                                             "rules: rules.yaml\n")
        code, _, err = run_once("validate", config)
        self.assertEqual(code, 1)
        self.assertIn("rules.yaml:3:5: ", err)

    def test_who_counts_is_for_the_configuration_to_say(self):
        rules = "rules: [{name: a, limit: 5/s, scope: %s, on_store_failure: open}]\n"
        for scope in ("shared", "cluster"):
            code, _, err = run_once("validate", self.write("rules.yaml", rules % scope))
            self.assertEqual(code, 0, err)
        door = "decisions: {listen: '127.0.0.1:0'}\n"
        store = "store: {redis: 'redis://127.0.0.1:1'}\n"
        code, _, err = run_once("validate", self.write("flowguard.yaml", door + rules % "shared"))
        self.assertEqual(code, 1)
        self.assertIn("scope: found shared, but there is no store for shared limits", err)
        code, _, err = run_once("validate",
                                self.write("flowguard.yaml", door + store + rules % "shared"))
        self.assertEqual((code, err), (0, ""))
        code, _, err = run_once("validate", self.write("flowguard.yaml", door + rules % "cluster"))
        self.assertEqual(code, 1)
        self.assertIn("scope: found cluster, which needs token servers: cluster.servers", err)

    def test_a_broken_configuration_is_read_as_one(self):
        for text in ("admin: {listen: x}\nadmin: {listen: y}\nrules: rules.yaml\n",
                     "exempt: [healthz]\n", "path: {merge: true}\n", "cluster: {server: a}\n"):
            path = self.write("flowguard.yaml", text)
            code, out, _ = run_once("validate", path, "--output", "json")
            self.assertEqual(code, 1)
            self.assertEqual(json.loads(out)["files"][0]["kind"], "config", text)

    def test_rules_of_sentinel(self):
        path = self.write("flow-rules.json", FLOW)
        code, out, err = run_once("validate", path)
        self.assertEqual((code, out), (0, f"{path}: ok (rules, 2 rules)\n"))
        self.assertIn(f"warning: {path}:1:2: flow rule #1: count: Sentinel", err)
        code, out, err = run_once("validate", self.write("flow-rules.json", FLOW.replace("3,", '"x",')))
        self.assertEqual((code, out), (1, ""))
        self.assertIn(f"{path}:1:35: flow rule #1: count: ", err)

    def test_json(self):
        path = self.write("rules.yaml", BAD)
        code, out, _ = run_once("validate", path, "--output", "json")
        self.assertEqual(code, 1)
        [entry] = json.loads(out)["files"]
        self.assertFalse(entry["ok"])
        self.assertTrue(any(":3:5:" in error for error in entry["errors"]), entry)


FLOW = """[{"resource": "/orders", "count": 3, "limitApp": null},
 {"resource": "order:pay", "count": 200, "controlBehavior": 2}]"""
DEGRADE = """[{"resource": "/orders", "grade": 2, "count": 3, "timeWindow": 10}]"""


class ConvertTest(harness.Case):
    def test_rules_of_sentinel_become_a_rule_file(self):
        flow, degrade = self.write("flow-rules.json", FLOW), self.write("degrade-rules.json", DEGRADE)
        code, out, err = run_once("convert", "--to", "flowguard", flow, degrade)
        self.assertEqual(code, 0, err)
        self.assertIn('  - name: flow//orders\n    on: {route: "/orders", resource: "/orders"}\n'
                      '    limit: 3/s\n    algorithm: sliding_log\n', out)
        self.assertIn("    limit: 200/s\n    algorithm: leaky_bucket\n    wait: 500ms\n", out)
        self.assertIn("errors: {count: 3}, min_calls: 5, window: 1s, open_for: 10s", out)
        self.assertIn(f"warning: {flow}:1:2: flow rule #1: count: Sentinel ", err)
        code, _, err = run_once("validate", self.write("rules.yaml", out))
        self.assertEqual(code, 0, err)

    def test_rules_that_are_to_count_as_sentinel_does(self):
        flow, degrade = self.write("flow-rules.json", FLOW), self.write("degrade-rules.json", DEGRADE)
        code, out, err = run_once("convert", "--to", "flowguard", "--compat", flow, degrade)
        self.assertEqual(code, 0, err)
        self.assertTrue(out.startswith("compat: sentinel\nrules:\n"), out)
        self.assertNotIn("two halves of a second", err)
        self.assertNotIn("statIntervalMs", err)
        rules = self.write("rules.yaml", out)
        self.assertEqual(run_once("validate", rules)[0], 0)
        for argv in (("--to", "sentinel", "--compat", flow), ("--to", "flowguard", "--compat", rules)):
            code, out, err = run_once("convert", *argv)
            self.assertEqual((code, out), (1, ""), argv)
            self.assertIn("--compat is for lists of Sentinel's", err)

    def test_and_back(self):
        code, out, _ = run_once("convert", "--to", "flowguard", self.write("flow-rules.json", FLOW))
        rules = self.write("rules.yaml", out)
        code, out, err = run_once("convert", "--to", "sentinel", rules)
        self.assertEqual(code, 0, err)
        _, same, _ = run_once("convert", "--to", "sentinel", self.dir / "flow-rules.json")
        self.assertEqual(out, same)
        self.assertEqual([rule["count"] for rule in json.loads(out)], [3, 200])

    def test_one_kind_is_written_at_a_time(self):
        both = [self.write("flow-rules.json", FLOW), self.write("degrade-rules.json", DEGRADE)]
        _, out, _ = run_once("convert", "--to", "flowguard", *both)
        rules = self.write("rules.yaml", out)
        code, out, err = run_once("convert", "--to", "sentinel", rules)
        self.assertEqual((code, out), (1, ""))
        self.assertIn("of several kinds: flow, degrade", err)
        code, out, err = run_once("convert", "--to", "sentinel", "--kind", "degrade", "--entity", "shop",
                                  rules)
        self.assertEqual(code, 0, err)
        self.assertEqual(json.loads(out)[0]["app"], "shop")
        self.assertIn("not written: 2 of kind flow; --kind flow writes them", err)

    def test_bad_rules_of_every_file_are_told_and_nothing_is_written(self):
        flow = self.write("flow-rules.json", FLOW.replace("200", "-200"))
        degrade = self.write("degrade-rules.json", DEGRADE.replace("10", "0"))
        code, out, err = run_once("convert", "--to", "flowguard", flow, degrade)
        self.assertEqual((code, out), (1, ""))
        self.assertIn(f"{flow}:2:37: flow rule #2: count: found -200.0", err)
        self.assertIn(f"{degrade}:1:64: degrade rule #1: timeWindow: found 0", err)
        code, out, err = run_once("convert", "--to", "flowguard", "--drop-invalid", flow)
        self.assertEqual(code, 0, err)
        self.assertNotIn("order:pay", out)

    def test_rules_that_cannot_be_loaded_are_not_converted_either_way(self):
        rules = self.write("rules.yaml", "rules: [{name: a, on: {resource: r}, limit: 200001/s, "
                                         "algorithm: sliding_log}]\n")
        for form in ("flowguard", "sentinel"):
            code, out, err = run_once("convert", "--to", form, rules)
            self.assertEqual((code, out), (1, ""), form)
            self.assertIn("rules.yaml:1:9: rule \"a\": limit: found 200001", err)

    def test_the_kind_can_be_said(self):
        path = self.write("rules.json", '[{"resource": "r", "count": 3}]')
        self.assertEqual(run_once("convert", "--to", "flowguard", path)[0], 1)
        code, out, err = run_once("convert", "--to", "flowguard", "--kind", "gateway-flow", path)
        self.assertEqual(code, 0, err)
        self.assertIn("name: gateway/r", out)

    def test_files_that_do_not_go_together(self):
        flow, rules = self.write("flow-rules.json", FLOW), self.write("rules.yaml", GOOD)
        for argv, what in (((flow, rules), "convert them one by one"),
                           ((rules, rules), "found 2 rule files"),
                           (("--from", "flowguard", flow), "a list is --from sentinel"),
                           (("--from", "sentinel", rules), "rules.yaml:1:1"),
                           (("/nonexistent.json",), "/nonexistent.json")):
            code, out, err = run_once("convert", "--to", "flowguard", *argv)
            self.assertEqual((code, out), (1, ""), argv)
            self.assertIn(what, err)

    def test_usage(self):
        path = self.write("flow-rules.json", FLOW)
        for argv in ((path,), ("--to", "yaml", path), ("--to", "sentinel"),
                     ("--to", "sentinel", "--kind", "flows", path)):
            self.assertEqual(run_once("convert", *argv)[0], 2, argv)


class ExplainTest(harness.Case):
    def test_shows_rule_key_and_verdict(self):
        path = self.write("rules.yaml", GOOD)
        code, out, err = run_once(
            "explain", "--rules", path, "--path", "/x", "--ip", "192.0.2.7")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("per-client", out)
        self.assertIn("ip=192.0.2.7", out)
        self.assertIn("verdict: allow", out)

    def test_json_with_dimensions_and_cost(self):
        code, out, _ = run_once("explain", "--limit", "10/s per user", "--path", "/",
                                 "--dim", "user=u42", "--cost", "11", "--output", "json")
        self.assertEqual(code, 0)
        explained = json.loads(out)
        self.assertEqual(explained["verdict"], "refuse")
        self.assertIsNone(explained["retry_after_ms"])
        self.assertEqual(explained["rules"][0]["key"], "user=u42")

    def test_a_dimension_that_is_given_again_is_a_list(self):
        flags = ("explain", "--limit", "10/s per param:sku", "--path", "/", "--output", "json",
                 "--dim", "param:sku=A", "--dim", "param:sku=B", "--dim", "param:sku=A")
        [rule] = json.loads(run_once(*flags, "--cost", "5")[1])["rules"]
        self.assertEqual(rule["key"], "param:sku=A, param:sku=B, param:sku=A")
        self.assertEqual(rule["verdict"], "allow")
        [rule] = json.loads(run_once(*flags, "--cost", "6")[1])["rules"]
        self.assertEqual(rule["verdict"], "refuse")

    def test_says_why_a_rule_is_not_met(self):
        path = self.write("rules.yaml", (
            "rules:\n"
            "  - {name: partners, on: {only: {tenant: [acme]}}, limit: 0}\n"
            "  - {name: reports, on: {resource_regex: 'report:.+'}, limit: 1/h}\n"))
        flags = ("explain", "--rules", path, "--resource", "report:daily", "--dim", "tenant=x")
        code, out, err = run_once(*flags)
        self.assertEqual((code, err), (0, ""))
        self.assertIn("partners\n  matched by  every request; only tenant\n"
                      "  not met     only: tenant=x is not listed\n", out)
        self.assertIn("matched by  resource matching report:.+", out)
        self.assertIn("verdict: allow", out)
        code, out, _ = run_once(*flags, "--output", "json")
        self.assertEqual(code, 0)
        self.assertEqual(json.loads(out)["rules"][1], {
            "rule": "partners", "matched_by": "every request; only tenant",
            "not_met": "only: tenant=x is not listed"})
        code, out, _ = run_once(*flags[:-1], "tenant=acme")
        self.assertIn("verdict: refuse", out)

    def test_headers_make_keys(self):
        code, out, _ = run_once("explain", "--limit", "10/s per header:x-key", "--path",
                                 "/", "--header", "X-Key: k1")
        self.assertEqual(code, 0)
        self.assertIn("=k1", out)

    SHARED = ("rules: [{name: orders, limit: 3/h, by: [user], scope: shared, "
              "on_store_failure: closed}]\n")

    def explain_shared(self, *flags):
        code, out, err = run_once("explain", *flags, "--resource", "r", "--dim", "user=u42",
                                  "--output", "json")
        self.assertEqual(code, 0, err)
        return json.loads(out), err

    def test_shows_what_a_shared_cell_holds_and_takes_nothing(self):
        redis = self.start(redis_servers.Redis(self.dir))
        rules = self.write("rules.yaml", self.SHARED)
        config = self.write("flowguard.yaml", f"store: {{redis: '{redis.url}'}}\n{self.SHARED}")
        guard = self.start(harness.FlowGuard("--rules", rules, "--store", redis.url,
                                             doors=DECISIONS))
        wait_until(lambda: ask(guard.admin, "/readyz").json()["checks"]["store"] == "answers",
                   "the store answers")
        question = json.dumps({"resource": "r", "dimensions": {"user": "u42"}})
        key = "rl:{user=u42}:orders:tb"
        for taken in range(4):
            for flags in (("--rules", rules, "--store", redis.url), ("--config", config)):
                before = (redis.ask("GET", key), redis.ask("PEXPIRETIME", key))
                explained, err = self.explain_shared(*flags)
                self.assertEqual(err, "")
                [rule] = explained["rules"]
                self.assertEqual(rule["redis_key"], key)
                self.assertEqual(rule["remaining"], max(2 - taken, 0))
                self.assertEqual(explained["verdict"], "allow" if taken < 3 else "refuse")
                self.assertEqual((redis.ask("GET", key), redis.ask("PEXPIRETIME", key)), before)
            if taken < 3:
                answer = ask(guard.decisions, "/v1/check", method="POST", body=question).json()
                self.assertTrue(answer["allowed"])
        self.assertGreater(explained["retry_after_ms"], 0)
        _, text, _ = run_once("explain", "--config", config, "--resource", "r", "--dim", "user=u42")
        self.assertIn(f"in Redis    {key}", text)
        self.assertIn("verdict: refuse (limit)", text)

    def test_shards_are_shown_as_one_and_slots_as_they_are_held(self):
        redis = self.start(redis_servers.Redis(self.dir))
        rules = self.write("rules.yaml", """rules:
  - {name: spread, limit: 8/h, scope: shared, shards: 4, on_store_failure: closed}
  - {name: slots, concurrency: 2, scope: shared, on_store_failure: closed}
""")
        guard = self.start(harness.FlowGuard("--rules", rules, "--store", redis.url,
                                             doors=DECISIONS))
        wait_until(lambda: ask(guard.admin, "/readyz").json()["checks"]["store"] == "answers",
                   "the store answers")
        for entered in range(3):
            explained, _ = self.explain_shared("--rules", rules, "--store", redis.url)
            told = {rule["rule"]: rule for rule in explained["rules"]}
            self.assertEqual((told["spread"]["limit"], told["spread"]["remaining"]),
                             (8, 7 - entered), told)
            self.assertEqual(told["slots"]["verdict"], "allow" if entered < 2 else "refuse")
            answer = ask(guard.decisions, "/v1/enter", method="POST", body='{"resource": "r"}')
            self.assertEqual(answer.json()["allowed"], entered < 2)

    def test_a_store_that_does_not_answer_is_told_and_no_failure(self):
        rules = self.write("rules.yaml", self.SHARED)
        store = f"redis://127.0.0.1:{harness.free_port()}"
        explained, err = self.explain_shared("--rules", rules, "--store", store)
        self.assertIn("warning: store: Redis does not answer", err)
        self.assertEqual(explained["verdict"], "allow")
        self.assertNotIn("redis_key", explained["rules"][0])

    def test_no_rule_matches(self):
        code, out, _ = run_once("explain", "--limit", "10/s on /orders", "--path", "/x")
        self.assertEqual((code, out), (0, "no rule matches: the request passes\n"))

    def test_usage(self):
        self.assertEqual(run_once("explain", "--path", "/")[0], 2)
        self.assertEqual(run_once("explain", "--limit", "1/s")[0], 2)
        self.assertEqual(run_once("explain", "--limit", "1/s", "--path", "/", "--store", "x")[0], 2)
        self.assertEqual(run_once("explain", "--limit", "1/s", "--path", "/", "--ip",
                                   "x")[0], 2)


class RunTest(harness.Case):
    def guard(self, *flags, doors=DECISIONS, workers="1"):
        return self.start(harness.FlowGuard("--workers", workers, *flags, doors=doors))

    def proxy(self, *flags, hold=None, doors=("gateway", "admin")):
        upstream = self.start(harness.Upstream(hold))
        return upstream, self.guard("--upstream", upstream.url, *flags, doors=doors)

    def test_200_turns_into_429_and_back(self):
        upstream, guard = self.proxy("--limit", "1/s per ip")
        self.assertEqual(ask(guard.gateway).status, 200)
        refused = ask(guard.gateway)
        self.assertEqual(refused.status, 429)
        self.assertEqual(refused.headers["retry-after"], "1")
        self.assertEqual(refused.headers["cache-control"], "no-store")
        self.assertIn("ratelimit", refused.headers)
        self.assertEqual(refused.json()["code"], 429)
        self.assertEqual(len(upstream.requests), 1)
        wait_until(lambda: ask(guard.gateway).status == 200, "a 200 after the wait")

    def test_a_door_not_asked_for_stays_shut(self):
        guard = self.guard("--limit", "1/s", doors=("decisions",))
        self.assertEqual(len(guard.out), 1)

    def test_all_workers_share_port_and_limit(self):
        guard = self.guard("--limit", "5/h per ip", workers="3")
        statuses = [ask(guard.decisions, "/v1/auth").status for _ in range(12)]
        self.assertEqual(statuses.count(200), 5)

    def test_status_page_spends_nothing(self):
        _, guard = self.proxy("--limit", "3/h per ip")
        ask(guard.gateway)
        for _ in range(5):
            [rule] = ask(guard.gateway, "/.flowguard/status").json()["rules"]
            self.assertEqual((rule["limit"], rule["remaining"]), (3, 2))

    def test_admin_tells_metrics_health_and_rules(self):
        guard = self.guard("--limit", "1/h per ip")
        ask(guard.decisions, "/v1/auth")
        ask(guard.decisions, "/v1/auth")
        text = ask(guard.admin, "/metrics").body
        self.assertRegex(text, r'flowguard_rule_requests_total\{rule="[^"]*",'
                               r'decision="allow",reason="none"\} 1\n')
        self.assertRegex(text, r'decision="refuse",reason="limit"\} 1\n')
        self.assertIn('flowguard_http_requests_total{door="decisions"} 2\n', text)
        opened = ask(guard.admin, "/metrics", headers={"Accept": "application/openmetrics-text"})
        self.assertTrue(opened.headers["content-type"].startswith("application/openmetrics"))
        self.assertTrue(opened.body.endswith("# EOF\n"))
        self.assertEqual(ask(guard.admin, "/healthz").status, 200)
        self.assertTrue(ask(guard.admin, "/readyz").json()["ready"])
        self.assertIn("limit: 1/h", ask(guard.admin, "/rules").body)
        rules = ask(guard.admin, "/rules", headers={"Accept": "application/json"}).json()
        self.assertEqual(rules["rules"][0]["limit"], "1/h")
        self.assertEqual(ask(guard.admin, "/config").json()["generation"], 1)
        self.assertEqual(ask(guard.admin, "/nothing").status, 404)
        resources = ask(guard.admin, "/v1/resources").json()
        self.assertEqual(resources["statistics"], "on")
        self.assertEqual(resources["entrance"]["last_minute"]["passed"], 1)
        self.assertEqual(resources["entrance"]["last_minute"]["blocked"], 1)
        self.assertGreaterEqual(resources["system"]["load"], 0)
        self.assertEqual(ask(guard.admin, "/v1/resources?limit=0").status, 400)

    # Keys as labels: a series for every client that ever came.
    def test_the_size_of_a_scrape_does_not_grow_with_clients(self):
        guard = self.guard("--limit", "1/h per header:x-key")

        def series():
            return ask(guard.admin, "/metrics").body.count("\n")

        ask(guard.decisions, "/v1/auth", headers={"X-Key": "first"})
        before = series()
        for i in range(200):
            ask(guard.decisions, "/v1/auth", headers={"X-Key": f"key-{i}"})
        self.assertEqual(series(), before)

    def test_sighup_takes_good_rules_and_refuses_bad_ones(self):
        path = self.write("rules.yaml", GOOD)
        guard = self.guard("--rules", path)
        self.write("rules.yaml", WIDER)
        guard.signal(signal.SIGHUP)
        wait_until(lambda: "5/min" in ask(guard.admin, "/rules").body, "the new rules")
        self.write("rules.yaml", BAD)
        guard.signal(signal.SIGHUP)
        guard.wait_line(r"rules\.yaml:3:5: ")
        self.assertIn("5/min", ask(guard.admin, "/rules").body)
        self.assertIn(":3:5:", ask(guard.admin, "/config").json()["last_error"])
        self.assertRegex(ask(guard.admin, "/metrics").body,
                         r'flowguard_config_load_total\{result="failure"\} [1-9]')

    def test_a_changed_file_is_noticed_without_a_signal(self):
        path = self.write("rules.yaml", GOOD)
        guard = self.guard("--rules", path)
        self.write("rules.yaml", WIDER)
        wait_until(lambda: "5/min" in ask(guard.admin, "/rules").body, "the new rules")

    # A reload must not hand back what was used.
    def test_a_reload_keeps_what_clients_used(self):
        path = self.write("rules.yaml", GOOD)
        guard = self.guard("--rules", path)
        statuses = [ask(guard.decisions, "/v1/auth").status for _ in range(3)]
        self.assertEqual(statuses, [200, 200, 429])
        self.write("rules.yaml", GOOD + "  - name: other\n    limit: 9/s\n")
        guard.signal(signal.SIGHUP)
        wait_until(lambda: ask(guard.admin, "/config").json()["generation"] >= 2, "a reload")
        self.assertEqual(ask(guard.decisions, "/v1/auth").status, 429)

    def test_bad_rules_at_start_end_with_1_and_the_place(self):
        path = self.write("rules.yaml", BAD)
        code, out, err = run_once("run", "--rules", path, "--decisions", "127.0.0.1:0")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("rules.yaml:3:5: ", err)

    def test_an_address_that_cannot_be_bound_ends_with_1_and_its_name(self):
        code, _, err = run_once("run", "--decisions", "192.0.2.1:1")
        self.assertEqual(code, 1)
        self.assertIn("192.0.2.1:1", err)

    # Through SO_REUSEPORT two processes would each take a part of the connections.
    def test_a_port_that_is_served_already_is_refused_at_start(self):
        guard = self.guard("--limit", "1/s")
        for flag, port in (("--decisions", guard.decisions), ("--admin", guard.admin)):
            flags = {"--decisions": "127.0.0.1:0", "--admin": "off"}
            flags[flag] = f"127.0.0.1:{port}"
            with self.subTest(flag=flag):
                code, _, err = run_once("run", *[word for pair in flags.items() for word in pair])
                self.assertEqual(code, 1)
                self.assertIn(f"127.0.0.1:{port}", err)
                self.assertIn("in use", err)

    def test_two_doors_at_one_address_are_refused(self):
        port = harness.free_port()
        code, _, err = run_once("run", "--upstream", "http://127.0.0.1:1", "--listen",
                                f"127.0.0.1:{port}", "--decisions", f"127.0.0.1:{port}")
        self.assertEqual(code, 1)
        self.assertIn(f"127.0.0.1:{port}", err)

    # Loading takes seconds here: health, signals and the next file must not wait for it.
    def test_a_long_reload_blocks_neither_health_nor_the_end(self):
        path = self.write("rules.yaml", GOOD)
        guard = self.guard("--rules", path)
        self.write("rules.yaml", many_rules(MANY))
        guard.signal(signal.SIGHUP)
        worst = asked = 0
        while f"loaded {MANY} rules" not in "\n".join(guard.err):
            before = time.monotonic()
            self.assertEqual(ask(guard.admin, "/healthz").status, 200)
            worst = max(worst, time.monotonic() - before)
            asked += 1
        self.assertGreater(asked, 5, f"the load blocked the door; the longest answer: {worst} s")
        self.write("rules.yaml", many_rules(MANY - 1))
        guard.signal(signal.SIGHUP)
        guard.signal(signal.SIGTERM)
        self.assertEqual(guard.wait(), 0)
        self.assertNotIn(f"loaded {MANY - 1} rules", "\n".join(guard.err))

    def test_reloads_that_come_while_one_runs_end_with_the_last_file(self):
        path = self.write("rules.yaml", GOOD)
        guard = self.guard("--rules", path)
        for text in (many_rules(MANY), BAD, GOOD, many_rules(7), WIDER):
            self.write("rules.yaml", text)
            guard.signal(signal.SIGHUP)
            ask(guard.admin, "/healthz")  # it has been read
        wait_until(lambda: "5/min" in ask(guard.admin, "/rules").body, "the last rules", 120)
        told = "\n".join(guard.err)
        self.assertNotIn("loaded 7 rules", told)
        self.assertNotIn(":3:5:", told)

    def test_a_file_that_has_not_changed_is_not_compiled_again(self):
        path = self.write("rules.yaml", GOOD)
        guard = self.guard("--rules", path)
        guard.signal(signal.SIGHUP)
        guard.wait_line("has not changed")
        self.assertEqual(ask(guard.admin, "/config").json()["generation"], 1)
        self.assertRegex(ask(guard.admin, "/metrics").body,
                         r'flowguard_config_load_total\{result="success"\} 2\n')

    # The file is again what is in force: the failure is over though nothing is loaded.
    def test_a_bad_file_that_is_put_back_is_good_again(self):
        path = self.write("rules.yaml", GOOD)
        guard = self.guard("--rules", path)
        self.write("rules.yaml", BAD)
        guard.signal(signal.SIGHUP)
        guard.wait_line(r"rules\.yaml:3:5: ")
        self.write("rules.yaml", GOOD)
        guard.signal(signal.SIGHUP)
        wait_until(lambda: ask(guard.admin, "/config").json()["last_error"] is None, "the mending")
        self.assertEqual(ask(guard.admin, "/config").json()["generation"], 1)

    def test_requests_cut_off_by_the_end_of_the_drain_are_told_and_no_success(self):
        release = threading.Event()
        self.addCleanup(release.set)
        upstream, guard = self.proxy("--drain-timeout", "100ms", hold=release)

        def client():
            try:
                ask(guard.gateway)
            except (OSError, http.client.HTTPException):
                pass  # cut off

        thread = threading.Thread(target=client)
        thread.start()
        wait_until(lambda: upstream.requests, "the request at the upstream")
        guard.signal(signal.SIGTERM)
        self.assertEqual(guard.wait(), 1)
        guard.wait_line("1 request was cut off")
        release.set()
        thread.join()

    def test_sigterm_fails_readiness_lets_requests_end_and_exits_0(self):
        release = threading.Event()
        self.addCleanup(release.set)
        upstream, guard = self.proxy(hold=release)
        statuses = []
        client = threading.Thread(target=lambda: statuses.append(ask(guard.gateway).status))
        client.start()
        wait_until(lambda: upstream.requests, "the request at the upstream")
        guard.signal(signal.SIGTERM)
        wait_until(lambda: ask(guard.admin, "/readyz").status == 503, "readiness to fail")
        self.assertIsNone(guard.child.poll())
        release.set()
        client.join()
        self.assertEqual(statuses, [200])
        self.assertEqual(guard.wait(), 0)

    def test_sigterm_with_nothing_in_progress_ends_at_once(self):
        guard = self.guard()
        guard.signal(signal.SIGTERM)
        self.assertEqual(guard.wait(), 0)

    def test_a_second_signal_cuts_off(self):
        release = threading.Event()
        self.addCleanup(release.set)
        upstream, guard = self.proxy(hold=release)

        def client():
            try:
                ask(guard.gateway)
            except OSError:
                pass  # that is the point

        thread = threading.Thread(target=client)
        thread.start()
        wait_until(lambda: upstream.requests, "the request at the upstream")
        guard.signal(signal.SIGTERM)
        guard.wait_line("draining")
        guard.signal(signal.SIGTERM)
        self.assertEqual(guard.wait(), 1)
        release.set()
        thread.join()

    def test_configuration_file(self):
        upstream = self.start(harness.Upstream())
        self.write("rules.yaml", GOOD)
        config = self.write("flowguard.yaml", f"""gateway:
  listen: "127.0.0.1:0"
  upstream: ["{upstream.url}"]
  workers: 1
rules: rules.yaml
""")
        guard = self.guard("--config", config, doors=("gateway",))
        self.assertEqual([ask(guard.gateway).status for _ in range(3)], [200, 200, 429])

    def test_an_exempt_route_is_seen_by_no_rule(self):
        upstream = self.start(harness.Upstream())
        config = self.write("flowguard.yaml", f"""gateway:
  listen: "127.0.0.1:0"
  upstream: ["{upstream.url}"]
exempt: [/healthz]
rules:
  - name: none
    limit: 0/s
""")
        guard = self.guard("--config", config, doors=("gateway",))
        self.assertEqual(ask(guard.gateway, "/healthz").status, 200)
        self.assertEqual(ask(guard.gateway, "/").status, 429)

    def test_where_case_is_folded_routes_with_capitals_match(self):
        upstream = self.start(harness.Upstream())
        config = self.write("flowguard.yaml", f"""gateway:
  listen: "127.0.0.1:0"
  upstream: ["{upstream.url}"]
path: {{case_insensitive: true}}
exempt: [/Healthz]
rules:
  - name: login
    on: {{route: "/Login/{{User}}"}}
    by: ["path:User"]
    limit: 1/h
  - name: health
    on: {{route: "/healthz"}}
    limit: 0/s
""")
        guard = self.guard("--config", config, doors=("gateway",))
        self.assertEqual([ask(guard.gateway, path).status for path in
                          ("/Login/Ann", "/login/ann", "/LOGIN/ANN", "/LOGIN/Bob")],
                         [200, 429, 429, 200])
        self.assertEqual(ask(guard.gateway, "/HEALTHZ").status, 200)

    def test_decisions_are_stamped_where_asked(self):
        upstream = self.start(harness.Upstream())
        config = self.write("flowguard.yaml", f"""gateway:
  listen: "127.0.0.1:0"
  upstream: ["{upstream.url}"]
responses: {{decided_at: true}}
rules:
  - name: one
    limit: 1/h
""")
        guard = self.guard("--config", config, doors=("gateway",))
        first, second = ask(guard.gateway), ask(guard.gateway)
        self.assertEqual((first.status, second.status), (200, 429))
        self.assertLess(int(first.headers["flowguard-decided-at"]),
                        int(second.headers["flowguard-decided-at"]))


if __name__ == "__main__":
    harness.main()
