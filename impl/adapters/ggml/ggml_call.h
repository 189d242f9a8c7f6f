// One attention call in ggml's words: q, mask, sinks and the result converted, exactly, where ggml wants
// another type than the call has, and pointed to where it does not. Private to the adapter.
#ifndef ATTEST_ADAPTERS_GGML_GGML_CALL_H_
#define ATTEST_ADAPTERS_GGML_GGML_CALL_H_

#include <Eigen/Core>
#include <vector>

#include "impl/abi/call_view.h"
#include "impl/adapters/ggml/graph.h"

namespace attest {

class GgmlCall {
 public:
  // `call` must be of f32, f16 or bf16, have no empty tensor, and outlive this object; a bias must be of
  // f16 for the fused kernel.
  GgmlCall(const CallView& call, bool unfused, int threads);
  GgmlCall(const GgmlCall&) = delete;
  GgmlCall& operator=(const GgmlCall&) = delete;

  const attest_ggml_call& words() const { return words_; }

  // After the call: rounds the result, once and to nearest, into the call's out, if it is not there yet.
  void StoreOut() const;

 private:
  void SetQuery();
  void SetMask();
  void SetOut();
  TensorView ResultView() const;

  const CallView& call_;
  attest_ggml_call words_{};
  std::vector<float> q_, sinks_, f32_mask_, out_;
  std::vector<Eigen::half> f16_mask_;
};

}  // namespace attest

#endif  // ATTEST_ADAPTERS_GGML_GGML_CALL_H_
