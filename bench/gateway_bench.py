# SPDX-License-Identifier: Apache-2.0
"""The gateway against nginx and HAProxy: real binaries, server on core 0, load and
upstream on core 1, requests per CPU-second of the server, a million distinct keys."""
import atexit
import json
import os
import pathlib
import re
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

REPO = pathlib.Path(__file__).resolve().parent.parent
BUILD = REPO / "build" / "bench"
KEYS = 1_000_000
TICKS = os.sysconf("SC_CLK_TCK")

# Requests per CPU-second that a peer is known to reach; at under 0.7 of that the
# machine was busy and the line is invalid.
KNOWN = {"nginx proxy": 55_000, "nginx own": 97_000, "nginx refuse": 97_000, "haproxy bodies": 1349e6}

NGINX = """
worker_processes 1;
daemon off;
master_process off;
pid {dir}/nginx.pid;
error_log {dir}/nginx-error.log crit;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fastcgi;
  uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
  keepalive_requests 1000000000; keepalive_timeout 3600;
  limit_req_zone $arg_k zone=many:256m rate=1000r/s;
  limit_req_zone $arg_k zone=few:256m rate=1r/m;
  limit_req_status 429;
  upstream app {{ server 127.0.0.1:{upstream}; keepalive 128; keepalive_requests 1000000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location /proxy {{
      limit_req zone=many burst=1000 nodelay;
      proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection "";
    }}
    location /own {{ limit_req zone=many burst=1000 nodelay; empty_gif; }}
    location /refuse {{ limit_req zone=few; empty_gif; }}
  }}
}}
"""

HAPROXY = """
global
  maxconn 4000
  nbthread 1
defaults
  mode http
  timeout connect 5s
  timeout client 1h
  timeout server 1h
  http-reuse always
frontend front
  bind 127.0.0.1:{port}
  stick-table type string len 16 size 1100k expire 60s store http_req_rate(1s)
  http-request track-sc0 url_param(k)
  http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt 1000 }}
  default_backend app
backend app
  server app 127.0.0.1:{upstream}
"""

OURS = """
gateway: {{listen: "127.0.0.1:{gateway}", upstream: ["http://127.0.0.1:{upstream}"], workers: {workers}}}
decisions: {{listen: "127.0.0.1:{decisions}"}}
admin: {{listen: "127.0.0.1:{admin}"}}
cells: {{capacity: 2_500_000}}
rules: {dir}/rules.yaml
"""

