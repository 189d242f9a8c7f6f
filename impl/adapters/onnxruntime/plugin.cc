// The plug-in attest_kernel_onnxruntime.so: ONNX Runtime's CPU kernels of its three attention
// operators, as they are. Whatever they get wrong is a finding; nothing here mends or avoids anything.
#include <exception>

#include "attest/kernel.h"
#include "impl/adapters/onnxruntime/kernel.h"

namespace attest::ort {
namespace {

// The table shows the runtime's version as soon as an instance has loaded one.
char g_version[64] = "not loaded";

// Runs `body`; exceptions of the standard library (out of memory) must not cross the C interface.
template <typename Body>
attest_status Guarded(char* message, size_t size, Body&& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    WriteMessage(error.what(), message, size);
    return ATTEST_FAILED;
  }
}

attest_status Create(const attest_create_info* info, void** kernel) {
  return Guarded(info->message, info->message_size, [&] {
    const auto options = ParseCreateInfo(info);
    const auto settings = options.and_then(ReadSettings);
    if (!settings) {
      WriteMessage(settings.error(), info->message, info->message_size);
      return ATTEST_INVALID_ARGUMENT;
    }
    auto made = Kernel::Create(*settings, info->threads);
    if (!made) {
      WriteMessage(made.error(), info->message, info->message_size);
      return ATTEST_UNSUPPORTED;
    }
    WriteMessage((*made)->runtime_version(), g_version, sizeof(g_version));
    *kernel = made->release();
    return ATTEST_OK;
  });
}

const char* Contract(void* kernel) {
  return static_cast<Kernel*>(kernel)->contract_json().c_str();
}

attest_status Forward(void* kernel, attest_call* call) {
  return Guarded(call->message, call->message_size, [&] {
    const auto done = static_cast<Kernel*>(kernel)->Forward(*call);
    if (done) return ATTEST_OK;
    WriteMessage(done.error().message, call->message, call->message_size);
    return done.error().status;
  });
}

void Destroy(void* kernel) {
  delete static_cast<Kernel*>(kernel);
}

constexpr attest_kernel_table kTable = {
    ATTEST_ABI_VERSION,
    sizeof(attest_kernel_table),
    "onnxruntime",
    g_version,
    Create,
    Contract,
    Forward,
    /*backward=*/nullptr,
    Destroy,
    /*cache_open=*/nullptr,
    /*cache_append=*/nullptr,
    /*cache_attend=*/nullptr,
    /*cache_close=*/nullptr,
};

}  // namespace
}  // namespace attest::ort

extern "C" ATTEST_EXPORT const attest_kernel_table* attest_kernel(void) {
  return &attest::ort::kTable;
}
