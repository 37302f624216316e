# SPDX-License-Identifier: Apache-2.0
"""The scene of the tests of shared limits: gateways that share a store, and a load over
them of which every answer is known.

FG_SHARED_SECONDS sets how long loads last: a few seconds by default."""
import collections
import json
import os
import signal
import time

import harness

SECONDS = float(os.environ.get("FG_SHARED_SECONDS", "3"))
FULL = SECONDS >= 10
LIMIT = 500
GATEWAYS = 3
OFFERED = GATEWAYS * LIMIT
DEADLINE_SECONDS = 0.02
CONNECTIONS = 192  # of a load, dealt out over its gateways
LOAD_SECONDS_MAX = 120
NS = 1_000_000_000

CONFIG = """
gateway: {{listen: "127.0.0.1:0", upstream: ["http://127.0.0.1:{upstream}"], workers: 1}}
admin: {{listen: "127.0.0.1:0"}}
store: {{redis: "{store}", deadline: {deadline_ms}ms, nodes: {nodes}}}
responses: {{decided_at: true}}
rules:
"""
RULE = """
  - name: {name}
    on: {{route: "{route}"}}
    limit: {limit}
    algorithm: {algorithm}
    by: ["query:k"]
    scope: shared
    on_store_failure: {policy}
"""

DAY_NS = 86_400 * NS

# Times in ns since 1970, as time.time_ns() tells them: when it was due, when it was there,
# and when it was decided; by the store's clock, 0 where a gateway decided by its share.
Answer = collections.namedtuple("Answer", "port key status due done decided store")


def rule(policy, limit=f"{LIMIT}/s", name="total", route="/", algorithm="sliding_log"):
    """A shared rule for each value of the query's k."""
    return RULE.format(policy=policy, limit=limit, name=name, route=route, algorithm=algorithm)


def most_in(stamps, span):
    """The most stamps in any half-open interval of that length."""
    stamps = sorted(stamps)
    most = start = 0
    for end, stamp in enumerate(stamps):
        while stamp - stamps[start] >= span:
            start += 1
        most = max(most, end - start + 1)
    return most


def admitted(answers):
    return [answer for answer in answers if answer.status == 200]


def statuses(answers):
    return dict(collections.Counter(answer.status for answer in answers))


def moments(answers):
    """When each was decided, by the clock of who decided."""
    return [answer.store or answer.decided for answer in answers]


def between(answers, begin, end):
    """Those that were due in [begin, end)."""
    return [answer for answer in answers if begin <= answer.due < end]


def wait_to(moment):
    """Until time.time_ns() is `moment`, of a load or a fault that is to last."""
    harness.wait_until(lambda: time.time_ns() >= moment, "time passes", LOAD_SECONDS_MAX)


def latency_ms(answers, quantile):
    """Of all answers, counted from when they were due."""
    took = sorted(answer.done - answer.due for answer in answers)
    return took[min(int(quantile * len(took)), len(took) - 1)] / 1e6


class Load(harness.Process):
    """An open loop over several gateways, until answers() is called."""

    def __init__(self, path, ports, rate, query="/?k=acme", keys=0):
        self._answers = path
        argv = [harness.TOOLS / "fg_load", "--rate", rate, "--seconds", LOAD_SECONDS_MAX,
                "--path", query, "--connections", CONNECTIONS, "--poll", "sleep",
                "--answers", path]
        for port in ports:
            argv += ["--port", port]
        if keys:
            argv += ["--keys", keys]
        self.began = time.time_ns()
        super().__init__(argv)

    def last(self, seconds):
        """Waits until it has lasted so long."""
        wait_to(self.began + int(seconds * NS))

    def answers(self):
        """Ends it; all of them.  AssertionError if one was lost."""
        self.signal(signal.SIGTERM)
        assert self.wait() == 0, self.err
        result = json.loads(self.out[-1])
        assert result["errors"] == 0, result
        since_boot = time.time_ns() - time.monotonic_ns()
        # The gateways count from the begin of a day.
        rows = [[int(word) for word in line.split()]
                for line in self._answers.read_text().splitlines()]
        days = (time.time_ns() - rows[-1][5]) // DAY_NS * DAY_NS
        return [Answer(port, key, status, since_boot + due, since_boot + due + latency,
                       decided + days, store * 1000)
                for port, key, status, due, latency, decided, store in rows]


class SharedCase(harness.Case):
    def serve(self, stores, rules, deadline=DEADLINE_SECONDS):
        """A gateway for each URL of `stores`, once all of them have their store."""
        upstream = self.start(harness.Process([harness.TOOLS / "fg_upstream", 0, 32]))
        port = int(upstream.wait_line("listening").rsplit(":", 1)[1])
        guards = []
        for index, store in enumerate(stores):
            path = self.write(f"gateway-{index}.yaml", CONFIG.format(
                upstream=port, store=store, deadline_ms=round(deadline * 1000),
                nodes=len(stores)) + rules)
            guards.append(self.start(harness.FlowGuard("--config", path, doors=("gateway", "admin"))))
        for guard in guards:
            harness.wait_until(lambda g=guard: self.is_shared(g), "the store answers")
        return guards

    @staticmethod
    def is_shared(guard):
        """Whether /readyz says that the store answers."""
        return harness.ask(guard.admin, "/readyz").json()["checks"]["store"] == "answers"

    @staticmethod
    def metric(guard, name):
        """One sample of /metrics, as `name{label="value"}` stands there."""
        for line in harness.ask(guard.admin, "/metrics").body.splitlines():
            if line.startswith(name + " "):
                return float(line.rsplit(" ", 1)[1])
        raise AssertionError(f"no {name} among the metrics")

    def load(self, guards, rate=OFFERED, **more):
        return self.start(Load(self.dir / f"answers-{time.monotonic_ns()}",
                               [guard.gateway for guard in guards], rate, **more))
