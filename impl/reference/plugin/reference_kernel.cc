#include "impl/reference/plugin/reference_kernel.h"

#include <limits>
#include <string>

#include "impl/abi/input_rows.h"
#include "impl/abi/kernel_table.h"
#include "impl/reference/gradient.h"
#include "impl/reference/plugin/emulation.h"
#include "impl/reference/reference.h"

namespace attest {
namespace {

// What this kernel follows wherever conventions differ, and what it declares.
struct Conventions {
  std::optional<Emulation> emulation;  // with it the rest is as it says
  Semantics semantics{EmptyRow::kZero, LseEmptyRow::kMinusInf, SoftcapOrder::kBeforeBias};
  std::string contract = R"({
      "contract": "attest-1",
      "bits_invariant": ["hidden_values", "batch", "heads", "layout", "mask_form", "threads", "rerun"],
      "backward": ["causal", "window", "key_lengths", "mask", "bias", "mask_with_bias", "gqa",
                   "value_dim", "zero_sizes", "mask_broadcast", "mask_key_broadcast", "mask_ranks",
                   "bias_f32", "query_lengths", "prefix_lengths", "documents", "block_mask",
                   "softcap", "alibi", "sinks", "dropout", "packed", "dbias", "dsink"],
      "min_alignment": 1
    })";
};

template <typename Visitor>
void ForEachIndex(const Shape4& shape, Visitor&& visit) {
  for (int64_t a = 0; a < shape[0]; ++a)
    for (int64_t b = 0; b < shape[1]; ++b)
      for (int64_t c = 0; c < shape[2]; ++c)
        for (int64_t d = 0; d < shape[3]; ++d) visit(a, b, c, d);
}

template <typename T>
Array Load(const TensorView& view) {
  Array array(view.shape);
  ForEachIndex(view.shape, [&](int64_t a, int64_t b, int64_t c, int64_t d) {
    array.At(a, b, c, d) = static_cast<double>(view.At<const T>(a, b, c, d));
  });
  return array;
}

Array LoadFloats(const TensorView& view, DType dtype) {
  Array array;
  WithFloatType(dtype, [&](auto zero) { array = Load<decltype(zero)>(view); });
  return array;
}

// read(b, h, position, target) for each of the `count(b)` rows that there are; 0 in the others,
// which are hidden or unasked for.
template <typename Count, typename Read>
Array LoadRows(const Shape4& shape, Count&& count, Read&& read) {
  Array array(shape);
  for (int64_t b = 0; b < shape[0]; ++b)
    for (int64_t h = 0; h < shape[1]; ++h)
      for (int64_t n = 0; n < count(b); ++n)
        read(b, h, n, array.values.data() + array.Index(b, h, n, 0));
  return array;
}

// 8-bit values times their scale are doubles, whatever the call's element type.
Inputs InputsOf(const CallView& call, const Problem& p) {
  const auto keys = [&](int64_t b) { return call.StoredKeys(b); };
  const auto rows = [&](int64_t b) { return call.StoredRows(b); };
  Inputs inputs;
  const auto load = [&](const auto& reader) {
    // The reader gives its accumulator type, which every element fits exactly.
    using A = typename std::decay_t<decltype(reader)>::A;
    std::vector<A> row(static_cast<size_t>(std::max(p.head_dim, p.value_dim)));
    const auto copy = [&](int64_t dim, double* target) { std::copy_n(row.begin(), dim, target); };
    inputs.q = LoadRows(p.QShape(), rows, [&](int64_t b, int64_t h, int64_t i, double* target) {
      reader.Query(b, h, i, row.data());
      copy(p.head_dim, target);
    });
    inputs.k = LoadRows(p.KShape(), keys, [&](int64_t b, int64_t h, int64_t j, double* target) {
      reader.Key(b, h, j, row.data());
      copy(p.head_dim, target);
    });
    inputs.v = LoadRows(p.VShape(), keys, [&](int64_t b, int64_t h, int64_t j, double* target) {
      reader.Value(b, h, j, row.data());
      copy(p.value_dim, target);
    });
  };
  if (call.fp8) {
    load(InputRows<double>(call));
  } else {
    WithFloatType(call.dtype, [&](auto zero) { load(InputRows<decltype(zero)>(call)); });
  }
  if (call.bias) inputs.bias = LoadFloats(*call.bias, call.bias_dtype);
  return inputs;
}

Array DoutOf(const CallView& call, const Problem& p) {
  Array dout;
  WithFloatType(call.dtype, [&](auto zero) {
    using T = decltype(zero);
    dout = LoadRows(
        p.OutShape(), [&](int64_t b) { return call.StoredRows(b); },
        [&](int64_t b, int64_t h, int64_t i, double* target) {
          const RowSpan<const T> row = call.DoutAt<T>(b, h, i);
          for (int64_t d = 0; d < p.value_dim; ++d) target[d] = static_cast<double>(row[d]);
        });
  });
  return dout;
}

