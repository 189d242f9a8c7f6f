#include "properties/gradient_cases.h"

#include <vector>

#include "properties/derive.h"
#include "properties/features.h"

namespace attest {
namespace {

// Products of a pair and a lane that the reference may take: its sums are wide, and slow.
constexpr double kMostProducts = 1 << 22;

double Products(const Problem& p) {
  return static_cast<double>(p.batch * p.q_heads * p.q_len) * static_cast<double>(p.kv_len) *
         static_cast<double>(p.head_dim + p.value_dim + 8);
}

// Whether the case's sizes say nothing, or too much.
std::string WhyNot(const Problem& p) {
  if (Products(p) > kMostProducts) return "too large for the reference's gradients";
  return p.batch * p.q_heads * p.q_len == 0 ? "no rows" : "";
}

// What drops out of a case for a backward pass that lacks a feature which no mask can stand for.
Case WithoutWhatIsLacking(Case c, const Contract& backward) {
  Problem& p = c.problem;
  if (!backward.Has(Feature::kSoftcap)) p.softcap = 0;
  if (!backward.Has(Feature::kSinks)) p.sinks.reset();
  if (!backward.Has(Feature::kDropout)) p.dropout.reset();
  if (!backward.Has(Feature::kQueryLengths)) p.query_lengths.reset();
  if (backward.Has(Feature::kGqa) || p.q_heads == p.kv_heads) return c;
  return SelectHeads(c, IndexRange(0, p.kv_heads), 1);
}

// The case with gradients wanted. Where it does not say so itself, the family of dout is drawn by its
// seed: of small numbers mostly, that faults of any size show in.
Case WithGradients(const Case& original, const Contract& contract) {
  const Contract backward = BackwardContract(contract);
  Case c = WithoutWhatIsLacking(WithoutKeyOutputs(WithoutFp8(original)), backward);
  const bool is_packed = c.storage.packed && backward.Has(Feature::kPacked);
  c.storage = {};
  c.storage.packed = is_packed;
  c.problem.want_lse = true;
  if (c.problem.want_gradients) return c;
  c.problem.want_gradients = true;
  using enum ValueFamily;
  c.recipe.dout = DrawFor(c, 0x6AD).Pick(std::vector<ValueFamily>{
      kSmallIntegers, kSmallIntegers, kNormal, kNormal, kHeavyTailed, kOneHot, kOnes, kDenormal});
  return c;
}

}  // namespace

std::string NeedsBackward(const Contract& c) {
  return c.backward ? "" : "the contract offers no backward pass";
}

Derived FromGradients(const Case& original, const Contract& contract,
                      const std::function<Derived(const Case&)>& derive) {
  const Case c = WithGradients(original, contract);
  if (std::string why = WhyNot(c.problem); !why.empty()) return NotApplicable(why);
  return derive(c);
}

}  // namespace attest
