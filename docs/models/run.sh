#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks the models with spin (Debian package spin), a minute at most.
#   docs/models/run.sh
set -euo pipefail
models=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
# check NAME [-DMACRO]...: prints what spin found.
check() {
  local name=$1
  shift
  spin "$@" -a "$models/$name.pml"
  cc -O2 -w -DSAFETY -DMEMLIM=1024 -o pan pan.c
  timeout 60 ./pan -m200000 >report.txt
  grep -E "errors:|states, stored" report.txt
  # A search that was cut short has shown nothing.
  ! grep -E "MEMLIM|max search depth too small" report.txt
}

check lease
grep -q "errors: 0" report.txt
# The assertions see what they are there for.
check lease -DLATE_RETURNS_COUNT
grep -q "errors: 1" report.txt
