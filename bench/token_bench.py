# SPDX-License-Identifier: Apache-2.0
"""The token server: decisions per CPU-second of its process with pipelined clients, and the
99th percentile at half of what it can do; then the same beside Sentinel's own, which is an
optional peer.  Server on core 0, clients on core 1."""
import json
import pathlib
import resource
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from gateway_bench import BUILD, REPO, Server, free_port

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

SENTINEL = "com.alibaba.csp:sentinel-cluster-server-default:1.8.9"
SENTINEL_SOURCE = REPO / "bench" / "peers" / "sentinel-token-server"
SENTINEL_CASES = ["passed", "refused"]
# Of each case before it is measured, for its code is compiled while it runs.
SENTINEL_WARM_SECONDS = 15
SENTINEL_FETCH_SECONDS = 600
SENTINEL_START_SECONDS = 60
# Decisions per CPU-second; as gateway_bench.KNOWN.
KNOWN_SENTINEL = {"passed": 100_000, "refused": 100_000}


class NotMeasured(Exception):
    """Why an optional peer is not."""


def load(port, seconds, **options):
    command = ["taskset", "-c", "1", str(BUILD / "fg_token_load"), "--port", str(port), "--seconds", str(seconds)]
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True,
                                       timeout=seconds + 60).stdout)
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


def decide(server, port, seconds, case):
    """Decisions per CPU-second, CPU-seconds, and what the load says."""
    before = server.cpu_seconds()
    result = load(port, seconds, **CASES[case])
    used = max(server.cpu_seconds() - before, 1e-9)
    return result["questions"] / used, used, result


def run(report, options):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65_536), hard))
    with tempfile.TemporaryDirectory() as directory:
        server, port = serve(directory)
        rates, shares, each, p99 = [], [], {name: [] for name in CASES}, []
        for _ in range(options.rounds):
            for name in CASES:
                rate, used, result = decide(server, port, options.seconds, name)
                each[name].append(rate)
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
        # After all that targets hang on, so that they are the same without it.
        beside_sentinel(server, port, report, options)
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


def fetch_sentinel(folder):
    """Its jars, fetched once by Maven from the repository that it is set up for."""
    jars = folder / "jars"
    if jars.exists():
        return jars
    if shutil.which("mvn") is None:
        raise NotMeasured("for there is no mvn")
    part = folder / "jars.part"
    command = ["mvn", "-B", "-q", "-f", SENTINEL_SOURCE / "pom.xml", "dependency:copy-dependencies",
               "-DincludeScope=runtime", f"-DoutputDirectory={part}"]
    try:
        fetched = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                 timeout=SENTINEL_FETCH_SECONDS)
    except subprocess.TimeoutExpired:
        raise NotMeasured(f"mvn did not fetch it in {SENTINEL_FETCH_SECONDS} s") from None
    if fetched.returncode != 0 or not part.exists():
        print(fetched.stdout[-2000:], file=sys.stderr)
        raise NotMeasured(f"mvn dependency:copy-dependencies did not fetch {SENTINEL}")
    return part.rename(jars)


def serve_sentinel():
    """Its server and port."""
    if shutil.which("javac") is None or shutil.which("java") is None:
        raise NotMeasured("for there is no JDK")
    out = BUILD / "sentinel-token-server"
    out.mkdir(parents=True, exist_ok=True)
    classes = f"{out}:{fetch_sentinel(out)}/*"
    subprocess.run(["javac", "-cp", classes, "-d", str(out), str(SENTINEL_SOURCE / "TokenServer.java")], check=True)
    port = free_port()
    server = Server(["java", f"-Dcsp.sentinel.log.dir={out / 'logs'}", "-Dproject.name=bench", "-cp", classes,
                     "TokenServer", port], 0, stdout=subprocess.PIPE)
    said, _, _ = select.select([server.process.stdout], [], [], SENTINEL_START_SECONDS)
    if not said or server.process.stdout.readline() != b"ready\n":
        server.stop()
        raise NotMeasured("it did not start")
    return server, port


def beside_sentinel(server, port, report, options):
    """Sentinel's token server and ours in turn, where Maven and a JDK are at hand: no target hangs on it."""
    try:
        sentinel, sentinel_port = serve_sentinel()
    except NotMeasured as why:
        report.note(f"Sentinel's token server: not measured, {why}")
        return
    sides = {"flowguard": (server, port), "sentinel": (sentinel, sentinel_port)}
    each = {(side, name): [] for name in SENTINEL_CASES for side in sides}
    rates, p99 = [], {side: [] for side in sides}
    for name in SENTINEL_CASES:
        load(sentinel_port, SENTINEL_WARM_SECONDS, **CASES[name])
    for _ in range(options.rounds):
        for side, name in each:
            rate, _, result = decide(*sides[side], options.seconds, name)
            each[side, name].append(rate)
            if (side, name) == ("sentinel", "passed"):
                rates.append(result["rate"])
        # Both at half of what Sentinel's can do.
        for side, (_, its_port) in sides.items():
            p99[side].append(load(its_port, options.seconds, rate=statistics.median(rates) / 2,
                                  **CASES["passed"])["p99_us"])
    sentinel.stop()
    for (side, name), values in each.items():
        report.rounds(f"token server beside Sentinel's, {side} {name}", values, "decisions/CPU-second")
    for side, values in p99.items():
        report.rounds(f"token server beside Sentinel's, {side} p99", values, "us")
    for name in SENTINEL_CASES:
        ours, its = (statistics.median(each[side, name]) for side in sides)
        valid = "" if its >= 0.7 * KNOWN_SENTINEL[name] else " (invalid: far below its known rate)"
        report.note(f"token decisions {name} / Sentinel's token server: {ours / its:.1f}{valid}")
    ours, its = (statistics.median(values) for values in p99.values())
    report.note(f"token p99 at {statistics.median(rates) / 2:.0f} questions/s, half of what Sentinel's can do: "
                f"ours {ours:.0f} us, its {its:.0f} us, ours / its {ours / its:.3f}")
    report.note(f"{SENTINEL}, warm, its guard of a namespace raised to 1e9/s, JVM of one core; "
                + subprocess.run(["java", "-version"], capture_output=True, text=True).stderr.split("\n")[0])
