#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Compiles every header on its own, so that each includes what it needs.
set -uo pipefail
cd "$(dirname "$0")/.."
one() {
  clang++-14 -std=c++20 -mcx16 -Iinclude -Isrc -fsyntax-only -Wall -Wextra -Wno-pragma-once-outside-header \
    -Wno-unused-const-variable -DFLOWGUARD_VERSION='"0"' -x c++ "$1" || echo "$1: does not compile alone"
}
export -f one
out=$(git ls-files 'include/*.h' 'src/*.h' | grep -v '^src/testing/.*gmock' | xargs -P2 -I{} bash -c 'one {}' 2>&1)
if [[ -n $out ]]; then echo "$out"; exit 1; fi
echo "headers: each compiles alone"
