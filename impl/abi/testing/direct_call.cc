#include "impl/abi/testing/direct_call.h"

#include <algorithm>
#include <array>
#include <deque>
#include <limits>
#include <utility>

#include "impl/abi/testing/direct_storage.h"
#include "impl/abi/testing/owned_tensor.h"

namespace attest {
namespace {

// q, k or v of a problem as it is stored.
struct InputTensor {
  const Array& values;
  DType dtype;
  double scale;  // of an 8-bit one, else 1
};

// The call of a problem, with its memory.
class DirectCall {
 public:
  DirectCall(const Problem& p, const Inputs& inputs, const DirectForm& form)
      : p_(p), form_(form), places_(p, form.storage) {
    AddQuery({inputs.q, p.InputDType(), p.fp8 ? p.fp8->q_scale : 1});
    AddKeys(ATTEST_ROLE_K, ATTEST_ROLE_PAST_K,
            {inputs.k, p.InputDType(), p.fp8 ? p.fp8->k_scale : 1});
    AddKeys(ATTEST_ROLE_V, ATTEST_ROLE_PAST_V,
            {inputs.v, p.InputDType(), p.fp8 ? p.fp8->v_scale : 1});
    AddScalars();
    AddStorage();
    AddMasks(inputs);
    AddPerHead(ATTEST_ROLE_ALIBI_SLOPES, p.alibi_slopes);
    AddPerHead(ATTEST_ROLE_SINKS, p.sinks);
    AddOutputs();
    if (p.want_gradients) AddGradients(inputs);
  }

  DirectResult Run(const attest_kernel_table& table, void* kernel) {
    std::array<char, 256> message{};
    attest_call call{};
    call.struct_size = sizeof(call);
    call.num_options = static_cast<uint32_t>(options_.size());
    call.options = options_.data();
    call.num_arguments = static_cast<uint32_t>(arguments_.size());
    call.arguments = arguments_.data();
    call.message = message.data();
    call.message_size = message.size();
    DirectResult result;
    // The gradients' tensors stand at the end.
    const auto is_of_backward = [](const attest_argument& a) { return a.role >= ATTEST_ROLE_DOUT; };
    const auto of_backward =
        static_cast<uint32_t>(std::count_if(arguments_.begin(), arguments_.end(), is_of_backward));
    call.num_arguments -= of_backward;
    result.status = table.forward(kernel, &call);
    if (result.status == ATTEST_OK && p_.want_gradients) {
      call.num_arguments += of_backward;
      result.status = table.backward(kernel, &call);
    }
    result.message = message.data();
    if (result.status != ATTEST_OK) return result;
    result.out = ReadRows(ATTEST_ROLE_OUT, p_.OutShape());
    if (p_.want_lse) result.lse = ReadRows(ATTEST_ROLE_LSE, p_.LseShape());
    result.weights = Read(ATTEST_ROLE_WEIGHTS);
    result.scores = Read(ATTEST_ROLE_SCORES);
    result.present_k = Read(ATTEST_ROLE_PRESENT_K);
    result.present_v = Read(ATTEST_ROLE_PRESENT_V);
    if (p_.want_gradients) {
      result.dq = ReadRows(ATTEST_ROLE_DQ, p_.QShape());
      result.dk = ReadKeys(ATTEST_ROLE_DK, p_.KShape());
      result.dv = ReadKeys(ATTEST_ROLE_DV, p_.VShape());
    }
    result.dbias = Read(ATTEST_ROLE_DBIAS);
    result.dsink = Read(ATTEST_ROLE_DSINK);
    if (p_.sinks && !result.dsink.empty()) result.dsink.shape = {1, p_.q_heads, 1, 1};
    return result;
  }

 private:
  bool is_packed() const { return form_.storage == DirectStorage::kPacked; }

  OwnedTensor& Add(int32_t role, const Shape4& shape, DType dtype, ShownAxes axes = {}) {
    OwnedTensor& tensor = tensors_.emplace_back(shape, form_.layout, dtype, axes);
    arguments_.push_back({role, tensor.tensor()});
    return tensor;
  }