// The plane of a mask or bias, broadcast to its full shape: 1 where `attends` holds.
template <typename Attends>
BitPlane PlaneOf(const Array& values, Attends&& attends) {
  BitPlane plane;
  plane.shape = values.shape;
  for (const double value : values.values) plane.bits.push_back(attends(value) ? 1 : 0);
  return plane;
}

BitPlane BitsOf(const TensorView& view) {
  return PlaneOf(Load<uint8_t>(view), [](double value) { return value != 0; });
}

void SetSizes(const CallView& call, Problem& p) {
  p.batch = call.batch;
  p.q_heads = call.q_heads;
  p.kv_heads = call.kv_heads;
  p.q_len = call.q_len;
  p.kv_len = call.kv_len;
  p.head_dim = call.head_dim;
  p.value_dim = call.value_dim;
  p.dtype = call.dtype;
  if (call.fp8) p.fp8 = Fp8{*call.fp8, call.q_scale, call.k_scale, call.v_scale};
  if (call.bias_dtype != call.dtype) p.bias_dtype = call.bias_dtype;
}

void SetVisibility(const CallView& call, Problem& p) {
  p.diagonal_offset = call.diagonal_offset.value_or(std::vector<int64_t>{});
  p.causal = call.causal;
  p.window = {call.window_left, call.window_right};
  p.key_lengths = call.key_lengths;
  p.query_lengths = call.query_lengths;
  p.prefix_lengths = call.prefix_lengths;
  if (call.documents) p.documents = Documents{call.documents->query, call.documents->key};
  if (call.block_mask) {
    p.block_mask = BlockMask{call.block_mask->block_q, call.block_mask->block_k,
                             BitsOf(call.block_mask->bits)};
  }
  if (call.mask) p.mask = BitsOf(*call.mask);
  if (call.bias) {
    p.bias = PlaneOf(LoadFloats(*call.bias, call.bias_dtype), [](double value) {
      return value != -std::numeric_limits<double>::infinity();
    });
  }
}

Problem ProblemOf(const CallView& call) {
  Problem p;
  SetSizes(call, p);
  SetVisibility(call, p);
  p.scale = call.scale;
  p.softcap = call.softcap;
  p.alibi_slopes = call.alibi_slopes;
  p.sinks = call.sinks;
  if (call.dropout) p.dropout = Dropout{call.dropout->probability, BitsOf(call.dropout->keep)};
  p.want_lse = call.lse.has_value();
  p.want_weights = call.weights.has_value();
  if (call.scores) p.want_scores = static_cast<ScoreMode>(call.score_mode);
  return p;
}

// Rounds to nearest, once.
template <typename T>
void StorePlane(const Array& array, DType dtype, const TensorView& view) {
  ForEachIndex(view.shape, [&](int64_t a, int64_t b, int64_t c, int64_t d) {
    StoreElement(dtype, view.Pointer<T>(a, b, c, d), array.At(a, b, c, d));
  });
}

// `to(b, h, n)` is the place of row n, of which there are so many in item b.
template <typename T, typename Count, typename To>
void StoreRows(const Array& array, DType dtype, Count&& count, To&& to) {
  for (int64_t b = 0; b < array.shape[0]; ++b)
    for (int64_t h = 0; h < array.shape[1]; ++h)
      for (int64_t n = 0; n < count(b); ++n) {
        const RowSpan<T> row = to(b, h, n);
        for (int64_t d = 0; d < array.shape[3]; ++d) {
          StoreElement(dtype, &row[d], array.At(b, h, n, d));
        }
      }
}

template <typename T>
void StoreGradients(const Gradient& gradient, const CallView& call) {
  const auto rows = [&](int64_t b) { return call.StoredRows(b); };
  const auto keys = [&](int64_t b) { return call.StoredKeys(b); };
  StoreRows<T>(gradient.dq, call.dtype, rows,
               [&](int64_t b, int64_t h, int64_t i) { return call.DqAt<T>(b, h, i); });
  StoreRows<T>(gradient.dk, call.dtype, keys,
               [&](int64_t b, int64_t h, int64_t j) { return call.DkAt<T>(b, h, j); });
  StoreRows<T>(gradient.dv, call.dtype, keys,
               [&](int64_t b, int64_t h, int64_t j) { return call.DvAt<T>(b, h, j); });
}

// The bias of the problem was broadcast to its full shape (see PlaneOf), and so was its gradient.
Array Gathered(const Array& full, const Shape4& shape) {
  Array sums(shape);
  ForEachIndex(full.shape, [&](int64_t a, int64_t b, int64_t c, int64_t d) {
    sums.At(shape[0] == 1 ? 0 : a, shape[1] == 1 ? 0 : b, shape[2] == 1 ? 0 : c,
            shape[3] == 1 ? 0 : d) += full.At(a, b, c, d);
  });
  return sums;
}

