// What to compute: sizes, options, element type and everything that decides visibility, as plain
// values. A Problem says nothing of a kernel's conventions (see contract.h) and holds no tensor
// data (see Inputs). The harness, the reference and the explanations all read it.
#ifndef ATTEST_ATTENTION_PROBLEM_H_
#define ATTEST_ATTENTION_PROBLEM_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "impl/attention/array.h"
#include "impl/attention/dtype.h"

namespace attest {

// A sliding window around a row's diagonal key (its own position plus the batch item's
// diagonal_offset): `left` keys strictly before it, `right` keys strictly after it, nullopt = open.
// (0, 0) leaves the diagonal key alone, where it exists.
struct Window {
  std::optional<int64_t> left;
  std::optional<int64_t> right;

  bool active() const { return left.has_value() || right.has_value(); }
  friend bool operator==(const Window&, const Window&) = default;
};

// A plane of bits over [batch, q_heads, q_len, kv_len]; every extent is full or 1 (broadcast).
// `rank` is how many trailing extents the kernel's tensor carries (4, or 3 or 2 where the leading
// extents are 1): [q_len, kv_len] has rank 2. 1 = attend, 0 = hide.
struct BitPlane {
  Shape4 shape{1, 1, 1, 1};
  int rank = 4;
  std::vector<uint8_t> bits;  // row-major over `shape`

  bool At(int64_t b, int64_t h, int64_t i, int64_t j) const {
    const auto pick = [](int64_t index, int64_t extent) { return extent == 1 ? 0 : index; };
    const int64_t flat =
        ((pick(b, shape[0]) * shape[1] + pick(h, shape[1])) * shape[2] + pick(i, shape[2])) *
            shape[3] +
        pick(j, shape[3]);
    return bits[static_cast<size_t>(flat)] != 0;
  }
  friend bool operator==(const BitPlane&, const BitPlane&) = default;
};

// A mask of tiles: bit [batch, q_heads, i / block_q, j / block_k], the first two extents full or 1, the
// last two rounded up. 1 = attend, 0 = hide.
struct BlockMask {
  int64_t block_q = 1;
  int64_t block_k = 1;
  BitPlane plane;  // of rank 4

  friend bool operator==(const BlockMask&, const BlockMask&) = default;
};

// Document numbers: a query sees the keys of its own document only. Row-major.
struct Documents {
  std::vector<int64_t> query;  // [batch, q_len]
  std::vector<int64_t> key;    // [batch, kv_len]

  friend bool operator==(const Documents&, const Documents&) = default;
};

// Dropout with the mask given: after the softmax a weight becomes weight / (1 - probability) where
// the bit is 1 and 0 where it is 0. The lse, and the weights and scores that are asked for, are those
// before it.
struct Dropout {
  double probability = 0;  // in 0..1 - 2^-10
  BitPlane keep;           // of full shape [batch, q_heads, q_len, kv_len]

  friend bool operator==(const Dropout&, const Dropout&) = default;
};

// q, k and v are stored in 8 bits, each with a scale: q = q_scale * (8-bit value).
struct Fp8 {
  DType format = DType::kE4M3;                   // or kE5M2
  double q_scale = 1, k_scale = 1, v_scale = 1;  // positive f32 values

  friend bool operator==(const Fp8&, const Fp8&) = default;
};

// At which step the scores output is taken (ONNX's qk_matmul_output_mode 0 to 3).
enum class ScoreMode : uint8_t {
  kRaw,      // scale * q.k
  kCapped,   // after the softcap
  kBiased,   // after softcap, bias, ALiBi and hiding (-inf)
  kWeights,  // after the softmax
};

// q is [batch, q_heads, q_len, head_dim], k [batch, kv_heads, kv_len, head_dim],
// v [batch, kv_heads, kv_len, value_dim], out [batch, q_heads, q_len, value_dim],
// lse [batch, q_heads, q_len], weights [batch, q_heads, q_len, kv_len].
// Query head h reads kv head h / (q_heads / kv_heads). Any size may be 0.
struct Problem {
  int64_t batch = 1;
  int64_t q_heads = 1;
  int64_t kv_heads = 1;
  int64_t q_len = 1;
  int64_t kv_len = 1;
  int64_t head_dim = 1;
  int64_t value_dim = 1;

  DType dtype = DType::kF32;  // of q, k, v, bias, out, weights and scores; lse is f32 (f64 for f64)
  std::optional<Fp8> fp8;     // then q, k and v are of that format instead
  std::optional<DType> bias_dtype;  // of the bias where it is not `dtype`: f32
  std::optional<double> scale;      // multiplies q.k; nullopt = 1 / sqrt(head_dim)

