/* What the plug-in asks of ggml, in C: one attention call over memory of the caller. graph.c answers it
 * with ggml's own headers and is built together with ggml by the install step, so that the plug-in needs
 * neither; plugin.cc opens the library and calls the one function below. */
#ifndef ATTEST_ADAPTERS_GGML_GRAPH_H_
#define ATTEST_ADAPTERS_GGML_GRAPH_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { ATTEST_GGML_F32 = 0, ATTEST_GGML_F16 = 1, ATTEST_GGML_BF16 = 2 };

/* ne and nb count from the innermost axis, as ggml does: q is [head_dim, q_len, heads, batch]. nb is in
 * bytes, and nb[0] that of one element. data is null where the tensor is not given. */
typedef struct attest_ggml_tensor {
  int32_t type;
  int64_t ne[4];
  size_t nb[4];
  void* data;
} attest_ggml_tensor;

typedef struct attest_ggml_call {
  int32_t unfused; /* 0: flash_attn_ext, 1: mul_mat, soft_max_ext, mul_mat */
  int32_t threads; /* at least 1 */
  float scale, softcap;
  attest_ggml_tensor q;    /* f32 */
  attest_ggml_tensor k, v; /* of one type */
  attest_ggml_tensor
      mask; /* dense [kv_len, q_len, 1 or heads, 1 or batch], f16, or f32 if unfused */
  attest_ggml_tensor sinks; /* f32 [heads] */
  float* out; /* dense, axes from outside: fused [batch, q_len, heads, value_dim], unfused
                               [batch, heads, q_len, value_dim] */
} attest_ggml_call;

/* Computes the call into `out`. Returns null, or why it was not computed. ggml itself ends the process
 * where it does not like a shape. The name holds the version of this interface. */
typedef const char* attest_ggml_attend_function(const attest_ggml_call* call);
__attribute__((visibility("default"))) attest_ggml_attend_function attest_ggml_attend_1;

#ifdef __cplusplus
}
#endif

#endif /* ATTEST_ADAPTERS_GGML_GRAPH_H_ */
