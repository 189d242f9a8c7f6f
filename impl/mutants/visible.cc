#include "impl/mutants/visible.h"

#include <algorithm>
#include <limits>

#include "impl/abi/float_types.h"
#include "impl/abi/input_rows.h"

namespace attest {
namespace {

constexpr int64_t kTile = 4;

// Whether the mutation lets row i see what causality hides.
bool DropsCausality(const CallView& call, Mutation mutation, int64_t i) {
  const int64_t new_keys = call.kv_len - call.storage.past;
  switch (mutation) {
    case Mutation::kLastRowNotCausal:
      return i == call.q_len - 1 && call.kv_len > call.q_len;
    case Mutation::kOneQueryNotCausal:
      return call.q_len == 1 && call.storage.past > 0 && new_keys > 1;
    case Mutation::kCausalDroppedWithWeights:
      return call.weights || call.scores;
    default:
      return false;
  }
}

bool IgnoresLengths(const CallView& call, Mutation mutation, int64_t b) {
  return (mutation == Mutation::kPaddingIgnoredAfterBatch0 && b > 0) ||
         (mutation == Mutation::kLengthsDroppedBesideMask && call.mask);
}

// How many keys the mutation takes batch item b to have.
int64_t LengthOf(const CallView& call, Mutation mutation, int64_t b) {
  const int64_t length = call.KeyLength(b);
  if (mutation != Mutation::kPageTailAttended || !call.is_paged()) return length;
  const int64_t page = call.storage.page_size;
  return (length + page - 1) / page * page;
}

// Lengths of a mutation that hide what no length should.
bool LengthsHideMore(const CallView& call, Mutation mutation, int64_t b, int64_t i, int64_t j) {
  switch (mutation) {
    case Mutation::kQueryLengthsHideKeys:
      return call.query_lengths && j >= call.QueryLength(b);
    case Mutation::kPaddingHidesRows:
      return call.key_lengths && call.q_len == call.kv_len && i >= call.KeyLength(b);
    case Mutation::kPastNeedsPresent:
      return !call.present_k && j < call.storage.past;
    case Mutation::kEmptyPastEndsCall:
      return call.storage.has_past && call.storage.past == 0;
    case Mutation::kZeroHeadDimIsEmpty:
      return call.head_dim == 0;
    default:
      return false;
  }
}

// One end of the window as the mutation takes it.
int64_t EndOf(int64_t keys, Mutation mutation, Mutation one_more, Mutation one_fewer) {
  if (mutation == Mutation::kWindowIn16Bits) return static_cast<uint16_t>(keys);
  return keys + (mutation == one_more ? 1 : mutation == one_fewer ? -1 : 0);
}

bool WindowHides(const CallView& call, Mutation mutation, int64_t beyond) {
  using enum Mutation;
  if (call.window_left &&
      -beyond > EndOf(*call.window_left, mutation, kWindowLeftOneMore, kWindowLeftOneFewer)) {
    return true;
  }
  return call.window_right &&
         beyond > EndOf(*call.window_right, mutation, kWindowRightOneMore, kWindowRightOneFewer);
}

bool DropoutHides(const CallView& call, Mutation mutation, int64_t b, int64_t h, int64_t i,
                  int64_t j) {
  return mutation == Mutation::kDropoutRenormalised && call.dropout &&
         call.dropout->keep.At<const uint8_t>(b, h, i, j) == 0;
}

// Whether one row of a plane serves all queries.
bool SharesRows(const TensorView& plane) {
  return plane.strides[2] == 0;
}

// Whether documents, blocks, the boolean mask or an infinite bias hide the key.
bool PlanesHide(const CallView& call, Mutation mutation, int64_t b, int64_t h, int64_t i,
                int64_t j) {
  if (!call.InOneDocument(mutation == Mutation::kDocumentsOfBatch0 ? 0 : b, i, j)) return true;
  const int64_t block_head = mutation == Mutation::kBlockMaskOfHead0 ? 0 : h;
  if (call.block_mask && !call.block_mask->Attends(b, block_head, i, j)) return true;
  const bool has_window = call.window_left || call.window_right;
  const bool ignores_mask =
      MaskHidesNoScore(mutation) || (mutation == Mutation::kWindowReplacesMask && has_window);
  if (call.mask && !ignores_mask && !MaskAttends(call, mutation, b, h, i, j)) return true;
  return UsesBias(call, mutation) &&
         BiasOf(call, mutation, b, h, i, j) == -std::numeric_limits<double>::infinity();
}

}  // namespace

double BiasOf(const CallView& call, Mutation mutation, int64_t b, int64_t h, int64_t i, int64_t j) {
  if (mutation == Mutation::kBroadcastBiasForQuery0 && i > 0 && SharesRows(*call.bias)) return 0;
  double value = 0;
  WithFloatType(call.dtype, [&](auto zero) {
    using T = decltype(zero);
    const bool is_misread = mutation == Mutation::kWideBiasMisread && call.bias_dtype != call.dtype;
    value = static_cast<double>(
        is_misread ? static_cast<AccumulatorOf<T>>(call.bias->At<const T>(b, h, i, j))
                   : BiasAt<T>(call, b, h, i, j));
  });
  return value;
}

bool UsesBias(const CallView& call, Mutation mutation) {
  return call.bias && !(mutation == Mutation::kBiasDroppedUnderCausal && call.causal);
}

bool MaskHidesNoScore(Mutation mutation) {
  return mutation == Mutation::kMaskAdded || mutation == Mutation::kMaskFillerFinite ||
         mutation == Mutation::kMaskAfterSoftmax || mutation == Mutation::kFillersAdded;
}

bool MaskAttends(const CallView& call, Mutation mutation, int64_t b, int64_t h, int64_t i,
                 int64_t j) {
  const auto at = [&](int64_t item, int64_t head, int64_t row, int64_t key) {
    return call.mask->At<const uint8_t>(item, head, row, key) != 0;
  };
  const int64_t head_major = h * call.batch + b;
  switch (mutation) {
    case Mutation::kMaskTransposed:
      return at(b, h, std::min(j, call.q_len - 1), std::min(i, call.kv_len - 1));
    case Mutation::kMaskOfBatch0:
      return at(0, h, i, j);
    case Mutation::kMaskOfHead0:
      return at(b, 0, i, j);
    case Mutation::kMaskHeadMajor:
      return at(head_major / call.q_heads, head_major % call.q_heads, i, j);
    case Mutation::kMaskBatchByKvHead:
      return at(call.batch == call.kv_heads ? call.KvHead(h) : b, h, i, j);
    case Mutation::kMaskTileMisplaced:
      return at(b, h, i % kTile, j);
    case Mutation::kBroadcastMaskForQuery0:
      return (i > 0 && SharesRows(*call.mask)) || at(b, h, i, j);
    case Mutation::kMaskInverted:
      return !at(b, h, i, j);
    default:
      return at(b, h, i, j);
  }
}

int64_t PlainDiagonalOffset(const CallView& call, Mutation mutation, int64_t b) {
  const bool is_lost =
      mutation == Mutation::kDiagonalTopLeft ||
      (mutation == Mutation::kPastMovesNoDiagonal && call.storage.past > 0 && call.q_len > 1);
  return is_lost ? 0 : call.DiagonalOffset(b);
}

bool CausalityHides(const CallView& call, Mutation mutation, int64_t b, int64_t i, int64_t j,
                    int64_t beyond) {
  if (!call.causal || DropsCausality(call, mutation, i)) return false;
  const bool ignores_prefix = mutation == Mutation::kPrefixIgnored && b > 0;
  if (!ignores_prefix && j < call.PrefixLength(b)) return false;
  if (mutation == Mutation::kPrefixOfOneAtLeast && call.prefix_lengths && j == 0) return false;
  if (mutation == Mutation::kTriangleOnEveryTile) {
    const int64_t row = ((j - beyond) % kTile + kTile) % kTile;
    return j % kTile > row;
  }
  return beyond > (mutation == Mutation::kDiagonalSlid ? 1 : 0);
}

bool PlainVisible(const CallView& call, Mutation mutation, int64_t b, int64_t h, int64_t i,
                  int64_t j) {
  if (!IgnoresLengths(call, mutation, b) && j >= LengthOf(call, mutation, b)) return false;
  if (LengthsHideMore(call, mutation, b, i, j)) return false;
  const int64_t beyond = j - (i + PlainDiagonalOffset(call, mutation, b));
  const bool out_of_window = WindowHides(call, mutation, beyond);
  const bool reopens = mutation == Mutation::kWindowMultiplied && call.causal && out_of_window;
  if (!reopens) {
    const bool hides_later = mutation == Mutation::kFillersAdded;
    if (!hides_later && CausalityHides(call, mutation, b, i, j, beyond)) return false;
    if (out_of_window) return false;
  }
  return !DropoutHides(call, mutation, b, h, i, j) && !PlanesHide(call, mutation, b, h, i, j);
}

}  // namespace attest
