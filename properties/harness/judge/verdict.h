// The words in which results are given: Verdict for one run of one property on one case, Signature
// for the identity of a failure, Finding for a confirmed failure with its smallest case.
#ifndef ATTEST_HARNESS_JUDGE_VERDICT_H_
#define ATTEST_HARNESS_JUDGE_VERDICT_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "properties/harness/case/case.h"

namespace attest {

enum class VerdictKind { kPass, kFail, kMarginal, kUnsupported, kInconclusive };
std::string_view Name(VerdictKind kind);  // "PASS" "FAIL" "MARGINAL" "UNSUPPORTED" "INCONCLUSIVE"

// Why a case failed; part of the signature.
enum class Cause {
  kNone,
  kNan,
  kInf,
  kValue,
  kRefused,
  kUnwritten,
  kInputChanged,
  kReadFault,
  kWriteFault,
  kStrayWrite,
  kCrash,
  kExit,
  kHang,
  kMemoryLimit,
  kFloatEnvironment,
  kProtocol,
  kLeftProcess,
  kLateWrite,
  kLeak,
};
std::string_view Name(Cause cause);  // "nan" "inf" "value" "read_fault" ...

// The element that decided a failure. `index` is [batch, head, query, lane]; lane is the key for
// weights and scores, 0 for lse. Of dk and dv it is [batch, kv head, key, lane].
struct Witness {
  std::array<int64_t, 4> index{0, 0, 0, 0};
  double expected = 0;
  double observed = 0;
  double bound = 0;  // the largest difference that would have passed; 0 for bitwise claims
};

// How an outcome's errors look to finer eyes than the worst-case bound. 0 where nothing was measured.
struct ErrorFigures {
  double probable_ratio = 0;  // largest error / P over the rows looked at; above 1 is suspect
  double rms = 0;             // of error / spread over the sampled rows; see kRmsLimit
  double bias = 0;            // how far errors lean one way (sign test); see kBiasLimit
  double plain_ratio = 0;     // largest error / that of plain same-precision attention ("2x rule")
};

// A cause that a failure fits beside the one that is named.
struct OtherCause {
  std::string cause_class;  // one of CauseClasses()
  std::string phrase;       // as Verdict::likely_cause

  friend bool operator==(const OtherCause&, const OtherCause&) = default;
};

struct Verdict {
  VerdictKind kind = VerdictKind::kPass;
  Cause cause = Cause::kNone;
  // "out" "lse" "weights" "scores" "dq" "dk" "dv", "" when no output is concerned
  std::string output;
  std::string reason;        // MARGINAL: "bits" or "statistics"; UNSUPPORTED, INCONCLUSIVE: why
  std::string sentence;      // FAIL: one sentence a person can act on
  std::string likely_cause;  // FAIL: "as if key 3 took part"; part of the sentence; often empty
  std::string cause_class;   // FAIL: the kind of that cause, one of CauseClasses(); "" = none found
  std::vector<OtherCause>
      other_causes{};              // FAIL: of other classes, best first, where all were asked for
  std::optional<Witness> witness;  // FAIL by value
  size_t call = 0;                 // which of the derived cases the observed value is from
  bool via_mask = false;
  int64_t rows = 0;                // rows judged
  int64_t uninformative_rows = 0;  // bound wider than a tenth of V's range: not evidence
  int64_t unconstrained_rows = 0;  // may overflow: anything goes
  double worst_ratio = 0;          // largest error / bound seen, where a bound decided
  ErrorFigures figures;            // of comparisons with the reference; not part of the verdict
};

// The identity of a failure: never sizes, values, seeds or addresses.
struct Signature {
  static constexpr int kVersion = 2;
  std::string property;
  Cause cause = Cause::kNone;
  std::string output;
  std::string cause_class;  // the explainer's word for the fault; "" = it found none

  friend bool operator==(const Signature&, const Signature&) = default;
  friend auto operator<=>(const Signature& a, const Signature& b) {
    return std::tie(a.property, a.cause, a.output, a.cause_class) <=>
           std::tie(b.property, b.cause, b.output, b.cause_class);
  }
};
// "causal.future_keys_do_not_matter/value/out/bottom-right-diagonal"; no class, no last part.
std::string ToString(const Signature& signature);

// Whether `pattern` names the failure: a pattern without a class names those of every class, so that
// what was written down before a fault had a class still holds.
bool Covers(const Signature& pattern, const Signature& signature);

struct Finding {
  std::string kernel;  // as the user named it
  Signature signature;
  Case smallest;                // fails with this signature
  Verdict verdict;              // of `smallest`
  std::optional<Case> derived;  // the case that the verdict's value is from, if not `smallest`
  std::vector<Case>
      before{};  // calls that must be made before it, on a fresh kernel, or it does not fail
  int64_t cases_to_first = 0;  // cases run before the first failure
  int64_t shrink_steps = 0;    // cases tried while shrinking
  int confirmed = 0;           // failures in `confirmations` reruns of the smallest case
  int confirmations = 0;
};

}  // namespace attest

#endif  // ATTEST_HARNESS_JUDGE_VERDICT_H_
