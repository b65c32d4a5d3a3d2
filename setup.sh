#!/usr/bin/env bash
# Installs every Debian package that building, testing and running need. With a CUDA toolkit it also
# downloads the headers of cuDNN's front end. Takes no time when everything is installed.
# Usage: ./setup.sh [test]     `test` adds what only the tests use.
set -euo pipefail

packages=(
  # build: compiler, CMake, Ninja
  g++ cmake ninja-build ccache ca-certificates
  # libraries: YAML, command line, JSON, formatting, compression, file hashes, CPU kernels
  libyaml-cpp-dev libcli11-dev nlohmann-json3-dev libfmt-dev zlib1g-dev libzstd-dev libxxhash-dev libdnnl-dev
  # data: images, and the classes and normal forms of Unicode characters
  libpng-dev libjpeg62-turbo-dev libutf8proc-dev
  # models of ONNX: their format (onnx.proto), and what reads and writes it
  libonnx-dev libprotobuf-dev protobuf-compiler
  # runs on several processes
  libopenmpi-dev openmpi-bin
)
if [[ "${1:-}" == test ]]; then
  # the test framework, the second compiler and its fuzzer, formatting, judges (NumPy, ONNX, a
  # validator of schemas), sweeps, a second MPI library, the interpreter of the report's script
  packages+=(catch2 clang libclang-rt-14-dev libomp-dev clang-format clang-tidy python3 python3-numpy
    python3-onnx libonnx-testdata python3-jsonschema python3-yaml git parallel libmpich-dev mpich
    nodejs)
fi

nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
[[ -x $nvcc ]] && packages+=(python3-pip)

install_packages() {
  local package missing=() run=()
  for package in "${packages[@]}"; do
    dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
      missing+=("$package")
  done
  [[ ${#missing[@]} -eq 0 ]] && return
  if [[ $(id -u) -ne 0 ]]; then
    command -v sudo >/dev/null || {
      echo "setup.sh: root is required to install these packages: ${missing[*]}" >&2
      exit 1
    }
    run=(sudo)
  fi
  echo "installing: ${missing[*]}"
  "${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq
  "${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    "${missing[@]}" >/dev/null
}

# NVIDIA publishes these headers (Apache licence) in a Python wheel. Nothing else of the wheel is
# used. Without the headers the build leaves the CUDA module out.
download_cudnn_frontend() {
  local folder version=1.32.0 temporary
  local sha256=c6006556017a4d1c914c52a556c71b1267f2d6a0500f742e7b4edef539878df0
  folder=$(dirname "$0")/build/cudnn-frontend
  [[ -e $folder/$version ]] && return
  mkdir -p "$folder"
  temporary=$(mktemp -d "$folder/download.XXXXXX")
  echo "nvidia-cudnn-frontend==$version --hash=sha256:$sha256" >"$temporary/requirements.txt"
  if /usr/bin/python3 -m pip download --quiet --disable-pip-version-check --no-deps \
    --only-binary :all: --implementation cp --python-version 3.11 --abi cp311 \
    --platform manylinux_2_28_x86_64 --require-hashes -r "$temporary/requirements.txt" \
    -d "$temporary" 2>"$temporary/log" &&
    /usr/bin/python3 -m zipfile -e "$temporary"/*.whl "$temporary/wheel"; then
    rm -rf "$folder/include"
    mv "$temporary/wheel/include" "$folder/include"
    touch "$folder/$version"
  else
    echo "setup.sh: cannot download nvidia-cudnn-frontend $version; the build omits the CUDA module" >&2
    tail -n 1 "$temporary/log" >&2
  fi
  rm -rf "$temporary"
}

install_packages
if [[ -x $nvcc ]]; then download_cudnn_frontend; fi
