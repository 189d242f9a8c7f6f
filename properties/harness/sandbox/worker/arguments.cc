#include "properties/harness/sandbox/worker/arguments.h"

#include <stdexcept>

#include "impl/attention/one_line.h"
#include "properties/harness/sandbox/digest.h"
#include "properties/harness/sandbox/worker/backward.h"
#include "properties/harness/sandbox/worker/dlpack_type.h"
#include "properties/harness/sandbox/worker/elements.h"
#include "properties/harness/sandbox/worker/plugin.h"

namespace attest {
namespace {

DType TypeOf(int64_t word) {
  if (word < 0 || word > static_cast<int64_t>(DType::kE5M2)) {
    throw std::invalid_argument("unknown dtype " + std::to_string(word));
  }
  return static_cast<DType>(word);
}

uint64_t DigestOfElements(const DLTensor& tensor) {
  if (!IsDense(tensor)) return DigestOf(ElementsOf(tensor));
  size_t bytes = tensor.dtype.bits / 8u;
  for (int32_t axis = 0; axis < tensor.ndim; ++axis)
    bytes *= static_cast<size_t>(tensor.shape[axis]);
  return DigestOf({static_cast<const std::byte*>(tensor.data), bytes});
}

}  // namespace

Arguments::Arguments(WordReader& words, const SlotMap& slots) {
  const size_t options = words.Count();
  options_.reserve(options);
  for (size_t i = 0; i < options; ++i) AddOption(words);
  const size_t tensors = words.Count();
  tensors_.reserve(tensors);
  arguments_.reserve(tensors);
  for (size_t i = 0; i < tensors; ++i) AddTensor(words, slots);
  // The arrays stay where they are from here on.
  int64_t* next = extents_.data();
  for (DLTensor& tensor : tensors_) {
    tensor.shape = next;
    tensor.strides = next + tensor.ndim;
    next += 2 * tensor.ndim;
  }
  forward_ = PutGradientsLast(arguments_);
  call_.struct_size = sizeof call_;
  call_.num_options = static_cast<uint32_t>(options_.size());
  call_.options = options_.data();
  call_.num_arguments = static_cast<uint32_t>(arguments_.size());
  call_.arguments = arguments_.data();
  call_.message = message_.data();
  call_.message_size = message_.size();
}

void Arguments::AddOption(WordReader& words) {
  attest_option added{};
  added.id = static_cast<int32_t>(words.Word());
  added.is_float = words.Word() != 0 ? 1 : 0;
  if (added.is_float != 0)
    added.value.f = words.Number();
  else
    added.value.i = words.Word();
  options_.push_back(added);
}

void Arguments::AddTensor(WordReader& words, const SlotMap& slots) {
  const auto role = static_cast<int32_t>(words.Word());
  DLTensor added{};
  added.device = {kDLCPU, 0};
  added.dtype = DLPackType(TypeOf(words.Word()));
  added.data = slots.AddressOf(static_cast<uint64_t>(words.Word()));
  if (added.data == nullptr) throw std::invalid_argument("offset outside every slot");
  const size_t rank = words.Count();
  added.ndim = static_cast<int32_t>(rank);
  for (size_t i = 0; i < 2 * rank; ++i) extents_.push_back(words.Word());
  if (role >= ATTEST_ROLE_OUT && role != ATTEST_ROLE_DOUT) outputs_.push_back(tensors_.size());
  tensors_.push_back(added);
  arguments_.push_back({role, &tensors_.back()});
}

std::span<uint64_t> Arguments::NoteDigests(std::span<uint64_t> room) const {
  for (const size_t output : outputs_) {
    if (room.empty()) break;
    room.front() = DigestOfElements(tensors_[output]);
    room = room.subspan(1);
  }
  return room;
}

std::string Arguments::Message() {
  message_.back() = '\0';
  return OneLine(message_.data());
}

}  // namespace attest
