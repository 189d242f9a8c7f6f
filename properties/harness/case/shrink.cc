#include "properties/harness/case/shrink.h"

#include <algorithm>

#include "properties/harness/case/equal.h"
#include "properties/harness/case/offers.h"
#include "properties/harness/case/shrink_internal.h"
#include "properties/harness/case/storage.h"

namespace attest {
namespace {

// A diagonal that nothing looks at is noise, and so are overrides and recipes of what is gone.
void DropLeftovers(Case& c) {
  Problem& p = c.problem;
  if (!LooksAtDiagonal(p)) p.diagonal_offset.clear();
  if (!p.causal) p.prefix_lengths.reset();
  if (!p.bias || p.bias_dtype == p.dtype) p.bias_dtype.reset();
  if (p.bias) return;
  c.recipe.bias = BiasFamily::kZero;
  DropBiasData(c);
}

// Whether all numbers of the one case are of the types that the other has.
bool HaveSameTypes(const Problem& a, const Problem& b) {
  return a.dtype == b.dtype && a.fp8 == b.fp8 && a.bias_dtype == b.bias_dtype;
}

// Data that stay must be values of their new types.
void RoundToTypes(Case& c) {
  Problem& p = c.problem;
  for (auto& [tensor, literal] : c.literals) {
    for (double& value : literal.values) value = RoundedFor(p, tensor, value);
  }
  for (auto* values : {&p.alibi_slopes, &p.sinks}) {
    if (!*values) continue;
    for (double& value : **values) value = RoundTo(p.LseDType(), value);
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
  OfferSimplerPlanes(c, offered);
  OfferSimplerExtras(c, offered);
  OfferSimplerData(c, offered);
  const std::vector<uint64_t> measure = CaseMeasure(c);
  std::vector<Case> kept;
  for (Case& candidate : offered) {
    DropLeftovers(candidate);
    if (!HaveSameTypes(candidate.problem, c.problem)) RoundToTypes(candidate);
    MendStorage(candidate);
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
