#include "impl/abi/testing/promises.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "impl/abi/testing/expect.h"
#include "impl/abi/testing/random_problem.h"
#include "impl/attention/visibility.h"

namespace attest {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// A problem with its data.
struct Setup {
  Problem problem;
  Inputs inputs;
};

// Positions first .. first + count of one axis; other axes whole.
Array SliceOf(const Array& array, size_t axis, int64_t first, int64_t count) {
  Shape4 shape = array.shape;
  shape[axis] = count;
  Array slice(shape);
  for (int64_t a = 0; a < shape[0]; ++a)
    for (int64_t b = 0; b < shape[1]; ++b)
      for (int64_t c = 0; c < shape[2]; ++c)
        for (int64_t d = 0; d < shape[3]; ++d) {
          Shape4 from{a, b, c, d};
          from[axis] += first;
          slice.At(a, b, c, d) = array.At(from[0], from[1], from[2], from[3]);
        }
  return slice;
}

void SliceBits(BitPlane& plane, size_t axis, int64_t first, int64_t count) {
  Array values(plane.shape);
  std::copy(plane.bits.begin(), plane.bits.end(), values.values.begin());
  values = SliceOf(values, axis, first, count);
  plane.shape = values.shape;
  plane.bits.assign(values.values.begin(), values.values.end());
}

// The same of a mask; a broadcast axis stays as it is.
void SlicePlane(std::optional<BitPlane>& plane, size_t axis, int64_t first, int64_t count) {
  if (plane && plane->shape[axis] != 1) SliceBits(*plane, axis, first, count);
}

void SlicePlanes(Setup& setup, size_t axis, int64_t first, int64_t count) {
  Problem& p = setup.problem;
  if (p.bias && p.bias->shape[axis] != 1) {
    setup.inputs.bias = SliceOf(setup.inputs.bias, axis, first, count);
  }
  SlicePlane(p.mask, axis, first, count);
  SlicePlane(p.bias, axis, first, count);
  if (p.dropout) SliceBits(p.dropout->keep, axis, first, count);
}

// The same of a block mask along batch items or heads.
void SliceBlockMask(Setup& setup, size_t axis, int64_t index) {
  std::optional<BlockMask>& mask = setup.problem.block_mask;
  if (mask && mask->plane.shape[axis] != 1) SliceBits(mask->plane, axis, index, 1);
}

// Entries first .. first + count of each of the `batch` lists that `ids` has end to end.
void SliceIds(std::vector<int64_t>& ids, int64_t batch, int64_t first, int64_t count) {
  Array values({batch, batch == 0 ? 0 : static_cast<int64_t>(ids.size()) / batch, 1, 1});
  std::copy(ids.begin(), ids.end(), values.values.begin());
  values = SliceOf(values, 1, first, count);
  ids.assign(values.values.begin(), values.values.end());
}

// One entry of a list, as a list.
template <typename T>
void KeepOne(std::optional<std::vector<T>>& list, int64_t index) {
  if (list) list = {{(*list)[static_cast<size_t>(index)]}};
}

// The same visible keys without a block mask, so that rows and keys may be cut anywhere.
Setup BlocksAsMask(Setup setup) {
  Problem& p = setup.problem;
  if (!p.block_mask) return setup;
  p.mask = VisiblePlane(p);
  p.block_mask.reset();
  return setup;
}

Setup OneBatchItem(Setup setup, int64_t b) {
  Problem& p = setup.problem;
  SlicePlanes(setup, 0, b, 1);
  SliceBlockMask(setup, 0, b);
  for (Array* tensor : {&setup.inputs.q, &setup.inputs.k, &setup.inputs.v}) {
    *tensor = SliceOf(*tensor, 0, b, 1);
  }
  if (!p.diagonal_offset.empty()) p.diagonal_offset = {p.DiagonalOffset(b)};
  for (auto* lengths : {&p.key_lengths, &p.query_lengths, &p.prefix_lengths}) KeepOne(*lengths, b);
  if (p.documents) {
    SliceIds(p.documents->query, 1, b * p.q_len, p.q_len);
    SliceIds(p.documents->key, 1, b * p.kv_len, p.kv_len);
  }
  p.batch = 1;
  return setup;
}

// Query head h with the kv head that it reads.
Setup OneHead(Setup setup, int64_t h) {
  Problem& p = setup.problem;
  const int64_t kv_head = h / p.heads_per_kv_head();
  SlicePlanes(setup, 1, h, 1);
  SliceBlockMask(setup, 1, h);
  for (auto* numbers : {&p.alibi_slopes, &p.sinks}) KeepOne(*numbers, h);
  setup.inputs.q = SliceOf(setup.inputs.q, 1, h, 1);
  setup.inputs.k = SliceOf(setup.inputs.k, 1, kv_head, 1);
  setup.inputs.v = SliceOf(setup.inputs.v, 1, kv_head, 1);
  p.q_heads = p.kv_heads = 1;
  return setup;
}

Setup QueriesFrom(Setup setup, int64_t first) {
  Problem& p = setup.problem;
  const int64_t count = p.q_len - first;
  SlicePlanes(setup, 2, first, count);
  setup.inputs.q = SliceOf(setup.inputs.q, 2, first, count);
  p.diagonal_offset.resize(static_cast<size_t>(p.batch), 0);
  for (int64_t& offset : p.diagonal_offset) offset += first;
  if (p.documents) SliceIds(p.documents->query, p.batch, first, count);
  if (p.query_lengths) {
    for (int64_t& length : *p.query_lengths) length = std::max<int64_t>(length - first, 0);
  }
  p.q_len = count;
  return setup;
}

// The problem without its last `count` keys, which the original must hide from every row.
Setup WithoutLastKeys(Setup setup, int64_t count) {
  Problem& p = setup.problem;
  const int64_t kept = p.kv_len - count;
  SlicePlanes(setup, 3, 0, kept);
  setup.inputs.k = SliceOf(setup.inputs.k, 2, 0, kept);
  setup.inputs.v = SliceOf(setup.inputs.v, 2, 0, kept);
  if (p.documents) SliceIds(p.documents->key, p.batch, 0, kept);
  if (p.prefix_lengths) {
    for (int64_t& length : *p.prefix_lengths) length = std::min(length, kept);
  }
  p.kv_len = kept;
  return setup;
}

testing::AssertionResult Compare(const DirectResult& a, const DirectResult& b,
                                 const std::string& change) {
  if (SameBits(a, b)) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "bits moved: " << change << " " << a.message << b.message;
}

DirectResult SliceResult(DirectResult result, size_t axis, int64_t first, int64_t count) {
  for (Array* array : {&result.out, &result.lse, &result.weights, &result.scores}) {
    if (array->shape != Shape4{}) *array = SliceOf(*array, axis, first, count);
  }
  return result;
}

// NaN, or a large finite number, in one key position: rows that do not see it must not change.
testing::AssertionResult HiddenValues(const DirectKernel& kernel, const Setup& setup,
                                      std::mt19937_64& random) {
  const Problem& p = setup.problem;
  if (p.kv_len == 0) return testing::AssertionSuccess();
  const auto key = static_cast<int64_t>(random() % static_cast<uint64_t>(p.kv_len));
  const double poison = random() % 2 == 0 ? kNaN : 1000.0;
  Inputs poisoned = setup.inputs;
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t h = 0; h < p.kv_heads; ++h) {
      for (int64_t c = 0; c < p.head_dim; ++c) poisoned.k.At(b, h, key, c) = poison;
      for (int64_t c = 0; c < p.value_dim; ++c) poisoned.v.At(b, h, key, c) = poison;
    }
  }
  const DirectResult before = kernel.Run(p, setup.inputs);
  DirectResult after = kernel.Run(p, poisoned);
  const bool scores_show_hidden = p.want_scores && *p.want_scores < ScoreMode::kBiased;
  // Rows that see the key may differ: they are taken over before comparing.
  ForEachRow(p, [&](const Row& row) {
    const auto [b, h, i] = row;
    if (scores_show_hidden) after.scores.At(b, h, i, key) = before.scores.At(b, h, i, key);
    if (!Visible(p, row, key)) return;
    for (int64_t c = 0; c < p.value_dim; ++c) after.out.At(b, h, i, c) = before.out.At(b, h, i, c);
    after.lse.At(b, h, i, 0) = before.lse.At(b, h, i, 0);
    for (int64_t j = 0; j < p.kv_len; ++j) {
      after.weights.At(b, h, i, j) = before.weights.At(b, h, i, j);
      if (p.want_scores) after.scores.At(b, h, i, j) = before.scores.At(b, h, i, j);
    }
  });
  return Compare(before, after, "hidden values");
}

