#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares FlowGuard with its peers on this machine, and says which targets hold.

    ./dev bench [library] [gateway] [--rounds N] [--seconds S]

Peers run interleaved with ours, at least seven rounds, and medians are compared.
First one line a target, `name ratio target ok|short|invalid`, then versions,
configurations and raw figures.  A peer far below its known figure makes a line
invalid: the machine was busy, and the ratio says nothing.
Exit 0: all ok; 1: a target is short or invalid; 3: a peer is missing.
"""
import argparse
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import gateway_bench  # noqa: E402
import library_bench  # noqa: E402


class Report:
    """Collects target lines, plain figures and raw rounds."""

    def __init__(self):
        self.lines, self.notes, self.raw, self.failed = [], [], [], False

    def target(self, name, ratio, target, valid=True):
        verdict = "invalid" if not valid else "ok" if ratio >= target else "short"
        self.failed |= verdict != "ok"
        self.lines.append(f"{name} {ratio:.2f} {target:.2f} {verdict}")
        print(self.lines[-1], flush=True)

    def note(self, text):
        self.notes.append(text)

    def rounds(self, name, values, unit):
        spread = f"min {min(values):.1f} max {max(values):.1f}" if values else ""
        middle = statistics.median(values) if values else float("nan")
        self.raw.append(f"{name}: median {middle:.1f} {unit} ({spread}, {len(values)} rounds)")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("areas", nargs="*", help="library, gateway; default both")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0, help="of one gateway measurement")
    options = parser.parse_args()
    areas = options.areas or ["library", "gateway"]
    report = Report()
    known = {"library": library_bench.run, "gateway": gateway_bench.run}
    for area in areas:
        if area not in known:
            parser.error(f"unknown area {area!r}; allowed: {', '.join(known)}")
        known[area](report, options)
    print("\n# notes")
    print("\n".join(report.notes))
    print("\n# raw")
    print("\n".join(report.raw))
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
