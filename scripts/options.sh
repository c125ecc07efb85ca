# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
# Sourced by measuring scripts: `--NAME VALUE` for each variable named in $known sets it; anything else prints the lines
# of the script's head from "Usage" down and ends.
usage() { sed -n '/^# Usage/,/^[^#]/s/^# //p' "scripts/$(basename "$0")"; }
while [ $# -gt 0 ]; do
  name=${1#--}
  case " $known " in
    *" $name "*) ;;
    *) usage; exit 2 ;;
  esac
  [ "$1" != "$name" ] && [ $# -gt 1 ] || { usage; exit 2; }
  printf -v "$name" %s "$2"
  shift 2
done
program=build/cpu/quadrille
[ -x "$program" ] || { echo "$(basename "$0" .sh): $program is missing: run scripts/quickstart.sh or build first" >&2; exit 2; }
