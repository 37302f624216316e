# SPDX-License-Identifier: Apache-2.0
"""One total over three gateways while what counts it changes: slots of a Redis cluster
move between its masters, and sentinels replace a master."""
import re
import time

import harness
import shared_case
from redis_servers import Cluster, Watched
from shared_case import GATEWAYS, LIMIT, NS, SECONDS, admitted, moments, most_in, statuses

TENANTS = 24
TENANT_LIMIT = 5
# So long that only a decision that went wrong is refused for the store's sake.
DEADLINE_SECONDS = 1.0


def cluster_keys(cluster, count):
    """The keys of all masters, once there are so many."""
    keys = [key for master in cluster.masters for key in master.ask("KEYS", "rl:{query*")]
    return keys if len(keys) >= count else None


class Resharding(shared_case.SharedCase):
    """Under load, with every reply that a gateway may meet while a slot moves."""

    def test_moving_slots_lets_nothing_more_through(self):
        cluster = Cluster(self)
        rules = shared_case.rule("closed") + shared_case.rule(
            "closed", limit=f"{TENANT_LIMIT}/s", name="small", route="/small")
        guards = self.serve([cluster.url] * GATEWAYS, rules, DEADLINE_SECONDS)
        many = self.load(guards, rate=10 * TENANTS, query="/small", keys=TENANTS)
        hot = self.load(guards)
        keys = harness.wait_until(lambda: cluster_keys(cluster, 1 + TENANTS), "every tenant has a cell")
        slots = {key: cluster.slot_of(key) for key in keys}
        hot_slot = next(slot for key, slot in slots.items() if "k=acme" in key)
        others = sorted(set(slots.values()) - {hot_slot})
        self.assertGreater(len(others), TENANTS // 2)

        end = hot.began + SECONDS * NS
        rounds = moved = 0
        while time.time_ns() < end:
            moved += cluster.move(hot_slot, self.somebody_was_sent_on)
            moved += cluster.move(others[rounds % len(others)])
            rounds += 1
        total, small = hot.answers(), many.answers()

        for answers in (total, small):
            self.assertLessEqual(set(statuses(answers)), {200, 429}, statuses(answers))
            self.assertTrue(all(answer.store for answer in admitted(answers)))
        stamps = [answer.store for answer in admitted(total)]
        most = most_in(stamps, NS)
        span = (max(stamps) - min(stamps)) / NS
        asks, moves = cluster.redirects("ASK"), cluster.redirects("MOVED")
        print(f"{rounds} times the busy slot and another moved, {moved} keys, {asks} ASK, "
              f"{moves} MOVED; {len(stamps)} admitted in {span:.2f} s, at most {most} in a second; "
              f"p99.9 {shared_case.latency_ms(total, 0.999):.1f} ms")
        self.assertGreater(asks, 0)
        self.assertGreater(moves, 0)
        self.assertLessEqual(most, LIMIT)
        self.assertGreaterEqual(len(stamps), 0.97 * LIMIT * span)
        for tenant in range(TENANTS):
            own = [answer.store for answer in admitted(small) if answer.key == tenant]
            self.assertGreater(len(own), 0)
            self.assertLessEqual(most_in(own, NS), TENANT_LIMIT)

    @staticmethod
    def somebody_was_sent_on(_, to):
        """The slot's keys are there: it is asked for at the old place, and had at the new."""
        def asked():
            return to.info("commandstats").get("cmdstat_asking", "calls=0,").split(",")[0]
        before = asked()
        harness.wait_until(lambda: asked() != before, "a command is sent on by ASK")


class PartOfACluster(shared_case.SharedCase):
    TENANTS = 300

    def test_a_master_that_is_gone_takes_its_own_tenants_only(self):
        cluster = Cluster(self)
        for master in cluster.masters:
            master.ask("CONFIG", "SET", "cluster-require-full-coverage", "no")
        guards = self.serve([cluster.url] * GATEWAYS, shared_case.rule("closed"), DEADLINE_SECONDS)
        load = self.load(guards, query="/", keys=self.TENANTS)
        keys = harness.wait_until(lambda: cluster_keys(cluster, self.TENANTS), "every tenant has a cell")
        gone = cluster.masters[0]
        lost = {int(re.search(r"=k(\d+)}", key).group(1)) for key in keys
                if cluster.owner(cluster.slot_of(key)) is gone}
        gone.kill()
        killed = time.time_ns()
        shared_case.wait_to(killed + int(SECONDS * NS))
        answers = shared_case.between(load.answers(), killed, time.time_ns())

        own = [answer for answer in answers if answer.key in lost]
        others = [answer for answer in answers if answer.key not in lost]
        print(f"{len(lost)} of {self.TENANTS} tenants on the master that is gone: {statuses(own)}; "
              f"the others: {statuses(others)}")
        self.assertEqual(set(statuses(own)), {503})
        self.assertEqual(set(statuses(others)), {200})


class Watching(shared_case.SharedCase):
    """A replica that becomes master lacks what it had not been told: so much may be granted
    once more, and at most the limit."""

    @staticmethod
    def wait_until_granted(redis, count):
        """The name of the only cell, once so many units are taken from it."""
        def granted():
            keys = redis.ask("KEYS", "rl:{query*")
            return keys[0] if keys and redis.ask("LLEN", keys[0]) >= count else None
        return harness.wait_until(granted, "so much is granted")


class Failover(Watching):
    QUOTA = 2000
    QUOTA_SECONDS = 60
    UNSEEN = 300

    def test_a_killed_master_costs_what_its_replica_had_not_seen(self):
        watched = Watched(self)
        # Longer than the failover takes, so that what was granted before it counts after it.
        guards = self.serve([watched.url] * GATEWAYS, shared_case.rule(
            "closed", limit=f"{self.QUOTA}/{self.QUOTA_SECONDS}s"), DEADLINE_SECONDS)
        load = self.load(guards)
        key = self.wait_until_granted(watched.master, self.QUOTA // 3)
        watched.part()
        kept = watched.replica.ask("LLEN", key)
        self.wait_until_granted(watched.master, kept + self.UNSEEN)
        watched.master.kill()
        killed = time.time_ns()
        harness.wait_until(watched.promoted, "the replica is promoted")
        promoted = time.time_ns()
        for guard in guards:
            harness.wait_until(lambda g=guard: self.is_shared(g), "it has found the new master")
        found = time.time_ns()
        self.wait_until_granted(watched.replica, self.QUOTA)
        answers = load.answers()

        self.assertLessEqual(set(statuses(answers)), {200, 429, 503})
        grants = admitted(answers)
        before = sum(answer.store <= killed for answer in grants)
        unseen = before - kept
        print(f"{before} granted before the kill, {unseen} of them unseen by the replica; promoted "
              f"after {(promoted - killed) / NS:.2f} s, found {(found - promoted) / NS:.2f} s later; "
              f"{len(grants)} granted of {self.QUOTA}; {statuses(answers)}")
        self.assertGreater(unseen, 0)
        self.assertLessEqual(len(grants), self.QUOTA + min(unseen, self.QUOTA))
        # What the replica had still counts, and nothing else.
        self.assertGreater(len(grants), 0.97 * (self.QUOTA + unseen))
        self.assertEqual(watched.replica.ask("LLEN", key), self.QUOTA)


class SwitchOver(Watching):
    def test_a_switch_over_costs_what_the_old_master_grants_meanwhile(self):
        watched = Watched(self)
        guards = self.serve([watched.url] * GATEWAYS, shared_case.rule("local"))
        load = self.load(guards)
        self.wait_until_granted(watched.master, LIMIT)
        watched.sentinels[0].ask("SENTINEL", "FAILOVER", "cells")
        harness.wait_until(watched.promoted, "the replica is promoted")
        promoted = time.time_ns()
        line = f"redis master cells: {watched.replica.endpoint}"
        for guard in guards:
            guard.wait_line(line)
        followed = time.time_ns()
        shared_case.wait_to(followed + 2 * NS)
        answers = load.answers()

        self.assertLessEqual(set(statuses(answers)), {200, 429})
        grants = admitted(answers)
        most = most_in(moments(grants), NS)
        meanwhile = sum(promoted <= moment < followed for moment in moments(grants))
        by_share = sum(answer.store == 0 for answer in grants)
        print(f"followed {(followed - promoted) / NS:.2f} s after the promotion, {meanwhile} granted "
              f"meanwhile; {by_share} by shares; at most {most} in a second")
        self.assertLessEqual(most, LIMIT + min(meanwhile, LIMIT))
        settled = [moment for moment in moments(grants) if moment >= followed + NS]
        self.assertGreater(len(settled), 0)
        self.assertLessEqual(most_in(settled, NS), LIMIT)


if __name__ == "__main__":
    harness.main()