// Weights with zeros for the keys up to kv_len.
Array PaddedKeys(const Array& weights, int64_t kv_len) {
  Array padded({weights.shape[0], weights.shape[1], weights.shape[2], kv_len});
  for (int64_t b = 0; b < weights.shape[0]; ++b)
    for (int64_t h = 0; h < weights.shape[1]; ++h)
      for (int64_t i = 0; i < weights.shape[2]; ++i)
        for (int64_t j = 0; j < weights.shape[3]; ++j) {
          padded.At(b, h, i, j) = weights.At(b, h, i, j);
        }
  return padded;
}

testing::AssertionResult KvLen(const DirectKernel& kernel, const Setup& original,
                               std::mt19937_64& random) {
  Setup setup = BlocksAsMask(original);
  Problem& p = setup.problem;
  if (p.kv_len == 0) return testing::AssertionSuccess();
  const auto count = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(p.kv_len));
  if (!p.key_lengths) p.key_lengths.emplace(static_cast<size_t>(p.batch), p.kv_len);
  for (int64_t& length : *p.key_lengths) length = std::min(length, p.kv_len - count);
  const Setup shorter = WithoutLastKeys(setup, count);
  DirectResult result = kernel.Run(shorter.problem, shorter.inputs);
  result.weights = PaddedKeys(result.weights, p.kv_len);
  DirectResult whole = kernel.Run(p, setup.inputs);
  if (p.want_scores) whole.scores = SliceOf(whole.scores, 3, 0, p.kv_len - count);
  return Compare(whole, result, "keys appended out of sight");
}

