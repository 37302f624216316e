# SPDX-License-Identifier: Apache-2.0
"""What other programs and pages count on: the sliding log that a Java service runs in Redis,
a flash sale with one quota over all instances, and a limit by address and minute whose keys
go by themselves."""
import concurrent.futures
import http.client
import json
import signal
import time
import uuid

import harness
import redis_servers

THREADS = 8
ORDERS_MAX = 20_000  # sent until one is refused

# As services have it that put a sorted set behind their filters; what ours has to agree with.
THEIR_SCRIPT = """
local key = KEYS[1]
local windowMs = tonumber(ARGV[1])
local limit = tonumber(ARGV[2])
local requestId = ARGV[3]

local redisTime = redis.call('TIME')
local nowMs = redisTime[1] * 1000 + math.floor(redisTime[2] / 1000)
local startMs = nowMs - windowMs

redis.call('ZREMRANGEBYSCORE', key, 0, startMs)
local current = redis.call('ZCARD', key)
if current >= limit then
    return {0, current, nowMs}
end
redis.call('ZADD', key, nowMs, requestId)
redis.call('PEXPIRE', key, windowMs + 1000)
return {1, current + 1, nowMs}
"""

GATEWAY = """
gateway: {{listen: "127.0.0.1:0", upstream: ["http://127.0.0.1:{upstream}"], workers: 1}}
decisions: {{listen: "127.0.0.1:0"}}
admin: {{listen: "127.0.0.1:0"}}
store: {{redis: "{redis}", nodes: 2, deadline: 1s}}
responses: {{decided_at: true, body: unified, on_success: true}}
"""

FLASH_SALE = """
dimensions: {tenant: {header: x-tenant-id, missing: default}}
rules:
  - name: create-order
    on: {route: "POST /seckill/orders", resource: "seckill:createOrder"}
    limit: 500 per 1s
    algorithm: sliding_log
    by: [tenant]
    scope: shared
    tag: resource
    on_store_failure: closed
"""

PER_ADDRESS = """
rules:
  - name: per-client
    limit: 10/min
    algorithm: weighted_average
    by: [ip]
    scope: shared
    on_store_failure: closed
"""


# A rule of every form, and slots; none may refuse or fail.
FORMS = {"token_bucket": "", "leaky_bucket": ", wait: 1s", "sliding_log": "", "sliding_buckets": "",
         "sliding_window": "", "fixed_window": "", "weighted_average": ""}
EVERY_FORM = "dimensions: {user: {header: x-user}}\nrules:\n" + "".join(
    f"  - {{name: {form}, on: {{route: /}}, limit: 100/min, algorithm: {form}, by: [user], scope: shared, "
    f"on_store_failure: closed{more}}}\n" for form, more in FORMS.items()) + (
    "  - {name: leased, on: {route: /}, limit: 1_000/s, by: [user], scope: shared, on_store_failure: closed, "
    "lease: {overshoot: 50}}\n"
    "  - {name: slots, on: {route: /slots}, concurrency: 5, by: [user], scope: shared, "
    "on_store_failure: closed}\n")


class ContractCase(harness.Case):
    def setUp(self):
        super().setUp()
        self.redis = self.start(redis_servers.Redis(self.dir))

    def serve(self, rules, count=2, store=None):
        """Gateways that share the store."""
        upstream = self.start(harness.Process([harness.TOOLS / "fg_upstream", 0, 32]))
        port = int(upstream.wait_line("listening").rsplit(":", 1)[1])
        path = self.write("flowguard.yaml",
                          GATEWAY.format(upstream=port, redis=store or self.redis.url) + rules)
        guards = [self.start(harness.FlowGuard("--config", path,
                                               doors=("gateway", "decisions", "admin")))
                  for _ in range(count)]
        for guard in guards:
            harness.wait_until(lambda g=guard: harness.ask(g.admin, "/readyz").json()["checks"][
                "store"] == "answers", "the store answers")
        return guards

    def keys(self):
        """All but those by which the gateways count themselves."""
        return sorted(key for key in self.redis.ask("KEYS", "rl:*") if "nodes" not in key)


