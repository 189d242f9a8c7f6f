#include "properties/bench/emulated_kernel.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <numbers>
#include <utility>

#include "properties/bench/emulated_sums.h"
#include "properties/harness/case/random.h"

namespace attest {
namespace {

// Uniform in [-1, 1), by the bits of `x`.
double NoiseOf(double x) {
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return static_cast<double>(MixBits(bits) >> 11) * 0x1p-52 - 1;
}

// Rounds to so many significant bits; the range of exponents stays.
double RoundToBits(double value, int bits) {
  if (value == 0 || !std::isfinite(value)) return value;
  const int place = std::ilogb(value) - (bits - 1);
  return std::ldexp(std::nearbyint(std::ldexp(value, -place)), place);
}

// The type that a sum "in 16 bits" is kept in: the element type, f16 for f32; f32 for f64.
DType NarrowType(DType dtype) {
  if (dtype == DType::kF64) return DType::kF32;
  return dtype == DType::kF32 ? DType::kF16 : dtype;
}

double CoarseWeight(DType dtype, double weight) {
  if (dtype == DType::kBF16) return RoundToBits(weight, 6);
  return RoundTo(dtype == DType::kF16 ? DType::kBF16 : NarrowType(dtype), weight);
}

template <typename T>
class RowKernel {
 public:
  RowKernel(const Problem& problem, const Inputs& inputs, const Row& row,
            const KernelVariant& variant, const Fault& fault)
      : p_(problem),
        in_(inputs),
        row_(row),
        variant_(variant),
        fault_(fault),
        kv_head_(row.head / problem.heads_per_kv_head()),
        rounds_weights_(TraitsOf(problem.dtype).unit_roundoff >
                            TraitsOf(DType::kF32).unit_roundoff &&
                        !variant.keeps_weights),
        choice_(MixIn(fault.seed, static_cast<uint64_t>(row.query))) {
    ListKeys();
    PrepareScale();
  }

  EmulatedRow Run() {
    if (keys_.empty()) {
      return {std::vector<double>(static_cast<size_t>(p_.value_dim), 0.0),
              -std::numeric_limits<double>::infinity()};
    }
    ComputeScores();
    std::vector<Part> parts;
    const int64_t n = Count(), length = (n + variant_.splits - 1) / variant_.splits;
    for (int64_t first = 0; first < n; first += length) {
      parts.push_back(RunPart(first, std::min(n, first + length)));
    }
    return Store(parts.size() == 1 ? parts.front() : Merge(parts));
  }

 private:
  // A contiguous run of keys. Once finished, `acc` is the run's own output.
  struct Part {
    T max = -std::numeric_limits<T>::infinity();
    T sum = 0;
    T lse = 0;
    std::vector<T> acc;
  };

  bool Has(FaultKind kind) const { return fault_.kind == kind; }
  int64_t Count() const { return static_cast<int64_t>(keys_.size()); }
  int64_t Chosen(int64_t count) const {
    return static_cast<int64_t>(choice_ % static_cast<uint64_t>(count));
  }

  void ListKeys() {
    keys_ = VisibleKeys(p_, row_);
    EditKeys();
    if (variant_.reversed) std::reverse(keys_.begin(), keys_.end());
    value_keys_ = keys_;
    if (Has(FaultKind::kSwappedValues) && Count() > 1) {
      const int64_t first = Chosen(Count() - 1);
      std::swap(value_keys_[static_cast<size_t>(first)], value_keys_.back());
    }
  }

  // The faults that change which keys are seen.
  void EditKeys() {
    const int64_t n = Count();
    if (Has(FaultKind::kFutureKey)) {
      for (int64_t j = 0; j < p_.kv_len; ++j) {
        if (WhyHidden(p_, row_, j) != kHiddenByCausal) continue;
        keys_.insert(std::upper_bound(keys_.begin(), keys_.end(), j), j);
        return;
      }
    }
    if (n < 2) return;
    const auto chosen = keys_.begin() + Chosen(n);
    if (Has(FaultKind::kDropKey)) keys_.erase(chosen);
    if (Has(FaultKind::kRepeatKey)) keys_.insert(chosen, *chosen);
    if (Has(FaultKind::kLastKeyOfFullTiles) && n % 64 == 0) keys_.pop_back();
  }

  void PrepareScale() {
    double scale = p_.EffectiveScale();
    if (Has(FaultKind::kScale)) scale *= 1 + fault_.size;
    scale_ = static_cast<T>(scale);
    factor_ = static_cast<T>(scale * std::numbers::log2e);
    query_.resize(static_cast<size_t>(p_.head_dim));
    for (int64_t d = 0; d < p_.head_dim; ++d) {
      T q = static_cast<T>(Coarse(in_.q.At(row_.batch, row_.head, row_.query, d)));
      if (variant_.scale_at == ScaleAt::kQuery) q *= scale_;
      if (variant_.scale_at == ScaleAt::kStoredQuery) {
        q = static_cast<T>(RoundTo(p_.dtype, static_cast<double>(q * scale_)));
      }
      query_[static_cast<size_t>(d)] = q;
    }
  }

