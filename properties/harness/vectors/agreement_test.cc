// The reference against the ONNX standard's stored results, where the machine has them.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "impl/reference/reference.h"
#include "properties/harness/vectors/vectors.h"

namespace attest {
namespace {

// $ATTEST_ONNX_VECTORS, or shared/onnx-attention beside the checkout.
std::string VectorsFolder() {
  const char* folder = std::getenv("ATTEST_ONNX_VECTORS");
  if (folder != nullptr && *folder != '\0') return folder;
  return std::string(ATTEST_SOURCE_DIR) + "/../shared/onnx-attention";
}

// The stored results were computed by NumPy in the vector's own type, from numbers in 0..1 over at
// most 18 keys. f32: some ten roundings of 2^-24 each stay below 1e-6. f16: one rounding of the
// result is 2^-12 for values below 1, and the probabilities were rounded as well: 5e-4 is two of
// them.
double ToleranceOf(DType dtype) {
  return dtype == DType::kF16 ? 5e-4 : 1e-6;
}

// The largest |expected - actual|, relative where the values exceed 1; NaN where either has one.
double WorstDifference(const Array& expected, const Array& actual) {
  double worst = 0;
  for (size_t i = 0; i < expected.values.size(); ++i) {
    const double scale = std::max(1.0, std::fabs(expected.values[i]));
    const double difference = std::fabs(expected.values[i] - actual.values[i]) / scale;
    if (!(difference <= worst)) worst = difference;
  }
  return worst;
}

void ExpectAgreement(const VectorCase& vector) {
  const Semantics standard{EmptyRow::kZero, LseEmptyRow::kUnspecified};
  const Reference reference = ComputeReference(vector.c.problem, Materialise(vector.c), standard);
  const double tolerance = ToleranceOf(vector.c.problem.dtype);
  ASSERT_EQ(reference.out.shape, vector.out.shape) << vector.name;
  EXPECT_LE(WorstDifference(vector.out, reference.out), tolerance) << vector.name;
  if (!vector.c.problem.want_weights) return;
  ASSERT_EQ(reference.weights.shape, vector.weights.shape) << vector.name;
  EXPECT_LE(WorstDifference(vector.weights, reference.weights), tolerance) << vector.name;
}

TEST(OnnxVectors, ReferenceAgreesWithEverySupportedVector) {
  const std::string folder = VectorsFolder();
  if (!std::filesystem::exists(folder)) {
    GTEST_SKIP() << "no ONNX vectors at " << folder << "; set ATTEST_ONNX_VECTORS to their folder";
  }
  const auto vectors = ReadVectors(folder);
  ASSERT_TRUE(vectors) << vectors.error();
  size_t supported = 0;
  for (const VectorCase& vector : *vectors) {
    if (vector.unsupported.empty()) {
      ++supported;
      ExpectAgreement(vector);
    } else {
      fmt::print("not supported: {}: {}\n", vector.name, fmt::join(vector.unsupported, "; "));
    }
  }
  fmt::print("{} of {} vectors supported\n", supported, vectors->size());
  EXPECT_GT(supported, 0u);
}

}  // namespace
}  // namespace attest
