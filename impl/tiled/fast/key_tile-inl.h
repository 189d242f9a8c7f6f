// The keys and values of one tile as rows of floats: in place where they are stored so, else
// converted. Per target, see micro_kernel-inl.h.
#if defined(ATTEST_TILED_FAST_KEY_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEST_TILED_FAST_KEY_TILE_INL_H_
#undef ATTEST_TILED_FAST_KEY_TILE_INL_H_
#else
#define ATTEST_TILED_FAST_KEY_TILE_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "impl/abi/input_rows.h"
#include "impl/tiled/fast/aligned_floats.h"
#include "impl/tiled/fast/block_rows.h"
#include "impl/tiled/fast/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attest::tiled_fast::HWY_NAMESPACE {

// Row n is data[n * step] and what follows.
template <typename T>
struct Rows {
  const T* data;
  int64_t step;
};
using FloatRows = Rows<float>;

// Reads rows of a call. The call must outlive it.
class RowReader {
 public:
  explicit RowReader(const CallView& call) : call_(call), fp8_(call) {}

  void Query(int64_t b, int64_t h, int64_t i, float* out) const {
    if (call_.fp8) return fp8_.Query(b, h, i, out);
    WithStorage(call_.dtype, [&](auto zero) {
      LoadRow<decltype(zero)>(call_.QueryAt<decltype(zero)>(b, h, i), call_.head_dim, out);
    });
  }
  void Key(int64_t b, int64_t kv_head, int64_t j, float* out) const {
    if (call_.fp8) return fp8_.Key(b, kv_head, j, out);
    WithStorage(call_.dtype, [&](auto zero) {
      LoadRow<decltype(zero)>(call_.KeyAt<decltype(zero)>(b, kv_head, j), call_.head_dim, out);
    });
  }
  void Value(int64_t b, int64_t kv_head, int64_t j, float* out) const {
    if (call_.fp8) return fp8_.Value(b, kv_head, j, out);
    WithStorage(call_.dtype, [&](auto zero) {
      LoadRow<decltype(zero)>(call_.ValueAt<decltype(zero)>(b, kv_head, j), call_.value_dim, out);
    });
  }

 private:
  const CallView& call_;
  const InputRows<float> fp8_;  // 8-bit values are floats, whatever else is in the call
};

class KeyTile {
 public:
  // Value rows can be read vector by vector, to the end of the last one.
  explicit KeyTile(const FastCall& fast)
      : call_(fast.call),
        reader_(fast.call),
        has_even_keys_(IsEven(fast.call, fast.call.k) && fast.call.head_dim > 0),
        has_even_values_(IsEven(fast.call, fast.call.v) && fast.call.value_dim > 0 &&
                         fast.call.value_dim % 16 == 0),
        uses_dots_(UsesDots(fast.call)),
        keys_in_place_(has_even_keys_ && fast.call.dtype == DType::kF32),
        values_in_place_(has_even_values_ && fast.call.dtype == DType::kF32),
        key_step_(PaddedToVectors(fast.call.head_dim)),
        value_step_(PaddedToVectors(fast.call.value_dim)),
        keys_(keys_in_place_ ? 0 : kTile * key_step_ / (uses_dots_ ? 2 : 1)),
        values_(values_in_place_ ? 0 : SizeOfValues()) {
    if (values_in_place_ || fast.call.value_dim == value_step_) return;
    std::fill_n(values_.get(), SizeOfValues(), 0.0F);  // the padding
  }

  void Turn(int64_t batch, int64_t kv_head, const Tile& tile) {
    batch_ = batch;
    kv_head_ = kv_head;
    tile_ = tile;
    has_keys_ = has_values_ = has_checked_ = false;
    if (uses_dots_ && has_even_keys_) even_keys_ = EvenKeys<Eigen::bfloat16>();
    if (uses_dots_ && has_even_values_) even_values_ = EvenValues<Eigen::bfloat16>();
    pairs_in_place_ = uses_dots_ && has_even_keys_ && ArePairs(even_keys_);
  }

  // Whether keys, or values, lie at even distances and can be read there, vector by vector, as T: what
  // stores the call's elements.
  bool has_even_keys() const { return has_even_keys_; }
  bool has_even_values() const { return has_even_values_; }
  template <typename T>
  Rows<T> EvenKeys() const {
    return {call_.KeyAt<T>(batch_, kv_head_, tile_.first).data, call_.k.strides[2]};
  }
  template <typename T>
  Rows<T> EvenValues() const {
    return {call_.ValueAt<T>(batch_, kv_head_, tile_.first).data, call_.v.strides[2]};
  }

