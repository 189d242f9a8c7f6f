// What a kernel promises, as data. A missing field is no promise. A kernel hands its contract over
// as JSON text: it names a published contract ("onnx-attention-24") and lists its differences. The
// lowering (properties/harness/lower) converts cases to it, and each property reads from it how
// exact it may be.
#ifndef ATTEST_ATTENTION_CONTRACT_H_
#define ATTEST_ATTENTION_CONTRACT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "impl/attention/dtype.h"
#include "impl/attention/enum_set.h"
#include "impl/attention/numerics.h"
#include "impl/attention/problem.h"

namespace attest {

enum class MaskPolarity { kAttend, kHide };  // what true in a boolean mask means
enum class CausalOffset {                    // which diagonals the causal flag can express
  kZero,                                     // top-left
  kKvLenMinusQLen,                           // bottom-right
  kKeyLengthMinusQLen,                       // bottom-right of each batch item's key length
  kByInputs,  // ONNX: the past's length behind one, key_length - q_len with key lengths, else zero
  kExplicit,  // a diagonal_offset tensor [batch]
};
enum class WindowCounts { kKeysBesideDiagonal, kKeysWithDiagonal };  // W + 1 keys | W keys in all
enum class CausalCalls { kOptional, kAlways };  // whether a call may do without the causal flag
enum class WindowSides {                        // which ends of a window a call can give
  kBoth,
  kLeft,          // no right end: only causality hides keys after the diagonal
  kLeftIfCausal,  // and windows come with the causal flag only
};
enum class Exclusion {    // features that do not go together in one call, though each is offered
  kCausalWithMask,        // the causal flag and a boolean mask
  kCausalWithBias,        // the causal flag and an additive mask
  kPastWithoutPresent,    // a past where the present is not asked for
  kPresentWithoutPast,    // the present where no past tensors are given
  kEmptyPast,             // past tensors of no keys
  kFewerKeysThanQueries,  // a batch item with fewer keys (its length, else kv_len) than queries
  kZeroScale,             // a scale of 0, which some interfaces read as "not given"
  kNegativeScale,         // a scale below 0, whose root some interfaces take
};
enum class EmptyRow { kZero, kNan, kMeanValue, kUnmasked, kUnspecified };
enum class PaddedQueryRows { kZero, kComputed, kUnwritten, kUnspecified };  // at or past the length
enum class SoftcapOrder { kBeforeBias, kAfterBias };  // the softcap over the score, or over all
enum class LseKind { kNone, kNatural, kBase2 };
enum class LseEmptyRow { kMinusInf, kPlusInf, kNan, kUnspecified };
enum class Feature {
  kCausal,
  kWindow,
  kKeyLengths,
  kMask,
  kBias,
  kMaskWithBias,
  kGqa,
  kValueDim,
  kZeroSizes,
  kWeights,
  kMaskBroadcast,     // extents of 1 for batch, heads and queries
  kMaskKeyBroadcast,  // and for keys
  kMaskRanks,
  kBiasF32,  // a bias of f32 beside 16-bit inputs
  kQueryLengths,
  kPrefixLengths,
  kDocuments,
  kBlockMask,
  kSoftcap,
  kAlibi,
  kSinks,
  kDropout,
  kPast,     // keys and values in two parts, past and new
  kPresent,  // and both together as an output
  kPages,    // keys and values in pages, with a table
  kRing,     // keys and values in a ring that starts anywhere
  kPacked,   // sequences packed end to end, with cumulative lengths
  // Of backward alone: gradients that a backward call gives beside dq, dk and dv.
  kBiasGradient,
  kSinkGradient,
};
enum class Invariance {  // what leaves the bits of the result alone
  kHiddenValues,
  kKvLen,
  kQLen,
  kBatch,
  kHeads,
  kLayout,
  kMaskForm,
  kSplit,
  kThreads,
  kRerun,
};
enum class PoisonTensor { kK, kV };
enum class PoisonPlace { kLength, kCausal, kWindow, kMask, kBias, kDocument, kBlock, kPage };
enum class Strides { kDense, kLastDimContiguous, kAny };
enum class TensorLayout { kBhsd, kBshd };

// Semantics that shape the answer itself; the reference takes them.
struct Semantics {
  EmptyRow empty_row = EmptyRow::kZero;
  LseEmptyRow lse_empty_row = LseEmptyRow::kMinusInf;
  SoftcapOrder softcap_order = SoftcapOrder::kBeforeBias;
};

// A finite stand-in for minus infinity: what a hidden score is replaced by, or what is added to it.
// Rows that it might outweigh promise nothing.
struct MaskingValue {
  double value = 0;
  bool is_added = false;

