#include "impl/abi/input_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "impl/attention/fp8.h"

namespace attest {
namespace {

// The glue has its own table, so that kernels share no code with the oracle; both must say the same.
TEST(InputRowsTest, EightBitValuesAreThoseOfTheFormats) {
  for (const DType format : {DType::kE4M3, DType::kE5M2}) {
    for (int bits = 0; bits < 256; ++bits) {
      const double expected = Fp8Value(format, static_cast<uint8_t>(bits));
      const double actual = Fp8Values(format)[static_cast<size_t>(bits)];
      EXPECT_EQ(std::isnan(actual), std::isnan(expected)) << bits;
      if (!std::isnan(expected)) {
        EXPECT_EQ(actual, expected) << bits;
        EXPECT_EQ(std::signbit(actual), std::signbit(expected)) << bits;
      }
    }
  }
}

// One key and one query of dimension 3, as a CallView without a call.
struct SmallView : CallView {
  template <typename T>
  explicit SmallView(std::vector<T>& data) {
    batch = q_heads = kv_heads = q_len = kv_len = 1;
    head_dim = value_dim = 3;
    q = k = v = TensorView{data.data(), {1, 1, 1, 3}, {0, 0, 0, 2}};
  }
};

TEST(InputRowsTest, RowsAreConvertedAcrossStrides) {
  std::vector<Eigen::half> data(6);
  for (size_t n = 0; n < data.size(); ++n) data[n] = Eigen::half(static_cast<float>(n) / 4);
  SmallView view(data);
  view.dtype = DType::kF16;
  std::vector<float> row(6, -1);
  InputRows<Eigen::half>(view).Value(0, 0, 0, row.data(), 2);
  EXPECT_EQ(row, (std::vector<float>{0, -1, 0.5, -1, 1, -1}));
}

TEST(InputRowsTest, EightBitRowsComeTimesTheirScale) {
  std::vector<uint8_t> data = {Fp8Bits(DType::kE4M3, 1),   0, Fp8Bits(DType::kE4M3, -3), 0,
                               Fp8Bits(DType::kE4M3, 448), 0};
  SmallView view(data);
  view.fp8 = DType::kE4M3;
  view.q_scale = 2;
  view.k_scale = 0.5;
  std::vector<float> row(3);
  const InputRows<float> rows(view);
  rows.Query(0, 0, 0, row.data());
  EXPECT_EQ(row, (std::vector<float>{2, -6, 896}));
  rows.Key(0, 0, 0, row.data());
  EXPECT_EQ(row, (std::vector<float>{0.5, -1.5, 224}));
  rows.Value(0, 0, 0, row.data());
  EXPECT_EQ(row, (std::vector<float>{1, -3, 448}));
}

}  // namespace
}  // namespace attest
