# SPDX-License-Identifier: Apache-2.0
"""What can break around the gateway: the upstream, slow and hostile clients, its end."""
import http.client
import re
import resource
import select
import signal
import socket
import threading
import time

import harness

CONFIG = """
gateway: {{listen: "127.0.0.1:0", upstream: ["http://127.0.0.1:{upstream}"]}}
admin: {{listen: "127.0.0.1:0"}}
upstream: {{fail_after: 3, retry_down_after: 100ms}}
timeouts: {{header: 1s, body: 1s, idle: 2s, upstream_connect: 1s, upstream_response: {response}, drain: 10s}}
rules: []
"""


LINE_EVERY_MS = 100  # of a slow client


class RawUpstream:
    """Answers each connection's first request with given bytes, then closes; None: never."""

    def __init__(self, answer, port=0):
        self._answer, self.heads, self._held = answer, [], []
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            if not self._receive_head(connection):
                connection.close()
            elif self._answer is None:
                self._held.append(connection)
            else:
                connection.sendall(self._answer)
                connection.close()

    def _receive_head(self, connection):
        head = b""
        connection.settimeout(harness.WAIT_SECONDS)
        while b"\r\n\r\n" not in head:
            piece = connection.recv(65536)
            if not piece:
                return False
            head += piece
        self.heads.append(head)
        return True

    def end(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for connection in self._held:
            connection.close()


def read_to_end(connection, seconds=harness.WAIT_SECONDS):
    """What comes until the other side closes; a reset counts as its end."""
    connection.settimeout(seconds)
    received = b""
    try:
        while piece := connection.recv(65536):
            received += piece
    except ConnectionResetError:
        pass
    return received


class Faults(harness.Case):
    def serve(self, upstream_port, response="20s"):
        path = self.write("flowguard.yaml", CONFIG.format(upstream=upstream_port, response=response))
        return self.start(harness.FlowGuard("--config", path))

    def dial(self, server):
        connection = socket.create_connection(("127.0.0.1", server.gateway), timeout=harness.WAIT_SECONDS)
        self.addCleanup(connection.close)
        return connection


class UpstreamFaults(Faults):
    def test_down_is_502_and_when_it_is_back_it_is_used_again(self):
        port = harness.free_port()
        server = self.serve(port)
        self.assertEqual([harness.ask(server.gateway).status for _ in range(5)], [502] * 5)

        ok = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
        self.start(RawUpstream(ok, port))

        harness.wait_until(lambda: harness.ask(server.gateway).status == 200, "the upstream is used")

    def test_slow_is_504_within_its_timeout(self):
        server = self.serve(self.start(RawUpstream(None)).port, response="500ms")
        began = time.monotonic()

        self.assertEqual(harness.ask(server.gateway).status, 504)

        self.assertGreaterEqual(time.monotonic() - began, 0.5)
        self.assertLess(time.monotonic() - began, 5)

    def test_garbage_is_502(self):
        for garbage in (b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 abc\r\n\r\n", b"\x00" * 100,
                        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok"):
            with self.subTest(garbage=garbage[:20]):
                server = self.serve(self.start(RawUpstream(garbage)).port)
                self.assertEqual(harness.ask(server.gateway).status, 502)

    def test_an_answer_that_ends_in_its_body_is_seen_to_be_broken(self):
        for head in (b"Content-Length: 100\r\n\r\nten bytes.",
                     b"Transfer-Encoding: chunked\r\n\r\na\r\nten bytes.\r\n"):
            with self.subTest(head=head[:12]):
                server = self.serve(self.start(RawUpstream(b"HTTP/1.1 200 OK\r\n" + head)).port)

                with self.assertRaises((http.client.IncompleteRead, ConnectionResetError)):
                    harness.ask(server.gateway)

                # The gateway itself goes on.
                self.assertEqual(harness.ask(server.admin, "/healthz").status, 200)


class Drain(Faults):
    CLIENTS = 8

    def test_sigterm_under_load_loses_no_request(self):
        upstream = self.start(harness.Upstream())
        server = self.serve(upstream.port)
        answered, faults = [], []
        clients = [threading.Thread(target=self.keep_asking, args=(server.gateway, answered, faults))
                   for _ in range(self.CLIENTS)]
        for client in clients:
            client.start()
        harness.wait_until(lambda: len(answered) > 200, "the load runs")

        server.signal(signal.SIGTERM)

        self.assertEqual(server.wait(), 0)
        for client in clients:
            client.join(timeout=harness.WAIT_SECONDS)
        print(f"{len(answered)} answers, {len(upstream.requests)} requests at the upstream")
        self.assertEqual(faults, [])
        self.assertEqual(set(answered), {200})
        self.assertEqual(len(answered), len(upstream.requests))

    @staticmethod
    def keep_asking(port, answered, faults):
        """On kept-alive connections, until the gateway says close and takes no more."""
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=harness.WAIT_SECONDS)
            try:
                connection.connect()
            except OSError:
                return  # nobody listens: nothing was asked
            try:
                while connection.sock is not None:  # none: the answer said close
                    connection.request("GET", "/")
                    response = connection.getresponse()
                    response.read()
                    answered.append(response.status)
            except (OSError, http.client.HTTPException) as fault:
                faults.append(repr(fault))
                return
            finally:
                connection.close()


class SlowClients(Faults):
    CLIENTS = 1000

    def test_a_thousand_silent_and_slow_clients_are_closed_while_others_are_served(self):
        files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 8192), most))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (files, most))
        upstream = self.start(harness.Upstream())
        server = self.serve(upstream.port)
        clients = [self.dial(server) for _ in range(self.CLIENTS)]
        slow = clients[::2]
        for client in slow:
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
        began = time.monotonic()

        # A line each now and then restarts no clock: the whole head has one second.
        open_slow, served = {client.fileno(): client for client in slow}, 0
        answered = select.poll()
        for number in open_slow:
            answered.register(number, select.POLLIN)
        while open_slow and time.monotonic() - began < harness.WAIT_SECONDS:
            self.assertEqual(harness.ask(server.gateway).status, 200)
            served += 1
            gone = [number for number, client in open_slow.items() if not self.send_line(client)]
            # Until the gateway ends one of them, or their next line is due.
            gone += [number for number, _ in answered.poll(LINE_EVERY_MS)]
            for number in set(gone):
                answered.unregister(number)
                del open_slow[number]
        spent = time.monotonic() - began
        print(f"{len(slow)} slow clients gone after {spent:.1f} s, {served} others served meanwhile")

        self.assertEqual(open_slow, {})
        self.assertGreaterEqual(served, 5)
        for client in slow:
            received = read_to_end(client)
            self.assertTrue(received == b"" or received.startswith(b"HTTP/1.1 408"), received)
        for client in clients[1::2]:
            self.assertIn(read_to_end(client)[:12], (b"", b"HTTP/1.1 408"))
        self.assertEqual(len(upstream.requests), served)

    @staticmethod
    def send_line(client):
        """False: the gateway has closed this connection."""
        try:
            client.sendall(b"X-Slow: 1\r\n")
            return True
        except OSError:
            return False


