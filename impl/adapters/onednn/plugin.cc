// The plug-in attest_kernel_onednn.so: attention as oneDNN's primitives make it, a matmul with the
// scale and the bias as attribute and post-op, a softmax, a matmul. oneDNN 2.6 has no attention
// primitive of its own. Whatever it gets wrong is a finding; nothing here mends or avoids anything.
#include <omp.h>

#include <array>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <tl/expected.hpp>
#include <unordered_map>
#include <utility>

#include "impl/abi/call_view.h"
#include "impl/abi/kernel_table.h"

namespace attest {
namespace {

using dnnl::memory;

// What the developer guide of oneDNN 2.6 states (dev_guide_matmul, dev_guide_softmax):
// - matmul: f32 from f32; f32 or bf16 from bf16, summed in f32. Leading axes are batch axes, of which
//   one that is 1 on one side is broadcast (here the query heads that share a key head). Plain formats
//   without gaps.
// - output scales multiply the result, a binary post-op adds a tensor to it.
// - softmax_accurate: exp(x - max) over its sum. What it makes of a row of -inf is not stated, nor
//   what zero extents, hidden NaN or infinities, or other bits on a rerun.
// The bias is added in the type it comes in; bf16 weights are rounded to bf16, which is the default.
constexpr const char* kContract = R"({
  "empty_row": "unspecified",
  "lse": "none",
  "features": ["bias", "gqa", "value_dim", "weights"],
  "dtypes": ["f32", "bf16"],
  "layouts": ["bhsd", "bshd"],
  "strides": "dense",
  "options": {"variant": ["composed"]}
})";

// Five axes, [batch, kv_heads, query heads of one, rows, columns].
using Axes = std::array<int64_t, 5>;

memory::data_type TypeOf(DType dtype) {
  return dtype == DType::kBF16 ? memory::data_type::bf16 : memory::data_type::f32;
}

// An axis of one element may have any stride in a call; oneDNN is given that of a dense tensor.
memory::desc Describe(DType dtype, const Axes& extents, Axes strides) {
  for (size_t axis = strides.size(); axis-- > 0;) {
    if (extents[axis] != 1) continue;
    strides[axis] = axis + 1 == strides.size() ? 1 : strides[axis + 1] * extents[axis + 1];
  }
  return {{extents.begin(), extents.end()}, TypeOf(dtype), {strides.begin(), strides.end()}};
}

// A tensor of the call whose heads are groups of `group` (1: key heads).
memory::desc DescribeView(DType dtype, const TensorView& view, int64_t group) {
  const auto& [batch, heads, rows, columns] = view.shape;
  const auto& [at_batch, at_head, at_row, at_column] = view.strides;
  return Describe(dtype, {batch, heads / group, group, rows, columns},
                  {at_batch, at_head * group, at_head, at_row, at_column});
}

memory::desc Transposed(const memory::desc& desc) {
  return desc.permute_axes({0, 1, 2, 4, 3});
}

// Plain primitives on the call's own memory, in order.
class Composition {
 public:
  explicit Composition(const CallView& call) : call_(call), group_(call.q_heads / call.kv_heads) {}

  void Run() {
    memory scores({ScoresDesc(DType::kF32), engine_});
    memory weights =
        call_.weights ? Wrap(*call_.weights, group_) : memory(ScoresDesc(call_.dtype), engine_);
    ComputeScores(scores);
    Softmax(scores, weights);
    Multiply(weights, Wrap(call_.v, 1), Wrap(call_.out, group_), {}, {});
    stream_.wait();
  }

 private:
  using Arguments = std::unordered_map<int, memory>;

  memory::desc ScoresDesc(DType dtype) const {
    const int64_t plane = call_.q_len * call_.kv_len;
    return Describe(dtype, {call_.batch, call_.kv_heads, group_, call_.q_len, call_.kv_len},
                    {call_.q_heads * plane, group_ * plane, plane, call_.kv_len, 1});
  }
  memory Wrap(const TensorView& view, int64_t group) {
    return {DescribeView(call_.dtype, view, group), engine_, view.data};
  }

