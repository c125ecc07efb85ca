#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Hostile bytes for every reader of foreign files and tables (tests/fuzz), each for some seconds from seeds made here.
# A crash, a hang, a leak or anything thrown but Error fails; the input that did it is named. Needs Clang 16.
# Usage: scripts/fuzz.sh [--seconds N] [NAME...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=20
if [[ ${1:-} == --seconds ]]; then
  [[ ${2:-} =~ ^[0-9]+$ ]] || { echo "usage: fuzz.sh [--seconds N] [NAME...]" >&2; exit 2; }
  seconds=$2
  shift 2
fi
cmake --preset fuzz >/dev/null
cmake --build build/fuzz -j "$(nproc)" --target tests/fuzz/all
rm -rf build/fuzz/seeds
python3 tests/fuzz/seeds.py build/fuzz/seeds
mkdir -p build/fuzz/found
[[ $# -gt 0 ]] || set -- json tokenizer token_files tfrecord wordpiece rdata jpeg package strategy configuration log
failed=0
for name in "$@"; do
  options=(-max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=4096 -print_final_stats=1
           -artifact_prefix="build/fuzz/found/$name-")
  [[ ! -f build/fuzz/seeds/$name.dict ]] || options+=(-dict="build/fuzz/seeds/$name.dict")
  if "build/fuzz/tests/${name}_fuzz" "${options[@]}" "build/fuzz/seeds/$name" >"build/fuzz/$name.log" 2>&1; then
    echo "$name: $(sed -n 's/^stat::number_of_executed_units: *//p' "build/fuzz/$name.log") inputs, nothing found"
  else
    failed=1
    tail -n 40 "build/fuzz/$name.log"
    echo "fuzz.sh: $name failed: see build/fuzz/$name.log; the input is in build/fuzz/found/" >&2
  fi
done
exit "$failed"