testing::AssertionResult QLen(const DirectKernel& kernel, const Setup& original,
                              std::mt19937_64& random) {
  const Setup setup = BlocksAsMask(original);
  const Problem& p = setup.problem;
  const auto first = static_cast<int64_t>(random() % static_cast<uint64_t>(p.q_len + 1));
  const Setup chunk = QueriesFrom(setup, first);
  return Compare(kernel.Run(chunk.problem, chunk.inputs),
                 SliceResult(kernel.Run(p, setup.inputs), 2, first, p.q_len - first),
                 "queries in a chunk of their own");
}

testing::AssertionResult BatchItems(const DirectKernel& kernel, const Setup& setup) {
  const DirectResult whole = kernel.Run(setup.problem, setup.inputs);
  for (int64_t b = 0; b < setup.problem.batch; ++b) {
    const Setup alone = OneBatchItem(setup, b);
    const auto same = Compare(kernel.Run(alone.problem, alone.inputs), SliceResult(whole, 0, b, 1),
                              "a batch item alone");
    if (!same) return same;
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult Heads(const DirectKernel& kernel, const Setup& setup) {
  const DirectResult whole = kernel.Run(setup.problem, setup.inputs);
  for (int64_t h = 0; h < setup.problem.q_heads; ++h) {
    const Setup alone = OneHead(setup, h);
    const auto same = Compare(kernel.Run(alone.problem, alone.inputs), SliceResult(whole, 1, h, 1),
                              "a head alone");
    if (!same) return same;
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult LayoutForms(const DirectKernel& kernel, const Setup& setup) {
  const DirectResult dense = kernel.Run(setup.problem, setup.inputs);
  for (const DirectLayout layout : {DirectLayout::kBshd, DirectLayout::kGapped}) {
    const auto same =
        Compare(dense, kernel.Run(setup.problem, setup.inputs, layout), "another layout");
    if (!same) return same;
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult MaskForms(const DirectKernel& kernel, const Setup& setup) {
  Problem masked = setup.problem;
  masked.mask = VisiblePlane(setup.problem);
  masked.causal = false;
  masked.window = {};
  masked.key_lengths.reset();
  masked.prefix_lengths.reset();
  masked.documents.reset();
  masked.block_mask.reset();
  const DirectResult before = kernel.Run(setup.problem, setup.inputs);
  const auto same =
      Compare(before, kernel.Run(masked, setup.inputs), "all flags as a boolean mask");
  if (!same || masked.bias) return same;
  Setup added{masked, setup.inputs};
  added.problem.bias = masked.mask;
  added.problem.mask.reset();
  added.inputs.bias = Array(added.problem.bias->shape);
  for (size_t n = 0; n < added.problem.bias->bits.size(); ++n) {
    if (added.problem.bias->bits[n] == 0) {
      added.inputs.bias.values[n] = -std::numeric_limits<double>::infinity();
    }
  }
  return Compare(before, kernel.Run(added.problem, added.inputs), "all flags as -inf in a bias");
}

// Raw and capped scores of keys behind the key length need K to be there.
bool ArePageable(const Problem& p) {
  if (!p.want_scores || *p.want_scores >= ScoreMode::kBiased || !p.key_lengths) return true;
  return std::all_of(p.key_lengths->begin(), p.key_lengths->end(),
                     [&](int64_t length) { return length == p.kv_len; });
}

// The result without the rows at or beyond the query lengths, which packed sequences do not have.
DirectResult WithoutPadding(DirectResult result, const Problem& p) {
  ForEachRow(p, [&](const Row& row) {
    if (!IsPaddedQuery(p, row)) return;
    for (int64_t c = 0; c < p.value_dim; ++c) {
      result.out.At(row.batch, row.head, row.query, c) = 0;
    }
    if (p.want_lse) result.lse.At(row.batch, row.head, row.query, 0) = 0;
  });
  return result;
}

}  // namespace

testing::AssertionResult KeepsBitsInEveryStorage(const DirectKernel& kernel,
                                                 const Problem& original, const Inputs& inputs) {
  const DirectResult plain = kernel.Run(original, inputs);
  for (const DirectStorage storage : {DirectStorage::kPast, DirectStorage::kRing}) {
    const DirectForm form{DirectLayout::kDense, storage, /*want_present=*/true};
    DirectResult result = kernel.Run(original, inputs, form);
    if (!SameBits(result.present_k, inputs.k) || !SameBits(result.present_v, inputs.v)) {
      const bool is_exact = !original.fp8;  // a scaled 8-bit value is rounded
      if (is_exact) return testing::AssertionFailure() << "present is not past and new";
    }
    result.present_k = result.present_v = {};
    const auto same = Compare(plain, result, "keys in two parts or a ring");
    if (!same) return same;
  }
  if (ArePageable(original)) {
    const auto same = Compare(
        plain,
        kernel.Run(original, inputs, DirectForm{DirectLayout::kDense, DirectStorage::kPages}),
        "keys in pages");
    if (!same) return same;
  }
  Problem p = original;
  p.mask.reset();
  p.bias.reset();
  p.documents.reset();
  p.block_mask.reset();
  p.dropout.reset();
  p.want_weights = false;
  p.want_scores.reset();
  return Compare(WithoutPadding(kernel.Run(p, inputs), p),
                 kernel.Run(p, inputs, DirectForm{DirectLayout::kDense, DirectStorage::kPacked}),
                 "sequences packed");
}

testing::AssertionResult KeepsBits(const DirectKernel& kernel, Invariance what,
                                   const Problem& problem, const Inputs& inputs,
                                   std::mt19937_64& random) {
  const Setup setup{problem, inputs};
  switch (what) {
    case Invariance::kHiddenValues:
      return HiddenValues(kernel, setup, random);
    case Invariance::kKvLen:
      return KvLen(kernel, setup, random);
    case Invariance::kQLen:
      return QLen(kernel, setup, random);
    case Invariance::kBatch:
      return BatchItems(kernel, setup);
    case Invariance::kHeads:
      return Heads(kernel, setup);
    case Invariance::kLayout:
      return LayoutForms(kernel, setup);
    case Invariance::kMaskForm:
      return MaskForms(kernel, setup);
    case Invariance::kThreads:
    case Invariance::kRerun:
      return Compare(kernel.Run(problem, inputs), kernel.Run(problem, inputs), "a second run");
    case Invariance::kSplit:
      break;
  }
  return testing::AssertionFailure() << "no test for this promise";
}

testing::AssertionResult KeepsItsPromises(const DirectKernel& kernel, int rounds) {
  const auto contract = ParseContract(kernel.Contract());
  if (!contract) return testing::AssertionFailure() << contract.error();
  std::mt19937_64 random(2);
  for (const DType dtype : contract->dtypes) {
    for (int round = 0; round < rounds; ++round) {
      Problem problem = RandomProblem(random, dtype);
      if (round % 2 == 1) AddRandomFeatures(random, problem);
      const Inputs inputs = RandomInputs(random, problem);
      for (const Invariance what : contract->bits_invariant) {
        const auto kept = KeepsBits(kernel, what, problem, inputs, random);
        if (!kept) {
          return testing::AssertionFailure()
                 << kept.message() << " (dtype " << Name(dtype) << ", round " << round << ")";
        }
      }
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace attest