void StoreOtherGradients(const Gradient& gradient, const CallView& call) {
  if (call.gradients->dbias) {
    const TensorView& view = *call.gradients->dbias;
    const Array sums = Gathered(gradient.dbias, view.shape);
    WithFloatType(call.bias_dtype,
                  [&](auto zero) { StorePlane<decltype(zero)>(sums, call.bias_dtype, view); });
  }
  for (int64_t h = 0; call.gradients->dsink && h < call.q_heads; ++h) {
    const DType type = call.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
    WithFloatType(type, [&](auto zero) {
      StoreElement(type, call.gradients->dsink->Pointer<decltype(zero)>(h, 0, 0, 0),
                   gradient.dsink.At(0, h, 0, 0));
    });
  }
}

// T stores call.dtype.
template <typename T>
void Store(const Reference& result, const CallView& call) {
  using A = AccumulatorOf<T>;
  for (int64_t b = 0; b < call.batch; ++b) {
    for (int64_t h = 0; h < call.q_heads; ++h) {
      for (int64_t i = 0; i < call.StoredRows(b); ++i) {
        const RowSpan<T> out = call.OutAt<T>(b, h, i);
        for (int64_t c = 0; c < call.value_dim; ++c) {
          StoreElement(call.dtype, &out[c], result.out.At(b, h, i, c));
        }
        if (call.lse) call.LseAt<A>(b, h, i) = static_cast<A>(result.lse.At(b, h, i, 0));
      }
    }
  }
  if (call.weights) StorePlane<T>(result.weights, call.dtype, *call.weights);
  if (call.scores) StorePlane<T>(result.asked_scores, call.dtype, *call.scores);
  WritePresent<T>(call);
}

// Conventions by ?contract=NAME, else the canonical ones.
tl::expected<Conventions, std::string> ConventionsOf(const CreateOptions& options) {
  Conventions conventions;
  const auto named = options.values.find("contract");
  if (named == options.values.end()) return conventions;
  auto emulation = Emulation::Of(named->second);
  if (!emulation) return tl::unexpected(emulation.error());
  conventions.emulation = std::move(*emulation);
  conventions.contract = R"({"contract": ")" + named->second + R"("})";
  return conventions;
}

class ReferenceKernel {
 public:
  static constexpr const char* kName = "reference";
  static constexpr const char* kVersion = "1";

  static tl::expected<ReferenceKernel, std::string> Create(const CreateOptions& options) {
    if (auto ok = RefuseOthers(options, {"contract"}); !ok) return tl::unexpected(ok.error());
    auto conventions = ConventionsOf(options);
    if (!conventions) return tl::unexpected(conventions.error());
    ReferenceKernel kernel;
    kernel.conventions_ = std::move(*conventions);
    return kernel;
  }

  std::string Contract() const { return conventions_.contract; }

  tl::expected<void, CallError> Forward(const CallView& call) const {
    const std::optional<Emulation>& emulation = conventions_.emulation;
    if (emulation) {
      if (auto refusal = emulation->WhyRefused(call)) return tl::unexpected(*refusal);
    }
    Problem problem = ProblemOf(call);
    if (emulation) emulation->Canonicalise(call, problem);
    if (const auto error = Validate(problem)) {
      return tl::unexpected(CallError{ATTEST_INVALID_ARGUMENT, *error});
    }
    const Inputs inputs = InputsOf(call, problem);
    const Reference result = emulation ? emulation->Compute(problem, inputs)
                                       : ComputeReference(problem, inputs, conventions_.semantics);
    WithFloatType(call.dtype, [&](auto zero) { Store<decltype(zero)>(result, call); });
    return {};
  }

  // Out and lse are computed anew, unrounded.
  tl::expected<void, CallError> Backward(const CallView& call) const {
    if (conventions_.emulation) {
      return tl::unexpected(CallError{ATTEST_UNSUPPORTED, "no backward pass of that contract"});
    }
    const Problem problem = ProblemOf(call);
    if (const auto error = Validate(problem)) {
      return tl::unexpected(CallError{ATTEST_INVALID_ARGUMENT, *error});
    }
    Inputs inputs = InputsOf(call, problem);
    inputs.dout = DoutOf(call, problem);
    const Reference reference = ComputeReference(problem, inputs, conventions_.semantics);
    const Gradient gradient = ComputeGradient(problem, inputs, reference, conventions_.semantics);
    WithFloatType(call.dtype, [&](auto zero) { StoreGradients<decltype(zero)>(gradient, call); });
    StoreOtherGradients(gradient, call);
    return {};
  }

 private:
  Conventions conventions_;
};

}  // namespace

const attest_kernel_table* ReferenceKernelTable() {
  return KernelTable<ReferenceKernel>();
}

}  // namespace attest