  // value(index) at each index of the shape.
  template <typename Value>
  void AddFilled(int32_t role, const Shape4& shape, DType dtype, ShownAxes axes, Value&& value) {
    OwnedTensor& tensor = Add(role, shape, dtype, axes);
    ForEachIndex(shape, [&](const Shape4& at) { tensor.Set(at, value(at)); });
  }

  void AddPlane(int32_t role, const BitPlane& plane) {
    AddFilled(role, plane.shape, DType::kBool, {4 - plane.rank, plane.rank},
              [&](const Shape4& at) { return plane.At(at[0], at[1], at[2], at[3]) ? 1 : 0; });
  }

  // [rows, columns], or [rows] where columns is 1 and the rank says so.
  template <typename T>
  void AddList(int32_t role, const std::vector<T>& values, DType dtype, int64_t columns, int rank) {
    const int64_t rows = columns == 0 ? p_.batch : static_cast<int64_t>(values.size()) / columns;
    AddFilled(role, {rows, columns, 1, 1}, dtype, {0, rank}, [&](const Shape4& at) {
      return static_cast<double>(values[static_cast<size_t>(at[0] * columns + at[1])]);
    });
  }
  void AddIntegers(int32_t role, const std::vector<int64_t>& values) {
    AddList(role, values, DType::kI64, /*columns=*/1, /*rank=*/1);
  }
  void AddPerHead(int32_t role, const std::optional<std::vector<double>>& values) {
    if (values) AddList(role, *values, p_.LseDType(), /*columns=*/1, /*rank=*/1);
  }

  // Rows below the query lengths, end to end.
  template <typename Visitor>
  void ForEachPackedRow(Visitor&& visit) const {
    int64_t position = 0;
    const std::vector<int64_t> lengths = LengthsOf(p_.query_lengths, p_.batch, p_.q_len);
    for (int64_t b = 0; b < p_.batch; ++b) {
      for (int64_t i = 0; i < lengths[static_cast<size_t>(b)]; ++i) visit(b, i, position++);
    }
  }
  int64_t PackedRows() const {
    return Cumulative(LengthsOf(p_.query_lengths, p_.batch, p_.q_len)).back();
  }

  void AddQuery(const InputTensor& q) {
    if (!is_packed()) {
      AddFilled(ATTEST_ROLE_Q, p_.QShape(), q.dtype, {}, [&](const Shape4& at) {
        return q.values.At(at[0], at[1], at[2], at[3]) / q.scale;
      });
      return;
    }
    OwnedTensor& tensor =
        Add(ATTEST_ROLE_Q, {PackedRows(), p_.q_heads, p_.head_dim, 1}, q.dtype, {0, 3});
    ForEachPackedRow([&](int64_t b, int64_t i, int64_t position) {
      ForEachIndex({1, p_.q_heads, p_.head_dim, 1}, [&](const Shape4& at) {
        tensor.Set({position, at[1], at[2], 0}, q.values.At(b, at[1], i, at[2]) / q.scale);
      });
    });
  }

  void AddKeys(int32_t role, int32_t past_role, const InputTensor& input) {
    const int64_t dim = input.values.shape[3];
    const Shape4 shape = is_packed()
                             ? Shape4{places_.positions(), p_.kv_heads, dim, 1}
                             : Shape4{places_.outer(), p_.kv_heads, places_.positions(), dim};
    OwnedTensor& recent = Add(role, shape, input.dtype, {0, is_packed() ? 3 : 4});
    ForEachIndex(
        shape, [&](const Shape4& at) { recent.Set(at, std::numeric_limits<double>::quiet_NaN()); });
    OwnedTensor* past = nullptr;
    if (form_.storage == DirectStorage::kPast) {
      past = &Add(past_role, {p_.batch, p_.kv_heads, places_.past(), dim}, input.dtype);
    }
    ForEachIndex(input.values.shape, [&](const Shape4& at) {
      const double value = input.values.At(at[0], at[1], at[2], at[3]) / input.scale;
      if (at[2] < places_.past()) return past->Set(at, value);
      const auto place = places_.Find(at[0], at[2]);
      if (!place) return;
      recent.Set(is_packed() ? Shape4{place->position, at[1], at[3], 0}
                             : Shape4{place->outer, at[1], place->position, at[3]},
                 value);
    });
  }

