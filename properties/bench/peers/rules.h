// The acceptance rules of the suites that projects judge attention by today, as functions of what a
// kernel gave, what is right, and what plain attention in the call's own precision gives. Described
// in each project's own terms and written anew. Callers: the runs of `attest_bench peers`.
#ifndef ATTEST_BENCH_PEERS_RULES_H_
#define ATTEST_BENCH_PEERS_RULES_H_

#include "impl/attention/array.h"
#include "impl/attention/dtype.h"

namespace attest {

// One output of one call. The arrays have one shape; `baseline` may be empty where the rule needs
// none.
struct Judged {
  const Array& got;
  const Array& reference;  // in double precision
  const Array& baseline;   // same-precision plain attention
  DType dtype;             // of the output
};

enum class RuleKind {
  // Each element within absolute + relative * |reference|: torch.allclose, numpy.testing,
  // FlashInfer, ONNX's backend tests.
  kTolerance,
  // The largest error within factor * the baseline's largest error + absolute (FlashAttention).
  kMultiple,
  // A tolerance taken from the baseline: absolute = factor * max(its largest error, 1e-3 or 1e-5 by
  // type), relative = factor * max(its largest relative error, the type's default). PyTorch.
  kFudge,
  // Sum of squared errors within `absolute` of the sum of the reference's squares; no NaN;
  // infinities of the same sign in the same places (llama.cpp).
  kNmse,
};

struct Rule {
  RuleKind kind = RuleKind::kTolerance;
  double relative = 0;
  double absolute = 0;
  double factor = 1;
};

constexpr Rule ToleranceRule(double relative, double absolute) {
  return {RuleKind::kTolerance, relative, absolute};
}
constexpr Rule MultipleRule(double factor, double absolute = 0) {
  return {RuleKind::kMultiple, 0, absolute, factor};
}
constexpr Rule FudgeRule(double factor) {
  return {RuleKind::kFudge, 0, 0, factor};
}
constexpr Rule NmseRule(double most) {
  return {RuleKind::kNmse, 0, most};
}

inline bool NeedsBaseline(const Rule& rule) {
  return rule.kind == RuleKind::kMultiple || rule.kind == RuleKind::kFudge;
}

// Whether the suite would pass the output. The reference is first rounded to the output's type, as
// the suites round theirs. A NaN that the reference has not is never accepted; equal infinities
// are.
bool Accepts(const Rule& rule, const Judged& judged);

}  // namespace attest

#endif  // ATTEST_BENCH_PEERS_RULES_H_
