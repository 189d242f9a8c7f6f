#!/usr/bin/env bash
# finds_mutant.sh FUZZ_TARGET ATTEST MUTANT FOLDER: the fuzz target must find the seeded fault and write a
# case that attest replays and that fails again. Run by ctest.
set -euo pipefail
target=$1 attest=$2 mutant=$3 folder=$4

rm -rf "$folder"
if ATTEST_FUZZ_KERNEL=mutant:$mutant ATTEST_FINDINGS=$folder "$target"; then
  printf '%s\n' "finds_mutant: $mutant was not found" >&2
  exit 1
fi
cases=("$folder"/*.toml)
[[ -f ${cases[0]} ]] || { printf '%s\n' "finds_mutant: no case was written" >&2; exit 1; }
status=0
"$attest" replay "${cases[0]}" "mutant:$mutant" || status=$?
[[ $status == 1 ]] || { printf '%s\n' "finds_mutant: replay gave $status, not 1" >&2; exit 1; }
