// Scratch memory of the fast kernel: floats aligned to a cache line, of no value until they are written.
#ifndef ATTEST_TILED_FAST_ALIGNED_FLOATS_H_
#define ATTEST_TILED_FAST_ALIGNED_FLOATS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace attest::tiled_fast {

class AlignedFloats {
 public:
  // At least one float, so that get() can always be pointed at.
  explicit AlignedFloats(int64_t size)
      : data_(new (kAlignment) float[static_cast<size_t>(std::max<int64_t>(size, 1))]) {}

  float* get() const { return data_.get(); }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Delete {
    void operator()(float* data) const { ::operator delete[](data, kAlignment); }
  };
  std::unique_ptr<float[], Delete> data_;
};

// Rows of scratch start at multiples of the widest vector.
constexpr int64_t PaddedToVectors(int64_t size) {
  return (size + 15) / 16 * 16;
}

}  // namespace attest::tiled_fast

#endif  // ATTEST_TILED_FAST_ALIGNED_FLOATS_H_
