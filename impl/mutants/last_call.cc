#include "impl/mutants/last_call.h"

namespace attest {
namespace {

std::vector<int64_t> SizesOf(const CallView& c) {
  return {c.batch, c.q_heads, c.kv_heads, c.q_len, c.kv_len, c.head_dim, c.value_dim};
}

// Whether key lengths say how much of the memory there is.
bool LengthsBoundMemory(const CallView& call) {
  return call.is_packed() || call.is_paged();
}

}  // namespace

bool HasState(Mutation mutation) {
  return mutation == Mutation::kScaleOfLastCall || mutation == Mutation::kLengthsOfLastCall ||
         mutation == Mutation::kFirstCallDiffers;
}

void LastCall::Replace(CallView& call, Mutation mutation) {
  const std::lock_guard lock(mutex_);
  if (mutation == Mutation::kLengthsOfLastCall && (!call.key_lengths || LengthsBoundMemory(call))) {
    return;
  }
  if (sizes_ != SizesOf(call)) {
    sizes_ = SizesOf(call);
    scale_ = call.scale;
    if (call.key_lengths) key_lengths_ = *call.key_lengths;
    return;
  }
  if (mutation == Mutation::kScaleOfLastCall) call.scale = scale_;
  if (mutation == Mutation::kLengthsOfLastCall) call.key_lengths = key_lengths_;
}

bool LastCall::IsFirst(const CallView& call) {
  const std::lock_guard lock(mutex_);
  constexpr size_t kMost = 1000;  // or a long run would look like a leak
  if (seen_.size() >= kMost) seen_.clear();
  return seen_.insert(SizesOf(call)).second;
}

}  // namespace attest
