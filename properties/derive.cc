#include "properties/derive.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "properties/harness/case/offers.h"

namespace attest {
namespace {

void DropData(Case& c, DataTensor tensor) {
  c.literals.erase(tensor);
  std::erase_if(c.overrides, [&](const Override& o) { return o.tensor == tensor; });
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
  return literal;
}

Case WithData(Case c, DataTensor tensor, Array values) {
  DropData(c, tensor);
  for (double& x : values.values) x = RoundTo(c.problem.dtype, x);
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
  if ((!p.causal && !p.window.active()) || CanExpressDiagonal(contract, p)) return c;
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
  c.problem.mask = VisiblePlane(hiding);
  c.problem.causal = false;
  c.problem.window = {};
  c.problem.key_lengths.reset();
  return c;
}

Case WithoutHiding(Case c) {
  c.problem.causal = false;
  c.problem.window = {};
  c.problem.key_lengths.reset();
  c.problem.mask.reset();
  return WithoutBias(std::move(c));
}

Case ExtendKeys(const Case& original, int64_t extra) {
  Case c = AsLiteral(original);
  Problem& p = c.problem;
  const int64_t before = p.kv_len;
  Draw draw = DrawFor(c, 0xE7);
  if (!p.key_lengths) p.key_lengths.emplace(static_cast<size_t>(p.batch), before);
  p.kv_len += extra;
  const auto grow = [&](Array& array, size_t axis, auto&& fresh) {
    Array longer(array.shape);
    longer.shape[axis] += extra;
    longer.values.resize(static_cast<size_t>(ElementCount(longer.shape)));
    for (int64_t a = 0; a < longer.shape[0]; ++a)
      for (int64_t b = 0; b < longer.shape[1]; ++b)
        for (int64_t i = 0; i < longer.shape[2]; ++i)
          for (int64_t d = 0; d < longer.shape[3]; ++d) {
            const bool kept = (axis == 2 ? i : d) < before;
            longer.At(a, b, i, d) = kept ? array.At(a, b, i, d) : fresh();
          }
    array = std::move(longer);
  };
  const auto small = [&] { return static_cast<double>(draw.Between(-3, 3)); };
  grow(c.literals[DataTensor::kK], 2, small);
  grow(c.literals[DataTensor::kV], 2, small);
  for (std::optional<BitPlane>* plane : {&p.mask, &p.bias}) {
    if (!*plane || (*plane)->shape[3] == 1) continue;
    Array bits((*plane)->shape);
    std::ranges::copy((*plane)->bits, bits.values.begin());
    grow(bits, 3, [] { return 1.0; });
    (*plane)->shape = bits.shape;
    (*plane)->bits.assign(bits.values.begin(), bits.values.end());
    if (plane == &p.bias) grow(c.literals[DataTensor::kBias], 3, [] { return 0.0; });
  }
  return c;
}

Derived Of(std::vector<Case> cases) {
  return {std::move(cases), ""};
}
Derived NotApplicable(std::string why) {
  return {{}, std::move(why)};
}

namespace {

bool CanMask(const Contract& c) {
  return c.Has(Feature::kMask) || c.Has(Feature::kBias);
}

}  // namespace

std::string AlwaysSupported(const Contract&) {
  return "";
}
std::string NeedsCausal(const Contract& c) {
  return c.Has(Feature::kCausal) ? "" : "the contract offers no causal masking";
}
std::string NeedsWindow(const Contract& c) {
  return c.Has(Feature::kWindow) ? "" : "the contract offers no window";
}
std::string NeedsLengths(const Contract& c) {
  return c.Has(Feature::kKeyLengths) || CanMask(c) ? ""
                                                   : "the contract offers no key lengths or mask";
}
std::string NeedsMask(const Contract& c) {
  return CanMask(c) ? "" : "the contract offers no mask";
}
std::string NeedsBias(const Contract& c) {
  return c.Has(Feature::kBias) ? "" : "the contract offers no additive mask";
}
std::string NeedsLse(const Contract& c) {
  return c.lse != LseKind::kNone ? "" : "the contract offers no lse";
}
std::string NeedsWeights(const Contract& c) {
  return c.Has(Feature::kWeights) ? "" : "the contract offers no weights";
}

}  // namespace attest
