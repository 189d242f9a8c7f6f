#include "properties/derive.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "properties/harness/case/offers.h"
#include "properties/harness/case/storage.h"

namespace attest {
namespace {

void DropData(Case& c, DataTensor tensor) {
  c.literals.erase(tensor);
  std::erase_if(c.overrides, [&](const Override& o) { return o.tensor == tensor; });
}

// Heads that differ cannot lie at one address. Whoever offers that offers every layout.
void Unshare(Layout& layout) {
  if (layout == Layout::kSharedHead) layout = Layout::kBhsd;
}

BitPlane DrawPlane(const Case& c, uint64_t salt) {
  Draw draw = DrawFor(c, salt);
  BitPlane plane;
  plane.shape = c.problem.WeightsShape();
  for (size_t axis = 0; axis < 2; ++axis) {
    if (draw.Percent(40)) plane.shape[axis] = 1;
  }
  for (int64_t n = ElementCount(plane.shape); n > 0; --n) plane.bits.push_back(draw.Percent(70));
  return plane;
}

// A bias whose finite values are the ones there (or drawn) and whose hidden places follow `plane`.
Case WithBiasPlane(Case c, BitPlane plane) {
  c.problem.bias = std::move(plane);
  DropData(c, DataTensor::kBias);
  return c;
}

}  // namespace

Draw DrawFor(const Case& c, uint64_t salt) {
  return Draw(MixIn(c.recipe.seed, salt));
}

Case AsLiteral(const Case& c) {
  Inputs inputs = Materialise(c);
  Case literal = c;
  literal.overrides.clear();
  literal.literals[DataTensor::kQ] = std::move(inputs.q);
  literal.literals[DataTensor::kK] = std::move(inputs.k);
  literal.literals[DataTensor::kV] = std::move(inputs.v);
  if (c.problem.bias) literal.literals[DataTensor::kBias] = std::move(inputs.bias);
  if (c.problem.want_gradients) literal.literals[DataTensor::kDout] = std::move(inputs.dout);
  return literal;
}

Case WithData(Case c, DataTensor tensor, Array values) {
  DropData(c, tensor);
  for (double& x : values.values) x = RoundedFor(c.problem, tensor, x);
  if (tensor == DataTensor::kK) Unshare(c.layouts.k);
  if (tensor == DataTensor::kV) Unshare(c.layouts.v);
  c.literals[tensor] = std::move(values);
  return c;
}

Case WithValues(Case c, ValueFamily family) {
  DropData(c, DataTensor::kV);
  c.recipe.values = family;
  return c;
}

Case WithScores(Case c, ScoreFamily family) {
  DropData(c, DataTensor::kQ);
  DropData(c, DataTensor::kK);
  c.recipe.scores = family;
  return c;
}

Case WithBias(Case c, BiasFamily family) {
  DropData(c, DataTensor::kBias);
  c.recipe.bias = family;
  return c;
}

Case WithoutBias(Case c) {
  DropData(c, DataTensor::kBias);
  c.problem.bias.reset();
  return c;
}

Case Realign(Case c, const Contract& contract) {
  Problem& p = c.problem;
  if (!LooksAtDiagonal(p) || CanExpressDiagonal(contract, p)) return c;
  const std::vector<Alignment> offered = OfferedAlignments(contract, p.key_lengths.has_value());
  if (!offered.empty()) p.diagonal_offset = OffsetsFor(offered.front(), p);
  return c;
}

Case EnsureCausal(Case c, const Contract& contract) {
  if (c.problem.causal) return c;
  Draw draw = DrawFor(c, 0xCA);
  c.problem.causal = true;
  const bool lengths = c.problem.key_lengths.has_value();
  std::vector<Alignment> offered = OfferedAlignments(contract, lengths);
  std::erase(offered, Alignment::kExplicit);
  if (!c.problem.window.active() && !offered.empty()) {
    c.problem.diagonal_offset = OffsetsFor(draw.Pick(offered), c.problem);
  }
  return Realign(std::move(c), contract);
}

Case EnsureWindow(Case c, const Contract& contract) {
  if (c.problem.window.active()) return c;
  Draw draw = DrawFor(c, 0x21);
  c.problem.window.left = draw.Below(4);
  if (draw.Percent(50)) c.problem.window.right = draw.Below(4);
  FitWindow(contract, c.problem);
  return Realign(std::move(c), contract);
}

Case EnsureLengths(Case c, const Contract& contract) {
  if (c.problem.key_lengths) return c;
  Draw draw = DrawFor(c, 0x1E);
  c.problem.key_lengths.emplace();
  for (int64_t b = 0; b < c.problem.batch; ++b) {
    c.problem.key_lengths->push_back(draw.Between(0, c.problem.kv_len));
  }
  return Realign(std::move(c), contract);
}

Case EnsureMask(Case c) {
  if (!c.problem.mask) c.problem.mask = DrawPlane(c, 0x3A);
  return c;
}

Case EnsureBias(Case c) {
  const bool hides = c.problem.bias && std::ranges::count(c.problem.bias->bits, 0) > 0;
  return hides ? c : WithBiasPlane(std::move(c), DrawPlane(c, 0xB1));
}

Case WithExplicitMask(Case c) {
  Problem hiding = c.problem;
  hiding.bias.reset();
  BitPlane visible = VisiblePlane(hiding);
  c = WithBiasAlone(std::move(c));
  c.problem.mask = std::move(visible);
  return c;
}

Case WithBiasAlone(Case c) {
  Problem& p = c.problem;
  p.causal = false;
  p.window = {};
  p.key_lengths.reset();
  p.prefix_lengths.reset();
  p.documents.reset();
  p.block_mask.reset();
  p.mask.reset();
  return c;
}

Case WithoutHiding(Case c) {
  return WithoutBias(WithBiasAlone(std::move(c)));
}

namespace {

// `array` with `extra` more indices at the end of `axis`, filled by `fresh`.
template <typename Fresh>
Array Grown(const Array& array, size_t axis, int64_t extra, Fresh&& fresh) {
  Array longer(array.shape);
  longer.shape[axis] += extra;
  longer.values.resize(static_cast<size_t>(ElementCount(longer.shape)));
  std::array<int64_t, 4> i{};
  for (i[0] = 0; i[0] < longer.shape[0]; ++i[0])
    for (i[1] = 0; i[1] < longer.shape[1]; ++i[1])
      for (i[2] = 0; i[2] < longer.shape[2]; ++i[2])
        for (i[3] = 0; i[3] < longer.shape[3]; ++i[3]) {
          const bool kept = i[axis] < array.shape[axis];
          longer.At(i[0], i[1], i[2], i[3]) = kept ? array.At(i[0], i[1], i[2], i[3]) : fresh();
        }
  return longer;
}

// The plane with `extra` more keys, attended to.
void GrowPlane(BitPlane& plane, int64_t extra) {
  Array bits(plane.shape);
  std::ranges::copy(plane.bits, bits.values.begin());
  bits = Grown(bits, 3, extra, [] { return 1.0; });
  plane.shape = bits.shape;
  plane.bits.assign(bits.values.begin(), bits.values.end());
}

void GrowDocuments(const Problem& p, int64_t extra, Documents& documents) {
  std::vector<int64_t> longer;
  for (int64_t b = 0; b < p.batch; ++b) {
    const auto first = documents.key.begin() + b * p.kv_len;
    longer.insert(longer.end(), first, first + p.kv_len);
    longer.insert(longer.end(), static_cast<size_t>(extra), 0);
  }
  documents.key = std::move(longer);
}

}  // namespace

Case PadLanes(const Case& original, int64_t extra) {
  Case c = AsLiteral(original);
  c.problem.scale = original.problem.EffectiveScale();
  c.problem.head_dim += extra;
  for (const DataTensor tensor : {DataTensor::kQ, DataTensor::kK}) {
    c.literals[tensor] = Grown(c.literals[tensor], 3, extra, [] { return 0.0; });
  }
  return c;
}

Case ExtendKeys(const Case& original, int64_t extra) {
  Case c = AsLiteral(original.problem.block_mask ? WithExplicitMask(original) : original);
  Problem& p = c.problem;
  Draw draw = DrawFor(c, 0xE7);
  p.key_lengths = original.problem.key_lengths;
  if (!p.key_lengths) p.key_lengths.emplace(static_cast<size_t>(p.batch), p.kv_len);
  const auto small = [&] { return static_cast<double>(draw.Between(-3, 3)); };
  for (const DataTensor tensor : {DataTensor::kK, DataTensor::kV}) {
    c = WithData(c, tensor, Grown(c.literals[tensor], 2, extra, small));
  }
  if (p.mask && p.mask->shape[3] != 1) GrowPlane(*p.mask, extra);
  if (p.dropout) GrowPlane(p.dropout->keep, extra);
  if (p.documents) GrowDocuments(p, extra, *p.documents);
  if (p.bias && p.bias->shape[3] != 1) {
    GrowPlane(*p.bias, extra);
    c.literals[DataTensor::kBias] =
        Grown(c.literals[DataTensor::kBias], 3, extra, [] { return 0.0; });
  }
  p.kv_len += extra;
  return c;
}

namespace {

// Gives the heads of `tensor` addresses of their own, with the data they have.
void Spread(Case& c, DataTensor tensor) {
  Layout& layout = tensor == DataTensor::kK ? c.layouts.k : c.layouts.v;
  if (layout != Layout::kSharedHead) return;
  if (c.literals.count(tensor) == 0) {
    Inputs inputs = Materialise(c);
    c.literals[tensor] = std::move(tensor == DataTensor::kK ? inputs.k : inputs.v);
  }
  Unshare(layout);
}

bool AllShare(const std::vector<Case>& cases, Layout Layouts::*tensor) {
  return std::ranges::all_of(
      cases, [&](const Case& c) { return c.layouts.*tensor == Layout::kSharedHead; });
}

}  // namespace

Derived Of(std::vector<Case> cases) {
  for (Case& c : cases) MendStorage(c);
  const bool packed = std::ranges::all_of(cases, [](const Case& c) { return c.storage.packed; });
  const bool share_k = AllShare(cases, &Layouts::k), share_v = AllShare(cases, &Layouts::v);
  for (Case& c : cases) {
    c.storage.packed = packed;
    if (!share_k) Spread(c, DataTensor::kK);
    if (!share_v) Spread(c, DataTensor::kV);
  }
  return {std::move(cases), ""};
}

Derived NotApplicable(std::string why) {
  return {{}, std::move(why)};
}

}  // namespace attest
