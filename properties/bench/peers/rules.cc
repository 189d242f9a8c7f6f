#include "properties/bench/peers/rules.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attest {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// 0 for equal infinities, infinite where one side alone is not finite, NaN included.
double ErrorOf(double got, double expected) {
  if (got == expected) return 0;
  const double error = std::abs(got - expected);
  return std::isnan(error) ? kInfinity : error;
}

double Expected(const Judged& judged, size_t n) {
  return RoundTo(judged.dtype, judged.reference.values[n]);
}

// How far the baseline is from the unrounded reference.
struct BaselineErrors {
  double absolute = 0;
  double relative = 0;  // 0 / 0 left out
};

BaselineErrors ErrorsOfBaseline(const Judged& judged) {
  BaselineErrors largest;
  for (size_t n = 0; n < judged.baseline.values.size(); ++n) {
    const double expected = judged.reference.values[n];
    const double error = ErrorOf(judged.baseline.values[n], expected);
    if (error == 0) continue;
    largest.absolute = std::max(largest.absolute, error);
    largest.relative = std::max(largest.relative, error / std::abs(expected));
  }
  return largest;
}

bool IsWithin(const Judged& judged, double relative, double absolute) {
  for (size_t n = 0; n < judged.got.values.size(); ++n) {
    const double expected = Expected(judged, n);
    const double error = ErrorOf(judged.got.values[n], expected);
    if (error == 0) continue;
    if (!(error <= absolute + relative * std::abs(expected)) || std::isinf(error)) return false;
  }
  return true;
}

double LargestError(const Judged& judged, const Array& values) {
  double largest = 0;
  for (size_t n = 0; n < values.values.size(); ++n) {
    largest = std::max(largest, ErrorOf(values.values[n], Expected(judged, n)));
  }
  return largest;
}

double DefaultAbsolute(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16 ? 1e-3 : 1e-5;
}

double DefaultRelative(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 1e-3;
    case DType::kBF16:
      return 1.6e-2;
    case DType::kF64:
      return 1e-7;
    default:
      return 1.3e-6;
  }
}

bool IsWithinFudge(const Judged& judged, double factor) {
  const BaselineErrors errors = ErrorsOfBaseline(judged);
  return IsWithin(judged, factor * std::max(errors.relative, DefaultRelative(judged.dtype)),
                  factor * std::max(errors.absolute, DefaultAbsolute(judged.dtype)));
}

bool IsWithinNmse(const Judged& judged, double most) {
  double squares = 0, reference_squares = 0;
  for (size_t n = 0; n < judged.got.values.size(); ++n) {
    const double expected = Expected(judged, n);
    const double error = ErrorOf(judged.got.values[n], expected);
    squares += error * error;
    if (std::isfinite(expected)) reference_squares += expected * expected;
  }
  return squares <= most * reference_squares;
}

}  // namespace

bool Accepts(const Rule& rule, const Judged& judged) {
  if (judged.got.shape != judged.reference.shape) return false;
  switch (rule.kind) {
    case RuleKind::kTolerance:
      return IsWithin(judged, rule.relative, rule.absolute);
    case RuleKind::kMultiple: {
      const double allowed = rule.factor * LargestError(judged, judged.baseline) + rule.absolute;
      const double error = LargestError(judged, judged.got);
      return error <= allowed && std::isfinite(error);
    }
    case RuleKind::kFudge:
      return IsWithinFudge(judged, rule.factor);
    case RuleKind::kNmse:
      return IsWithinNmse(judged, rule.absolute);
  }
  return false;
}

}  // namespace attest
