// Shrink candidates that turn features off, and that simplify the options of those that stay.
#include <algorithm>

#include "impl/attention/visibility.h"
#include "properties/harness/case/offers.h"
#include "properties/harness/case/shrink_internal.h"

namespace attest {
namespace {

// Everything that is not the core of the computation, at once.
void MakePlain(Case& c) {
  c.problem.want_lse = c.problem.want_weights = false;
  c.problem.want_scores.reset();
  c.problem.scale.reset();
  c.problem.dtype = DType::kF32;
  c.problem.bias_dtype.reset();
  c.problem.fp8.reset();
  c.layouts = Layouts{};
  c.storage = Storage{};
}

// Everything that hides keys said by the mask alone: fewer features, and bits can go one by one.
void OfferAsMask(const Case& c, std::vector<Case>& out) {
  // 4096: a larger mask is harder to read than the flags it replaces.
  if (ElementCount(c.problem.WeightsShape()) > 4096) return;
  const auto without_flags = [](Problem& p) {
    p.causal = false;
    p.window = Window{};
    p.key_lengths.reset();
    p.prefix_lengths.reset();
    p.documents.reset();
    p.block_mask.reset();
  };
  Offer(c, out, [&](Case& x) {
    x.problem.mask = VisiblePlane(c.problem);
    x.problem.bias.reset();
    without_flags(x.problem);
  });
  Offer(c, out, [&](Case& x) {  // the bias stays what it is
    x.problem.bias.reset();
    x.problem.mask = VisiblePlane(x.problem);
    x.problem.bias = c.problem.bias;
    without_flags(x.problem);
  });
}

void OfferVisibilityOff(const Case& c, std::vector<Case>& out) {
  Offer(c, out, [](Case& x) { x.problem.mask.reset(); });
  Offer(c, out, [](Case& x) {
    x.problem.bias.reset();
    DropBiasData(x);
  });
  Offer(c, out, [](Case& x) { x.problem.window = Window{}; });
  Offer(c, out, [](Case& x) { x.problem.window.left.reset(); });
  Offer(c, out, [](Case& x) { x.problem.window.right.reset(); });
  Offer(c, out, [](Case& x) { x.problem.causal = false; });
  Case no_lengths = c;
  no_lengths.problem.key_lengths.reset();
  OfferAligned(c.problem, no_lengths, out);
  OfferAsMask(c, out);
}

void WithoutGradients(Case& c) {
  c.problem.want_gradients = false;
  c.recipe.dout = ValueFamily::kOnes;
  c.literals.erase(DataTensor::kDout);
  std::erase_if(c.overrides, [](const Override& o) { return o.tensor == DataTensor::kDout; });
}

void OfferOutputsOff(const Case& c, std::vector<Case>& out) {
  Offer(c, out, MakePlain);
  Offer(c, out, [](Case& x) { x.problem.want_lse = false; });
  Offer(c, out, [](Case& x) { x.problem.want_weights = false; });
  Offer(c, out, WithoutGradients);
  Offer(c, out, [](Case& x) { x.layouts = Layouts{}; });
  Offer(c, out, [](Case& x) { x.problem.dtype = DType::kF32; });
  Offer(c, out, [](Case& x) { x.problem.scale.reset(); });
  Offer(c, out, [](Case& x) { x.overrides.clear(); });
}

void OfferLayouts(const Case& c, std::vector<Case>& out) {
  for (Layout Layouts::*tensor : {&Layouts::q, &Layouts::k, &Layouts::v, &Layouts::out}) {
    for (int simpler = 0; simpler < static_cast<int>(c.layouts.*tensor); ++simpler) {
      Offer(c, out, [&](Case& x) { x.layouts.*tensor = static_cast<Layout>(simpler); });
    }
  }
}

void OfferDTypes(const Case& c, std::vector<Case>& out) {
  for (const DType dtype : {DType::kF64, DType::kF16}) {
    Offer(c, out, [&](Case& x) { x.problem.dtype = dtype; });
  }
  if (!c.problem.scale) return;
  for (const double scale : {1.0, 0.5, 2.0}) {
    Offer(c, out, [&](Case& x) { x.problem.scale = scale; });
  }
}

void OfferWindow(const Case& c, std::vector<Case>& out) {
  for (std::optional<int64_t> Window::*side : {&Window::left, &Window::right}) {
    const std::optional<int64_t> value = c.problem.window.*side;
    if (!value) continue;
    for (const int64_t lower : {int64_t{0}, *value / 2, *value - 1}) {
      if (lower >= 0) Offer(c, out, [&](Case& x) { x.problem.window.*side = lower; });
    }
  }
}

void OfferDiagonal(const Case& c, std::vector<Case>& out) {
  if (c.problem.diagonal_offset.empty()) return;
  for (const Alignment alignment :
       {Alignment::kTopLeft, Alignment::kBottomRight, Alignment::kKeyLength}) {
    Offer(c, out, [&](Case& x) { x.problem.diagonal_offset = OffsetsFor(alignment, c.problem); });
  }
  Offer(c, out, [](Case& x) {
    for (int64_t& offset : x.problem.diagonal_offset) offset /= 2;
  });
  for (size_t b = 0; b < std::min<size_t>(c.problem.diagonal_offset.size(), 8); ++b) {
    const int64_t offset = c.problem.diagonal_offset[b];
    for (const int64_t nearer : {int64_t{0}, offset / 2, offset - (offset > 0 ? 1 : -1)}) {
      Offer(c, out, [&](Case& x) { x.problem.diagonal_offset[b] = nearer; });
    }
  }
}

void OfferLengths(const Case& c, std::vector<Case>& out) {
  if (!c.problem.key_lengths) return;
  const std::vector<int64_t>& lengths = *c.problem.key_lengths;
  for (size_t b = 0; b < std::min<size_t>(lengths.size(), 8); ++b) {
    const int64_t missing = c.problem.kv_len - lengths[b];
    for (const int64_t fewer : {int64_t{0}, missing / 2, missing - 1}) {
      if (fewer < 0) continue;
      Case longer = c;
      (*longer.problem.key_lengths)[b] = c.problem.kv_len - fewer;
      OfferAligned(c.problem, longer, out);
    }
  }
}

}  // namespace

void OfferFeaturesOff(const Case& c, std::vector<Case>& out) {
  out.push_back(c);  // smaller only where it holds leftovers, which every candidate is rid of
  OfferVisibilityOff(c, out);
  OfferExtrasOff(c, out);
  OfferOutputsOff(c, out);
}

void OfferSimplerOptions(const Case& c, std::vector<Case>& out) {
  OfferLayouts(c, out);
  OfferDTypes(c, out);
  OfferWindow(c, out);
  OfferDiagonal(c, out);
  OfferLengths(c, out);
}

}  // namespace attest
