#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""House rules that a script can hold: clocks, sleeps, libraries, dead tests, docs."""
import pathlib
import re
import subprocess
import sys

REPO = pathlib.Path(__file__).resolve().parent.parent
CODE = (".h", ".cc")

# (pattern, paths where it is allowed, what to do instead)
BANS = [
    (r"\b(steady_clock|system_clock|high_resolution_clock)::now|\bclock_gettime\s*\(|\bgettimeofday\b|__rdtsc|\btime\(nullptr\)",
     r"^src/base/(clock|tsc)|^bench/|^examples/|^tests/e2e/", "take `Instant now` as an argument; only base reads clocks"),
    (r"\bgetrandom\s*\(|std::random_device", r"^src/base/", "take a seed; only base reads entropy"),
    (r"\bgetenv\s*\(", r"^src/app/", "only app reads the environment"),
    (r"std::(thread|jthread|async)\b", r"^src/(app|guard|testing)/|^src/quota/io_thread|_test\.cc$|^bench/|^examples/|^tests/", "only app starts threads"),
    (r"sleep_for|\busleep\s*\(|\bnanosleep\s*\(", r"^src/guard/|^src/base/clock|^bench/|^examples/", "return the wait; tests move a ManualClock or wait for a condition"),
    (r"#include\s*[<\"]yaml-cpp|nlohmann/", r"^src/text/|^tests/|_test\.cc$", "yaml-cpp and nlohmann-json are named in text only"),
    (r"#include\s*[<\"]re2/", r"^src/dialects/", "RE2 is named in dialects only; use flowguard/regex.h"),
    (r"#include\s*[<\"](spdlog|fmt)/", r"^src/app/", "log through the sink of base; spdlog and fmt are named in app only"),
    (r"#include\s*[<\"]CLI/", r"^src/app/", "CLI11 is named in app only"),
    (r"#include\s*[<\"]openssl/", r"^src/net/", "OpenSSL is named in net only"),
    (r"#include\s*[<\"]xxhash", r"^src/base/hash\.cc$|^bench/", "use base/hash.h"),
    (r"#include\s*[<\"]sys/(socket|epoll|eventfd)|#include\s*[<\"]netinet/", r"^src/(net|testing)/|^src/(app|http|serve|admin|sources)/.*_test\.cc$|^src/http/client_address|^bench/|^tests/", "sockets belong to net"),
    (r"using namespace (?!std::(chrono_)?literals|std::chrono_literals)", r"_test\.cc$|^bench/|^examples/", "name what you use"),
    (r"\b(TODO|FIXME|XXX)\b", r"^$", "do it or write it down as a decision"),
    (r"GTEST_SKIP|DISABLED_", r"^$", "a test that does not run is no test"),
    (r"std::cout|\bprintf\s*\(", r"^src/app/|_test\.cc$|_search\.h$|^bench/|^examples/|^tests/", "a library does not print"),
]
LINES_MAX = 600


def tracked():
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=REPO, check=True,
                         capture_output=True, text=True).stdout
    return [pathlib.Path(line) for line in out.splitlines() if (REPO / line).is_file()]


def check_code(path, text, errors):
    name = str(path)
    if "SPDX-License-Identifier: Apache-2.0" not in text[:200]:
        errors.append(f"{name}:1: no SPDX line")
    if path.suffix == ".h" and "#pragma once" not in text:
        errors.append(f"{name}:1: no #pragma once")
    lines = text.splitlines()
    if len(lines) > LINES_MAX:
        errors.append(f"{name}: {len(lines)} lines, at most {LINES_MAX}: one idea a file")
    for number, line in enumerate(lines, 1):
        if len(line) > 100 and "http" not in line:
            errors.append(f"{name}:{number}: {len(line)} columns, at most 100")
        code = line.split("//")[0] if "TODO" not in line and "FIXME" not in line else line
        for pattern, allowed, instead in BANS:
            if re.search(pattern, code) and not re.search(allowed, name):
                errors.append(f"{name}:{number}: {line.strip()[:60]}: {instead}")


def main():
    errors = []
    files = tracked()
    cmake = "\n".join((REPO / f).read_text() for f in files
                      if f.name == "CMakeLists.txt" or f.suffix == ".cmake")
    for path in files:
        if path.suffix in CODE and path.parts[0] in ("src", "include", "bench", "examples", "tests"):
            check_code(path, (REPO / path).read_text(errors="replace"), errors)
            if (path.suffix == ".cc" and path.stem.endswith(("_test", "_fuzz"))
                    and path.name not in cmake):
                errors.append(f"{path}: no target names this file, so it never runs")
        if path.suffix == ".md":
            text = (REPO / path).read_text()
            body = re.sub(r"```.*?```", "", text, flags=re.S)
            if len(re.findall(r"^# ", body, flags=re.M)) != 1:
                errors.append(f"{path}: a page has exactly one title")
    for name, most in (("README.md", 250), ("ARCHITECTURE.md", 400)):
        if len((REPO / name).read_text().splitlines()) > most:
            errors.append(f"{name}: more than {most} lines")
    print("\n".join(errors), file=sys.stderr) if errors else print("bans: ok")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
