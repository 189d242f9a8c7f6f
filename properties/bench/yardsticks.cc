#include "properties/bench/yardsticks.h"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "properties/bench/yardsticks.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace attest::yardsticks::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;

// Twelve chains: more than four cycles of latency times two units ask for.
double FmaPeak(float* result) {
  constexpr int kRounds = 200000;  // so many that threads are done at the same time, as good as
  const Floats d;
  const auto factor = hn::Set(d, 0.5F), term = hn::Set(d, 0.25F);
  hn::Vec<Floats> sums[12];
#pragma GCC unroll 12
  for (int n = 0; n < 12; ++n) sums[n] = hn::Set(d, *result + static_cast<float>(n));
  for (int round = 0; round < kRounds; ++round) {
#pragma GCC unroll 12
    for (int n = 0; n < 12; ++n) {
      sums[n] = hn::MulAdd(sums[n], factor, term);
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR
      asm("" : "+v"(sums[n].raw));  // else compilers find out that chains are alike
#endif
    }
  }
#pragma GCC unroll 12
  for (int n = 1; n < 12; ++n) sums[0] = hn::Add(sums[0], sums[n]);
  *result = hn::GetLane(sums[0]);
  return 2.0 * 12 * kRounds * static_cast<double>(hn::Lanes(d));
}

float Sum(const float* data, size_t size) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  auto a = hn::Zero(d), b = a, c = a, e = a;
  for (size_t n = 0; n + 4 * lanes <= size; n += 4 * lanes) {
    a = hn::Add(a, hn::LoadU(d, data + n));
    b = hn::Add(b, hn::LoadU(d, data + n + lanes));
    c = hn::Add(c, hn::LoadU(d, data + n + 2 * lanes));
    e = hn::Add(e, hn::LoadU(d, data + n + 3 * lanes));
  }
  return hn::GetLane(hn::Add(hn::Add(a, b), hn::Add(c, e)));
}

}  // namespace attest::yardsticks::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

// attest_bench_eigen, a library of its own: it is compiled for this very machine, as Eigen asks for.
extern "C" void AttestEigenProduct(const float* a, const float* b, float* c, int n);

namespace attest {
namespace yardsticks {
HWY_EXPORT(FmaPeak);
HWY_EXPORT(Sum);
}  // namespace yardsticks

namespace {

constexpr int kSize = 512;
constexpr double kProductFlops = 2.0 * kSize * kSize * kSize;

// What a result goes to, so that nothing that leads to it is left out.
thread_local volatile float sink = 0;

struct Matrices {
  std::vector<float> a = std::vector<float>(kSize * kSize, 0.5F), b = a, c = a;
};
Matrices& MatricesOfThread() {
  thread_local Matrices matrices;
  return matrices;
}

using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int,
                       float, float*, int);

// Null without OpenBLAS; else with one thread of its own.
Sgemm FindSgemm() {
  void* library = ::dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  using SetThreads = void (*)(int);
  const auto set = reinterpret_cast<SetThreads>(::dlsym(library, "openblas_set_num_threads"));
  if (set != nullptr) set(1);
  return reinterpret_cast<Sgemm>(::dlsym(library, "cblas_sgemm"));
}

}  // namespace

// OpenBLAS falls back on code without AVX-512, or even AVX, where it does not know a processor, so it is
// told what there is.
void PrepareYardsticks() {
  if ((hwy::SupportedTargets() & HWY_AVX3) != 0) ::setenv("OPENBLAS_CORETYPE", "SkylakeX", 0);
}

double RunFmaPeak() {
  float result = sink;
  const double flops = HWY_DYNAMIC_DISPATCH(yardsticks::FmaPeak)(&result);
  sink = result;
  return flops;
}

double RunReading(std::span<const float> data) {
  sink = HWY_DYNAMIC_DISPATCH(yardsticks::Sum)(data.data(), data.size());
  return static_cast<double>(data.size_bytes());
}

double RunEigenProduct() {
  Matrices& m = MatricesOfThread();
  AttestEigenProduct(m.a.data(), m.b.data(), m.c.data(), kSize);
  return kProductFlops;
}

double RunOpenBlasProduct() {
  static const Sgemm kSgemm = FindSgemm();
  if (kSgemm == nullptr) return 0;
  constexpr int kRowMajor = 101, kAsItIs = 111;  // of the CBLAS interface
  Matrices& m = MatricesOfThread();
  kSgemm(kRowMajor, kAsItIs, kAsItIs, kSize, kSize, kSize, 1, m.a.data(), kSize, m.b.data(), kSize,
         0, m.c.data(), kSize);
  return kProductFlops;
}

}  // namespace attest
#endif  // HWY_ONCE
