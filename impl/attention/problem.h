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

  DType dtype = DType::kF32;    // of q, k, v, bias, out and weights; lse is f32 (f64 for f64)
  std::optional<double> scale;  // multiplies q.k; nullopt = 1 / sqrt(head_dim)

  // The diagonal: row i of batch item b stands at key i + diagonal_offset[b]. Empty = all zero.
  // `causal` hides every key after it; `window` is measured from it.
  std::vector<int64_t> diagonal_offset;
  bool causal = false;
  Window window;

  std::optional<std::vector<int64_t>> key_lengths;  // [batch]; keys j >= length are hidden
  std::optional<BitPlane> mask;                     // boolean mask
  // Additive mask ("bias"): the plane says where it is finite (1) and where -inf (0, hidden). The
  // finite values are data: Inputs::bias, of the same shape. A finite bias hides nothing.
  std::optional<BitPlane> bias;

  bool want_lse = false;
  bool want_weights = false;

  int64_t heads_per_kv_head() const { return kv_heads == 0 ? 1 : q_heads / kv_heads; }
  int64_t DiagonalOffset(int64_t b) const {
    return diagonal_offset.empty() ? 0 : diagonal_offset[static_cast<size_t>(b)];
  }
  // The scale in force: `scale`, or 1 / sqrt(head_dim), or 1 where head_dim is 0.
  double EffectiveScale() const;
  DType LseDType() const { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

  Shape4 QShape() const { return {batch, q_heads, q_len, head_dim}; }
  Shape4 KShape() const { return {batch, kv_heads, kv_len, head_dim}; }
  Shape4 VShape() const { return {batch, kv_heads, kv_len, value_dim}; }
  Shape4 OutShape() const { return {batch, q_heads, q_len, value_dim}; }
  Shape4 LseShape() const { return {batch, q_heads, q_len, 1}; }
  Shape4 WeightsShape() const { return {batch, q_heads, q_len, kv_len}; }

  friend bool operator==(const Problem&, const Problem&) = default;
};

// Returns nullopt for a well-formed problem, else one line that names the field and how to mend it
// ("kv_heads = 3 does not divide q_heads = 8"). Everything else may assume a valid problem.
std::optional<std::string> Validate(const Problem& problem);

// The tensor data of a problem, already rounded to its dtype. `bias` has the shape of problem.bias
// and holds -inf exactly where that plane's bit is 0; it is empty without one.
struct Inputs {
  Array q, k, v, bias;
};

}  // namespace attest

#endif  // ATTEST_ATTENTION_PROBLEM_H_
