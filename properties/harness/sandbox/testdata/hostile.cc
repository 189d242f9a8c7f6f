// A kernel for the sandbox's own tests: copies v to out, and misbehaves as its variant says. It
// takes any shapes; q, k, v and out are f32. Tensors are as large as the test makes them.
#include <attest/kernel.h>
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

volatile float g_sink;
float* volatile g_null = nullptr;  // volatile: or the compiler would know

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

__attribute__((noinline)) int Recurse(int depth) {
  volatile char frame[512];
  frame[0] = static_cast<char>(depth);
  return depth < 0 ? 0 : Recurse(depth + 1) + frame[0];
}

#if defined(__x86_64__)
void FlushToZero() {
  _mm_setcsr(_mm_getcsr() | 0x8040);
}
void LoadMisaligned(char* data) {
  __asm__ volatile("movaps %0, %%xmm0" : : "m"(data[4]) : "xmm0");
}
#else
void FlushToZero() {
  uint64_t control;
  __asm__ volatile("mrs %0, fpcr" : "=r"(control));
  __asm__ volatile("msr fpcr, %0" : : "r"(control | (uint64_t{1} << 24)));
}
void LoadMisaligned(char*) {}  // arm64 allows it
#endif

struct Hostile {
  std::string variant;
  int calls = 0;
};

struct Arguments {
  const DLTensor *q, *k, *v, *out;
};

using Misdeed = void (*)(const Arguments&, Hostile&);
struct Variant {
  const char* name;
  Misdeed act;  // before the outputs are written
};

void WriteNothing(const Arguments&, Hostile&) {
  pause();
}

const Variant kVariants[] = {
    {"ok", [](const Arguments&, Hostile&) {}},
    {"null-read", [](const Arguments&, Hostile&) { g_sink = *g_null; }},
    {"wild-write",
     [](const Arguments&, Hostile&) { *reinterpret_cast<volatile int*>(0x5a5a5a5a5000) = 1; }},
    {"jump", [](const Arguments&, Hostile&) { reinterpret_cast<void (*)()>(uintptr_t{0x1000})(); }},
    {"overread", [](const Arguments& a, Hostile&) { g_sink = Data(a.k)[Count(a.k)]; }},
    {"far-overread", [](const Arguments& a, Hostile&) { g_sink = Data(a.k)[Count(a.k) + 9999]; }},
    {"underread", [](const Arguments& a, Hostile&) { g_sink = Data(a.k)[-1]; }},
    {"write-input", [](const Arguments& a, Hostile&) { Data(a.k)[3] = 1; }},
    {"force-input",
     [](const Arguments& a, Hostile&) {
       void* page =
           reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(a.k->data) & ~uintptr_t{4095});
       mprotect(page, 4096, PROT_READ | PROT_WRITE);
       Data(a.k)[3] += 1;
     }},
    {"overwrite", [](const Arguments& a, Hostile&) { Data(a.out)[Count(a.out)] = 1; }},
    {"underwrite", [](const Arguments& a, Hostile&) { Data(a.out)[-1] = 1; }},
    {"write-gap", [](const Arguments& a, Hostile&) { Data(a.out)[a.out->shape[3]] = 1; }},
    {"misaligned",
     [](const Arguments& a, Hostile&) { LoadMisaligned(static_cast<char*>(a.q->data)); }},
    {"exit", [](const Arguments&, Hostile&) { std::exit(7); }},
    {"abort", [](const Arguments&, Hostile&) { std::abort(); }},
    {"hang",
     [](const Arguments&, Hostile&) {
       for (;;) pause();
     }},
    {"hang-deaf",
     [](const Arguments&, Hostile&) {
       signal(SIGTERM, SIG_IGN);
       for (;;) g_sink = 1;
     }},
    {"stack-overflow", [](const Arguments&, Hostile&) { g_sink = static_cast<float>(Recurse(1)); }},
    {"print",
     [](const Arguments&, Hostile&) {
       std::puts("hello from the kernel");
       std::fputs("and from stderr", stderr);
     }},
    {"endless-print",
     [](const Arguments&, Hostile&) {
       for (;;) std::puts("all work and no play");
     }},
    {"flush-to-zero", [](const Arguments&, Hostile&) { FlushToZero(); }},
    {"rounding", [](const Arguments&, Hostile&) { fesetround(FE_UPWARD); }},
    {"throw", [](const Arguments&, Hostile&) { throw std::runtime_error("not caught\ninside"); }},
    {"throw-int", [](const Arguments&, Hostile&) { throw 7; }},
    {"bad-alloc",
     [](const Arguments&, Hostile&) {
       std::vector<char*> kept;
       for (;;) kept.push_back(new char[std::size_t{64} << 20]);
     }},
    {"malloc",
     [](const Arguments&, Hostile&) {
       for (;;) *static_cast<volatile char*>(std::malloc(std::size_t{64} << 20)) = 1;
     }},
    {"fork",
     [](const Arguments&, Hostile&) {
       if (fork() == 0)
         for (;;) pause();
     }},
    {"fork-and-die",
     [](const Arguments&, Hostile&) {
       if (fork() == 0)
         for (;;) pause();
       std::abort();
     }},
    {"fork-and-return", [](const Arguments&, Hostile&) { fork(); }},
    {"garble",
     [](const Arguments&, Hostile&) {
       if (write(3, "garbage\n", 8) != 8) abort();
     }},
    {"flood",
     [](const Arguments&, Hostile&) {
       const std::string flood(std::size_t{1} << 16, 'x');
       while (write(3, flood.data(), flood.size()) > 0) {
       }
     }},
    {"close-all",
     [](const Arguments&, Hostile&) {
       for (int fd = 0; fd < 64; ++fd) close(fd);
       pause();
     }},
    {"shrink-arena",
     [](const Arguments&, Hostile&) {
       if (ftruncate(4, 0) == 0) pause();
     }},
    {"raise", [](const Arguments&, Hostile&) { raise(SIGSEGV); }},
    {"divide", [](const Arguments&, Hostile&) { raise(SIGFPE); }},
    {"thread-exit", [](const Arguments&, Hostile&) { pthread_exit(nullptr); }},
    // what is done with the outputs: see Forward
    {"skip-row", [](const Arguments&, Hostile&) {}},
    {"skip-out", [](const Arguments&, Hostile&) {}},
    {"nan-bits", [](const Arguments&, Hostile&) {}},
    {"unsupported", [](const Arguments&, Hostile&) {}},
    {"needs-bytes", [](const Arguments&, Hostile&) {}},
    {"odd-status", [](const Arguments&, Hostile&) {}},
    {"count-calls", [](const Arguments&, Hostile&) {}},
    {"fault-on-third",
     [](const Arguments&, Hostile& h) {
       if (h.calls == 3) std::abort();
     }},
    // misdeeds chosen by the first value of q, so that one batch holds several
    {"by-value",
     [](const Arguments& a, Hostile& h) {
       if (a.q == nullptr || Count(a.q) == 0) return;
       const int which = static_cast<int>(Data(a.q)[0]);
       if (which == 1) g_sink = Data(a.k)[Count(a.k)];
       if (which == 2) std::exit(2);
       if (which == 3) WriteNothing(a, h);
       if (which == 4) std::abort();
     }},
};

