// Shrink candidates that turn features off, and that simplify the options of those that stay.
#include <algorithm>

#include "impl/attention/visibility.h"
#include "properties/harness/case/offers.h"
#include "properties/harness/case/shrink_internal.h"

namespace attest {
namespace {

// A copy of the case with `change` done to it.
template <typename Change>
void Offer(const Case& c, std::vector<Case>& out, Change&& change) {
  out.push_back(c);
  change(out.back());
}

void DropPlane(Case& c, DataTensor tensor) {
  c.literals.erase(tensor);
  std::erase_if(c.overrides, [&](const Override& o) { return o.tensor == tensor; });
}

// Everything that is not the core of the computation, at once.
void MakePlain(Case& c) {
  c.problem.want_lse = c.problem.want_weights = false;
  c.problem.scale.reset();
  c.problem.dtype = DType::kF32;
  c.layouts = Layouts{};
}

// Everything that hides keys said by the mask alone: fewer features, and bits can go one by one.
void OfferAsMask(const Case& c, std::vector<Case>& out) {
  // 4096: a larger mask is harder to read than the flags it replaces.
  if (ElementCount(c.problem.WeightsShape()) > 4096) return;
  const auto without_flags = [](Problem& p) {
    p.causal = false;
    p.window = Window{};
    p.key_lengths.reset();
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
    DropPlane(x, DataTensor::kBias);
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

void OfferOutputsOff(const Case& c, std::vector<Case>& out) {
  Offer(c, out, MakePlain);
  Offer(c, out, [](Case& x) { x.problem.want_lse = false; });
  Offer(c, out, [](Case& x) { x.problem.want_weights = false; });
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

// One slice of the plane, for all indices of `axis`: its first or its last.
BitPlane Broadcast(const BitPlane& plane, size_t axis, bool last) {
  BitPlane out = plane;
  out.shape[axis] = 1;
  out.bits.clear();
  const int64_t pick = last ? plane.shape[axis] - 1 : 0;
  int64_t inner = 1;
  for (size_t d = axis + 1; d < 4; ++d) inner *= plane.shape[d];
  for (size_t n = 0; n < plane.bits.size(); ++n) {
    if ((static_cast<int64_t>(n) / inner) % plane.shape[axis] == pick) {
      out.bits.push_back(plane.bits[n]);
    }
  }
  return out;
}

// The plane with zeros [first, first + count) of its list of zeros made visible.
BitPlane Reveal(const BitPlane& plane, const std::vector<size_t>& zeros, size_t first,
                size_t count) {
  BitPlane out = plane;
  for (size_t n = first; n < std::min(first + count, zeros.size()); ++n) out.bits[zeros[n]] = 1;
  return out;
}

// Simpler planes: fewer extents, rank 4, hidden bits revealed in ever smaller chunks.
std::vector<BitPlane> SimplerPlanes(const BitPlane& plane) {
  std::vector<BitPlane> planes;
  for (size_t axis = 0; axis < 4; ++axis) {
    if (plane.shape[axis] <= 1) continue;
    planes.push_back(Broadcast(plane, axis, false));
    planes.push_back(Broadcast(plane, axis, true));
  }
  if (plane.rank != 4) {
    planes.push_back(plane);
    planes.back().rank = 4;
  }
  std::vector<size_t> zeros;
  for (size_t n = 0; n < plane.bits.size(); ++n) {
    if (plane.bits[n] == 0) zeros.push_back(n);
  }
  // 40 a plane at most: with more zeros the chunks are big enough to make progress.
  constexpr size_t kMost = 40;
  for (size_t chunk = zeros.size(); chunk > 0; chunk = chunk == 1 ? 0 : (chunk + 1) / 2) {
    if (zeros.size() / chunk + planes.size() > kMost) break;
    for (size_t first = 0; first < zeros.size(); first += chunk) {
      planes.push_back(Reveal(plane, zeros, first, chunk));
    }
  }
  return planes;
}

// A bias literal must follow its plane: revealed elements become 0, broadcast ones start anew.
void OfferPlanes(const Case& c, std::vector<Case>& out) {
  if (c.problem.mask) {
    for (BitPlane& plane : SimplerPlanes(*c.problem.mask)) {
      Offer(c, out, [&](Case& x) { x.problem.mask = std::move(plane); });
    }
  }
  if (!c.problem.bias) return;
  for (BitPlane& plane : SimplerPlanes(*c.problem.bias)) {
    Offer(c, out, [&](Case& x) {
      const auto literal = x.literals.find(DataTensor::kBias);
      if (plane.shape != x.problem.bias->shape) {
        DropPlane(x, DataTensor::kBias);
      } else if (literal != x.literals.end()) {
        for (size_t n = 0; n < plane.bits.size(); ++n) {
          if (plane.bits[n] != x.problem.bias->bits[n]) literal->second.values[n] = 0;
        }
      }
      x.problem.bias = std::move(plane);
    });
  }
}

}  // namespace

void OfferFeaturesOff(const Case& c, std::vector<Case>& out) {
  out.push_back(c);  // smaller only where it holds leftovers, which every candidate is rid of
  OfferVisibilityOff(c, out);
  OfferOutputsOff(c, out);
}

void OfferSimplerOptions(const Case& c, std::vector<Case>& out) {
  OfferLayouts(c, out);
  OfferDTypes(c, out);
  OfferWindow(c, out);
  OfferDiagonal(c, out);
  OfferLengths(c, out);
  OfferPlanes(c, out);
}

}  // namespace attest
