# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# Sourced by quickstart.sh, test.sh and test_full.sh: the root folder, and steps that end with one clear line.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 1
mkdir -p build
jobs=$(nproc)
# Compilations are found again by other checkouts of the same sources.
export CCACHE_BASEDIR="$root" CCACHE_NOHASHDIR=1
# Threads that wait must not keep the cores from others: tests run side by side, and many start several ranks.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
log="build/$(basename "$0" .sh).log"
: >"$log"

# step WORDS COMMAND...: output goes to the log; after a failure its end is shown and the script stops.
step() {
  local words=$1 begin=$SECONDS
  shift
  printf '%s ... ' "$words"
  if "$@" </dev/null >>"$log" 2>&1; then
    printf '%d s\n' $((SECONDS - begin))
  else
    printf 'failed\n'
    tail -n 25 "$log" >&2
    echo "$(basename "$0"): $words failed; all of its output is in $root/$log" >&2
    exit 1
  fi
}
