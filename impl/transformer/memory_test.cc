// What attention allocates beyond its inputs and outputs, counted: a program of its own, for it is
// linked with --wrap=malloc and replaces operator new.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "impl/tiled/tiled.h"
#include "impl/transformer/kernel_attention.h"
#include "impl/transformer/testing.h"

namespace {

std::atomic<int64_t> held = 0,
                     most = 0;  // bytes allocated since the count began, and at most so far

}  // namespace

extern "C" {

void* __real_malloc(size_t size);
void __real_free(void* data);

void* __wrap_malloc(size_t size) {
  void* const data = __real_malloc(size);
  held += static_cast<int64_t>(malloc_usable_size(data));
  most = std::max(most.load(), held.load());
  return data;
}

void __wrap_free(void* data) {
  held -= static_cast<int64_t>(malloc_usable_size(data));
  __real_free(data);
}

}  // extern "C"

// Eigen asks malloc, containers ask these.
void* operator new(size_t size) {
  if (void* data = std::malloc(size)) return data;
  throw std::bad_alloc();
}
void operator delete(void* data) noexcept {
  std::free(data);
}
void operator delete(void* data, size_t) noexcept {
  std::free(data);
}

namespace attest::transformer {
namespace {

// Causal self-attention of one head of `len` tokens, as a call of the plug-in interface: the
// diagonal is a flag, so that no input is quadratic.
class CausalCall {
 public:
  explicit CausalCall(int64_t len)
      : tokens_(RandomMatrix(1, len, kHeadDim)), out_(Matrix<double>::Zero(len, kHeadDim)) {
    for (const int32_t role : {ATTEST_ROLE_Q, ATTEST_ROLE_K, ATTEST_ROLE_V, ATTEST_ROLE_OUT}) {
      DLTensor& tensor = tensors_[static_cast<size_t>(std::ssize(arguments_))];
      double* const data = role == ATTEST_ROLE_OUT ? out_.data() : tokens_.data();
      tensor = {data, {kDLCPU, 0}, 4, {kDLFloat, 64, 1}, shape_, strides_, 0};
      arguments_.push_back({role, &tensor});
    }
    shape_[2] = len;
    strides_[0] = strides_[1] = len * kHeadDim;
    options_[0].id = ATTEST_OPTION_SCALE;
    options_[0].is_float = 1;
    options_[0].value.f = 0.5;
    options_[1].id = ATTEST_OPTION_CAUSAL;
    options_[1].value.i = 1;
    options_[1].is_float = 0;
    offset_ = {&diagonal_, {kDLCPU, 0}, 1, {kDLInt, 64, 1}, one_, one_, 0};
    arguments_.push_back({ATTEST_ROLE_DIAGONAL_OFFSET, &offset_});
  }

  attest_status Run(const attest_kernel_table& table, void* kernel) {
    attest_call call{};
    call.struct_size = sizeof(call);
    call.num_options = 2;
    call.options = options_;
    call.num_arguments = static_cast<uint32_t>(arguments_.size());
    call.arguments = arguments_.data();
    return table.forward(kernel, &call);
  }

 private:
  static constexpr int64_t kHeadDim = 4;
  Matrix<double> tokens_, out_;
  int64_t shape_[4] = {1, 1, 0, kHeadDim}, strides_[4] = {0, 0, kHeadDim, 1}, one_[1] = {1};
  int64_t diagonal_ = 0;
  DLTensor tensors_[4] = {}, offset_{};
  std::vector<attest_argument> arguments_;
  attest_option options_[2] = {};
};

int64_t MostOfTiled(int64_t len) {
  const attest_kernel_table& table = *TiledKernelTable();
  attest_create_info info{};
  info.struct_size = sizeof(info);
  info.threads = 1;
  void* kernel = nullptr;
  EXPECT_EQ(table.create(&info, &kernel), ATTEST_OK);
  CausalCall call(len);
  held = most = 0;
  EXPECT_EQ(call.Run(table, kernel), ATTEST_OK);
  const int64_t bytes = most;
  table.destroy(kernel);
  return bytes;
}

int64_t MostOfDense(int64_t len) {
  const Matrix<double> tokens = RandomMatrix(1, len, 4);
  AttentionTask<double> task;
  task.batch = task.heads = task.kv_heads = 1;
  task.head_dim = 4;
  task.q_len = task.kv.len = task.kv.item_rows = task.kv.rows = len;
  task.q = &tokens;
  task.kv.k = task.kv.v = tokens.data();
  task.visible.causal = true;
  task.visible.key_begin = task.visible.offset = {0};
  task.visible.key_end = {len};
  Matrix<double> out;
  held = most = 0;
  DenseAttention(task, out);
  return most;
}

TEST(MemoryTest, TheTiledKernelNeedsNoMoreForLongerSequences) {
  const int64_t of_short = MostOfTiled(100);
  EXPECT_GT(of_short, 0) << "the count does not count";
  EXPECT_EQ(MostOfTiled(200), of_short);
  EXPECT_EQ(MostOfTiled(800), of_short);
}

TEST(MemoryTest, TheDenseFormIsQuadratic) {
  for (const int64_t len : {100, 200, 400}) {
    EXPECT_GE(MostOfDense(len), len * len * 8) << len;
    EXPECT_LT(MostOfDense(len), len * len * 8 + len * 200) << len;
  }
}

}  // namespace
}  // namespace attest::transformer
