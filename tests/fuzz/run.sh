#!/usr/bin/env bash
# Builds the fuzzers with clang and runs each for some seconds over its committed corpus.
# Usage: tests/fuzz/run.sh [SECONDS]
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-8}

flags=(-DFLOW_WERROR=ON)
command -v ccache >/dev/null && flags+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
echo "== build: fuzzers"
cmake --preset asan "${flags[@]}" >/dev/null
cmake --build build/asan --target fuzzers

fuzz() {  # FUZZER: says nothing but what it found
  local name new
  name=$(basename "$1" _fuzz)
  new=$(mktemp -d)
  echo "== fuzz: $name, $seconds s"
  if ! "$1" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -verbosity=0 \
    -print_final_stats=0 -print_funcs=0 -artifact_prefix="build/asan/$name-" \
    "$new" "tests/fuzz/corpus/$name" >"$new.log" 2>&1; then
    cat "$new.log"
    return 1
  fi
  rm -rf "$new" "$new.log"
}
export seconds
export -f fuzz
printf '%s\n' build/asan/bin/*_fuzz | xargs -P "$(nproc)" -I{} bash -c 'set -eu; fuzz {}'
