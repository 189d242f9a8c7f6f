#include "fuzz/in_process.h"

#include <array>
#include <exception>
#include <new>
#include <utility>

#include "impl/attention/one_line.h"
#include "properties/harness/sandbox/answer.h"
#include "properties/harness/sandbox/inspect.h"
#include "properties/harness/sandbox/protocol.h"
#include "properties/harness/sandbox/strided.h"
#include "properties/harness/sandbox/worker/backward.h"
#include "properties/harness/sandbox/worker/dlpack_type.h"

namespace attest {
namespace {

attest_option OptionOf(const CallOption& option) {
  attest_option made{};
  made.id = option.id;
  made.is_float = option.is_float ? 1 : 0;
  if (option.is_float) {
    made.value.f = option.f;
  } else {
    made.value.i = option.i;
  }
  return made;
}

DLTensor TensorOf(const CallTensor& tensor, std::byte* data) {
  DLTensor made{};
  made.data = data;
  made.device = {kDLCPU, 0};
  made.ndim = static_cast<int32_t>(tensor.shape.size());
  made.dtype = DLPackType(tensor.dtype);
  // The ABI's tensors are const to the kernel; DLPack's pointers are not.
  made.shape = const_cast<int64_t*>(tensor.shape.data());
  made.strides = const_cast<int64_t*>(tensor.KernelStrides().data());
  return made;
}

// The kernel's answer as a worker would give it.
CallReply ComputePasses(const Plugin& plugin, attest_call* call, uint32_t forward, char* message) {
  CallReply reply;
  int32_t changed = 0;
  try {
    reply.status = NumberOf(RunPasses(*plugin.table, plugin.kernel, call, forward, &changed));
    reply.changed_role = changed;
  } catch (const std::bad_alloc&) {
    reply.thrown = "std::bad_alloc";
    reply.out_of_memory = true;
  } catch (const std::exception& error) {
    reply.thrown = OneLine(error.what());
  } catch (...) {
    reply.thrown = "of a type that is no std::exception";
  }
  message[call->message_size - 1] = '\0';
  if (reply.status != ATTEST_OK) reply.message = OneLine(message);
  return reply;
}

}  // namespace

tl::expected<std::unique_ptr<InProcessRunner>, std::string> InProcessRunner::Create(
    const Plugin& plugin) {
  auto arena = Arena::Create();
  if (!arena) return tl::unexpected(arena.error());
  return std::unique_ptr<InProcessRunner>(new InProcessRunner(plugin, std::move(*arena)));
}

InProcessRunner::~InProcessRunner() {
  plugin_.table->destroy(plugin_.kernel);
}

std::optional<Unable> InProcessRunner::WhyUnable(const CallSetting& setting) {
  if (setting.is_usual()) return std::nullopt;
  return Unable{"one kernel in the fuzzer's process computes one call at a time, on one thread"};
}

tl::expected<std::vector<CallResult>, Unable> InProcessRunner::Run(const CallSetting&,
                                                                   std::span<const Call> calls) {
  std::vector<CallResult> results;
  for (const Call& call : calls) {
    auto result = RunOne(call);
    if (!result) return tl::unexpected(result.error());
    results.push_back(std::move(*result));
  }
  return results;
}

tl::expected<CallResult, Unable> InProcessRunner::RunOne(const Call& call) {
  if (const auto why = WhyMalformed(call)) return Faulty(ProtocolFault(*why));
  const Call* const one[] = {&call};
  const auto changed = arena_->Fit(one);
  if (!changed) return tl::unexpected(Unable{changed.error()});
  if (*changed) {
    std::vector<MappedSlot> slots;
    for (const Slot& slot : arena_->slots())
      slots.push_back(
          {slot.offset, slot.bytes, slot.writable, slot.views, slot.views > 1 ? kFarGapBytes : 0});
    const auto mapped = slots_.Map(arena_->fd(), kGuardBytes, std::move(slots));
    if (!mapped) return tl::unexpected(Unable{mapped.error()});
  }
  CallResult result = Compute(call, kFirstFill);
  if (result.fault || result.status != CallStatus::kOk) return result;
  if (!HasFillLeft(call, result.outputs, kFirstFill)) return result;
  const Job second{&call, kSecondFill, Compute(call, kSecondFill)};
  Confirm(second, &result);
  return result;
}

std::byte* InProcessRunner::AddressOf(const PlacedTensor& placed) const {
  const MappedSlot& slot = slots_.slots()[placed.slot];
  return slot.address + (placed.offset - slot.offset);
}

CallResult InProcessRunner::Compute(const Call& call, std::byte fill) {
  arena_->Free();
  const PlacedCall placed = *arena_->Place(call, fill);
  std::vector<DLTensor> tensors;
  std::vector<attest_argument> arguments;
  std::vector<attest_option> options;
  tensors.reserve(placed.tensors.size());
  arguments.reserve(placed.tensors.size());
  options.reserve(call.options.size());
  for (const PlacedTensor& one : placed.tensors) {
    tensors.push_back(TensorOf(*one.tensor, AddressOf(one)));
    arguments.push_back({one.tensor->role, &tensors.back()});
  }
  for (const CallOption& option : call.options) options.push_back(OptionOf(option));
  const uint32_t forward = PutGradientsLast(arguments);
  std::array<char, 1024> message{};
  attest_call made{};
  made.struct_size = sizeof made;
  made.num_options = static_cast<uint32_t>(options.size());
  made.options = options.data();
  made.num_arguments = static_cast<uint32_t>(arguments.size());
  made.arguments = arguments.data();
  made.message = message.data();
  made.message_size = message.size();
  const CallReply reply = ComputePasses(plugin_, &made, forward, message.data());
  CallResult result = Judge(*arena_, placed, reply);
  if (!result.fault) arena_->KeepSlack(placed);
  return result;
}

}  // namespace attest
