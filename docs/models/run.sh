#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks the models with spin (Debian package spin), in some seconds.
#   docs/models/run.sh
set -euo pipefail
models=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# check ERRORS NAME [-DMACRO]...: searches all states, and prints what spin found; fails
# unless that is ERRORS assertions that do not hold.
check() {
  local errors=$1 name=$2
  shift 2
  spin "$@" -a "$models/$name.pml"
  cc -O1 -w -DSAFETY -DMEMLIM=1024 -o pan pan.c
  timeout 60 ./pan -m200000 >report.txt
  echo "$name $*: $(grep -E "errors:" report.txt), $(grep -oE "[0-9]+ states, stored" report.txt)"
  grep -q "errors: $errors\$" report.txt
  # A search that was cut short has shown nothing.
  ! grep -E "MEMLIM|max search depth too small" report.txt
}

check 0 lease
check 0 fallback
check 0 fallback -DTICKS=2 -DNODES=3 -DLIMIT=1 -DSHARE=1

# The assertions see what they are there for.
check 1 lease -DLATE_RETURNS_COUNT
check 1 fallback -DNO_MIRROR
check 1 fallback -DLATE_GIVE_BACKS_COUNT
