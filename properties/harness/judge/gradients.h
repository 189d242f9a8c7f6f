// Comparing the gradients of outcomes, as compare.h does outputs: dq by rows, dk and dv by keys, dbias by
// elements of the bias, dsink by heads.
#ifndef ATTEST_HARNESS_JUDGE_GRADIENTS_H_
#define ATTEST_HARNESS_JUDGE_GRADIENTS_H_

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "impl/attention/visibility.h"
#include "impl/reference/gradient.h"
#include "properties/harness/judge/evidence.h"
#include "properties/harness/judge/outcome.h"
#include "properties/harness/judge/verdict.h"

namespace attest {

// What the index of a gradient's element says.
enum class GradientBy {
  kRow,   // [batch, head, query, lane]
  kKey,   // [batch, kv head, key, lane]
  kBias,  // [batch, head, query, key], 0 where the bias broadcasts
  kSink,  // [0, head, 0, 0]
};

// One of them, as a table, so that whoever compares them goes through one loop.
struct GradientOutput {
  std::string_view name;
  Array Outcome::*observed;
  Array Gradient::*due;
  GradientBy by;
};
inline constexpr std::array<GradientOutput, 5> kGradientOutputs = {{
    {"dq", &Outcome::dq, &Gradient::dq, GradientBy::kRow},
    {"dk", &Outcome::dk, &Gradient::dk, GradientBy::kKey},
    {"dv", &Outcome::dv, &Gradient::dv, GradientBy::kKey},
    {"dbias", &Outcome::dbias, &Gradient::dbias, GradientBy::kBias},
    {"dsink", &Outcome::dsink, &Gradient::dsink, GradientBy::kSink},
}};

using GradientIndex = std::array<int64_t, 4>;
// Whether an element is looked at.
using GradientFilter = std::function<bool(const GradientOutput&, const GradientIndex&)>;

// Calls visit(output, index) for every element of the gradients that case `index` has, but of dq and dbias
// in rows that are padding: nothing but their being written is promised. `visit` returns false to go
// no further.
void ForEachGradient(const Evidence& evidence, size_t index,
                     const std::function<bool(const GradientOutput&, const GradientIndex&)>& visit);

// Whether any row sees the key.
bool IsSeen(const Problem& problem, int64_t batch, int64_t kv_head, int64_t key);

// Whether the row and `key`, or some key where it is nullopt, have the element of the bias, which must be
// there: each index is 0 where the bias broadcasts.
bool HasBiasElement(const Problem& problem, const GradientIndex& index, const Row& row,
                    std::optional<int64_t> key);

// "dk[batch 0, kv head 1, key 2, lane 3]"; "dbias[every batch, head 1, query 2, key 3]".
std::string DescribeGradient(const Problem& problem, const GradientOutput& output,
                             const GradientIndex& index);

// A failing verdict of case `call` for one element, with its sentence, which says what the row sees or
// who sees the key.
Verdict FailGradientAt(const Evidence& evidence, size_t call, const GradientOutput& output,
                       const GradientIndex& index, double expected, double observed, double bound,
                       std::string_view why, std::string_view due = "was due");

// Adds the likely cause to a failing verdict on the gradients of case `index`, where they are not the reference's and a
// cause is wanted.
void AddGradientCause(const Evidence& evidence, size_t index, Verdict& failed);

// The gradients of case `index` against the reference's, within the worst-case bound. What that leaves
// open counts as unconstrained; rows and keys are counted alike.
Verdict MatchesGradient(const Evidence& evidence, size_t index, std::string_view why);

// Whether the gradients of case `b` are `factor` times those of case `a`: bit for bit when `exact`, else
// a difference within both bounds is MARGINAL (bits; with a factor other than 1 no bits are looked for)
// and more is FAIL. Only elements that `filter` takes
// are compared (of a; default: all), and outputs that both have; b may have more keys or rows behind them.
// Elements that the bounds leave open are not.
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
