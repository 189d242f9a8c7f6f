// The block kernel for few rows, as in decoding. Per target, see micro_kernel-inl.h.
//
// Here vectors hold consecutive keys, then consecutive components of values: keys are transposed tile by
// tile, which costs less than to fetch them from memory, and values are read as they lie. Each number
// is the same chain of operations as in a panel, so it has the same bits.
#if defined(ATTEST_TILED_FAST_FEW_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEST_TILED_FAST_FEW_ROWS_INL_H_
#undef ATTEST_TILED_FAST_FEW_ROWS_INL_H_
#else
#define ATTEST_TILED_FAST_FEW_ROWS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>

#include "impl/tiled/fast/aligned_floats.h"
#include "impl/tiled/fast/block_kernel.h"
#include "impl/tiled/fast/key_tile-inl.h"
#include "impl/tiled/fast/outputs-inl.h"
#include "impl/tiled/fast/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attest::tiled_fast::HWY_NAMESPACE {

class FewRowsKernel final : public BlockKernel {
 public:
  explicit FewRowsKernel(const FastCall& fast)
      : fast_(fast),
        call_(fast.call),
        lanes_(static_cast<int64_t>(hn::Lanes(Floats()))),
        query_step_(PaddedToVectors(call_.head_dim)),
        value_step_(PaddedToVectors(call_.value_dim)),
        rows_(fast),
        tile_(fast),
        reader_(call_),
        queries_(kFewRows * query_step_),
        keys_(call_.head_dim * kKeysAtOnce),
        scores_(kFewRows * kTile),
        pairs_(kFewRows * kTile / 2),
        edge_(value_step_),
        total_(PartSize()) {
    std::fill_n(edge_.get(), value_step_, 0.0F);
    std::fill_n(scores_.get(), kFewRows * kTile, 0.0F);  // those of rows that a block lacks
  }

  int64_t PartSize() const override { return 2 * kSumsStep + kFewRows * value_step_; }
  KeySpan keys() const override { return rows_.keys(); }
  float* Total() override { return total_.get(); }

  void Start(const Block& block) override {
    rows_.Reset(block);
    const Floats d;
    for (int64_t r = 0; r < rows_.size(); ++r) {
      float* const row = queries_.get() + r * query_step_;
      if (tile_.uses_dots()) {
        PackRow(call_.QueryAt<Eigen::bfloat16>(block.batch, rows_[r].head, rows_[r].i),
                static_cast<size_t>(call_.head_dim), row);
        continue;
      }
      reader_.Query(block.batch, rows_[r].head, rows_[r].i, row);
      Scale(row, hn::Lanes(d), static_cast<size_t>(query_step_ / lanes_),
            hn::Set(d, fast_.query_factor));
    }
  }

  void Clear() override {
    Clear(total_.get());
    for (int64_t r = 0; r < rows_.size() && call_.sinks; ++r) {
      StartWithSink(fast_, rows_[r], SumsOf(total_.get()), static_cast<size_t>(r));
    }
  }

  void RunChunk(int64_t chunk, float* part) override {
    Clear(part);
    const Block& block = rows_.block();
    const int64_t end = std::min((chunk + 1) * kChunk, rows_.keys().last);
    for (int64_t first = chunk * kChunk; first < end; first += kTile) {
      if (first + kTile <= rows_.keys().first) continue;
      const Tile tile{first, std::min(kTile, call_.StoredKeys(block.batch) - first)};
      tile_.Turn(block.batch, block.kv_head, tile);
      RunTile(tile, part);
    }
  }

  void Merge(const float* part) override {
    const Floats d;
    HWY_ALIGN float total_factors[kSumsStep], part_factors[kSumsStep];
    for (int64_t r = 0; r < rows_.size(); r += lanes_) {
      const RowSums other = SumsOf(const_cast<float*>(part));
      const MergeFactors by = MergeRows(SumsOf(total_.get()), other, static_cast<size_t>(r));
      hn::StoreU(by.total, d, total_factors + r);
      hn::StoreU(by.part, d, part_factors + r);
    }
    for (int64_t r = 0; r < rows_.size(); ++r) {
      ScaleAndAdd(ValueSums(total_.get(), r), hn::Set(d, total_factors[r]),
                  ValueSums(const_cast<float*>(part), r), hn::Set(d, part_factors[r]),
                  static_cast<size_t>(value_step_));
    }
  }

