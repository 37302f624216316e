#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The checks that read the sources: layers, bans, format.
set -uo pipefail
cd "$(dirname "$0")/.."
status=0
python3 tools/check_layers.py --check || status=1
python3 tools/bans.py || status=1
git ls-files '*.h' '*.cc' | xargs clang-format-14 --dry-run -Werror || status=1
exit $status
