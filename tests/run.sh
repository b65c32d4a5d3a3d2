#!/usr/bin/env bash
# Installs missing packages, builds, and runs every test: plain, then under AddressSanitizer and
# UndefinedBehaviorSanitizer, then the fuzzers for a few seconds each.
# Usage: tests/run.sh [--quick]     --quick: only the plain build.
set -euo pipefail
cd "$(dirname "$0")/.."

./setup.sh test
cmake_flags=(-DFLOW_WERROR=ON -DFLOW_TESTS=ON -U CMAKE_CUDA_ARCHITECTURES)
# What was compiled need not be again; what is compiled by single files, in no other checkout either.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros
command -v ccache >/dev/null && cmake_flags+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)

build() {  # PRESET [FLAG...]: configures and builds
  local preset=$1
  shift
  echo "== build: $preset"
  cmake --preset "$preset" "${cmake_flags[@]}" "$@" >/dev/null
  cmake --build "build/$preset"
}

build release
ctest --test-dir build/release --output-on-failure --parallel "$(nproc)"
[[ ${1:-} == --quick ]] && exit 0

# OpenMP's runtime and oneDNN are not built with sanitizers; what they keep until exit is theirs.
export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1 LSAN_OPTIONS=suppressions=$PWD/tests/support/lsan.supp:print_suppressions=0
export UBSAN_OPTIONS=print_stacktrace=1
build asan
# Whole epochs, and the steps that are compared with references, would take the sanitizers an hour.
ctest --test-dir build/asan --output-on-failure --parallel "$(nproc)" -E 'e2e_accuracy|e2e_golden_steps|e2e_bits|e2e_mixed|e2e_nets|repo'
unset ASAN_OPTIONS LSAN_OPTIONS UBSAN_OPTIONS

tests/fuzz/run.sh 8
