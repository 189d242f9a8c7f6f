// What the tests of this folder share: random matrices and sequences by seed, the configurations
// that together use every choice there is, and comparison of rows.
#ifndef ATTEST_TRANSFORMER_TESTING_H_
#define ATTEST_TRANSFORMER_TESTING_H_

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "impl/transformer/config.h"
#include "impl/transformer/matrix.h"
#include "impl/transformer/random.h"
#include "impl/transformer/tokens.h"

namespace attest::transformer {

// Elements uniform in [-spread, spread).
template <typename T = double>
Matrix<T> RandomMatrix(uint64_t seed, int64_t rows, int64_t cols, double spread = 1) {
  Matrix<T> m(rows, cols);
  const Stream stream(seed, 77);
  for (int64_t n = 0; n < m.size(); ++n) {
    m.data()[n] = static_cast<T>(spread * stream.Symmetric(static_cast<uint64_t>(n)));
  }
  return m;
}

inline std::vector<int64_t> RandomSequence(uint64_t seed, int64_t len, int64_t vocab) {
  std::vector<int64_t> tokens;
  const Stream stream(seed, 78);
  for (int64_t n = 0; n < len; ++n) {
    tokens.push_back(stream.Below(static_cast<uint64_t>(n), vocab));
  }
  return tokens;
}

// One sequence of each length.
inline std::vector<std::vector<int64_t>> RandomSequences(uint64_t seed,
                                                         const std::vector<int64_t>& lengths,
                                                         int64_t vocab) {
  std::vector<std::vector<int64_t>> sequences;
  for (const int64_t len : lengths) {
    sequences.push_back(RandomSequence(Mix(seed) + sequences.size(), len, vocab));
  }
  return sequences;
}

struct NamedConfig {
  std::string name;
  Config config;
};

inline NamedConfig Variation(std::string name, Base base,
                             const std::map<std::string, std::string>& options = {}) {
  const auto config = WithOptions(BaseConfig(base), options);
  EXPECT_TRUE(config) << config.error();
  return {std::move(name), *config};
}

inline std::vector<NamedConfig> DecoderConfigs() {
  return {
      Variation("decoder", Base::kDecoder),
      Variation("gpt", Base::kGpt),
      Variation("alibi", Base::kAlibi, {{"heads", "2"}, {"kv_heads", "1"}}),
      Variation("windowed", Base::kWindowed, {{"positions", "rope-interleaved"}}),
      Variation("paged", Base::kPaged, {{"packed", "true"}, {"placement", "post"}}),
      Variation("plain", Base::kDecoder, {{"positions", "none"}, {"norm", "layer"}}),
      Variation("sinusoidal", Base::kPaged, {{"positions", "sinusoidal"}, {"tied", "true"}}),
  };
}

inline std::vector<NamedConfig> AllConfigs() {
  std::vector<NamedConfig> all = DecoderConfigs();
  all.push_back(Variation("encoder", Base::kEncoder));
  all.push_back(Variation("encoder-pre", Base::kEncoder,
                          {{"positions", "none"}, {"placement", "pre"}, {"activation", "swiglu"}}));
  all.push_back(Variation("encoder-decoder", Base::kEncoderDecoder));
  all.push_back(Variation("encoder-decoder-rope", Base::kEncoderDecoder,
                          {{"positions", "rope"}, {"placement", "pre"}, {"kv_heads", "1"}}));
  return all;
}

// Whether two rows have the same bits.
template <typename T>
bool SameBits(const Matrix<T>& a, int64_t row_a, const Matrix<T>& b, int64_t row_b) {
  return a.cols() == b.cols() &&
         std::memcmp(a.data() + row_a * a.cols(), b.data() + row_b * b.cols(),
                     sizeof(T) * static_cast<size_t>(a.cols())) == 0;
}

}  // namespace attest::transformer

#endif  // ATTEST_TRANSFORMER_TESTING_H_
