// Shrink candidates that cut sizes. Coupled conditions (window.left == q_len - 1) are only reached
// by lowering several sizes together, so every step is offered alone and jointly.
#include <algorithm>

#include "properties/harness/case/offers.h"
#include "properties/harness/case/shrink_internal.h"
#include "properties/harness/case/slice.h"

namespace attest {
namespace {

enum class Side { kEnd, kFront };

// `amount` fewer along `axis`, never below one.
Case Cut(const Case& c, Axis axis, int64_t amount, Side side) {
  const int64_t size = SizeOf(c.problem, axis);
  const int64_t gone = std::min(amount, size - 1);
  return Select(c, axis, IndexRange(side == Side::kFront ? gone : 0, size - gone));
}

void LowerSide(std::optional<int64_t>& side, int64_t amount) {
  if (side) side = std::max<int64_t>(*side - amount, 0);
}

// What is lowered together in one step.
struct Joint {
  std::vector<Axis> axes;
  bool left = false;   // window.left too
  bool right = false;  // window.right too
};

const std::vector<Joint>& Joints() {
  static const std::vector<Joint> kJoints = {
      {{Axis::kQLen, Axis::kKvLen, Axis::kHeadDim, Axis::kValueDim}},
      {{Axis::kQLen, Axis::kKvLen}},
      {{Axis::kHeadDim, Axis::kValueDim}},
      {{Axis::kQLen}},
      {{Axis::kKvLen}},
      {{Axis::kHeadDim}},
      {{Axis::kValueDim}},
      {{Axis::kQLen}, true},
      {{Axis::kKvLen}, true},
      {{Axis::kQLen}, false, true},
      {{Axis::kKvLen}, false, true},
      {{Axis::kQLen, Axis::kKvLen}, true},
      {{Axis::kQLen, Axis::kKvLen}, true, true}};
  return kJoints;
}

bool Applies(const Problem& p, const Joint& joint) {
  const auto open_or_zero = [](const std::optional<int64_t>& side) { return !side || *side == 0; };
  if (joint.left && open_or_zero(p.window.left)) return false;
  if (joint.right && open_or_zero(p.window.right)) return false;
  return std::ranges::all_of(joint.axes, [&](Axis axis) { return SizeOf(p, axis) > 1; });
}

void OfferJoint(const Case& c, const Joint& joint, int64_t amount, Side side,
                std::vector<Case>& out) {
  Case cut = c;
  for (const Axis axis : joint.axes) cut = Cut(cut, axis, amount, side);
  if (joint.left) LowerSide(cut.problem.window.left, amount);
  if (joint.right) LowerSide(cut.problem.window.right, amount);
  OfferAligned(c.problem, cut, out);
}

int64_t LargestSize(const Problem& p, const Joint& joint) {
  int64_t size = 0;
  for (const Axis axis : joint.axes) size = std::max(size, SizeOf(p, axis));
  return size;
}

bool IsAlongPositions(const Joint& joint) {
  return joint.axes.front() == Axis::kQLen || joint.axes.front() == Axis::kKvLen;
}

// Front cuts renumber what remains; along the lanes that matters only for stored elements.
bool FrontDiffers(const Case& c, const Joint& joint) {
  return IsAlongPositions(joint) || !c.literals.empty() || !c.overrides.empty();
}

void OfferStep(const Case& c, int64_t amount, std::vector<Case>& out) {
  for (const Joint& joint : Joints()) {
    if (!Applies(c.problem, joint) || amount >= LargestSize(c.problem, joint)) continue;
    OfferJoint(c, joint, amount, Side::kEnd, out);
    if (FrontDiffers(c, joint)) OfferJoint(c, joint, amount, Side::kFront, out);
  }
}

// Everything to one, each size to one.
void OfferToOne(const Case& c, std::vector<Case>& out) {
  for (const Joint& joint : Joints()) {
    if (joint.left || joint.right || !Applies(c.problem, joint)) continue;
    OfferJoint(c, joint, LargestSize(c.problem, joint), Side::kEnd, out);
  }
}

// One item alone (the first few and the last), half the items, one item fewer.
void OfferBatch(const Case& c, std::vector<Case>& out) {
  const int64_t batch = c.problem.batch;
  if (batch <= 1) return;
  for (int64_t b = 0; b < batch; ++b) {
    if (b < 4 || b + 4 >= batch) out.push_back(Select(c, Axis::kBatch, {b}));
  }
  out.push_back(Select(c, Axis::kBatch, IndexRange(0, (batch + 1) / 2)));
  out.push_back(Select(c, Axis::kBatch, IndexRange(batch / 2, batch - batch / 2)));
  out.push_back(Select(c, Axis::kBatch, IndexRange(0, batch - 1)));
  out.push_back(Select(c, Axis::kBatch, IndexRange(1, batch - 1)));
}

// One kv head, and of its query heads number `n`.
Case OneHead(const Case& c, int64_t kv_head, int64_t n) {
  const int64_t head = kv_head * c.problem.heads_per_kv_head() + n;
  return Select(Select(c, Axis::kQHeads, {head}), Axis::kKvHeads, {kv_head});
}

void OfferHeads(const Case& c, std::vector<Case>& out) {
  const int64_t heads = c.problem.kv_heads;
  if (heads == 0 || c.problem.q_heads == 0) return;
  const int64_t ratio = c.problem.heads_per_kv_head();
  const std::vector<int64_t> all = IndexRange(0, heads);
  for (int64_t h = 0; h < heads; ++h) {
    if (h >= 4 && h + 4 < heads) continue;
    for (const int64_t n : {int64_t{0}, int64_t{1}, ratio - 1}) {
      if (n < ratio) out.push_back(OneHead(c, h, n));
    }
    out.push_back(SelectHeads(c, {h}, ratio));
  }
  for (const int64_t fewer : {int64_t{1}, ratio / 2, ratio - 1}) {
    if (fewer >= 1 && fewer < ratio) out.push_back(SelectHeads(c, all, fewer));
  }
  if (heads <= 1) return;
  out.push_back(SelectHeads(c, IndexRange(0, heads / 2), ratio));
  out.push_back(SelectHeads(c, IndexRange(0, heads - 1), ratio));
  out.push_back(SelectHeads(c, IndexRange(1, heads - 1), ratio));
}

// A key out of the middle, where stored bits or elements pin the keys around it and no diagonal
// does.
void OfferMiddleKeys(const Case& c, std::vector<Case>& out) {
  const Problem& p = c.problem;
  const bool stored = p.mask || p.bias || p.documents || p.block_mask || p.dropout ||
                      !c.literals.empty() || !c.overrides.empty();
  if (!stored || LooksAtDiagonal(p) || p.kv_len > 16) return;
  for (int64_t gone = 1; gone + 1 < p.kv_len; ++gone) {
    std::vector<int64_t> keep = IndexRange(0, p.kv_len);
    keep.erase(keep.begin() + gone);
    out.push_back(Select(c, Axis::kKvLen, keep));
  }
}

std::vector<int64_t> OffsetsOrZeros(const Problem& p) {
  if (!p.diagonal_offset.empty()) return p.diagonal_offset;
  return std::vector<int64_t>(static_cast<size_t>(p.batch), 0);
}

}  // namespace

void OfferAligned(const Problem& before, const Case& after, std::vector<Case>& out) {
  if (LooksAtDiagonal(before)) {
    const std::vector<int64_t> offsets = OffsetsOrZeros(before);
    for (const Alignment alignment :
         {Alignment::kTopLeft, Alignment::kBottomRight, Alignment::kKeyLength}) {
      Problem as_if = before;
      as_if.diagonal_offset = OffsetsFor(alignment, before);
      if (OffsetsOrZeros(as_if) != offsets) continue;
      out.push_back(after);
      out.back().problem.diagonal_offset = OffsetsFor(alignment, after.problem);
    }
  }
  out.push_back(after);
}

void OfferSmallerSizes(const Case& c, std::vector<Case>& out) {
  OfferToOne(c, out);
  OfferBatch(c, out);
  OfferHeads(c, out);
  const Problem& p = c.problem;
  const int64_t largest = std::max({p.q_len, p.kv_len, p.head_dim, p.value_dim});
  int64_t amount = 1;
  while (amount * 2 < largest) amount *= 2;
  for (; amount >= 1; amount /= 2) OfferStep(c, amount, out);
  OfferMiddleKeys(c, out);
}

}  // namespace attest
