#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the official log checker (mlcommons/logging, mlperf_logging) over logs, where this machine has it; it is not part
# of this program. `quadrille log-check` is our own, made from the rules.
# Usage: scripts/official_check.sh RULESET LOG...      for example: scripts/official_check.sh 4.0.0 tests/golden/golden_resnet.txt
#        scripts/official_check.sh --package RULESET FOLDER    the tree that `quadrille package` wrote
set -euo pipefail

python=${PYTHON:-python3}
if ! "$python" -c "import mlperf_logging, yaml" 2>/dev/null; then
  echo "official_check.sh: $python has no package mlperf_logging (github.com/mlcommons/logging) or no yaml; install them, or set PYTHON" >&2
  exit 2
fi
if [[ ${1:-} == --package ]]; then
  [[ $# -eq 3 ]] || { echo "usage: official_check.sh --package RULESET FOLDER" >&2; exit 2; }
  # It ends with 0 whatever it finds, so its words decide.
  said=$("$python" -m mlperf_logging.package_checker "$3" training "$2" 2>&1) || true
  echo "$said"
  grep -q "FOUND NO ERRORS" <<<"$said"
  exit
fi
[[ $# -ge 2 ]] || { echo "usage: official_check.sh RULESET LOG..." >&2; exit 2; }
ruleset=$1
shift
side=$(mktemp)
trap 'rm -f "$side"' EXIT
failed=0
for log in "$@"; do
  if "$python" -m mlperf_logging.compliance_checker --usage training --ruleset "$ruleset" --log_output "$side" "$log"; then
    echo "$log: passes $ruleset"
  else
    echo "$log: does not pass $ruleset"
    failed=1
  fi
done
exit "$failed"
