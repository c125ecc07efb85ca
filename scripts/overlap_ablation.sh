#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What each overlap is worth over links of a stated speed: no overlap, then OAR (a layer's input gradient travels beside
# its weight gradient), ORS (gradients of a finished block beside the next block's backward), OAG (the next block's
# weights beside this block's work). Links are emulated by waiting that sleeps (--links), because on cores that are busy
# a copy in memory is work and hides nothing. Rounds alternate; medians and ratios are printed. Idle machine, please.
# Usage: scripts/overlap_ablation.sh [--rounds N] [--steps N] [--links BYTES_PER_S,SECONDS] [--ranks N]
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=3 steps=10 links=150e6,1e-4 ranks=4
known="rounds steps links ranks"
. scripts/options.sh
for name in rounds steps ranks; do
  [[ ${!name} =~ ^[1-9][0-9]{0,5}$ ]] || { echo "overlap_ablation: --$name ${!name}: a whole number of at least 1 was wanted" >&2; exit 2; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Weights stored over depth, heads and MLP over x: all three kinds of message occur.
cat >"$work/strategy.json" <<'JSON'
{ "mesh": [["depth", "*"], ["x", 2]],
  "axes": { "batch": "depth", "heads": "x", "mlp": "x", "vocab": "x" },
  "store": { "weights": ["depth"], "gradients": ["depth"], "optimizer": ["depth"] },
  "overlap": [] }
JSON
names=(none OAR +ORS +OAG)
overlaps=('[]' '["input_gradient"]' '["input_gradient","reduce_scatter"]' '["input_gradient","reduce_scatter","all_gather"]')
for round in $(seq "$rounds"); do
  echo "round $round of $rounds ..."
  for i in 0 1 2 3; do
    "$program" run gpt_synthetic --strategy "$work/strategy.json" --ranks "$ranks" --threads 1 --oversubscribe \
      --set model.layers=6 --set model.embed=256 --set model.mlp=1024 --set training.batch_size=16 --set run.target=null \
      --set run.evaluate_every=0 --set run.warm_up_steps=2 --set run.probe_seconds=0 --set "strategy.overlap=${overlaps[$i]}" \
      --steps $((steps + 2)) --links "$links" --out "$work/run_${round}_$i" >"$work/screen" 2>&1 || {
      echo "overlap_ablation: a run failed:" >&2
      tail -n 5 "$work/screen" >&2
      exit 1
    }
  done
done
python3 - "$work" "$rounds" "$links" "${names[@]}" <<'PY'
import json, statistics, sys
work, rounds, links, names = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:]
print(f"\nlinks of {links} (bytes/s, s), emulated; medians over {rounds} alternating rounds")
print(f"{'overlap':8}{'step':>10}{'exposed':>10}{'of none':>9}")
first = None
for i, name in enumerate(names):
    steps, exposed = [], []
    for r in range(1, rounds + 1):
        record = json.load(open(f"{work}/run_{r}_{i}/record.json"))
        assert record["evidence"] == "emulated"
        steps += [s["seconds"] for s in record["steps"] if not s["warm_up"]]
        exposed.append(sum(t["mean_exposed_seconds"] for t in record["traffic"]) / len(record["steps"]))
    step, wait = statistics.median(steps), statistics.median(exposed)
    first = first or step
    print(f"{name:8}{step * 1000:8.1f}ms{wait * 1000:8.1f}ms{step / first:9.2f}")
print("exposed: mean time of a step in which a rank's own thread stood still for a message")
PY
