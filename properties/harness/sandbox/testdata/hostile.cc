// A kernel for the sandbox's own tests: copies v to out, whatever the shapes, with a misdeed of
// impl/mutants/hostile.h around it; and some oddities that only these tests need. q, k, v and out
// are f32.
#include <attest/kernel.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>

#include "impl/mutants/hostile.h"

namespace {

const DLTensor* Find(const attest_call& call, int32_t role) {
  for (uint32_t i = 0; i < call.num_arguments; ++i)
    if (call.arguments[i].role == role) return call.arguments[i].tensor;
  return nullptr;
}

float* Data(const DLTensor* tensor) {
  return static_cast<float*>(tensor->data);
}

int64_t Count(const DLTensor* tensor) {
  int64_t count = 1;
  for (int32_t d = 0; d < tensor->ndim; ++d) count *= tensor->shape[d];
  return count;
}

// Writes every element of a tensor of rank 4, by its strides.
void Write(const DLTensor* out, float value) {
  const int64_t *n = out->shape, *s = out->strides;
  for (int64_t a = 0; a < n[0]; ++a)
    for (int64_t b = 0; b < n[1]; ++b)
      for (int64_t c = 0; c < n[2]; ++c)
        for (int64_t d = 0; d < n[3]; ++d)
          Data(out)[a * s[0] + b * s[1] + c * s[2] + d * s[3]] = value;
}

struct Kernel {
  std::string oddity;  // or empty
  attest::Hostile hostile;
  int calls = 0;
};

attest_status Copy(const attest_call& call) {
  const DLTensor *v = Find(call, ATTEST_ROLE_V), *out = Find(call, ATTEST_ROLE_OUT);
  if (out == nullptr) return ATTEST_OK;
  if (v != nullptr && v->ndim == 4 && Count(v) == Count(out))
    std::memcpy(out->data, v->data, static_cast<std::size_t>(Count(out)) * sizeof(float));
  else if (out->ndim == 4)
    Write(out, 0.5f);
  return ATTEST_OK;
}

// A misdeed chosen by the first value of q, so that one batch holds several.
void ActByValue(attest_call& call) {
  static const std::map<int, const char*> kMisdeeds = {
      {1, "read-past"}, {2, "exit"}, {3, "hang"}, {4, "abort"}};
  const DLTensor* q = Find(call, ATTEST_ROLE_Q);
  const auto found = kMisdeeds.find(q == nullptr ? 0 : static_cast<int>(Data(q)[0]));
  attest::HostileState state;
  if (found != kMisdeeds.end()) attest::FindMisdeed(found->second)->before(call, state);
}

// The most calls that were in flight while this one was, for long enough to be met.
int CallsAtOnce() {
  static std::atomic<int> in_flight;
  ++in_flight;
  int most = 1;
  for (int wait = 0; wait < 30; ++wait) {
    most = std::max(most, in_flight.load());
    usleep(1000);
  }
  --in_flight;
  return most;
}

using Oddity = attest_status (*)(attest_call& call, Kernel& kernel);
const std::map<std::string, Oddity> kOddities = {
    {"ok", [](attest_call& call, Kernel&) { return Copy(call); }},
    {"by-value",
     [](attest_call& call, Kernel&) {
       ActByValue(call);
       return Copy(call);
     }},
    {"nan-bits",
     [](attest_call& call, Kernel&) {
       Copy(call);
       std::memset(Find(call, ATTEST_ROLE_OUT)->data, 0xFF, 8);
       return ATTEST_OK;
     }},
    {"count-calls",
     [](attest_call& call, Kernel& kernel) {
       Copy(call);
       Data(Find(call, ATTEST_ROLE_OUT))[0] = static_cast<float>(kernel.calls);
       return ATTEST_OK;
     }},
    {"unsupported",
     [](attest_call& call, Kernel&) {
       std::snprintf(call.message, call.message_size, "not on\nTuesdays \xff");
       return ATTEST_UNSUPPORTED;
     }},
    // k has to be 8-bit unsigned, as fp8 and booleans are
    {"needs-bytes",
     [](attest_call& call, Kernel&) {
       const DLDataType k = Find(call, ATTEST_ROLE_K)->dtype;
       return k.code == kDLUInt && k.bits == 8 ? Copy(call) : ATTEST_UNSUPPORTED;
     }},
    {"close-and-wait",
     [](attest_call&, Kernel&) {
       for (int fd = 0; fd < 64; ++fd) close(fd);
       for (;;) pause();
       return ATTEST_OK;
     }},
    {"no-contract", [](attest_call& call, Kernel&) { return Copy(call); }},
    // how many calls were computed at the same time
    {"count-at-once",
     [](attest_call& call, Kernel&) {
       Copy(call);
       Data(Find(call, ATTEST_ROLE_OUT))[0] = static_cast<float>(CallsAtOnce());
       return ATTEST_OK;
     }},
    {"die-at-once",
     [](attest_call& call, Kernel&) {
       if (CallsAtOnce() > 1) Data(Find(call, ATTEST_ROLE_K))[Count(Find(call, ATTEST_ROLE_K))] = 1;
       return Copy(call);
     }},
    {"hang-at-once",
     [](attest_call& call, Kernel&) {
       while (CallsAtOnce() > 1) pause();
       return Copy(call);
     }},
    {"end-thread",
     [](attest_call& call, Kernel&) {
       if (getpid() != gettid()) pthread_exit(nullptr);
       return Copy(call);
     }},
    {"not-with-two-threads", [](attest_call& call, Kernel&) { return Copy(call); }},
    {"die-with-two-threads", [](attest_call& call, Kernel&) { return Copy(call); }},
};

void ActWhileLoading(const std::string& variant) {
  if (variant == "die-loading") std::abort();
  if (variant == "hang-loading")
    for (;;) pause();
  if (variant == "exit-loading") _exit(5);
  if (variant == "throw-loading") throw std::runtime_error("no luck");
}

attest_status Create(const attest_create_info* info, void** kernel) {
  const std::string variant = info->num_options > 0 ? info->options[0].value : "ok";
  ActWhileLoading(variant);
  if (info->threads == 2 && variant == "die-with-two-threads") std::abort();
  if (info->threads == 2 && variant == "not-with-two-threads") return ATTEST_UNSUPPORTED;
  auto* made = new Kernel;
  if (kOddities.count(variant) != 0) {
    made->oddity = variant;
  } else if (const auto error = attest::Hostile::Read(*info, &made->hostile)) {
    std::snprintf(info->message, info->message_size, "no variant %s\nhere", variant.c_str());
    delete made;
    return ATTEST_INVALID_ARGUMENT;
  }
  *kernel = made;
  return ATTEST_OK;
}

const char* Contract(void* kernel) {
  if (static_cast<Kernel*>(kernel)->oddity == "no-contract") return nullptr;
  return "{\"contract\": \"attest-1\"}";
}

attest_status Forward(void* kernel, attest_call* call) {
  Kernel& self = *static_cast<Kernel*>(kernel);
  ++self.calls;
  if (!self.oddity.empty()) return kOddities.at(self.oddity)(*call, self);
  return self.hostile.Forward(*call, [&] { return Copy(*call); });
}

void Destroy(void* kernel) {
  delete static_cast<Kernel*>(kernel);
}

}  // namespace

extern "C" ATTEST_EXPORT const attest_kernel_table* attest_kernel(void) {
  static const attest_kernel_table table = {ATTEST_ABI_VERSION,
                                            sizeof(attest_kernel_table),
                                            "hostile",
                                            "1",
                                            Create,
                                            Contract,
                                            Forward,
                                            nullptr,
                                            Destroy,
                                            nullptr,
                                            nullptr,
                                            nullptr,
                                            nullptr};
  return &table;
}