  friend bool operator==(const MaskingValue&, const MaskingValue&) = default;
};

struct Limits {
  int64_t max_batch = 0, max_heads = 0, max_q_len = 0, max_kv_len = 0;  // 0 = no limit
  int64_t max_head_dim = 0, head_dim_multiple = 1;
};

// The default profile of every floating-point type.
std::map<DType, NumericsProfile> DefaultNumericsOfAll();

// causal_offset: where exactly one rule other than kExplicit is named, the kernel works its diagonal
// out by that rule (packed: by the item's own lengths); else each call with causality, a window or
// ALiBi carries the offsets as a tensor. window_counts concerns the left side; the right one always
// counts keys after the diagonal.
struct Contract {
  std::string name;  // the published contract it starts from
  MaskPolarity mask_true_means = MaskPolarity::kAttend;
  EnumSet<CausalOffset> causal_offset;
  CausalCalls causal = CausalCalls::kOptional;
  WindowCounts window_counts = WindowCounts::kKeysBesideDiagonal;
  WindowSides window_sides = WindowSides::kBoth;
  EnumSet<Exclusion> excludes;
  Semantics semantics{EmptyRow::kUnspecified, LseEmptyRow::kUnspecified, SoftcapOrder::kBeforeBias};
  LseKind lse = LseKind::kNone;
  PaddedQueryRows padded_query_rows = PaddedQueryRows::kUnspecified;
  std::optional<MaskingValue> masking_value;  // nullopt: minus infinity
  EnumSet<std::pair<PoisonTensor, PoisonPlace>> poison_safe;
  bool visible_nan_propagates = false;
  bool concurrent_calls = false;  // forward may be called from several threads at once
  EnumSet<Feature> features;
  EnumSet<Invariance> bits_invariant;
  EnumSet<DType> dtypes;
  EnumSet<DType> fp8;         // formats of q, k and v that it takes beside those
  EnumSet<ScoreMode> scores;  // scores outputs that it gives
  // The features that a backward call may carry, among `features`; nullopt = there is no backward.
  std::optional<EnumSet<Feature>> backward;
  EnumSet<TensorLayout> layouts{TensorLayout::kBhsd};
  Strides strides = Strides::kDense;
  bool far_strides =
      true;  // with strides: elements of one tensor may lie 2^31 and more elements apart
  int64_t min_alignment = 16;  // bytes, a power of two
  Limits limits;
  std::map<DType, NumericsProfile> numerics = DefaultNumericsOfAll();  // one for each float type
  std::map<std::string, std::vector<std::string>> options;  // create options and their values

  // The arithmetic declared for tensors of `dtype`: its default where the contract says nothing.
  const NumericsProfile& NumericsOf(DType dtype) const { return numerics.at(dtype); }
  bool Has(Feature feature) const { return features.count(feature) != 0; }
  bool HasBackward(Feature feature) const { return backward && backward->count(feature) != 0; }
  bool Excludes(Exclusion what) const { return excludes.count(what) != 0; }
  bool OffersScale(double scale) const;  // as an f32, in which most kernels take it
  bool IsAlwaysCausal() const { return causal == CausalCalls::kAlways; }
  bool Promises(Invariance what) const { return bits_invariant.count(what) != 0; }
  bool IsPoisonSafe(PoisonTensor tensor, PoisonPlace place) const {
    return poison_safe.count({tensor, place}) != 0;
  }
};

// One row of the table of published contracts. `json` is in the same form that kernels use.
struct NamedContract {
  std::string_view name;
  std::string_view source;  // where the conventions are published
  std::string_view json;
};
const std::vector<NamedContract>& NamedContracts();

// Parses a kernel's JSON text. The error is one line: what, where, how to mend it. Unknown keys and
// unknown values are errors, so that a promise is never lost to a typing mistake.
tl::expected<Contract, std::string> ParseContract(std::string_view json);

}  // namespace attest

#endif  // ATTEST_ATTENTION_CONTRACT_H_
