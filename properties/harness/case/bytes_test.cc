#include "properties/harness/case/bytes.h"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "impl/attention/visibility.h"
#include "properties/harness/case/bins.h"
#include "properties/harness/case/equal.h"
#include "properties/harness/case/generator.h"
#include "properties/harness/case/random.h"
#include "properties/harness/case/slice.h"
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

void ExpectRefused(const Case& c, const char* says) {
  const auto record = EncodeCase(c);
  ASSERT_FALSE(record) << says;
  EXPECT_THAT(record.error(), HasSubstr(says));
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

TEST(BytesTest, LaterVersionsHoldEveryFeatureAndDecodeAnyBytes) {
  Draw draw(11);
  BinCounts seen;
  for (int n = 0; n < 1500; ++n) {
    auto bytes = RandomBytes(draw, kCaseBytes);
    bytes[0] = n % 3 == 1 ? 5 : 2;
    if (n % 5 == 0) {  // both lengths and no plane, as packed sequences want it
      bytes[9] = 16;
      bytes[58] = bytes[59] = bytes[61] = 0;
      bytes[60] = 128;
    }
    const Case c = DecodeCase(bytes);
    ASSERT_EQ(Validate(c), std::nullopt) << ToToml({c, {}, {}, {}});
    const auto record = EncodeCase(c);
    ASSERT_TRUE(record) << record.error() << "\n" << ToToml({c, {}, {}, {}});
    ASSERT_TRUE(SameCase(DecodeCase(*record), c)) << ToToml({c, {}, {}, {}});
    seen.Add(c);
  }
  EXPECT_THAT(seen.Missing(EverythingContract()),
              ::testing::Each(::testing::Not(::testing::AnyOf(
                  HasSubstr("storage="), HasSubstr("fp8="), HasSubstr("asked_scores="),
                  HasSubstr("layout_"), HasSubstr("sinks"), HasSubstr("documents")))));
}

// Records from before there was a choice have a zero there.
TEST(BytesTest, ThePresentIsAskedForUnlessARecordSaysOtherwise) {
  CaseRecord bytes{};
  bytes[0] = 2;
  bytes[5] = 3;   // four keys
  bytes[63] = 1;  // a past
  bytes[64] = 2;
  EXPECT_EQ(DecodeCase(bytes).storage.past, 2);
  EXPECT_FALSE(DecodeCase(bytes).storage.without_present);
  bytes[61] = 16;
  EXPECT_TRUE(DecodeCase(bytes).storage.without_present);
  bytes[63] = 0;
  EXPECT_FALSE(DecodeCase(bytes).storage.without_present);
}

// Kinds of storage that came with version 5; before it their numbers meant others.
TEST(BytesTest, FirstCallsHaveARecord) {
  for (const FirstCall first_call : {FirstCall::kPastAbsent, FirstCall::kPastEmpty}) {
    Case c;
    c.problem.kv_len = 4;
    c.storage.first_call = first_call;
    CaseRecord record = EncodeCase(c).value();
    EXPECT_EQ(record[0], 5);
    EXPECT_EQ(DecodeCase(record).storage, c.storage);
    record[0] = 4;
    EXPECT_EQ(DecodeCase(record).storage.first_call, FirstCall::kNo);
  }
}

TEST(BytesTest, SparseBytesOfVersionTwoTooAreValid) {
  Draw draw(12);
  for (int n = 0; n < 3000; ++n) {
    CaseRecord bytes{};
    bytes[0] = 2;
    for (int k = 0; k < 6; ++k) bytes[static_cast<size_t>(draw.Between(1, 255))] = 0xFF;
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

TEST(BytesTest, CasesWithoutNewFeaturesAreStillVersionOne) {
  Case c;
  c.problem.q_len = 40;
  c.problem.kv_len = 17;
  c.problem.mask = BitPlane{{1, 1, 40, 17}, 4, std::vector<uint8_t>(680, 1)};
  c.problem.mask->bits[679] = 0;
  ASSERT_TRUE(EncodeCase(c));
  EXPECT_EQ((*EncodeCase(c))[0], 1);
  c.problem.softcap = 30;
  ExpectRefused(c, "mask of 680 bits does not fit in 192");
  c.problem.mask.reset();
  ASSERT_TRUE(EncodeCase(c));
  EXPECT_EQ((*EncodeCase(c))[0], 2);
}

TEST(BytesTest, TheSizesOfModelsAreVersionThree) {
  Case c;
  c.problem.kv_len = 9;
  ASSERT_TRUE(EncodeCase(c));
  EXPECT_EQ((*EncodeCase(c))[0], 1);
  for (const auto& [axis, size] :
       std::initializer_list<std::pair<Axis, int64_t>>{{Axis::kHeadDim, 41},
                                                       {Axis::kHeadDim, 256},
                                                       {Axis::kHeadDim, 512},
                                                       {Axis::kValueDim, 257},
                                                       {Axis::kQLen, 300},
                                                       {Axis::kKvLen, 1025}}) {
    Case large = c;
    SizeOf(large.problem, axis) = size;
    large.problem.softcap = 30;
    const auto record = EncodeCase(large);
    ASSERT_TRUE(record) << record.error();
    EXPECT_EQ((*record)[0], 3);
    EXPECT_TRUE(SameCase(DecodeCase(*record), large));
  }
}

TEST(BytesTest, VersionThreeDecodesAnyBytesWithinTheWork) {
  Draw draw(13);
  int64_t most_dim = 0, most_len = 0;
  for (int n = 0; n < 400; ++n) {
    auto bytes = RandomBytes(draw, kCaseBytes);
    bytes[0] = 3;
    for (const size_t at : {size_t{1}, size_t{2}, size_t{3}})
      bytes[at] = 0;  // what else would take the work
    for (const size_t at : {size_t{6}, size_t{7}, size_t{255}})
      bytes[at] = n % 2 == 0 ? 0 : bytes[at];
    if (n % 2 == 1) bytes[5] = bytes[241] = 0;
    const Case c = DecodeCase(bytes);
    ASSERT_EQ(Validate(c), std::nullopt) << ToToml({c, {}, {}, {}});
    const auto record = EncodeCase(c);
    ASSERT_TRUE(record) << record.error() << "\n" << ToToml({c, {}, {}, {}});
    ASSERT_TRUE(SameCase(DecodeCase(*record), c)) << ToToml({c, {}, {}, {}});
    const Problem& p = c.problem;
    EXPECT_LE(p.q_len * p.kv_len * (p.head_dim + p.value_dim), 1 << 18);
    most_dim = std::max(most_dim, p.head_dim);
    most_len = std::max(most_len, p.kv_len);
  }
  EXPECT_GT(most_dim, 256);
  EXPECT_GT(most_len, 256);
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

TEST(BytesTest, WhatDoesNotFitIsRefusedByName) {
  Case c;
  c.problem.kv_len = 4096;
  ExpectRefused(c, "kv_len 4096 exceeds 4095");
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
  ratio.problem.q_heads = 17;
  ExpectRefused(ratio, "17 query heads");
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
  Case sinks;
  sinks.problem.q_heads = sinks.problem.kv_heads = 6;
  sinks.problem.dtype = DType::kF64;
  sinks.problem.sinks = {1, 2, 3, 4, 5, 0.1};
  ExpectRefused(sinks, "sinks of 6 heads");
  Case documents;
  documents.problem.kv_len = 3;
  documents.problem.documents = Documents{{0}, {0, 5, 77}};
  ExpectRefused(documents, "no seed makes these documents");
  Case softcap;
  softcap.problem.softcap = 1e-9;
  ExpectRefused(softcap, "softcap 1e-09");
  Case dropout;
  dropout.problem.dropout = Dropout{0.9999, {{1, 1, 1, 1}, 4, {1}}};
  ExpectRefused(dropout, "probability = 0.9999");
  Case page;
  page.storage.page_size = 300;
  ExpectRefused(page, "page_size 300");
  Case invalid;
  invalid.problem.kv_heads = 0;
  ExpectRefused(invalid, "not a valid case");
}

// The parts of a case that its inputs and visible sets do not show.
uint64_t HashOfTheRest(const Case& c) {
  const Problem& p = c.problem;
  uint64_t hash = std::bit_cast<uint64_t>(p.softcap);
  for (const auto* values : {&p.alibi_slopes, &p.sinks}) {
    if (!*values) continue;
    for (const double value : **values) hash = MixIn(hash, std::bit_cast<uint64_t>(value));
  }
  if (p.dropout) {
    hash = MixIn(hash, std::bit_cast<uint64_t>(p.dropout->probability));
    for (const uint8_t bit : p.dropout->keep.bits) hash = MixIn(hash, bit);
  }
  if (p.query_lengths) {
    for (const int64_t length : *p.query_lengths) hash = MixIn(hash, static_cast<uint64_t>(length));
  }
  hash = MixIn(hash, p.want_scores ? 1 + static_cast<uint64_t>(*p.want_scores) : 0);
  hash = MixIn(hash, static_cast<uint64_t>(c.storage.past * 1000 + c.storage.page_size));
  return MixIn(hash, (c.storage.ring ? 1u : 0u) + (c.storage.packed ? 2u : 0u));
}

// If this fails, the corpus means other cases now: add a version instead.
uint64_t HashOfVersion(uint8_t version) {
  Draw draw(10);
  uint64_t hash = 0;
  for (int n = 0; n < 500; ++n) {
    auto bytes = RandomBytes(draw, kCaseBytes);
    bytes[0] = version;
    const Case c = DecodeCase(bytes);
    hash = MixIn(hash, HashInputs(Materialise(c)));
    for (const uint8_t bit : VisiblePlane(c.problem).bits) hash = MixIn(hash, bit);
    for (const Layout layout : {c.layouts.q, c.layouts.k, c.layouts.v, c.layouts.out}) {
      hash = MixIn(hash, static_cast<uint64_t>(layout));
    }
    hash = MixIn(hash, c.problem.want_lse + 2u * c.problem.want_weights);
    if (version > 1) hash = MixIn(hash, HashOfTheRest(c));
    if (version > 4) hash = MixIn(hash, static_cast<uint64_t>(c.storage.first_call));
  }
  return hash;
}

TEST(BytesTest, EveryVersionMeansWhatItAlwaysMeant) {
  EXPECT_EQ(HashOfVersion(1), 0x49b8786ebe8d7f67u);
  EXPECT_EQ(HashOfVersion(2), 0x4d7b177c9fcdd2d4u);
  EXPECT_EQ(HashOfVersion(4), 0xb3ca8e6627f9f09au);
  EXPECT_EQ(HashOfVersion(5), 0x72c75567a079c584u);
}

}  // namespace
}  // namespace attest
