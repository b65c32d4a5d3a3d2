#!/usr/bin/env bash
# Installs every Debian package that building, testing and running need, and, where there is a CUDA
# toolkit, fetches the headers of cuDNN's front end; quick when all are there.
# Usage: ./setup.sh [test]     `test` adds what only the tests use.
set -euo pipefail

packages=(
  # build: compiler, CMake, Ninja
  g++ cmake ninja-build ccache ca-certificates
  # libraries: YAML, command line, JSON, formatting, compression, file hashes, CPU kernels
  libyaml-cpp-dev libcli11-dev nlohmann-json3-dev libfmt-dev zlib1g-dev libxxhash-dev libdnnl-dev
)
if [[ "${1:-}" == test ]]; then
  # the test framework, the second compiler and its fuzzer, formatting, judges (NumPy, ONNX, a
  # validator of schemas), sweeps
  packages+=(catch2 clang libclang-rt-14-dev libomp-dev clang-format clang-tidy python3 python3-numpy
    python3-onnx libonnx-testdata python3-jsonschema python3-yaml git parallel)
fi

nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
[[ -x $nvcc ]] && packages+=(curl unzip)

install_packages() {
  local package missing=() run=()
  for package in "${packages[@]}"; do
    dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
      missing+=("$package")
  done
  [[ ${#missing[@]} -eq 0 ]] && return
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
}

# NVIDIA's headers (Apache licence) travel in a Python wheel, of which the rest is not needed.
# Without them the build leaves the CUDA module out.
fetch_cudnn_frontend() {
  local folder version=1.32.0 wheel temporary
  local sha256=c6006556017a4d1c914c52a556c71b1267f2d6a0500f742e7b4edef539878df0
  local name=nvidia_cudnn_frontend-$version-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl
  local url=https://files.pythonhosted.org/packages/11/02/660e2dd9f9d9f940e1641443771730612c3aadaafbc5ef7a93cc313d519d
  folder=$(dirname "$0")/build/cudnn-frontend
  [[ -e $folder/$version ]] && return
  mkdir -p "$folder"
  temporary=$(mktemp -d "$folder/fetching.XXXXXX")
  wheel=$temporary/wheel.zip
  if curl -fsSL --retry 2 --connect-timeout 10 --max-time 300 -o "$wheel" "$url/$name" &&
    echo "$sha256  $wheel" | sha256sum --check --status &&
    unzip -q "$wheel" 'include/*' -d "$temporary"; then
    rm -rf "$folder/include"
    mv "$temporary/include" "$folder/include"
    touch "$folder/$version"
  else
    echo "setup.sh: cuDNN's front end $version could not be fetched: no CUDA module" >&2
  fi
  rm -rf "$temporary"
}

install_packages
if [[ -x $nvcc ]]; then fetch_cudnn_frontend; fi
