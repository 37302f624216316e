# SPDX-License-Identifier: Apache-2.0
"""Rule files of Sentinel's, unchanged, before a gateway: flow rules limit, degrade rules cut
off, and a push of a new list is taken up while it runs."""
import json
import time

import harness

FLOW = [{"resource": "GET:/orders", "count": 3, "grade": 1, "limitApp": "default"},
        {"resource": "/users/{id}", "count": 1}]
DEGRADE = [{"resource": "/flaky", "grade": 2, "count": 2, "minRequestAmount": 3, "timeWindow": 60,
            "statIntervalMs": 60000}]
CONFIG = """
gateway: {{listen: "127.0.0.1:0", upstream: ["{upstream}"]}}
admin: {{listen: "127.0.0.1:0"}}
rules: {rules}
"""


class SentinelRules(harness.Case):
    def serve(self, rules, upstream):
        path = self.write("flowguard.yaml", CONFIG.format(upstream=upstream, rules=rules))
        self.server = self.start(harness.FlowGuard("--config", path))

    def statuses(self, path, count, method="GET"):
        return [harness.ask(self.server.gateway, path, method).status for _ in range(count)]

    def check_limit(self, limit, paths, admitted=200):
        """The first `limit` of 30 calls are admitted, and no more than that in any second."""
        start = time.monotonic()
        statuses = [self.statuses(paths[i % len(paths)], 1)[0] for i in range(30)]
        seconds = int(time.monotonic() - start) + 1
        self.assertEqual(statuses[:limit], [admitted] * limit)
        self.assertEqual(set(statuses), {admitted, 429})
        self.assertLessEqual(statuses.count(admitted), limit * seconds)

    def test_a_flow_list_is_a_rule_file(self):
        self.write("flow-rules.json", json.dumps(FLOW))
        self.serve("flow-rules.json", self.start(harness.Upstream()).url)
        self.server.wait_line(r"flow-rules\.json:1:2: flow rule #1 \(and 1 more\): count: Sentinel ")
        self.check_limit(3, ["/orders"])
        self.assertEqual(self.statuses("/orders", 20, "POST"), [200] * 20, "of another method")
        self.check_limit(1, ["/users/7", "/users/8"])  # the resource is the pattern

        self.write("flow-rules.json", json.dumps([{**FLOW[0], "resource": "/late", "count": 5}]))
        self.server.wait_line("loaded 1 rules from")
        self.check_limit(5, ["/late"])
        self.assertEqual(self.statuses("/orders", 20), [200] * 20, "its rule is gone")

        self.write("flow-rules.json", json.dumps([{**FLOW[0], "count": -5}]))
        self.server.wait_line(r"flow-rules\.json:1:\d+: flow rule #1: count: found -5\.0")
        self.server.wait_line("the rules stay as they were")

    def test_flow_and_degrade_lists_become_one_rule_file(self):
        flow = self.write("flow-rules.json", json.dumps(FLOW))
        degrade = self.write("degrade-rules.json", json.dumps(DEGRADE))
        code, out, err = harness.run_once("convert", "--from", "sentinel", "--to", "flowguard", flow,
                                          degrade)
        self.assertEqual(code, 0, err)
        self.assertIn("degrade rule #1: statIntervalMs: Sentinel ", err)
        self.write("rules.yaml", out)
        self.serve("rules.yaml", f"http://127.0.0.1:{harness.free_port()}")  # nobody is there
        self.check_limit(3, ["/orders"], admitted=502)
        self.assertEqual(self.statuses("/flaky", 5), [502] * 3 + [503] * 2)
        refused = harness.ask(self.server.gateway, "/flaky")
        self.assertIn(int(refused.headers["retry-after"]), range(1, 61))
        self.assertEqual(self.statuses("/else", 5), [502] * 5, "what no rule guards goes on")


if __name__ == "__main__":
    harness.main()
