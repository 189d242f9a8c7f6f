// A correct float kernel for this folder's tests, row by row: online softmax over tiles, in a choice of
// orders and forms, with everything that a problem may ask for.
#ifndef ATTEST_REFERENCE_FLOAT_KERNEL_H_
#define ATTEST_REFERENCE_FLOAT_KERNEL_H_

#include <algorithm>
#include <cmath>
#include <vector>

#include "impl/attention/contract.h"
#include "impl/attention/visibility.h"

namespace attest {

struct FloatVariant {
  int64_t tile = 1;
  bool reversed = false;
  bool base2 = false;  // exp2 with log2e folded into the scale
  bool scale_on_query = false;
  float exp_error = 0;      // relative, in ulp
  bool sink_first = false;  // the running maximum starts at the sink, which else comes last
  bool tanh_by_exp = false;
  SoftcapOrder order = SoftcapOrder::kBeforeBias;
};

constexpr FloatVariant kFloatVariants[] = {
    {1, false, false, false, 0, false, false}, {4, false, true, false, 0, true, false},
    {3, true, false, true, 0, true, true},     {100, false, true, true, 3, false, true},
    {1, true, true, false, -3, false, false},  {2, false, false, false, 3.4f, false, true}};

struct FloatRow {
  std::vector<float> out;
  float lse = 0;
  std::vector<float> weights, scores;  // [kv_len]; the scores that are asked for
};

class FloatKernel {
 public:
  FloatKernel(const Problem& p, const Inputs& in, const Row& row, const FloatVariant& v)
      : p_(p), in_(in), row_(row), v_(v), kv_head_(row.head / p.heads_per_kv_head()) {}

  FloatRow Run() {
    std::vector<int64_t> keys = VisibleKeys(p_, row_);
    if (v_.reversed) std::reverse(keys.begin(), keys.end());
    out_.assign(static_cast<size_t>(p_.value_dim), 0.0f);
    if (v_.sink_first) AddSink();
    for (size_t first = 0; first < keys.size(); first += static_cast<size_t>(v_.tile)) {
      const size_t last = std::min(keys.size(), first + static_cast<size_t>(v_.tile));
      AddTile({keys.begin() + static_cast<std::ptrdiff_t>(first),
               keys.begin() + static_cast<std::ptrdiff_t>(last)});
    }
    if (!v_.sink_first) AddSink();
    FloatRow result{out_, (v_.base2 ? max_ / kLog2E : max_) + std::log(sum_), {}, {}};
    for (float& x : result.out) x = keys.empty() ? 0 : x / sum_;
    result.weights.assign(static_cast<size_t>(p_.kv_len), 0.0f);
    for (const int64_t j : keys) {
      result.weights[static_cast<size_t>(j)] = ExpOf(Exponent(j) - max_) / sum_;
    }
    if (p_.want_scores) result.scores = AskedScores(result.weights);
    return result;
  }

 private:
  static constexpr float kLog2E = 1.44269504f;

  static float Float(double x) { return static_cast<float>(x); }
  float ExpOf(float x) const {
    const float power = v_.base2 ? std::exp2(x) : std::exp(x);
    return power == 1 ? power : power * (1 + v_.exp_error * 0x1p-23f);
  }

  float Raw(int64_t j) const {
    const float scale = Float(p_.EffectiveScale());
    float dot = 0;
    for (int64_t d = 0; d < p_.head_dim; ++d) {
      float q = Float(in_.q.At(row_.batch, row_.head, row_.query, d));
      if (v_.scale_on_query) q *= scale;
      dot += q * Float(in_.k.At(row_.batch, kv_head_, j, d));
    }
    return v_.scale_on_query ? dot : dot * scale;
  }