  void AddStorage() {
    switch (form_.storage) {
      case DirectStorage::kPages:
        AddList(ATTEST_ROLE_PAGE_TABLE, places_.page_table(), DType::kI64, places_.pages_per_item(),
                /*rank=*/2);
        AddIntegers(ATTEST_ROLE_KEY_LENGTHS, LengthsOf(p_.key_lengths, p_.batch, p_.kv_len));
        break;
      case DirectStorage::kPacked:
        AddIntegers(ATTEST_ROLE_CU_KEY_LENGTHS,
                    Cumulative(LengthsOf(p_.key_lengths, p_.batch, p_.kv_len)));
        AddIntegers(ATTEST_ROLE_CU_QUERY_LENGTHS,
                    Cumulative(LengthsOf(p_.query_lengths, p_.batch, p_.q_len)));
        return;
      default:
        if (p_.key_lengths) AddIntegers(ATTEST_ROLE_KEY_LENGTHS, *p_.key_lengths);
        if (form_.storage == DirectStorage::kRing) {
          AddIntegers(ATTEST_ROLE_RING_START, places_.ring_start());
        }
    }
    if (p_.query_lengths) AddIntegers(ATTEST_ROLE_QUERY_LENGTHS, *p_.query_lengths);
  }

  void AddMasks(const Inputs& inputs) {
    if (p_.mask) AddPlane(ATTEST_ROLE_MASK, *p_.mask);
    if (p_.bias) {
      AddFilled(ATTEST_ROLE_BIAS, p_.bias->shape, p_.BiasDType(),
                {4 - p_.bias->rank, p_.bias->rank},
                [&](const Shape4& at) { return inputs.bias.At(at[0], at[1], at[2], at[3]); });
    }
    if (p_.prefix_lengths) AddIntegers(ATTEST_ROLE_PREFIX_LENGTHS, *p_.prefix_lengths);
    if (!p_.diagonal_offset.empty()) AddIntegers(ATTEST_ROLE_DIAGONAL_OFFSET, p_.diagonal_offset);
    if (p_.documents) {
      AddList(ATTEST_ROLE_DOCUMENT_IDS, p_.documents->query, DType::kI64, p_.q_len, /*rank=*/2);
      AddList(ATTEST_ROLE_KEY_DOCUMENT_IDS, p_.documents->key, DType::kI64, p_.kv_len, /*rank=*/2);
    }
    if (p_.block_mask) {
      AddPlane(ATTEST_ROLE_BLOCK_MASK, p_.block_mask->plane);
      AddOption(ATTEST_OPTION_BLOCK_Q, p_.block_mask->block_q);
      AddOption(ATTEST_OPTION_BLOCK_K, p_.block_mask->block_k);
    }
    if (p_.dropout) {
      AddPlane(ATTEST_ROLE_DROPOUT_MASK, p_.dropout->keep);
      AddOption(ATTEST_OPTION_DROPOUT, p_.dropout->probability);
    }
  }

  void AddOption(int32_t id, int64_t value) {
    attest_option& option = options_.emplace_back();
    option.id = id;
    option.value.i = value;
  }
  void AddOption(int32_t id, double value) {
    attest_option& option = options_.emplace_back();
    option.id = id;
    option.is_float = 1;
    option.value.f = value;
  }

