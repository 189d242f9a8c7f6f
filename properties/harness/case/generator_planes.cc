// Masks: random, banded, prefix, sparse and all-visible planes in every broadcast shape and rank,
// with rows left empty first, in the middle and last.
#include <algorithm>

#include "properties/harness/case/generator_internal.h"

namespace attest {
namespace {

// Full, [1, 1, q, kv], or any other choice of broadcast extents.
void DrawShape(Draw& draw, const Contract& contract, const Problem& p, BitPlane& plane) {
  plane.shape = p.WeightsShape();
  if (contract.Has(Feature::kMaskBroadcast)) {
    const int64_t roll = draw.Below(100);
    const int64_t broadcast = roll < 35 ? 0 : roll < 60 ? 3 : draw.Below(16);
    const size_t axes = contract.Has(Feature::kMaskKeyBroadcast) ? 4 : 3;
    for (size_t axis = 0; axis < axes; ++axis) {
      if (((broadcast >> axis) & 1) != 0) plane.shape[axis] = 1;
    }
  }
  plane.rank = 4;
  if (!contract.Has(Feature::kMaskRanks)) return;
  const int least = plane.shape[0] != 1 ? 4 : plane.shape[1] != 1 ? 3 : 2;
  plane.rank = static_cast<int>(draw.Between(least, 4));
}

template <typename BitFunction>
void FillBits(BitPlane& plane, BitFunction&& bit) {
  plane.bits.clear();
  plane.bits.reserve(static_cast<size_t>(ElementCount(plane.shape)));
  for (int64_t row = 0; row < plane.shape[0] * plane.shape[1]; ++row)
    for (int64_t i = 0; i < plane.shape[2]; ++i)
      for (int64_t j = 0; j < plane.shape[3]; ++j) plane.bits.push_back(bit(i, j) ? 1 : 0);
}

void FillRandom(Draw& draw, BitPlane& plane) {
  const int64_t eighths = draw.Between(1, 7);
  FillBits(plane, [&](int64_t, int64_t) { return draw.Below(8) < eighths; });
}

void FillBanded(Draw& draw, BitPlane& plane) {
  const int64_t left = draw.Between(0, 3);
  const int64_t right = draw.Between(0, 3);
  FillBits(plane, [&](int64_t i, int64_t j) { return j >= i - left && j <= i + right; });
}

// All keys before a point, or all from it on: left padding looks like the second.
void FillSplit(Draw& draw, BitPlane& plane) {
  const int64_t split = draw.Between(0, plane.shape[3]);
  const bool before = draw.Percent(50);
  FillBits(plane, [&](int64_t, int64_t j) { return (j < split) == before; });
}

// One key a row: the output is that key's value.
void FillSingle(Draw& draw, BitPlane& plane) {
  const int64_t start = draw.Below(std::max<int64_t>(plane.shape[3], 1));
  const int64_t step = draw.Below(2);
  FillBits(plane, [&](int64_t i, int64_t j) { return j == (start + step * i) % plane.shape[3]; });
}

void ClearRow(BitPlane& plane, int64_t outer, int64_t i) {
  const int64_t first = (outer * plane.shape[2] + i) * plane.shape[3];
  std::fill_n(plane.bits.begin() + first, plane.shape[3], uint8_t{0});
}

// Empties rows at the edges and in the middle, in every head or in one.
void EmptyRows(Draw& draw, BitPlane& plane) {
  const int64_t outer = plane.shape[0] * plane.shape[1];
  const int64_t rows = plane.shape[2];
  if (plane.bits.empty()) return;
  const int64_t where = draw.Between(1, 7);  // bit 0 first, bit 1 middle, bit 2 last
  const bool everywhere = draw.Percent(50);
  const int64_t only = draw.Below(outer);
  for (int64_t n = 0; n < outer; ++n) {
    if (!everywhere && n != only) continue;
    if ((where & 1) != 0) ClearRow(plane, n, 0);
    if ((where & 2) != 0) ClearRow(plane, n, rows / 2);
    if ((where & 4) != 0) ClearRow(plane, n, rows - 1);
  }
}

void AllVisible(BitPlane& plane) {
  FillBits(plane, [](int64_t, int64_t) { return true; });
}

}  // namespace

BitPlane DrawMask(Draw& draw, const Contract& contract, const Problem& problem) {
  BitPlane plane;
  DrawShape(draw, contract, problem, plane);
  const int64_t roll = draw.Below(100);
  if (roll < 45) {
    FillRandom(draw, plane);
  } else if (roll < 60) {
    AllVisible(plane);
  } else if (roll < 75) {
    FillBanded(draw, plane);
  } else if (roll < 88) {
    FillSplit(draw, plane);
  } else {
    FillSingle(draw, plane);
  }
  if (draw.Percent(30)) EmptyRows(draw, plane);
  return plane;
}

BitPlane DrawBiasPlane(Draw& draw, const Contract& contract, const Problem& problem) {
  BitPlane plane;
  DrawShape(draw, contract, problem, plane);
  const int64_t roll = draw.Below(100);
  if (roll < 50 || roll >= 75) AllVisible(plane);
  if (roll >= 50 && roll < 75) FillRandom(draw, plane);
  if (roll >= 75) EmptyRows(draw, plane);
  return plane;
}

}  // namespace attest
