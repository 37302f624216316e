#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# clang-tidy over the sources that changed, with the compile commands of the clang preset:
#   tools/tidy_changed.sh [BASE]    since BASE (default: the parent commit)
#   tools/tidy_changed.sh --all [FOLDER]    all of src, or of src/FOLDER
# Tests and headers that no source includes are not looked at.
set -uo pipefail
cd "$(dirname "$0")/.."
cmake --preset clang >/dev/null || exit 1
if [[ ${1:-} == --all ]]; then
  mapfile -t files < <(git ls-files "src/${2:+$2/}*.cc" | grep -v '_test\.cc$')
else
  base=${1:-}
  [[ -z $base ]] && base=$(git rev-parse -q --verify HEAD~1 || git hash-object -t tree /dev/null)
  mapfile -t files < <(git diff --name-only --diff-filter=d "$base" -- 'src/*.cc' | grep -v '_test\.cc$')
fi
if [[ ${#files[@]} -eq 0 ]]; then echo "tidy: nothing to look at"; exit 0; fi
echo "tidy: ${#files[@]} files"
printf '%s\n' "${files[@]}" | xargs -P2 -n1 clang-tidy-14 -p build/clang --quiet 2>/dev/null
