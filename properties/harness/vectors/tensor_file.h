// Reads one file of a backend test: protobuf messages with sizes that nobody has checked yet.
#ifndef ATTEST_HARNESS_VECTORS_TENSOR_FILE_H_
#define ATTEST_HARNESS_VECTORS_TENSOR_FILE_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "impl/attention/dtype.h"

namespace onnx {
class ModelProto;
class TensorProto;
}  // namespace onnx

namespace attest {

// A stored tensor. Every element type that a Problem knows is a double without loss (i64 beyond
// 2^53 is an error).
struct OnnxTensor {
  std::optional<DType> dtype;  // nullopt: a type that attest does not know; then values are empty
  std::string type_name;       // ONNX's word for the type: "FLOAT16"
  std::vector<int64_t> dims;   // each >= 0, their product at most 2^26
  std::vector<double> values;  // row-major
};

// The whole content of a regular file of at most 256 MiB. The error names the path.
tl::expected<std::string, std::string> ReadBytes(const std::filesystem::path& path);

// Reads a TensorProto file. The error is one line: path, what is wrong.
tl::expected<OnnxTensor, std::string> ReadTensorFile(const std::filesystem::path& path);

// The same of a file's bytes; `where` opens the error.
tl::expected<OnnxTensor, std::string> ParseTensor(const std::string& bytes,
                                                  const std::string& where);

// Checks and converts a parsed tensor; `where` opens the error.
tl::expected<OnnxTensor, std::string> ConvertTensor(const onnx::TensorProto& proto,
                                                    const std::string& where);

}  // namespace attest

#endif  // ATTEST_HARNESS_VECTORS_TENSOR_FILE_H_
