#!/usr/bin/env bash
# All that needs a GPU, in two parts of some minutes each. Both build here, as for users, and write
# a table.
#   kernels   NVIDIA's libraries, every kernel against the reference, memory and race checkers
#   jobs      every job against the CPU and without graphs, the predictions, the benchmarks
# Needs nvcc, CMake, a C++ compiler, and cuDNN and cuBLAS, which may be those of Python's wheels; the
# other libraries come from the system or from .device (tests/device/pack.sh). Reaches no network.
# Usage: [FLOW_SECONDS=450] tests/device/run.sh kernels|jobs [OUT [CHECK...]]
# OUT (default: build/device/PART) gets table.md, logs.tgz, and device.json or bench.json, also where
# the run is interrupted; what is not done after FLOW_SECONDS is stopped. With CHECKs (the names in
# the table) it runs only those, after the build.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

part=${1:-}
[[ $part == kernels || $part == jobs ]] || {
  echo "Usage: tests/device/run.sh kernels|jobs [OUT [CHECK...]]" >&2
  exit 2
}
root=$PWD build=$PWD/build/device
out=$(realpath -m "${2:-build/device/$part}")
only=("${@:3}")
mkdir -p "$build" "$out"
table=$out/table.md
work=$(mktemp -d)
logs=$work/logs
mkdir "$logs"
trap stop EXIT
trap 'exit 130' INT
trap 'echo "| remaining checks | FAILED (out of time) | $SECONDS s |" >>"$table"; finish' TERM
export XDG_CACHE_HOME=$work/cache  # no plans of an earlier run
rm -f "$table" "$out"/{bench,device}.json "$out/logs.tgz"

set -m  # process groups of their own, by which `stop` reaches all of a job
{
  sleep "${FLOW_SECONDS:-450}"
  kill -TERM $$
} &
clock=$!
disown  # nobody waits for it
set +m

stop() {  # what still runs, too
  local job
  for job in $(jobs -rp) "$clock" ${awake:-}; do kill -- "-$job" 2>/dev/null; done
  wait
  tar czf "$out/logs.tgz" -C "$logs" .
  rm -rf "$work"
}

