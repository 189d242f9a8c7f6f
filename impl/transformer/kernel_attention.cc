#include "impl/transformer/kernel_attention.h"

#include <array>
#include <deque>
#include <type_traits>

namespace attest::transformer {
namespace {

struct Tensor {
  DLTensor tensor{};
  std::array<int64_t, 4> shape{}, strides{};
};

// The call of a task, with the memory that only it needs.
template <typename T>
class Call {
 public:
  Call(const AttentionTask<T>& task, Matrix<T>& out) : task_(task) {
    const int64_t heads = task.heads, n = task.head_dim, rows = task.q_len * heads * n;
    out.resize(task.batch * task.q_len, heads * n);
    const std::array<int64_t, 4> shape{task.batch, heads, task.q_len, n},
        strides{rows, n, heads * n, 1};
    Add(ATTEST_ROLE_Q, task.q->data(), kFloat, shape, strides);
    Add(ATTEST_ROLE_OUT, out.data(), kFloat, shape, strides);
    AddKeys(ATTEST_ROLE_K, task.kv.k);
    AddKeys(ATTEST_ROLE_V, task.kv.v);
    AddMask();
    AddAlibi();
    scale_.id = ATTEST_OPTION_SCALE;
    scale_.is_float = 1;
    scale_.value.f = task.scale;
  }

  tl::expected<void, std::string> Run(const attest_kernel_table& table, void* kernel) {
    return Run(table, table.forward, kernel);
  }

  // Forward, with an lse that the kernel is to have, then backward over the same tensors.
  tl::expected<void, std::string> RunBackward(const attest_kernel_table& table, void* kernel,
                                              const Matrix<T>& dout, AttentionGradients<T>& d) {
    const int64_t heads = task_.heads, n = task_.head_dim, q_len = task_.q_len;
    if (table.backward == nullptr) {
      return tl::unexpected(std::string(table.name) + ": has no backward pass");
    }
    lse_.resize(static_cast<size_t>(task_.batch * heads * q_len));
    Add(ATTEST_ROLE_LSE, lse_.data(), kFloat, std::vector<int64_t>{task_.batch, heads, q_len},
        std::vector<int64_t>{heads * q_len, q_len, 1});
    if (auto done = Run(table, table.forward, kernel); !done) return done;
    const std::array<int64_t, 4> shape{task_.batch, heads, q_len, n},
        strides{q_len * heads * n, n, heads * n, 1};
    Add(ATTEST_ROLE_DOUT, dout.data(), kFloat, shape, strides);
    Add(ATTEST_ROLE_DQ, d.q.data(), kFloat, shape, strides);
    AddKeys(ATTEST_ROLE_DK, d.k.data());
    AddKeys(ATTEST_ROLE_DV, d.v.data());
    return Run(table, table.backward, kernel);
  }

 private:
  using Pass = attest_status (*)(void* kernel, attest_call* call);

  tl::expected<void, std::string> Run(const attest_kernel_table& table, Pass pass, void* kernel) {
    std::array<char, 256> message{};
    attest_call call{};
    call.struct_size = sizeof(call);
    call.num_options = 1;
    call.options = &scale_;
    call.num_arguments = static_cast<uint32_t>(arguments_.size());
    call.arguments = arguments_.data();
    call.message = message.data();
    call.message_size = message.size();
    if (pass(kernel, &call) == ATTEST_OK) return {};
    return tl::unexpected(std::string(table.name) + ": " + message.data());
  }

  static constexpr DLDataType kFloat{kDLFloat, 8 * sizeof(T), 1};

  void Add(int32_t role, const void* data, DLDataType type, std::vector<int64_t> shape,
           std::vector<int64_t> strides) {
    Tensor& t = tensors_.emplace_back();
    std::copy(shape.begin(), shape.end(), t.shape.begin());
    std::copy(strides.begin(), strides.end(), t.strides.begin());
    t.tensor = {const_cast<void*>(data),
                {kDLCPU, 0},
                static_cast<int32_t>(shape.size()),
                type,
                t.shape.data(),
                t.strides.data(),
                0};
    arguments_.push_back({role, &t.tensor});
  }
  void Add(int32_t role, const void* data, DLDataType type, const std::array<int64_t, 4>& shape,
           const std::array<int64_t, 4>& strides) {
    Add(role, data, type, std::vector(shape.begin(), shape.end()),
        std::vector(strides.begin(), strides.end()));
  }
  void AddIntegers(int32_t role, const std::vector<int64_t>& values) {
    Add(role, values.data(), {kDLInt, 64, 1}, std::vector<int64_t>{task_.batch},
        std::vector<int64_t>{1});
  }

