// One small raw call of the probe, built tensor by tensor and not by a contract, since the declared
// one may lie. The standard data make the softmax readable: the score of key j is j ln 2 and its
// value is the j-th unit vector, so that out[b, h, i, j] is the weight of key j, 2^j over the sum of
// that over the visible keys.
#ifndef ATTEST_HARNESS_PROBE_TINY_CALL_H_
#define ATTEST_HARNESS_PROBE_TINY_CALL_H_

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

#include "impl/attention/array.h"
#include "impl/attention/contract.h"
#include "properties/harness/case/case.h"
#include "properties/harness/sandbox/call.h"

namespace attest::probe {

// The scale of the standard data, whose keys are the integers: exact in every format.
inline constexpr double kLn2 = 0.69314718055994530942;

// The form that a kernel was found to take; every experiment asks in it.
struct Form {
  DType dtype = DType::kF32;
  int64_t head_dim = 8;  // of q, k and v; more than the keys of any experiment
  Layout layout = Layout::kBhsd;
  bool is_causal = false;              // every call has the causal flag
  std::optional<CausalOffset> rule{};  // and hides keys by this diagonal
};

struct TinySizes {
  int64_t batch = 1, q_heads = 1, kv_heads = 1, q_len = 1, kv_len = 1;
  int64_t value_dim = 0;  // 0 = head_dim
};

class TinyCall {
 public:
  TinyCall(const Form& form, const TinySizes& sizes);

  const Form& form() const { return form_; }
  const TinySizes& sizes() const { return sizes_; }

  // The data of q, k and v; changed before Build.
  Array q, k, v;
  Layout q_layout, k_layout, v_layout, out_layout;
  DType data_dtype;  // of q, k and v where it is not the form's (8 bits)
  double scale = kLn2;
  bool gives_scale = true;
  bool is_packed = false;  // q, k and v are [1, heads, rows, dim], passed without the first extent

  TinyCall& Option(int32_t id, int64_t value);
  TinyCall& Option(int32_t id, double value);
  TinyCall& Integers(int32_t role, std::vector<int64_t> shape, std::vector<int64_t> values);
  TinyCall& Bits(int32_t role, const Shape4& shape, std::vector<uint8_t> bits, int rank = 4);
  TinyCall& Floats(int32_t role, DType dtype, std::vector<int64_t> shape,
                   const std::vector<double>& values);
  // A tensor of data of its own: past keys, say.
  TinyCall& Data(int32_t role, const Array& array);
  // Asks for an output beside OUT, dense.
  TinyCall& Ask(int32_t role, DType dtype, std::vector<int64_t> shape);
  TinyCall& AskLse();
  TinyCall& AskWeights(int32_t role);

  // The diagonal offsets, one a batch item.
  TinyCall& Offsets(const std::vector<int64_t>& offsets);
  // For experiments that say themselves what causality hides.
  TinyCall& WithoutRule();
  // Whether key j is hidden from row i because every call of the form is causal.
  bool IsHiddenByForm(int64_t b, int64_t i, int64_t j) const;

  DType LseDType() const { return form_.dtype == DType::kF64 ? DType::kF64 : DType::kF32; }
  Call Build() const;

 private:
  CallTensor DataTensor(int32_t role, const Array& array, Layout layout) const;
  int64_t DiagonalOffset(int64_t b) const;  // by the form's rule
  bool HasCausalOption() const;

  Form form_;
  TinySizes sizes_;
  std::vector<CallOption> options_;
  std::vector<CallTensor> more_;
  std::optional<std::vector<int64_t>> key_lengths_, offsets_;
};

}  // namespace attest::probe

#endif  // ATTEST_HARNESS_PROBE_TINY_CALL_H_
