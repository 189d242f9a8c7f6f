// The null kernels: they write every output and compute no attention. A harness that passes one of
// them tests nothing.
#include <algorithm>
#include <cmath>
#include <limits>

#include "impl/abi/float_types.h"
#include "impl/mutants/plain.h"

namespace attest {
namespace {

template <typename T>
class NullRun {
 public:
  using A = AccumulatorOf<T>;

  NullRun(const CallView& call, Mutation mutation) : call_(call), mutation_(mutation) {}

  void Run() {
    for (int64_t b = 0; b < call_.batch; ++b) {
      for (int64_t h = 0; h < call_.q_heads; ++h) {
        for (int64_t i = 0; i < call_.q_len; ++i) RunRow(b, h, i);
      }
    }
  }

 private:
  void RunRow(int64_t b, int64_t h, int64_t i) {
    switch (mutation_) {
      case Mutation::kNan:
        return Fill(b, h, i, std::numeric_limits<A>::quiet_NaN());
      case Mutation::kEchoV:
        return Echo(b, h, i);
      case Mutation::kMeanV:
        return Mean(b, h, i);
      default:
        return Fill(b, h, i, A{0});
    }
  }

  void Fill(int64_t b, int64_t h, int64_t i, A value) {
    for (int64_t c = 0; c < call_.value_dim; ++c) SetOut(b, h, i, c, value);
    SetLse(b, h, i, value);
    for (int64_t j = 0; j < call_.kv_len; ++j) SetWeight(b, h, i, j, value);
  }

  void Echo(int64_t b, int64_t h, int64_t i) {
    Fill(b, h, i, A{0});
    if (call_.kv_len == 0) return;
    const int64_t key = std::min(i, call_.kv_len - 1);
    for (int64_t c = 0; c < call_.value_dim; ++c) SetOut(b, h, i, c, Value(b, h, key, c));
    SetWeight(b, h, i, key, A{1});
  }

  void Mean(int64_t b, int64_t h, int64_t i) {
    const auto sees = [&](int64_t j) { return PlainVisible(call_, Mutation::kNone, b, h, i, j); };
    int64_t count = 0;
    for (int64_t j = 0; j < call_.kv_len; ++j) count += sees(j) ? 1 : 0;
    for (int64_t c = 0; c < call_.value_dim; ++c) {
      A sum = 0;
      for (int64_t j = 0; j < call_.kv_len; ++j) sum += sees(j) ? Value(b, h, j, c) : A{0};
      SetOut(b, h, i, c, count == 0 ? A{0} : sum / static_cast<A>(count));
    }
    SetLse(b, h, i, std::log(static_cast<A>(count)));
    for (int64_t j = 0; j < call_.kv_len; ++j) {
      SetWeight(b, h, i, j, sees(j) ? A{1} / static_cast<A>(count) : A{0});
    }
  }

  A Value(int64_t b, int64_t h, int64_t j, int64_t c) const {
    return static_cast<A>(call_.v.At<const T>(b, call_.KvHead(h), j, c));
  }
  void SetOut(int64_t b, int64_t h, int64_t i, int64_t c, A value) {
    call_.out.At<T>(b, h, i, c) = static_cast<T>(value);
  }
  void SetLse(int64_t b, int64_t h, int64_t i, A value) {
    if (call_.lse) call_.lse->At<A>(b, h, i, 0) = value;
  }
  void SetWeight(int64_t b, int64_t h, int64_t i, int64_t j, A value) {
    if (call_.weights) call_.weights->At<T>(b, h, i, j) = static_cast<T>(value);
  }

  const CallView& call_;
  const Mutation mutation_;
};

}  // namespace

void NullAttention(const CallView& call, Mutation mutation) {
  WithFloatType(call.dtype, [&](auto zero) { NullRun<decltype(zero)>(call, mutation).Run(); });
}

}  // namespace attest
