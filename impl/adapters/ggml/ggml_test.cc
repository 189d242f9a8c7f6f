// The kernel through its table, in this process. Tests that need ggml are skipped where it is not
// installed.
#include "impl/adapters/ggml/ggml_kernel.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "impl/abi/testing/direct_call.h"
#include "impl/abi/testing/random_problem.h"
#include "impl/attention/dtype.h"
#include "impl/reference/reference.h"

namespace attest {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using Options = std::vector<std::pair<std::string, std::string>>;

class GgmlTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto kernel = DirectKernel::Create(GgmlKernelTable());
    if (!kernel && kernel.error().find("ci/setup --with ggml") != std::string::npos) {
      GTEST_SKIP() << kernel.error();
    }
    ASSERT_TRUE(kernel) << kernel.error();
  }
};

DirectKernel Make(const Options& options) {
  auto kernel = DirectKernel::Create(GgmlKernelTable(), options);
  EXPECT_TRUE(kernel) << kernel.error();
  return std::move(*kernel);
}

// Two queries, two keys, one number each. Scores are 0 and ln 3 times the scale, values 4 and 8.
struct Tiny {
  Problem problem;
  Inputs inputs;

  explicit Tiny(DType dtype) {
    problem.q_len = problem.kv_len = 2;
    problem.dtype = dtype;
    problem.scale = std::log(3.0);
    inputs = {Array(problem.QShape(), 1), Array(problem.KShape()), Array(problem.VShape()), {}};
    inputs.k.values = {0, 1};
    inputs.v.values = {4, 8};
  }
};

// Sizes beyond every tile (64 queries and keys), groups of heads, and a plane over either, broadcast or not.
Problem DrawProblem(std::mt19937_64& random, DType dtype, bool additive) {
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
  };
  Problem p;
  p.dtype = dtype;
  p.batch = 1 + below(3);
  p.kv_heads = 1 + below(2);
  p.q_heads = p.kv_heads * (1 + below(3));
  p.q_len = below(3) == 0 ? 1 + below(140) : 1 + below(9);
  p.kv_len = below(3) == 0 ? 1 + below(140) : 1 + below(9);
  p.head_dim = 1 + below(40);
  p.value_dim = below(2) == 0 ? 16 * (1 + below(3)) : 1 + below(40);
  if (below(2) == 0) p.sinks = std::vector<double>(static_cast<size_t>(p.q_heads), 0.5);
  BitPlane plane{{p.batch, p.q_heads, p.q_len, p.kv_len}, 4, {}};
  for (size_t axis = 0; axis < 3; ++axis) {
    if (below(2) == 0) plane.shape[axis] = 1;
  }
  for (int64_t n = ElementCount(plane.shape); n > 0; --n) plane.bits.push_back(below(4) != 0);
  // A softcap only with a mask: without one, flash_attn_ext counts the padding of a tile of keys.
  if (below(4) == 0) return p;
  (additive ? p.bias : p.mask) = plane;
  if (below(2) == 0) p.softcap = 2;
  return p;
}

// Not the error bound: what is tested here is that every number is where it belongs.
void ExpectNear(const DirectResult& result, const Reference& reference, DType dtype, double range) {
  ASSERT_EQ(result.status, ATTEST_OK) << result.message;
  const double tolerance = range * (dtype == DType::kF32   ? 1e-5
                                    : dtype == DType::kF16 ? 0.01
                                                           : 0.05);
  for (size_t n = 0; n < result.out.values.size(); ++n) {
    ASSERT_NEAR(result.out.values[n], reference.out.values[n], tolerance) << "element " << n;
  }
}

// Rows that see no key have a sink, for unfused ggml says nothing of the others.
bool HasEmptyRow(const Reference& reference, const Problem& p) {
  const auto kv_len = static_cast<size_t>(p.kv_len);
  for (size_t row = 0; row < reference.scores.values.size(); row += kv_len) {
    const auto first = reference.scores.values.begin() + static_cast<int64_t>(row);
    if (std::all_of(first, first + p.kv_len, [](double s) { return s == -INFINITY; })) return true;
  }
  return false;
}

