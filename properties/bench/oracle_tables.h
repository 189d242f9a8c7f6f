// The tables of `attest_bench oracle`: the evidence that the oracle is silent on correct kernels
// (soundness, search), how close it sits to them (tightness), what it finds (detection) and what it
// takes (cost). Each prints to stdout and returns whether what it must show holds. Caller: main.cc.
#ifndef ATTEST_BENCH_ORACLE_TABLES_H_
#define ATTEST_BENCH_ORACLE_TABLES_H_

#include <cstdint>

namespace attest {

struct OracleOptions {
  int64_t rows = 1000000;  // row checks of the soundness table, at least
  uint64_t seed = 1;
  bool small = false;  // all tables in less than a minute, for CI
};

// Soundness and tightness come from the same rows. False on any W or LSE alarm, where cheap W
// is below W or its floor above it, and on an emulated output that its type cannot hold.
bool PrintSoundness(const OracleOptions& options, bool with_soundness, bool with_tightness);
bool PrintDetection(const OracleOptions& options);  // always true: figures, no gate
bool PrintSearch(const OracleOptions& options);     // false where a correct kernel exceeds W
bool PrintCost(const OracleOptions& options);       // always true

// The seed of the n-th sample of a table, so that it can be drawn again by its number.
enum class Stream {
  kSoundness,
  kDetectionNormal,
  kDetectionMixed,
  kDetectionLong,
  kBias,
  kSearch,
  kCost
};
uint64_t SeedOf(const OracleOptions& options, Stream stream, int64_t number);

// Shows how far a table is, on stderr, where that is a terminal.
void ShowProgress(const char* what, int64_t done, int64_t all);

}  // namespace attest

#endif  // ATTEST_BENCH_ORACLE_TABLES_H_
