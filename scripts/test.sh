#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that must hold before a change is shared: builds and runs the tests with the label `fast`.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

scripts/setup.sh tests
step "configuring" cmake --preset cpu -DQUADRILLE_TESTS=ON
step "building (some minutes)" cmake --build build/cpu -j "$jobs"
ctest --test-dir build/cpu -L fast -j "$jobs" --output-on-failure --no-tests=error
