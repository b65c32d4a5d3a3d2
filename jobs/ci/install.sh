#!/usr/bin/env bash
# Installs flow in a container of Debian 12 that runs as root. Builds the package flow.deb from source, unless a cache of the
# CI system has restored it.
#
#   FLOW_REPOSITORY=URL FLOW_REVISION=TAG jobs/ci/install.sh
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive

if [[ ! -s flow.deb ]]; then
  : "${FLOW_REPOSITORY:?set FLOW_REPOSITORY to the URL of the repository of flow}"
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends ca-certificates dpkg-dev file git >/dev/null
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  git clone --quiet "$FLOW_REPOSITORY" "$work/flow"
  git -C "$work/flow" checkout --quiet "${FLOW_REVISION:-HEAD}"
  (
    cd "$work/flow"
    ./setup.sh
    cmake --preset release -DFLOW_TESTS=OFF >/dev/null
    cmake --build --preset release
    cpack --config build/release/CPackConfig.cmake -B "$work/packages" >/dev/null
  )
  mv "$work"/packages/flow_*.deb flow.deb
fi
apt-get update -qq
apt-get install -y -qq --no-install-recommends ./flow.deb >/dev/null
flowrun --version
