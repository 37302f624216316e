#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The demo: a small upstream, the gateway before it, and a client that goes too fast.

    ./dev demo          stays up until Ctrl-C
    ./dev demo --once   ends by itself, 0 if and only if what it saw was right
"""
import argparse
import http.client
import http.server
import json
import pathlib
import signal
import subprocess
import sys
import threading
import time

REPO = pathlib.Path(__file__).resolve().parent.parent
BINARY = REPO / "build" / "release" / "flowguard"
LIMIT = "1/s burst 5 per ip"


class Upstream(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    served = 0

    def do_GET(self):
        Upstream.served += 1
        body = f"hello from the upstream, request {Upstream.served}\n".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def start_gateway(upstream_port, ports):
    process = subprocess.Popen(
        [str(BINARY), "run", "--upstream", f"http://127.0.0.1:{upstream_port}", "--limit", LIMIT,
         "--listen", f"127.0.0.1:{ports[0]}", "--decisions", f"127.0.0.1:{ports[1]}",
         "--admin", f"127.0.0.1:{ports[2]}"],
        stdout=subprocess.PIPE, text=True)
    bound = {}
    for line in process.stdout:
        words = line.split()
        if "listening" in words:
            bound[words[0]] = words[-1]
        if len(bound) == 3:
            return process, bound
    sys.exit("the gateway ended before it listened")


def ask(address, path):
    host, port = address.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=5)
    connection.request("GET", path)
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, {k.lower(): v for k, v in response.getheaders()}, body


def show(status, headers, body):
    extra = " ".join(f"{k}: {headers[k]}" for k in ("retry-after", "ratelimit") if k in headers)
    print(f"  GET /hello -> {status}  {extra}  {body.strip()[:70]}")


def traffic(gateway):
    """Sends the traffic and returns a list of what was wrong."""
    wrong = []
    print(f"\nLimit: {LIMIT}.  Seven requests at once:")
    answers = [ask(gateway, "/hello") for _ in range(7)]
    for answer in answers:
        show(*answer)
    codes = [answer[0] for answer in answers]
    if codes[:5] != [200] * 5:
        wrong.append(f"the burst of five was not let through: {codes}")
    refused = [answer for answer in answers if answer[0] == 429]
    if not refused or codes[6] != 429:
        wrong.append(f"no request was refused: {codes}")
        return wrong
    for _, headers, body in refused:
        if not headers.get("retry-after", "").isdigit() or int(headers["retry-after"]) < 1:
            wrong.append(f"a 429 without a whole Retry-After: {headers}")
        if "429" not in body:
            wrong.append(f"a 429 without a body that says so: {body!r}")
    wait = int(refused[-1][1].get("retry-after", "1"))
    print(f"\nThe client waits as told ({wait} s) and asks again:")
    time.sleep(wait)
    answer = ask(gateway, "/hello")
    show(*answer)
    if answer[0] != 200:
        wrong.append(f"refused after the wait: {answer[0]}")
    status, _, body = ask(gateway, "/.flowguard/status")
    print(f"\nWhat is left, without spending any: GET /.flowguard/status -> {status}\n  {body.strip()}")
    if status != 200 or "remaining" not in json.dumps(json.loads(body)):
        wrong.append(f"the status endpoint does not tell what remains: {status} {body!r}")
    served = 5 + codes[5:].count(200) + 1
    if Upstream.served != served:
        wrong.append(f"the upstream served {Upstream.served} requests, {served} were let through")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--once", action="store_true")
    once = parser.parse_args().once
    upstream = http.server.ThreadingHTTPServer(("127.0.0.1", 0 if once else 3000), Upstream)
    threading.Thread(target=upstream.serve_forever, daemon=True).start()
    gateway, bound = start_gateway(upstream.server_address[1], (0, 0, 0) if once else (8080, 8081, 8082))
    try:
        wrong = traffic(bound["gateway"])
        for line in wrong:
            print("wrong: " + line, file=sys.stderr)
        print(f"\nTry it:      curl -i http://{bound['gateway']}/hello"
              f"\nAsk for one: curl -i http://{bound['decisions']}/v1/auth"
              f"\nMetrics:     curl http://{bound['admin']}/metrics")
        if not once:
            print("Up until Ctrl-C.")
            try:
                gateway.wait()
            except KeyboardInterrupt:
                pass
        return 1 if wrong else 0
    finally:
        if gateway.poll() is None:
            gateway.send_signal(signal.SIGTERM)
        gateway.wait(timeout=15)


if __name__ == "__main__":
    sys.exit(main())