  void AddScalars() {
    AddOption(ATTEST_OPTION_SCALE, p_.EffectiveScale());
    if (p_.causal) AddOption(ATTEST_OPTION_CAUSAL, int64_t{1});
    if (p_.window.left) AddOption(ATTEST_OPTION_WINDOW_LEFT, *p_.window.left);
    if (p_.window.right) AddOption(ATTEST_OPTION_WINDOW_RIGHT, *p_.window.right);
    if (p_.softcap != 0) AddOption(ATTEST_OPTION_SOFTCAP, p_.softcap);
    if (p_.want_scores) {
      AddOption(ATTEST_OPTION_SCORES, static_cast<int64_t>(*p_.want_scores));
    }
    if (!p_.fp8) return;
    AddOption(ATTEST_OPTION_FP8, int64_t{p_.fp8->format == DType::kE4M3 ? 1 : 2});
    for (const auto& [role, scale] : {std::pair{ATTEST_ROLE_Q_SCALE, p_.fp8->q_scale},
                                      std::pair{ATTEST_ROLE_K_SCALE, p_.fp8->k_scale},
                                      std::pair{ATTEST_ROLE_V_SCALE, p_.fp8->v_scale}}) {
      AddList(role, std::vector<double>{scale}, DType::kF32, /*columns=*/1, /*rank=*/1);
    }
  }

  void AddOutputs() {
    if (is_packed()) {
      Add(ATTEST_ROLE_OUT, {PackedRows(), p_.q_heads, p_.value_dim, 1}, p_.dtype, {0, 3});
      if (p_.want_lse) {
        Add(ATTEST_ROLE_LSE, {p_.q_heads, PackedRows(), 1, 1}, p_.LseDType(), {0, 2});
      }
      return;
    }
    Add(ATTEST_ROLE_OUT, p_.OutShape(), p_.dtype);
    if (p_.want_lse) Add(ATTEST_ROLE_LSE, p_.LseShape(), p_.LseDType(), {0, 3});
    if (p_.want_weights) Add(ATTEST_ROLE_WEIGHTS, p_.WeightsShape(), p_.dtype);
    if (p_.want_scores) Add(ATTEST_ROLE_SCORES, p_.WeightsShape(), p_.dtype);
    if (form_.want_present) {
      Add(ATTEST_ROLE_PRESENT_K, p_.KShape(), p_.dtype);
      Add(ATTEST_ROLE_PRESENT_V, p_.VShape(), p_.dtype);
    }
  }

  void AddPackedGradients(const Inputs& inputs) {
    const ShownAxes axes{0, 3};
    OwnedTensor& dout =
        Add(ATTEST_ROLE_DOUT, {PackedRows(), p_.q_heads, p_.value_dim, 1}, p_.dtype, axes);
    ForEachPackedRow([&](int64_t b, int64_t i, int64_t position) {
      ForEachIndex({1, p_.q_heads, p_.value_dim, 1}, [&](const Shape4& at) {
        dout.Set({position, at[1], at[2], 0}, inputs.dout.At(b, at[1], i, at[2]));
      });
    });
    const int64_t keys = places_.positions();
    Add(ATTEST_ROLE_DQ, {PackedRows(), p_.q_heads, p_.head_dim, 1}, p_.dtype, axes);
    Add(ATTEST_ROLE_DK, {keys, p_.kv_heads, p_.head_dim, 1}, p_.dtype, axes);
    Add(ATTEST_ROLE_DV, {keys, p_.kv_heads, p_.value_dim, 1}, p_.dtype, axes);
    if (form_.all_gradients && p_.sinks) AddSinkGradient();
  }

  void AddSinkGradient() { Add(ATTEST_ROLE_DSINK, {p_.q_heads, 1, 1, 1}, p_.LseDType(), {0, 1}); }

