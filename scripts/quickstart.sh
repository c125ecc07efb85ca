#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From nothing to a score: installs what is missing, builds, fetches the text and trains gpt_tiny to its target.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

scripts/setup.sh build
step "configuring" cmake --preset cpu
step "building" cmake --build build/cpu --target quadrille -j "$jobs"
step "fetching the text" build/cpu/quadrille data fetch austen
if ! build/cpu/quadrille run benchmarks/suites/gpt_tiny.json; then
  echo "quickstart.sh: the run of gpt_tiny failed (its message is above)" >&2
  exit 1
fi
