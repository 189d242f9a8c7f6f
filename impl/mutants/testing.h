// A tiny call for the tests of seeded faults, whose right answer anyone can see.
#ifndef ATTEST_MUTANTS_TESTING_H_
#define ATTEST_MUTANTS_TESTING_H_

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "impl/abi/testing/direct_call.h"
#include "impl/mutants/plain.h"

namespace attest {

// The kernel `mutant` of a variant; the plain one without a fault by default.
inline DirectKernel Make(std::string_view id = {}, int threads = 1) {
  std::vector<std::pair<std::string, std::string>> options;
  if (!id.empty()) options.emplace_back("variant", id);
  auto kernel = DirectKernel::Create(MutantKernelTable(), options, threads);
  EXPECT_TRUE(kernel) << kernel.error();
  return std::move(*kernel);
}

// q all ones, one head of dimension 1; keys are 0 and values 1, 2, ... until a test writes others.
// Scores equal the keys.
struct Small {
  Problem problem;
  Inputs inputs;

  Small(int64_t batch, int64_t q_len, int64_t kv_len) {
    problem.batch = batch;
    problem.q_len = q_len;
    problem.kv_len = kv_len;
    Resize();
  }
  // Makes new inputs of the problem's sizes.
  void Resize() {
    inputs = {Array(problem.QShape(), 1), Array(problem.KShape()), Array(problem.VShape()), {}};
    for (size_t n = 0; n < inputs.v.values.size(); ++n) inputs.v.values[n] = 1.0 + double(n);
  }
  // Bits of a mask of the given shape.
  void Mask(const Shape4& shape, std::vector<uint8_t> bits) {
    problem.mask = BitPlane{shape, static_cast<int>(shape.size()), std::move(bits)};
  }
  DirectResult Run(std::string_view id, const DirectForm& form = {}) const {
    return Make(id).Run(problem, inputs, form);
  }
  double Out(std::string_view id, int64_t b = 0, int64_t h = 0, int64_t i = 0) const {
    return Run(id).out.At(b, h, i, 0);
  }
  double Lse(std::string_view id, int64_t b = 0, int64_t h = 0, int64_t i = 0) const {
    Small s = *this;
    s.problem.want_lse = true;
    return s.Run(id).lse.At(b, h, i, 0);
  }
};

}  // namespace attest

#endif  // ATTEST_MUTANTS_TESTING_H_
