// Moves that add or take away one feature of a problem: softcap, ALiBi, sinks, documents, prefix,
// block mask, dropout, query lengths, fp8, storage. The Ensure functions keep what is there and draw
// what is missing from the case's own seed; like all moves (derive.h) they take and return valid
// cases.
#ifndef ATTEST_PROPERTIES_FEATURES_H_
#define ATTEST_PROPERTIES_FEATURES_H_

#include "impl/attention/contract.h"
#include "properties/harness/case/case.h"

namespace attest {

Case EnsureSoftcap(Case c);                          // of the size of ordinary scores
Case EnsureAlibi(Case c, const Contract& contract);  // powers of two, another for each head
Case EnsureSinks(Case c);
Case EnsureDocuments(Case c);                         // runs of rows and keys
Case EnsurePrefix(Case c, const Contract& contract);  // and causality
Case EnsureBlockMask(Case c);
Case EnsureDropout(Case c);
Case EnsureQueryLengths(Case c);

// A document of one run: its rows and keys as half-open ranges.
struct Run {
  int64_t first_query = 0, last_query = 0;
  int64_t first_key = 0, last_key = 0;
};
// Cuts the rows and the keys into one to three runs, some of them perhaps empty.
std::vector<Run> DrawRuns(const Case& c);
// Makes each run a document of its own, in every batch item.
Case WithRuns(Case c, const std::vector<Run>& runs);

// The case without softcap, ALiBi, sinks and dropout: what is left is scale, bias and hiding.
Case WithoutScoreFeatures(Case c);
// q, k and v in the problem's own type.
Case WithoutFp8(Case c);
// Out and lse only: of a case whose key axis is about to change.
Case WithoutKeyOutputs(Case c);
// Scores outputs that hold hidden keys too, or that move with what is added to a row, not asked for.
Case WithoutScoresOutput(Case c);

// With both lengths, and without what packed sequences cannot carry: ready to be packed.
Case Packable(Case c, const Contract& contract);

// Nothing depends on where a row or key stands: causality, window, lengths, prefix and block mask
// are an explicit mask (or gone where the contract takes none); ALiBi and past are gone.
Case WithoutPositions(Case c, const Contract& contract);

// Scores of a few units and values that differ, in the problem's own type and scale, so that what a
// case is about shows in its result.
Case Lively(Case c);

}  // namespace attest

#endif  // ATTEST_PROPERTIES_FEATURES_H_
