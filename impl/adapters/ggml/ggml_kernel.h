// ggml's CPU attention as a kernel, as it is. Whatever it gets wrong is a finding; nothing here mends or
// avoids anything. The adapter only puts a call into ggml's words (ggml_call.h): q and the result in f32,
// a boolean mask as 0 and -inf in f16.
#ifndef ATTEST_ADAPTERS_GGML_GGML_KERNEL_H_
#define ATTEST_ADAPTERS_GGML_GGML_KERNEL_H_

#include "impl/abi/attest/kernel.h"

namespace attest {

// The plug-in's table. Variants: flash (ggml_flash_attn_ext), which is the default, and unfused (mul_mat,
// soft_max_ext, mul_mat). Create option: cache=f16, f32 or bf16, the type of K and V.
const attest_kernel_table* GgmlKernelTable();

}  // namespace attest

#endif  // ATTEST_ADAPTERS_GGML_GGML_KERNEL_H_
