#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Gathers in one folder (about 5 MB) what a build on a bare machine cannot do without: the header-only libraries fmt,
# nlohmann/json and CLI11, and GoogleTest's sources, as Debian installs them. There, with a compiler, CMake and the CUDA
# toolkit:  cmake -S quadrille -B build -DQUADRILLE_DEPS=FOLDER     (scripts/gpu_check.sh does that)
# Usage: bundle_deps.sh FOLDER [PREFIX]     PREFIX: where to take them from, /usr unless said
set -euo pipefail
[[ $# -ge 1 && $# -le 2 && $1 != -* ]] || { sed -n '3,7p' "$0" | sed 's/^# //' >&2; exit 2; }
out=$1 prefix=${2:-/usr}
limit=20 # MB

declare -A package=([fmt/core.h]=libfmt-dev [nlohmann/json.hpp]=nlohmann-json3-dev [CLI/CLI.hpp]=libcli11-dev [gtest/gtest.h]=libgtest-dev)
missing=()
for header in "${!package[@]}"; do
  [[ -f $prefix/include/$header ]] || missing+=("${package[$header]}")
done
[[ -f $prefix/src/googletest/googletest/src/gtest-all.cc ]] || missing+=(googletest)
if [[ ${#missing[@]} -gt 0 ]]; then
  echo "bundle_deps: nothing was written, these are not below $prefix: apt-get install ${missing[*]}" >&2
  exit 1
fi
if [[ -e $out && -n $(ls -A "$out" 2>/dev/null) ]]; then
  echo "bundle_deps: $out exists and is not empty: name a new folder" >&2
  exit 1
fi

mkdir -p "$out/include" "$out/googletest/googletest/include" "$out/licences"
for library in fmt nlohmann CLI; do
  cp -rL "$prefix/include/$library" "$out/include/"
done
cp -L "$prefix/src/googletest/CMakeLists.txt" "$out/googletest/"
cp -rL "$prefix/src/googletest/googletest/"{CMakeLists.txt,cmake,src} "$out/googletest/googletest/"
cp -rL "$prefix/include/gtest" "$out/googletest/googletest/include/"
for name in libfmt-dev nlohmann-json3-dev libcli11-dev googletest; do
  [[ ! -f $prefix/share/doc/$name/copyright ]] || cp -L "$prefix/share/doc/$name/copyright" "$out/licences/$name"
done
size=$(($(du -sk "$out" | cut -f 1) / 1024))
if [[ $size -ge $limit ]]; then
  echo "bundle_deps: $out has $size MB, more than $limit" >&2
  exit 1
fi
echo "bundle_deps: $out, $size MB"
