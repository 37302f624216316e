# SPDX-License-Identifier: Apache-2.0
"""The library against Guava and sharded maps; see library/library_bench.cc."""
import pathlib
import statistics
import subprocess
import sys

REPO = pathlib.Path(__file__).resolve().parent.parent
BUILD = REPO / "build" / "bench"
GUAVA_JAR = pathlib.Path("/usr/share/java/guava.jar")
FORGOTTEN_SEEDS = 10

# Nanoseconds a peer is known to need on the kind of machine that the targets were
# set on; at under 0.7 of that speed the machine was busy and the line is invalid.
KNOWN_NS = {"guava-1": 35.3, "guava-2": 106.0, "absl-1": 214.0, "absl-2": 244.0}


class Program:
    """A process that answers one line for each line."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        if self.process.stdout.readline().strip() != "ready":
            sys.exit(f"{command[0]} did not start")

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)


def build_guava():
    if not GUAVA_JAR.exists():
        print("guava is missing: apt-get install libguava-java default-jdk-headless", file=sys.stderr)
        sys.exit(3)
    out = BUILD / "guava"
    out.mkdir(parents=True, exist_ok=True)
    source = REPO / "bench" / "peers" / "guava" / "GuavaBench.java"
    subprocess.run(["javac", "-cp", str(GUAVA_JAR), "-d", str(out), str(source)], check=True)
    return ["java", "-cp", f"{out}:{GUAVA_JAR}:/usr/share/java/failureaccess.jar", "GuavaBench"]


def measure(ours, guava, rounds, report):
    cases = ["clock+cas", "limiter-1", "guava-1", "limiter-2", "guava-2", "limiter-now",
             "keyed-1", "absl-1", "boost-1", "keyed-2", "absl-2", "boost-2", "batch-1",
             "guard-100", "guard-10000"]
    values = {case: [] for case in cases}
    for round_number in range(rounds + 1):  # the first fills tables and caches
        for case in cases:
            answer = guava.ask(case[6:]) if case.startswith("guava") else ours.ask(case)
            if round_number > 0:
                values[case].append(float(answer))
    for case in cases:
        report.rounds(case, values[case], "ns")
    return {case: statistics.median(values[case]) for case in cases}


def run(report, options):
    guava = Program(build_guava())
    ours = Program([str(BUILD / "fg_library_bench")])
    ns = measure(ours, guava, max(7, options.rounds), report)
    guava.close()

    def valid(peer):
        return peer not in KNOWN_NS or ns[peer] <= KNOWN_NS[peer] / 0.7

    def against(name, case, peer, target):
        report.target(name, ns[peer] / ns[case], target, valid(peer))

    against("limiter-1-thread/guava", "limiter-1", "guava-1", 3.3)
    against("limiter-2-threads/guava", "limiter-2", "guava-2", 2.5)
    against("limiter-given-now/guava", "limiter-now", "guava-1", 8.0)
    report.note(f"guava-1 / (one clock read + one compare-and-swap): {ns['guava-1'] / ns['clock+cas']:.2f}, "
                "the ceiling of limiter-1-thread here")
    against("keyed-10M-1-thread/absl", "keyed-1", "absl-1", 1.6)
    against("keyed-10M-2-threads/absl", "keyed-2", "absl-2", 1.5)
    against("keyed-10M-batched/absl", "batch-1", "absl-1", 2.0)
    report.target("guard-100-rules-under-150-ns", 150 / ns["guard-100"], 1.0)
    report.target("guard-10000-rules-under-150-ns", 150 / ns["guard-10000"], 1.0)
    for case in ("guard-100", "guard-10000"):
        report.note(f"{case}: {ns[case] / ns['clock+cas']:.1f} x one clock read + one "
                    f"compare-and-swap ({ns['clock+cas']:.1f} ns)")
    for case, peer in (("keyed-1", "boost-1"), ("keyed-2", "boost-2"), ("batch-1", "boost-1")):
        report.note(f"{case} / {peer}: {ns[peer] / ns[case]:.2f}")

    bytes_per_key, lost = 0.0, 0
    for seed in range(1, FORGOTTEN_SEEDS + 1):
        each, again, refused_first = ours.ask(f"forgotten {seed}").split()
        bytes_per_key = max(bytes_per_key, float(each))
        lost += int(again) + int(refused_first)
    ours.close()
    report.target("bytes-a-key-at-10M-under-24", 24 / bytes_per_key, 1.0)
    report.target(f"no-live-key-forgotten-{FORGOTTEN_SEEDS}-seeds", 1.0 if lost == 0 else 0.0, 1.0)
    report.note(f"bytes a key: {bytes_per_key}; keys forgotten or refused at first: {lost}")
    version = subprocess.run(["dpkg-query", "-W", "libguava-java", "libabsl-dev", "libboost1.81-dev"],
                             capture_output=True, text=True).stdout
    report.note(version.strip())
