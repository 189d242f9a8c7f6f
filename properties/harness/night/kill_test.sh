#!/usr/bin/env bash
# The long kill test, run by hand: a night is killed (SIGKILL) ten times in mid-run and started again; after each
# kill what was found and kept before must still be there, and at the end nothing may be there twice.
#
#   properties/harness/night/kill_test.sh KERNEL [OPTION OF attest fuzz]...
#
# $ATTEST is the program (default build/release/bin/attest), $KILLS how often (default 10), $NIGHT a new folder
# (default: one that is removed). Exit status: 0 nothing was lost or doubled, 1 something was.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
attest=${ATTEST:-$root/build/release/bin/attest}
kills=${KILLS:-10}
if [[ -v NIGHT ]]; then
  night=$NIGHT
else
  night=$(mktemp -d)
  trap 'rm -rf "$night"' EXIT
fi
bad=0
complain() { printf 'kill_test: %s\n' "$*"; bad=1; }

# The signatures in a file of lines, one a line, sorted; half a last line is none.
signatures() { grep -hoP '"type":"finding".*"signature":"\K[^"]+(?=".*\}$)' "$@" 2> /dev/null | sort || true; }
raw() { find "$night" -path '*/raw/*.toml' -printf '%f\n' 2> /dev/null | sort; }
inputs() { find "$night/corpus" -type f ! -path '*/merging/*' ! -name '*.tmp' ! -name merge.control 2> /dev/null | wc -l; }
# Lines of $1 that are not in $2.
lost() { comm -23 <(printf '%s\n' "$1") <(printf '%s\n' "$2") | grep . || true; }
journals() { find "$night/night" -name journal.jsonl 2> /dev/null; }

for ((i = 1; i <= kills; ++i)); do
  "$attest" fuzz "$@" --for 1h --report "$night" > /dev/null 2>&1 &
  pid=$!
  sleep "$((RANDOM % 12 + 4)).$((RANDOM % 10))"
  kill -KILL "$pid"
  wait "$pid" 2> /dev/null || true
  sleep 0.5 # its children die with it
  [[ -z $(pgrep -f "$night" || true) ]] || complain "kill $i: processes of the night still run"
  mapfile -t files < <(journals)
  found=$(signatures "${files[@]}") raws=$(raw)
  if ((i > 1)); then
    gone=$(lost "$found_before" "$found")
    [[ -z $gone ]] || complain "kill $i: lost findings: $gone"
    gone=$(lost "$raws_before" "$raws")
    [[ -z $gone ]] || complain "kill $i: lost raw findings: $gone"
  fi
  found_before=$found raws_before=$raws
  printf 'kill %d: %d findings, %d raw, %d inputs\n' "$i" "$(grep -c . <<< "$found" || true)" \
    "$(grep -c . <<< "$raws" || true)" "$(inputs)"
done

status=0
"$attest" fuzz "$@" --for 30s --report "$night" > "$night/out" 2>&1 || status=$?
reported=$(signatures "$night/run.jsonl")
twice=$(uniq -d <<< "$reported")
[[ -z $twice ]] || complain "reported twice: $twice"
mapfile -t files < <(journals)
twice=$(signatures "${files[@]}" | uniq -d)
[[ -z $twice ]] || complain "found twice: $twice"
# A finding without a class is folded into one with it.
gone=$(lost "$found_before" "$(signatures "${files[@]}")")
[[ -z $gone ]] || complain "lost at the end: $gone"
waiting=$(grep -c 'wait to be confirmed' "$night/out" || true)
((waiting == 0)) || complain "raw findings were left"
left=$(find "$night" \( -name '*.tmp' -o -name '*.partial' -o -path '*/merging' -o -path '*/old' \) || true)
[[ -z $left ]] || complain "left behind: $left"
printf 'end: exit status %d, %d findings, %d inputs; %s\n' "$status" "$(grep -c . <<< "$reported" || true)" \
  "$(inputs)" "$([[ $bad == 0 ]] && printf 'nothing lost, nothing twice' || printf 'FAILED')"
exit "$bad"