  // An element of q or k as the fault kCoarseScores sees it in f32: tf32, eleven bits.
  double Coarse(double x) const {
    return Has(FaultKind::kCoarseScores) && p_.dtype == DType::kF32 ? RoundToBits(x, 11) : x;
  }

  // start + the sum of left(i) right(i) over i < count.
  template <typename Left, typename Right>
  T Sum(T start, int64_t count, const Left& left, const Right& right, bool narrow) const {
    if (narrow) {
      const DType type = NarrowType(p_.dtype);
      for (int64_t i = 0; i < count; ++i) {
        start = static_cast<T>(RoundTo(type, static_cast<double>(start + left(i) * right(i))));
      }
      return start;
    }
    switch (variant_.summation) {
      case Summation::kPairwise:
        return count == 0 ? start : Add(start, PairwiseSum<T>(0, count, left, right));
      case Summation::kBlockUnit:
        return BlockUnitSum<T>(start, count, left, right);
      case Summation::kWide:
        return WideSum<T>(start, count, left, right);
      case Summation::kFused:
        for (int64_t i = 0; i < count; ++i) start = FusedMultiplyAdd(left(i), right(i), start);
        return start;
      case Summation::kSequential:
        break;
    }
    if (variant_.truncates_sums) {
      for (int64_t i = 0; i < count; ++i) start = TruncatedAdd<T>(start, left(i) * right(i));
    } else {
      for (int64_t i = 0; i < count; ++i) start += left(i) * right(i);
    }
    return start;
  }

  // The same for a running sum over the keys of one tile. One that is kept in 16 bits is so key by
  // key, whatever the variant does.
  template <typename Left, typename Right>
  T SumTile(T running, int64_t count, const Left& left, const Right& right, bool narrow) const {
    if (!variant_.sums_by_tile || narrow) return Sum(running, count, left, right, narrow);
    return Add(running, Sum(T{0}, count, left, right, false));
  }

  T Add(T a, T b) const { return variant_.truncates_sums ? TruncatedAdd<T>(a, b) : a + b; }

  void ComputeScores() {
    scores_.resize(keys_.size());
    const bool narrow = Has(FaultKind::kNarrowScoreSums);
    for (size_t i = 0; i < keys_.size(); ++i) {
      const double* key = in_.k.values.data() + in_.k.Index(row_.batch, kv_head_, keys_[i], 0);
      const T dot = Sum(
          T{0}, p_.head_dim, [&](int64_t d) { return query_[static_cast<size_t>(d)]; },
          [&](int64_t d) { return static_cast<T>(Coarse(key[d])); }, narrow);
      scores_[i] = StoredScore(BiasedScore(dot, keys_[i]));
    }
  }

  // Where the scale stands in the exponent and there is a bias, scores are kept in powers of two.
  T BiasedScore(T dot, int64_t key) const {
    const bool in_exponent = variant_.scale_at == ScaleAt::kExponent;
    const T score = variant_.scale_at == ScaleAt::kScores ? dot * scale_ : dot;
    if (!p_.bias) return score;
    const T bias = static_cast<T>(in_.bias.Broadcast(row_.batch, row_.head, row_.query, key));
    if (!in_exponent) return score + bias;
    return FusedMultiplyAdd(dot, factor_, bias * static_cast<T>(std::numbers::log2e));
  }

  T StoredScore(T score) const {
    const bool stores = variant_.stores_scores || Has(FaultKind::kCoarseScores);
    if (!stores || (p_.dtype == DType::kF32)) return score;
    const DType type =
        p_.dtype == DType::kF64 && Has(FaultKind::kCoarseScores) ? DType::kF32 : p_.dtype;
    return static_cast<T>(RoundTo(type, static_cast<double>(score)));
  }

  // exp of the difference of two scores.
  T ExpOfDifference(T score, T max) const {
    if (variant_.scale_at != ScaleAt::kExponent) return Exp(score - max);
    if (p_.bias) return Exp2(score - max);
    return Exp2(FusedMultiplyAdd(score, factor_, -(max * factor_)));
  }

  // A score as a natural logarithm.
  T NaturalScore(T score) const {
    if (variant_.scale_at != ScaleAt::kExponent) return score;
    return score * (p_.bias ? static_cast<T>(std::numbers::ln2) : scale_);
  }

