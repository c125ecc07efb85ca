#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From nothing to a score: installs what is missing, builds, fetches the text and trains gpt_tiny to its target.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

scripts/setup.sh build
step "configuring" cmake --preset cpu
step "building (some minutes)" cmake --build build/cpu --target quadrille -j "$jobs"
step "fetching the text" build/cpu/quadrille data fetch austen
code=0
build/cpu/quadrille run benchmarks/suites/gpt_tiny.json || code=$?
if [[ $code -eq 4 ]]; then
  echo "quickstart.sh: the target was not reached within the suite's 10 minutes: the machine is busy or slow; everything is built, try" >&2
  echo "  build/cpu/quadrille run gpt_tiny --max-minutes 30" >&2
elif [[ $code -ne 0 ]]; then
  echo "quickstart.sh: the run of gpt_tiny failed (its message is above)" >&2
fi
exit "$code"
