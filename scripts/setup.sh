#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing on Debian 12. Usage: setup.sh [build|tests|full]
#   build  what the program needs (the default)      tests  and what scripts/test.sh needs
#   full   and what scripts/test_full.sh needs
# Does nothing, not even a look at the network, when all is there. Without root or sudo it names the missing packages.
set -euo pipefail

packages=(build-essential cmake ninja-build ccache libfmt-dev nlohmann-json3-dev libcli11-dev libdnnl-dev libhwy-dev
          libhwloc-dev libopenmpi-dev openmpi-bin zlib1g-dev libarchive-dev libutf8proc-dev libjpeg-dev)
case "${1:-build}" in
  build) ;;
  tests) packages+=(libgtest-dev libboost-context-dev python3) ;;
  full) packages+=(libgtest-dev libboost-context-dev python3 git clang-16 clang-tidy-16 clang-format-16 libomp-16-dev) ;;
  *) echo "setup: unknown set \"$1\": use build, tests or full" >&2; exit 2 ;;
esac

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  for tool in c++ cmake ninja; do
    command -v "$tool" >/dev/null || { echo "setup: \"$tool\" is missing and this is no Debian system: install it by hand" >&2; exit 1; }
  done
  echo "setup: no Debian system, nothing was installed; CMake will name missing libraries"
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  [[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)" == installed ]] || missing+=("$package")
done
[[ ${#missing[@]} -eq 0 ]] && exit 0

as_root=()
if [[ $EUID -ne 0 ]]; then
  # With a terminal sudo may ask for a password; without one it must not wait for it.
  if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || { [[ -t 0 ]] && sudo -v; }; }; then
    as_root=(sudo)
  else
    echo "setup: these packages are missing and neither root nor sudo is there to install them:" >&2
    echo "  apt-get install ${missing[*]}" >&2
    exit 1
  fi
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
run() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive "$@" </dev/null >"$log" 2>&1 && return
  tail -n 15 "$log" >&2
  echo "setup: \"$*\" failed (its last lines are above)" >&2
  exit 1
}
echo "setup: installing ${missing[*]}"
run apt-get update -q
run apt-get install -y -q --no-install-recommends "${missing[@]}"
# Debian allows one libomp only; Clang 16 needs its own.
grep -E '^Removing ' "$log" | sed 's/^/setup: /' || true
