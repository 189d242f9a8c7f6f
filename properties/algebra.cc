// Algebra: what holds of attention whatever the numbers are. The output is linear in V; a vector added
// to every key shifts a row's scores as a whole; the scale may be folded into q; lanes of zeros add
// nothing; one visible key gives its value. Has caught: scale applied to the bias or twice, padded
// head sizes read beyond their end.
#include <algorithm>
#include <array>
#include <cmath>

#include "properties/derive.h"
#include "properties/features.h"
#include "properties/judging.h"

namespace attest {
namespace {

// --- Linear in V ---

Array SmallIntegers(Draw& draw, const Shape4& shape) {
  Array array(shape);
  for (double& x : array.values) x = static_cast<double>(draw.Between(-8, 8));
  return array;
}

// Two V of small integers, and their sum, which every type holds exactly.
Derived TwoValuesAndTheirSum(const Case& original, const Contract&) {
  const Case c = AsLiteral(WithoutFp8(original));
  Draw draw = DrawFor(c, 0x11EA);
  Array first = SmallIntegers(draw, c.problem.VShape());
  Array second = SmallIntegers(draw, c.problem.VShape());
  Array sum = first;
  for (size_t n = 0; n < sum.values.size(); ++n) sum.values[n] += second.values[n];
  return Of(WithData(c, DataTensor::kV, std::move(sum)),
            WithData(c, DataTensor::kV, std::move(first)),
            WithData(c, DataTensor::kV, std::move(second)));
}

Verdict JudgeSum(const Evidence& evidence) {
  const Problem& p = evidence.cases[0].problem;
  return JudgeOrdinaryRows(evidence, [&](const Row& row) -> std::optional<Verdict> {
    for (int64_t d = 0; d < p.value_dim; ++d) {
      const Seen sum = OutOf(evidence, 0, row, d);
      const Seen a = OutOf(evidence, 1, row, d), b = OutOf(evidence, 2, row, d);
      const double here = 0x1p-53 * std::abs(a.got + b.got);  // added here in double
      if (auto failed = Expect(evidence, 0, "out", row, d, sum.got, a.got + b.got,
                               sum.bound + a.bound + b.bound + here,
                               "the output is not linear in V: V1 + V2 gives another answer than "
                               "the sum of theirs",
                               OtherCalls({1, 2}))) {
        return failed;
      }
    }
    return std::nullopt;
  });
}

// --- A vector added to every key ---

// q and k are small integers, so that the sum is exact. A sink and a softcap do not move along.
Derived KeysShifted(const Case& original, const Contract&) {
  Case c = Lively(WithoutScoresOutput(original));
  c.problem.sinks.reset();
  c.problem.softcap = 0;
  c.problem.want_lse = true;
  c = AsLiteral(c);
  if (c.problem.kv_len == 0) return NotApplicable("no keys");
  Draw draw = DrawFor(c, 0x5417);
  Array keys = c.literals.at(DataTensor::kK);
  for (int64_t b = 0; b < keys.shape[0]; ++b)
    for (int64_t h = 0; h < keys.shape[1]; ++h)
      for (int64_t d = 0; d < keys.shape[3]; ++d) {
        const auto step = static_cast<double>(draw.Between(-3, 3));
        for (int64_t j = 0; j < keys.shape[2]; ++j) keys.At(b, h, j, d) += step;
      }
  return Of(c, WithData(c, DataTensor::kK, std::move(keys)));
}

// By how much the row's scores have moved: scale * q.c, exact but for the product with the scale.
double ShiftOf(const Evidence& evidence, const Row& row) {
  const Problem& p = evidence.cases[0].problem;
  const Array& q = evidence.oracle.InputsOf(0).q;
  const Array& before = evidence.oracle.InputsOf(0).k;
  const Array& after = evidence.oracle.InputsOf(1).k;
  const int64_t kv_head = row.head / p.heads_per_kv_head();
  double sum = 0;
  for (int64_t d = 0; d < p.head_dim; ++d) {
    sum += q.At(row.batch, row.head, row.query, d) *
           (after.At(row.batch, kv_head, 0, d) - before.At(row.batch, kv_head, 0, d));
  }
  return p.EffectiveScale() * sum;
}

std::optional<Verdict> JudgeShiftedRow(const Evidence& evidence, const Row& row) {
  constexpr std::string_view kWhy = "the same vector was added to every key";
  for (int64_t d = 0; d < evidence.cases[0].problem.value_dim; ++d) {
    const Seen before = OutOf(evidence, 0, row, d), after = OutOf(evidence, 1, row, d);
    if (auto failed = Expect(evidence, 1, "out", row, d, after.got, before.got,
                             before.bound + after.bound, kWhy, TheFirstCall())) {
      return failed;
    }
  }
  if (evidence.outcomes[0].lse.empty()) return std::nullopt;
  const Seen before = LseOf(evidence, 0, row), after = LseOf(evidence, 1, row);
  const double shift = ShiftOf(evidence, row);
  const double due = before.got + shift;
  const double here = 0x1p-52 * (std::abs(before.got) + std::abs(shift));  // added here in double
  return Expect(evidence, 1, "lse", row, 0, after.got, due, before.bound + after.bound + here,
                "the same vector c was added to every key, so scale * q.c was due on top",
                OtherCalls({0}));
}

Verdict JudgeShifted(const Evidence& evidence) {
  return JudgeOrdinaryRows(evidence,
                           [&](const Row& row) { return JudgeShiftedRow(evidence, row); });
}

// --- The scale ---

bool IsExactlyStored(const Case& c, DataTensor tensor, const Array& array) {
  return std::ranges::all_of(array.values, [&](double x) {
    return std::isnan(x) || RoundedFor(c.problem, tensor, x) == x;
  });
}

// q doubled and the scale halved: exact, so every score is the same number.
Derived ScaleFolded(const Case& original, const Contract&) {
  Case c = AsLiteral(WithoutFp8(original));
  c.problem.scale = original.problem.EffectiveScale();
  Array q = c.literals.at(DataTensor::kQ);
  for (double& x : q.values) x *= 2;
  if (!IsExactlyStored(c, DataTensor::kQ, q)) return NotApplicable("twice q passes the format");
  Case folded = WithData(c, DataTensor::kQ, std::move(q));
  folded.problem.scale = *c.problem.scale / 2;
  return Of(std::move(c), std::move(folded));
}

Verdict JudgeFolded(const Evidence& evidence) {
  return SameResult(evidence, 0, 1, "half the scale and twice q give another answer");
}

// --- Lanes of zeros ---

Derived LanesPadded(const Case& original, const Contract& contract) {
  const Problem& p = original.problem;
  const int64_t extra = DrawFor(original, 0x9AD).Between(1, 9) * contract.limits.head_dim_multiple;
  const int64_t limit = contract.limits.max_head_dim;
  if (limit > 0 && p.head_dim + extra > limit) return NotApplicable("beyond the head_dim limit");
  Case c = original;
  c.problem.scale = p.EffectiveScale();
  return Of(AsLiteral(c), PadLanes(c, extra));
}

Verdict JudgeLanes(const Evidence& evidence) {
  return SameResult(evidence, 0, 1, "lanes of zeros behind q and k change the answer");
}

// --- One visible key ---

// Every row that sees keys is left one of them. Nothing else may take a share or drop it.
Derived OneKeyARow(const Case& original, const Contract&) {
  Case c = WithExplicitMask(WithoutScoresOutput(original));
  c.problem.sinks.reset();
  c.problem.dropout.reset();
  const Problem before = c.problem;
  Draw draw = DrawFor(original, 0x04E);
  size_t flat = 0;
  ForEachRow(before, [&](const Row& row) {
    const std::vector<int64_t> keys = VisibleKeys(before, row);
    const int64_t chosen = keys.empty() ? -1 : draw.Pick(keys);
    for (int64_t j = 0; j < before.kv_len; ++j, ++flat) c.problem.mask->bits[flat] = j == chosen;
  });
  return Of(std::move(c));
}

Verdict JudgeOneKey(const Evidence& evidence) {
  const Problem& p = evidence.cases[0].problem;
  const Array& v = evidence.oracle.InputsOf(0).v;
  bool bits_differ = false;
  Verdict verdict = JudgeOrdinaryRows(evidence, [&](const Row& row) -> std::optional<Verdict> {
    const int64_t key = VisibleKeys(p, row).front();
    for (int64_t d = 0; d < p.value_dim; ++d) {
      const double due = v.At(row.batch, row.head / p.heads_per_kv_head(), key, d);
      const Seen seen = OutOf(evidence, 0, row, d);
      bits_differ |= !SameBits(seen.got, due);
      if (auto failed = Expect(evidence, 0, "out", row, d, seen.got, due, seen.bound,
                               "the row sees one key, and its value did not come back")) {
        return failed;
      }
    }
    return std::nullopt;
  });
  if (verdict.kind == VerdictKind::kPass && bits_differ) {
    verdict.kind = VerdictKind::kMarginal;
    verdict.reason = "bits";
  }
  return verdict;
}

constexpr std::array<Property, 5> kProperties = {{
    {"algebra.output_is_linear_in_values", "V1 + V2 gives the sum of what V1 and V2 give",
     Exactness::kBound, Rung::kWithinBound, "nothing", AlwaysSupported, TwoValuesAndTheirSum,
     JudgeSum},
    {"algebra.a_vector_added_to_every_key_shifts_the_lse_alone",
     "the same vector added to every key leaves the output and shifts the lse by its score",
     Exactness::kBound, Rung::kWithinBound, "nothing", AlwaysSupported, KeysShifted, JudgeShifted},
    {"algebra.the_scale_folds_into_q", "half the scale with twice q gives the same",
     Exactness::kBound, Rung::kWithinBound, "nothing", AlwaysSupported, ScaleFolded, JudgeFolded},
    {"algebra.lanes_of_zeros_change_nothing",
     "q and k padded with zeros, the scale kept, give the same", Exactness::kBound,
     Rung::kWithinBound, "value_dim", Needs<Feature::kValueDim>, LanesPadded, JudgeLanes},
    {"algebra.one_visible_key_gives_its_value", "a row that sees one key returns its value",
     Exactness::kBound, Rung::kWithinBound, "a mask", NeedsMask, OneKeyARow, JudgeOneKey},
}};

}  // namespace

std::span<const Property> AlgebraProperties() {
  return kProperties;
}

}  // namespace attest
