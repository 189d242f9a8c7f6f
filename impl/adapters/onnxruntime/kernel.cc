#include "impl/adapters/onnxruntime/kernel.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

namespace attest::ort {
namespace {

// A session holds some 100 KiB; a run of `attest check` meets a few dozen models, mostly for their
// scales.
constexpr size_t kMaxSessions = 256;

bool IsVersion(std::string_view text) {
  const auto is_part = [](char c) { return (c >= '0' && c <= '9') || c == '.'; };
  return !text.empty() && std::all_of(text.begin(), text.end(), is_part);
}

// The contract is the standard's, for the element types that the runtime documents for its CPU
// kernels (docs/OperatorKernels.md) and the features that this adapter passes on.
std::string ContractJson(int opset) {
  return R"({"contract": "onnx-attention-)" + std::to_string(opset) +
         R"(", "features": ["causal", "mask", "bias", "gqa", "value_dim", "weights",
                            "mask_broadcast", "mask_ranks", )" +
         (opset == 23 ? R"("mask_key_broadcast"])" : R"("key_lengths"])") +
         R"(, "scores": [], "dtypes": ["f32", "f16"], "options": {"opset": ["23", "24"]}})";
}

std::string MissingLibrary(const std::string& path, const std::string& version) {
  return "ONNX Runtime " + version + " is not installed (no " + path +
         "): run ci/setup --with onnxruntime, or set ATTEST_ONNXRUNTIME to a libonnxruntime.so";
}

}  // namespace

tl::expected<Settings, std::string> ReadSettings(std::span<const attest_string_pair> options) {
  Settings settings;
  for (const attest_string_pair& option : options) {
    const std::string_view key = option.key;
    const std::string_view value = option.value;
    if (key == "variant") {
      if (value == "attention") continue;
      return tl::unexpected("unknown variant \"" + std::string(value) + "\": there is attention");
    }
    if (key == "opset" && (value == "23" || value == "24")) {
      settings.opset = value == "23" ? 23 : 24;
    } else if (key == "version" && IsVersion(value)) {
      settings.version = value;
    } else {
      return tl::unexpected("cannot take " + std::string(key) + "=" + std::string(value) +
                            ": options are opset=23, opset=24, version=X.Y.Z");
    }
  }
  return settings;
}

std::string LibraryPath(const std::string& version) {
  // The worker that loads plug-ins has one thread, and nobody changes the environment there.
  if (const char* path = std::getenv("ATTEST_ONNXRUNTIME"); path != nullptr && *path != '\0') {
    return path;
  }
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&LibraryPath), &info) == 0) return "";
  std::error_code error;
  const auto plugin = std::filesystem::absolute(info.dli_fname, error).lexically_normal();
  const auto build = plugin.parent_path().parent_path().parent_path();
  return build / "third_party" / ("onnxruntime-" + version) / "libonnxruntime.so";
}

Kernel::Kernel(const Settings& settings, std::unique_ptr<Runtime> runtime, int threads)
    : opset_(settings.opset),
      contract_json_(ContractJson(settings.opset)),
      runtime_(std::move(runtime)),
      sessions_(*runtime_, threads, kMaxSessions) {}

tl::expected<std::unique_ptr<Kernel>, std::string> Kernel::Create(const Settings& settings,
                                                                  int threads) {
  const std::string path = LibraryPath(settings.version);
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return tl::unexpected(MissingLibrary(path, settings.version));
  }
  auto runtime = Runtime::Open(path);
  if (!runtime) return tl::unexpected(std::move(runtime).error());
  return std::unique_ptr<Kernel>(new Kernel(settings, std::move(*runtime), threads));
}

tl::expected<void, Refusal> Kernel::Forward(const attest_call& call) {
  const auto refusal = [](const Error& error) {
    return tl::unexpected(
        Refusal{error.not_implemented ? ATTEST_UNSUPPORTED : ATTEST_FAILED, error.message});
  };
  const auto onnx_call = ReadCall(call, opset_);
  if (!onnx_call) return tl::unexpected(onnx_call.error());
  const auto session = sessions_.Get(BuildModel(onnx_call->model));
  if (!session) return refusal(session.error());
  const auto done = (*session)->Run(onnx_call->inputs, onnx_call->outputs);
  if (!done) return refusal(done.error());
  return {};
}

}  // namespace attest::ort
