// Multi-head attention: tokens are projected to queries, keys and values, rotated where the model
// has RoPE, attended head by head, merged and projected again. The attention proper is
// Pass::attend's.
#ifndef ATTEST_TRANSFORMER_MULTI_HEAD_H_
#define ATTEST_TRANSFORMER_MULTI_HEAD_H_

#include <cmath>
#include <utility>

#include "impl/transformer/layers.h"
#include "impl/transformer/pass.h"
#include "impl/transformer/positions.h"

namespace attest::transformer {

template <typename T>
struct MultiHead {
  Linear<T> q, k, v;  // [dim, heads * head_dim], and twice [dim, kv_heads * head_dim]
  Linear<T> qkv;      // the three side by side instead, of a packed self-attention
  Linear<T> o;        // [heads * head_dim, dim]
};

template <typename T>
struct Projected {
  Matrix<T> q, k, v;
};

// Queries of the tokens x, keys and values of the tokens `source`, which is x but in
// cross-attention.
template <typename T>
Projected<T> Project(const MultiHead<T>& layer, const Config& config, const Matrix<T>& x,
                     const Matrix<T>& source) {
  if (layer.qkv.weight.size() == 0) {
    return {Forward(layer.q, x), Forward(layer.k, source), Forward(layer.v, source)};
  }
  const Matrix<T> all = Forward(layer.qkv, x);
  return {all.leftCols(config.dim), all.middleCols(config.dim, config.kv_dim()),
          all.rightCols(config.kv_dim())};
}

template <typename T>
void RotateAll(const Pass<T>& pass, const Sight& sight, Projected<T>& p) {
  const Config& config = pass.config;
  if (!config.rope() || sight.cross) return;
  const bool interleaved =
      (config.positions == Positions::kRopeInterleaved) != pass.StepFault(Fault::kRopePairingMixed);
  Rotate(p.q, config.head_dim(), sight.query_positions, interleaved);
  if (!pass.StepFault(Fault::kRopeForgetsKeys)) {
    Rotate(p.k, config.head_dim(), sight.key_positions, interleaved);
  }
  if (config.fault == Fault::kRopeOnValues) {
    Rotate(p.v, config.head_dim(), sight.key_positions, interleaved);
  }
}

// Component c of head h taken from place c * heads + h.
template <typename T>
Matrix<T> Interleaved(const Matrix<T>& x, int64_t heads) {
  Matrix<T> y(x.rows(), x.cols());
  const int64_t n = x.cols() / heads;
  for (int64_t c = 0; c < x.cols(); ++c) y.col(c) = x.col(c % n * heads + c / n);
  return y;
}

template <typename T>
double ScaleOf(const Pass<T>& pass) {
  if (pass.StepFault(Fault::kScaleMissing)) return 1;
  const bool of_model = pass.StepFault(Fault::kScaleOfModelDim);
  return 1 / std::sqrt(static_cast<double>(of_model ? pass.config.dim : pass.config.head_dim()));
}

// What rows see: of the keys of this very batch, or of a cache.
template <typename T>
Visibility VisibilityOf(const Pass<T>& pass, const Sight& sight) {
  Visibility visible;
  visible.causal = sight.causal || (sight.cross && pass.StepFault(Fault::kCrossAttentionCausal));
  visible.window = sight.cross ? 0 : pass.config.window;
  visible.fault = pass.config.fault;
  if (visible.fault == Fault::kDiagonalStrict && !pass.in_step) visible.fault = Fault::kNone;
  if (sight.cross && visible.fault == Fault::kCrossPaddingVisible) {
    visible.fault = Fault::kPaddingVisible;
  }
  visible.q_len = sight.queries.len;
  visible.kv_len = sight.keys.len;
  visible.key_begin = sight.keys.begin;
  visible.key_end = sight.keys.end;
  visible.offset.assign(sight.keys.begin.size(), 0);
  if (!sight.cross) {
    visible.query_documents = sight.queries.documents;
    visible.key_documents = sight.keys.documents;
  }
  for (int64_t b = 0; b < sight.queries.batch; ++b) {
    const auto item = static_cast<size_t>(b);
    if (sight.cross) {
      visible.offset[item] =
          sight.keys.Begin(b) - sight.queries.Begin(b);  // only a fault asks for it
    } else if (pass.cache != nullptr) {
      const int64_t first = pass.cache->FirstEntry(b);
      visible.key_begin[item] = 0;
      visible.key_end[item] = pass.cache->count()[item] - first;
      visible.offset[item] = pass.cache->before()[item] - sight.queries.Begin(b) - first;
    }
  }
  return visible;
}

// The task of a layer; it borrows `p`, whose keys and values are in the cache by then.
template <typename T>
AttentionTask<T> TaskOf(const Pass<T>& pass, const Sight& sight, int64_t layer,
                        const Projected<T>& p) {
  const Config& config = pass.config;
  AttentionTask<T> task;
  task.batch = sight.queries.batch;
  task.q_len = sight.queries.len;
  task.heads = config.heads;
  task.kv_heads = config.kv_heads;
  task.head_dim = config.head_dim();
  task.q = &p.q;
  task.scale = ScaleOf(pass);
  task.visible = VisibilityOf(pass, sight);
  if (pass.cache != nullptr && !sight.cross) {
    task.kv = pass.cache->Rows(layer);
  } else {
    task.kv.k = p.k.data();
    task.kv.v = p.v.data();
    task.kv.len = task.kv.item_rows = sight.keys.len;
    task.kv.rows = sight.keys.rows();
  }
  if (config.positions == Positions::kAlibi && !sight.cross) {
    task.slopes = AlibiSlopes(config.heads);
    task.alibi_offset = task.visible.offset;
    if (pass.StepFault(Fault::kAlibiTopLeft)) task.alibi_offset.assign(task.alibi_offset.size(), 0);
  }
  return task;
}

// The attended heads side by side, [tokens, heads * head_dim]: what Wo multiplies.
template <typename T>
Matrix<T> Merged(Pass<T>& pass, const AttentionTask<T>& task) {
  Matrix<T> merged;
  if (auto done = pass.attend(task, merged); !done) {
    if (!pass.error) pass.error = done.error();
    merged = Matrix<T>::Zero(task.batch * task.q_len, task.heads * task.head_dim);
  }
  return merged;
}

template <typename T>
AttentionGradients<T> AttendedBackward(Pass<T>& pass, const AttentionTask<T>& task,
                                       const Matrix<T>& dmerged) {
  auto gradients = pass.attend_backward(task, dmerged);
  if (gradients) return std::move(*gradients);
  if (!pass.error) pass.error = gradients.error();
  return ZeroGradients(task);
}

template <typename T>
Matrix<T> ProjectOut(const MultiHead<T>& layer, const Pass<T>& pass, const Matrix<T>& merged) {
  if (!pass.StepFault(Fault::kProjectedBeforeMerge)) return Forward(layer.o, merged);
  Linear<T> first = layer.o;
  const int64_t n = pass.config.head_dim();
  for (int64_t r = 0; r < first.weight.rows(); ++r) {
    first.weight.row(r) = layer.o.weight.row(r % n);
  }
  return Forward(first, merged);
}

// x [tokens, dim] attends `source`, which is x itself but in cross-attention. `layer_index` is the
// cache's.
template <typename T>
Matrix<T> Forward(const MultiHead<T>& layer, Pass<T>& pass, const Sight& sight, int64_t layer_index,
                  const Matrix<T>& x, const Matrix<T>& source) {
  Projected<T> p = Project(layer, pass.config, x, source);
  RotateAll(pass, sight, p);
  if (pass.StepFault(Fault::kHeadsSplitWrongly)) p.q = Interleaved(p.q, pass.config.heads);
  if (pass.cache != nullptr && !sight.cross) {
    pass.cache->Write(layer_index, sight.queries, p.k, p.v);
  }
  Matrix<T> merged = Merged(pass, TaskOf(pass, sight, layer_index, p));
  if (pass.StepFault(Fault::kHeadsMergedWrongly)) merged = Interleaved(merged, pass.config.heads);
  return ProjectOut(layer, pass, merged);
}

// Gradients of x and of source, of a pass without a cache; of self-attention they are one, the
// first.
template <typename T>
std::pair<Matrix<T>, Matrix<T>> Backward(const MultiHead<T>& layer, Pass<T>& pass,
                                         const Sight& sight, const Matrix<T>& x,
                                         const Matrix<T>& source, const Matrix<T>& dy,
                                         MultiHead<T>& gradient) {
  const Config& config = pass.config;
  Projected<T> p = Project(layer, config, x, source);
  RotateAll(pass, sight, p);
  const AttentionTask<T> task = TaskOf(pass, sight, 0, p);
  const Matrix<T> dmerged = Backward(layer.o, Merged(pass, task), dy, gradient.o);
  AttentionGradients<T> d = AttendedBackward(pass, task, dmerged);
  if (config.rope() && !sight.cross) {
    const bool interleaved = config.positions == Positions::kRopeInterleaved;
    Rotate(d.q, config.head_dim(), sight.query_positions, interleaved, /*forward=*/false);
    Rotate(d.k, config.head_dim(), sight.key_positions, interleaved, /*forward=*/false);
  }
  if (layer.qkv.weight.size() != 0) {
    Matrix<T> all(x.rows(), config.dim + 2 * config.kv_dim());
    all << d.q, d.k, d.v;
    return {Backward(layer.qkv, x, all, gradient.qkv), {}};
  }
  Matrix<T> dx = Backward(layer.q, x, d.q, gradient.q);
  Matrix<T> dsource = Backward(layer.k, source, d.k, gradient.k);
  dsource += Backward(layer.v, source, d.v, gradient.v);
  if (!sight.cross) return {dx + dsource, {}};
  return {std::move(dx), std::move(dsource)};
}

}  // namespace attest::transformer

#endif  // ATTEST_TRANSFORMER_MULTI_HEAD_H_
