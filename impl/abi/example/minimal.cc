// c++ -std=c++20 -O2 -shared -fPIC -I include minimal.cc lib/libattest_call_view.a -lfmt -o libminimal.so
#include <cmath>

#include "impl/abi/kernel_function.h"

// What the kernel promises; attest/kernel.h lists all keys. Each feature may bring tensors and options:
// call_view.h has them, and ATTEST_KERNEL below must name them.
constexpr char kContract[] = R"({"contract": "attest-1", "dtypes": ["f32"],
    "features": ["gqa", "value_dim", "zero_sizes"], "lse": "none"})";

// YOUR KERNEL: out = softmax(scale * q k^T) v for one row, f32, wherever its elements lie.
static void AttendRow(const attest::CallView& call, int64_t b, int64_t h, int64_t i) {
  const auto q = call.QueryAt<float>(b, h, i);
  const auto out = call.OutAt<float>(b, h, i);
  float max = -INFINITY, sum = 0;  // online softmax: out and sum are relative to max
  for (int64_t c = 0; c < call.value_dim; ++c) out[c] = 0;
  for (int64_t j = 0; j < call.kv_len; ++j) {
    const auto k = call.KeyAt<float>(b, call.KvHead(h), j);
    const auto v = call.ValueAt<float>(b, call.KvHead(h), j);
    float dot = 0, old = max;
    for (int64_t c = 0; c < call.head_dim; ++c) dot += q[c] * k[c];
    const float score = static_cast<float>(call.scale) * dot;
    max = std::fmax(old, score);
    const float keep = std::exp(old - max), add = std::exp(score - max);
    for (int64_t c = 0; c < call.value_dim; ++c) out[c] = keep * out[c] + add * v[c];
    sum = keep * sum + add;
  }
  for (int64_t c = 0; c < call.value_dim && call.kv_len > 0; ++c) out[c] /= sum;
}

static tl::expected<void, attest::CallError> Attention(const attest::CallView& call) {
  for (int64_t b = 0; b < call.batch; ++b)
    for (int64_t h = 0; h < call.q_heads; ++h)
      for (int64_t i = 0; i < call.q_len; ++i) AttendRow(call, b, h, i);
  return {};
}

ATTEST_KERNEL("minimal", kContract, Attention)
