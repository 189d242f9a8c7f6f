// A call as the kernel receives it, made from its description in JSON: options, DLPack tensors and
// the arrays that they point to, owned together.
#ifndef ATTEST_HARNESS_SANDBOX_WORKER_ARGUMENTS_H_
#define ATTEST_HARNESS_SANDBOX_WORKER_ARGUMENTS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <attest/kernel.h>
#include <nlohmann/json_fwd.hpp>

#include "properties/harness/sandbox/worker/slot_map.h"

namespace attest {

class Arguments {
 public:
  // Throws std::exception where `call` is not as impl/abi/PROTOCOL.md says: the server answers that.
  Arguments(const nlohmann::json& call, const SlotMap& slots);
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  attest_call* call() { return &call_; }
  // What the kernel wrote as its reason, as one line.
  std::string Message();

 private:
  void AddOption(const nlohmann::json& option);
  void AddTensor(const nlohmann::json& tensor, const SlotMap& slots);

  std::vector<attest_option> options_;
  std::vector<int64_t> extents_;  // shape, then strides, of each tensor
  std::vector<DLTensor> tensors_;
  std::vector<attest_argument> arguments_;
  std::array<char, 1024> message_{};
  attest_call call_{};
};

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_WORKER_ARGUMENTS_H_
