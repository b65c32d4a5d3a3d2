#!/usr/bin/env bash
# Installs missing packages, builds, and runs every test. Then runs tests under AddressSanitizer and
# UndefinedBehaviorSanitizer, those of threads and processes under ThreadSanitizer, and fuzzes for
# seconds.
# Usage: tests/run.sh [--quick]     --quick: only the release build and its tests
set -euo pipefail
cd "$(dirname "$0")/.."

./setup.sh test
# What takes long to compile is left to tests/long.sh: code for GPUs beyond PTX, lines in stacks of
# sanitizers, and checks of alignment.
cmake_flags=(-DFLOW_WERROR=ON -DFLOW_TESTS=ON -U CMAKE_CUDA_ARCHITECTURES
  -DFLOW_CUDA_CODE=compute_75)
sanitizer_flags=(-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -DFLOW_UNSANITIZED=null,object-size,alignment)
# Lets checkouts share compiled files.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros
command -v ccache >/dev/null && cmake_flags+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)

jobs=$((3 * $(nproc)))  # of tests: many wait for processes, or for each other

# A small run spends most of its time in fsync, so its files are in memory where 4 GiB of it are
# free. tests/long.sh uses the disk.
in_memory=/dev/shm
if [[ -w $in_memory ]] && ! findmnt -no OPTIONS -T $in_memory | grep -q noexec &&
    (($(df --output=avail -k $in_memory | tail -1) > 4 * 1024 * 1024)); then
  TMPDIR=$(mktemp -d $in_memory/flow-tests-XXXXXX)
  export TMPDIR
  trap 'rm -rf "$TMPDIR"' EXIT
fi

build() {  # PRESET [TARGET...]: configures and builds, by default everything
  local preset=$1 flags=("${cmake_flags[@]}")
  [[ $preset == release ]] || flags+=("${sanitizer_flags[@]}")
  shift
  echo "== build: $preset"
  cmake --preset "$preset" "${flags[@]}" >/dev/null
  cmake --build "build/$preset" ${1:+--target "$@"}
}

build release
ctest --test-dir build/release --output-on-failure --parallel "$jobs"
[[ ${1:-} == --quick ]] && exit 0

# OpenMP's runtime and oneDNN are built without sanitizers and never free some memory.
export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1 LSAN_OPTIONS=suppressions=$PWD/tests/support/lsan.supp:print_suppressions=0
export UBSAN_OPTIONS=print_stacktrace=1
build asan flow_tests flowc flowrun flowdiff npy_probe fuzzers
ctest --test-dir build/asan --output-on-failure --parallel "$jobs" -L '^(unit|hostile)$' -E '^(repo|words)$'
unset ASAN_OPTIONS LSAN_OPTIONS UBSAN_OPTIONS

build tsan thread_tests
tests/fuzz/run.sh 5 &  # tests of threads mostly wait
passed=true
TSAN_OPTIONS=halt_on_error=1 build/tsan/bin/thread_tests || passed=false
wait $!
$passed
