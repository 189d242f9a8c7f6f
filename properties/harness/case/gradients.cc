#include "properties/harness/case/gradients.h"

namespace attest {

Contract BackwardContract(const Contract& contract) {
  Contract backward = contract;
  backward.features = contract.backward.value();
  backward.scores.clear();
  backward.fp8.clear();
  return backward;
}

}  // namespace attest
