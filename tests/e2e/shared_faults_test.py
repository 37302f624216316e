# SPDX-License-Identifier: Apache-2.0
"""What holds while the store of shared limits is killed, stopped, slow or cut off, for each
on_store_failure; and how soon it is over when the store is back."""
import collections
import signal
import time

import harness
import shared_case
from redis_servers import Link, Redis
from shared_case import (DEADLINE_SECONDS, FULL, GATEWAYS, LIMIT, NS, admitted, between, latency_ms,
                         moments, most_in, statuses, wait_to)

CALM_SECONDS = 5.0 if FULL else 0.7
OUTAGE_SECONDS = 10.0 if FULL else 1.5
CUT_SECONDS = 10.0 if FULL else 0.6
# The first requests of a fault wait, and a short fault has few others.
QUANTILE = 0.999 if FULL else 0.9
AT_ONCE_QUANTILE = 0.99 if FULL else 0.9
BACK_SECONDS = 2.0
ADDED_MS = DEADLINE_SECONDS * 1000 + 10
SHARE = LIMIT // GATEWAYS
REMEMBERED_SECONDS = 1.0  # the longest that a refusal is
# While a server is away it is asked whether it answers, with pauses of up to a second, and
# gateways beat.
PROBES_MAX = 8 + 2 * OUTAGE_SECONDS

# When a fault began, was noticed by all whom it concerns, ended, and was over for them, in ns
# since 1970; and the most commands that one of them waited for in vain when it had noticed.
Outage = collections.namedtuple("Outage", "began noticed ended over waited")


def kill(case, redis):
    """Killed, and started again empty."""
    return redis.kill, lambda: case.start(Redis(case.dir, redis.port))


def stop(case, redis):
    """Stopped, and continued with what it knew and what it was asked meanwhile."""
    def go_on():
        redis.signal(signal.SIGCONT)
        case.assertTrue(redis.answers())
    return lambda: redis.signal(signal.SIGSTOP), go_on


class Faults(shared_case.SharedCase):
    """What the tests have in common."""

    def serve_with(self, policy, stores):
        guards = self.serve(stores, shared_case.rule(policy))
        for guard in guards:
            self.assertEqual(self.metric(guard, "flowguard_store_nodes"), GATEWAYS)
        return guards

    def outage(self, guards, begin, end, seconds):
        """A fault from begin() to end(), which returns when the store would answer."""
        def waited():
            return [self.metric(guard, 'flowguard_redis_replies_total{reply="timeout"}')
                    for guard in guards]

        began = time.time_ns()
        begin()
        for guard in guards:
            harness.wait_until(lambda g=guard: not self.is_shared(g), "it is noticed")
        noticed = time.time_ns()
        before = waited()
        wait_to(began + int(seconds * NS))
        most = max(now - then for now, then in zip(waited(), before))
        end()
        ended = time.time_ns()
        for guard in guards:
            harness.wait_until(lambda g=guard: self.is_shared(g), "the store is back")
        over = time.time_ns()
        self.assertLessEqual((over - ended) / NS, BACK_SECONDS)
        return Outage(began, noticed, ended, over, most)

    def run_fault(self, policy, fault):
        """A load before, during and after one fault of the only store: its answers, and when
        what happened."""
        redis = self.start(Redis(self.dir))
        guards = self.serve_with(policy, [redis.url] * GATEWAYS)
        aside = self.load(guards, rate=LIMIT, query="/aside")  # no rule asks the store for these
        load = self.load(guards)
        load.last(CALM_SECONDS)
        outage = self.outage(guards, *fault(self, redis), OUTAGE_SECONDS)
        wait_to(outage.over + NS)
        answers = load.answers()

        calm = latency_ms(between(answers, load.began, outage.began), QUANTILE)
        fault_ms = latency_ms(between(answers, outage.began, outage.over), QUANTILE)
        aside_ms = latency_ms(between(aside.answers(), outage.began, outage.over), QUANTILE)
        print(f"{policy}, {fault.__name__}: noticed after {(outage.noticed - outage.began) / 1e6:.0f} "
              f"ms, back after {(outage.over - outage.ended) / 1e6:.0f} ms; p{100 * QUANTILE:g} "
              f"{calm:.1f} ms before, {fault_ms:.1f} ms from the fault until it was over, {aside_ms:.1f} ms "
              f"then without a store; "
              f"{statuses(answers)}")
        # What the machine itself adds meanwhile is seen where no store is asked.
        self.assertLessEqual(fault_ms - max(calm, aside_ms), ADDED_MS)
        # Who has noticed lets no request wait.
        self.assertLessEqual(outage.waited, PROBES_MAX)
        self.assertTrue(any(answer.store for answer in between(answers, outage.over, time.time_ns())),
                        "the store counts again")
        return answers, outage

    def check_statuses_away(self, answers, outage, status):
        """All are answered so while the store is away, once no refusal of its is remembered."""
        begin = outage.noticed + int(REMEMBERED_SECONDS * NS)
        away = between(answers, begin, outage.ended)
        self.assertEqual(set(statuses(away)) | {status}, {status})
        if FULL:
            self.assertGreater(len(away), 0)

    def check_local(self, fault):
        answers, outage = self.run_fault("local", fault)
        self.assertLessEqual(set(statuses(answers)), {200, 429})
        grants = admitted(answers)
        shares = [answer.decided for answer in grants if not answer.store]
        most, most_by_share = most_in(moments(grants), NS), most_in(shares, NS)
        alone = [share for share in shares if outage.noticed + NS <= share < outage.ended]
        whole = (outage.ended - outage.noticed) / NS - 1
        print(f"at most {most} in a second, {most_by_share} by shares, which gave {len(alone)} in the "
              f"{whole:.2f} s in which they were alone")
        self.assertLessEqual(most_by_share, LIMIT)
        self.assertLessEqual(most, 2 * LIMIT)
        self.assertGreaterEqual(len(alone), 0.97 * GATEWAYS * SHARE * int(whole))

    def check_open(self, fault):
        answers, outage = self.run_fault("open", fault)
        self.assertLessEqual(set(statuses(answers)), {200, 429})
        self.check_statuses_away(answers, outage, 200)

    def check_closed(self, fault):
        answers, outage = self.run_fault("closed", fault)
        self.assertLessEqual(set(statuses(answers)), {200, 429, 503})
        self.check_statuses_away(answers, outage, 503)
        away = between(answers, outage.noticed, outage.ended)
        at_once = latency_ms(away, AT_ONCE_QUANTILE)
        print(f"{len(away)} answered while it was away, p{100 * AT_ONCE_QUANTILE:g} {at_once:.1f} ms")
        self.assertLess(at_once, DEADLINE_SECONDS * 1000)
        # What the store does not answer for is not let through.
        self.assertTrue(all(answer.store for answer in admitted(answers)))
        if fault is stop:
            self.assertLessEqual(most_in(moments(admitted(answers)), NS), LIMIT)


