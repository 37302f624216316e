#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# clang-tidy over the sources that changed since BASE (default: the parent commit),
# with the compile commands of the clang preset.
set -uo pipefail
cd "$(dirname "$0")/.."
base=${1:-}
[[ -z $base ]] && base=$(git rev-parse -q --verify HEAD~1 || git hash-object -t tree /dev/null)
[[ -f build/clang/compile_commands.json ]] || cmake --preset clang >/dev/null || exit 1
mapfile -t files < <(git diff --name-only --diff-filter=d "$base" -- 'src/*.cc' | grep -v '_test\.cc$')
if [[ ${#files[@]} -eq 0 ]]; then echo "tidy: nothing changed"; exit 0; fi
echo "tidy: ${#files[@]} files"
printf '%s\n' "${files[@]}" | xargs -P2 -n1 clang-tidy-14 -p build/clang --quiet 2>/dev/null
