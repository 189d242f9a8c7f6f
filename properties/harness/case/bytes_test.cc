#include "properties/harness/case/bytes.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "impl/attention/visibility.h"
#include "properties/harness/case/equal.h"
#include "properties/harness/case/generator.h"
#include "properties/harness/case/random.h"
#include "properties/harness/case/test_contracts.h"
#include "properties/harness/case/toml.h"

namespace attest {
namespace {

using ::testing::HasSubstr;

std::vector<uint8_t> RandomBytes(Draw& draw, size_t size) {
  std::vector<uint8_t> bytes(size);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(draw.Bits());
  return bytes;
}

TEST(BytesTest, AnyBytesAreAValidCaseThatEncodesAndDecodesToItself) {
  Draw draw(7);
  for (int n = 0; n < 5000; ++n) {
    const auto bytes = RandomBytes(draw, static_cast<size_t>(draw.Below(300)));
    const Case c = DecodeCase(bytes);
    ASSERT_EQ(Validate(c), std::nullopt) << ToToml({c, {}, {}, {}});
    const auto record = EncodeCase(c);
    ASSERT_TRUE(record) << record.error() << "\n" << ToToml({c, {}, {}, {}});
    ASSERT_TRUE(SameCase(DecodeCase(*record), c));
  }
}

TEST(BytesTest, SparseBytesTooAreValid) {
  Draw draw(8);
  for (int n = 0; n < 5000; ++n) {
    CaseRecord bytes{};
    for (int k = 0; k < 6; ++k) bytes[static_cast<size_t>(draw.Below(256))] = 0xFF;
    const Case c = DecodeCase(bytes);
    ASSERT_EQ(Validate(c), std::nullopt);
    ASSERT_TRUE(EncodeCase(c));
  }
}

TEST(BytesTest, NoBytesAreTheSmallestCase) {
  EXPECT_TRUE(SameCase(DecodeCase({}), Case{}));
}

TEST(BytesTest, SurplusBytesAreIgnored) {
  Draw draw(9);
  std::vector<uint8_t> bytes = RandomBytes(draw, 300);
  const Case c = DecodeCase(bytes);
  bytes.resize(kCaseBytes);
  EXPECT_TRUE(SameCase(DecodeCase(bytes), c));
}

TEST(BytesTest, MostDrawnCasesFitAndTheRestSayWhy) {
  int fits = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const Case c = DrawCase(seed, static_cast<int>(seed % 101), EverythingContract());
    const auto record = EncodeCase(c);
    if (!record) {
      EXPECT_FALSE(record.error().empty());
      EXPECT_NE(record.error(), "no record decodes to it");
      continue;
    }
    ++fits;
    ASSERT_TRUE(SameCase(DecodeCase(*record), c)) << ToToml({c, {}, {}, {}});
  }
  EXPECT_GT(fits, 1400);
}

TEST(BytesTest, OverridesKeepTheirOrderAndTheirValues) {
  Case c;
  c.problem.kv_len = 200;
  c.problem.dtype = DType::kF64;
  c.overrides = {{DataTensor::kV, {0, 0, 199, 0}, std::nan("")},
                 {DataTensor::kK, {0, 0, 3, 0}, -std::numeric_limits<double>::infinity()},
                 {DataTensor::kK, {0, 0, 3, 0}, 0.1}};
  const auto record = EncodeCase(c);
  ASSERT_TRUE(record) << record.error();
  EXPECT_TRUE(SameCase(DecodeCase(*record), c));
}

void ExpectRefused(const Case& c, const char* says) {
  const auto record = EncodeCase(c);
  ASSERT_FALSE(record) << says;
  EXPECT_THAT(record.error(), HasSubstr(says));
}

TEST(BytesTest, WhatDoesNotFitIsRefusedByName) {
  Case c;
  c.problem.kv_len = 4096;
  ExpectRefused(c, "kv_len 4096 exceeds 255");
  Case literal;
  literal.literals[DataTensor::kQ] = Array({1, 1, 1, 1});
  ExpectRefused(literal, "literal tensors do not fit");
  Case overrides;
  overrides.overrides.resize(5);
  ExpectRefused(overrides, "5 overrides");
  Case mask;
  mask.problem.q_len = 40;
  mask.problem.kv_len = 40;
  mask.problem.mask = BitPlane{{1, 1, 40, 40}, 4, std::vector<uint8_t>(1600, 1)};
  EXPECT_TRUE(EncodeCase(mask));
  mask.problem.mask->bits[1599] = 0;
  ExpectRefused(mask, "mask of 1600 bits");
  Case ratio;
  ratio.problem.q_heads = 5;
  ExpectRefused(ratio, "5 query heads");
  Case work;
  work.problem.q_len = work.problem.head_dim = work.problem.value_dim = 40;
  work.problem.kv_len = 255;
  ExpectRefused(work, "work");
  Case window;
  window.problem.window.left = 70000;
  ExpectRefused(window, "window");
  Case offset;
  offset.problem.diagonal_offset = {40000};
  ExpectRefused(offset, "diagonal_offset");
  Case invalid;
  invalid.problem.kv_heads = 0;
  ExpectRefused(invalid, "not a valid case");
}

// If this fails, the corpus means other cases now: add a version instead.
TEST(BytesTest, VersionOneMeansWhatItAlwaysMeant) {
  Draw draw(10);
  uint64_t hash = 0;
  for (int n = 0; n < 500; ++n) {
    auto bytes = RandomBytes(draw, kCaseBytes);
    bytes[0] = 1;
    const Case c = DecodeCase(bytes);
    hash = MixIn(hash, HashInputs(Materialise(c)));
    for (const uint8_t bit : VisiblePlane(c.problem).bits) hash = MixIn(hash, bit);
    for (const Layout layout : {c.layouts.q, c.layouts.k, c.layouts.v, c.layouts.out}) {
      hash = MixIn(hash, static_cast<uint64_t>(layout));
    }
    hash = MixIn(hash, c.problem.want_lse + 2u * c.problem.want_weights);
  }
  EXPECT_EQ(hash, 0x49b8786ebe8d7f67u) << std::hex << "0x" << hash;
}

}  // namespace
}  // namespace attest
