// Attention of a layer by a kernel behind the plug-in interface (impl/abi): any kernel of the
// house, or a stranger's. The task becomes one call, with visibility as an explicit mask, so that a
// model and its kernel can disagree about nothing but arithmetic.
#ifndef ATTEST_TRANSFORMER_KERNEL_ATTENTION_H_
#define ATTEST_TRANSFORMER_KERNEL_ATTENTION_H_

#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "impl/abi/attest/kernel.h"
#include "impl/transformer/attention.h"

namespace attest::transformer {

class KernelAttention {
 public:
  // An instance of the table's kernel with these create options, on one thread. The table must
  // outlive it. The error is the kernel's message.
  static tl::expected<KernelAttention, std::string> Create(
      const attest_kernel_table* table,
      const std::vector<std::pair<std::string, std::string>>& options = {});

  // out [batch * q_len, heads * head_dim], T float or double. The error is the kernel's message.
  template <typename T>
  tl::expected<void, std::string> Run(const AttentionTask<T>& task, Matrix<T>& out) const;
  // The gradients by the kernel's own backward pass, behind a forward of its own, with an lse. Keys lie plainly, as in
  // training they do.
  template <typename T>
  tl::expected<AttentionGradients<T>, std::string> Backward(const AttentionTask<T>& task,
                                                            const Matrix<T>& dout) const;

 private:
  struct Destroyer {
    const attest_kernel_table* table = nullptr;
    void operator()(void* kernel) const { table->destroy(kernel); }
  };

  KernelAttention(const attest_kernel_table* table, void* kernel)
      : table_(table), kernel_(kernel, Destroyer{table}) {}

  const attest_kernel_table* table_;
  std::unique_ptr<void, Destroyer> kernel_;
};

}  // namespace attest::transformer

#endif  // ATTEST_TRANSFORMER_KERNEL_ATTENTION_H_