  FloatRows Keys() {
    if (keys_in_place_) return EvenKeys<float>();
    if (!has_keys_) LoadKeys();
    has_keys_ = true;
    return {keys_.get(), key_step_};
  }

  FloatRows Values() {
    if (values_in_place_) return EvenValues<float>();
    if (!has_values_) LoadValues();
    has_values_ = true;
    return {values_.get(), value_step_};
  }

  // Where dots are used all rows are in pairs instead: keys by component, [keys, key step], and values by key,
  // [keys / 2, value step].
  bool uses_dots() const { return uses_dots_; }
  FloatRows KeyPairs() {
    if (pairs_in_place_) {
      return {reinterpret_cast<const float*>(even_keys_.data), even_keys_.step / 2};
    }
    const int64_t step = key_step_ / 2;
    for (int64_t n = 0; n < tile_.count && !has_keys_; ++n) {
      PackRow(KeyRow(n), static_cast<size_t>(call_.head_dim), keys_.get() + n * step);
    }
    has_keys_ = true;
    return {keys_.get(), step};
  }
  FloatRows ValuePairs() {
    if (!has_values_) LoadValuePairs();
    has_values_ = true;
    return {values_.get(), value_step_};
  }
  // Keys n and n + 1 of the tile, to value_step() floats, 0 for what is outside of `range`.
  void PackValues(int64_t n, const TileRange& range, float* out) const {
    const auto has = [&](int64_t k) {
      return k >= range.first && k < range.last && k < tile_.count;
    };
    const Bf16Row first = has(n) ? ValueRow(n) : Bf16Row{};
    const Bf16Row second = has(n + 1) ? ValueRow(n + 1) : Bf16Row{};
    PackRows(has(n) ? &first : nullptr, has(n + 1) ? &second : nullptr,
             static_cast<size_t>(call_.value_dim), out);
  }

  // Whether no value of the tile is NaN or infinite.
  bool ValuesAreFinite() {
    if (!has_checked_) are_finite_ = uses_dots_ ? CopyFinitePairs() : AreFinite(Values());
    has_checked_ = true;
    return are_finite_;
  }

  // The values with 0 for what is not finite: a hidden key's weight of 0 times NaN would be NaN.
  FloatRows FinitePairs() {
    return ValuesAreFinite() ? ValuePairs() : FloatRows{finite_->get(), value_step_};
  }
  FloatRows FiniteValues() {
    if (ValuesAreFinite()) return Values();
    const FloatRows all = Values();
    if (finite_ == nullptr) {
      finite_ = std::make_unique<AlignedFloats>(kTile * value_step_);
      std::fill_n(finite_->get(), kTile * value_step_, 0.0F);
    }
    for (int64_t n = 0; n < tile_.count; ++n) {
      for (int64_t c = 0; c < call_.value_dim; ++c) {
        const float value = all.data[n * all.step + c];
        finite_->get()[n * value_step_ + c] = std::isfinite(value) ? value : 0;
      }
    }
    return {finite_->get(), value_step_};
  }

  // Adds what FiniteValues has left out to the sums of the rows that see it, weights being those of
  // `weights`. `sums` has components in place of keys; rows as in BlockRows::AddBiases.
  void AddOthers(const BlockRows& rows, int64_t first, int64_t last, const ScoreTile& weights,
                 const ScoreTile& sums) {
    AlignedFloats row(value_step_);
    for (int64_t r = first; r < last; ++r) {
      const TileRange range = rows.RangeIn(tile_, r);
      for (int64_t n = range.first; n < range.last; ++n) {
        if (!rows.Attends(tile_, n, r)) continue;
        reader_.Value(batch_, kv_head_, tile_.first + n, row.get());
        for (int64_t c = 0; c < call_.value_dim; ++c) {
          const float value = row.get()[c];
          if (!std::isfinite(value)) sums.At(c, r - first) += weights.At(n, r - first) * value;
        }
      }
    }
  }

 private:
  Bf16Row KeyRow(int64_t n) const {
    if (has_even_keys_) return {even_keys_.data + n * even_keys_.step, 1};
    return call_.KeyAt<Eigen::bfloat16>(batch_, kv_head_, tile_.first + n);
  }
  Bf16Row ValueRow(int64_t n) const {
    if (has_even_values_) return {even_values_.data + n * even_values_.step, 1};
    return call_.ValueAt<Eigen::bfloat16>(batch_, kv_head_, tile_.first + n);
  }
  // Whether rows are whole pairs, and lie where these can be read.
  bool ArePairs(const Rows<Eigen::bfloat16>& rows) const {
    return call_.head_dim % 2 == 0 && rows.step % 2 == 0 &&
           reinterpret_cast<uintptr_t>(rows.data) % sizeof(Pair) == 0;
  }
  int64_t SizeOfValues() const { return kTile * value_step_ / (uses_dots_ ? 2 : 1); }

