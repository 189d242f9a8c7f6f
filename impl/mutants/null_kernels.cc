// The null kernels: they write every output and compute no attention. A harness that passes one of
// them tests nothing.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "impl/abi/float_types.h"
#include "impl/abi/input_rows.h"
#include "impl/mutants/plain.h"
#include "impl/mutants/visible.h"

namespace attest {
namespace {

template <typename T>
class NullRun {
 public:
  using A = AccumulatorOf<T>;

  NullRun(const CallView& call, Mutation mutation)
      : call_(call),
        rows_(call),
        mutation_(mutation),
        value_(static_cast<size_t>(call.value_dim)) {}

  void Run() {
    for (int64_t b = 0; b < call_.batch; ++b) {
      for (int64_t h = 0; h < call_.q_heads; ++h) {
        for (int64_t i = 0; i < call_.StoredRows(b); ++i) RunRow(b, h, i);
      }
    }
    for (const auto& present : {call_.present_k, call_.present_v}) {
      if (present) FillPresent(*present);
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
    SetOut(b, h, i, std::vector<A>(value_.size(), value));
    SetLse(b, h, i, value);
    for (int64_t j = 0; j < call_.kv_len; ++j) SetWeight(b, h, i, j, value);
    if (!call_.scores) return;
    for (int64_t j = 0; j < call_.kv_len; ++j) {
      call_.scores->At<T>(b, h, i, j) = static_cast<T>(value);
    }
  }

  void FillPresent(const TensorView& present) {
    const A value = mutation_ == Mutation::kNan ? std::numeric_limits<A>::quiet_NaN() : A{0};
    for (int64_t b = 0; b < present.shape[0]; ++b)
      for (int64_t h = 0; h < present.shape[1]; ++h)
        for (int64_t j = 0; j < present.shape[2]; ++j)
          for (int64_t c = 0; c < present.shape[3]; ++c) {
            present.At<T>(b, h, j, c) = static_cast<T>(value);
          }
  }

  void Echo(int64_t b, int64_t h, int64_t i) {
    Fill(b, h, i, A{0});
    if (call_.StoredKeys(b) == 0) return;
    const int64_t key = std::min(i, call_.StoredKeys(b) - 1);
    rows_.Value(b, call_.KvHead(h), key, value_.data());
    SetOut(b, h, i, value_);
    SetWeight(b, h, i, key, A{1});
  }

  void Mean(int64_t b, int64_t h, int64_t i) {
    Fill(b, h, i, A{0});
    std::vector<A> mean(value_.size());
    std::vector<int64_t> keys;
    for (int64_t j = 0; j < call_.StoredKeys(b); ++j) {
      if (PlainVisible(call_, Mutation::kNone, b, h, i, j)) keys.push_back(j);
    }
    const auto count = static_cast<A>(keys.size());
    for (const int64_t j : keys) {
      rows_.Value(b, call_.KvHead(h), j, value_.data());
      for (size_t c = 0; c < mean.size(); ++c) mean[c] += value_[c];
      SetWeight(b, h, i, j, A{1} / count);
    }
    for (A& sum : mean) sum = keys.empty() ? A{0} : sum / count;
    SetOut(b, h, i, mean);
    SetLse(b, h, i, std::log(count));
  }

  void SetOut(int64_t b, int64_t h, int64_t i, const std::vector<A>& values) {
    const RowSpan<T> out = call_.OutAt<T>(b, h, i);
    for (size_t c = 0; c < values.size(); ++c) {
      out[static_cast<int64_t>(c)] = static_cast<T>(values[c]);
    }
  }
  void SetLse(int64_t b, int64_t h, int64_t i, A value) {
    if (call_.lse) call_.LseAt<A>(b, h, i) = value;
  }
  void SetWeight(int64_t b, int64_t h, int64_t i, int64_t j, A value) {
    if (call_.weights) call_.weights->At<T>(b, h, i, j) = static_cast<T>(value);
  }

  const CallView& call_;
  const InputRows<T> rows_;
  const Mutation mutation_;
  std::vector<A> value_;
};

}  // namespace

void NullAttention(const CallView& call, Mutation mutation) {
  WithFloatType(call.dtype, [&](auto zero) { NullRun<decltype(zero)>(call, mutation).Run(); });
}

}  // namespace attest
