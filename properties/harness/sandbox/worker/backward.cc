#include "properties/harness/sandbox/worker/backward.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <iterator>
#include <vector>

#include "properties/harness/sandbox/worker/elements.h"

namespace attest {
namespace {

bool IsForwards(const attest_argument& argument) {
  return argument.role < ATTEST_ROLE_DOUT;
}

// The outputs of a forward pass, as they were after it.
class KeptOutputs {
 public:
  explicit KeptOutputs(std::span<const attest_argument> arguments) {
    for (const attest_argument& argument : arguments) {
      if (argument.role < ATTEST_ROLE_OUT) continue;
      kept_.push_back({argument, ElementsOf(*argument.tensor)});
    }
  }

  // The role of one that has changed since, or 0.
  int32_t FindChange() const {
    for (const Output& output : kept_) {
      if (output.bytes != ElementsOf(*output.argument.tensor)) return output.argument.role;
    }
    return 0;
  }

 private:
  struct Output {
    attest_argument argument;
    std::vector<std::byte> bytes;
  };
  std::vector<Output> kept_;
};

}  // namespace

uint32_t PutGradientsLast(std::span<attest_argument> arguments) {
  if (std::ranges::all_of(arguments, IsForwards)) return static_cast<uint32_t>(arguments.size());
  std::vector<attest_argument> ordered;
  std::ranges::copy_if(arguments, std::back_inserter(ordered), IsForwards);
  const auto forward = static_cast<uint32_t>(ordered.size());
  std::ranges::copy_if(arguments, std::back_inserter(ordered), std::not_fn(IsForwards));
  std::ranges::copy(ordered, arguments.begin());
  return forward;
}

attest_status RunPasses(const attest_kernel_table& table, void* kernel, attest_call* call,
                        uint32_t forward, int32_t* changed) {
  *changed = 0;
  const uint32_t all = call->num_arguments;
  call->num_arguments = forward;
  const attest_status first = table.forward(kernel, call);
  call->num_arguments = all;
  if (forward == all || first != ATTEST_OK) return first;
  if (table.backward == nullptr) {
    std::snprintf(
        call->message, call->message_size,
        "backward is NULL in the plug-in's table; write it, or leave the key backward out "
        "of the contract");
    return ATTEST_FAILED;
  }
  const KeptOutputs outputs({call->arguments, forward});
  const attest_status second = table.backward(kernel, call);
  *changed = outputs.FindChange();
  return second;
}

}  // namespace attest
