// The rules of other suites (declared in judging.h), as those suites state them. The references are
// the unrounded ones, which favours the rules.
#include <algorithm>
#include <cmath>

#include "impl/reference/plain_precision.h"
#include "properties/bench/judging.h"

namespace attest {
namespace {

struct Tolerance {
  double relative, absolute;
};

// torch.testing.assert_close, defaults by dtype (torch/testing/_comparison.py).
Tolerance AllcloseTolerance(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return {1e-3, 1e-5};
    case DType::kBF16:
      return {1.6e-2, 1e-5};
    case DType::kF64:
      return {1e-7, 1e-7};
    default:
      return {1.3e-6, 1e-5};
  }
}

// FlashAttention's yardstick for what one rounding of the element type does (tests/cute,
// check_tensor_vs_ref): |ref + 0.3 - 0.3 - ref|, each step rounded.
double RoundTrip(DType dtype, double reference) {
  const double value = RoundTo(dtype, reference);
  const double raised = RoundTo(dtype, value + 0.3);
  return std::abs(RoundTo(dtype, raised - 0.3) - value);
}

constexpr double kNmseLimit = 5e-4;  // llama.cpp, test-backend-ops, flash attention

}  // namespace

OtherRules::OtherRules(const JudgedSample& sample) : sample_(sample) {
  const Problem& p = sample.problem();
  const Array plain = ComputePlainPrecision(p, sample.inputs(), BaseNumerics(p.dtype));
  for (const Row& row : sample.rows()) {
    for (int64_t d = 0; d < p.value_dim; ++d) {
      const double expected = sample.reference().out.At(row.batch, row.head, row.query, d);
      const double error = std::abs(plain.At(row.batch, row.head, row.query, d) - expected);
      plain_error_ = std::max(plain_error_, error);
      allowance_ = std::max(allowance_, 2 * RoundTrip(p.dtype, expected));
    }
  }
}

void OtherRules::Apply(const std::vector<EmulatedRow>& observed, Rejections& rejections) const {
  const Tolerance tolerance = AllcloseTolerance(sample_.problem().dtype);
  double largest = 0, squares = 0, reference_squares = 0;
  for (size_t i = 0; i < observed.size(); ++i) {
    const Row& row = sample_.rows()[i];
    for (size_t d = 0; d < observed[i].out.size(); ++d) {
      const double expected =
          sample_.reference().out.At(row.batch, row.head, row.query, static_cast<int64_t>(d));
      const double error = std::abs(observed[i].out[d] - expected);
      const double allowed = tolerance.absolute + tolerance.relative * std::abs(expected);
      rejections.allclose |= !(error <= allowed);
      if (!(error <= largest)) largest = error;
      squares += error * error;
      reference_squares += expected * expected;
    }
  }
  rejections.twice = !(largest <= 2 * plain_error_);
  rejections.twice_plus = !(largest <= 2 * plain_error_ + allowance_);
  rejections.nmse = !(squares <= kNmseLimit * reference_squares);
}

}  // namespace attest