  void Finish() override {
    const RowSums sums = SumsOf(total_.get());
    const Sums values{ValueSums(total_.get(), 0), static_cast<size_t>(value_step_)};
    WriteOuts(call_, rows_, 0, rows_.size(), sums, values);
    if (call_.lse) WriteLses(call_, rows_, 0, rows_.size(), sums);
  }

 private:
  // Keys that are transposed before their scores are computed: they stay in the first cache.
  static constexpr int64_t kKeysAtOnce = 64;
  static_assert(kTile % kKeysAtOnce == 0);

  // Maxima and sums of weights, for whole vectors of rows.
  static constexpr int64_t kSumsStep = PaddedToVectors(kFewRows);

  // A part: maxima, sums of weights, then a row of sums for each row.
  static RowSums SumsOf(float* part) { return {part, part + kSumsStep}; }
  float* ValueSums(float* part, int64_t r) const { return part + 2 * kSumsStep + r * value_step_; }

  void Clear(float* part) const {
    std::fill_n(part, PartSize(), 0.0F);
    std::fill_n(part, kSumsStep, kMinusInfinity);
  }

  // What of the tile some row may see, masks apart.
  TileRange UnionIn(const Tile& tile, bool& has_hidden) const {
    TileRange all{tile.count, 0};
    for (int64_t r = 0; r < rows_.size(); ++r) {
      const TileRange one = rows_.RangeIn(tile, r);
      if (one.empty()) continue;
      all = {std::min(all.first, one.first), std::max(all.last, one.last)};
    }
    has_hidden = fast_.has_masks;
    for (int64_t r = 0; r < rows_.size(); ++r) {
      const TileRange one = rows_.RangeIn(tile, r);
      has_hidden = has_hidden || one.first != all.first || one.last != all.last;
    }
    return all;
  }

  void RunTile(const Tile& tile, float* part) {
    bool has_hidden = false;
    const TileRange keys = UnionIn(tile, has_hidden);
    if (keys.empty() || (fast_.has_masks && !rows_.SeesAny(tile, 0, rows_.size()))) return;
    ComputeScores(tile, keys);
    TakeMaxima(keys, part);
    AddTileValues(keys, has_hidden, ValueSums(part, 0));
  }

  ScoreTile Scores() const { return {scores_.get(), 1, kTile}; }

  void ComputeScores(const Tile& tile, const TileRange& keys) {
    const int64_t padded = (tile.count + lanes_ - 1) / lanes_ * lanes_;
    if (tile_.uses_dots() && tile_.has_even_keys()) {
      MultiplyKeys(tile_.EvenKeys<Eigen::bfloat16>(), tile.count, padded);
    } else if (tile_.uses_dots()) {
      const FloatRows pairs = tile_.KeyPairs();
      MultiplyKeys(Rows<Eigen::bfloat16>{reinterpret_cast<const Eigen::bfloat16*>(pairs.data),
                                         2 * pairs.step},
                   tile.count, padded);
    } else if (tile_.has_even_keys()) {
      WithStorage(call_.dtype, [&](auto zero) {
        MultiplyKeys(tile_.EvenKeys<decltype(zero)>(), tile.count, padded);
      });
    } else {
      MultiplyKeys(tile_.Keys(), tile.count, padded);
    }
    if (fast_.cap != 0) CapScores(padded);
    if (call_.bias || call_.alibi_slopes) rows_.AddBiases(tile, keys, 0, rows_.size(), Scores());
    if (fast_.has_masks) rows_.HideMasked(tile, keys, 0, rows_.size(), Scores());
    for (int64_t r = 0; r < rows_.size(); ++r) {
      const TileRange range = rows_.RangeIn(tile, r);
      float* const scores = &Scores().At(0, r);
      std::fill(scores, scores + range.first, kMinusInfinity);
      std::fill(scores + std::max(range.first, range.last), scores + kTile, kMinusInfinity);
    }
  }

  template <typename T>
  void MultiplyKeys(const Rows<T>& keys, int64_t count, int64_t padded) {
    for (int64_t first = 0; first < padded; first += kKeysAtOnce) {
      const int64_t last = std::min(first + kKeysAtOnce, padded);
      for (int64_t n = first; n < last; n += lanes_) {
        TransposeKeys(keys, count, n, keys_.get() + n - first);
      }
      MultiplyTransposed(static_cast<size_t>((last - first) / lanes_), scores_.get() + first);
    }
  }

