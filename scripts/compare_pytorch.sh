#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Our training step beside eager PyTorch's on this machine: the same model (gpt_peer), the same number of threads,
# alternating runs of one script, medians, ratios. PyTorch runs twice a round: as it comes, and with glibc told to keep
# large blocks mapped and on huge pages ("tuned malloc"). Run it on an otherwise idle machine.
# Usage: scripts/compare_pytorch.sh [--rounds N] [--threads N] [--steps N]
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=3 threads=2 steps=6
known="rounds threads steps"
. scripts/options.sh
python=
for candidate in /usr/bin/python3 python3; do
  if "$candidate" -c 'import torch' 2>/dev/null; then python=$candidate; break; fi
done
[ -n "$python" ] || { echo "compare_pytorch: no Python with torch found: apt-get install python3-torch" >&2; exit 2; }
# Debian's torch takes whatever BLAS is installed; the reference one would make a peer thirty times too slow.
"$python" - <<'PY' || { echo "compare_pytorch: this PyTorch computes products with the reference BLAS: apt-get install libopenblas0-openmp" >&2; exit 2; }
import sys, torch
torch.ones(8, 8) @ torch.ones(8, 8)
sys.exit(any(line.rstrip().endswith("/blas/libblas.so.3") or "/blas/libblas.so.3." in line for line in open("/proc/self/maps")))
PY

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tuned="glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=8589934592:glibc.malloc.hugetlb=1"
for round in $(seq "$rounds"); do
  echo "round $round of $rounds ..."
  "$program" run gpt_peer --threads "$threads" --steps $((steps + 2)) --out "$work/run_$round" >"$work/screen"
  "$python" - "$work/run_$round/record.json" >>"$work/ours" <<'PY'
import json, sys
record = json.load(open(sys.argv[1]))
for step in record["steps"][2:]:
    print(step["seconds"])
PY
  grep -o 'MFU, full attention.*' "$work/screen" >>"$work/share"
  "$python" scripts/peers/torch_gpt.py --threads "$threads" --steps "$steps" >>"$work/torch"
  GLIBC_TUNABLES=$tuned "$python" scripts/peers/torch_gpt.py --threads "$threads" --steps "$steps" >>"$work/torch_tuned"
done
"$python" - "$work" <<'PY'
import statistics, sys
read = lambda name: [float(line) for line in open(f"{sys.argv[1]}/{name}")]
ours = statistics.median(read("ours"))
print(f"\n{'':28}{'median':>9}{'best':>9}{'ours/its':>10}")
for name, title in (("ours", "quadrille"), ("torch", "PyTorch, eager"), ("torch_tuned", "PyTorch, tuned malloc")):
    steps = read(name)
    middle = statistics.median(steps)
    print(f"{title:28}{middle:8.3f}s{min(steps):8.3f}s{ours / middle:10.2f}")
print("\nquadrille's share of the peak measured in the same run, round by round:")
print(open(f"{sys.argv[1]}/share").read().rstrip())
PY