HEAD = b"POST /a HTTP/1.1\r\nHost: x\r\n"
BEHIND = b"GET /admin HTTP/1.1\r\nHost: x\r\n\r\n"
HOSTILE = {
    "length and chunks": (400, HEAD + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "two lengths": (400, HEAD + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcd"),
    "signed length": (400, HEAD + b"Content-Length: +4\r\n\r\nabcd"),
    "coding with a tab": (400, HEAD + b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n"),
    "space before the colon": (400, HEAD + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
    "folded line": (400, HEAD + b"X: a\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "chunk that is no number": (400, HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n"),
    "chunk beyond 64 bits": (400, HEAD + b"Transfer-Encoding: chunked\r\n\r\n1000000000000000a\r\nabc"),
    "negative chunk": (400, HEAD + b"Transfer-Encoding: chunked\r\n\r\n-3\r\nabc\r\n0\r\n\r\n"),
    "nul in a line": (400, HEAD + b"X: a\x00b\r\n\r\n"),
    "nul in the target": (400, b"GET /a\x00b HTTP/1.1\r\nHost: x\r\n\r\n"),
    "bare line feed": (400, b"GET /a HTTP/1.1\nHost: x\n\n"),
    "no host": (400, b"GET /a HTTP/1.1\r\n\r\n"),
    "two hosts": (400, b"GET /a HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n"),
    "huge line": (431, b"GET /a HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 40_000 + b"\r\n\r\n"),
    "many lines": (431, b"GET /a HTTP/1.1\r\nHost: x\r\n" + b"X: a\r\n" * 200 + b"\r\n"),
    "huge target": (414, b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n"),
}


class HostileClients(Faults):
    def test_what_can_be_read_two_ways_is_refused_and_nothing_behind_it_is_passed_on(self):
        upstream = self.start(harness.Upstream())
        server = self.serve(upstream.port)
        for name, (status, request) in HOSTILE.items():
            with self.subTest(name):
                client = self.dial(server)
                client.sendall(request + BEHIND)
                answer = read_to_end(client)
                self.assertRegex(answer, rf"^HTTP/1\.1 {status} ".encode())
                self.assertEqual(len(re.findall(rb"HTTP/1\.1 \d{3} ", answer)), 1, answer)

        self.assertEqual([path for _, path, _, _ in upstream.requests if path != "/a"], [])
        self.assertEqual(harness.ask(server.gateway, "/after").status, 200)


if __name__ == "__main__":
    harness.main()
