#include "impl/adapters/onnxruntime/runtime.h"

#include <dlfcn.h>

#include <algorithm>
#include <utility>

namespace attest::ort {
namespace {

// Any version up to the library's own gives the table; one above it prints a line and gives none.
constexpr uint32_t kApiVersion = 23;

// Indices into OrtApi.
enum Slot {
  kGetErrorCode = 1,
  kGetErrorMessage = 2,
  kCreateEnv = 3,
  kCreateSessionFromArray = 8,
  kRun = 9,
  kCreateSessionOptions = 10,
  kSetIntraOpNumThreads = 24,
  kSetInterOpNumThreads = 25,
  kCreateTensorWithDataAsOrtValue = 49,
  kCreateCpuMemoryInfo = 69,
  kReleaseEnv = 92,
  kReleaseStatus = 93,
  kReleaseMemoryInfo = 94,
  kReleaseSession = 95,
  kReleaseValue = 96,
  kReleaseSessionOptions = 100,
  kAddSessionConfigEntry = 130,
};

constexpr int kLogFatalOnly = 4;    // ORT_LOGGING_LEVEL_FATAL: errors reach us as statuses
constexpr int kArenaAllocator = 1;  // OrtArenaAllocator
constexpr int kDefaultMemory = 0;   // OrtMemTypeDefault
constexpr int kErrorNotImplemented = 9;

// What OrtGetApiBase returns.
struct ApiBase {
  const void* (*get_api)(uint32_t version);
  const char* (*get_version)();
};

std::string OnOneLine(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
  // A failed check quotes its whole function signature between the place and the reason.
  constexpr size_t kHead = 60, kTail = 200;
  if (text.size() <= kHead + kTail + 5) return text;
  return text.substr(0, kHead) + " ... " + text.substr(text.size() - kTail);
}

// Values for one run, released together.
class Values {
 public:
  using ReleaseFunction = void(void*);
  Values(size_t count, ReleaseFunction* release) : values_(count, nullptr), release_(release) {}
  ~Values() {
    for (void* value : values_) {
      if (value != nullptr) release_(value);
    }
  }
  Values(const Values&) = delete;
  Values& operator=(const Values&) = delete;

  void*& operator[](size_t index) { return values_[index]; }
  void** data() { return values_.data(); }

 private:
  std::vector<void*> values_;
  ReleaseFunction* release_;
};

}  // namespace

size_t ByteSize(ElementType type) {
  switch (type) {
    case ElementType::kBool:
      return 1;
    case ElementType::kFloat16:
    case ElementType::kBFloat16:
      return 2;
    case ElementType::kFloat:
    case ElementType::kInt32:
      return 4;
    case ElementType::kInt64:
    case ElementType::kDouble:
      return 8;
  }
  return 0;
}

void Runtime::Release(int slot, void* object) const {
  if (object != nullptr) At<void(void*)>(slot)(object);
}

tl::expected<void, Error> Runtime::Check(void* status) const {
  if (status == nullptr) return {};
  Error error;
  error.not_implemented = At<int(const void*)>(kGetErrorCode)(status) == kErrorNotImplemented;
  error.message = OnOneLine(At<const char*(const void*)>(kGetErrorMessage)(status));
  Release(kReleaseStatus, status);
  return tl::unexpected(std::move(error));
}

tl::expected<std::unique_ptr<Runtime>, std::string> Runtime::Open(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    return tl::unexpected(OnOneLine(reason == nullptr ? path + ": cannot be loaded" : reason));
  }
  auto* get_base = reinterpret_cast<const ApiBase* (*)()>(dlsym(library, "OrtGetApiBase"));
  const ApiBase* base = get_base == nullptr ? nullptr : get_base();
  if (base == nullptr) return tl::unexpected(path + ": no OrtGetApiBase, not an ONNX Runtime");
  std::unique_ptr<Runtime> runtime(new Runtime);
  runtime->version_ = base->get_version();
  runtime->table_ = static_cast<void* const*>(base->get_api(kApiVersion));
  if (runtime->table_ == nullptr) {
    return tl::unexpected(path + ": ONNX Runtime " + runtime->version_ +
                          " is too old: 1.23 or later is needed");
  }
  auto made = runtime->Check(runtime->At<void*(int, const char*, void**)>(kCreateEnv)(
      kLogFatalOnly, "attest", &runtime->environment_));
  if (made) {
    made = runtime->Check(runtime->At<void*(int, int, void**)>(kCreateCpuMemoryInfo)(
        kArenaAllocator, kDefaultMemory, &runtime->memory_info_));
  }
  if (!made) return tl::unexpected(path + ": " + made.error().message);
  return runtime;
}

Runtime::~Runtime() {
  if (table_ == nullptr) return;
  Release(kReleaseMemoryInfo, memory_info_);
  Release(kReleaseEnv, environment_);
}

tl::expected<std::unique_ptr<Session>, Error> Runtime::CreateSession(std::string_view model,
                                                                     int threads) const {
  Values options(1, At<void(void*)>(kReleaseSessionOptions));
  auto done = Check(At<void*(void**)>(kCreateSessionOptions)(&options[0]));
  if (done) done = Check(At<void*(void*, int)>(kSetIntraOpNumThreads)(options[0], threads));
  if (done) done = Check(At<void*(void*, int)>(kSetInterOpNumThreads)(options[0], 1));
  if (done) {
    // Idle threads sleep: hundreds of small sessions are alive at once, each with its own pool.
    done = Check(At<void*(void*, const char*, const char*)>(kAddSessionConfigEntry)(
        options[0], "session.intra_op.allow_spinning", "0"));
  }
  void* session = nullptr;
  if (done) {
    done = Check(At<void*(const void*, const void*, size_t, const void*, void**)>(
        kCreateSessionFromArray)(environment_, model.data(), model.size(), options[0], &session));
  }
  if (!done) return tl::unexpected(done.error());
  return std::unique_ptr<Session>(new Session(*this, session));
}

Session::~Session() {
  runtime_.Release(kReleaseSession, session_);
}

tl::expected<void, Error> Session::Run(std::span<const Tensor> inputs,
                                       std::span<const Tensor> outputs) const {
  Values values(inputs.size() + outputs.size(), runtime_.At<void(void*)>(kReleaseValue));
  std::vector<const char*> names;
  // Makes the values of the tensors that are there, behind those made before.
  const auto add = [&](std::span<const Tensor> tensors) -> tl::expected<size_t, Error> {
    for (const Tensor& tensor : tensors) {
      if (!tensor.is_present()) continue;
      auto made = runtime_.Check(
          runtime_.At<void*(const void*, void*, size_t, const int64_t*, size_t, int32_t, void**)>(
              kCreateTensorWithDataAsOrtValue)(
              runtime_.memory_info_, tensor.data, tensor.bytes, tensor.shape.data(),
              tensor.shape.size(), static_cast<int32_t>(tensor.type), &values[names.size()]));
      if (!made) return tl::unexpected(std::move(made).error());
      names.push_back(tensor.name);
    }
    return names.size();
  };
  const auto input_count = add(inputs);
  if (!input_count) return tl::unexpected(input_count.error());
  const auto count = add(outputs);
  if (!count) return tl::unexpected(count.error());
  using RunFunction = void*(void*, const void*, const char* const*, const void* const*, size_t,
                            const char* const*, size_t, void**);
  return runtime_.Check(runtime_.At<RunFunction>(kRun)(
      session_, nullptr, names.data(), values.data(), *input_count, names.data() + *input_count,
      *count - *input_count, values.data() + *input_count));
}

}  // namespace attest::ort
