#!/usr/bin/env bash
# Installs every Debian package that building, testing and running need; quick when all are there.
# Usage: ./setup.sh [test]     `test` adds what only the tests use.
set -euo pipefail

packages=(
  # build: compiler, CMake, Ninja
  g++ cmake ninja-build ccache ca-certificates
  # libraries: YAML, command line, JSON, formatting, compression, CPU kernels
  libyaml-cpp-dev libcli11-dev nlohmann-json3-dev libfmt-dev zlib1g-dev libdnnl-dev
)
if [[ "${1:-}" == test ]]; then
  # the test framework, the second compiler and its fuzzer, formatting, NumPy as a judge
  packages+=(catch2 clang libclang-rt-14-dev libomp-dev clang-format clang-tidy python3 python3-numpy git)
fi

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
    missing+=("$package")
done
[[ ${#missing[@]} -eq 0 ]] && exit 0

run=()
if [[ $(id -u) -ne 0 ]]; then
  command -v sudo >/dev/null || {
    echo "setup.sh: these packages are missing and need root: ${missing[*]}" >&2
    exit 1
  }
  run=(sudo)
fi
echo "installing: ${missing[*]}"
"${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq
"${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
  "${missing[@]}" >/dev/null
