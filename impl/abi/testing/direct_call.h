// Calls a kernel's table in this very process, without a sandbox: for unit tests, benches and fuzz
// targets. It makes the ABI call of a problem as attest's own conventions have it (contract
// "attest-1") and reads the outputs back as doubles; a kernel that misbehaves takes the caller
// down.
#ifndef ATTEST_ABI_TESTING_DIRECT_CALL_H_
#define ATTEST_ABI_TESTING_DIRECT_CALL_H_

#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "impl/abi/attest/kernel.h"
#include "impl/attention/array.h"
#include "impl/attention/problem.h"

namespace attest {

// How the tensors of a call lie in memory; shapes are always [batch, heads, len, dim].
enum class DirectLayout {
  kDense,   // row-major
  kBshd,    // heads inside positions
  kGapped,  // every axis with unused elements between, the last one included
};

// How keys and values reach the kernel; at most one.
enum class DirectStorage {
  kPlain,
  kPast,    // the first half of the keys, rounded down, in the past
  kPages,   // pages of two keys, scattered, in every unused place NaN
  kRing,    // batch item b starts in slot (2 + 3 b) % kv_len
  kPacked,  // needs a problem that IsPackable
};

// Whether packed sequences can carry the problem: no mask, bias, documents, block mask or dropout,
// neither weights nor scores. Rows at or beyond the query length do not reach the kernel.
bool IsPackable(const Problem& problem);

// How a call is made of a problem.
struct DirectForm {
  DirectLayout layout = DirectLayout::kDense;
  DirectStorage storage = DirectStorage::kPlain;
  bool want_present = false;  // not of pages or packed sequences
  bool all_gradients = true;  // of bias and sinks, too, where gradients are wanted
};

struct DirectResult {
  attest_status status = ATTEST_FAILED;
  std::string message;
  Array out;  // as in Reference; the others are empty unless the problem wants them
  Array lse;
  Array weights;
  Array scores;
  Array present_k, present_v;  // empty unless the form wants them
  // Empty unless the problem wants gradients; the last two, unless the form does and there is a bias,
  // there are sinks.
  Array dq, dk, dv, dbias, dsink;
};

// One created instance of a kernel.
class DirectKernel {
 public:
  // The error is the message that create left. `options` are the key/value pairs of create; 0 threads
  // are the kernel's own choice.
  static tl::expected<DirectKernel, std::string> Create(
      const attest_kernel_table* table,
      const std::vector<std::pair<std::string, std::string>>& options = {}, int threads = 0);
  DirectKernel(DirectKernel&& other) noexcept;
  DirectKernel(const DirectKernel&) = delete;
  DirectKernel& operator=(const DirectKernel&) = delete;
  DirectKernel& operator=(DirectKernel&&) = delete;
  ~DirectKernel();

  std::string Contract() const;

  // Outputs are filled with the byte 0xA5 beforehand. `problem` must be valid, `inputs` its data.
  // Of packed sequences the rows that reach no kernel are 0 in the result.
  DirectResult Run(const Problem& problem, const Inputs& inputs, const DirectForm& form) const;
  DirectResult Run(const Problem& problem, const Inputs& inputs,
                   DirectLayout layout = DirectLayout::kDense) const {
    return Run(problem, inputs, DirectForm{layout});
  }

 private:
  DirectKernel(const attest_kernel_table* table, void* kernel) : table_(table), kernel_(kernel) {}

  const attest_kernel_table* table_;
  void* kernel_;
};

}  // namespace attest

#endif  // ATTEST_ABI_TESTING_DIRECT_CALL_H_
