#!/usr/bin/env bash
# Gathers in .device/ what tests/device/run.sh needs and a machine with a GPU may lack: headers and
# libraries of Debian's packages, and cuDNN's front end. For a machine that reaches no network.
# Usage: tests/device/pack.sh
set -euo pipefail
cd "$(dirname "$0")/../.."

packages=(
  libfmt-dev libfmt9 libyaml-cpp-dev libyaml-cpp0.7 libcli11-dev nlohmann-json3-dev zlib1g-dev zlib1g
  libdnnl-dev libdnnl2 ocl-icd-libopencl1 libxxhash-dev libxxhash0 catch2
  libonnx-dev libprotobuf-dev libprotobuf32 protobuf-compiler libprotoc32
)
./setup.sh
[[ -d build/cudnn-frontend/include ]] || {
  echo "pack.sh: cuDNN's front end is missing; run ./setup.sh on a machine with the CUDA toolkit" >&2
  exit 1
}
rm -rf .device
mkdir -p .device/cudnn-frontend
(cd .device && apt-get download "${packages[@]}" >/dev/null)
cp -r build/cudnn-frontend/include .device/cudnn-frontend/  # its files ask for ../include
echo "packed $(du -sh .device | cut -f1) in .device"
