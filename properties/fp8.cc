// fp8: 8-bit q, k and v with their scales mean the same values that wider tensors hold. Has caught:
// a scale applied twice or to the other tensor, e5m2 read as e4m3.
#include <algorithm>
#include <array>
#include <cmath>

#include "properties/derive.h"
#include "properties/features.h"
#include "properties/harness/judge/compare.h"

namespace attest {
namespace {

// Scales are powers of two, so that every value is one of the wider type too.
Derived NarrowAndWide(const Case& original, const Contract& contract) {
  Case narrow = Lively(WithoutScoresOutput(original));
  Draw draw = DrawFor(original, 0xF8);
  const std::vector<DType> formats(contract.fp8.begin(), contract.fp8.end());
  const std::vector<double> scales = {0.25, 0.5, 1, 2};
  narrow.problem.fp8 =
      Fp8{draw.Pick(formats), draw.Pick(scales), draw.Pick(scales), draw.Pick(scales)};
  narrow = AsLiteral(narrow);
  Case wide = narrow;
  wide.problem.fp8.reset();
  return Of(std::move(narrow), std::move(wide));
}

Verdict JudgeWide(const Evidence& evidence) {
  // The wide call is the one to go by.
  return SameResult(evidence, 1, 0, "8-bit tensors give another answer than the same values wide");
}

std::string NeedsFp8(const Contract& c) {
  return c.fp8.empty() ? "the contract offers no fp8" : "";
}

// A scale of q doubled with a scale of k halved leaves every score; a scale of v is the output's.
Derived ScalesMoved(const Case& original, const Contract& contract) {
  Derived derived = NarrowAndWide(original, contract);
  Case moved = derived.cases[0];
  moved.problem.fp8->q_scale *= 2;
  moved.problem.fp8->k_scale /= 2;
  for (double& x : moved.literals[DataTensor::kQ].values) x *= 2;
  for (double& x : moved.literals[DataTensor::kK].values) x /= 2;
  return Of(derived.cases[0], moved);
}

Verdict JudgeScales(const Evidence& evidence) {
  return SameResult(evidence, 0, 1,
                    "twice the scale of q and half that of k is the same attention");
}

constexpr std::array<Property, 2> kProperties = {{
    {"fp8.equals_the_same_values_wide",
     "8-bit q, k and v with scales equal the values they stand for", Exactness::kBound,
     Rung::kWithinBound, "fp8", NeedsFp8, NarrowAndWide, JudgeWide},
    {"fp8.scales_of_q_and_k_multiply", "a factor moved from one scale to the other changes nothing",
     Exactness::kBound, Rung::kWithinBound, "fp8", NeedsFp8, ScalesMoved, JudgeScales},
}};

}  // namespace

std::span<const Property> Fp8Properties() {
  return kProperties;
}

}  // namespace attest
