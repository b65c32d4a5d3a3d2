#!/usr/bin/env bash
# Builds the fuzzers with clang and runs each for some seconds over its committed corpus.
# Usage: tests/fuzz/run.sh [SECONDS]
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-8}

flags=(-DFLOW_WERROR=ON)
command -v ccache >/dev/null && flags+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
echo "== build: fuzzers"
[[ -e build/asan/build.ninja ]] || cmake --preset asan "${flags[@]}" >/dev/null
cmake --build build/asan --target fuzzers

# FUZZER: prints a line with its name, seconds, executions and covered edges, or what it found.
fuzz() {
  local name corpus new
  name=$(basename "$1" _fuzz)
  corpus=tests/fuzz/corpus/$name
  [[ -d $corpus ]] || corpus=tests/fuzz/corpus/plan  # prepare: it reads plans, too
  new=$(mktemp -d)
  if ! "$1" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -print_funcs=0 -artifact_prefix="build/asan/$name-" "$new" "$corpus" >"$new.log" 2>&1; then
    cat "$new.log"
    return 1
  fi
  awk -v name="$name" -v seconds="$seconds" '
    $2 == "DONE" { for (i = 1; i < NF; ++i) if ($i == "cov:") edges = $(i + 1) }
    /^stat::number_of_executed_units:/ { executions = $2 }
    END { printf "fuzz: %s, %s s, %s executions, %s edges\n", name, seconds, executions, edges }
  ' "$new.log"
  rm -rf "$new" "$new.log"
}
export seconds
export -f fuzz
printf '%s\n' build/asan/bin/*_fuzz | xargs -P "$(nproc)" -I{} bash -c 'set -eu; fuzz {}'