  // Returns whether all are finite.
  bool CopyFinitePairs() {
    const float* const all = ValuePairs().data;
    const int64_t size = (tile_.count + 1) / 2 * value_step_;
    if (finite_ == nullptr) finite_ = std::make_unique<AlignedFloats>(SizeOfValues());
    std::memcpy(finite_->get(), all, static_cast<size_t>(size) * sizeof(float));
    return ClearOthers(finite_->get(), static_cast<size_t>(size));
  }

  void LoadKeys() {
    if (has_even_keys_) {
      return WithStorage(call_.dtype, [&](auto zero) {
        const auto rows = EvenKeys<decltype(zero)>();
        LoadRows(rows.data, rows.step, tile_.count, call_.head_dim, keys_.get(), key_step_);
      });
    }
    for (int64_t n = 0; n < tile_.count; ++n) {
      reader_.Key(batch_, kv_head_, tile_.first + n, keys_.get() + n * key_step_);
    }
  }

  void LoadValues() {
    if (has_even_values_) {
      return WithStorage(call_.dtype, [&](auto zero) {
        const auto rows = EvenValues<decltype(zero)>();
        LoadRows(rows.data, rows.step, tile_.count, call_.value_dim, values_.get(), value_step_);
      });
    }
    for (int64_t n = 0; n < tile_.count; ++n) {
      reader_.Value(batch_, kv_head_, tile_.first + n, values_.get() + n * value_step_);
    }
  }

  void LoadValuePairs() {
    int64_t n = 0;
    for (; has_even_values_ && n + 2 <= tile_.count; n += 2) {
      const Eigen::bfloat16* const row = even_values_.data + n * even_values_.step;
      InterleaveRows(row, row + even_values_.step, static_cast<size_t>(value_step_),
                     values_.get() + n / 2 * value_step_);
    }
    for (; n < tile_.count; n += 2) PackValues(n, {n, n + 2}, values_.get() + n / 2 * value_step_);
  }

  static bool IsEven(const CallView& call, const TensorView& tensor) {
    const StorageView& storage = call.storage;
    return !call.fp8 && tensor.strides[3] == 1 && storage.past == 0 && !call.is_paged() &&
           storage.ring_start.empty();
  }

  // A product with 0 is NaN where a factor is not finite, and so is every sum with it. Several sums, since
  // each has to wait for its last product.
  bool AreFinite(const FloatRows& rows) const {
    const Floats d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    const Vector zero = hn::Zero(d);
    Vector sums[4] = {zero, zero, zero, zero};
    float rest = 0;
    for (int64_t n = 0; n < tile_.count; ++n) {
      const float* row = rows.data + n * rows.step;
      int64_t c = 0;
      for (; c + 4 * lanes <= call_.value_dim; c += 4 * lanes) {
#pragma GCC unroll 4
        for (int64_t k = 0; k < 4; ++k) {
          sums[k] = hn::MulAdd(hn::LoadU(d, row + c + k * lanes), zero, sums[k]);
        }
      }
      for (; c + lanes <= call_.value_dim; c += lanes) {
        sums[0] = hn::MulAdd(hn::LoadU(d, row + c), zero, sums[0]);
      }
      for (; c < call_.value_dim; ++c) rest += row[c] * 0;
    }
    const Vector sum = hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]));
    return hn::AllTrue(d, hn::Eq(sum, sum)) && rest == 0;
  }

  const CallView& call_;
  const RowReader reader_;
  const bool has_even_keys_, has_even_values_, uses_dots_, keys_in_place_, values_in_place_;
  const int64_t key_step_, value_step_;  // of the rows below
  AlignedFloats keys_, values_;
  std::unique_ptr<AlignedFloats> finite_;
  int64_t batch_ = 0, kv_head_ = 0;
  Tile tile_{};
  Rows<Eigen::bfloat16> even_keys_{}, even_values_{};  // where dots are used
  bool pairs_in_place_ = false;                        // likewise: even_keys_ are read as pairs
  bool has_keys_ = false, has_values_ = false;
  bool has_checked_ = false, are_finite_ = false;
};

}  // namespace attest::tiled_fast::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