OUR_RULES = """
rules:
  - name: many
    on: {route: "/proxy/**"}
    limit: 1000/s
    by: ["query:k"]
  - name: own
    on: {route: "/own/**"}
    limit: 1000/s
    by: ["query:k"]
  - name: refuse
    on: {route: "/refuse/**"}
    limit: 1/h
    by: ["query:k"]
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(port):
    for _ in range(200):
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    sys.exit(f"nothing listens on port {port}")


class Server:
    """A server process on core 0, with its CPU time."""

    def __init__(self, command, core=0, ports=(), stdout=subprocess.DEVNULL):
        self.process = subprocess.Popen(["taskset", "-c", str(core), *map(str, command)], stdout=stdout)
        atexit.register(self.stop)
        for port in ports:
            wait_for(port)

    def cpu_seconds(self):
        text = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text()
        fields = text.rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def rss_kib(self):
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text).group(1))

    def stop(self):
        atexit.unregister(self.stop)
        self.process.terminate()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def load(port, path, seconds, core=1, **options):
    command = ["taskset", "-c", str(core), str(BUILD / "fg_load"), "--port", str(port), "--path", path,
               "--seconds", str(seconds)]
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def per_cpu_second(server, port, path, seconds, unit="requests", **options):
    before = server.cpu_seconds()
    result = load(port, path, seconds, **options)
    return result[unit] / max(server.cpu_seconds() - before, 1e-9), result


class Bench:
    def __init__(self, directory, body_bytes=128, workers=1):
        self.dir = directory
        self.ports = {name: free_port() for name in ("upstream", "nginx", "haproxy", "gateway",
                                                     "decisions", "admin")}
        self.upstream = Server([BUILD / "fg_upstream", self.ports["upstream"], body_bytes], 1,
                               [self.ports["upstream"]])
        fill = dict(dir=directory, workers=workers, **self.ports)
        files = {"nginx.conf": NGINX.format(**{**fill, "port": self.ports["nginx"]}),
                 "haproxy.cfg": HAPROXY.format(**{**fill, "port": self.ports["haproxy"]}),
                 "flowguard.yaml": OURS.format(**fill), "rules.yaml": OUR_RULES}
        for name, text in files.items():
            (directory / name).write_text(text)
        self.nginx = Server(["nginx", "-p", directory, "-c", directory / "nginx.conf"], 0,
                            [self.ports["nginx"]])
        self.haproxy = Server(["haproxy", "-q", "-f", directory / "haproxy.cfg"], 0,
                              [self.ports["haproxy"]])
        self.ours = Server([BUILD / "flowguard", "run", "--config", directory / "flowguard.yaml"],
                           0 if workers == 1 else "0,1",
                           [self.ports["gateway"], self.ports["decisions"]])

    def close(self):
        for server in (self.ours, self.nginx, self.haproxy, self.upstream):
            server.stop()


def interleave(cases, rounds, report, unit):
    """Runs each case once a round; medians by name."""
    values = {name: [] for name in cases}
    for _ in range(rounds):
        for name, measure in cases.items():
            values[name].append(measure())
    for name, each in values.items():
        report.rounds(name, each, unit)
    return {name: statistics.median(each) for name, each in values.items()}


def check(result, allowed, what):
    odd = {code: n for code, n in result["statuses"].items() if code not in allowed}
    if odd or result["errors"]:
        sys.exit(f"{what}: unexpected answers {odd}, {result['errors']} errors")


def throughput(bench, options, report):
    p = bench.ports

    def case(server, port, path, allowed, what):
        def run():
            value, result = per_cpu_second(server, port, path, options.seconds, keys=KEYS)
            check(result, allowed, what)
            if refused := result["statuses"].get("429"):
                shares.setdefault(what, []).append(refused / result["requests"])
            return value
        return run

    shares = {}
    # Each key once, so that refusals are what is measured afterwards.  nginx knows no rate
    # below 1 a minute: some of its answers are 200s of its own, which cost it the same.
    # Ours are held for an hour, or what is measured would be the proxying between them.
    for port, path in ((p["nginx"], "/refuse/x"), (p["gateway"], "/refuse/x")):
        done = 0
        while done < KEYS:
            done += load(port, path, 5, keys=KEYS, order="seq", first=done)["requests"]
    cases = {
        "ours proxy": case(bench.ours, p["gateway"], "/proxy/x", {"200"}, "our proxy"),
        "nginx proxy": case(bench.nginx, p["nginx"], "/proxy/x", {"200"}, "nginx proxy"),
        "haproxy proxy": case(bench.haproxy, p["haproxy"], "/proxy/x", {"200"}, "haproxy"),
        "ours auth": case(bench.ours, p["decisions"], "/v1/auth/own/x", {"200"}, "our auth"),
        "nginx own": case(bench.nginx, p["nginx"], "/own/x", {"200"}, "nginx own"),
        "ours refuse": case(bench.ours, p["gateway"], "/refuse/x", {"429", "200"}, "our 429"),
        "nginx refuse": case(bench.nginx, p["nginx"], "/refuse/x", {"429", "200"}, "nginx 429"),
    }
    rate = interleave(cases, max(7, options.rounds), report, "requests/CPU-second")
    for name, ours, peer, target in (("proxied/nginx", "ours proxy", "nginx proxy", 1.1),
                                     ("auth/nginx", "ours auth", "nginx own", 1.4),
                                     ("refusals/nginx", "ours refuse", "nginx refuse", 1.15)):
        report.target(name, rate[ours] / rate[peer], target, rate[peer] >= 0.7 * KNOWN[peer])
    for what, each in shares.items():
        report.note(f"{what}: {min(each):.0%} to {max(each):.0%} of the answers refuse")
    report.note(f"proxied / haproxy: {rate['ours proxy'] / rate['haproxy proxy']:.2f}")


def latency(bench, options, report):
    p = bench.ports
    capacity = statistics.median(load(p["nginx"], "/proxy/x", 1, keys=KEYS)["rate"] for _ in range(3))
    rate = 0.7 * capacity

    def case(port):
        return lambda: load(port, "/proxy/x", options.seconds, keys=KEYS, rate=rate)["p99_us"]

    p99 = interleave({"ours p99": case(p["gateway"]), "nginx p99": case(p["nginx"])},
                     max(7, options.rounds), report, "us")
    report.target("p99-at-70%-of-nginx", p99["nginx p99"] / p99["ours p99"], 1.0)
    report.note(f"open loop at {rate:.0f} requests/s, latencies from when a request was due")


def bodies(directory, options, report):
    bench = Bench(directory, body_bytes=1_000_000)
    p = bench.ports

    def case(server, port):
        return lambda: per_cpu_second(server, port, "/proxy/x", options.seconds, unit="bytes",
                                      keys=KEYS, connections=16)[0]

    rate = interleave({"ours bodies": case(bench.ours, p["gateway"]),
                       "haproxy bodies": case(bench.haproxy, p["haproxy"]),
                       "nginx bodies": case(bench.nginx, p["nginx"])},
                      max(7, options.rounds), report, "bytes/CPU-second")
    report.target("1-MB-bodies/haproxy", rate["ours bodies"] / rate["haproxy bodies"], 1.5,
                  rate["haproxy bodies"] >= 0.7 * KNOWN["haproxy bodies"])
    bench.close()


def memory_and_scaling(directory, options, report):
    bench = Bench(directory)
    base = bench.ours.rss_kib()
    command = [str(BUILD / "fg_load"), "--port", str(bench.ports["gateway"]), "--idle", "10000",
               "--seconds", "3", "--rate", "10", "--sources", "4", "--path", "/proxy/x"]
    idle = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    time.sleep(2)
    held = bench.ours.rss_kib()
    idle.wait()
    report.note(f"idle memory {base} KiB (cells for 2.5 million keys reserved, touched on use); "
                f"{(held - base) / 10_000:.2f} KiB per idle connection at 10,000")
    bench.close()
    rates = {}
    for workers in (1, 2):
        bench = Bench(directory, workers=workers)
        value, result = per_cpu_second(bench.ours, bench.ports["gateway"], "/proxy/x",
                                       options.seconds, keys=KEYS)
        rates[workers] = (result["rate"], value)
        bench.close()
    report.note("workers 1 / 2 (the second shares its core with the load): "
                + ", ".join(f"{w}: {r:.0f}/s, {v:.0f} per CPU-second" for w, (r, v) in rates.items()))


def run(report, options):
    for program in ("nginx", "haproxy", "taskset"):
        if shutil.which(program) is None and not pathlib.Path(f"/usr/sbin/{program}").exists():
            print(f"{program} is missing", file=sys.stderr)
            sys.exit(3)
    os.environ["PATH"] += ":/usr/sbin"
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65_536), hard))
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        bench = Bench(directory)
        throughput(bench, options, report)
        latency(bench, options, report)
        bench.close()
        bodies(directory, options, report)
        memory_and_scaling(directory, options, report)
    versions = [["nginx", "-v"], ["haproxy", "-v"]]
    for command in versions:
        done = subprocess.run(command, capture_output=True, text=True)
        report.note((done.stdout + done.stderr).splitlines()[0])