  // Of plain or packed storage.
  void AddGradients(const Inputs& inputs) {
    if (is_packed()) return AddPackedGradients(inputs);
    AddFilled(ATTEST_ROLE_DOUT, p_.OutShape(), p_.dtype, {},
              [&](const Shape4& at) { return inputs.dout.At(at[0], at[1], at[2], at[3]); });
    Add(ATTEST_ROLE_DQ, p_.QShape(), p_.dtype);
    Add(ATTEST_ROLE_DK, p_.KShape(), p_.dtype);
    Add(ATTEST_ROLE_DV, p_.VShape(), p_.dtype);
    if (!form_.all_gradients) return;
    if (p_.bias) {
      Add(ATTEST_ROLE_DBIAS, p_.bias->shape, p_.BiasDType(), {4 - p_.bias->rank, p_.bias->rank});
    }
    if (p_.sinks) AddSinkGradient();
  }

  OwnedTensor* Find(int32_t role) {
    for (size_t n = 0; n < arguments_.size(); ++n) {
      if (arguments_[n].role == role) return &tensors_[n];
    }
    return nullptr;
  }

  Array Read(int32_t role) {
    OwnedTensor* tensor = Find(role);
    if (tensor == nullptr) return {};
    Array values(tensor->shape());
    ForEachIndex(tensor->shape(), [&](const Shape4& at) {
      values.At(at[0], at[1], at[2], at[3]) = tensor->Get(at);
    });
    return values;
  }

  // out or lse, in the problem's own shape.
  Array ReadRows(int32_t role, const Shape4& shape) {
    if (!is_packed()) return Read(role);
    OwnedTensor& tensor = *Find(role);
    Array values(shape);
    ForEachPackedRow([&](int64_t b, int64_t i, int64_t position) {
      ForEachIndex({1, shape[1], 1, shape[3]}, [&](const Shape4& at) {
        values.At(b, at[1], i, at[3]) =
            tensor.Get(role == ATTEST_ROLE_LSE ? Shape4{at[1], position, 0, 0}
                                               : Shape4{position, at[1], at[3], 0});
      });
    });
    return values;
  }

  // dk or dv, in the problem's own shape; 0 of keys that reach no kernel.
  Array ReadKeys(int32_t role, const Shape4& shape) {
    if (!is_packed()) return Read(role);
    OwnedTensor& tensor = *Find(role);
    Array values(shape);
    ForEachIndex(shape, [&](const Shape4& at) {
      const auto place = places_.Find(at[0], at[2]);
      if (!place) return;
      values.At(at[0], at[1], at[2], at[3]) = tensor.Get({place->position, at[1], at[3], 0});
    });
    return values;
  }

  const Problem& p_;
  const DirectForm form_;
  const KeyPlaces places_;
  std::deque<OwnedTensor> tensors_;  // a deque never moves its elements
  std::vector<attest_argument> arguments_;
  std::vector<attest_option> options_;
};

}  // namespace

tl::expected<DirectKernel, std::string> DirectKernel::Create(
    const attest_kernel_table* table,
    const std::vector<std::pair<std::string, std::string>>& options, int threads) {
  std::vector<attest_string_pair> pairs;
  for (const auto& [key, value] : options) pairs.push_back({key.c_str(), value.c_str()});
  std::array<char, 256> message{};
  attest_create_info info{};
  info.struct_size = sizeof(info);
  info.threads = threads;
  info.num_options = static_cast<uint32_t>(pairs.size());
  info.options = pairs.data();
  info.message = message.data();
  info.message_size = message.size();
  void* kernel = nullptr;
  if (table->create(&info, &kernel) != ATTEST_OK) {
    return tl::unexpected<std::string>(message.data());
  }
  return DirectKernel(table, kernel);
}

DirectKernel::DirectKernel(DirectKernel&& other) noexcept
    : table_(std::exchange(other.table_, nullptr)),
      kernel_(std::exchange(other.kernel_, nullptr)) {}

DirectKernel::~DirectKernel() {
  if (table_ != nullptr) table_->destroy(kernel_);
}

std::string DirectKernel::Contract() const {
  return table_->contract(kernel_);
}

DirectResult DirectKernel::Run(const Problem& problem, const Inputs& inputs,
                               const DirectForm& form) const {
  return DirectCall(problem, inputs, form).Run(*table_, kernel_);
}

}  // namespace attest