class SlidingLogOfOthers(ContractCase):
    """The client of a service: EVALSHA key, window in ms, limit, unique id, and of the reply
    allowed, requests in the window, the server's clock in ms."""

    KEY = "rl:{order:create}:tenant:1001"

    def setUp(self):
        super().setUp()
        code, script, _ = harness.run_once("script")
        self.assertEqual(code, 0)
        self.ours = self.redis.ask("SCRIPT", "LOAD", script)
        self.theirs = self.redis.ask("SCRIPT", "LOAD", THEIR_SCRIPT)

    def check(self, sha, limit, window_ms=60_000):
        """(allowed, current, now)."""
        reply = self.redis.ask("EVALSHA", sha, 1, self.KEY, window_ms, limit, uuid.uuid4().hex)
        self.assertEqual(len(reply), 3)
        return reply

    def now_ms(self):
        seconds, micros = self.redis.ask("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    def test_allowed_current_and_now_are_told(self):
        before = self.now_ms()
        first = self.check(self.ours, 2)
        self.assertEqual(first[:2], [1, 1])
        self.assertEqual(self.check(self.ours, 2)[:2], [1, 2])
        self.assertEqual(self.check(self.ours, 2)[:2], [0, 2])
        self.assertTrue(before <= first[2] <= self.now_ms(), first)

    def test_both_scripts_count_in_one_log(self):
        limit = 11
        replies = [self.check((self.ours, self.theirs)[turn % 2], limit) for turn in range(30)]
        self.assertEqual([allowed for allowed, _, _ in replies], [1] * limit + [0] * 19)
        self.assertEqual([current for _, current, _ in replies],
                         [*range(1, limit + 1)] + [limit] * 19)
        self.assertEqual(self.redis.ask("ZCARD", self.KEY), limit)

    def test_what_leaves_the_window_makes_room_and_the_key_goes(self):
        window_ms = 300
        for sha in (self.ours, self.theirs):
            self.assertEqual(self.check(sha, 2, window_ms)[0], 1)
        oldest = float(self.redis.ask("ZRANGE", self.KEY, 0, 0, "WITHSCORES")[1])
        allowed, current, now = harness.wait_until(
            lambda: (lambda reply: reply if reply[0] else None)(self.check(self.ours, 2, window_ms)),
            "the window goes on")
        self.assertGreaterEqual(now - oldest, window_ms)
        self.assertLessEqual(current, 2)
        self.assertLessEqual(self.redis.ask("ZCARD", self.KEY), 2)
        self.assertTrue(0 < self.redis.ask("PTTL", self.KEY) <= window_ms + 1000)

    def test_a_refusal_writes_nothing(self):
        self.check(self.ours, 1)
        before = self.redis.ask("ZRANGE", self.KEY, 0, -1), self.redis.ask("PEXPIRETIME", self.KEY)
        self.assertEqual(self.check(self.ours, 1)[0], 0)
        after = self.redis.ask("ZRANGE", self.KEY, 0, -1), self.redis.ask("PEXPIRETIME", self.KEY)
        self.assertEqual(after, before)

    def test_requests_of_one_millisecond_are_as_many_as_they_are(self):
        with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
            replies = list(pool.map(lambda _: self.check(self.ours, 30), range(40)))
        self.assertEqual(sum(allowed for allowed, _, _ in replies), 30)
        self.assertEqual(self.redis.ask("ZCARD", self.KEY), 30)


class FlashSale(ContractCase):
    """500 orders a second for each tenant, whichever instance they come to."""

    def test_the_spike_is_cut_at_the_quota_and_other_tenants_order_on(self):
        first, second = self.serve(FLASH_SALE)
        stamps, refusals, sent = [], [], iter(range(ORDERS_MAX))

        def order_until_refused(guard):
            connection = http.client.HTTPConnection("127.0.0.1", guard.gateway, timeout=20)
            while not refusals and next(sent, None) is not None:
                connection.request("POST", "/seckill/orders", b"{}", {"X-Tenant-Id": "1001"})
                response = connection.getresponse()
                body = response.read()
                if response.status == 200:
                    stamps.append(int(response.headers["FlowGuard-Decided-At"]))
                else:
                    refusals.append((response.status, dict(response.headers), body))
            connection.close()

        with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
            began = time.monotonic()
            for done in [pool.submit(order_until_refused, (first, second)[turn % 2])
                         for turn in range(THREADS)]:
                done.result()
            took = time.monotonic() - began
        print(f"{len(stamps)} orders in {took:.2f} s before the first refusal")
        self.assertTrue(refusals)
        # Fewer than the quota in each second would have been let through.
        self.assertGreaterEqual(len(stamps), 500)
        self.assertLessEqual(len(stamps), 500 * (took + 1))
        status, headers, body = refusals[0]
        self.assertEqual(status, 429)
        self.assertEqual(headers["Retry-After"], "1")
        answer = json.loads(body)
        self.assertEqual((answer["code"], answer["success"]), (429, False))
        self.assertTrue(answer["message"])

        for tenant in ("1002", None):  # without one: the tenant "default"
            order = harness.ask(second.gateway, "/seckill/orders", "POST",
                                headers={"X-Tenant-Id": tenant} if tenant else {})
            self.assertEqual(order.status, 200)
        self.assertEqual(harness.ask(first.gateway, "/seckill/orders").status, 200, "a GET is free")
        self.assertEqual(self.keys(), [
            f"rl:{{seckill:createOrder}}:tenant={tenant}:create-order:sl1s"
            for tenant in ("1001", "1002", "default")])

    def test_programs_that_name_the_resource_have_the_same_quota(self):
        first, second = self.serve(FLASH_SALE)
        body = json.dumps({"resource": "seckill:createOrder", "dimensions": {"tenant": "7"},
                           "cost": 250})
        answers = [harness.ask(guard.decisions, "/v1/check", "POST", body=body).json()
                   for guard in (first, second, first)]
        self.assertEqual([answer["allowed"] for answer in answers], [True, True, False])
        self.assertEqual([answer["remaining"] for answer in answers], [250, 0, 0])
        self.assertTrue(0 < answers[2]["retry_after_ms"] <= 1000)
        order = harness.ask(second.gateway, "/seckill/orders", "POST", {"X-Tenant-Id": "7"})
        self.assertEqual(order.status, 429)


class LimitByAddress(ContractCase):
    """A weighted average over the present minute and the one before."""

    LIMIT = 10
    FIVE_MINUTES_MS = 300_000

    def setUp(self):
        super().setUp()
        self.guards = self.serve(PER_ADDRESS)
        # What follows is to lie in one minute.
        harness.wait_until(lambda: int(self.redis.ask("TIME")[0]) % 60 < 57, "a new minute", 5)

    def use_up(self):
        """Requests to both instances in turn, until the limit and two more; their answers."""
        return [harness.ask(self.guards[turn % 2].gateway) for turn in range(self.LIMIT + 2)]

    def test_200_becomes_429_at_the_limit_over_all_instances(self):
        answers = self.use_up()
        self.assertEqual([answer.status for answer in answers], [200] * self.LIMIT + [429] * 2)
        self.assertEqual([int(answer.headers["x-ratelimit-remaining"]) for answer in answers],
                         [*range(self.LIMIT - 1, -1, -1), 0, 0])
        self.assertTrue(1 <= int(answers[-1].headers["retry-after"]) <= 60)
        self.assertIn("message", answers[-1].json())

    def test_keys_go_five_minutes_after_the_last_request_that_went(self):
        harness.ask(self.guards[0].gateway)
        key, = self.keys()
        self.assertEqual(key, "rl:{ip=127.0.0.1}:per-client:wa1m")
        self.assertTrue(self.FIVE_MINUTES_MS - 20_000 < self.redis.ask("PTTL", key)
                        <= self.FIVE_MINUTES_MS)
        self.use_up()
        until = self.redis.ask("PEXPIRETIME", key)
        self.assertEqual(harness.ask(self.guards[1].gateway).status, 429)
        self.assertEqual(self.redis.ask("PEXPIRETIME", key), until, "a refusal extends nothing")

    def test_a_request_is_three_operations_in_redis(self):
        harness.ask(self.guards[0].gateway)  # loads the script

        def operations():
            stats = self.redis.info("commandstats")
            return {name: int(value.split(",")[0].removeprefix("calls="))
                    for name, value in stats.items()}
        before = operations()
        self.assertEqual(harness.ask(self.guards[0].gateway).status, 200)
        after = operations()
        inside = {name: after[name] - before.get(name, 0)
                  for name in ("cmdstat_time", "cmdstat_get", "cmdstat_set")}
        self.assertEqual(after["cmdstat_evalsha"] - before["cmdstat_evalsha"], 1)
        self.assertEqual(inside, {"cmdstat_time": 1, "cmdstat_get": 1, "cmdstat_set": 1})

    def test_the_status_tells_what_is_left_and_when_all_of_it_is_over_all_instances(self):
        for guard in (*self.guards, self.guards[0]):
            self.assertEqual(harness.ask(guard.gateway).status, 200)
        for guard in self.guards:
            for port, path in ((guard.gateway, "/.flowguard/status"), (guard.decisions, "/v1/status")):
                for _ in range(2):  # a look takes nothing
                    rule, = harness.ask(port, path).json()["rules"]
                    self.assertEqual((rule["rule"], rule["limit"], rule["remaining"]),
                                     ("per-client", self.LIMIT, self.LIMIT - 3))
                    self.assertTrue(rule["allowed"])
                    self.assertTrue(0 < rule["reset_after_ms"] <= 120_000, rule)

    def test_reloads_leave_what_is_used_up_used_up(self):
        self.use_up()
        path = self.dir / "flowguard.yaml"
        text = path.read_text(encoding="utf-8")
        for turn in range(4):
            self.write("flowguard.yaml", text + f"  - {{name: other-{turn}, limit: {turn + 1}/s, "
                                                "on: {route: /other}}\n")
            for guard in self.guards:
                harness.wait_until(
                    lambda g=guard, t=turn: f"other-{t}\n" in harness.ask(g.admin, "/rules").body,
                    "the rules are reloaded")
                self.assertEqual(harness.ask(guard.gateway).status, 429)

    def test_requests_open_no_connections(self):
        harness.ask(self.guards[0].gateway)
        before = int(self.redis.info("stats")["total_connections_received"])
        with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda turn: harness.ask(self.guards[turn % 2].gateway), range(100)))
        after = int(self.redis.info("stats")["total_connections_received"])
        self.assertEqual(after - before, 1, "the question itself")

    def test_rules_that_are_asked_together_wait_for_a_dead_store_once(self):
        guard, = self.serve(EVERY_FORM.replace("closed", "open"), count=1)
        headers = {"X-User": "u1"}
        self.assertEqual(harness.ask(guard.gateway, headers=headers).status, 200)
        self.redis.signal(signal.SIGSTOP)
        began = time.monotonic()
        self.assertEqual(harness.ask(guard.gateway, headers=headers).status, 200)
        took = time.monotonic() - began
        self.redis.signal(signal.SIGCONT)
        # The deadline is one second, for eight rules.
        self.assertLess(took, 3)


