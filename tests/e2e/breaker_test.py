# SPDX-License-Identifier: Apache-2.0
"""An upstream that turns slow, or fails: its breaker cuts it off, probes it, and lets it
back in.

FG_BREAKER_SECONDS sets how long the load of the last test lasts; from 10 s on, 99 % of the
refusals have to come within a millisecond, and what the machine holds up any server."""
import collections
import concurrent.futures
import json
import os
import re
import signal
import threading

import harness

SECONDS = float(os.environ.get("FG_BREAKER_SECONDS", "2"))
PROBES = 2
OPEN_FOR_S = 1
WINDOW_S = 2

CONFIG = """
gateway: {{listen: "127.0.0.1:0", upstream: ["{upstream}"]}}
admin: {{listen: "127.0.0.1:0"}}
responses: {{decided_at: true}}
rules:
  - name: vendor
    on: {{route: "/vendor/**"}}
    breaker: {{{condition}, min_calls: 10, window: {window}s, open_for: {open_for}s, probes: {probes}}}
"""
# Far above what a busy machine adds to a call that is not held.
SLOW = "slow: {over: 500ms, ratio: 0.5}"
SLOW_SECONDS = 1.0  # what a call takes while the upstream is held
NS = 1_000_000_000

# Of one answer; instants and times in ns.
Row = collections.namedtuple("Row", "decided_at status took")


