#include "properties/harness/sandbox/worker/arguments.h"

#include <limits>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "impl/attention/one_line.h"
#include "properties/harness/sandbox/worker/plugin.h"

namespace attest {
namespace {

using nlohmann::json;

// DLPack 0.6 has no type for booleans, nor for 8-bit floats: both are plain bytes.
DLDataType TypeOf(const std::string& name) {
  if (name == "f32") return {kDLFloat, 32, 1};
  if (name == "f64") return {kDLFloat, 64, 1};
  if (name == "f16") return {kDLFloat, 16, 1};
  if (name == "bf16") return {kDLBfloat, 16, 1};
  if (name == "bool" || name == "e4m3" || name == "e5m2") return {kDLUInt, 8, 1};
  if (name == "i64") return {kDLInt, 64, 1};
  throw std::invalid_argument("unknown dtype " + name);
}

double NumberOf(const json& value) {
  if (value.is_number()) return value.get<double>();
  const auto& text = value.get_ref<const std::string&>();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  if (text == "nan" || text == "-nan") return std::numeric_limits<double>::quiet_NaN();
  throw std::invalid_argument("not a number: " + text);
}

}  // namespace

Arguments::Arguments(const json& call, const SlotMap& slots) {
  for (const json& option : call.at("options")) AddOption(option);
  const json& tensors = call.at("tensors");
  size_t extents = 0;
  for (const json& tensor : tensors) extents += 2 * tensor.at("shape").size();
  // Reserved in full: the tensors and arguments point into these.
  extents_.reserve(extents);
  tensors_.reserve(tensors.size());
  for (const json& tensor : tensors) AddTensor(tensor, slots);
  call_.struct_size = sizeof call_;
  call_.num_options = static_cast<uint32_t>(options_.size());
  call_.options = options_.data();
  call_.num_arguments = static_cast<uint32_t>(arguments_.size());
  call_.arguments = arguments_.data();
  call_.message = message_.data();
  call_.message_size = message_.size();
}

void Arguments::AddOption(const json& option) {
  attest_option added{};
  added.id = option.at("id").get<int32_t>();
  const auto real = option.find("f");
  added.is_float = real != option.end() ? 1 : 0;
  if (added.is_float != 0)
    added.value.f = NumberOf(*real);
  else
    added.value.i = option.at("i").get<int64_t>();
  options_.push_back(added);
}

void Arguments::AddTensor(const json& tensor, const SlotMap& slots) {
  const json& shape = tensor.at("shape");
  const json& strides = tensor.at("strides");
  if (shape.size() != strides.size()) throw std::invalid_argument("shape and strides differ");
  const size_t first = extents_.size();
  for (const json& extent : shape) extents_.push_back(extent.get<int64_t>());
  for (const json& stride : strides) extents_.push_back(stride.get<int64_t>());
  DLTensor added{};
  added.data = slots.AddressOf(tensor.at("offset").get<uint64_t>());
  if (added.data == nullptr) throw std::invalid_argument("offset outside every slot");
  added.device = {kDLCPU, 0};
  added.ndim = static_cast<int32_t>(shape.size());
  added.dtype = TypeOf(tensor.at("dtype").get_ref<const std::string&>());
  added.shape = extents_.data() + first;
  added.strides = extents_.data() + first + shape.size();
  tensors_.push_back(added);
  arguments_.push_back({tensor.at("role").get<int32_t>(), &tensors_.back()});
}

std::string Arguments::Message() {
  message_.back() = '\0';
  return OneLine(message_.data());
}

}  // namespace attest
