#include "impl/tiled/bias_gradient.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "impl/abi/row_threads.h"
#include "impl/tiled/backward_pair.h"

namespace attest {
namespace {

// The indices that one index of an extent stands for: all of `full` where it broadcasts.
struct Shared {
  Shared(int64_t extent, int64_t full, int64_t index)
      : first(extent == 1 ? 0 : index), last(extent == 1 ? full : index + 1) {}
  int64_t first, last;
};

template <typename T>
class BiasRun {
 public:
  using A = AccumulatorOf<T>;

  explicit BiasRun(const CallView& call)
      : call_(call),
        dbias_(*call.gradients->dbias),
        inputs_(call),
        row_(call),
        key_(static_cast<size_t>(call.head_dim)),
        value_(static_cast<size_t>(call.value_dim)),
        sums_(static_cast<size_t>(dbias_.shape[3])) {}

  // The rows of the bias with the numbers [first, last), row-major.
  void Run(int64_t first, int64_t last) {
    const int64_t rows = dbias_.shape[2], heads = dbias_.shape[1];
    for (int64_t n = first; n < last; ++n) RunRow(n / rows / heads, n / rows % heads, n % rows);
  }

 private:
  void RunRow(int64_t b, int64_t h, int64_t i) {
    std::fill(sums_.begin(), sums_.end(), A{0});
    const Shared items(dbias_.shape[0], call_.batch, b), heads(dbias_.shape[1], call_.q_heads, h),
        queries(dbias_.shape[2], call_.q_len, i);
    for (int64_t item = items.first; item < items.last; ++item) {
      const int64_t rows = std::min(queries.last, call_.QueryLength(item));
      for (int64_t head = heads.first; head < heads.last; ++head) {
        for (int64_t query = queries.first; query < rows; ++query) AddRow(item, head, query);
      }
    }
    for (int64_t j = 0; j < dbias_.shape[3]; ++j) Write(b, h, i, j, sums_[static_cast<size_t>(j)]);
  }

  void AddRow(int64_t b, int64_t h, int64_t i) {
    const KeySpan range = RangeOfRow(call_, b, i);
    if (range.empty()) return;
    row_.Start(b, h, i);
    for (int64_t j = range.first; j < range.last; ++j) {
      if (!row_.Sees(j)) continue;
      inputs_.Key(b, call_.KvHead(h), j, key_.data());
      inputs_.Value(b, call_.KvHead(h), j, value_.data());
      const int64_t at = dbias_.shape[3] == 1 ? 0 : j;
      sums_[static_cast<size_t>(at)] += row_.With(j, key_.data(), value_.data()).dlogit;
    }
  }

  // To the type of the bias: f32, or that of the call.
  void Write(int64_t b, int64_t h, int64_t i, int64_t j, A sum) {
    if (call_.bias_dtype == call_.dtype) {
      dbias_.At<T>(b, h, i, j) = static_cast<T>(sum);
    } else {
      dbias_.At<float>(b, h, i, j) = static_cast<float>(sum);
    }
  }

  const CallView& call_;
  const TensorView& dbias_;
  const InputRows<T> inputs_;
  BackwardRow<T> row_;
  std::vector<A> key_, value_, sums_;
};

// Rows whose D is 0 add nothing, whatever their lse: those that see no key are among them.
template <typename T>
AccumulatorOf<T> SinkGradient(const CallView& call, BackwardRow<T>& row, int64_t h) {
  using A = AccumulatorOf<T>;
  const A sink = static_cast<A>((*call.sinks)[static_cast<size_t>(h)]);
  A sum = 0;
  for (int64_t b = 0; b < call.batch; ++b) {
    for (int64_t i = 0; i < call.QueryLength(b); ++i) {
      row.Start(b, h, i);
      if (row.delta() != 0) sum -= std::exp(sink - row.lse()) * row.delta();
    }
  }
  return sum;
}

}  // namespace

void WriteBiasAndSinkGradients(const CallView& call, int threads) {
  const GradientsView& gradients = *call.gradients;
  WithFloatType(call.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (gradients.dbias) {
      const Shape4& shape = gradients.dbias->shape;
      ForEachPart(shape[0] * shape[1] * shape[2], threads,
                  [&](int64_t first, int64_t last) { BiasRun<T>(call).Run(first, last); });
    }
    if (!gradients.dsink) return;
    BackwardRow<T> row(call);
    for (int64_t h = 0; h < call.q_heads; ++h) {
      gradients.dsink->At<AccumulatorOf<T>>(h, 0, 0, 0) = SinkGradient<T>(call, row, h);
    }
  });
}

}  // namespace attest