class EveryFormOnACluster(ContractCase):
    USERS = 40

    def test_every_script_stays_in_its_slot_and_keys_spread(self):
        cluster = redis_servers.Cluster(self)
        guard, = self.serve(EVERY_FORM, count=1, store=cluster.url)
        for user in range(self.USERS):
            for path in ("/", "/slots"):
                answer = harness.ask(guard.gateway, path, headers={"X-User": f"user-{user}"})
                self.assertEqual(answer.status, 200, answer)
        # Each user has a key of each form.
        keys = [[key for key in master.ask("KEYS", "rl:{user=*") if ":leased:" not in key and ":slots:" not in key]
                for master in cluster.masters]
        letters = {key.rsplit(":", 1)[1][:2] for of_master in keys for key in of_master}
        self.assertEqual(letters, {"tb", "lb", "sl", "sb", "sw", "fw", "wa"}, letters)
        self.assertEqual(sum(map(len, keys)), self.USERS * len(FORMS))
        for of_master in keys:
            self.assertGreater(len(of_master), self.USERS * len(FORMS) // 6)
        for master in cluster.masters:
            errors = master.info("errorstats")
            self.assertNotIn("errorstat_CROSSSLOT", errors)
            self.assertNotIn("errorstat_ERR", errors)


if __name__ == "__main__":
    harness.main()
