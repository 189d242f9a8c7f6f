// One instance of the adapter: a runtime, its sessions and one operator with its contract. plugin.cc
// puts the C interface around it; everything here reports errors as values.
#ifndef ATTEST_ADAPTERS_ONNXRUNTIME_KERNEL_H_
#define ATTEST_ADAPTERS_ONNXRUNTIME_KERNEL_H_

#include <memory>
#include <string>

#include <tl/expected.hpp>

#include "attest/kernel.h"
#include "impl/abi/kernel_table.h"
#include "impl/adapters/onnxruntime/onnx_call.h"
#include "impl/adapters/onnxruntime/runtime.h"
#include "impl/adapters/onnxruntime/session_cache.h"

namespace attest::ort {

// Reads the variant (attention, mha, gqa) and the create options: version=X.Y.Z for all, past=on|off
// for attention and mha, opset=23|24 for attention, sinks=on|off and step=token|ragged|chunk for gqa.
// Others are errors.
tl::expected<Settings, std::string> ReadSettings(const CreateOptions& options);

// Where the library of a version is expected: $ATTEST_ONNXRUNTIME (the path of a libonnxruntime.so)
// where that is set, else third_party/onnxruntime-VERSION/libonnxruntime.so two folders above the
// plug-in's own: build/third_party/ for a plug-in in build/release/kernels/.
std::string LibraryPath(const std::string& version);

class Kernel {
 public:
  // `threads` = 0 leaves the number to the runtime. The error is one line that says how to mend it.
  static tl::expected<std::unique_ptr<Kernel>, std::string> Create(Settings settings, int threads);

  const std::string& contract_json() const { return contract_json_; }
  const std::string& runtime_version() const { return runtime_->version(); }

  // Runs one call. The runtime's own refusals are ATTEST_UNSUPPORTED where it says "not
  // implemented" and ATTEST_FAILED otherwise, with its words. For any number of threads at once.
  tl::expected<void, CallError> Forward(const attest_call& call);

 private:
  Kernel(Settings settings, std::unique_ptr<Runtime> runtime, int threads);

  tl::expected<void, CallError> Run(const OnnxCall& call);

  const Settings settings_;
  const std::string contract_json_;
  std::unique_ptr<Runtime> runtime_;
  SessionCache sessions_;
};

}  // namespace attest::ort

#endif  // ATTEST_ADAPTERS_ONNXRUNTIME_KERNEL_H_
