// What a C++ kernel sees of a call: ParseCall checks an attest_call from end to end and turns it
// into a CallView of sizes, options and strided tensors, so that the kernel's own code starts where
// the arithmetic starts. kernel_table.h builds the plug-in's table around it. A view borrows the
// call's memory and converts nothing.
#ifndef ATTEST_ABI_CALL_VIEW_H_
#define ATTEST_ABI_CALL_VIEW_H_

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "impl/abi/attest/kernel.h"
#include "impl/attention/array.h"
#include "impl/attention/dtype.h"

namespace attest {

// Why a call is not computed: a status other than ATTEST_OK and one line for the user.
struct CallError {
  attest_status status = ATTEST_FAILED;
  std::string message;
};

// A four-dimensional strided tensor, element (0,0,0,0) at `data`. A broadcast axis has its full
// extent and stride 0. Where the tensor has no elements `data` may be null and Pointer must not be
// called.
struct TensorView {
  void* data = nullptr;
  Shape4 shape{0, 0, 0, 0};
  Shape4 strides{0, 0, 0, 0};  // in elements, never negative

  template <typename T>
  T* Pointer(int64_t a, int64_t b, int64_t c, int64_t d) const {
    return static_cast<T*>(data) + a * strides[0] + b * strides[1] + c * strides[2] +
           d * strides[3];
  }
  template <typename T>
  T& At(int64_t a, int64_t b, int64_t c, int64_t d) const {
    return *Pointer<T>(a, b, c, d);
  }
};

// A checked call. Sizes are below 2^40, so that sums of a few positions cannot overflow.
struct CallView {
  DType dtype = DType::kF32;  // of q, k, v, bias, out and weights
  int64_t batch = 0;
  int64_t q_heads = 0;
  int64_t kv_heads = 0;  // divides q_heads; 0 only where q_heads is 0
  int64_t q_len = 0;
  int64_t kv_len = 0;
  int64_t head_dim = 0;
  int64_t value_dim = 0;

  double scale = 1;
  bool causal = false;
  std::optional<int64_t> window_left;   // 0 .. 2^42; nullopt = open
  std::optional<int64_t> window_right;  // likewise

  TensorView q, k, v;                               // [batch, heads, len, dim]
  std::optional<TensorView> mask;                   // uint8_t, as [batch, q_heads, q_len, kv_len]
  std::optional<TensorView> bias;                   // of dtype, the same shape
  std::optional<std::vector<int64_t>> key_lengths;  // [batch], each in 0 .. kv_len
  std::optional<std::vector<int64_t>> diagonal_offset;  // [batch], each within +-2^40

  TensorView out;                     // of dtype
  std::optional<TensorView> lse;      // [batch, q_heads, q_len, 1], double for f64, else float
  std::optional<TensorView> weights;  // of dtype, [batch, q_heads, q_len, kv_len]

  // The key/value head that query head `h` reads.
  int64_t KvHead(int64_t h) const { return h / (q_heads / kv_heads); }
  // Keys at or beyond it are hidden from batch item `b`.
  int64_t KeyLength(int64_t b) const {
    return key_lengths ? (*key_lengths)[static_cast<size_t>(b)] : kv_len;
  }
  // Row i of batch item `b` stands at key i + DiagonalOffset(b).
  int64_t DiagonalOffset(int64_t b) const {
    return diagonal_offset ? (*diagonal_offset)[static_cast<size_t>(b)] : 0;
  }
};

// Checks everything that kernel.h says of a call. A role, option, device or negative stride that
// this glue does not know is ATTEST_UNSUPPORTED; shapes, types, lengths or pointers that contradict
// one another are ATTEST_INVALID_ARGUMENT. The view is valid as long as the call's tensors are.
tl::expected<CallView, CallError> ParseCall(const attest_call& call);

}  // namespace attest

#endif  // ATTEST_ABI_CALL_VIEW_H_
