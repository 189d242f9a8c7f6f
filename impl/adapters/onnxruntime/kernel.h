// One instance of the adapter: a runtime, its sessions and the contract. plugin.cc puts the C
// interface around it; everything here reports errors as values.
#ifndef ATTEST_ADAPTERS_ONNXRUNTIME_KERNEL_H_
#define ATTEST_ADAPTERS_ONNXRUNTIME_KERNEL_H_

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "attest/kernel.h"
#include "impl/adapters/onnxruntime/call_reader.h"
#include "impl/adapters/onnxruntime/runtime.h"
#include "impl/adapters/onnxruntime/session_cache.h"

namespace attest::ort {

// The runtime that is looked for unless ?version= says otherwise: the one that ci/setup installs.
inline constexpr std::string_view kDefaultVersion = "1.28.2";

struct Settings {
  int opset = 24;  // 23 or 24
  std::string version{kDefaultVersion};
};

// Reads the create options: variant=attention, opset=23|24, version=X.Y.Z. Others are errors.
tl::expected<Settings, std::string> ReadSettings(std::span<const attest_string_pair> options);

// Where the library of a version is expected: $ATTEST_ONNXRUNTIME (the path of a libonnxruntime.so)
// where that is set, else third_party/onnxruntime-VERSION/libonnxruntime.so two folders above the
// plug-in's own: build/third_party/ for a plug-in in build/release/kernels/.
std::string LibraryPath(const std::string& version);

class Kernel {
 public:
  // `threads` = 0 leaves the number to the runtime. The error is one line that says how to mend it.
  static tl::expected<std::unique_ptr<Kernel>, std::string> Create(const Settings& settings,
                                                                   int threads);

  const std::string& contract_json() const { return contract_json_; }
  const std::string& runtime_version() const { return runtime_->version(); }

  // Runs one call. The runtime's own refusals are ATTEST_UNSUPPORTED where it says "not
  // implemented" and ATTEST_FAILED otherwise, with its words.
  tl::expected<void, Refusal> Forward(const attest_call& call);

 private:
  Kernel(const Settings& settings, std::unique_ptr<Runtime> runtime, int threads);

  const int opset_;
  const std::string contract_json_;
  std::unique_ptr<Runtime> runtime_;
  SessionCache sessions_;
};

}  // namespace attest::ort

#endif  // ATTEST_ADAPTERS_ONNXRUNTIME_KERNEL_H_
