#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
#   with_redis.sh PROGRAM [ARGUMENT...]
# Runs PROGRAM with the URL of a redis-server of its own as last argument.
set -euo pipefail
work=$(mktemp -d)
redis-server --port 0 --unixsocket "$work/redis.sock" --save '' --appendonly no --dir "$work" \
  --logfile "$work/log" --daemonize no &
server=$!
trap 'kill "$server" 2>/dev/null; wait "$server" 2>/dev/null; rm -rf "$work"' EXIT
for _ in $(seq 5000); do
  redis-cli -s "$work/redis.sock" ping >/dev/null 2>&1 && break
  kill -0 "$server" || { cat "$work/log" >&2; exit 1; }
done
"$@" "unix://$work/redis.sock"
