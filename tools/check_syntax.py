#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What clang says of every source of the clang preset, and whether headers stand alone.

    check_syntax.py [--headers] [FILTER]

--headers: only headers.  FILTER: only sources and headers whose path contains it.
No code is generated: warnings and the thread-safety analysis come before that.  Tests get
GoogleTest's headers precompiled.  A header that some other source includes first is known
to stand alone; the others are compiled as they are.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

REPO = pathlib.Path(__file__).resolve().parent.parent
BUILD = REPO / "build" / "clang"
FIRST_INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
TEST_HEADERS = "#include <gmock/gmock.h>\n#include <gtest/gtest.h>\n"
IS_TEST = re.compile(r"#include <(gtest|gmock)/")
ROOTS = ("include", "src")


def syntax_only(entry):
    """The command of a compile_commands entry without the launcher, and without output."""
    words = shlex.split(entry["command"])
    start = next(n for n, word in enumerate(words) if "clang++" in word)
    command, skip = [], False
    for word in words[start:]:
        if skip:
            skip = False
        elif word in ("-o", "-MF", "-MT"):
            skip = True
        elif word not in ("-c", "-MD"):
            command.append(word)
    return command + ["-fsyntax-only"]


def precompile(entry):
    """The words that give tests, of which `entry` is one, the headers of GoogleTest."""
    header = BUILD / "test_headers.h"
    header.write_text(TEST_HEADERS)
    compiled = BUILD / "test_headers.pch"
    flags = [word for word in syntax_only(entry)[:-1] if word != entry["file"]]
    subprocess.run(flags + ["-x", "c++-header", str(header), "-o", str(compiled)],
                   cwd=entry["directory"], check=True)
    return ["-include-pch", str(compiled)]


def alone(header):
    return ["clang++-14", "-std=c++20", "-mcx16", "-Iinclude", "-Isrc", "-fsyntax-only", "-Werror",
            "-Wall", "-Wextra", "-Wthread-safety", "-Wno-pragma-once-outside-header",
            "-Wno-unused-const-variable", '-DFLOWGUARD_VERSION="0"', "-x", "c++", str(header)]


def included_first(sources):
    """The headers that one of these sources includes before anything else."""
    first = set()
    for source in sources:
        found = FIRST_INCLUDE.search(source.read_text())
        before = source.read_text()[:found.start()] if found else ""
        if found and "#include" not in before:
            first.update(REPO / root / found.group(1) for root in ROOTS)
    return first


def headers():
    listed = subprocess.run(["git", "ls-files", "include/*.h", "src/*.h"], cwd=REPO, check=True,
                            capture_output=True, text=True).stdout.split()
    return [REPO / name for name in listed]


def compile_one(job):
    command, folder = job
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    sys.stderr.write(done.stderr)
    return done.returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--headers", action="store_true")
    parser.add_argument("filter", nargs="?", default="")
    options = parser.parse_args()
    wanted = options.filter
    subprocess.run(["cmake", "--preset", "clang"], cwd=REPO, check=True, stdout=subprocess.DEVNULL)
    entries = json.loads((BUILD / "compile_commands.json").read_text())
    sources = {}
    for entry in entries:  # packages list the objects of libraries again
        source = pathlib.Path(entry["file"])
        if BUILD not in source.parents:  # what the build writes is not there yet
            sources.setdefault(source, entry)
    tests = {source for source in sources if IS_TEST.search(source.read_text())}
    standing = included_first(sources.keys() - tests)
    jobs = []
    if not options.headers:
        for_tests = precompile(sources[min(tests)])
        jobs = [(syntax_only(entry) + (for_tests if source in tests else []), entry["directory"])
                for source, entry in sources.items() if wanted in str(source)]
    compiled = len(jobs)
    jobs += [(alone(header), REPO) for header in headers()
             if header not in standing and wanted in str(header)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(compile_one, jobs))
    print(f"syntax: {compiled} sources, {len(jobs) - compiled} headers alone, "
          f"{results.count(False)} with errors")
    return int(not all(results))


if __name__ == "__main__":
    sys.exit(main())
