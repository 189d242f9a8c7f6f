// The mismatch classifier: names the likely cause of a wrong result. It computes rows anew under
// faulty rules and under wider arithmetic, and accepts a cause only where the kernel's rows lie within
// the error bound of the reference under that cause while the truth does not hold them; the sentence
// is evidence and not a guess. The judge (compare.cc) calls it for every failure by value.
#ifndef ATTEST_HARNESS_JUDGE_EXPLAIN_EXPLAIN_H_
#define ATTEST_HARNESS_JUDGE_EXPLAIN_EXPLAIN_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "impl/attention/contract.h"
#include "impl/attention/problem.h"
#include "impl/attention/visibility.h"
#include "impl/reference/bound.h"
#include "impl/reference/reference.h"
#include "properties/harness/case/case.h"
#include "properties/harness/judge/outcome.h"
#include "properties/harness/judge/verdict.h"

namespace attest {

// One kind of cause. The list is closed: an id stands in signatures and never changes its meaning.
struct CauseClass {
  std::string_view id;       // kebab-case: "causal-ignored"
  std::string_view meaning;  // one clause
  bool is_symptom = false;   // says what the wrong rows look like, and not what made them so
};
std::span<const CauseClass> CauseClasses();
// Classes that no look at one outcome gives: they come of running a case again.
inline constexpr std::string_view kCallBefore = "call-before", kRerunDiffers = "rerun-differs",
                                  kBackwardOverForward = "backward-over-forward";
// A class that the address of a fault tells (Fault::is_cut_offset).
inline constexpr std::string_view kNarrowOffset = "narrow-offset";
inline constexpr std::string_view kNumerics = "numerics";
// A class that running the case with contiguous tensors tells.
inline constexpr std::string_view kStridesMisread = "strides-misread";
// One that running it with plain keys and values tells.
inline constexpr std::string_view kStorageMisread = "storage-misread";
// One of the present outputs, which no row of attention explains.
inline constexpr std::string_view kPresentMisplaced = "present-misplaced";
// Of a class's id; false for what is none.
bool IsSymptom(std::string_view cause_class);

struct Explanation {
  std::string cause_class;  // one of CauseClasses, "" where no cause fits
  std::string phrase;       // "as if the mask were ignored; in all of batch 1", "" likewise
  // Of other classes, best first; only where every cause is wanted.
  std::vector<OtherCause> others{};
};

// The case and what the kernel made of it. `reference` and `bound` are the judge's own for it.
struct Mismatch {
  const Problem& problem;
  const Inputs& inputs;
  const Reference& reference;
  ErrorBound& bound;
  const Outcome& outcome;
  const Contract& contract;
  Storage storage = {};  // of the case
};

enum class CausesWanted {
  kBest,
  kEvery,  // and those that give every wrong row as well: what one finding leaves open others may settle
};

// The cause that fits the row `witness` of the outcome and, among such, most of the other wrong rows
// while contradicting fewest right ones; the phrase says where the errors sit. `output` ("out" "lse"
// "weights") is where the witness shows. Empty where the truth holds the witness's row, and where no
// cause fits. Where the scores output alone is wrong, it looks at whole features only. Costs at most some
// thousand computations of one row.
Explanation ExplainMismatch(const Mismatch& mismatch, const Row& witness, std::string_view output,
                            CausesWanted wanted = CausesWanted::kBest);

}  // namespace attest

#endif  // ATTEST_HARNESS_JUDGE_EXPLAIN_EXPLAIN_H_
