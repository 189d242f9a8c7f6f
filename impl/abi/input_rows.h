// Rows of q, k and v as numbers, whatever their storage, strides and element type: what a kernel
// reads when it does not care how a call is laid out. 8-bit values come multiplied by their scale.
#ifndef ATTEST_ABI_INPUT_ROWS_H_
#define ATTEST_ABI_INPUT_ROWS_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "impl/abi/call_view.h"
#include "impl/abi/float_types.h"

namespace attest {

// The values of the 256 patterns of an 8-bit format, exactly. `format` is kE4M3 or kE5M2.
const std::array<float, 256>& Fp8Values(DType format);

// Reads a call whose element type is T; numbers come in its accumulator type, each rounded once
// where a scale multiplies it and else exact. The call must outlive the reader.
template <typename T>
class InputRows {
 public:
  using A = AccumulatorOf<T>;

  explicit InputRows(const CallView& call) : call_(call) {
    if (!call.fp8) return;
    const std::array<float, 256>& values = Fp8Values(*call.fp8);
    for (size_t n = 0; n < values.size(); ++n) {
      q_values_[n] = static_cast<A>(values[n]) * static_cast<A>(call.q_scale);
      k_values_[n] = static_cast<A>(values[n]) * static_cast<A>(call.k_scale);
      v_values_[n] = static_cast<A>(values[n]) * static_cast<A>(call.v_scale);
    }
  }

  // Component d of the row goes to target[d * step]. See CallView::KeyAt for the positions allowed.
  void Query(int64_t b, int64_t h, int64_t i, A* target, int64_t step = 1) const {
    if (call_.fp8) {
      Decode(call_.QueryAt<uint8_t>(b, h, i), q_values_, call_.head_dim, target, step);
    } else {
      Convert(call_.QueryAt<T>(b, h, i), call_.head_dim, target, step);
    }
  }
  void Key(int64_t b, int64_t kv_head, int64_t j, A* target, int64_t step = 1) const {
    if (call_.fp8) {
      Decode(call_.KeyAt<uint8_t>(b, kv_head, j), k_values_, call_.head_dim, target, step);
    } else {
      Convert(call_.KeyAt<T>(b, kv_head, j), call_.head_dim, target, step);
    }
  }
  void Value(int64_t b, int64_t kv_head, int64_t j, A* target, int64_t step = 1) const {
    if (call_.fp8) {
      Decode(call_.ValueAt<uint8_t>(b, kv_head, j), v_values_, call_.value_dim, target, step);
    } else {
      Convert(call_.ValueAt<T>(b, kv_head, j), call_.value_dim, target, step);
    }
  }

 private:
  using Values = std::array<A, 256>;

  static void Convert(const RowSpan<const T>& row, int64_t dim, A* target, int64_t step) {
    if (row.stride == 1 && step == 1) {  // the common case, in vectors
      for (int64_t d = 0; d < dim; ++d) target[d] = static_cast<A>(row.data[d]);
    } else {
      for (int64_t d = 0; d < dim; ++d) target[d * step] = static_cast<A>(row[d]);
    }
  }
  static void Decode(const RowSpan<const uint8_t>& row, const Values& values, int64_t dim,
                     A* target, int64_t step) {
    for (int64_t d = 0; d < dim; ++d) target[d * step] = values[row[d]];
  }

  const CallView& call_;
  Values q_values_{}, k_values_{}, v_values_{};
};

// The bias of one score, of whichever type it is; exact in the accumulator type. The call must have
// a bias.
template <typename T>
AccumulatorOf<T> BiasAt(const CallView& call, int64_t b, int64_t h, int64_t i, int64_t j) {
  using A = AccumulatorOf<T>;
  if (call.bias_dtype == call.dtype) return static_cast<A>(call.bias->At<const T>(b, h, i, j));
  return static_cast<A>(call.bias->At<const float>(b, h, i, j));
}

// What ALiBi adds to one score, in the accumulator type. The call must have slopes.
template <typename T>
AccumulatorOf<T> AlibiAt(const CallView& call, int64_t b, int64_t h, int64_t i, int64_t j) {
  using A = AccumulatorOf<T>;
  const int64_t beyond = j - (i + call.DiagonalOffset(b));
  const auto distance = static_cast<A>(beyond < 0 ? -beyond : beyond);
  return -static_cast<A>((*call.alibi_slopes)[static_cast<size_t>(h)]) * distance;
}

// Fills present_k and present_v, where the call wants them: every key and value at its position.
template <typename T>
void WritePresent(const CallView& call) {
  using A = AccumulatorOf<T>;
  const InputRows<T> rows(call);
  std::vector<A> row(static_cast<size_t>(std::max(call.head_dim, call.value_dim)));
  const auto write = [&](const TensorView& target, int64_t b, int64_t h, int64_t j) {
    for (int64_t d = 0; d < target.shape[3]; ++d) {
      target.At<T>(b, h, j, d) = static_cast<T>(row[static_cast<size_t>(d)]);
    }
  };
  for (int64_t b = 0; b < call.batch; ++b) {
    for (int64_t h = 0; h < call.kv_heads; ++h) {
      for (int64_t j = 0; j < call.kv_len; ++j) {
        if (call.present_k) rows.Key(b, h, j, row.data());
        if (call.present_k) write(*call.present_k, b, h, j);
        if (call.present_v) rows.Value(b, h, j, row.data());
        if (call.present_v) write(*call.present_v, b, h, j);
      }
    }
  }
}

}  // namespace attest

#endif  // ATTEST_ABI_INPUT_ROWS_H_
