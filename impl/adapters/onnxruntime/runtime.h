// ONNX Runtime's C interface, opened at run time and without its headers. OrtApi is an append-only
// table of function pointers, so the slots used here mean the same in every release since 1.23 (the
// first with the Attention operator). The adapter's kernel.cc and session_cache.cc are the only
// callers.
#ifndef ATTEST_ADAPTERS_ONNXRUNTIME_RUNTIME_H_
#define ATTEST_ADAPTERS_ONNXRUNTIME_RUNTIME_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

namespace attest::ort {

// Why ONNX Runtime refused, on one line.
struct Error {
  bool not_implemented = false;  // the runtime says that it does not offer this
  std::string message;
};

// ONNX element types (onnx.proto, TensorProto.DataType); the C interface uses the same numbers.
enum class ElementType : int32_t {
  kFloat = 1,
  kInt32 = 6,
  kInt64 = 7,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kBFloat16 = 16,
};

size_t ByteSize(ElementType type);

// One dense tensor of a run, absent where it has no name. `data` stays the caller's and must outlive
// the run.
struct Tensor {
  const char* name = "";
  ElementType type = ElementType::kFloat;
  std::vector<int64_t> shape;
  void* data = nullptr;
  size_t bytes = 0;

  bool is_present() const { return *name != '\0'; }
};

class Session;

// A loaded library with its environment. The library stays loaded until the process ends.
class Runtime {
 public:
  // Opens the shared library at `path`. The error is one line.
  static tl::expected<std::unique_ptr<Runtime>, std::string> Open(const std::string& path);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const std::string& version() const { return version_; }

  // A session of a serialised model, using `threads` threads (0 = the runtime's own choice).
  tl::expected<std::unique_ptr<Session>, Error> CreateSession(std::string_view model,
                                                              int threads) const;

 private:
  friend class Session;
  Runtime() = default;

  // The entry of the function table at `slot`, as a function of the given type.
  template <typename Function>
  Function* At(int slot) const {
    return reinterpret_cast<Function*>(table_[slot]);
  }
  void Release(int slot, void* object) const;
  // Consumes a status (nullptr = success).
  tl::expected<void, Error> Check(void* status) const;

  void* const* table_ = nullptr;
  std::string version_;
  void* environment_ = nullptr;
  void* memory_info_ = nullptr;
};

// A loaded model. May not outlive its runtime; any number of threads may run it at once.
class Session {
 public:
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Runs the model. The runtime reads inputs and writes outputs in place, without copies. Absent
  // tensors are passed over.
  tl::expected<void, Error> Run(std::span<const Tensor> inputs,
                                std::span<const Tensor> outputs) const;

 private:
  friend class Runtime;
  Session(const Runtime& runtime, void* session) : runtime_(runtime), session_(session) {}

  const Runtime& runtime_;
  void* session_;
};

}  // namespace attest::ort

#endif  // ATTEST_ADAPTERS_ONNXRUNTIME_RUNTIME_H_
