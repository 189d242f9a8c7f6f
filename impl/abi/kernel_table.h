// Makes a plug-in of a C++ class, so that a new kernel is one small file:
//
//   class Mine {
//    public:
//     static constexpr const char* kName = "mine";
//     static constexpr const char* kVersion = "1";
//     static tl::expected<Mine, std::string> Create(const CreateOptions& options);
//                          // or tl::expected<Mine, CallError>: std::string is ATTEST_INVALID_ARGUMENT
//     std::string Contract() const;                                  // JSON text, see kernel.h
//     tl::expected<void, CallError> Forward(const CallView& call) const;
//     tl::expected<void, CallError> Backward(const CallView& call) const;  // where it has one
//   };
//   const attest_kernel_table* attest_kernel(void) { return attest::KernelTable<Mine>(); }
//
// A class that has `static constexpr CallPart kTakes[]` is asked for calls of these parts only (and of
// the gradients' own, with Backward); others are answered ATTEST_UNSUPPORTED. Exceptions end at this
// boundary: they become ATTEST_FAILED with their text. kernel_function.h makes the class of a plain
// function.
#ifndef ATTEST_ABI_KERNEL_TABLE_H_
#define ATTEST_ABI_KERNEL_TABLE_H_

#include <cstdint>
#include <exception>
#include <map>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

#include "impl/abi/attest/kernel.h"
#include "impl/abi/call_view.h"

