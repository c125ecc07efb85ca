#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Proof on a GPU, at most 8 minutes on one H200: builds for the GPU that is here, holds the CUDA back end to the reference,
# then measures, each row beside PyTorch where python3 has it. Rows come in the order of their worth and each is written to
# OUT/gpu_check.jsonl as soon as it is done, so that a run that is cut short leaves what it had. Nothing comes from a
# network: needs a compiler, CMake, the CUDA toolkit with cuDNN (Python's nvidia packages will do), and the libraries of
# the system or a folder made by scripts/bundle_deps.sh.
# Usage: gpu_check.sh [--deps FOLDER] [--out FOLDER] [--minutes N] [--dry-run]
#   --dry-run   print the rows and their commands, do nothing
# Ends with 0 when all rows did, 1 when one failed, 2 without a GPU or a toolkit (then nothing is written).
# shellcheck disable=SC2317  # functions that `timeout` calls in shells of their own
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
deps="" out=gpu_check minutes=8 dry=false
while [[ $# -gt 0 ]]; do
  case $1 in
    --deps) deps=$(realpath -m "$2"); shift 2 ;;
    --out) out=$2; shift 2 ;;
    --minutes) minutes=$2; shift 2 ;;
    --dry-run) dry=true; shift ;;
    *) sed -n '3,12p' "$0" | sed 's/^# //' >&2; exit 2 ;;
  esac
done

stop() {
  echo "gpu_check: $*" >&2
  exit 2
}

