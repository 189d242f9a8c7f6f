#include "impl/reference/plugin/reference_kernel.h"

#include <limits>
#include <string>

#include "impl/abi/kernel_table.h"
#include "impl/reference/reference.h"

namespace attest {
namespace {

template <typename Visitor>
void ForEachIndex(const Shape4& shape, Visitor&& visit) {
  for (int64_t a = 0; a < shape[0]; ++a)
    for (int64_t b = 0; b < shape[1]; ++b)
      for (int64_t c = 0; c < shape[2]; ++c)
        for (int64_t d = 0; d < shape[3]; ++d) visit(a, b, c, d);
}

const void* ElementOf(const TensorView& view, DType dtype, int64_t a, int64_t b, int64_t c,
                      int64_t d) {
  const auto size = static_cast<int64_t>(ByteSize(dtype));
  return static_cast<const char*>(view.data) + size * (a * view.strides[0] + b * view.strides[1] +
                                                       c * view.strides[2] + d * view.strides[3]);
}

Array Load(const TensorView& view, DType dtype) {
  Array array(view.shape);
  ForEachIndex(view.shape, [&](int64_t a, int64_t b, int64_t c, int64_t d) {
    array.At(a, b, c, d) = LoadElement(dtype, ElementOf(view, dtype, a, b, c, d));
  });
  return array;
}

void Store(const Array& array, DType dtype, const TensorView& view) {
  ForEachIndex(view.shape, [&](int64_t a, int64_t b, int64_t c, int64_t d) {
    void* target = const_cast<void*>(ElementOf(view, dtype, a, b, c, d));
    StoreElement(dtype, target, array.At(a, b, c, d));
  });
}

// The plane of a mask or bias, broadcast to its full shape: 1 where `attends` holds.
template <typename Attends>
BitPlane PlaneOf(const Array& values, Attends&& attends) {
  BitPlane plane;
  plane.shape = values.shape;
  for (const double value : values.values) plane.bits.push_back(attends(value) ? 1 : 0);
  return plane;
}

Problem ProblemOf(const CallView& call, const Array& bias) {
  Problem p;
  p.batch = call.batch;
  p.q_heads = call.q_heads;
  p.kv_heads = call.kv_heads;
  p.q_len = call.q_len;
  p.kv_len = call.kv_len;
  p.head_dim = call.head_dim;
  p.value_dim = call.value_dim;
  p.dtype = call.dtype;
  p.scale = call.scale;
  p.diagonal_offset = call.diagonal_offset.value_or(std::vector<int64_t>{});
  p.causal = call.causal;
  p.window = {call.window_left, call.window_right};
  p.key_lengths = call.key_lengths;
  if (call.mask) {
    p.mask = PlaneOf(Load(*call.mask, DType::kBool), [](double value) { return value != 0; });
  }
  if (call.bias) {
    p.bias = PlaneOf(
        bias, [](double value) { return value != -std::numeric_limits<double>::infinity(); });
  }
  p.want_lse = call.lse.has_value();
  p.want_weights = call.weights.has_value();
  return p;
}

class ReferenceKernel {
 public:
  static constexpr const char* kName = "reference";
  static constexpr const char* kVersion = "1";

  static tl::expected<ReferenceKernel, std::string> Create(const CreateOptions& options) {
    if (auto ok = RefuseOthers(options, {}); !ok) return tl::unexpected(ok.error());
    return ReferenceKernel();
  }

  // Not hidden_values: ComputeReference sums in another order where any value, hidden or not, is
  // not finite, which moves the last bits of an f64 result.
  std::string Contract() const {
    return R"({
      "contract": "attest-1",
      "bits_invariant": ["hidden_values", "batch", "heads", "layout", "mask_form", "threads", "rerun"],
      "min_alignment": 1
    })";
  }

  tl::expected<void, CallError> Forward(const CallView& call) const {
    Inputs inputs{Load(call.q, call.dtype), Load(call.k, call.dtype), Load(call.v, call.dtype), {}};
    if (call.bias) inputs.bias = Load(*call.bias, call.dtype);
    const Problem problem = ProblemOf(call, inputs.bias);
    if (const auto error = Validate(problem)) {
      return tl::unexpected(CallError{ATTEST_INVALID_ARGUMENT, *error});
    }
    const Reference result =
        ComputeReference(problem, inputs, {EmptyRow::kZero, LseEmptyRow::kMinusInf});
    Store(result.out, call.dtype, call.out);
    if (call.lse) Store(result.lse, problem.LseDType(), *call.lse);
    if (call.weights) Store(result.weights, call.dtype, *call.weights);
    return {};
  }
};

}  // namespace

const attest_kernel_table* ReferenceKernelTable() {
  return KernelTable<ReferenceKernel>();
}

}  // namespace attest
