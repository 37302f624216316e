#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Instructions of the hot path, counted by callgrind, against bench/instructions.txt.

    check_instructions.py --check    fail when a case needs over 10 % more than written
    check_instructions.py --write    write what is counted now
"""
import pathlib
import re
import subprocess
import sys
import tempfile

REPO = pathlib.Path(__file__).resolve().parent.parent
BUILD = REPO / "build" / "instructions"
TABLE = REPO / "bench" / "instructions.txt"
CASES = {  # and the program that runs it
    "limiter": "fg_instructions",
    "keyed": "fg_instructions",
    "guard-100": "fg_instructions",
    "guard-10000": "fg_instructions",
    "guard-refused": "fg_instructions",
    "guard-statistics": "fg_instructions",
    "http1-get": "fg_instructions_wire",
}
TIMES = 10_000
SLACK = 1.10


def count(case):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out",
             "--collect-atstart=no", "--toggle-collect=*Case*", str(BUILD / CASES[case]), case],
            capture_output=True, text=True)
    match = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or not match or int(match.group(1)) == 0:
        sys.exit(f"callgrind failed on {case}:\n{done.stderr}")
    return int(match.group(1)) / TIMES


def main():
    counts = {case: count(case) for case in CASES}
    if "--write" in sys.argv:
        TABLE.write_text("# Instructions of one decision, or one parsed head, by callgrind (gcc 12, -O2); see tools/check_instructions.py\n"
                         + "".join(f"{case} {n:.1f}\n" for case, n in counts.items()))
        return 0
    written = dict(line.split() for line in TABLE.read_text().splitlines() if not line.startswith("#"))
    status = 0
    for case, n in counts.items():
        over = n > float(written[case]) * SLACK
        status |= over
        print(f"{case}: {n:.1f} instructions, {written[case]} written{': TOO MANY' if over else ''}")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