# --- what is here ---------------------------------------------------------------------------------------------------
gpu="" capability=""
if listed=$(nvidia-smi --query-gpu=name,compute_cap --format=csv,noheader 2>/dev/null | head -n 1) && [[ -n $listed ]]; then
  gpu=${listed%,*} capability=${listed##*, }
fi
nvcc=$(command -v nvcc || ls "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" 2>/dev/null || true)
python=$(command -v python3 || true)
torch=""
[[ -n $python ]] && torch=$("$python" -c 'import torch; print(torch.__version__) if torch.cuda.is_available() else None' 2>/dev/null | grep -v None || true)
jobs=$(nproc)
build=build/gpu_check
program=$build/quadrille
if ! $dry; then
  [[ -n $gpu ]] || stop "no GPU answers nvidia-smi: nothing was built, nothing was written"
  [[ -n $nvcc ]] || stop "no nvcc in PATH, in \$CUDA_HOME/bin or in /usr/local/cuda/bin: install the CUDA toolkit"
  [[ ! -e $out/gpu_check.jsonl ]] || stop "$out/gpu_check.jsonl exists: name another folder with --out"
  mkdir -p "$out"
fi
deadline=$((SECONDS + minutes * 60))

# --- rows -----------------------------------------------------------------------------------------------------------
configure=(cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DQUADRILLE_CUDA=ON -DQUADRILLE_TESTS=ON -DQUADRILLE_MPI=OFF
           -DQUADRILLE_ONEDNN=OFF "-DCMAKE_CUDA_ARCHITECTURES=${capability/./}" "-DCMAKE_CUDA_COMPILER=$nvcc")
[[ -z $deps ]] || configure+=("-DQUADRILLE_DEPS=$deps")
command -v ninja >/dev/null && configure+=(-G Ninja)

# Ranks that share a GPU are refused unless asked for; their messages go through host memory then.
share=(--share-devices)
failed=0
# row NAME SECONDS COMMAND...: runs it for so long at most. What it prints goes to OUT/NAME.log; lines that are JSON objects
# become the row's results.
row() {
  local name=$1 budget=$2
  shift 2
  if $dry; then
    printf '%-22s %4d s  %s\n' "$name" "$budget" "$*"
    return 0
  fi
  local left=$((deadline - SECONDS)) status=ok begin=$SECONDS code=0
  if [[ $left -lt 5 ]]; then
    record "$name" "left out: no time left" 0 ""
    return 1
  fi
  printf '%s ... ' "$name"
  timeout -k 5 $((left < budget ? left : budget)) "$@" >"$out/$name.log" 2>&1 </dev/null || code=$?
  [[ $code -eq 0 ]] || status="failed with exit code $code"
  [[ $code -ne 124 && $code -ne 137 ]] || status="cut after $((SECONDS - begin)) s"
  [[ $code -eq 0 ]] || failed=1
  record "$name" "$status" $((SECONDS - begin)) "$(grep '^{.*}$' "$out/$name.log" | paste -sd, -)"
  printf '%s, %d s\n' "$status" $((SECONDS - begin))
  [[ $code -eq 0 ]]
}
record() {
  printf '{"row": "%s", "gpu": "%s", "status": "%s", "seconds": %d, "results": [%s]}\n' "$1" "$gpu" "$2" "$3" "$4" >>"$out/gpu_check.jsonl"
}

# What is worth keeping of a run, as one JSON object.
summary() {
  [[ -n $python ]] || { echo "{\"record\": \"$1/record.json\"}"; return; }
  "$python" - "$1/record.json" <<'PY'
import json, sys
record = json.load(open(sys.argv[1]))
keep = {key: record.get(key) for key in ("suite", "backend", "ranks", "world", "strategy", "step_statistics", "utilisation",
                                         "peak", "memory", "verdict", "power")}
keep["flops_per_token"] = record["flops"]["model_full_flops_per_step"] / record["batch_size"] / record["tokens_per_row"]
print(json.dumps(keep))
PY
}
ours() { # NAME SUITE ARGUMENT...: 6, "ended, but the result is not valid", is a result here
  local folder=$out/$1 suite=$2
  shift 2
  rm -rf "$folder"
  "$program" run "$suite" --backend cuda --out "$folder" "$@"
  local code=$?
  [[ $code -eq 0 || $code -eq 6 ]] && summary "$folder"
}
theirs() { # SUITE ARGUMENT...: step times as one JSON object
  local suite=$1
  shift
  "$python" scripts/peers/torch_gpt.py --suite "$suite" --device cuda --dtype bf16 --threads "$jobs" "$@" | tee "$out/torch_steps" || return 1
  "$python" - "$suite" "$*" "$torch" "$out/torch_steps" <<'PY'
import json, statistics, sys
suite, how, version, path = sys.argv[1:5]
settings = json.load(open(f"benchmarks/suites/{suite}.json"))
steps = [float(line) for line in open(path)]
median = statistics.median(steps)
print(json.dumps({"suite": suite, "backend": "torch " + version, "how": how, "median_seconds": median, "min_seconds": min(steps),
                  "labels_per_second": settings["training"]["batch_size"] * settings["model"]["tokens"] / median}))
PY
}
# PyTorch's rows only where it is.
torch_row() {
  if [[ -n $torch ]] || $dry; then row "$@"; else record "$1" "left out: python3 has no torch that sees a GPU" 0 ""; fi
}
if ! $dry; then export -f ours theirs summary; export out program python torch jobs; fi
bench=("$build/ops_bench" --backend=cuda --json --seconds=0.05)

row configure 60 "${configure[@]}" || { record build "left out: not configured" 0 ""; exit 1; }
row build 200 cmake --build "$build" -j "$jobs" --target quadrille ops_bench nccl_bench judge_ops || exit 1
row ops 40 "$build/tests/judge_ops" cuda f32 f64 bf16
row layouts 60 "$program" check --layouts --backend cuda --ranks 2 "${share[@]}"
row gpt2_124m 40 bash -c 'ours gpt2_124m gpt2_124m_speed'
torch_row gpt2_124m_torch 60 bash -c 'theirs gpt2_124m_speed --compile --steps 15 --warm-up 5'
row gemm 25 "${bench[@]}" --dtype=bf16 --model=gpt2_124m --only=gemm
row attention 10 "${bench[@]}" --dtype=bf16 --model=gpt2_124m --only=attention
torch_row ops_torch 25 "$python" scripts/peers/torch_ops.py --model gpt2_124m --seconds 0.05
row gpt2_1558m 50 bash -c 'ours gpt2_1558m gpt2_1558m_speed'
torch_row gpt2_1558m_torch 80 bash -c 'theirs gpt2_1558m_speed --compile --steps 8 --warm-up 4'
row bandwidth 15 "${bench[@]}" --dtype=bf16 --model=gpt2_1558m --only=norm
row nccl_one_rank 20 "$build/nccl_bench"
row two_ranks_one_gpu 30 bash -c "ours two_ranks_one_gpu gpt_peer --ranks 2 --strategy data ${share[*]}"
torch_row gpt2_124m_eager 30 bash -c 'theirs gpt2_124m_speed --steps 8 --warm-up 3'
row elementwise 15 "${bench[@]}" --dtype=bf16 --model=gpt2_124m
row tf32 15 "${bench[@]}" --dtype=tf32 --model=gpt2_124m --only=gemm
$dry && exit 0
echo "gpu_check: $out/gpu_check.jsonl, $((SECONDS)) s"
exit $failed
