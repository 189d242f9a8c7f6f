// Contracts built by hand for this folder's tests: everything, an ONNX-like one, one kernel that
// does next to nothing, one with narrow limits, and one that excludes.
#ifndef ATTEST_HARNESS_CASE_TEST_CONTRACTS_H_
#define ATTEST_HARNESS_CASE_TEST_CONTRACTS_H_

#include <vector>

#include "impl/attention/contract.h"
#include "properties/harness/case/offers.h"

namespace attest {

inline Contract OnnxLikeContract() {
  Contract c;
  c.name = "onnx-like";
  c.causal_offset = {CausalOffset::kByInputs};
  c.features = {Feature::kCausal,        Feature::kMask,      Feature::kBias,
                Feature::kKeyLengths,    Feature::kGqa,       Feature::kWeights,
                Feature::kMaskBroadcast, Feature::kMaskRanks, Feature::kValueDim};
  c.dtypes = {DType::kF32, DType::kF16};
  return c;
}

inline Contract BareContract() {
  Contract c;
  c.name = "bare";
  c.dtypes = {DType::kF32};
  return c;
}

inline Contract NarrowContract() {
  Contract c = EverythingContract();
  c.name = "narrow";
  c.causal_offset = {CausalOffset::kKvLenMinusQLen};
  c.features.erase(Feature::kMaskWithBias);
  c.features.erase(Feature::kZeroSizes);
  c.layouts = {TensorLayout::kBhsd};
  c.strides = Strides::kLastDimContiguous;
  c.limits = Limits{2, 4, 9, 17, 16, 8};
  return c;
}

// No batch item has fewer keys than queries; no scale is 0 or less.
inline Contract KeyRichContract() {
  Contract c = EverythingContract();
  c.name = "key-rich";
  c.excludes = {Exclusion::kFewerKeysThanQueries, Exclusion::kZeroScale, Exclusion::kNegativeScale};
  return c;
}

inline std::vector<Contract> TestContracts() {
  return {EverythingContract(), OnnxLikeContract(), BareContract(), NarrowContract(),
          KeyRichContract()};
}

}  // namespace attest

#endif  // ATTEST_HARNESS_CASE_TEST_CONTRACTS_H_
