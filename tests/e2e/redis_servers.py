# SPDX-License-Identifier: Apache-2.0
"""Redis servers of a test's own: one, a cluster, a master under sentinels; and a link to
one that the test can disturb."""
import collections
import selectors
import socket
import threading
import time

import harness

MASTERS = 3
SENTINELS = 3
SLOTS = 16384


class RedisError(Exception):
    """An error that the server answered with."""


class Redis(harness.Process):
    """A redis-server that keeps nothing on disk."""

    def __init__(self, directory, port=None, flags=()):
        self.port = port or harness.free_port()
        super().__init__([harness.program("redis-server"), *self.first_flags(), "--port", self.port,
                          "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
                          "--dir", directory, *flags])
        self.wait_line("Ready to accept connections|Sentinel ID is")

    def first_flags(self):
        return ()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    @property
    def endpoint(self):
        return f"127.0.0.1:{self.port}"

    def ask(self, *words):
        """The reply to one command: a string, a number, a list or None."""
        parts = [str(word).encode() for word in words]
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as connection, \
                connection.makefile("rb") as stream:
            connection.sendall(b"*%d\r\n" % len(parts) + b"".join(
                b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
            return read_reply(stream)

    def answers(self):
        """Whether it answers a PING."""
        try:
            return self.ask("PING") == "PONG"
        except (OSError, RedisError):
            return False

    def info(self, section):
        """INFO as a dictionary of strings."""
        lines = self.ask("INFO", section).splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def kill(self):
        """SIGKILL; it is gone when this returns."""
        self.child.kill()
        self.wait()


def read_reply(stream):
    """One reply of RESP2; an error is raised."""
    line = stream.readline().rstrip(b"\r\n")
    if not line:
        raise ConnectionError("the server closed the connection")
    kind, rest = line[:1], line[1:].decode()
    if kind == b"-":
        raise RedisError(rest)
    if kind == b":":
        return int(rest)
    if kind == b"$":
        return None if rest == "-1" else stream.read(int(rest) + 2)[:-2].decode()
    if kind == b"*":
        return None if rest == "-1" else [read_reply(stream) for _ in range(int(rest))]
    return rest


class Cluster:
    """Three masters that share the slots; ends with the case."""

    def __init__(self, case):
        flags = ("--cluster-enabled", "yes", "--cluster-node-timeout", "5000")
        self.masters = []
        for index in range(MASTERS):
            bus = harness.free_port()
            master = case.start(Redis(case.dir, flags=(
                *flags, "--cluster-config-file", f"nodes-{index}.conf", "--cluster-port", bus)))
            master.id = master.ask("CLUSTER", "MYID")
            first, end = SLOTS * index // MASTERS, SLOTS * (index + 1) // MASTERS
            master.ask("CLUSTER", "ADDSLOTSRANGE", first, end - 1)
            master.ask("CLUSTER", "SET-CONFIG-EPOCH", index + 1)
            if self.masters:
                self.masters[0].ask("CLUSTER", "MEET", "127.0.0.1", master.port, bus)
            self.masters.append(master)
        self._moved = {}
        for master in self.masters:
            harness.wait_until(lambda m=master: self._complete(m), "the cluster is complete")

    @staticmethod
    def info_of(master):
        """CLUSTER INFO as a dictionary of strings."""
        return dict(line.split(":", 1) for line in master.ask("CLUSTER", "INFO").splitlines())

    def _complete(self, master):
        info = self.info_of(master)
        return info["cluster_state"] == "ok" and info["cluster_known_nodes"] == str(MASTERS)

    @property
    def url(self):
        return "redis-cluster://" + ",".join(master.endpoint for master in self.masters)

    def slot_of(self, key):
        return self.masters[0].ask("CLUSTER", "KEYSLOT", key)

    def owner(self, slot):
        return self._moved.get(slot, self.masters[slot * MASTERS // SLOTS])

    def move(self, slot, meanwhile=lambda source, to: None):
        """Moves a slot with what is in it to the next master; the number of keys.
        `meanwhile` is called when its keys are there and the slot is not yet."""
        source = self.owner(slot)
        to = self.masters[(self.masters.index(source) + 1) % MASTERS]
        to.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", to.id)
        moved = 0
        while keys := source.ask("CLUSTER", "GETKEYSINSLOT", slot, 10):
            # A key that expired meanwhile is answered with NOKEY.
            source.ask("MIGRATE", "127.0.0.1", to.port, "", 0, 5000, "KEYS", *keys)
            moved += len(keys)
        meanwhile(source, to)
        for master in (to, source, *(set(self.masters) - {to, source})):
            master.ask("CLUSTER", "SETSLOT", slot, "NODE", to.id)
        self._moved[slot] = to
        # Masters that take slots before they have heard of each other's epochs would settle
        # afterwards who has them.
        harness.wait_until(lambda: len({self.info_of(master)["cluster_current_epoch"]
                                        for master in self.masters}) == 1, "all have heard of it")
        return moved

    def redirects(self, kind):
        """How often the masters answered MOVED or ASK so far."""
        counts = [master.info("errorstats").get(f"errorstat_{kind}", "count=0")
                  for master in self.masters]
        return sum(int(count.removeprefix("count=")) for count in counts)


class Sentinel(Redis):
    """One of those that watch over `master`, told of its replica and of the `others` as if it
    had met them already: (port, id) of each."""

    def __init__(self, directory, master, replica, own, others):
        port, name = own
        self._file = directory / f"{name}.conf"
        lines = [f"sentinel myid {name}",
                 f"sentinel monitor cells 127.0.0.1 {master.port} {SENTINELS // 2 + 1}",
                 "sentinel down-after-milliseconds cells 500",
                 "sentinel failover-timeout cells 3000",
                 f"sentinel known-replica cells 127.0.0.1 {replica.port}"]
        lines += [f"sentinel known-sentinel cells 127.0.0.1 {other} {name}" for other, name in others]
        self._file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        super().__init__(directory, port)

    def first_flags(self):
        return (self._file, "--sentinel")

    def has_majority(self):
        """Whether it could have the master replaced."""
        try:
            return self.ask("SENTINEL", "CKQUORUM", "cells").startswith("OK")
        except RedisError:
            return False


class Watched:
    """A master, its replica, and three sentinels; ends with the case."""

    def __init__(self, case):
        self.master = case.start(Redis(case.dir))
        self.replica = case.start(Redis(case.dir, flags=(
            "--replicaof", f"127.0.0.1 {self.master.port}", "--repl-diskless-sync-delay", "0")))
        harness.wait_until(lambda: "state=online" in self.master.ask("INFO", "replication"),
                           "the replica follows")
        watchers = [(harness.free_port(), f"{index:040x}") for index in range(1, SENTINELS + 1)]
        self.sentinels = [
            case.start(Sentinel(case.dir, self.master, self.replica, own,
                                [other for other in watchers if other != own]))
            for own in watchers]
        for sentinel in self.sentinels:
            harness.wait_until(sentinel.has_majority, "the sentinels know each other")

    @property
    def url(self):
        return "redis-sentinel://" + ",".join(s.endpoint for s in self.sentinels) + "/cells"

    def part(self):
        """The replica is told nothing more by its master."""
        self.master.ask("ACL", "SETUSER", "default", "-psync", "-sync")
        self.master.ask("CLIENT", "KILL", "TYPE", "replica")
        harness.wait_until(lambda: self.replica.info("replication")["master_link_status"] == "down",
                           "the replica is cut off")

    def promoted(self):
        """Whether the replica is a master now."""
        return self.replica.ask("ROLE")[0] == "master"


class Link(threading.Thread):
    """Forwards connections to a server, until told otherwise:

    hold()       nothing is forwarded and nothing closed: half-open connections
    forward()    all is well, and what was held back goes on
    cut()        connections are closed, and new ones at once
    delay(s)     what the server sends arrives so much later
    break_off(n) the next answer on each connection is cut after n bytes, and so is that"""

    TURN_SECONDS = 0.002

    def __init__(self, port):
        super().__init__(daemon=True)
        self._to = port
        self._door = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._door.setblocking(False)
        self.port = self._door.getsockname()[1]
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._door, selectors.EVENT_READ)
        self._peer = {}  # both ways
        self._upstream = set()
        self._late = collections.deque()  # (due, socket, bytes)
        self._lock = threading.Lock()
        self._mode, self._delay, self._left = "forward", 0.0, None
        self._over = threading.Event()
        self.start()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def _set(self, mode, delay=0.0, left=None):
        with self._lock:
            self._mode, self._delay, self._left = mode, delay, left
            if mode == "cut":
                self._close_all()

    def hold(self):
        self._set("hold")

    def forward(self):
        self._set("forward")

    def cut(self):
        self._set("cut")

    def delay(self, seconds):
        self._set("forward", delay=seconds)

    def break_off(self, after):
        self._set("forward", left=after)

    def end(self):
        self._over.set()
        self.join()

    def run(self):
        while not self._over.is_set():
            if self._mode == "hold":
                self._over.wait(self.TURN_SECONDS)
                continue
            ready = self._selector.select(self.TURN_SECONDS)
            with self._lock:
                if self._mode != "hold":
                    self._turn([key.fileobj for key, _ in ready])
        self._close_all()
        self._selector.close()
        self._door.close()

    def _turn(self, readable):
        for from_socket in readable:
            if from_socket is self._door:
                self._accept()
            elif from_socket in self._peer:
                self._move(from_socket)
        while self._late and self._late[0][0] <= time.monotonic():
            _, to, data = self._late.popleft()
            self._send(to, data)

    def _accept(self):
        near, _ = self._door.accept()
        if self._mode == "cut":
            return near.close()
        try:
            far = socket.create_connection(("127.0.0.1", self._to), timeout=1)
        except OSError:
            return near.close()
        for one, other in ((near, far), (far, near)):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._peer[one] = other
            self._selector.register(one, selectors.EVENT_READ)
        self._upstream.add(far)
        return None

    def _move(self, from_socket):
        try:
            data = from_socket.recv(65536, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._close(from_socket)
            return
        to = self._peer[from_socket]
        if from_socket in self._upstream:
            if self._left is not None:
                self._send(to, data[:self._left])
                self._close(from_socket)
                return
            if self._delay > 0 or self._late:
                self._late.append((time.monotonic() + self._delay, to, data))
                return
        self._send(to, data)

    def _send(self, to, data):
        if to not in self._peer:
            return
        try:
            to.settimeout(1)
            to.sendall(data)
        except OSError:
            self._close(to)

    def _close(self, one):
        other = self._peer[one]
        for end in (one, other):
            self._selector.unregister(end)
            self._upstream.discard(end)
            del self._peer[end]
            end.close()

    def _close_all(self):
        while self._peer:
            self._close(next(iter(self._peer)))
