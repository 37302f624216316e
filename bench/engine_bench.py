# SPDX-License-Identifier: Apache-2.0
"""Entering and leaving a guarded call against Sentinel's; see engine/engine_bench.cc."""
import shutil
import statistics
import subprocess
import sys

from library_bench import BUILD, REPO, Program

SENTINEL = "com.alibaba.csp:sentinel-core:1.8.9"
CASES = ["none", "accept", "reject", "breaker", "thousand"]
THREADS = [1, 2]

# As library_bench.KNOWN_NS.
KNOWN_NS = {"accept-1": 424.0, "reject-1": 1475.0}


def missing(why):
    print(f"sentinel-core is missing: {why}", file=sys.stderr)
    sys.exit(3)


def fetch_sentinel(folder):
    """The jar, fetched once by Maven from the repository that it is set up for."""
    jar = folder / ("-".join(SENTINEL.split(":")[1:]) + ".jar")
    if jar.exists():
        return jar
    if shutil.which("mvn") is None:
        missing(f"apt-get install maven, or put it at {jar.relative_to(REPO)}")
    fetched = subprocess.run(
        ["mvn", "-B", "-q", "dependency:copy", f"-Dartifact={SENTINEL}", f"-DoutputDirectory={folder}"],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if fetched.returncode != 0 or not jar.exists():
        missing(f"mvn dependency:copy did not fetch {SENTINEL}:\n{fetched.stdout[-2000:]}")
    return jar


def build_sentinel():
    out = BUILD / "sentinel"
    out.mkdir(parents=True, exist_ok=True)
    if shutil.which("javac") is None or shutil.which("java") is None:
        missing("it is compiled and run by a JDK: apt-get install default-jdk-headless")
    jar = fetch_sentinel(out)
    source = REPO / "bench" / "peers" / "sentinel" / "SentinelBench.java"
    subprocess.run(["javac", "-cp", str(jar), "-d", str(out), str(source)], check=True)
    return ["java", f"-Dcsp.sentinel.log.dir={out / 'logs'}", "-Dproject.name=bench", "-cp",
            f"{out}:{jar}", "SentinelBench"]


def measure(ours, sentinel, rounds, report):
    """Median nanoseconds an entry, of (side, case-threads)."""
    asked = [(side, program, f"{case} {threads}")
             for threads in THREADS for case in CASES
             for side, program in (("flowguard", ours), ("sentinel", sentinel))]
    asked += [("flowguard", ours, f"{case} {threads}")
              for threads in THREADS for case in ("bare", "buckets")]
    values = {(side, line.replace(" ", "-")): [] for side, _, line in asked}
    for round_number in range(rounds + 1):  # the first fills tables and caches
        for side, program, line in asked:
            answer = float(program.ask(line))
            if round_number > 0:
                values[side, line.replace(" ", "-")].append(answer)
    for (side, case), each in values.items():
        report.rounds(f"{side} {case}", each, "ns")
    return {which: statistics.median(each) for which, each in values.items()}


def run(report, options):
    sentinel = Program(build_sentinel())
    ours = Program([str(BUILD / "fg_engine_bench")])
    ns = measure(ours, sentinel, max(7, options.rounds), report)

    def ratio(case, ours_case=None):
        return ns["sentinel", case] / ns["flowguard", ours_case or case]

    def valid(case):
        return ns["sentinel", case] <= KNOWN_NS[case] / 0.7

    report.target("engine-accept-1-thread/sentinel", ratio("accept-1"), 5.0, valid("accept-1"))
    report.target("engine-reject-1-thread/sentinel", ratio("reject-1"), 10.0, valid("reject-1"))
    allocated = {case: int(ours.ask(f"allocations {case}")) for case in [*CASES, "bare", "buckets"]}
    report.target("engine-no-allocation-per-entry", 1.0 if not any(allocated.values()) else 0.0, 1.0)
    for threads in THREADS:
        for case in CASES:
            name = f"{case}-{threads}"
            report.note(f"{name} / sentinel: {ratio(name):.1f}")
        report.note(f"bare-{threads} (without statistics) / sentinel's accept-{threads}: "
                    f"{ratio(f'accept-{threads}', f'bare-{threads}'):.1f}")
        report.note(f"buckets-{threads} (sliding_buckets of 60) / sentinel's accept-{threads}: "
                    f"{ratio(f'accept-{threads}', f'buckets-{threads}'):.1f}")
    report.note(f"allocations of 100,000 entries: {allocated}")
    report.note(f"{SENTINEL}; "
                + subprocess.run(["java", "-version"], capture_output=True, text=True).stderr.split("\n")[0])
    ours.close()
    sentinel.close()
