# SPDX-License-Identifier: Apache-2.0
"""The token server: decisions per CPU-second of its process with pipelined clients, and the
99th percentile at half of what it can do.  Server on core 0, clients on core 1."""
import json
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from gateway_bench import BUILD, Server, free_port

PER_CPU_SECOND = 500_000
P99_US = 1_000
# What the server has of its core when all ask as fast as they can; with less than that the
# machine was busy, and latencies say who got the cores.
SHARE_MIN = 0.5
IDLE = 10_000

# The limits of all flows are near what is asked, so that answers of both kinds come.
RULES = """rules:
  - {name: open, limit: 1000000000/s, scope: cluster, flow_id: 1}
  - {name: tight, limit: 1000/s, scope: cluster, flow_id: 2}
  - {name: exact, limit: 1000/s, algorithm: sliding_log, scope: cluster, flow_id: 3}
  - {name: values, limit: 1000/s, scope: cluster, flow_id: 4, by: ["param:user"]}
"""

# What is asked: flows that all let pass, ones that nearly all refuse, an exact window, and
# values of a hot parameter.
CASES = {"passed": dict(flow=1), "refused": dict(flow=2), "window": dict(flow=3),
         "values": dict(flow=4, values=100_000)}


def load(port, seconds, **options):
    command = ["taskset", "-c", "1", str(BUILD / "fg_token_load"), "--port", str(port), "--seconds", str(seconds)]
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    # OK and BLOCKED are decisions; any other status is none.
    if result["errors"] or not set(result["statuses"]) <= {"0", "1"}:
        sys.exit(f"unexpected answers: {result}")
    return result


def serve(directory):
    port = free_port()
    rules = pathlib.Path(directory) / "rules.yaml"
    rules.write_text(RULES)
    config = pathlib.Path(directory) / "flowguard.yaml"
    config.write_text(f"token_server: {{listen: '127.0.0.1:{port}', questions_per_second: 1_000_000_000}}\n"
                      f"cells: {{capacity: 1_000_000}}\nrules: {rules}\n")
    command = [BUILD / "flowguard", "run", "--config", config, "--workers", 1]
    return Server(command, 0, [port]), port


def run(report, options):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65_536), hard))
    with tempfile.TemporaryDirectory() as directory:
        server, port = serve(directory)
        rates, shares, each, p99 = [], [], {name: [] for name in CASES}, []
        for _ in range(options.rounds):
            for name, flow in CASES.items():
                before = server.cpu_seconds()
                result = load(port, options.seconds, **flow)
                used = max(server.cpu_seconds() - before, 1e-9)
                each[name].append(result["questions"] / used)
                if name == "passed":
                    rates.append(result["rate"])
                    shares.append(used / result["seconds"])
            p99.append(load(port, options.seconds, rate=statistics.median(rates) / 2, **CASES["passed"])["p99_us"])
        for name, values in each.items():
            report.rounds(f"token server, {name}", values, "decisions/CPU-second")
        report.rounds("token server, p99 at half load", p99, "us")
        for name, values in each.items():
            report.target(f"token-decisions-{name}/500k-a-CPU-second",
                          statistics.median(values) / PER_CPU_SECOND, 1.0)
        report.target("1ms/token-p99-at-half-load", P99_US / statistics.median(p99), 1.0,
                      statistics.median(shares) >= SHARE_MIN)
        report.note(f"64 connections, writes of 32 questions; half load is {statistics.median(rates) / 2:.0f} "
                    "questions/s, latencies from when a write was due")
        idle_memory(server, port, report)
        server.stop()


def idle_memory(server, port, report):
    base = server.rss_kib()
    command = [str(BUILD / "fg_token_load"), "--port", str(port), "--idle", str(IDLE), "--connections", "1",
               "--depth", "1", "--rate", "10", "--seconds", "3"]
    idle = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    time.sleep(2)
    held = server.rss_kib()
    if idle.wait() != 0:
        sys.exit("idle connections were closed")
    report.note(f"{(held - base) * 1024 / IDLE:.0f} bytes per quiet token client at {IDLE}")