  T Exp(T x) const {
    if (Has(FaultKind::kWrongLog2E)) return Exp2(x * static_cast<T>(1.4427));
    if (variant_.exp_by_exp2) return Exp2(x * static_cast<T>(std::numbers::log2e));
    return Rounded(
        x, Perturbed() ? std::exp(static_cast<Wide<T>>(x)) : std::exp(static_cast<double>(x)));
  }
  T Exp2(T x) const {
    return Rounded(
        x, Perturbed() ? std::exp2(static_cast<Wide<T>>(x)) : std::exp2(static_cast<double>(x)));
  }
  bool Perturbed() const { return variant_.exp_noise_ulp != 0 || variant_.exp_lean_ulp != 0; }

  // The kernel's exp of `x`, given the exact one.
  T Rounded(T x, Wide<T> exact) const {
    if (x == 0 && !Has(FaultKind::kExpError)) return 1;
    if (Perturbed()) {
      const double ulps = variant_.exp_lean_ulp + variant_.exp_noise_ulp * NoiseOf(x);
      exact *= 1 + static_cast<Wide<T>>(ulps) * std::numeric_limits<T>::epsilon();
    }
    if (Has(FaultKind::kExpError)) exact *= 1 + static_cast<Wide<T>>(fault_.size);
    const T result = static_cast<T>(exact);
    return variant_.flushes_exp && result < std::numeric_limits<T>::min() ? T{0} : result;
  }

  T RoundedWeight(T weight) const {
    const double exact = static_cast<double>(weight);
    if (Has(FaultKind::kCoarseWeights)) return static_cast<T>(CoarseWeight(p_.dtype, exact));
    if (!rounds_weights_) return weight;
    return static_cast<T>(Has(FaultKind::kTruncatedWeights) ? TruncateTo(p_.dtype, exact)
                                                            : RoundTo(p_.dtype, exact));
  }

  Part RunPart(int64_t first, int64_t last) {
    Part part;
    if (Has(FaultKind::kMaxStartsAtZero)) part.max = 0;
    part.acc.assign(static_cast<size_t>(p_.value_dim), T{0});
    const int64_t tile = variant_.tile == 0 ? last - first : variant_.tile;
    const int64_t tiles = (last - first + tile - 1) / tile;
    const int64_t faulty =
        Has(FaultKind::kOneRescaleMissing) ? ChosenRescale(first, last, tile) : -1;
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t begin = first + t * tile, end = std::min(last, begin + tile);
      RaiseMax(part, begin, end, t == faulty);
      Weigh(part.max, begin, end);
      AddWeights(part, end - begin);
      if (variant_.passes == Passes::kOnline) AddValues(part, begin, end);
    }
    if (Has(FaultKind::kPaddedKeysCounted)) {
      part.sum += static_cast<T>(fault_.size) * ExpOfDifference(T{0}, part.max);
    }
    if (variant_.passes != Passes::kOnline) SecondPass(part, first, last);
    Finish(part);
    return part;
  }

  T MaxOf(int64_t begin, int64_t end) const {
    T max = -std::numeric_limits<T>::infinity();
    for (int64_t i = begin; i < end; ++i) max = std::max(max, scores_[static_cast<size_t>(i)]);
    return max;
  }

  // One of the tiles, but for the first, that raise the maximum; -1 where none does.
  int64_t ChosenRescale(int64_t first, int64_t last, int64_t tile) const {
    std::vector<int64_t> raising;
    T max = MaxOf(first, std::min(last, first + tile));
    for (int64_t t = 1; first + t * tile < last; ++t) {
      const T next = MaxOf(first + t * tile, std::min(last, first + (t + 1) * tile));
      if (next > max) raising.push_back(t);
      max = std::max(max, next);
    }
    return raising.empty() ? -1 : raising[static_cast<size_t>(Chosen(std::ssize(raising)))];
  }

  // Takes the tile's maximum into account and rescales what has been added up so far; by exactly 1
  // where the maximum stays.
  void RaiseMax(Part& part, int64_t begin, int64_t end, bool is_faulty_tile) const {
    const T max = std::max(part.max, MaxOf(begin, end));
    const T correction = std::isinf(part.max) ? T{0} : Correction(part.max, max);
    part.max = max;
    if (!Has(FaultKind::kSumNotRescaled)) part.sum *= correction;
    if (is_faulty_tile || Has(FaultKind::kAccumulatorNotRescaled)) return;
    for (T& value : part.acc) value *= correction;
  }

  // exp of the difference of two maxima. Taken before the factor is applied: 1 where they agree.
  T Correction(T old_max, T max) const {
    if (variant_.scale_at != ScaleAt::kExponent) return Exp(old_max - max);
    return Exp2(p_.bias ? old_max - max : (old_max - max) * factor_);
  }

  void Weigh(T max, int64_t begin, int64_t end) {
    weights_.resize(static_cast<size_t>(end - begin));
    rounded_.resize(weights_.size());
    for (size_t i = 0; i < weights_.size(); ++i) {
      weights_[i] = ExpOfDifference(scores_[static_cast<size_t>(begin) + i], max);
      rounded_[i] = RoundedWeight(weights_[i]);
    }
  }

