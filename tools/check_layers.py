#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds every #include against tools/layers.txt and keeps the layer picture.

    check_layers.py --check    fail on a breach, or when ARCHITECTURE.md's picture is stale
    check_layers.py --write    redraw the picture in ARCHITECTURE.md

A folder may name only folders listed above it, so the graph has no cycle by
construction.  Files that end in _test, _bench or _fuzz may also include testing/.
"""
import pathlib
import re
import sys

REPO = pathlib.Path(__file__).resolve().parent.parent
TABLE = REPO / "tools" / "layers.txt"
PICTURE = REPO / "ARCHITECTURE.md"
BEGIN, END = "<!-- layers: begin -->", "<!-- layers: end -->"
INCLUDE = re.compile(r'\s*#\s*include\s*"([^"/]+)/')


def load_table():
    allowed, purpose = {}, {}
    for number, line in enumerate(TABLE.read_text().splitlines(), 1):
        rule, _, why = line.partition("#")
        if not rule.strip():
            continue
        name, _, deps = rule.partition(":")
        name, deps = name.strip(), deps.split()
        for dep in deps:
            if dep not in allowed:
                sys.exit(f"{TABLE}:{number}: {name} -> {dep}: {dep} must be listed above {name}")
        allowed[name], purpose[name] = deps, why.strip()
    return allowed, purpose


def sources():
    for path in sorted((REPO / "include" / "flowguard").rglob("*.h")):
        yield "flowguard", path
    for folder in sorted((REPO / "src").iterdir()):
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".h", ".cc"):
                yield folder.name, path


def scan(allowed):
    used, errors = set(), []
    for folder, path in sources():
        where = path.relative_to(REPO)
        if folder not in allowed:
            errors.append(f"{where}: folder {folder} is not in tools/layers.txt")
            continue
        beside = path.stem.endswith(("_test", "_bench", "_fuzz"))
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            match = INCLUDE.match(line)
            target = match and match.group(1)
            if not target or target == folder or target not in allowed:
                continue
            if beside and target == "testing":
                continue
            if target == "testing" and folder != "testing":
                errors.append(f"{where}:{number}: production code includes testing/")
            elif target not in allowed[folder]:
                errors.append(f"{where}:{number}: {folder} may not include {target}")
            elif not beside:
                used.add((folder, target))
    return used, errors


def picture(allowed, purpose, used):
    """Mermaid text of the used edges, without those that follow from others."""
    direct = {name: {b for a, b in used if a == name} for name in allowed}

    def reach(name, seen):
        for nxt in direct[name]:
            if nxt not in seen:
                seen.add(nxt)
                reach(nxt, seen)
        return seen

    lines = ["```mermaid", "flowchart TD"]
    for name in reversed(list(allowed)):
        if name != "flowguard" and not any(name in edge for edge in used):
            continue
        lines.append(f'  {name}["<b>{name}</b><br/>{purpose[name]}"]')
    for name in reversed(list(allowed)):
        for dep in sorted(direct[name]):
            if not any(dep in reach(other, set()) for other in direct[name] if other != dep):
                lines.append(f"  {name} --> {dep}")
    return "\n".join(lines + ["```"])


def main():
    mode = sys.argv[1] if len(sys.argv) > 1 else "--check"
    allowed, purpose = load_table()
    used, errors = scan(allowed)
    text = PICTURE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    wanted = f"{before}{BEGIN}\n{picture(allowed, purpose, used)}\n{END}{after}"
    if mode == "--write":
        PICTURE.write_text(wanted)
    elif wanted != text:
        errors.append("ARCHITECTURE.md: the layer picture is stale; run tools/check_layers.py --write")
    unused = [f"{a} -> {b}" for a in allowed for b in allowed[a] if (a, b) not in used]
    if unused and mode == "--unused":
        print("allowed but unused: " + ", ".join(unused))
    print("\n".join(errors), file=sys.stderr) if errors else print("layers: ok")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
