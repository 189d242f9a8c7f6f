// Comparing the gradients of outcomes, as compare.h does outputs: dq by rows, dk and dv by keys.
#ifndef ATTEST_HARNESS_JUDGE_GRADIENTS_H_
#define ATTEST_HARNESS_JUDGE_GRADIENTS_H_

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "impl/reference/gradient.h"
#include "properties/harness/judge/evidence.h"
#include "properties/harness/judge/outcome.h"
#include "properties/harness/judge/verdict.h"

namespace attest {

// One of the three, as a table, so that whoever compares them goes through one loop.
struct GradientOutput {
  std::string_view name;
  Array Outcome::*observed;
  Array Gradient::*due;
  bool is_by_key;  // its index is [batch, kv head, key, lane], else [batch, head, query, lane]
};
inline constexpr std::array<GradientOutput, 3> kGradientOutputs = {{
    {"dq", &Outcome::dq, &Gradient::dq, false},
    {"dk", &Outcome::dk, &Gradient::dk, true},
    {"dv", &Outcome::dv, &Gradient::dv, true},
}};

using GradientIndex = std::array<int64_t, 4>;
// Whether an element is looked at.
using GradientFilter = std::function<bool(const GradientOutput&, const GradientIndex&)>;

// Calls visit(output, index) for every element of the gradients of a case, but of dq in rows that are
// padding: nothing but their being written is promised. `visit` returns false to go no further.
void ForEachGradient(const Problem& problem,
                     const std::function<bool(const GradientOutput&, const GradientIndex&)>& visit);

// Whether any row sees the key.
bool IsSeen(const Problem& problem, int64_t batch, int64_t kv_head, int64_t key);

// "dk[batch 0, kv head 1, key 2, lane 3]".
std::string DescribeGradient(const GradientOutput& output, const GradientIndex& index);

// A failing verdict of case `call` for one element, with its sentence, which says what the row sees or
// who sees the key.
Verdict FailGradientAt(const Evidence& evidence, size_t call, const GradientOutput& output,
                       const GradientIndex& index, double expected, double observed, double bound,
                       std::string_view why, std::string_view due = "was due");

// The gradients of case `index` against the reference's, within the worst-case bound. What that leaves
// open counts as unconstrained; rows and keys are counted alike.
Verdict MatchesGradient(const Evidence& evidence, size_t index, std::string_view why);

// Whether the gradients of case `b` are `factor` times those of case `a`: bit for bit when `exact`, else
// a difference within both bounds is MARGINAL (bits; with a factor other than 1 no bits are looked for)
// and more is FAIL. Only elements that `filter` takes
// are compared (of a; default: all); b may have more keys or rows behind them. Elements that the bounds
// leave open are not.
struct GradientRelation {
  bool exact = false;
  double factor = 1;
  GradientFilter filter{};
};
Verdict SameGradient(const Evidence& evidence, size_t a, size_t b, std::string_view why,
                     const GradientRelation& relation = {});

// FAIL where an element of case `index` that `filter` takes is not exactly 0. Those that the bounds leave
// open are not looked at.
Verdict IsZeroGradient(const Evidence& evidence, size_t index, std::string_view why,
                       const GradientFilter& filter);

}  // namespace attest

#endif  // ATTEST_HARNESS_JUDGE_GRADIENTS_H_
