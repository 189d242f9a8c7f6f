// Down to a call, through the reference as a plug-in, and back: whatever a contract lacks and however
// keys are stored, the answer is the reference's.
#include <cmath>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attest/kernel.h"
#include "impl/reference/plugin/reference_kernel.h"
#include "impl/reference/reference.h"
#include "properties/harness/case/random.h"
#include "properties/harness/judge/compare.h"
#include "properties/harness/lower/testing.h"

namespace attest {
namespace {

DLDataType TypeOf(DType dtype) {
  if (dtype == DType::kI64) return {kDLInt, 64, 1};
  if (dtype == DType::kBool || IsFp8(dtype)) return {kDLUInt, 8, 1};
  const auto code = static_cast<uint8_t>(dtype == DType::kBF16 ? kDLBfloat : kDLFloat);
  return {code, static_cast<uint8_t>(8 * ByteSize(dtype)), 1};
}

// Calls the reference's table with the call's own images.
CallResult RunReference(Call call) {
  std::vector<DLTensor> tensors;
  std::vector<attest_argument> arguments;
  tensors.reserve(call.tensors.size());
  for (CallTensor& t : call.tensors) {
    if (t.is_output) std::fill(t.image.begin(), t.image.end(), std::byte{0xA5});
    tensors.push_back({t.image.data(),
                       {kDLCPU, 0},
                       static_cast<int>(t.shape.size()),
                       TypeOf(t.dtype),
                       t.shape.data(),
                       t.strides.data(),
                       0});
    arguments.push_back({t.role, &tensors.back()});
  }
  std::vector<attest_option> options;
  for (const CallOption& o : call.options) {
    attest_option option{o.id, o.is_float ? 1 : 0, {o.i}};
    if (o.is_float) option.value.f = o.f;
    options.push_back(option);
  }
  char message[256] = "";
  attest_call raw{sizeof raw,       static_cast<uint32_t>(options.size()),
                  options.data(),   static_cast<uint32_t>(arguments.size()),
                  arguments.data(), message,
                  sizeof message};
  const attest_create_info info{sizeof info, 1, 0, nullptr, message, sizeof message};
  void* kernel = nullptr;
  CallResult result;
  EXPECT_EQ(ReferenceKernelTable()->create(&info, &kernel), ATTEST_OK) << message;
  const attest_status status = ReferenceKernelTable()->forward(kernel, &raw);
  ReferenceKernelTable()->destroy(kernel);
  result.status = status == ATTEST_OK ? CallStatus::kOk : CallStatus::kUnsupported;
  result.message = message;
  for (const CallTensor& t : call.tensors) {
    if (t.is_output) result.outputs.push_back(t.image);
  }
  return result;
}

BitPlane DrawPlane(const Shape4& shape, Draw& draw) {
  BitPlane plane{shape, 4, {}};
  for (int64_t n = ElementCount(shape); n > 0; --n) plane.bits.push_back(draw.Percent(70) ? 1 : 0);
  return plane;
}

std::vector<int64_t> DrawLengths(int64_t count, int64_t most, Draw& draw) {
  std::vector<int64_t> lengths;
  for (int64_t n = 0; n < count; ++n) lengths.push_back(draw.Between(0, most));
  return lengths;
}

std::vector<double> DrawEighths(int64_t count, Draw& draw) {
  std::vector<double> values;
  for (int64_t n = 0; n < count; ++n) {
    values.push_back(static_cast<double>(draw.Between(-8, 16)) / 8);
  }
  return values;
}

void DrawVisibility(Problem& p, Draw& draw) {
  p.causal = draw.OneIn(2);
  if (draw.OneIn(3)) p.window = {draw.Between(0, 3), draw.Between(0, 3)};
  if (draw.OneIn(2)) {
    for (int64_t b = 0; b < p.batch; ++b) p.diagonal_offset.push_back(draw.Between(-2, 4));
  }
  if (draw.OneIn(2)) p.key_lengths = DrawLengths(p.batch, p.kv_len, draw);
  if (draw.OneIn(3)) p.query_lengths = DrawLengths(p.batch, p.q_len, draw);
  if (draw.OneIn(3)) p.prefix_lengths = DrawLengths(p.batch, p.kv_len, draw);
  if (draw.OneIn(4)) {
    p.documents = Documents{DrawLengths(p.batch * p.q_len, 1, draw),
                            DrawLengths(p.batch * p.kv_len, 1, draw)};
  }
  if (draw.OneIn(4)) {
    BlockMask blocks{draw.Between(1, 3), draw.Between(1, 4), {}};
    const Shape4 shape = {1, p.q_heads, (p.q_len + blocks.block_q - 1) / blocks.block_q,
                          (p.kv_len + blocks.block_k - 1) / blocks.block_k};
    blocks.plane = DrawPlane(shape, draw);
    p.block_mask = std::move(blocks);
  }
  if (draw.OneIn(4)) p.mask = DrawPlane({1, 1, p.q_len, p.kv_len}, draw);
}

void DrawScores(Problem& p, Draw& draw) {
  if (draw.OneIn(4)) p.bias = DrawPlane({p.batch, 1, 1, p.kv_len}, draw);
  if (draw.OneIn(4)) p.softcap = 3;
  if (draw.OneIn(3)) p.alibi_slopes = DrawEighths(p.q_heads, draw);
  if (draw.OneIn(4)) p.sinks = DrawEighths(p.q_heads, draw);
  if (draw.OneIn(4)) p.dropout = Dropout{0.25, DrawPlane(p.WeightsShape(), draw)};
  if (draw.OneIn(4)) p.fp8 = Fp8{DType::kE5M2, 2, 0.5, 1};
  if (draw.OneIn(4)) p.want_scores = static_cast<ScoreMode>(draw.Below(4));
  p.want_lse = true;
  p.want_weights = draw.OneIn(2);
}

// A small problem of anything, in some layout and storage.
Case DrawAnything(uint64_t seed) {
  Draw draw(seed);
  Case c;
  Problem& p = c.problem;
  p.batch = draw.Between(1, 2);
  p.kv_heads = draw.Between(1, 2);
  p.q_heads = p.kv_heads * draw.Between(1, 2);
  p.q_len = draw.Between(1, 4);
  p.kv_len = draw.Between(1, 7);
  p.head_dim = draw.Between(1, 3);
  p.value_dim = draw.Between(1, 3);
  DrawVisibility(p, draw);
  DrawScores(p, draw);
  c.recipe = {ScoreFamily::kSmallIntegers, ValueFamily::kSmallIntegers, BiasFamily::kSmallIntegers,
              seed};
  const auto layout = [&] {
    const auto any = static_cast<Layout>(draw.Below(kLayoutCount));
    return any == Layout::kSharedHead ? Layout::kBhsd : any;
  };
  c.layouts = {layout(), layout(), layout(), layout()};
  switch (draw.Below(5)) {
    case 0:
      c.storage.past = draw.Between(1, p.kv_len);
      break;
    case 1:
      c.storage.page_size = draw.Between(1, 3);
      break;
    case 2:
      c.storage.ring = true;
      break;
    case 3:
      c.storage.packed = true;
      break;
    default:
      break;
  }
  return c;
}

// NaN and infinities only where they are due. The references' sums may differ in their last bits, for
// a lowered ALiBi is added in another order.
void ExpectClose(const char* name, const Array& observed, const Array& expected, const Case& c,
                 uint64_t seed) {
  ASSERT_EQ(observed.shape, expected.shape) << name << " of seed " << seed;
  ForEachRow(c.problem, [&](const Row& row) {
    if (c.storage.packed && IsPaddedQuery(c.problem, row)) return;
    for (int64_t d = 0; d < expected.shape[3]; ++d) {
      const double x = observed.At(row.batch, row.head, row.query, d);
      const double y = expected.At(row.batch, row.head, row.query, d);
      EXPECT_TRUE(WithinBound(x, y, 1e-6 * (1 + std::abs(y))))
          << name << " of seed " << seed << ", batch " << row.batch << ", head " << row.head
          << ", query " << row.query << ", lane " << d << ": " << x << " for " << y;
    }
  });
}

// Whether the contract takes the case; if so it must come back right.
bool ComesBack(const Case& c, const Contract& contract, uint64_t seed) {
  const Inputs inputs = Materialise(c);
  const auto lowered = Lower(c, inputs, contract);
  if (!lowered) {
    EXPECT_FALSE(lowered.error().reason.empty());
    return false;
  }
  const Outcome outcome = Lift(c, contract, *lowered, RunReference(lowered->call));
  EXPECT_EQ(outcome.status, OutcomeStatus::kComputed) << "seed " << seed << ": " << outcome.reason;
  if (outcome.status != OutcomeStatus::kComputed) return true;
  const Reference due = ComputeReference(c.problem, inputs, contract.semantics);
  ExpectClose("out", outcome.out, due.out, c, seed);
  ExpectClose("lse", outcome.lse, due.lse, c, seed);
  if (c.problem.want_weights) ExpectClose("weights", outcome.weights, due.weights, c, seed);
  if (c.problem.want_scores) ExpectClose("scores", outcome.scores, due.asked_scores, c, seed);
  if (c.storage.past > 0 && !c.problem.fp8) {
    EXPECT_EQ(outcome.present_k, inputs.k) << seed;
    EXPECT_EQ(outcome.present_v, inputs.v) << seed;
  }
  return true;
}

// How many of 3000 drawn cases the contract takes.
int CountComingBack(const Contract& contract) {
  int count = 0;
  for (uint64_t seed = 0; seed < 3000 && !::testing::Test::HasFailure(); ++seed) {
    const Case c = DrawAnything(seed);
    if (Validate(c)) continue;  // packed, with what does not go with it
    count += ComesBack(c, contract, seed) ? 1 : 0;
  }
  return count;
}

TEST(RoundTripTest, EveryFeatureAndStorageComesBack) {
  EXPECT_GT(CountComingBack(Everything()), 2000);
}

TEST(RoundTripTest, WhatIsLackingComesBackThroughMasks) {
  Contract contract = Everything();
  for (const Feature f : {Feature::kCausal, Feature::kWindow, Feature::kPrefixLengths,
                          Feature::kKeyLengths, Feature::kDocuments, Feature::kBlockMask,
                          Feature::kAlibi, Feature::kQueryLengths, Feature::kMaskBroadcast}) {
    contract.features.erase(f);
  }
  EXPECT_GT(CountComingBack(contract), 2000);
  contract.features.erase(Feature::kMaskWithBias);
  EXPECT_GT(CountComingBack(contract), 2000);
  contract.features.erase(Feature::kMask);
  EXPECT_GT(CountComingBack(contract), 2000);
}

TEST(RoundTripTest, WithoutMasksOnlyWhatIsOfferedComesBack) {
  Contract contract = Everything();
  contract.features = {Feature::kCausal,     Feature::kGqa,       Feature::kValueDim,
                       Feature::kKeyLengths, Feature::kZeroSizes, Feature::kPresent,
                       Feature::kWeights,    Feature::kRing,      Feature::kPast};
  const int count = CountComingBack(contract);
  EXPECT_GT(count, 20);
  EXPECT_LT(count, 500);
}

}  // namespace
}  // namespace attest