  void MultiplyTransposed(size_t vectors, float* scores) const {
    const auto rows = static_cast<size_t>(rows_.size()), size = static_cast<size_t>(call_.head_dim);
    const Factors queries{queries_.get(), static_cast<size_t>(query_step_), 1};
    const Sums sums{scores, kTile};
    if (kHasDots && tile_.uses_dots()) {
      AccumulateFewTo<Pair>(ScaledSums{scores, kTile, fast_.query_factor}, rows, vectors, queries,
                            {reinterpret_cast<const Pair*>(keys_.get()), kKeysAtOnce}, sums,
                            HalfUp(size), /*is_fresh=*/true);
    } else {
      AccumulateFew<float>(rows, vectors, queries, {keys_.get(), kKeysAtOnce}, sums, size,
                           /*is_fresh=*/true);
    }
  }

  // A vector of keys from key n on; lanes behind the last one repeat it.
  template <typename T>
  void TransposeKeys(const Rows<T>& keys, int64_t count, int64_t n, float* out) const {
    const T* rows[kLanes];
    for (int64_t lane = 0; lane < lanes_; ++lane) {
      rows[lane] = keys.data + std::min(n + lane, count - 1) * keys.step;
    }
    const auto size = static_cast<size_t>(call_.head_dim);
    const auto ahead = static_cast<size_t>(lanes_ * keys.step);
    if constexpr (std::is_same_v<T, Eigen::bfloat16>) {
      if (tile_.uses_dots()) return TransposePairs(rows, size, out, kKeysAtOnce, ahead);
    }
    Transpose(rows, size, 1, out, kKeysAtOnce, ahead);
  }

  void CapScores(int64_t padded) {
    const Floats d;
    const Vector cap = hn::Set(d, fast_.cap);
    for (int64_t r = 0; r < rows_.size(); ++r) {
      for (int64_t n = 0; n < padded; n += lanes_) {
        float* const score = &Scores().At(n, r);
        hn::StoreU(hn::Mul(cap, Tanh(hn::LoadU(d, score))), d, score);
      }
    }
  }

  // The online softmax over the whole tile; what is outside of `keys` is -infinity.
  void TakeMaxima(const TileRange& keys, float* part) {
    const Floats d;
    const RowSums sums = SumsOf(part);
    float weights[kFewRows] = {};
    float factors[kFewRows] = {};
    for (int64_t r = 0; r < rows_.size(); ++r) {
      factors[r] = Exponentiate(r, sums);
      if (factors[r] == 1) continue;
      Scale(ValueSums(part, r), hn::Lanes(d), static_cast<size_t>(value_step_ / lanes_),
            hn::Set(d, factors[r]));
    }
    SumWeights(keys, weights);
    for (int64_t r = 0; r < rows_.size(); ++r) {
      const Vector before = hn::Set(d, sums.weight[r]), factor = hn::Set(d, factors[r]);
      sums.weight[r] = hn::GetLane(hn::MulAdd(before, factor, hn::Set(d, weights[r])));
    }
  }

  // Turns the scores of row r into weights. What it has summed is to be multiplied by the result.
  float Exponentiate(int64_t r, const RowSums& sums) {
    const Floats d;
    float* const scores = &Scores().At(0, r);
    const Vector old = hn::Set(d, sums.max[r]);
    Vector max = old;
    for (int64_t n = 0; n < kTile; n += lanes_) max = hn::Max(max, hn::LoadU(d, scores + n));
    max = hn::MaxOfLanes(d, max);
    const Vector shift = ShiftOf(max);
    for (int64_t n = 0; n < kTile; n += lanes_) {
      hn::StoreU(Exp2(hn::Sub(hn::LoadU(d, scores + n), shift)), d, scores + n);
    }
    sums.max[r] = hn::GetLane(max);
    return hn::GetLane(Exp2(hn::Sub(old, shift)));
  }

  // In the order of keys, as a panel does. Several rows go side by side, since each has to wait for its
  // last sum.
  void SumWeights(const TileRange& keys, float* weights) const {
    constexpr int64_t kOneByOne = 2;
    for (int64_t r = 0; r < rows_.size() && rows_.size() <= kOneByOne; ++r) {
      for (int64_t n = keys.first; n < keys.last; ++n) weights[r] += Scores().At(n, r);
    }
    for (int64_t n = keys.first; n < keys.last && rows_.size() > kOneByOne; ++n) {
      for (int64_t r = 0; r < kFewRows; ++r) weights[r] += Scores().At(n, r);
    }
  }

