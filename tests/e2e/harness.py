# SPDX-License-Identifier: Apache-2.0
"""Runs real processes for end-to-end tests: the flowguard command, upstreams, peers.

Everything of ours listens on port 0 and is waited for by the line that tells its
address; a test waits for conditions, never for a fixed time.  A process is ended by
its own pid.

FLOWGUARD names the command, FLOWGUARD_TOOLS the folder of fg_load and fg_upstream."""
import collections
import http.client
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("FLOWGUARD", str(ROOT / "build" / "release" / "flowguard"))
TOOLS = pathlib.Path(os.environ.get("FLOWGUARD_TOOLS", ROOT / "build" / "release"))
WAIT_SECONDS = 20.0


def wait_until(condition, what="a condition", seconds=WAIT_SECONDS):
    """The first true value of condition(); AssertionError after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds} s in vain: {what}")
        time.sleep(0.01)


def program(name):
    """The path of an installed program."""
    path = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    if path is None:
        raise AssertionError(f"{name} is not installed; ./dev setup installs it")
    return path


def free_port():
    """A port for programs that cannot choose one; free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(port):
    """Somebody listens there."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


class Answer(collections.namedtuple("Answer", "status headers body")):
    """Header names in lower case."""

    def json(self):
        return json.loads(self.body)


def ask(port, path="/", method="GET", headers=None, body=None, seconds=WAIT_SECONDS):
    """One request on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
    try:
        connection.request(method, path, body=body, headers=headers or {})
        response = connection.getresponse()
        text = response.read().decode()
        return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, text)
    finally:
        connection.close()


def clean_environment(env=None):
    """Ours without FLOWGUARD_*, which the command reads."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("FLOWGUARD")}
    clean.update(env or {})
    return clean


def run_once(*argv, env=None, seconds=WAIT_SECONDS):
    """(exit code, stdout, stderr) of a flowguard command that ends by itself."""
    done = subprocess.run([BINARY, *map(str, argv)], capture_output=True, text=True,
                          timeout=seconds, env=clean_environment(env), check=False)
    return done.returncode, done.stdout, done.stderr


class Process:
    """A child whose output is kept line by line, in `out` and `err`."""

    def __init__(self, argv, env=None):
        self.out, self.err = [], []
        self.child = subprocess.Popen([str(word) for word in argv], stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True, env=env)
        self._readers = [threading.Thread(target=self._keep, args=pair, daemon=True)
                         for pair in ((self.child.stdout, self.out), (self.child.stderr, self.err))]
        for reader in self._readers:
            reader.start()

    @staticmethod
    def _keep(stream, lines):
        for line in stream:
            lines.append(line.rstrip("\n"))

    def wait_line(self, pattern, seconds=WAIT_SECONDS):
        """The first line of either stream in which `pattern` is found."""
        def found():
            ended = not any(reader.is_alive() for reader in self._readers)
            for line in [*self.out, *self.err]:
                if re.search(pattern, line):
                    return line
            if ended:
                raise AssertionError(f"{self.child.args} ended with {self.child.wait()} before a "
                                     f"line with {pattern!r}: {self.out} {self.err}")
            return None

        return wait_until(found, f"a line with {pattern!r} of {self.child.args}", seconds)

    def signal(self, number):
        self.child.send_signal(number)

    def wait(self, seconds=WAIT_SECONDS):
        """The exit code."""
        code = self.child.wait(timeout=seconds)
        for reader in self._readers:
            reader.join(timeout=seconds)
        return code

    def end(self):
        if self.child.poll() is None:
            self.child.terminate()  # a server ends its own children
            try:
                self.child.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self.child.kill()
        self.wait()
        self.child.stdout.close()
        self.child.stderr.close()


class FlowGuard(Process):
    """`flowguard run`; the ports of its open doors are attributes: gateway, decisions,
    admin, token_server.  Without --config every door of `doors` is given a free loopback port."""

    FLAGS = {"gateway": "--listen", "decisions": "--decisions", "admin": "--admin",
             "token server": "--token-server"}

    def __init__(self, *flags, doors=("gateway", "admin"), env=None):
        argv = [BINARY, "run", *flags]
        if "--config" not in flags:
            for door in doors:
                argv += [self.FLAGS[door], "127.0.0.1:0"]
            if "admin" not in doors:
                argv += ["--admin", "off"]
        super().__init__(argv, env=clean_environment(env))
        self.gateway = self.decisions = self.admin = self.token_server = None
        try:
            for door in doors:
                line = self.wait_line(rf"^{door} listening on ")
                setattr(self, door.replace(" ", "_"), int(line.rsplit(":", 1)[1]))
        except AssertionError:
            self.end()
            raise


class Upstream:
    """A small HTTP/1.1 server that notes every request and answers with what it saw;
    `hold`: an event that it awaits before it answers, `hold_seconds` at most."""

    def __init__(self, hold=None, hold_seconds=WAIT_SECONDS):
        self.requests = []  # (method, path, headers, body)
        upstream = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                upstream.requests.append((self.command, self.path, dict(self.headers), body))
                if hold is not None:
                    hold.wait(timeout=hold_seconds)
                text = json.dumps({"method": self.command, "path": self.path}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                try:
                    self.end_headers()
                    if self.command != "HEAD":
                        self.wfile.write(text)
                except OSError:
                    self.close_connection = True  # the test ended the other side

            do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_OPTIONS = answer

            def log_message(self, *unused):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def end(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Case(unittest.TestCase):
    """A test with a folder of its own; what it starts ends with it, last first."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)

    def start(self, started):
        self.addCleanup(started.end)
        return started

    def write(self, name, text):
        """The path of a file of the test's folder; replaced whole, by renaming."""
        path = self.dir / name
        beside = self.dir / (name + ".new")
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
        return str(path)


def main():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    unittest.main()
