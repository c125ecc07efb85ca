#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What scripts/test.sh leaves out: format, second compiler, sanitizers, clang-tidy, the minimal build, fuzzers, long tests. All
# parts are run even if one fails. Usage: test_full.sh [--within MINUTES] [PART...]: parts that are not done by then are named as
# left out; they fail nothing. Without PART all are run: format cuda clang asan tsan tidy minimal fuzz asan_all tsan_all
# long.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

limit=""   # seconds; empty: none
if [[ $# -ge 2 && $1 == --within && $2 =~ ^[0-9]+$ ]]; then
  limit=$(($2 * 60))
  shift 2
fi
all="format cuda clang asan tsan tidy minimal fuzz asan_all tsan_all long"
for name in "$@"; do
  if [[ " $all " != *" $name "* ]]; then
    echo "test_full.sh: no part is called \"$name\"; usage: test_full.sh [--within MINUTES] [PART...] with parts $all" >&2
    exit 2
  fi
done
wanted=" ${*:-$all} "

sources() {
  find . \( -path ./build -o -path ./out -o -path ./data -o -path './.*' \) -prune -o \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print |
    sed 's|^\./||' | sort
}
format() { sources | xargs -d '\n' clang-format-16 --dry-run --Werror; }
tidy() {
  cmake --preset clang -DQUADRILLE_TESTS=ON
  cmake --build build/clang -j "$jobs"   # its generated sources are needed
  # Only what is compiled here: of two files for one symbol (absent.cpp) one has no command.
  sources | grep '\.cpp$' | grep -v '^tests/' | while read -r file; do
    if grep -qF "/$file\"" build/clang/compile_commands.json; then echo "$file"; fi
  done | xargs -d '\n' -P "$jobs" -n 2 clang-tidy-16 --quiet --warnings-as-errors='*' -p build/clang
}
# build_and_test PRESET [FLOOR...]: all fast tests, or those of the floors.
build_and_test() {
  local preset=$1 targets=() floor
  shift
  cmake --preset "$preset" -DQUADRILLE_TESTS=ON
  for floor in "$@"; do targets+=("tests/$floor/all"); done
  cmake --build "build/$preset" -j "$jobs" --target "${targets[@]:-all}"
  [[ $# -gt 0 ]] || set -- .
  for floor in "$@"; do
    ctest --test-dir "build/$preset/tests/$floor" -L fast -j "$jobs" --output-on-failure --no-tests=error
  done
}
# Three header libraries and nothing else: the program is there, refuses what it cannot do, and trains.
minimal() {
  local deps=$PWD/build/minimal-deps off=() part
  rm -rf "$deps"
  mkdir -p "$deps"/{fmt,json,cli11}/include
  cp -r /usr/include/fmt "$deps/fmt/include/"
  cp -r /usr/include/nlohmann "$deps/json/include/"
  cp -r /usr/include/CLI "$deps/cli11/include/"
  for part in OPENMP ONEDNN HIGHWAY HWLOC MPI ZLIB ARCHIVE UTF8PROC JPEG TESTS; do off+=("-DQUADRILLE_$part=OFF"); done
  cmake -G Ninja -S . -B build/minimal -DCMAKE_BUILD_TYPE=Release -DQUADRILLE_DEPS="$deps" "${off[@]}"
  cmake --build build/minimal -j "$jobs" --target quadrille
  rm -rf build/minimal-run
  # Five steps end short of the target: code 4.
  build/minimal/quadrille run gpt_synthetic --backend reference --steps 5 --out build/minimal-run || [[ $? -eq 4 ]]
  local said
  if said=$(build/minimal/quadrille run gpt_synthetic --backend cpu --steps 5 --out build/minimal-run 2>&1); then
    echo "the cpu back end is not built, but --backend cpu was not refused" >&2
    return 1
  fi
  echo "$said"
  grep -qi 'switched off' <<<"$said" && grep -q -- '--backend reference' <<<"$said"
}
# With the toolkit, GPU or not: everything compiles for all architectures and links, hot kernels do not spill, cuDNN takes our
# graphs. What needs no toolkit, the same sources on the stand-in, is among the fast tests.
cuda() {
  local compiler=${CUDACXX:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
  if [[ ! -x $compiler ]]; then
    echo "no CUDA toolkit here: nothing to compile"
    return
  fi
  cmake --preset cuda -DQUADRILLE_TESTS=ON
  cmake --build build/cuda -j "$jobs" --target quadrille sdpa_plans_test
  ctest --test-dir build/cuda -R '^Cuda\.' --output-on-failure --no-tests=error
}
fuzz() { scripts/fuzz.sh --seconds "${fuzz_seconds:-20}"; }
long() {
  cmake --preset cpu -DQUADRILLE_TESTS=ON
  cmake --build build/cpu -j "$jobs"
  ctest --test-dir build/cpu -L long --output-on-failure
}

# Functions run in a shell of their own, so that `timeout` can end them and `set -e` holds inside.
failed=() left_out=()
part() {
  local name=$1 words=$2 begin=$SECONDS code=0 remaining=1000000
  shift 2
  [[ $wanted == *" $name "* ]] || return 0
  [[ -z $limit ]] || remaining=$((limit - SECONDS))
  if [[ $remaining -lt 60 ]]; then
    left_out+=("$words")
    return
  fi
  echo "=== $words"
  export -f sources format tidy build_and_test minimal cuda fuzz long
  jobs=$jobs timeout --kill-after=10 "$remaining" bash -euo pipefail -c '"$@"' part "$@" </dev/null 2>&1 || code=$?
  if [[ $code -eq 124 || $code -eq 137 ]] && [[ -n $limit && $((SECONDS + 5)) -ge $limit ]]; then
    left_out+=("$words (stopped)")
  elif [[ $code -ne 0 ]]; then
    failed+=("$words")
  fi
  echo "=== $words: $((SECONDS - begin)) s, code $code"
}

scripts/setup.sh full
part format "format" format
part cuda "CUDA build" cuda
part clang "Clang 16" build_and_test clang
part asan "address and undefined-behaviour sanitizers" build_and_test asan core parallelism datasets
part tsan "thread sanitizer" build_and_test tsan core parallelism
part tidy "clang-tidy" tidy
part minimal "minimal build" minimal
part fuzz "fuzzers" fuzz
part asan_all "address and undefined-behaviour sanitizers, all floors" build_and_test asan
part tsan_all "thread sanitizer, all floors" build_and_test tsan
part long "long tests" long

for words in "${left_out[@]}"; do echo "left out for lack of time: $words"; done
for words in "${failed[@]}"; do echo "failed: $words" >&2; done
[[ ${#failed[@]} -eq 0 ]]