  void AddKeys(int32_t role, const T* data) {
    const KvRows<T>& kv = task_.kv;
    const int64_t n = task_.head_dim, width = task_.kv_heads * n;
    const bool first = role == ATTEST_ROLE_K;
    if (kv.page_size == 0) {
      Add(role, data, kFloat, std::array{task_.batch, task_.kv_heads, kv.len, n},
          std::array{kv.item_rows * width, n, width, int64_t{1}});
      if (first && !kv.ring_start.empty()) AddIntegers(ATTEST_ROLE_RING_START, kv.ring_start);
      return;
    }
    Add(role, data, kFloat, std::array{kv.rows / kv.page_size, task_.kv_heads, kv.page_size, n},
        std::array{kv.page_size * width, n, width, int64_t{1}});
    if (!first) return;
    Add(ATTEST_ROLE_PAGE_TABLE, kv.page_table.data(), {kDLInt, 64, 1},
        std::vector<int64_t>{task_.batch, kv.pages_per_item},
        std::vector<int64_t>{kv.pages_per_item, 1});
    AddIntegers(ATTEST_ROLE_KEY_LENGTHS, task_.visible.key_end);
  }

  void AddMask() {
    const int64_t q_len = task_.q_len, kv_len = task_.kv.len;
    for (int64_t b = 0; b < task_.batch; ++b) {
      for (int64_t i = 0; i < q_len; ++i) {
        for (int64_t j = 0; j < kv_len; ++j) mask_.push_back(task_.visible(b, i, j) ? 1 : 0);
      }
    }
    Add(ATTEST_ROLE_MASK, mask_.data(), {kDLUInt, 8, 1},
        std::array{task_.batch, int64_t{1}, q_len, kv_len},
        std::array{q_len * kv_len, q_len * kv_len, kv_len, int64_t{1}});
  }

  void AddAlibi() {
    if (task_.slopes.empty()) return;
    slopes_.assign(task_.slopes.begin(), task_.slopes.end());
    Add(ATTEST_ROLE_ALIBI_SLOPES, slopes_.data(), kFloat, std::vector<int64_t>{task_.heads},
        std::vector<int64_t>{1});
    AddIntegers(ATTEST_ROLE_DIAGONAL_OFFSET, task_.alibi_offset);
  }

  const AttentionTask<T>& task_;
  std::vector<uint8_t> mask_;
  std::vector<T> slopes_, lse_;
  std::deque<Tensor> tensors_;
  std::vector<attest_argument> arguments_;
  attest_option scale_{};
};

}  // namespace

tl::expected<KernelAttention, std::string> KernelAttention::Create(
    const attest_kernel_table* table,
    const std::vector<std::pair<std::string, std::string>>& options) {
  std::vector<attest_string_pair> pairs;
  pairs.reserve(options.size());
  for (const auto& [key, value] : options) pairs.push_back({key.c_str(), value.c_str()});
  std::array<char, 256> message{};
  attest_create_info info{};
  info.struct_size = sizeof(info);
  info.threads = 1;
  info.num_options = static_cast<uint32_t>(pairs.size());
  info.options = pairs.data();
  info.message = message.data();
  info.message_size = message.size();
  void* kernel = nullptr;
  if (table->create(&info, &kernel) != ATTEST_OK)
    return tl::unexpected(std::string(message.data()));
  return KernelAttention(table, kernel);
}

template <typename T>
tl::expected<void, std::string> KernelAttention::Run(const AttentionTask<T>& task,
                                                     Matrix<T>& out) const {
  return Call<T>(task, out).Run(*table_, kernel_.get());
}

template <typename T>
tl::expected<AttentionGradients<T>, std::string> KernelAttention::Backward(
    const AttentionTask<T>& task, const Matrix<T>& dout) const {
  Matrix<T> out;
  AttentionGradients<T> gradients = ZeroGradients(task);
  const auto done = Call<T>(task, out).RunBackward(*table_, kernel_.get(), dout, gradients);
  if (!done) return tl::unexpected(done.error());
  return gradients;
}

template tl::expected<AttentionGradients<float>, std::string> KernelAttention::Backward(
    const AttentionTask<float>&, const Matrix<float>&) const;
template tl::expected<AttentionGradients<double>, std::string> KernelAttention::Backward(
    const AttentionTask<double>&, const Matrix<double>&) const;
template tl::expected<void, std::string> KernelAttention::Run(const AttentionTask<float>&,
                                                              Matrix<float>&) const;
template tl::expected<void, std::string> KernelAttention::Run(const AttentionTask<double>&,
                                                              Matrix<double>&) const;

}  // namespace attest::transformer
