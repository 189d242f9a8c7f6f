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
};
std::string_view Name(Cause cause);  // "nan" "inf" "value" "read_fault" ...

// The element that decided a failure. `index` is [batch, head, query, lane]; lane is the key for
// weights, 0 for lse.
struct Witness {
  std::array<int64_t, 4> index{0, 0, 0, 0};
  double expected = 0;
  double observed = 0;
  double bound = 0;  // the largest difference that would have passed; 0 for bitwise claims
};

struct Verdict {
  VerdictKind kind = VerdictKind::kPass;
  Cause cause = Cause::kNone;
  std::string output;        // "out" "lse" "weights", "" when no output is concerned
  std::string reason;        // MARGINAL: "bits" or "statistics"; UNSUPPORTED, INCONCLUSIVE: why
  std::string sentence;      // FAIL: one sentence a person can act on
  std::string likely_cause;  // FAIL: "as if key 3 took part"; part of the sentence; often empty
  std::optional<Witness> witness;  // FAIL by value
  size_t call = 0;                 // which of the derived cases the observed value is from
  bool via_mask = false;
  int64_t rows = 0;                // rows judged
  int64_t uninformative_rows = 0;  // bound wider than a tenth of V's range: not evidence
  int64_t unconstrained_rows = 0;  // may overflow: anything goes
  double worst_ratio = 0;          // largest error / bound seen, where a bound decided
};

// The identity of a failure: never sizes, values, seeds or addresses.
struct Signature {
  static constexpr int kVersion = 1;
  std::string property;
  Cause cause = Cause::kNone;
  std::string output;

  friend bool operator==(const Signature&, const Signature&) = default;
  friend auto operator<=>(const Signature& a, const Signature& b) {
    return std::tie(a.property, a.cause, a.output) <=> std::tie(b.property, b.cause, b.output);
  }
};
std::string ToString(const Signature& signature);  // "causal.future_keys_do_not_matter/value/out"

struct Finding {
  std::string kernel;  // as the user named it
  Signature signature;
  Case smallest;               // fails with this signature
  Verdict verdict;             // of `smallest`
  int64_t cases_to_first = 0;  // cases run before the first failure
  int64_t shrink_steps = 0;    // cases tried while shrinking
  int confirmed = 0;           // failures in `confirmations` reruns of the smallest case
  int confirmations = 0;
};

}  // namespace attest

#endif  // ATTEST_HARNESS_JUDGE_VERDICT_H_
