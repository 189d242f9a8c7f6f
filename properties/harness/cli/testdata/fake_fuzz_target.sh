#!/usr/bin/env bash
# Stands for a fuzz target in the tests of attest fuzz, on machines without clang: takes libFuzzer's flags
# (max_total_time and the others that a night gives it), makes inputs, and leaves the cases of $FAKE_CASES one
# by one as its findings, as fuzz/findings.cc does. It ends with status 77 after each. With $FAKE_CRASH, a function's
# name, it leaves an input that ends it again, and no case.
set -u
seconds=1 merge=no artifacts=
folders=()
for word in "$@"; do
  case "$word" in
    -max_total_time=*) seconds=${word#*=} ;;
    -set_cover_merge=1) merge=yes ;;
    -artifact_prefix=*) artifacts=${word#*=} ;;
    -*) ;;
    *) folders+=("$word") ;;
  esac
done
report_crash() {
  printf '==1==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x1\n' >&2
  printf 'SUMMARY: AddressSanitizer: heap-buffer-overflow /a/mine.cc:3:4 in %s(int)\n' "$1" >&2
  exit 77
}
if [[ -f ${folders[0]-} ]]; then
  read -r what function < "${folders[0]}" || true
  [[ $what != crash ]] || report_crash "$function"
  exit 0
fi

if [[ $merge == yes ]]; then
  for folder in "${folders[@]:1}"; do cp -n "$folder"/* "${folders[0]}/" 2> /dev/null; done
  exit 0
fi

status() {
  printf '{"executions":%d,"seconds":1,"bins":3,"worst_ratio":0.5,"worst_lse_ratio":0.25,"findings":0}\n' \
    "$1" > "$ATTEST_FUZZ_STATUS.tmp" && mv "$ATTEST_FUZZ_STATUS.tmp" "$ATTEST_FUZZ_STATUS"
}

end=$((SECONDS + seconds))
count=0
while ((SECONDS < end)); do
  count=$((count + 1))
  printf '%s-%s' "$$" "$count" > "${folders[0]}/$$-$count.tmp" &&
    mv "${folders[0]}/$$-$count.tmp" "${folders[0]}/$$-$count"
  status $((count * 100))
  printf '#%d\tNEW    cov: %d ft: 1\n' $((count * 100)) $((10 + count)) >&2
  if [[ -v FAKE_CRASH ]]; then
    printf 'crash %s' "$FAKE_CRASH" > "${artifacts}crash-$FAKE_CRASH"
    report_crash "$FAKE_CRASH"
  fi
  for case in "${FAKE_CASES-/nowhere}"/*.toml; do
    name=$(basename "$case")
    [[ -f $case && ! -e $ATTEST_FINDINGS/$name ]] || continue
    cp "$case" "$ATTEST_FINDINGS/$name.$$.tmp"
    if ln "$ATTEST_FINDINGS/$name.$$.tmp" "$ATTEST_FINDINGS/$name" 2> /dev/null; then
      rm "$ATTEST_FINDINGS/$name.$$.tmp"
      printf 'replay: attest replay %s\n' "$ATTEST_FINDINGS/$name" >&2
      printf x > "${artifacts}crash-0"
      exit 77
    fi
    rm -f "$ATTEST_FINDINGS/$name.$$.tmp"
  done
  sleep 0.1
done
