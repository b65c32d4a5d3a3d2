#!/usr/bin/env bash
# Builds the Debian package, installs it in a fresh Debian 12, runs a job there and removes it.
# Needs root, debootstrap, dpkg-dev, file and lintian. About five minutes.
# Usage: tests/package.sh [BUILD]     BUILD: a folder with a complete build; default: build/release
set -euo pipefail
cd "$(dirname "$0")/.."

build=$(realpath "${1:-build/release}")
# Where this machine gets its own packages.
mirror=${FLOW_DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Codename: bookworm' 'Component: main' | sort | head -n 1)}
work=$(mktemp -d)
root=$work/root

for program in cpack debootstrap dpkg-shlibdeps file lintian; do
  command -v "$program" >/dev/null || {
    echo "package.sh: $program is missing; install cmake, debootstrap, dpkg-dev, file and lintian" >&2
    exit 1
  }
done

[[ -n $mirror ]] || {
  echo "package.sh: apt has no repository of bookworm; set FLOW_DEBIAN_MIRROR to the address of one" >&2
  exit 1
}

finish() {
  umount "$root/proc" 2>/dev/null || true
  rm -rf "$work"
}
trap finish EXIT

inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive bash -ec "$1"; }
files() { (cd "$root" && find usr etc -not -type d | sort); }

echo "== package"
(cd "$work" && cpack --config "$build/CPackConfig.cmake" -B "$work/packages" >"$work/cpack.log") || {
  cat "$work/cpack.log" >&2
  exit 1
}
deb=$(ls "$work"/packages/flow_*.deb)
dpkg-deb --info "$deb" | sed -n 's/^ \(Depends\|Suggests\|Version\): /\1: /p'
lintian --fail-on error,warning "$work"/packages/*.deb

echo "== fresh Debian 12"
debootstrap --variant=minbase bookworm "$root" "$mirror" >"$work/debootstrap.log" || {
  tail "$work/debootstrap.log" >&2
  exit 1
}
# Documents are left out of small systems by choice; here they are checked.
rm -f "$root"/etc/dpkg/dpkg.cfg.d/*
mount -t proc proc "$root/proc"
cp "$deb" "$root/root/flow.deb"
inside 'apt-get update -qq'
files >"$work/before"

echo "== install"
inside 'apt-get install -y -qq --no-install-recommends /root/flow.deb >/dev/null 2>&1'
inside 'flowc --version && flowrun --version && flowdiff --version'
inside 'for page in man1/flowc.1 man1/flowrun.1 man1/flowdiff.1 man5/flow-job.5; do test -s /usr/share/man/$page.gz; done'
inside 'test -s /usr/share/doc/flow/copyright && test -s /usr/share/bash-completion/completions/flowrun'
inside 'flowc help >/dev/null && flowc help checkpoints >/dev/null'

echo "== run"
inside 'cd /root && flowrun train /usr/share/flow/jobs/lenet.yaml -o out --steps 20 --quiet && flowrun eval /usr/share/flow/jobs/lenet.yaml --load out -o eval --quiet'
inside 'cd /root && flowdiff eval eval --brief && flowc init mlp && flowc check mlp.yaml'

echo "== missing package"
inside 'cd /root && ! flowrun train /usr/share/flow/jobs/lenet.yaml -o gpu --device gpu 2>said && cat said && grep -q "install the package flow-cuda" said'
inside 'cd /root && ! PMI_RANK=0 PMI_SIZE=2 flowrun train /usr/share/flow/jobs/lenet.yaml -o ranks --distributed 2>said && cat said && grep -q "install the package flow-mpich" said'

echo "== missing library"
inside 'mv /usr/lib/x86_64-linux-gnu/libdnnl.so.2 /root/ && ! flowrun --version 2>/root/said; cat /root/said; mv /root/libdnnl.so.2 /usr/lib/x86_64-linux-gnu/'
[[ $(wc -l <"$root/root/said") -eq 1 ]] && grep -q libdnnl "$root/root/said"

echo "== install again, remove"
inside 'dpkg --install /root/flow.deb >/dev/null'
inside 'apt-get purge -y -qq flow >/dev/null 2>&1 && apt-get autoremove --purge -y -qq >/dev/null 2>&1'
files >"$work/after"
left=$(comm -13 "$work/before" "$work/after" | grep flow || true)
[[ -z $left ]] || {
  echo "left behind: $left" >&2
  exit 1
}
echo "package: installed, ran and removed"
