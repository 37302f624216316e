# SPDX-License-Identifier: Apache-2.0
"""An upstream that turns slow, or fails: its breaker cuts it off, probes it, and lets it
back in.

FG_BREAKER_SECONDS sets how long the load of the last test lasts; from 10 s on, refusals
have to come within a millisecond."""
import concurrent.futures
import json
import os
import re
import threading

import harness

SECONDS = float(os.environ.get("FG_BREAKER_SECONDS", "2"))
PROBES = 2
OPEN_FOR_S = 1

CONFIG = """
gateway: {{listen: "127.0.0.1:0", upstream: ["{upstream}"]}}
admin: {{listen: "127.0.0.1:0"}}
rules:
  - name: vendor
    on: {{route: "/vendor/**"}}
    breaker: {{{condition}, min_calls: 10, window: 2s, open_for: {open_for}s, probes: {probes}}}
"""
SLOW = "slow: {over: 100ms, ratio: 0.5}"
SLOW_SECONDS = 0.25  # what a call takes while the upstream is held


class Breaker(harness.Case):
    def serve(self, condition):
        self.fast = threading.Event()
        self.fast.set()
        self.upstream = self.start(harness.Upstream(hold=self.fast, hold_seconds=SLOW_SECONDS))
        path = self.write("flowguard.yaml", CONFIG.format(
            upstream=self.upstream.url, condition=condition, open_for=OPEN_FOR_S, probes=PROBES))
        self.server = self.start(harness.FlowGuard("--config", path))
        return self.server

    def ask(self, path="/vendor/a"):
        return harness.ask(self.server.gateway, path)

    def ask_at_once(self, count):
        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            return [answer.status for answer in pool.map(lambda _: self.ask(), range(count))]

    def breakers(self, state):
        metrics = harness.ask(self.server.admin, "/metrics").body
        return int(re.search(rf'flowguard_breakers{{rule="vendor",state="{state}"}} (\d+)', metrics).group(1))

    def trip(self):
        self.assertEqual(self.ask_at_once(5), [200] * 5)
        self.fast.clear()
        self.ask_at_once(10)
        harness.wait_until(lambda: self.breakers("open") == 1, "the breaker opened")

    def test_a_slow_upstream_is_cut_off_probed_and_let_back_in(self):
        server = self.serve(SLOW)
        self.trip()
        server.wait_line(r'breaker "vendor" opened: \d+ of \d+ calls were bad')
        seen = len(self.upstream.requests)

        refused = [self.ask() for _ in range(20)]

        # More than open_for may have passed, and then some were probes.
        quick = [answer for answer in refused if answer.status == 503]
        self.assertGreaterEqual(len(quick), 20 - 2 * PROBES)
        self.assertLessEqual(len(self.upstream.requests) - seen, 20 - len(quick))
        for answer in quick:
            self.assertEqual(answer.headers["retry-after"], str(OPEN_FOR_S))
            self.assertIn("Temporarily unavailable", answer.body)
        self.assertEqual(self.ask("/other").status, 200, "what the rule does not guard goes on")

        self.fast.set()
        harness.wait_until(lambda: self.ask().status == 200, "a probe was let through")
        harness.wait_until(lambda: self.ask().status == 200 and self.breakers("open") == 0 and
                           self.breakers("half_open") == 0, "the breaker closed")
        server.wait_line(r'breaker "vendor" closed')
        self.assertEqual(self.ask_at_once(10), [200] * 10)

    def test_an_upstream_that_is_gone_is_cut_off(self):
        self.serve("errors: {ratio: 0.5}")
        self.upstream.end()
        self._cleanups = [one for one in self._cleanups if one[0] != self.upstream.end]

        harness.wait_until(lambda: self.ask().status == 503 and self.breakers("open") == 1,
                           "the breaker opened")
        self.assertEqual(harness.ask(self.server.admin, "/healthz").status, 200)

    def test_under_load_the_slow_upstream_gets_probes_only(self):
        self.serve(SLOW)
        self.trip()
        seen = len(self.upstream.requests)
        answers = self.dir / "answers"
        load = self.start(harness.Process([
            harness.TOOLS / "fg_load", "--port", self.server.gateway, "--connections", 16, "--rate", 1000,
            "--seconds", SECONDS, "--path", "/vendor/x", "--poll", "sleep", "--answers", answers]))
        self.assertEqual(load.wait(SECONDS + harness.WAIT_SECONDS), 0)

        result = json.loads(load.out[-1])
        statuses = {int(status): count for status, count in result["statuses"].items()}
        rows = [line.split() for line in answers.read_text().splitlines()]
        refusals = sorted(int(row[4]) for row in rows if row[2] == "503")
        print(f"{statuses}; refusals: median {refusals[len(refusals) // 2] / 1000:.0f} us, "
              f"99th percentile {refusals[len(refusals) * 99 // 100] / 1000:.0f} us")
        self.assertEqual(result["errors"], 0)
        self.assertGreaterEqual(statuses[503], 0.99 * sum(statuses.values()))
        phases = SECONDS / OPEN_FOR_S + 2
        self.assertLessEqual(len(self.upstream.requests) - seen, PROBES * phases)
        if SECONDS >= 10:
            self.assertLess(refusals[len(refusals) * 99 // 100], 1_000_000)


if __name__ == "__main__":
    harness.main()
