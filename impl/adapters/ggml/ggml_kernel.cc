#include "impl/adapters/ggml/ggml_kernel.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <system_error>

#include "impl/abi/kernel_table.h"
#include "impl/adapters/ggml/ggml_call.h"

namespace attest {
namespace {

// The values of ?cache=.
const std::map<std::string, DType> kCaches = {
    {"bf16", DType::kBF16}, {"f16", DType::kF16}, {"f32", DType::kF32}};

constexpr char kRelease[] = "b10256";   // of llama.cpp, as the install step builds it
constexpr int32_t kDefaultThreads = 1;  // more wait for one another by spinning

// What ggml.h says, on top of the published contract "ggml":
// - flash_attn_ext: "n_head % n_head_kv == 0, n_head % ne32 == 0, ne3 % ne33 == 0" is GQA, and a mask
//   that broadcasts over heads and batch items (over queries the adapter spells it out). v is
//   [n_embd_v, ...]: value_dim. logit_softcap and add_sinks are its arguments. The mask is added, and f16
//   (asserted by ggml.c): so with f32 and bf16 K and V the call has a boolean mask, which the adapter
//   writes as 0 and -inf; only an f16 bias gets through unrounded.
// - soft_max_ext: "fused soft_max(a*scale + mask*(ALiBi slope))", "mask F16 or F32, optional", which an
//   f32, f16 or bf16 bias fits. Of a row that sees no key nothing is said: sum 0 gives 0 in
//   flash_attn_ext alone.
// - ALiBi follows from max_bias and the head count: slopes of the caller are not offered.
// - Of roundings it says GGML_PREC_F32 "for higher precision", which the adapter asks for, and in
//   ggml-cpu/ops.cpp, of either precision of flash_attn_ext, "uses F32 accumulators": the defaults.
// - Of empty tensors, hidden NaN and infinities, and of bits nothing is said, so nothing is promised.
std::string ContractJson(bool unfused, const std::string& cache) {
  const std::string plane = unfused || cache == "f16" ? "bias" : "mask";
  return R"({"contract": "ggml", "dtypes": [")" + cache + R"("], "layouts": ["bhsd", "bshd"],
    "features": [")" +
         plane + R"(", "mask_broadcast", "mask_ranks", "gqa", "value_dim", "softcap", "sinks"],
    "empty_row": ")" +
         (unfused ? "unspecified" : "zero") + R"(",
    "options": {"variant": ["flash", "unfused"], "cache": ["f16", "f32", "bf16"]}})";
}

// ATTEST_GGML, or what the install step leaves beside the folder that this plug-in lies in.
std::string LibraryPath() {
  // The worker that loads plug-ins has one thread, and nobody changes the environment there.
  if (const char* path = std::getenv("ATTEST_GGML"); path != nullptr && *path != '\0') return path;
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&LibraryPath), &info) == 0) return "";
  std::error_code error;
  const auto plugin = std::filesystem::absolute(info.dli_fname, error).lexically_normal();
  const auto build = plugin.parent_path().parent_path().parent_path();
  return build / "third_party" / (std::string("ggml-") + kRelease) / "lib" / "libattest_ggml.so";
}

// The library stays loaded until the process ends.
tl::expected<attest_ggml_attend_function*, CallError> OpenLibrary() {
  const auto unsupported = [](std::string message) {
    return tl::unexpected(CallError{ATTEST_UNSUPPORTED, std::move(message)});
  };
  const std::string path = LibraryPath();
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return unsupported(std::string("ggml ") + kRelease + " is not installed (no " + path +
                       "): run ci/setup --with ggml, or set ATTEST_GGML to a libattest_ggml.so");
  }
  // Where ggml ends the process it would start a debugger to print a backtrace.
  setenv("LM_GGML_NO_BACKTRACE", "1", /*overwrite=*/0);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return unsupported(dlerror());
  auto* attend =
      reinterpret_cast<attest_ggml_attend_function*>(dlsym(library, "attest_ggml_attend_1"));
  if (attend == nullptr)
    return unsupported(path + ": is older than this program: run ci/setup --with ggml");
  return attend;
}

class GgmlKernel {
 public:
  static constexpr const char* kName = "ggml";
  static constexpr const char* kVersion = kRelease;
  static constexpr CallPart kTakes[] = {
      ATTEST_ROLE_Q,    ATTEST_ROLE_K,       ATTEST_ROLE_V,
      ATTEST_ROLE_MASK, ATTEST_ROLE_BIAS,    ATTEST_ROLE_SINKS,
      ATTEST_ROLE_OUT,  ATTEST_OPTION_SCALE, ATTEST_OPTION_SOFTCAP};

  static tl::expected<GgmlKernel, CallError> Create(const CreateOptions& options) {
    const auto invalid = [](std::string message) {
      return tl::unexpected(CallError{ATTEST_INVALID_ARGUMENT, std::move(message)});
    };
    if (auto ok = RefuseOthers(options, {"variant", "cache"}); !ok) return invalid(ok.error());
    const auto value = [&](const char* key, const char* fallback) {
      const auto found = options.values.find(key);
      return found == options.values.end() ? std::string(fallback) : found->second;
    };
    const std::string variant = value("variant", "flash"), cache = value("cache", "f16");
    if (variant != "flash" && variant != "unfused") {
      return invalid("unknown variant \"" + variant + "\": there are flash and unfused");
    }
    if (kCaches.count(cache) == 0) {
      return invalid("cache is f16, f32 or bf16, not \"" + cache + "\"");
    }
    const auto attend = OpenLibrary();
    if (!attend) return tl::unexpected(attend.error());
    GgmlKernel kernel;
    kernel.attend_ = *attend;
    kernel.unfused_ = variant == "unfused";
    kernel.cache_ = cache;
    kernel.threads_ = options.threads > 0 ? options.threads : kDefaultThreads;
    return kernel;
  }

  std::string Contract() const { return ContractJson(unfused_, cache_); }

  tl::expected<void, CallError> Forward(const CallView& call) const {
    if (const char* why = WhyRefused(call)) {
      return tl::unexpected(CallError{ATTEST_UNSUPPORTED, why});
    }
    const GgmlCall ggml_call(call, unfused_, threads_);
    if (const char* error = attend_(&ggml_call.words())) {
      return tl::unexpected(CallError{ATTEST_FAILED, error});
    }
    ggml_call.StoreOut();
    return {};
  }

 private:
  // Null, or what ggml has no word for.
  const char* WhyRefused(const CallView& call) const {
    if (kCaches.at(cache_) != call.dtype) return "another element type than ?cache= says";
    if (call.mask && call.bias) return "a mask and a bias together: ggml has one mask";
    if (call.bias && !unfused_ && call.bias_dtype != DType::kF16) return "ggml's mask is f16";
    if (std::min({call.batch, call.q_heads, call.q_len, call.kv_len, call.head_dim,
                  call.value_dim}) == 0) {
      return "an empty tensor";
    }
    const auto lanes_lie_together = [](const TensorView& view) {
      return view.shape[3] == 1 || view.strides[3] == 1;
    };
    if (!lanes_lie_together(call.q) || !lanes_lie_together(call.k) || !lanes_lie_together(call.v)) {
      return "lanes that do not lie together";
    }
    return nullptr;
  }

  attest_ggml_attend_function* attend_ = nullptr;
  bool unfused_ = false;
  std::string cache_;
  int32_t threads_ = 1;
};

}  // namespace

const attest_kernel_table* GgmlKernelTable() {
  return KernelTable<GgmlKernel>();
}

}  // namespace attest
