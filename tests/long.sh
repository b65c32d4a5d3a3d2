#!/usr/bin/env bash
# What takes too long for every change: the CUDA module for every architecture and its machine code,
# each file by itself, twenty epochs of both networks with three seeds, all tests under sanitizers, failing
# system calls, power cuts at every change of a file, 600 killed runs, two million steps, tolerances over 200 settings, ranks on two
# machines and ranks that are lost, longer fuzzing, and mutation tests.
# More than two hours on 2 cores, and more hours for the mutation tests.
# Usage: tests/long.sh [SECONDS OF EACH FUZZER]
set -euo pipefail
cd "$(dirname "$0")/.."

./setup.sh test
cmake --preset release -U CMAKE_CUDA_ARCHITECTURES -DFLOW_CUDA_CODE=all >/dev/null
cmake --build --preset release
bin=$PWD/build/release/bin
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

train() {  # NET SEED FLOOR [PRECISION]: twenty epochs end with at least FLOOR per cent
  local net=$1 seed=$2 floor=$3 precision=${4:-float32} accuracy
  local run=$out/$net-$seed-$precision
  "$bin/flowrun" train "jobs/$net.yaml" -o "$run" --set "seed=$seed" --set vars.epochs=20 \
    --set "+jobs.train.precision=$precision" --quiet >/dev/null
  accuracy=$("$bin/flowrun" accuracy "jobs/$net.yaml" -o "$run-accuracy" --load "$run" --quiet)
  echo "$net, seed $seed, $precision, twenty epochs: $accuracy (at least $floor)"
  awk -v floor="$floor" '{exit !($2 >= floor)}' <<<"$accuracy"
}

tests/repo/alone.py
if [[ -e $bin/libflow_cuda.so ]]; then  # 77: the toolkit here lacks cuobjdump or nvdisasm
  tests/device/sass_lint.py "$bin/libflow_cuda.so" || [[ $? -eq 77 ]]
fi
for seed in 1 2 3; do train mlp "$seed" 97.4; done
for seed in 1 2 3; do train lenet "$seed" 98.9; done
train lenet 1 98.7 mixed_bfloat16
FLOW_CASES=40 "$bin/flow_cuda_tests" "[ops]"
"$bin/flow_cuda_tests" "[slow]"
FLOW_BIN=$PWD/build/release/stand_in FLOW_DEVICE=gpu /usr/bin/python3 tests/e2e/verify_test.py
FLOW_POWER_LOSSES=1 "$bin/flow_tests" "*stopped at any change*"
FLOW_BIN=$bin FLOW_FAULTS=1000 /usr/bin/python3 tests/e2e/faults_test.py Faults
FLOW_BIN=$bin FLOW_KILLS=300 /usr/bin/python3 tests/e2e/faults_test.py Kills
FLOW_BIN=$bin FLOW_DATA_KILLS=50 /usr/bin/python3 tests/e2e/data_resume_test.py
FLOW_BIN=$bin FLOW_WIDE_CASES=1 /usr/bin/python3 tests/e2e/onnx_test.py
FLOW_BIN=$bin /usr/bin/python3 tests/e2e/long_steps.py
FLOW_BIN=$bin FLOW_DAMAGES=300 /usr/bin/python3 tests/e2e/first_test.py Damage
FLOW_BIN=$bin /usr/bin/python3 tests/e2e/long_settings.py
FLOW_BIN=$bin /usr/bin/python3 tests/e2e/long_ranks.py
FLOW_BIN=$bin /usr/bin/python3 tests/e2e/long_losses.py 50
FLOW_BIN=$bin /usr/bin/python3 tests/e2e/long_hosts.py
if command -v debootstrap >/dev/null && [[ $(id -u) -eq 0 ]]; then
  tests/package.sh
else
  echo "package: skipped, needs root and debootstrap"
fi

cmake --preset asan -DFLOW_TESTS=ON >/dev/null
cmake --build --preset asan
# Whole epochs would take hours.
ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1 \
  LSAN_OPTIONS=suppressions=$PWD/tests/support/lsan.supp:print_suppressions=0 \
  ctest --test-dir build/asan --output-on-failure --parallel "$(nproc)" \
  -E '^(e2e_(accuracy|bits|golden_steps|mixed|nets)|repo|words)$'
tests/fuzz/run.sh "${1:-600}"
/usr/bin/python3 tests/mutation/run.py
