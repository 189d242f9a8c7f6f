// Shrink candidates with simpler planes of bits: fewer that hide, one slice for many.
#include <algorithm>
#include <utility>

#include "properties/harness/case/shrink_internal.h"

namespace attest {
namespace {

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

// One slice for all along each of the first `axes` dimensions.
void AppendBroadcast(const BitPlane& plane, size_t axes, std::vector<BitPlane>& planes) {
  for (size_t axis = 0; axis < axes; ++axis) {
    if (plane.shape[axis] <= 1) continue;
    planes.push_back(Broadcast(plane, axis, false));
    planes.push_back(Broadcast(plane, axis, true));
  }
}

// Hidden bits revealed in ever smaller chunks, until there are `most` planes: with more zeros the
// chunks are big enough to make progress.
void AppendRevealed(const BitPlane& plane, size_t most, std::vector<BitPlane>& planes) {
  std::vector<size_t> zeros;
  for (size_t n = 0; n < plane.bits.size(); ++n) {
    if (plane.bits[n] == 0) zeros.push_back(n);
  }
  for (size_t chunk = zeros.size(); chunk > 0; chunk = chunk == 1 ? 0 : (chunk + 1) / 2) {
    if (zeros.size() / chunk + planes.size() > most) break;
    for (size_t first = 0; first < zeros.size(); first += chunk) {
      planes.push_back(Reveal(plane, zeros, first, chunk));
    }
  }
}

// Fewer extents, rank 4, fewer hidden bits.
std::vector<BitPlane> SimplerPlanes(const BitPlane& plane) {
  std::vector<BitPlane> planes;
  AppendBroadcast(plane, 4, planes);
  if (plane.rank != 4) {
    planes.push_back(plane);
    planes.back().rank = 4;
  }
  AppendRevealed(plane, 40, planes);
  return planes;
}

void OfferMask(const Case& c, std::vector<Case>& out) {
  if (!c.problem.mask) return;
  for (BitPlane& plane : SimplerPlanes(*c.problem.mask)) {
    Offer(c, out, [&](Case& x) { x.problem.mask = std::move(plane); });
  }
}

// A bias literal must follow its plane: revealed elements become 0, broadcast ones start anew.
void OfferBias(const Case& c, std::vector<Case>& out) {
  if (!c.problem.bias) return;
  for (BitPlane& plane : SimplerPlanes(*c.problem.bias)) {
    Offer(c, out, [&](Case& x) {
      const auto literal = x.literals.find(DataTensor::kBias);
      if (plane.shape != x.problem.bias->shape) {
        DropBiasData(x);
      } else if (literal != x.literals.end()) {
        for (size_t n = 0; n < plane.bits.size(); ++n) {
          if (plane.bits[n] != x.problem.bias->bits[n]) literal->second.values[n] = 0;
        }
      }
      x.problem.bias = std::move(plane);
    });
  }
}

// A tile larger than the sequence is one as large.
void OfferBlockMask(const Case& c, std::vector<Case>& out) {
  if (!c.problem.block_mask) return;
  Offer(c, out, [](Case& x) {
    BlockMask& mask = *x.problem.block_mask;
    mask.block_q = std::min(mask.block_q, std::max<int64_t>(x.problem.q_len, 1));
    mask.block_k = std::min(mask.block_k, std::max<int64_t>(x.problem.kv_len, 1));
  });
  std::vector<BitPlane> planes;
  AppendBroadcast(c.problem.block_mask->plane, 2, planes);
  AppendRevealed(c.problem.block_mask->plane, 20, planes);
  for (BitPlane& plane : planes) {
    Offer(c, out, [&](Case& x) { x.problem.block_mask->plane = std::move(plane); });
  }
}

void OfferDropout(const Case& c, std::vector<Case>& out) {
  if (!c.problem.dropout) return;
  for (const double simpler : {0.0, 0.5}) {
    Offer(c, out, [&](Case& x) { x.problem.dropout->probability = simpler; });
  }
  std::vector<BitPlane> planes;
  AppendRevealed(c.problem.dropout->keep, 20, planes);
  for (BitPlane& plane : planes) {
    Offer(c, out, [&](Case& x) { x.problem.dropout->keep = std::move(plane); });
  }
}

}  // namespace

void DropBiasData(Case& c) {
  c.literals.erase(DataTensor::kBias);
  std::erase_if(c.overrides, [](const Override& o) { return o.tensor == DataTensor::kBias; });
}

void OfferSimplerPlanes(const Case& c, std::vector<Case>& out) {
  OfferMask(c, out);
  OfferBias(c, out);
  OfferBlockMask(c, out);
  OfferDropout(c, out);
}

}  // namespace attest
