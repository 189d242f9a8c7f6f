// A plug-in that misbehaves as its variant says, for the sandbox's own tests: each variant does one
// thing wrong and is otherwise the kernel "out = first lane of q". Not a kernel to learn from.
#include <attest/kernel.h>

#include <sys/mman.h>
#include <unistd.h>

#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct State {
  std::string variant;
  int calls = 0;
};

const DLTensor* Find(const attest_call* call, int32_t role) {
  for (uint32_t n = 0; n < call->num_arguments; ++n) {
    if (call->arguments[n].role == role) return call->arguments[n].tensor;
  }
  return nullptr;
}

float* Data(const attest_call* call, int32_t role) {
  return static_cast<float*>(Find(call, role)->data);
}

int64_t Count(const DLTensor* t) {
  int64_t count = 1;
  for (int axis = 0; axis < t->ndim; ++axis) count *= t->shape[axis];
  return count;
}

volatile float g_sink;

volatile int g_depth_limit = -1;  // never reached, but the compiler cannot know
volatile uintptr_t g_bad_address = 8;

int Overflow(int depth) {
  if (depth == g_depth_limit) return 0;
  volatile char frame[4096];
  frame[0] = static_cast<char>(depth);
  return Overflow(depth + 1) + frame[0];
}

void EatMemory() {
  std::vector<void*> blocks;
  while (true) {
    blocks.push_back(std::malloc(64 << 20));
    if (blocks.back() == nullptr) throw std::bad_alloc();
  }
}

void WriteAll(const attest_call* call, int32_t role, float value) {
  const DLTensor* t = Find(call, role);
  if (t == nullptr) return;
  for (int64_t a = 0; a < t->shape[0]; ++a)
    for (int64_t b = 0; b < t->shape[1]; ++b)
      for (int64_t i = 0; i < t->shape[2]; ++i)
        for (int64_t d = 0; d < t->shape[3]; ++d) {
          static_cast<float*>(t->data)[a * t->strides[0] + b * t->strides[1] + i * t->strides[2] +
                                       d * t->strides[3]] = value;
        }
}

// Misbehaves before the outputs are written; true when the call is over with that.
bool MisbehaveFirst(const std::string& what, attest_call* call) {
  const DLTensor* k = Find(call, ATTEST_ROLE_K);
  if (what == "segfault") *reinterpret_cast<volatile int*>(g_bad_address) = 1;
  if (what == "read-past-k") g_sink = Data(call, ATTEST_ROLE_K)[Count(k)];
  if (what == "read-before-k") g_sink = Data(call, ATTEST_ROLE_K)[-1];
  if (what == "write-q") Data(call, ATTEST_ROLE_Q)[1] = 7;
  if (what == "force-write-q") {
    const auto page = reinterpret_cast<uintptr_t>(Data(call, ATTEST_ROLE_Q)) & ~uintptr_t{4095};
    ::mprotect(reinterpret_cast<void*>(page), 4096, PROT_READ | PROT_WRITE);
    Data(call, ATTEST_ROLE_Q)[1] = 7;
  }
  if (what == "exit") std::exit(0);
  if (what == "abort") std::abort();
  if (what == "hang") {
    while (true) ::usleep(1000);
  }
  if (what == "stack-overflow") g_sink = static_cast<float>(Overflow(0));
  if (what == "throw") throw std::runtime_error("deliberate");
  if (what == "eat-memory") EatMemory();
  if (what == "close-control") ::close(3);
  if (what == "babble") {
    const char* nonsense = "{\"id\": -1}\n";
    const ssize_t written = ::write(3, nonsense, std::strlen(nonsense));
    return written < 0;
  }
  if (what == "fork") {
    if (::fork() == 0) {
      while (true) ::usleep(1000);
    }
  }
  if (what == "fork-and-return") (void)::fork();
  return false;
}

void MisbehaveLast(const std::string& what, attest_call* call) {
  const DLTensor* out = Find(call, ATTEST_ROLE_OUT);
  auto* data = static_cast<float*>(out->data);
  if (what == "write-past-out") data[Count(out)] = 7;
  if (what == "write-before-out") data[-1] = 7;
  if (what == "write-gap") data[out->shape[3]] = 7;
  if (what == "round-up") std::fesetround(FE_UPWARD);
  if (what == "print") {
    for (int n = 0; n < 100000; ++n) std::puts("a line of no interest whatever to anybody at all");
    std::fflush(stdout);
  }
}

attest_status Create(const attest_create_info* info, void** kernel) {
  auto* state = new State;
  for (uint32_t n = 0; n < info->num_options; ++n) {
    if (std::string(info->options[n].key) == "variant") state->variant = info->options[n].value;
  }
  if (state->variant == "refuse") {
    std::snprintf(info->message, info->message_size, "not today\nnor tomorrow");
    delete state;
    return ATTEST_FAILED;
  }
  if (state->variant == "crash-in-create") std::abort();
  *kernel = state;
  return ATTEST_OK;
}

const char* Contract(void*) {
  return R"({"dtypes": ["f32"]})";
}

attest_status Forward(void* kernel, attest_call* call) {
  auto* state = static_cast<State*>(kernel);
  const std::string& what = state->variant;
  ++state->calls;
  // A call is hostile when the first element of q is negative, so that batches can be mixed.
  const bool hostile = Data(call, ATTEST_ROLE_Q)[0] < 0;
  if (hostile && what == "unsupported") {
    std::snprintf(call->message, call->message_size, "no such thing");
    return ATTEST_UNSUPPORTED;
  }
  if (hostile && what == "odd-status") return static_cast<attest_status>(99);
  if (hostile && MisbehaveFirst(what, call)) return ATTEST_FAILED;
  if (hostile && what == "unwritten") {
    Data(call, ATTEST_ROLE_OUT)[0] = 1;
    return ATTEST_OK;
  }
  float value = Data(call, ATTEST_ROLE_Q)[0];
  if (hostile && what == "all-ones-nan") std::memset(&value, 0xFF, sizeof value);
  if (what == "count-calls") value = static_cast<float>(state->calls);
  WriteAll(call, ATTEST_ROLE_OUT, value);
  if (hostile) MisbehaveLast(what, call);
  return ATTEST_OK;
}

void Destroy(void* kernel) {
  delete static_cast<State*>(kernel);
}

const attest_kernel_table kTable = {ATTEST_ABI_VERSION,
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

}  // namespace

const attest_kernel_table* attest_kernel(void) {
  return &kTable;
}