wanted() { ((${#only[@]} == 0)) || [[ " ${only[*]} " == *" $1 "* ]]; }

fact() { echo "- $1: $2" >>"$table"; }

check() {  # NAME COMMAND...: runs it, its output in NAME.log, its verdict in a row of the table
  local name=$1 start=$SECONDS verdict=passed
  shift
  "$@" >"$logs/$name.log" 2>&1 || verdict="FAILED ($?)"
  echo "| $name | $verdict | $((SECONDS - start)) s |" >>"$table"
  echo "$name: $verdict, $((SECONDS - start)) s"
  [[ $verdict == passed ]] || tail -n 15 "$logs/$name.log"
}

together() {  # as check, beside others
  wanted "$1" || return 0
  while (($(jobs -rp | wc -l) >= 8)); do wait -n; done
  set -m
  check "$@" &
  set +m
}

finish() {
  [[ -e $logs/bench.log ]] && {
    printf '\n```\n'
    cat "$logs/bench.log"
    printf '```\n'
  } >>"$table"
  cat "$table"
  ! grep -q '| FAILED' "$table"
  exit
}

unpack() {  # the packages, into a folder of the build
  [[ -d .device ]] || return 0
  local package link folder
  for package in .device/*.deb; do dpkg -x "$package" "$build/packages" || return 1; done
  find "$build/packages" -xtype l -lname '/*' | while read -r link; do
    ln -sfn "$build/packages$(readlink "$link")" "$link"  # what points into the system's root
  done
  for folder in "$build"/packages/usr/lib/*-linux-gnu; do
    export LD_LIBRARY_PATH=$folder:${LD_LIBRARY_PATH:-}
  done
}

find_libraries() {  # those of Python's wheels, under the names that linkers look for
  local libraries=$build/libraries
  rm -rf "$libraries"
  mkdir -p "$libraries"
  python3 - "$libraries" "cu$(nvcc_version | cut -d. -f1)" <<'END' || return 0
import pathlib, sys
try:
    import nvidia
except ImportError:
    sys.exit(1)
libraries, toolkit = pathlib.Path(sys.argv[1]), sys.argv[2]


def link(name, to):
    if not (libraries / name).exists():
        (libraries / name).symlink_to(to)


def in_order(pattern):  # wheels of the toolkit's version first, where there are others too
    found = [path for root in nvidia.__path__ for path in pathlib.Path(root).rglob(pattern)]
    return sorted(found, key=lambda path: (toolkit not in path.parts, path))


for found in in_order("lib*.so.*"):
    link(found.name, found)
    link(found.name.split(".so.")[0] + ".so", found)
for header in ("cudnn_version.h", "cublasLt.h"):
    for found in in_order(header):
        link(header.partition(".")[0], found.parent)
END
  export LD_LIBRARY_PATH=$libraries:${LD_LIBRARY_PATH:-}
}

configure_and_build() {
  local own  # of this device alone, which is quicker to build
  own=sm_$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader -i 0 | tr -d .)
  local flags=(--preset release -B "$build" -DFLOW_CUDA=ON "-DFLOW_PYTHON=$(command -v python3)"
    "-DCMAKE_PREFIX_PATH=$build/packages/usr" "-DFLOW_CUDA_CODE=compute_75,$own"
    -DCMAKE_CUDA_FLAGS=-lineinfo      # checkers name lines of kernels
    -DCMAKE_UNITY_BUILD_BATCH_SIZE=2) # of many cores none waits for the longest of few files
  [[ -d .device ]] && flags+=("-DCUDNN_FRONTEND_INCLUDE_DIR=$root/.device/cudnn-frontend/include")
  local libraries=$build/libraries
  [[ -e $libraries/libcudnn.so ]] && flags+=("-DCUDNN_LIBRARY=$libraries/libcudnn.so")
  [[ -e $libraries/cudnn_version ]] && flags+=("-DCUDNN_INCLUDE_DIR=$libraries/cudnn_version")
  [[ -e $libraries/cublasLt ]] && flags+=("-DCUBLAS_INCLUDE_DIR=$libraries/cublasLt")
  local library
  for library in cublasLt nvrtc; do
    [[ -e $libraries/lib$library.so ]] && flags+=("-DCUDA_${library}_LIBRARY=$libraries/lib$library.so")
  done
  local targets=(flowc flowrun flowdiff flow_cuda)
  [[ $part == kernels ]] && targets=(flow_gpu_tests flow_device_tests describe_device)
  cmake "${flags[@]}" && cmake --build "$build" --target "${targets[@]}"
}

one_op() {  # FOLDER OP COMMAND...: what goes wrong is printed
  FLOW_OPS=$2 "${@:3}" >"$1/$2" 2>&1 || {
    echo "FAILED: $2"
    cat "$1/$2"
  }
}
export -f one_op

# A process for each op that has a kernel: a fault, after which a process has no device, hides no
# other op.
each_op() {  # COMMAND...
  local folder ops failed
  folder=$(mktemp -d -p "$work")
  ops=$("$build/bin/flow_gpu_tests" "[names]" | awk '$1 == "op" {print $2}')
  [[ -n $ops ]] || return 1
  failed=$(xargs -P 12 -I OP bash -c 'one_op "$@"' one_op "$folder" OP "$@" <<<"$ops")
  echo "$(wc -w <<<"$ops") ops"
  echo "$failed"
  [[ -z $failed ]]
}

kernels() { each_op "$build/bin/flow_gpu_tests" "[ops]"; }

# The others, a process each, too.
each_case() {  # PROGRAM [FILTER]
  local names
  names=$("$1" --list-test-names-only "${@:2}") # exits with their number
  xargs -P 8 -d '\n' -I NAME "$1" NAME <<<"${names//,/\\,}" # a comma is an or
}

other_kernels() { each_case "$build/bin/flow_gpu_tests" "~[ops]"; }

libraries() { each_case "$build/bin/flow_device_tests"; }

run() { "$build/bin/flowrun" "$@" --threads 2 --force --quiet; }  # several at a time
same() { "$build/bin/flowdiff" "$1" "$2" --rtol 0 --atol 0; }
near() { "$build/bin/flowdiff" "$1" "$2" --rtol "$3" --atol "$4"; }

# A call of NET with every tensor and gradient, on the GPU, without graphs, and on the CPU.
one_call() {  # NET
  local net=$1 watched=(--watch "$1/**" --watch-diff "$1/**")
  run train "jobs/$net.yaml" --steps 1 --device gpu "${watched[@]}" -o "$work/$net-gpu" &&
    run train "jobs/$net.yaml" --steps 1 --device gpu --eager "${watched[@]}" -o "$work/$net-eager" &&
    run train "jobs/$net.yaml" --steps 1 --device cpu "${watched[@]}" -o "$work/$net-cpu" &&
    same "$work/$net-gpu" "$work/$net-eager" &&
    near "$work/$net-cpu" "$work/$net-gpu" 1e-3 1e-4
}

# A call with some layers on the other device than the job, on either, against the CPU.
placed() {  # NET ENTRY...
  local net=$1 job other entry watched=(--watch "$1/**" --watch-diff "$1/**")
  shift
  run train "jobs/$net.yaml" --steps 1 --device cpu "${watched[@]}" -o "$work/$net-unplaced" || return 1
  for job in cpu gpu; do
    other=$([[ $job == cpu ]] && echo gpu || echo cpu)
    local sets=(--set "+jobs.train.placement.device=$job")
    for entry in "$@"; do sets+=(--set "+networks.$net.graph.$entry.placement={device: $other}"); done
    run train "jobs/$net.yaml" --steps 1 "${sets[@]}" "${watched[@]}" -o "$work/$net-on-$job" &&
      run train "jobs/$net.yaml" --steps 1 "${sets[@]}" "${watched[@]}" --eager -o "$work/$net-on-$job-eager" &&
      same "$work/$net-on-$job" "$work/$net-on-$job-eager" &&
      near "$work/$net-unplaced" "$work/$net-on-$job" 1e-3 1e-4 || return 1
  done
}

# A step of a batch in eight shards, on the GPU, without graphs, and on the CPU.
shards() {  # NET FLAG...
  local net=$1 out=$work/$1-shards
  local sets=(--set vars.batch=64 --set +jobs.train.shards=8 --steps 1 "${@:2}")
  run train "jobs/$net.yaml" "${sets[@]}" --device gpu -o "$out-gpu" &&
    run train "jobs/$net.yaml" "${sets[@]}" --device gpu --eager -o "$out-eager" &&
    run train "jobs/$net.yaml" "${sets[@]}" --device cpu -o "$out-cpu" &&
    same "$out-gpu" "$out-eager" &&
    near "$out-cpu" "$out-gpu" 1e-3 1e-3
}

float64() {  # NET: ten steps
  local net=$1 sets=(--set +jobs.train.precision=float64 --steps 10 --watch-diff "$1/*/weight:3")
  run train "jobs/$net.yaml" --device gpu "${sets[@]}" -o "$work/$net-gpu64" &&
    run train "jobs/$net.yaml" --device cpu "${sets[@]}" -o "$work/$net-cpu64" &&
    near "$work/$net-cpu64" "$work/$net-gpu64" 1e-9 1e-9
}

# Products of 16 bits, sums that round the other way now and then: a step near the CPU's (later
# ones go their own way), more of them to the same bits without graphs, under a scale that moves.
mixed() {  # NET PRECISION
  local net=$1 sets=(--set "+jobs.train.precision=$2") one=$work/$1-$2-one many=$work/$1-$2-many device
  local scale="+jobs.train.optimizer.loss_scale"
  for device in gpu cpu; do
    run train "jobs/$net.yaml" --device "$device" "${sets[@]}" --set "$scale={type: static, value: 256}" \
      --steps 1 -o "$one-$device" || return 1
  done
  [[ $2 == mixed_float16 ]] && sets+=(--set "$scale={type: dynamic}")
  run train "jobs/$net.yaml" --device gpu "${sets[@]}" --steps 20 -o "$many-gpu" &&
    run train "jobs/$net.yaml" --device gpu "${sets[@]}" --steps 20 --eager -o "$many-eager" &&
    same "$many-gpu" "$many-eager" &&
    near "$one-cpu" "$one-gpu" 2e-2 4e-3
}

as_on_cpu() {  # TOLERANCE FILE JOB FLAG...: some steps of any job
  local tolerance=$1 file=$2 job=$3
  shift 3
  run "$job" "jobs/$file.yaml" --device gpu "$@" -o "$work/$file-$job-gpu" &&
    run "$job" "jobs/$file.yaml" --device cpu "$@" -o "$work/$file-$job-cpu" &&
    near "$work/$file-$job-cpu" "$work/$file-$job-gpu" "$tolerance" "$tolerance"
}

bits() {  # NET: two epochs, twice, watched or not, with graphs or without
  local net=$1 epochs=(--set vars.epochs=2 --device gpu)
  run train "jobs/$net.yaml" "${epochs[@]}" -o "$work/$net-a" &&
    run train "jobs/$net.yaml" "${epochs[@]}" --eager -o "$work/$net-b" &&
    run train "jobs/$net.yaml" "${epochs[@]}" --watch "$net/**:100" --watch-diff "$net/**:100" -o "$work/$net-c" &&
    same "$work/$net-a/checkpoints" "$work/$net-b/checkpoints" &&
    same "$work/$net-a/checkpoints" "$work/$net-c/checkpoints"
}

recurrent() {  # NAME SETTING...: steps of the character model, as on the CPU and with the same bits without graphs
  local cell=$1 steps=(--steps 5)
  shift
  for flag in "$@"; do steps+=(--set "$flag"); done
  run train jobs/lstm_text.yaml --device cpu "${steps[@]}" -o "$work/$cell-cpu" &&
    run train jobs/lstm_text.yaml --device gpu "${steps[@]}" -o "$work/$cell-gpu" &&
    run train jobs/lstm_text.yaml --device gpu "${steps[@]}" --eager -o "$work/$cell-eager" &&
    near "$work/$cell-cpu" "$work/$cell-gpu" 1e-3 1e-3 &&
    same "$work/$cell-gpu/checkpoints" "$work/$cell-eager/checkpoints"
}

accuracy() {  # NET FLOOR EPOCHS: and the GPU's and the CPU's predictions from that checkpoint
  local said
  run train "jobs/$1.yaml" --set "vars.epochs=$3" --device gpu -o "$work/$1-trained" || return 1
  said=$(run accuracy "jobs/$1.yaml" --device gpu --load "$work/$1-trained" -o "$work/$1-accuracy") || return 1
  echo "$said"
  awk -v floor="$2" '{exit !($2 >= floor)}' <<<"$said" || return 1
  run eval "jobs/$1.yaml" --device gpu --load "$work/$1-trained" -o "$work/$1-eval-gpu" &&
    run eval "jobs/$1.yaml" --device cpu --load "$work/$1-trained" -o "$work/$1-eval-cpu" &&
    near "$work/$1-eval-cpu" "$work/$1-eval-gpu" 1e-3 1e-4
}

programs() {  # end-to-end tests, in which programs take the GPU by themselves
  printf '%s\n' also data_ops gpu hooks inputs predicting_parts shards shared_statistics |
    FLOW_BIN=$build/bin FLOW_DEVICE=gpu xargs -P 4 -I NAME python3 tests/e2e/NAME_test.py
}

# What the libraries do is theirs: of their probing calls and kernels both tools say too much.
sanitize() {  # TOOL FLAG...: over our kernels that the reference judges
  command -v compute-sanitizer >/dev/null || { echo "compute-sanitizer is missing"; return 1; }
  local only=--kernel-name
  compute-sanitizer --help | grep -q -- "$only" || only=--kernel-regex  # its name before 2023
  local checker=(env FLOW_CASES=2 compute-sanitizer --tool "$@" --report-api-errors no "$only" kns=4flow4cuda --error-exitcode 1)
  "${checker[@]}" "$build/bin/flow_gpu_tests" "rows are gathered*,parts of shards are joined*,shards drop*" &&
    each_op "${checker[@]}" "$build/bin/flow_gpu_tests" "every kernel gives*"
}

# The kernels, workspaces and times of the rows of PREDICTIONS.md, in the log: a step without graphs, then the rate with them.
predicted() {  # NET
  local net=$1 sets=() steps=200
  case $net in
    resnet18) sets=(--set +jobs.train.precision=mixed_bfloat16) ;;
    resnet50 | gpt2) sets=(--set vars.precision=mixed_bfloat16) steps=10 ;;  # the host draws each batch
  esac
  "$build/bin/flowrun" train "jobs/$net.yaml" "${sets[@]}" --device gpu --dry-run &&
    "$build/bin/flowrun" train "jobs/$net.yaml" "${sets[@]}" --device gpu --steps "$steps" --profile --force -o "$work/$net-profile" &&
    "$build/bin/flowrun" train "jobs/$net.yaml" "${sets[@]}" --device gpu --steps "$steps" --force -o "$work/$net-rate"
}

nvcc_version() { nvcc --version | sed -n 's/.*release \([^,]*\).*/\1/p'; }

nvidia-smi >/dev/null || {
  echo "run.sh: nvidia-smi finds no GPU on this machine" >&2
  exit 77
}
# A device that nobody uses may go to sleep, and takes seconds to wake for each short program.
set -m
nvidia-smi -l 60 >/dev/null &
awake=$!
disown
set +m
{
  echo "# On a GPU"
  echo
} >"$table"
fact device "$(nvidia-smi --query-gpu=name --format=csv,noheader -i 0)"
fact driver "$(nvidia-smi --query-gpu=driver_version --format=csv,noheader -i 0)"
fact nvcc "$(nvcc_version)"
fact commit "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
printf '\n| check | verdict | time |\n| --- | --- | --- |\n' >>"$table"

unpack && find_libraries
set -m
check build configure_and_build &  # bash hears the clock while it waits
set +m
wait $!
grep -q '| build | passed' "$table" || finish
if [[ $part == kernels ]]; then
  together description sh -c "'$build/bin/describe_device' >'$out/device.json'"
  together libraries libraries
  together kernels kernels
  together other-kernels other_kernels
  wait
  together memcheck sanitize memcheck
  together racecheck sanitize racecheck --racecheck-detect-level error
  wait
  finish
fi
together programs programs
for net in lenet mlp; do
  together "$net-one-call" one_call "$net"
  together "$net-float64" float64 "$net"
  together "$net-bits" bits "$net"
  together "$net-bfloat16" mixed "$net" mixed_bfloat16
  together "$net-float16" mixed "$net" mixed_float16
done
together lenet-accuracy accuracy lenet 96.5 1
together mlp-accuracy accuracy mlp 97.4 20
together lenet-placed placed lenet conv2 drop dense2
together mlp-placed placed mlp hidden
for net in lenet mlp; do together "$net-shards" shards "$net" --watch "$net/**" --watch-diff "$net/**"; done
together gpt_tiny-shards shards gpt_tiny
together resnet18 as_on_cpu 1e-2 resnet18 train --steps 3 --set vars.width=16
together gpt_tiny as_on_cpu 1e-3 gpt_tiny train --steps 5
together siamese as_on_cpu 1e-3 siamese train --steps 5
together gan as_on_cpu 1e-3 gan judge --steps 5
together autoencoder as_on_cpu 1e-3 autoencoder train --steps 5
together unet as_on_cpu 1e-3 unet train --steps 5
together lstm_text recurrent lstm vars.layers=2 +networks.text.graph.state.direction=bidirectional
together gru_text recurrent gru networks.text.graph.state.op=gru
together rnn_text recurrent rnn networks.text.graph.state.op=rnn +networks.text.graph.state.direction=reverse
together lora as_on_cpu 1e-3 lora train --steps 5 --set vars.width=64 --set vars.layers=2 --set vars.heads=2 --set vars.context=32 --set vars.vocabulary=100
together lora_llama as_on_cpu 1e-3 lora_llama train --steps 5 --set vars.width=64 --set vars.layers=2 --set vars.heads=4 --set vars.context=32 --set vars.vocabulary=100
together mlp_async as_on_cpu 1e-3 mlp_async train --steps 20
together relu_watch as_on_cpu 0 relu_watch relu --watch y
together mlp_watch_diff as_on_cpu 1e-3 mlp_watch_diff train --watch-diff "logits/**"
together mlp_watch_scope as_on_cpu 1e-3 mlp_watch_scope train
wait
for net in mlp lenet resnet18 resnet50 gpt2; do
  together "$net-predicted" predicted "$net"  # alone, like the benchmarks
  wait
done
together bench tests/bench/gpu_bench.py --bin "$build/bin" --rounds 2 --out "$out/bench.json"
wait
finish