  void AddTileValues(const TileRange& keys, bool has_hidden, float* sums) {
    if (kHasDots && tile_.uses_dots()) return AddDotsOfTile(keys, has_hidden, sums);
    if (!has_hidden && tile_.has_even_values()) {
      return WithStorage(call_.dtype, [&](auto zero) {
        using T = decltype(zero);
        if constexpr (kInVectors<T>) {
          AddValues(tile_.EvenValues<T>(), keys, sums);
        } else {
          AddValues(tile_.Values(), keys, sums);
        }
      });
    }
    const bool all_finite = !has_hidden || tile_.ValuesAreFinite();
    AddValues(all_finite ? tile_.Values() : tile_.FiniteValues(), keys, sums);
    if (all_finite) return;
    tile_.AddOthers(rows_, 0, rows_.size(), Scores(), {sums, 1, value_step_});
  }

  // Where dots are used.
  void AddDotsOfTile(const TileRange& keys, bool has_hidden, float* sums) {
    RoundWeights();
    if (!has_hidden) return AddDotsOf(keys, sums);
    const bool all_finite = tile_.ValuesAreFinite();
    const FloatRows values = all_finite ? tile_.ValuePairs() : tile_.FinitePairs();
    const int64_t first = keys.first / 2;
    AddPairs<Pair>(first, (keys.last + 1) / 2, values.data + first * values.step, values.step,
                   sums);
    if (all_finite) return;
    tile_.AddOthers(rows_, 0, rows_.size(), Scores(), {sums, 1, value_step_});
  }

  void RoundWeights() {
    for (int64_t r = 0; r < rows_.size(); ++r) {
      const float* const weights = scores_.get() + r * kTile;
      auto* const pairs = reinterpret_cast<Eigen::bfloat16*>(pairs_.get() + r * kTile / 2);
      for (int64_t n = 0; n < kTile; n += lanes_) {
        Narrow(hn::LoadU(Floats(), weights + n), pairs + n);
      }
    }
  }

  // Each row sees all of these keys. The other half of a pair at their edge may be hidden, and is not read.
  void AddDotsOf(const TileRange& keys, float* sums) {
    const int64_t begin = (keys.first + 1) / 2, end = keys.last / 2;
    if (keys.first % 2 == 1) AddEdge(keys.first / 2, keys, sums);
    if (begin < end && tile_.has_even_values()) {
      const auto values = tile_.EvenValues<Eigen::bfloat16>();
      AddPairs<TwoRows>(begin, end, values.data + 2 * begin * values.step, values.step, sums);
    } else if (begin < end) {
      const FloatRows values = tile_.ValuePairs();
      AddPairs<Pair>(begin, end, values.data + begin * values.step, values.step, sums);
    }
    if (keys.last % 2 == 1) AddEdge(end, keys, sums);
  }

  void AddEdge(int64_t pair, const TileRange& keys, float* sums) {
    tile_.PackValues(2 * pair, keys, edge_.get());
    AddPairs<Pair>(pair, pair + 1, edge_.get(), value_step_, sums);
  }

  // T is how the values of the first pair and those after it lie at `data`.
  template <typename T, typename Element>
  void AddPairs(int64_t first, int64_t last, const Element* data, int64_t step, float* sums) const {
    AccumulateFew<T>(static_cast<size_t>(rows_.size()), static_cast<size_t>(value_step_ / lanes_),
                     {pairs_.get() + first, kTile / 2, 1},
                     {reinterpret_cast<const T*>(data), static_cast<size_t>(step)},
                     {sums, static_cast<size_t>(value_step_)}, static_cast<size_t>(last - first),
                     /*is_fresh=*/false);
  }

  template <typename T>
  void AddValues(const Rows<T>& values, const TileRange& keys, float* sums) const {
    AccumulateFew<T>(static_cast<size_t>(rows_.size()), static_cast<size_t>(value_step_ / lanes_),
                     {scores_.get() + keys.first, kTile, 1},
                     {values.data + keys.first * values.step, static_cast<size_t>(values.step)},
                     {sums, static_cast<size_t>(value_step_)},
                     static_cast<size_t>(keys.last - keys.first), /*is_fresh=*/false);
  }

  const FastCall& fast_;
  const CallView& call_;
  const int64_t lanes_;
  const int64_t query_step_, value_step_;  // of rows below and in parts
  BlockRows rows_;
  KeyTile tile_;
  const RowReader reader_;
  AlignedFloats queries_;  // [kFewRows, head_dim padded]
  AlignedFloats keys_;     // [head_dim, kKeysAtOnce]
  AlignedFloats scores_;   // [kFewRows, kTile]
  AlignedFloats pairs_;    // [kFewRows, kTile / 2]: weights, where dots are used
  AlignedFloats edge_;     // a row of values in pairs with 0
  AlignedFloats total_;    // a part
};

}  // namespace attest::tiled_fast::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
