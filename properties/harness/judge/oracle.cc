#include "properties/harness/judge/oracle.h"

#include "impl/reference/extended_reference.h"
#include "properties/harness/case/equal.h"

namespace attest {

Oracle::Oracle(std::span<const Case> cases, const Contract& contract)
    : cases_(cases), contract_(contract), entries_(cases.size()), owners_(cases.size()) {
  for (size_t i = 0; i < cases.size(); ++i) {
    size_t first = 0;
    while (first < i && !SameComputation(cases[first], cases[i])) ++first;
    owners_[i] = first;
  }
}

const Inputs& Oracle::InputsOf(size_t index) {
  auto& inputs = EntryOf(index).inputs;
  if (!inputs) inputs = std::make_unique<Inputs>(Materialise(cases_[index]));
  return *inputs;
}

const Reference& Oracle::ReferenceOf(size_t index) {
  auto& reference = EntryOf(index).reference;
  if (!reference) {
    reference = std::make_unique<Reference>(
        ReferenceFor(cases_[index].problem, InputsOf(index), contract_));
  }
  return *reference;
}

ErrorBound& Oracle::BoundOf(size_t index) {
  auto& bound = EntryOf(index).bound;
  if (!bound) {
    bound = std::make_unique<ErrorBound>(cases_[index].problem, InputsOf(index), ReferenceOf(index),
                                         contract_);
  }
  return *bound;
}

const Gradient& Oracle::GradientOf(size_t index) {
  auto& gradient = EntryOf(index).gradient;
  if (!gradient) {
    gradient = std::make_unique<Gradient>(ComputeGradient(cases_[index].problem, InputsOf(index),
                                                          ReferenceOf(index), contract_.semantics));
  }
  return *gradient;
}

const Gradient& Oracle::GradientBoundOf(size_t index) {
  auto& bound = EntryOf(index).gradient_bound;
  if (!bound) {
    bound = std::make_unique<Gradient>(BoundGradient(cases_[index].problem, InputsOf(index),
                                                     ReferenceOf(index), GradientOf(index),
                                                     BoundOf(index), contract_));
  }
  return *bound;
}

}  // namespace attest
