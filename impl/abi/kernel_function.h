// Makes a plug-in of one C++ function, which is all that a kernel without create options needs:
//
//   tl::expected<void, attest::CallError> Attention(const attest::CallView& call) { ...; return {}; }
//   ATTEST_KERNEL("mine", kContract, Attention)
//
// A call with a tensor or an option beyond q, k, v, out and the scale is answered UNSUPPORTED, so that
// none is silently ignored. What else the function heeds is listed behind it:
//
//   ATTEST_KERNEL("mine", kContract, Attention, ATTEST_OPTION_CAUSAL, ATTEST_ROLE_LSE)
//
// Used once in a file, outside of every namespace. A kernel with options or state is a class instead:
// kernel_table.h.
#ifndef ATTEST_ABI_KERNEL_FUNCTION_H_
#define ATTEST_ABI_KERNEL_FUNCTION_H_

#include <string>
#include <tl/expected.hpp>

#include "impl/abi/kernel_table.h"

// `name` and `contract` are C strings, the latter JSON text as kernel.h describes it.
#define ATTEST_KERNEL(name, contract, function, ...)                                               \
  namespace {                                                                                      \
  struct AttestFunctionKernel {                                                                    \
    static constexpr const char* kName = name;                                                     \
    static constexpr const char* kVersion = "1";                                                   \
    static constexpr attest::CallPart kTakes[] = {ATTEST_ROLE_Q, ATTEST_ROLE_K, ATTEST_ROLE_V,     \
                                                  ATTEST_ROLE_OUT,                                 \
                                                  ATTEST_OPTION_SCALE __VA_OPT__(, ) __VA_ARGS__}; \
    static tl::expected<AttestFunctionKernel, std::string> Create(                                 \
        const attest::CreateOptions& options) {                                                    \
      if (auto ok = attest::RefuseOthers(options, {}); !ok) return tl::unexpected(ok.error());     \
      return AttestFunctionKernel();                                                               \
    }                                                                                              \
    std::string Contract() const { return contract; }                                              \
    tl::expected<void, attest::CallError> Forward(const attest::CallView& call) const {            \
      return function(call);                                                                       \
    }                                                                                              \
  };                                                                                               \
  }                                                                                                \
  const attest_kernel_table* attest_kernel(void) {                                                 \
    return attest::KernelTable<AttestFunctionKernel>();                                            \
  }

#endif  // ATTEST_ABI_KERNEL_FUNCTION_H_
