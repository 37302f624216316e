#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs the library into a temporary prefix and builds and runs a consumer of it,
# by find_package and by pkg-config.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --preset embed -DCMAKE_INSTALL_PREFIX="$work/prefix"
cmake --build build/embed >&2
cmake --install build/embed

cmake -G Ninja -S tests/install/consumer -B "$work/consumer" -DCMAKE_PREFIX_PATH="$work/prefix"
cmake --build "$work/consumer"
"$work/consumer/consumer_core"
"$work/consumer/consumer_text"
tests/with_redis.sh "$work/consumer/consumer_quota"

pc=$(find "$work/prefix" -name flowguard.pc -printf '%h')
flags=$(PKG_CONFIG_PATH="$pc" pkg-config --cflags --libs flowguard)
# shellcheck disable=SC2086
g++ -std=c++20 tests/install/consumer/text.cc $flags -o "$work/by_pkg_config"
"$work/by_pkg_config"
flags=$(PKG_CONFIG_PATH="$pc" pkg-config --cflags --libs flowguard-quota)
# shellcheck disable=SC2086
g++ -std=c++20 tests/install/consumer/quota.cc $flags -o "$work/quota_by_pkg_config"
tests/with_redis.sh "$work/quota_by_pkg_config"

# The core alone must need nothing but the standard library.
needed=$(objdump -p "$work/consumer/consumer_core" | awk '/NEEDED/ {print $2}' |
  grep -vE '^(libstdc\+\+|libm|libgcc_s|libc|libpthread|ld-linux.*)\.so' || true)
[[ -z $needed ]] || { echo "FlowGuard::core links $needed"; exit 1; }
echo "install: ok"
