#!/usr/bin/env bash
# experiment.sh BIN [SECONDS [SEEDS]]: what guidance adds. Lets fuzz_equivalence of the folder BIN (a fuzz
# preset's bin/) look for each of 16 subtle mutants in four ways and prints a Markdown table of the
# executions and seconds to the first finding, the median over the seeds; "-" where most runs found
# nothing in time:
#   random     fresh random records, no memory of what was found
#   coverage   mutations of a corpus, guided by the kernel's coverage alone
#   + bins     and by the bins of the cases
#   + error    and by error / bound of out and lse
# Every run starts from an empty corpus. Run it on an idle machine.
set -euo pipefail

bin=${1:?experiment.sh BIN [SECONDS [SEEDS]]} seconds=${2:-20} seeds=${3:-3}
mutants=(bias-rounded products-in-f16 softcap-skipped-in-f16 window-tile-skipped tile-tail-kept head-dim-capped
         lse-of-empty-row-positive sink-not-in-maximum hidden-tile-guard diagonal-tile-full
         wide-bias-narrowed constant-subtracted values-not-rescaled tile-skipped key-scale-ignored
         window-left-one-more)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# search MUTANT SEED MUTATE GUIDE: prints "EXECUTIONS SECONDS", or nothing.
search() {
  rm -rf "$folder/findings" "$folder/status"
  local begin end
  begin=$(date +%s.%N)
  ATTEST_FUZZ_KERNEL=mutant:$1 ATTEST_FUZZ_MUTATE=$3 ATTEST_FUZZ_GUIDE=$4 ATTEST_FINDINGS=$folder/findings \
    ATTEST_FUZZ_STATUS=$folder/status "$bin/fuzz_equivalence" -seed="$2" -max_len=256 \
    -max_total_time="$seconds" -print_funcs=0 -artifact_prefix="$folder/" >"$folder/log" 2>&1 || true
  end=$(date +%s.%N)
  [[ -d $folder/findings ]] || return 0
  # A finding is shrunk for some seconds before the process ends: its file's birth is what counts.
  local found
  found=$(stat -c %W "$folder"/findings/*.toml | sort -n | head -1)
  awk -v b="$begin" -v e="$end" -v f="$found" -v n="$(grep -oP '"executions":\K\d+' "$folder/status")" \
    'BEGIN { s = (f > b ? f : e) - b; printf "%d %.1f\n", n, s < 0 ? 0 : s }'
}

# median COLUMN: of the lines on stdin, counting missing ones as endless.
median() {
  sort -n -k"$1,$1" |
    awk -v c="$1" -v n="$seeds" 'NR == int((n + 1) / 2) { print $c; done = 1 } END { if (!done) print "-" }'
}

printf '| mutant | random | coverage | + bins | + error |\n|---|---|---|---|---|\n'
for mutant in "${mutants[@]}"; do
  row="| $mutant"
  for way in "random none" "guided none" "guided bins" "guided all"; do
    read -r mutate guide <<<"$way"
    results=""
    for ((seed = 1; seed <= seeds; ++seed)); do
      results+=$(search "$mutant" "$seed" "$mutate" "$guide")$'\n'
    done
    results=$(grep . <<<"$results" || true)
    row+=" | $(median 1 <<<"$results") in $(median 2 <<<"$results") s"
  done
  printf '%s |\n' "$row"
done
