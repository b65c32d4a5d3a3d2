#!/usr/bin/env bash
# A regression test: runs a job and compares its arrays with a golden run.
#
#   jobs/ci/regression.sh train lenet.yaml golden/lenet                 run, compare, report
#   jobs/ci/regression.sh train lenet.yaml golden/lenet --steps 20      more flags go to flowrun
#   jobs/ci/regression.sh accept golden/lenet "learning rate 0.2"       make the last run the golden one
#
# The run goes to runs/NAME, and reports go to reports/NAME.xml (JUnit) and reports/NAME.md, where NAME is the name of the
# golden directory. Git ignores both folders. The exit status is 0 if all arrays are equal within tolerance, and 1 if one is
# not. It is 2 without a golden run, and otherwise that of flowrun or flowdiff.
set -euo pipefail
find_program() { command -v "$1" || echo "build/release/bin/$1"; }
flowrun=${FLOWRUN:-$(find_program flowrun)}
flowdiff=${FLOWDIFF:-$(find_program flowdiff)}

# Makes Git ignore a folder, unless it has a .gitignore of its own; and takes that back.
ignore() { [[ -e $1/.gitignore ]] || echo '*' >"$1/.gitignore"; }
forget() { [[ $(cat "$1/.gitignore" 2>/dev/null) != '*' ]] || rm "$1/.gitignore"; }

usage() {
  echo "usage: $0 JOB FILE GOLDEN [FLAGS OF FLOWRUN...] | $0 accept GOLDEN REASON" >&2
  exit 2
}
[[ $# -ge 3 ]] || usage

if [[ $1 == accept ]]; then
  [[ $# -eq 3 ]] || usage
  exec "$flowdiff" update "$2" "runs/$(basename "$2")" --reason "$3"
fi

job=$1 file=$2 golden=$3
shift 3
name=$(basename "$golden")
mkdir -p runs reports
rm -f "reports/$name.xml" "reports/$name.md"
[[ -n $(ls reports) ]] || forget reports
ignore runs

"$flowrun" "$job" "$file" -o "runs/$name" --force --quiet "$@"

accept="$0 accept $golden 'why the results changed'"
if [[ ! -e $golden/golden.json ]]; then
  echo "$golden has no golden run yet; accept runs/$name with: $accept" >&2
  exit 2
fi
ignore reports
status=0
"$flowdiff" "$golden" "runs/$name" --brief --junit "reports/$name.xml" --md "reports/$name.md" || status=$?
[[ $status -ne 1 ]] || echo "if the difference is intended: $accept" >&2
exit "$status"
