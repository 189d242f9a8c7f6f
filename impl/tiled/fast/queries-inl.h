// The queries of a block's panels, transposed: rows side by side in vectors. Per target, see
// micro_kernel-inl.h.
#if defined(ATTEST_TILED_FAST_QUERIES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEST_TILED_FAST_QUERIES_INL_H_
#undef ATTEST_TILED_FAST_QUERIES_INL_H_
#else
#define ATTEST_TILED_FAST_QUERIES_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>

#include "impl/tiled/fast/aligned_floats.h"
#include "impl/tiled/fast/block_rows.h"
#include "impl/tiled/fast/key_tile-inl.h"
#include "impl/tiled/fast/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attest::tiled_fast::HWY_NAMESPACE {

class PanelQueries {
 public:
  // A panel is `width` rows, whole vectors.
  PanelQueries(const FastCall& fast, size_t panels, size_t width)
      : fast_(fast),
        call_(fast.call),
        reader_(call_),
        lanes_(hn::Lanes(Floats())),
        width_(width),
        head_dim_(static_cast<size_t>(call_.head_dim)),
        uses_dots_(UsesDots(call_)),
        depth_(uses_dots_ ? HalfUp(head_dim_) : head_dim_),
        packed_(static_cast<int64_t>(panels * depth_ * width)),
        row_step_(static_cast<size_t>(PaddedToVectors(call_.head_dim))),
        row_(static_cast<int64_t>(lanes_ * row_step_)) {}

  // Components that a query is, times the factor of scores; or pairs of them as they are, where dots are used.
  size_t depth() const { return depth_; }
  // [depth, width] of panel p. Vectors without rows are of no value.
  const float* Of(size_t p) const { return packed_.get() + p * depth_ * width_; }

  // Rows first .. last of the block become panel p.
  void Pack(const BlockRows& rows, size_t p, int64_t first, int64_t last) {
    float* out = packed_.get() + p * depth_ * width_;
    for (int64_t r = first; r < last; r += static_cast<int64_t>(lanes_), out += lanes_) {
      PackVector(rows, r, last, out);
    }
  }

 private:
  // A vector of rows from `begin` on, at most to `end`.
  // Rows whose elements lie side by side are read there, others by way of scratch.
  void PackVector(const BlockRows& rows, int64_t begin, int64_t end, float* out) {
    if (head_dim_ == 0) return;
    const int64_t batch = rows.block().batch;
    if (uses_dots_ && call_.q.strides[3] != 1) {
      return PackRows<Eigen::bfloat16>(
          begin, end, out, /*ahead=*/0, [&](int64_t r, size_t lane, const auto*) {
            float* const scratch = row_.get() + lane * row_step_;
            PackRow(call_.QueryAt<Eigen::bfloat16>(batch, rows[r].head, rows[r].i), head_dim_,
                    scratch);
            return reinterpret_cast<const Eigen::bfloat16*>(scratch);
          });
    }
    if (call_.fp8 || call_.q.strides[3] != 1) {
      return PackRows<float>(begin, end, out, /*ahead=*/0,
                             [&](int64_t r, size_t lane, const float*) {
                               float* const scratch = row_.get() + lane * row_step_;
                               reader_.Query(batch, rows[r].head, rows[r].i, scratch);
                               return scratch;
                             });
    }
    WithStorage(call_.dtype, [&](auto zero) {
      using T = decltype(zero);
      const int64_t step = call_.q.strides[2];
      PackRows<T>(begin, end, out, static_cast<size_t>(step) * lanes_,
                  [&](int64_t r, size_t lane, const T* before) {
                    if (lane > 0 && !rows.StartsHead(r)) return before + step;
                    return call_.QueryAt<T>(batch, rows[r].head, rows[r].i).data;
                  });
    });
  }

  // data_of(row, lane, where those of the lane before lie) is where a row's elements lie. Lanes behind
  // the last row repeat it.
  template <typename T, typename DataOf>
  void PackRows(int64_t begin, int64_t end, float* out, size_t ahead, const DataOf& data_of) const {
    const T* rows[kLanes];
    for (size_t lane = 0; lane < lanes_; ++lane) {
      const int64_t r = begin + static_cast<int64_t>(lane);
      const T* const before = lane == 0 ? nullptr : rows[lane - 1];
      rows[lane] = r < end ? data_of(r, lane, before) : before;
    }
    if constexpr (std::is_same_v<T, Eigen::bfloat16>) {
      if (uses_dots_) return TransposePairs(rows, head_dim_, out, width_, ahead);
    }
    Transpose(rows, head_dim_, fast_.query_factor, out, width_, ahead);
  }

  const FastCall& fast_;
  const CallView& call_;
  const RowReader reader_;
  const size_t lanes_, width_;
  const size_t head_dim_;
  const bool uses_dots_;
  const size_t depth_;
  AlignedFloats packed_;   // [panels, depth, width]
  const size_t row_step_;  // head_dim, padded
  AlignedFloats row_;      // [lanes, row_step]: queries on their way from storage
};

}  // namespace attest::tiled_fast::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
