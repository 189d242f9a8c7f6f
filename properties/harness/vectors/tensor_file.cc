#include "properties/harness/vectors/tensor_file.h"

#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

namespace attest {
namespace {

constexpr uintmax_t kMaxFileBytes = uintmax_t{256} << 20;
constexpr int64_t kMaxElements = int64_t{1} << 26;      // as many as a Problem's tensors may have
constexpr int64_t kMaxExactInteger = int64_t{1} << 53;  // doubles count no further

template <typename... Args>
tl::unexpected<std::string> Fail(fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected(fmt::format(format, std::forward<Args>(args)...));
}

std::optional<DType> DTypeOf(int32_t onnx_type) {
  switch (onnx_type) {
    case onnx::TensorProto::FLOAT:
      return DType::kF32;
    case onnx::TensorProto::DOUBLE:
      return DType::kF64;
    case onnx::TensorProto::FLOAT16:
      return DType::kF16;
    case onnx::TensorProto::BFLOAT16:
      return DType::kBF16;
    case onnx::TensorProto::BOOL:
      return DType::kBool;
    case onnx::TensorProto::INT64:
      return DType::kI64;
    default:
      return std::nullopt;
  }
}

// The number of elements, or the reason why the dims cannot be those of a tensor.
tl::expected<int64_t, std::string> CountElements(const std::vector<int64_t>& dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) {
    if (dim < 0) return Fail("dimension {} is negative", dim);
    if (dim > kMaxElements) return Fail("dimension {} exceeds {}", dim, kMaxElements);
    count *= dim;  // both factors are at most 2^26
    if (count > kMaxElements) return Fail("more than {} elements", kMaxElements);
  }
  return count;
}

// The elements' bytes in storage form. ONNX keeps them either raw or in a field by type, where f16,
// bf16 and bool are widened to int32.
std::string StorageOf(const onnx::TensorProto& proto, DType dtype) {
  if (proto.has_raw_data()) return proto.raw_data();
  std::string bytes;
  const auto append = [&bytes](const auto& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  switch (dtype) {
    case DType::kF32:
      for (const float value : proto.float_data()) append(value);
      break;
    case DType::kF64:
      for (const double value : proto.double_data()) append(value);
      break;
    case DType::kI64:
      for (const int64_t value : proto.int64_data()) append(value);
      break;
    case DType::kBool:
      for (const int32_t value : proto.int32_data()) append(static_cast<uint8_t>(value != 0));
      break;
    case DType::kE4M3:
    case DType::kE5M2:
      break;  // no dtype of these files is read as one
    case DType::kF16:
    case DType::kBF16:
      for (const int32_t value : proto.int32_data()) append(static_cast<uint16_t>(value));
      break;
  }
  return bytes;
}

tl::expected<double, std::string> LoadChecked(DType dtype, const char* source) {
  if (dtype == DType::kI64) {
    int64_t value = 0;
    std::memcpy(&value, source, sizeof(value));
    if (value < -kMaxExactInteger || value > kMaxExactInteger)
      return Fail("{} is too large", value);
  }
  if (dtype == DType::kBool && static_cast<unsigned char>(*source) > 1) {
    return Fail("a BOOL element is {}, not 0 or 1", static_cast<unsigned char>(*source));
  }
  return LoadElement(dtype, source);
}

}  // namespace

tl::expected<std::string, std::string> ReadBytes(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return Fail("{}: {}", path.string(), error ? error.message() : "not a file");
  }
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (error) return Fail("{}: {}", path.string(), error.message());
  if (size > kMaxFileBytes) {
    return Fail("{}: {} bytes, more than {} are not read", path.string(), size, kMaxFileBytes);
  }
  std::string bytes(static_cast<size_t>(size), '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(bytes.data(), static_cast<std::streamsize>(size))) {
    return Fail("{}: cannot be read", path.string());
  }
  return bytes;
}

tl::expected<OnnxTensor, std::string> ConvertTensor(const onnx::TensorProto& proto,
                                                    const std::string& where) {
  OnnxTensor tensor;
  tensor.dtype = DTypeOf(proto.data_type());
  tensor.type_name = onnx::TensorProto_DataType_IsValid(proto.data_type())
                         ? onnx::TensorProto_DataType_Name(proto.data_type())
                         : fmt::format("type {}", proto.data_type());
  tensor.dims.assign(proto.dims().begin(), proto.dims().end());
  const auto count = CountElements(tensor.dims);
  if (!count) return Fail("{}: {}", where, count.error());
  if (proto.data_location() == onnx::TensorProto::EXTERNAL) {
    return Fail("{}: keeps its data in another file, which is not read", where);
  }
  if (!tensor.dtype) return tensor;
  const size_t element = ByteSize(*tensor.dtype);
  const std::string bytes = StorageOf(proto, *tensor.dtype);
  if (bytes.size() != static_cast<size_t>(*count) * element) {
    return Fail("{}: {} bytes of {} data where the dimensions ask for {}", where, bytes.size(),
                tensor.type_name, static_cast<size_t>(*count) * element);
  }
  tensor.values.reserve(static_cast<size_t>(*count));
  for (size_t at = 0; at < bytes.size(); at += element) {
    const auto value = LoadChecked(*tensor.dtype, bytes.data() + at);
    if (!value) return Fail("{}: {}", where, value.error());
    tensor.values.push_back(*value);
  }
  return tensor;
}

tl::expected<OnnxTensor, std::string> ReadTensorFile(const std::filesystem::path& path) {
  const auto bytes = ReadBytes(path);
  if (!bytes) return tl::unexpected(bytes.error());
  return ParseTensor(*bytes, path.string());
}

tl::expected<OnnxTensor, std::string> ParseTensor(const std::string& bytes,
                                                  const std::string& where) {
  onnx::TensorProto proto;
  if (!proto.ParseFromString(bytes)) {
    return Fail("{}: not an ONNX tensor (TensorProto)", where);
  }
  return ConvertTensor(proto, where);
}

}  // namespace attest