  void AddWeights(Part& part, int64_t count) const {
    const std::vector<T>& addends = variant_.sums_rounded_weights ? rounded_ : weights_;
    part.sum = SumTile(
        part.sum, count, [&](int64_t i) { return addends[static_cast<size_t>(i)]; },
        [](int64_t) { return T{1}; }, Has(FaultKind::kNarrowWeightSums));
  }

  void AddValues(Part& part, int64_t begin, int64_t end) const {
    const bool narrow = Has(FaultKind::kNarrowValueSums);
    const double* values = in_.v.values.data() + in_.v.Index(row_.batch, kv_head_, 0, 0);
    const int64_t damaged = Has(FaultKind::kValueRowOff) ? Chosen(Count()) : -1;
    for (int64_t d = 0; d < p_.value_dim; ++d) {
      T& acc = part.acc[static_cast<size_t>(d)];
      acc = SumTile(
          acc, end - begin, [&](int64_t i) { return rounded_[static_cast<size_t>(i)]; },
          [&](int64_t i) {
            const int64_t key = value_keys_[static_cast<size_t>(begin + i)];
            const double v = values[key * p_.value_dim + d];
            return static_cast<T>(begin + i == damaged ? v * (1 + fault_.size) : v);
          },
          narrow);
    }
  }

  // P V with the final maximum, and the final sum where P is normalised.
  void SecondPass(Part& part, int64_t first, int64_t last) {
    Weigh(part.max, first, last);
    if (variant_.passes == Passes::kNormalised) {
      for (size_t i = 0; i < weights_.size(); ++i) {
        rounded_[i] = RoundedWeight(weights_[i] / part.sum);
      }
    }
    AddValues(part, first, last);
  }

  void Finish(Part& part) const {
    part.lse = NaturalScore(part.max) + static_cast<T>(std::log(static_cast<double>(part.sum)));
    if (variant_.passes == Passes::kNormalised) return;
    const T inverse = T{1} / part.sum;
    for (T& value : part.acc) value = variant_.reciprocal ? value * inverse : value / part.sum;
  }

  Part Merge(const std::vector<Part>& parts) const {
    T max = parts.front().lse, sum = 0;
    for (const Part& part : parts) max = std::max(max, part.lse);
    for (const Part& part : parts) sum += Exp(part.lse - max);
    Part whole;
    whole.lse = max + static_cast<T>(std::log(static_cast<double>(sum)));
    whole.acc.assign(static_cast<size_t>(p_.value_dim), T{0});
    for (const Part& part : parts) {
      const T weight = Exp(part.lse - whole.lse);
      for (size_t d = 0; d < whole.acc.size(); ++d) whole.acc[d] += weight * part.acc[d];
    }
    return whole;
  }

  EmulatedRow Store(const Part& part) const {
    const bool cuts = variant_.truncates_output || Has(FaultKind::kTruncatedOutput);
    EmulatedRow result{{}, static_cast<double>(part.lse)};
    for (const T value : part.acc) {
      const auto exact = static_cast<double>(value);
      result.out.push_back(cuts ? TruncateTo(p_.dtype, exact) : RoundTo(p_.dtype, exact));
    }
    return result;
  }

  const Problem& p_;
  const Inputs& in_;
  const Row row_;
  const KernelVariant& variant_;
  const Fault& fault_;
  const int64_t kv_head_;
  const bool rounds_weights_;
  const uint64_t choice_;                   // which key or tile the fault is in
  std::vector<int64_t> keys_, value_keys_;  // visible keys in order; where their values come from
  T scale_ = 1, factor_ = 1;                // factor_: scale log2(e)
  std::vector<T> query_;
  std::vector<T> scores_;             // [keys]
  std::vector<T> weights_, rounded_;  // [tile]: exp, and as it multiplies V
};

}  // namespace

double TruncateTo(DType dtype, double value) {
  const double nearest = RoundTo(dtype, value);
  if (!(std::abs(nearest) > std::abs(value))) return nearest;
  // Magnitudes of every format are ordered as their bits are: one less is one step towards zero.
  uint64_t bits = 0;  // little-endian, as all platforms of attest are
  StoreElement(dtype, &bits, nearest);
  --bits;
  return LoadElement(dtype, &bits);
}

EmulatedRow EmulateRow(const Problem& problem, const Inputs& inputs, const Row& row,
                       const KernelVariant& variant, const Fault& fault) {
  if (problem.dtype == DType::kF64) {
    return RowKernel<double>(problem, inputs, row, variant, fault).Run();
  }
  return RowKernel<float>(problem, inputs, row, variant, fault).Run();
}

}  // namespace attest