  void ComputeScores(const memory& scores) {
    dnnl::primitive_attr attributes;
    attributes.set_output_scales(0, {static_cast<float>(call_.scale)});
    Arguments more;
    if (call_.bias) {
      const memory bias = Wrap(*call_.bias, group_);
      dnnl::post_ops after;
      after.append_binary(dnnl::algorithm::binary_add, bias.get_desc());
      attributes.set_post_ops(after);
      more[DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1] = bias;
    }
    const memory k = Wrap(call_.k, 1);
    const memory k_transposed(Transposed(k.get_desc()), engine_, k.get_data_handle());
    Multiply(Wrap(call_.q, group_), k_transposed, scores, attributes, std::move(more));
  }

  void Multiply(const memory& a, const memory& b, const memory& product,
                const dnnl::primitive_attr& attributes, Arguments arguments) {
    const dnnl::matmul::primitive_desc plan({a.get_desc(), b.get_desc(), product.get_desc()},
                                            attributes, engine_);
    arguments[DNNL_ARG_SRC] = a;
    arguments[DNNL_ARG_WEIGHTS] = b;
    arguments[DNNL_ARG_DST] = product;
    dnnl::matmul(plan).execute(stream_, arguments);
  }

  void Softmax(const memory& scores, const memory& weights) {
    const dnnl::softmax_v2_forward::primitive_desc plan(
        {dnnl::prop_kind::forward_inference, dnnl::algorithm::softmax_accurate, scores.get_desc(),
         weights.get_desc(), /*softmax_axis=*/4},
        engine_);
    dnnl::softmax_v2_forward(plan).execute(stream_,
                                           {{DNNL_ARG_SRC, scores}, {DNNL_ARG_DST, weights}});
  }

  const CallView& call_;
  const int64_t group_;  // query heads that share a key head
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
};

#define ATTEST_TEXT_OF(x) #x
#define ATTEST_TEXT(x) ATTEST_TEXT_OF(x)

class OneDnn {
 public:
  static constexpr const char* kName = "onednn";
  static constexpr const char* kVersion = ATTEST_TEXT(DNNL_VERSION_MAJOR) "." ATTEST_TEXT(
      DNNL_VERSION_MINOR) "." ATTEST_TEXT(DNNL_VERSION_PATCH);
  static constexpr CallPart kTakes[] = {ATTEST_ROLE_Q,      ATTEST_ROLE_K,       ATTEST_ROLE_V,
                                        ATTEST_ROLE_OUT,    ATTEST_ROLE_WEIGHTS, ATTEST_ROLE_BIAS,
                                        ATTEST_OPTION_SCALE};

  static tl::expected<OneDnn, std::string> Create(const CreateOptions& options) {
    const auto ok = RefuseOthers(options, {"variant"});
    if (!ok) return tl::unexpected(ok.error());
    const auto variant = options.values.find("variant");
    if (variant != options.values.end() && variant->second != "composed") {
      return tl::unexpected("unknown variant \"" + variant->second + "\": there is composed");
    }
    return OneDnn(options.threads);
  }

  std::string Contract() const { return kContract; }

  tl::expected<void, CallError> Forward(const CallView& call) const {
    if (call.dtype != DType::kF32 && call.dtype != DType::kBF16) {
      return tl::unexpected(CallError{ATTEST_UNSUPPORTED, "types are f32 and bf16"});
    }
    if (call.bias && call.bias_dtype != call.dtype) {
      return tl::unexpected(CallError{ATTEST_UNSUPPORTED, "the bias is of another type"});
    }
    for (int64_t extent :
         {call.batch, call.q_heads, call.q_len, call.kv_len, call.head_dim, call.value_dim}) {
      if (extent == 0) return tl::unexpected(CallError{ATTEST_UNSUPPORTED, "an extent is 0"});
    }
    if (threads_ > 0) omp_set_num_threads(threads_);  // of the calling thread
    Composition(call).Run();
    return {};
  }

 private:
  explicit OneDnn(int32_t threads) : threads_(threads) {}

  int32_t threads_;  // 0: as many as the runtime likes
};

}  // namespace
}  // namespace attest

const attest_kernel_table* attest_kernel(void) {
  return attest::KernelTable<attest::OneDnn>();
}