  // The diagonal: row i of batch item b stands at key i + diagonal_offset[b]. Empty = all zero. Only
  // causality, windows and ALiBi look at it.
  // `causal` hides every key after it; `window` is measured from it.
  std::vector<int64_t> diagonal_offset;
  bool causal = false;
  Window window;

  std::optional<std::vector<int64_t>> key_lengths;  // [batch]; keys j >= length are hidden
  // [batch]; rows i >= length are padding: the contract says what they hold. They see what they see.
  std::optional<std::vector<int64_t>> query_lengths;
  // [batch]; causality does not hide keys j < length (a prefix language model). Windows still do.
  // Without causality they say nothing.
  std::optional<std::vector<int64_t>> prefix_lengths;
  std::optional<Documents> documents;
  std::optional<BlockMask> block_mask;
  std::optional<BitPlane> mask;  // boolean mask
  // Additive mask ("bias"): the plane says where it is finite (1) and where -inf (0, hidden). The
  // finite values are data: Inputs::bias, of the same shape. A finite bias hides nothing.
  std::optional<BitPlane> bias;

  // What becomes of a score s = scale * q.k, in this order (the contract may put the softcap last):
  // softcap * tanh(s / softcap); + bias; - slope * |diagonal - j|, where the diagonal is i + offset.
  double softcap = 0;                               // 0 = none; else positive
  std::optional<std::vector<double>> alibi_slopes;  // [q_heads], f32 values (f64 in f64 problems)
  // [q_heads], likewise: one more term e^sink in each row's softmax, with value 0. A row that sees no
  // key is then 0 with lse = sink.
  std::optional<std::vector<double>> sinks;
  std::optional<Dropout> dropout;

  bool want_lse = false;
  bool want_weights = false;
  std::optional<ScoreMode> want_scores;
  // The gradients of sum(dout * out) by q, k and v are wanted, too; Inputs::dout is then there. Not of
  // fp8 problems.
  bool want_gradients = false;

  int64_t heads_per_kv_head() const { return kv_heads == 0 ? 1 : q_heads / kv_heads; }
  int64_t DiagonalOffset(int64_t b) const {
    return diagonal_offset.empty() ? 0 : diagonal_offset[static_cast<size_t>(b)];
  }
  // The scale in force: `scale`, or 1 / sqrt(head_dim), or 1 where head_dim is 0.
  double EffectiveScale() const;
  DType LseDType() const { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }
  DType BiasDType() const { return bias_dtype.value_or(dtype); }
  // The type that q, k and v are stored in.
  DType InputDType() const { return fp8 ? fp8->format : dtype; }
  // What is added to the score of a key by ALiBi; 0 without.
  double Alibi(int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (!alibi_slopes) return 0;
    const auto distance = static_cast<double>(i + DiagonalOffset(b) - j);
    return -(*alibi_slopes)[static_cast<size_t>(h)] * (distance < 0 ? -distance : distance);
  }

  Shape4 QShape() const { return {batch, q_heads, q_len, head_dim}; }
  Shape4 KShape() const { return {batch, kv_heads, kv_len, head_dim}; }
  Shape4 VShape() const { return {batch, kv_heads, kv_len, value_dim}; }
  Shape4 OutShape() const { return {batch, q_heads, q_len, value_dim}; }
  Shape4 LseShape() const { return {batch, q_heads, q_len, 1}; }
  Shape4 WeightsShape() const { return {batch, q_heads, q_len, kv_len}; }

  friend bool operator==(const Problem&, const Problem&) = default;
};

// The largest size, diagonal offset or side of a window that a problem may have.
inline constexpr int64_t kMaxSize = int64_t{1} << 24;

// Returns nullopt for a well-formed problem, else one line that names the field and how to mend it
// ("kv_heads = 3 does not divide q_heads = 8"). Everything else may assume a valid problem.
std::optional<std::string> Validate(const Problem& problem);

// The tensor data of a problem, already rounded to its dtype. Of fp8 problems these are the values
// themselves, scale included: exact multiples of an 8-bit number. `bias` has the shape of problem.bias
// and holds -inf exactly where that plane's bit is 0; it is empty without one. `dout`, the gradient of
// a loss by out, is shaped and typed as out; it is empty but where gradients are wanted.
struct Inputs {
  Array q, k, v, bias, dout{};
};

}  // namespace attest

#endif  // ATTEST_ATTENTION_PROBLEM_H_
