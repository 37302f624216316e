#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares FlowGuard with its peers on this machine, and says which targets hold.

    ./dev bench [library] [engine] [gateway] [redis] [token-server] [--rounds N] [--seconds S] [--write NAME]

Peers run interleaved with ours, at least seven rounds, and medians are compared.
First one line a target, `name ratio target ok|short|invalid`, then versions,
configurations and raw figures.  A peer far below its known figure makes a line
invalid: the machine was busy, and the ratio says nothing.
--write: everything, with every single round, goes to bench/results/NAME.json too, and
the README's table of it is printed last.
Exit 0: all ok; 1: a target is short or invalid; 3: a peer is missing (the other areas are
measured all the same).
"""
import argparse
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys

MISSING = 3  # an area's exit status when its peer is not there
RESULTS = pathlib.Path(__file__).resolve().parent / "results"
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import engine_bench  # noqa: E402
import gateway_bench  # noqa: E402
import library_bench  # noqa: E402
import redis_bench  # noqa: E402
import token_bench  # noqa: E402


class Report:
    """Collects target lines, plain figures and raw rounds."""

    def __init__(self):
        self.lines, self.notes, self.raw, self.failed = [], [], [], False
        self.targets, self.figures, self.missing = [], [], False

    def target(self, name, ratio, target, valid=True):
        verdict = "invalid" if not valid else "ok" if ratio >= target else "short"
        self.failed |= verdict != "ok"
        self.targets.append({"name": name, "ratio": ratio, "target": target, "verdict": verdict})
        self.lines.append(f"{name} {ratio:.2f} {target:.2f} {verdict}")
        print(self.lines[-1], flush=True)

    def note(self, text):
        self.notes.append(text)

    def rounds(self, name, values, unit):
        spread = f"min {min(values):.1f} max {max(values):.1f}" if values else ""
        middle = statistics.median(values) if values else float("nan")
        self.figures.append({"name": name, "unit": unit, "rounds": list(values)})
        self.raw.append(f"{name}: median {middle:.1f} {unit} ({spread}, {len(values)} rounds)")


def command_output(*argv):
    try:
        return subprocess.run(argv, cwd=RESULTS.parent, capture_output=True, text=True).stdout.strip()
    except OSError:
        return ""


def machine():
    """What the figures were measured on, and of which source."""
    model = re.search(r"model name\s*:\s*(.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return {"cpu": model.group(1) if model else platform.machine(), "cores": os.cpu_count(),
            "kernel": platform.release(), "compiler": command_output("g++", "--version").split("\n")[0],
            "commit": command_output("git", "rev-parse", "HEAD"),
            "changed": bool(command_output("git", "status", "--porcelain", "--untracked-files=no"))}


def write(report, name, options):
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(
        {"machine": machine(), "rounds": options.rounds, "seconds": options.seconds,
         "targets": report.targets, "figures": report.figures, "notes": report.notes}, indent=1) + "\n")
    return path


def table(report, path):
    """The README's table: all targets, those that are missed too."""
    rows = [f"| {t['name']} | {t['ratio']:.2f} | {t['target']:.2f} | {t['verdict']} |"
            for t in report.targets]
    return "\n".join(["| ratio | measured | target | |", "|---|---|---|---|", *rows, "",
                      f"Every round: `{path.relative_to(RESULTS.parent.parent)}`."])


def name_of_result(text):
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", text):
        raise argparse.ArgumentTypeError(f"{text!r}: small letters, digits, '.', '_' and '-'")
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("areas", nargs="*", help="library, engine, gateway, redis, token-server; default all")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0, help="of one measurement (library, engine: fixed)")
    parser.add_argument("--write", metavar="NAME", type=name_of_result,
                        help="also to bench/results/NAME.json")
    options = parser.parse_args()
    areas = options.areas or ["library", "engine", "gateway", "redis", "token-server"]
    report = Report()
    known = {"library": library_bench.run, "engine": engine_bench.run, "gateway": gateway_bench.run,
             "redis": redis_bench.run, "token-server": token_bench.run}
    for area in areas:
        if area not in known:
            parser.error(f"unknown area {area!r}; allowed: {', '.join(known)}")
        try:
            known[area](report, options)
        except SystemExit as end:
            if end.code != MISSING:
                raise
            report.missing = True
    print("\n# notes")
    print("\n".join(report.notes))
    print("\n# raw")
    print("\n".join(report.raw))
    if options.write:
        print("\n# table\n" + table(report, write(report, options.write, options)))
    return MISSING if report.missing else 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