  float Cap(float x) const {
    if (p_.softcap == 0) return x;
    const float cap = Float(p_.softcap), by_cap = x * (1 / cap);
    // exp overflows where tanh has long been 1.
    if (!v_.tanh_by_exp || std::abs(by_cap) > 40) return cap * std::tanh(by_cap);
    const float up = std::exp(by_cap), down = std::exp(-by_cap);
    return cap * ((up - down) / (up + down));
  }

  float Extra(int64_t j) const {
    float sum = 0;
    if (p_.bias) {
      const Shape4& s = in_.bias.shape;
      sum += Float(in_.bias.At(row_.batch % s[0], row_.head % s[1], row_.query % s[2], j % s[3]));
    }
    if (p_.alibi_slopes) {
      const int64_t ahead = j - row_.query - p_.DiagonalOffset(row_.batch);
      sum -= Float((*p_.alibi_slopes)[static_cast<size_t>(row_.head)]) *
             static_cast<float>(std::abs(ahead));
    }
    return sum;
  }

  float Capped(int64_t j) const {
    if (p_.softcap == 0) return Raw(j);
    return v_.order == SoftcapOrder::kAfterBias ? Cap(Raw(j) + Extra(j)) : Cap(Raw(j));
  }
  float Score(int64_t j) const {
    return v_.order == SoftcapOrder::kAfterBias ? Cap(Raw(j) + Extra(j)) : Cap(Raw(j)) + Extra(j);
  }
  float Exponent(int64_t j) const { return v_.base2 ? Score(j) * kLog2E : Score(j); }

  // What dropout leaves of the weight 1.
  float Kept(int64_t j) const {
    if (!p_.dropout) return 1;
    const bool is_kept = p_.dropout->keep.At(row_.batch, row_.head, row_.query, j);
    return is_kept ? 1 / (1 - Float(p_.dropout->probability)) : 0;
  }

  void RaiseMax(float candidate) {
    const float new_max = std::max(max_, candidate);
    const float correction = max_ == new_max ? 1.0f : ExpOf(max_ - new_max);
    sum_ *= correction;
    for (float& x : out_) x *= correction;
    max_ = new_max;
  }

  void AddSink() {
    if (!p_.sinks) return;
    const float sink = Float((*p_.sinks)[static_cast<size_t>(row_.head)]) * (v_.base2 ? kLog2E : 1);
    RaiseMax(sink);
    sum_ += ExpOf(sink - max_);
  }

  void AddTile(const std::vector<int64_t>& keys) {
    float largest = max_;
    for (const int64_t j : keys) largest = std::max(largest, Exponent(j));
    RaiseMax(largest);
    for (const int64_t j : keys) {
      const float weight = ExpOf(Exponent(j) - max_);
      sum_ += weight;
      for (int64_t d = 0; d < p_.value_dim; ++d) {
        out_[static_cast<size_t>(d)] +=
            weight * Kept(j) * Float(in_.v.At(row_.batch, kv_head_, j, d));
      }
    }
  }

  std::vector<float> AskedScores(const std::vector<float>& weights) const {
    std::vector<float> scores;
    for (int64_t j = 0; j < p_.kv_len; ++j) {
      if (p_.want_scores == ScoreMode::kRaw) scores.push_back(Raw(j));
      if (p_.want_scores == ScoreMode::kCapped) scores.push_back(Capped(j));
      if (p_.want_scores == ScoreMode::kBiased) {
        scores.push_back(Visible(p_, row_, j) ? Score(j) : -INFINITY);
      }
    }
    return p_.want_scores == ScoreMode::kWeights ? weights : scores;
  }

  const Problem& p_;
  const Inputs& in_;
  const Row row_;
  const FloatVariant v_;
  const int64_t kv_head_;
  float max_ = -INFINITY, sum_ = 0;
  std::vector<float> out_;
};

inline FloatRow RunFloatRow(const Problem& p, const Inputs& in, const Row& row,
                            const FloatVariant& v) {
  return FloatKernel(p, in, row, v).Run();
}

}  // namespace attest

#endif  // ATTEST_REFERENCE_FLOAT_KERNEL_H_