TEST(GgmlAbsence, MissingLibrarySaysHowToInstallIt) {
  setenv("ATTEST_GGML", "no/such/libattest_ggml.so", 1);
  const auto kernel = DirectKernel::Create(GgmlKernelTable());
  unsetenv("ATTEST_GGML");
  ASSERT_FALSE(kernel);
  EXPECT_THAT(kernel.error(), HasSubstr("ci/setup --with ggml"));
  EXPECT_THAT(kernel.error(), Not(HasSubstr("\n")));
}

TEST(GgmlAbsence, UnknownOptionsAreNamedInTheRefusal) {
  const auto refusal = [](const Options& options) {
    return DirectKernel::Create(GgmlKernelTable(), options).error();
  };
  EXPECT_THAT(refusal({{"tile", "16"}}), HasSubstr("option tile is unknown"));
  EXPECT_THAT(refusal({{"variant", "sdpa"}}), HasSubstr("unknown variant \"sdpa\""));
  EXPECT_THAT(refusal({{"cache", "q8_0"}}), HasSubstr("not \"q8_0\""));
}

TEST_F(GgmlTest, TwoKeysGiveWhatTheHandCalculates) {
  for (const char* variant : {"flash", "unfused"}) {
    Tiny tiny(DType::kF32);
    const DirectKernel kernel = Make({{"variant", variant}, {"cache", "f32"}});
    // Weights 1/4 and 3/4: 4/4 + 8 * 3/4.
    DirectResult result = kernel.Run(tiny.problem, tiny.inputs);
    ASSERT_EQ(result.status, ATTEST_OK) << result.message;
    EXPECT_NEAR(result.out.values[1], 7, 1e-5);
    // A sink of ln 4 halves them.
    tiny.problem.sinks = std::vector<double>{std::log(4.0f)};
    result = kernel.Run(tiny.problem, tiny.inputs);
    EXPECT_NEAR(result.out.values[1], 3.5, 1e-5);
  }
}

TEST_F(GgmlTest, EveryCacheAndLayoutAgreesWithTheReference) {
  std::mt19937_64 random(7);
  for (const auto& [cache, dtype] : {std::pair("f32", DType::kF32), std::pair("f16", DType::kF16),
                                     std::pair("bf16", DType::kBF16)}) {
    for (const std::string variant : {"flash", "unfused"}) {
      const DirectKernel kernel = Make({{"variant", variant}, {"cache", cache}});
      const bool additive = variant == "unfused" || dtype == DType::kF16;
      for (int round = 0; round < 20; ++round) {
        const Problem p = DrawProblem(random, dtype, additive);
        const Inputs inputs = RandomInputs(random, p);
        const Reference reference = ComputeReference(p, inputs, Semantics{});
        if (variant == "unfused" && !p.sinks && HasEmptyRow(reference, p)) continue;
        const auto [least, most] =
            std::minmax_element(inputs.v.values.begin(), inputs.v.values.end());
        const auto layout = round % 2 == 0 ? DirectLayout::kDense : DirectLayout::kBshd;
        SCOPED_TRACE(variant + " " + cache + " round " + std::to_string(round));
        ExpectNear(kernel.Run(p, inputs, layout), reference, dtype, std::max(*most, -*least));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(GgmlTest, WhatGgmlHasNoWordForIsUnsupported) {
  const DirectKernel flash = Make({{"cache", "f32"}});
  Tiny tiny(DType::kF32);
  EXPECT_EQ(flash.Run(tiny.problem, tiny.inputs, DirectLayout::kGapped).status,
            ATTEST_OK);  // dim 1
  tiny.problem.want_lse = true;
  EXPECT_EQ(flash.Run(tiny.problem, tiny.inputs).status, ATTEST_UNSUPPORTED);
  tiny.problem.want_lse = false;
  tiny.problem.bias = BitPlane{{1, 1, 1, 2}, 4, {1, 1}};
  tiny.inputs.bias = Array({1, 1, 1, 2});
  DirectResult result = flash.Run(tiny.problem, tiny.inputs);
  EXPECT_EQ(result.status, ATTEST_UNSUPPORTED);
  EXPECT_EQ(result.message, "ggml's mask is f16");
  EXPECT_EQ(Make({}).Run(tiny.problem, tiny.inputs).message,
            "another element type than ?cache= says");
}

}  // namespace
}  // namespace attest