class Breaker(harness.Case):
    def serve(self, condition):
        self.fast = threading.Event()
        self.fast.set()
        self.upstream = self.start(harness.Upstream(hold=self.fast, hold_seconds=SLOW_SECONDS))
        path = self.write("flowguard.yaml", CONFIG.format(
            upstream=self.upstream.url, condition=condition, window=WINDOW_S, open_for=OPEN_FOR_S, probes=PROBES))
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

    def load(self, connections, rate, seconds):
        self.rows = self.dir / "answers"
        return self.load_of(self.server.gateway, connections, rate, seconds, "--answers", self.rows)

    def load_of(self, port, connections, rate, seconds, *more):
        return self.start(harness.Process([
            harness.TOOLS / "fg_load", "--port", port, "--connections", connections, "--rate", rate,
            "--seconds", seconds, "--path", "/vendor/x", "--poll", "sleep", *more]))

    def answers(self):
        """The rows of the load, in the order of their decisions."""
        words = [line.split() for line in self.rows.read_text().splitlines()]
        return sorted(Row(int(row[5]), int(row[2]), int(row[4])) for row in words if row[5] != "0")

    def stamp(self):
        """Now, by the gateway's clock; of a request that no rule meets."""
        return int(self.ask("/other").headers["flowguard-decided-at"])

    def upstream_gets(self, more):
        seen = len(self.upstream.requests)
        harness.wait_until(lambda: len(self.upstream.requests) >= seen + more, "requests went")

    def processor_seconds(self):
        metrics = harness.ask(self.server.admin, "/metrics").body
        return float(re.search(r"^process_cpu_seconds_total (\S+)$", metrics, re.M).group(1))

    def times_opened(self):
        lines = [*self.server.out, *self.server.err]
        return sum(bool(re.search(r'breaker "vendor" (opened|stays open)', line)) for line in lines)

    def closed(self):
        return self.breakers("open") == 0 and self.breakers("half_open") == 0

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
        harness.wait_until(lambda: self.ask().status == 200 and self.closed(), "the breaker closed")
        server.wait_line(r'breaker "vendor" closed')
        self.assertEqual(self.ask_at_once(10), [200] * 10)

    def test_an_upstream_that_is_gone_is_cut_off(self):
        self.serve("errors: {ratio: 0.5}")
        self.upstream.end()
        self._cleanups = [one for one in self._cleanups if one[0] != self.upstream.end]

        harness.wait_until(lambda: self.ask().status == 503 and self.breakers("open") == 1,
                           "the breaker opened")
        self.assertEqual(harness.ask(self.server.admin, "/healthz").status, 200)

    def test_it_opens_within_a_window_and_closes_within_open_for_and_the_probes(self):
        # By the gateway's own stamps.  What the machine stands still is allowed on top: the
        # longest time in which the gateway decided nothing, though asked 200 times a second.
        self.serve(SLOW)
        load = self.load(connections=64, rate=200, seconds=600)
        self.upstream_gets(400)
        turned_slow = self.stamp()
        self.fast.clear()
        harness.wait_until(lambda: self.breakers("open") == 1, "the breaker opened")
        self.server.wait_line(r'breaker "vendor" stays open: a probe failed')
        opened = self.times_opened()
        self.fast.set()
        recovered = self.stamp()
        harness.wait_until(self.closed, "the breaker closed")
        # Its upstream may stand still too, so that a probe of these fails once more.
        failed_again = self.times_opened() - opened
        self.upstream_gets(100)
        load.signal(signal.SIGTERM)
        self.assertEqual(load.wait(), 0)

        rows = self.answers()
        refused = [row.decided_at for row in rows if row.status == 503]
        first, last = refused[0], refused[-1]
        standstill = max(after.decided_at - row.decided_at for row, after in zip(rows, rows[1:]))
        probes = [row for row in rows if recovered < row.decided_at <= last and row.status == 200]
        slowest_probe = max([row.took for row in probes], default=0)
        print(f"opened after {(first - turned_slow) / NS:.2f} s, closed after "
              f"{(last - recovered) / NS:.2f} s; probes took {slowest_probe / NS:.3f} s, "
              f"longest standstill {standstill / NS:.3f} s")
        self.assertGreater(first, turned_slow)
        # A call that goes at the end of the window tells when it ends.
        self.assertLessEqual(first - turned_slow, (WINDOW_S + SLOW_SECONDS) * NS + standstill)
        # One that was on its way when it recovered was slow already.
        self.assertLessEqual(last - recovered,
                             (OPEN_FOR_S * (1 + failed_again) + SLOW_SECONDS) * NS + slowest_probe + standstill)
        went = [row for row in rows if first < row.decided_at < recovered and row.status == 200]
        phases = (recovered - first) / NS / OPEN_FOR_S + 1
        self.assertLessEqual(len(went), PROBES * phases)
        self.assertGreaterEqual(sum(row.decided_at > last for row in rows), 50)
        self.assertEqual({row.status for row in rows}, {200, 503})

    def test_under_load_the_slow_upstream_gets_probes_only(self):
        self.serve(SLOW)
        self.trip()
        bare = self.start(harness.Process([harness.TOOLS / "fg_upstream", 0, 32]))
        bare_port = int(bare.wait_line("listening").rsplit(":", 1)[1])
        seen = len(self.upstream.requests)
        before = self.processor_seconds()
        load = self.load(connections=16, rate=1000, seconds=SECONDS)
        beside = self.load_of(bare_port, 16, 1000, SECONDS)
        for one in (load, beside):
            self.assertEqual(one.wait(SECONDS + harness.WAIT_SECONDS), 0)
        rows = self.answers()
        each = (self.processor_seconds() - before) / len(rows)

        result = json.loads(load.out[-1])
        statuses = {int(status): count for status, count in result["statuses"].items()}
        took = sorted(row.took for row in rows if row.status == 503)
        most_us = took[len(took) * 99 // 100] / 1000
        any_server_us = json.loads(beside.out[-1])["p99_us"]
        print(f"{statuses}; 99 % of the refusals within {most_us:.0f} us, of the answers of a bare "
              f"server {any_server_us:.0f} us; {each * 1e6:.0f} us of processor each")
        self.assertEqual(result["errors"], 0)
        self.assertGreaterEqual(statuses[503], 0.99 * sum(statuses.values()))
        phases = SECONDS / OPEN_FOR_S + 2
        self.assertLessEqual(len(self.upstream.requests) - seen, PROBES * phases)
        # No busy machine moves the first of these.
        self.assertLess(each, 0.001)
        if SECONDS >= 10:
            self.assertLess(most_us, 1000 + 2 * any_server_us)


if __name__ == "__main__":
    harness.main()
