#include "properties/harness/case/shrink.h"

#include <algorithm>

#include "properties/harness/case/equal.h"
#include "properties/harness/case/shrink_internal.h"

namespace attest {
namespace {

// A diagonal that nothing looks at is noise, and so are overrides and recipes of what is gone.
void DropLeftovers(Case& c) {
  if (!c.problem.causal && !c.problem.window.active()) c.problem.diagonal_offset.clear();
  if (c.problem.bias) return;
  c.recipe.bias = BiasFamily::kZero;
  c.literals.erase(DataTensor::kBias);
  std::erase_if(c.overrides, [](const Override& o) { return o.tensor == DataTensor::kBias; });
}

// Data that stay literal must be values of the element type.
void RoundLiterals(Case& c) {
  for (auto& [tensor, literal] : c.literals) {
    for (double& value : literal.values) value = RoundTo(c.problem.dtype, value);
  }
}

bool IsNew(const Case& candidate, const std::vector<Case>& kept) {
  return std::ranges::none_of(kept, [&](const Case& c) { return SameCase(c, candidate); });
}

}  // namespace

std::vector<Case> ShrinkCandidates(const Case& c) {
  std::vector<Case> offered;
  OfferFeaturesOff(c, offered);
  OfferSmallerSizes(c, offered);
  OfferSimplerOptions(c, offered);
  OfferSimplerData(c, offered);
  const std::vector<uint64_t> measure = CaseMeasure(c);
  std::vector<Case> kept;
  for (Case& candidate : offered) {
    DropLeftovers(candidate);
    if (candidate.problem.dtype != c.problem.dtype) RoundLiterals(candidate);
    if (CaseMeasure(candidate) < measure && !Validate(candidate) && IsNew(candidate, kept)) {
      kept.push_back(std::move(candidate));
    }
  }
  return kept;
}

ShrinkResult Shrink(const Case& c, const std::function<bool(const Case&)>& still_fails,
                    int64_t max_tries) {
  ShrinkResult result;
  result.smallest = c;
  bool smaller = true;
  while (smaller) {
    smaller = false;
    for (Case& candidate : ShrinkCandidates(result.smallest)) {
      if (result.tries >= max_tries) {
        result.budget_spent = true;
        return result;
      }
      ++result.tries;
      if (!still_fails(candidate)) continue;
      result.smallest = std::move(candidate);
      smaller = true;
      break;
    }
  }
  return result;
}

}  // namespace attest