class Outages(Faults):
    def test_local_keeps_its_bounds_when_the_store_is_killed(self):
        self.check_local(kill)

    def test_open_lets_all_through_when_the_store_is_killed(self):
        self.check_open(kill)

    def test_closed_refuses_at_once_when_the_store_is_stopped(self):
        self.check_closed(stop)

    def test_one_that_is_cut_off_adds_no_more_than_the_others_shares(self):
        redis = self.start(Redis(self.dir))
        link = self.start(Link(redis.port))
        guards = self.serve_with("local", [link.url, redis.url, redis.url])
        cut_off = guards[:1]
        load = self.load(guards)
        load.last(CALM_SECONDS)
        outages = {}
        for name, begin in {"half open": link.hold, "slow": lambda: link.delay(5 * DEADLINE_SECONDS),
                            "replies cut": lambda: link.break_off(3), "refused": link.cut}.items():
            outages[name] = self.outage(cut_off, begin, link.forward, CUT_SECONDS)
        wait_to(outages[name].over + NS // 2)
        answers = load.answers()

        self.assertLessEqual(set(statuses(answers)), {200, 429})
        grants = admitted(answers)
        most = most_in(moments(grants), NS)
        shares = [most_in([answer.decided for answer in grants
                           if not answer.store and answer.port == guard.gateway], NS)
                  for guard in guards]
        # One; more on a machine so busy that they too missed a deadline.
        by_share = sum(share > 0 for share in shares)
        back = {name: f"{(outage.over - outage.ended) / 1e6:.0f} ms"
                for name, outage in outages.items()}
        print(f"one of {GATEWAYS} cut off: at most {most} in a second, {shares} by their shares; "
              f"back after {back}; p{100 * QUANTILE:g} {latency_ms(answers, QUANTILE):.1f} ms")
        self.assertGreater(shares[0], 0)
        self.assertLessEqual(max(shares), SHARE)
        self.assertLessEqual(most, LIMIT + by_share * SHARE)


class OtherOutages(Faults):
    def test_local_keeps_its_bounds_when_the_store_is_stopped(self):
        self.check_local(stop)

    def test_open_lets_all_through_when_the_store_is_stopped(self):
        self.check_open(stop)

    def test_closed_refuses_at_once_when_the_store_is_killed(self):
        self.check_closed(kill)


if __name__ == "__main__":
    harness.main()