attest_status Create(const attest_create_info* info, void** kernel) {
  std::string variant = "ok";
  for (uint32_t i = 0; i < info->num_options; ++i) {
    const std::string key = info->options[i].key;
    if (key == "variant") variant = info->options[i].value;
  }
  if (variant == "die-loading") std::abort();
  if (variant == "hang-loading")
    for (;;) pause();
  if (variant == "exit-loading") _exit(5);
  if (variant == "throw-loading") throw std::runtime_error("no luck");
  bool known = variant == "no-contract";
  for (const Variant& v : kVariants) known = known || variant == v.name;
  if (!known) {
    std::snprintf(info->message, info->message_size, "no variant %s\nhere", variant.c_str());
    return ATTEST_INVALID_ARGUMENT;
  }
  *kernel = new Hostile{variant};
  return ATTEST_OK;
}

const char* Contract(void* kernel) {
  if (static_cast<Hostile*>(kernel)->variant == "no-contract") return nullptr;
  return "{\"contract\": \"attest-1\"}";
}

void Copy(const Arguments& a) {
  if (a.v != nullptr && a.v->ndim == 4 && Count(a.v) == Count(a.out))
    std::memcpy(a.out->data, a.v->data, static_cast<std::size_t>(Count(a.out)) * sizeof(float));
  else if (a.out->ndim == 4)
    Write(a.out, 0.5f);
}

attest_status Forward(void* kernel, attest_call* call) {
  Hostile& hostile = *static_cast<Hostile*>(kernel);
  ++hostile.calls;
  const Arguments a{Find(*call, ATTEST_ROLE_Q), Find(*call, ATTEST_ROLE_K),
                    Find(*call, ATTEST_ROLE_V), Find(*call, ATTEST_ROLE_OUT)};
  for (const Variant& v : kVariants)
    if (hostile.variant == v.name) v.act(a, hostile);
  if (hostile.variant == "unsupported") {
    std::snprintf(call->message, call->message_size, "not on\nTuesdays \xff");
    return ATTEST_UNSUPPORTED;
  }
  // k has to be 8-bit unsigned, as fp8 and booleans are
  if (hostile.variant == "needs-bytes" && (a.k->dtype.code != kDLUInt || a.k->dtype.bits != 8))
    return ATTEST_UNSUPPORTED;
  if (hostile.variant == "odd-status") return static_cast<attest_status>(17);
  if (hostile.variant == "skip-out" || a.out == nullptr) return ATTEST_OK;
  Copy(a);
  if (hostile.variant == "nan-bits") std::memset(a.out->data, 0xFF, 8);
  if (hostile.variant == "count-calls") Data(a.out)[0] = static_cast<float>(hostile.calls);
  return ATTEST_OK;
}

// "skip-row" leaves query row 1 of the first head as it was.
attest_status ForwardButARow(void* kernel, attest_call* call) {
  const DLTensor* out = Find(*call, ATTEST_ROLE_OUT);
  if (static_cast<Hostile*>(kernel)->variant != "skip-row") return Forward(kernel, call);
  const auto lane = static_cast<std::size_t>(out->shape[3]);
  std::vector<float> before(Data(out) + lane, Data(out) + 2 * lane);
  const attest_status status = Forward(kernel, call);
  std::memcpy(Data(out) + lane, before.data(), lane * sizeof(float));
  return status;
}

void Destroy(void* kernel) {
  delete static_cast<Hostile*>(kernel);
}

}  // namespace

extern "C" ATTEST_EXPORT const attest_kernel_table* attest_kernel(void) {
  static const attest_kernel_table table = {ATTEST_ABI_VERSION,
                                            sizeof(attest_kernel_table),
                                            "hostile",
                                            "1",
                                            Create,
                                            Contract,
                                            ForwardButARow,
                                            nullptr,
                                            Destroy,
                                            nullptr,
                                            nullptr,
                                            nullptr,
                                            nullptr};
  return &table;
}
