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

#include "impl/attention/contract.h"
#include "impl/attention/visibility.h"
#include "impl/reference/bound.h"
#include "impl/reference/extended_reference.h"
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
// most 18 keys: of f32, some ten roundings of 2^-24 each stay below 1e-6.
constexpr double kF32Tolerance = 1e-6;

// What the vectors are held to: of f32 the tolerance, relative where the value exceeds 1; of other
// types the worst that the standard's own arithmetic may do.
class Agreement {
 public:
  explicit Agreement(const VectorCase& vector)
      : vector_(vector),
        p_(vector.c.problem),
        inputs_(Materialise(vector.c)),
        contract_(*ParseContract(R"({"contract": "onnx-attention-24"})")),
        reference_(ReferenceFor(p_, inputs_, contract_)),
        bound_(p_, inputs_, reference_, contract_) {}

  void Expect() {
    ExpectOutput("out", vector_.out, reference_.out, &RowNumbers::out);
    if (p_.want_weights) {
      ExpectOutput("weights", vector_.weights, reference_.weights, &RowNumbers::weights);
    }
    if (p_.want_scores) {
      ExpectOutput("scores", vector_.scores, reference_.asked_scores, &RowNumbers::scores);
    }
    if (vector_.present_k.shape == p_.KShape()) {
      EXPECT_EQ(vector_.present_k, inputs_.k) << vector_.name;
      EXPECT_EQ(vector_.present_v, inputs_.v) << vector_.name;
    }
  }

 private:
  void ExpectOutput(const char* name, const Array& stored, const Array& expected,
                    std::vector<double> RowNumbers::*field) {
    ASSERT_EQ(stored.shape, expected.shape) << vector_.name << " " << name;
    ForEachRow(p_, [&](const Row& row) {
      for (int64_t lane = 0; lane < stored.shape[3]; ++lane) {
        const size_t at = stored.Index(row.batch, row.head, row.query, lane);
        const double want = expected.values[at], got = stored.values[at];
        const double allowed = p_.dtype == DType::kF32
                                   ? kF32Tolerance * std::max(1.0, std::fabs(want))
                                   : (bound_.WorstOf(row).*field)[static_cast<size_t>(lane)];
        EXPECT_TRUE(want == got || std::fabs(want - got) <= allowed)
            << vector_.name << " " << name << "[" << at << "] is " << want << ", stored " << got
            << ", allowed " << allowed;
      }
    });
  }

  const VectorCase& vector_;
  const Problem& p_;
  const Inputs inputs_;
  const Contract contract_;
  const Reference reference_;
  ErrorBound bound_;
};

TEST(OnnxVectors, ReferenceAgreesWithEveryVector) {
  const std::string folder = VectorsFolder();
  if (!std::filesystem::exists(folder)) {
    GTEST_SKIP() << "no ONNX vectors at " << folder << "; set ATTEST_ONNX_VECTORS to their folder";
  }
  const auto vectors = ReadVectors(folder);
  ASSERT_TRUE(vectors) << vectors.error();
  size_t unsupported = 0;
  for (const VectorCase& vector : *vectors) {
    if (vector.unsupported.empty()) {
      Agreement(vector).Expect();
      continue;
    }
    ++unsupported;
    fmt::print("not supported: {}: {}\n", vector.name, fmt::join(vector.unsupported, "; "));
  }
  fmt::print("{} of {} vectors compared\n", vectors->size() - unsupported, vectors->size());
  EXPECT_GT(vectors->size(), unsupported);
  // A folder that the user names may hold anything.
  const bool is_named = std::getenv("ATTEST_ONNX_VECTORS") != nullptr;
  EXPECT_TRUE(is_named || unsupported == 0);
}

}  // namespace
}  // namespace attest
