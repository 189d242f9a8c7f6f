#include "impl/attention/numerics.h"

namespace attest {

NumericsProfile DefaultNumerics(DType dtype) {
  NumericsProfile profile;
  if (dtype == DType::kF64) {
    profile.accumulate = profile.scores = profile.probability = DType::kF64;
  } else {
    profile.probability = dtype;
  }
  return profile;
}

// A sum that truncates loses up to an ulp a step where rounding loses half of one. A matrix unit
// that adds b products at once loses b + 1 truncations over b products; b is at least 4 on all that
// are known (Fasi et al., PeerJ CS 330), hence a quarter more.
double AccumulationRoundoff(const NumericsProfile& profile) {
  const double u = TraitsOf(profile.accumulate).unit_roundoff;
  return profile.truncating_accumulators ? 2.5 * u : u;
}

}  // namespace attest