namespace attest {

// What a kernel is created with: "variant" for NAME:variant, then the ?key=value pairs.
struct CreateOptions {
  int32_t threads = 0;
  std::map<std::string, std::string> values;
};

// Reads what create was given; a null or repeated key is an error.
tl::expected<CreateOptions, std::string> ParseCreateInfo(const attest_create_info* info);

// The integer in options.values[key], or `fallback` where the key is absent. A value that is no
// integer of at least 1 is an error that names the key.
tl::expected<int64_t, std::string> PositiveOption(const CreateOptions& options,
                                                  const std::string& key, int64_t fallback);

// An error naming the first key that is not among `known`, for kernels that take few options.
tl::expected<void, std::string> RefuseOthers(const CreateOptions& options,
                                             std::initializer_list<std::string_view> known);

// Something a call can hold: a tensor or an option. Implicit, so that both kinds stand in one list.
struct CallPart {
  constexpr CallPart(attest_role r) : role(r) {}
  constexpr CallPart(attest_option_id id) : option(id) {}
  int32_t role = 0, option = 0;  // the other is 0
};

// An error (ATTEST_UNSUPPORTED) naming the first tensor or option of `call` that is not in `known`.
// The call has passed ParseCall.
tl::expected<void, CallError> RefuseOtherParts(const attest_call& call,
                                               std::span<const CallPart> known);

// Copies `text` to a message buffer, cut to its size; a null buffer or size 0 is left alone.
void WriteMessage(std::string_view text, char* message, size_t message_size);

namespace kernel_table_internal {

template <typename Kernel>
struct Instance {
  Kernel kernel;
  std::string contract;
};

template <typename Kernel>
attest_status CreateOrThrow(const attest_create_info& info, void** kernel) {
  const auto refuse = [&](const auto& error) {
    if constexpr (requires { error.status; }) {
      WriteMessage(error.message, info.message, info.message_size);
      return error.status;
    } else {
      WriteMessage(error, info.message, info.message_size);
      return ATTEST_INVALID_ARGUMENT;
    }
  };
  const auto options = ParseCreateInfo(&info);
  if (!options) return refuse(options.error());
  auto made = Kernel::Create(*options);
  if (!made) return refuse(made.error());
  std::string contract = made->Contract();
  *kernel = new Instance<Kernel>{std::move(*made), std::move(contract)};
  return ATTEST_OK;
}

// Checks a call and hands it to compute(kernel, view).
template <typename Kernel, typename Compute>
attest_status ComputeOrThrow(void* kernel, attest_call& call, Pass pass, Compute&& compute) {
  const auto refuse = [&](const CallError& error) {
    WriteMessage(error.message, call.message, call.message_size);
    return error.status;
  };
  const auto view = ParseCall(call, pass);
  if (!view) return refuse(view.error());
  if constexpr (requires { Kernel::kTakes; }) {
    if (auto ok = RefuseOtherParts(call, Kernel::kTakes); !ok) return refuse(ok.error());
  }
  const auto done = compute(static_cast<Instance<Kernel>*>(kernel)->kernel, *view);
  return done ? ATTEST_OK : refuse(done.error());
}

// Runs `body`, which returns a status, and turns an exception into ATTEST_FAILED and a message.
template <typename Body>
attest_status Guarded(char* message, size_t message_size, Body&& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    WriteMessage("out of memory", message, message_size);
  } catch (const std::exception& error) {
    WriteMessage(error.what(), message, message_size);
  } catch (...) {
    WriteMessage("unknown exception", message, message_size);
  }
  return ATTEST_FAILED;
}

template <typename Kernel>
attest_status Create(const attest_create_info* info, void** kernel) {
  if (info == nullptr || kernel == nullptr) return ATTEST_INVALID_ARGUMENT;
  // Before its size is known to reach that far, not even the message buffer may be touched.
  if (info->struct_size < sizeof(attest_create_info)) return ATTEST_INVALID_ARGUMENT;
  *kernel = nullptr;
  return Guarded(info->message, info->message_size,
                 [&] { return CreateOrThrow<Kernel>(*info, kernel); });
}

template <typename Kernel>
const char* Contract(void* kernel) {
  return static_cast<Instance<Kernel>*>(kernel)->contract.c_str();
}

template <typename Kernel, typename Compute>
attest_status Computed(void* kernel, attest_call* call, Pass pass, Compute&& compute) {
  if (kernel == nullptr || call == nullptr) return ATTEST_INVALID_ARGUMENT;
  if (call->struct_size < sizeof(attest_call)) return ATTEST_INVALID_ARGUMENT;
  return Guarded(call->message, call->message_size,
                 [&] { return ComputeOrThrow<Kernel>(kernel, *call, pass, compute); });
}

template <typename Kernel>
attest_status Forward(void* kernel, attest_call* call) {
  return Computed<Kernel>(kernel, call, Pass::kForward,
                          [](const Kernel& k, const CallView& view) { return k.Forward(view); });
}

// The entry of the table: null where the class has no backward pass.
template <typename Kernel>
constexpr auto BackwardEntry() -> attest_status (*)(void*, attest_call*) {
  if constexpr (requires(const Kernel& k, const CallView& view) { k.Backward(view); }) {
    return [](void* kernel, attest_call* call) {
      return Computed<Kernel>(
          kernel, call, Pass::kBackward,
          [](const Kernel& k, const CallView& view) { return k.Backward(view); });
    };
  }
  return nullptr;
}

template <typename Kernel>
void Destroy(void* kernel) {
  delete static_cast<Instance<Kernel>*>(kernel);
}

}  // namespace kernel_table_internal

// The table of a kernel class; static lifetime. Calls of one instance may run concurrently if the
// class's const Forward may.
template <typename Kernel>
const attest_kernel_table* KernelTable() {
  static const attest_kernel_table kTable = {
      ATTEST_ABI_VERSION,
      sizeof(attest_kernel_table),
      Kernel::kName,
      Kernel::kVersion,
      kernel_table_internal::Create<Kernel>,
      kernel_table_internal::Contract<Kernel>,
      kernel_table_internal::Forward<Kernel>,
      kernel_table_internal::BackwardEntry<Kernel>(),
      kernel_table_internal::Destroy<Kernel>,
      /*cache_open=*/nullptr,
      /*cache_append=*/nullptr,
      /*cache_attend=*/nullptr,
      /*cache_close=*/nullptr,
  };
  return &kTable;
}

}  // namespace attest

#endif  // ATTEST_ABI_KERNEL_TABLE_H_
