// Kernels as benches call them: in this process, with calls made once, as the contract has them.
#ifndef ATTEST_BENCH_KERNEL_CALLS_H_
#define ATTEST_BENCH_KERNEL_CALLS_H_

#include <cstddef>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include <attest/kernel.h>
#include <tl/expected.hpp>

#include "impl/attention/contract.h"
#include "impl/attention/problem.h"
#include "properties/harness/sandbox/call.h"
#include "properties/harness/sandbox/worker/plugin.h"

namespace attest {

// Memory that starts at a cache line, as that of a framework's tensors does.
class CacheLines {
 public:
  explicit CacheLines(size_t size);
  std::byte* data() const { return data_.get(); }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Delete {
    void operator()(std::byte* data) const { ::operator delete(data, kAlignment); }
  };
  std::unique_ptr<std::byte, Delete> data_;
};

// A call that can be made again and again. It borrows the kernel.
class PreparedCall {
 public:
  PreparedCall(const Plugin& plugin, Call call);
  PreparedCall(const PreparedCall&) = delete;
  PreparedCall& operator=(const PreparedCall&) = delete;

  // The kernel's message where it does not answer OK.
  std::optional<std::string> Run();

 private:
  const Plugin& plugin_;
  Call call_;                       // without the tensors' images
  std::vector<CacheLines> memory_;  // these
  std::vector<DLTensor> tensors_;
  std::vector<attest_argument> arguments_;
  std::vector<attest_option> options_;
};

// An instance of an installed kernel, named as on the command line.
class BenchKernel {
 public:
  static tl::expected<BenchKernel, std::string> Load(const std::string& text, int threads);

  // The problem with the inputs as the kernel's contract would have it. An error says why it cannot
  // have it; making an explicit mask of what it lacks is refused where that has over 2^25 elements.
  tl::expected<std::unique_ptr<PreparedCall>, std::string> Prepare(const Problem& problem,
                                                                   const Inputs& inputs) const;

 private:
  BenchKernel(Plugin plugin, Contract contract)
      : plugin_(std::move(plugin)), contract_(std::move(contract)) {}

  Plugin plugin_;
  Contract contract_;
};

}  // namespace attest

#endif  // ATTEST_BENCH_KERNEL_CALLS_H_
