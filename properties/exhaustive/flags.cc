#include "properties/exhaustive/flags.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "impl/attention/visibility.h"
#include "properties/exhaustive/covering_array.h"

namespace attest {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

void Nothing(Case&) {}

template <DType kType>
void SetType(Case& c) {
  c.problem.dtype = kType;
}

template <DType kFormat>
void SetFp8(Case& c) {
  // Powers of two: the data stay the numbers they are.
  c.problem.fp8 = Fp8{kFormat, 0.5, 2, 0.25};
}

// A plane of `shape` whose bit is bit(b, h, i, j).
template <typename Bit>
BitPlane MakePlane(const Shape4& shape, Bit&& bit) {
  BitPlane plane;
  plane.shape = shape;
  for (int64_t b = 0; b < shape[0]; ++b)
    for (int64_t h = 0; h < shape[1]; ++h)
      for (int64_t i = 0; i < shape[2]; ++i)
        for (int64_t j = 0; j < shape[3]; ++j) plane.bits.push_back(bit(b, h, i, j) ? 1 : 0);
  return plane;
}

// A finite bias of every head, the same for every batch item.
void FiniteBias(Case& c) {
  const Problem& p = c.problem;
  c.problem.bias = MakePlane({1, p.q_heads, p.q_len, p.kv_len},
                             [](int64_t, int64_t, int64_t, int64_t) { return true; });
}

void FiniteF32Bias(Case& c) {
  FiniteBias(c);
  c.problem.bias_dtype = DType::kF32;
}

// A bias of every batch item that hides a key in three.
void HidingBias(Case& c) {
  const Problem& p = c.problem;
  c.problem.bias =
      MakePlane({p.batch, 1, p.q_len, p.kv_len},
                [](int64_t b, int64_t, int64_t i, int64_t j) { return (b + i + 2 * j) % 3 != 0; });
}

// Groups of two query heads, on two heads of keys and values. (With one of them a head's number
// says nothing.)
void TwoGroups(Case& c) {
  if (c.problem.kv_heads == c.problem.q_heads) return;
  c.problem.q_heads = 4;
  c.problem.kv_heads = 2;
}

// Every other head sees the mask with rows and bits turned round.
void MaskPerHead(Case& c) {
  if (!c.problem.mask) return;
  const BitPlane plane = *c.problem.mask;
  const int64_t rows = c.problem.q_len;
  c.problem.mask =
      MakePlane(c.problem.WeightsShape(), [&](int64_t b, int64_t h, int64_t i, int64_t j) {
        return h % 2 == 0 ? plane.At(b, 0, i, j) : !plane.At(b, 0, rows - 1 - i, j);
      });
  if (c.problem.batch == 1) c.problem.mask->rank = 3;
}

// The mask as -inf in the bias.
void MaskAsBias(Case& c) {
  Problem& p = c.problem;
  if (!p.mask) return;
  const BitPlane mask = *p.mask;
  const std::optional<BitPlane> bias = p.bias;
  const Shape4 shape = bias ? p.WeightsShape() : mask.shape;
  p.bias = MakePlane(shape, [&](int64_t b, int64_t h, int64_t i, int64_t j) {
    return mask.At(b, h, i, j) && (!bias || bias->At(b, h, i, j));
  });
  p.mask.reset();
}

// The first of four values, one a query head.
std::vector<double> PerHead(const Case& c, std::vector<double> values) {
  values.resize(static_cast<size_t>(c.problem.q_heads));
  return values;
}

// A length for the first batch item, and what it leaves of `most` for the second.
std::vector<int64_t> Split(const Case& c, int64_t length, int64_t most) {
  length = std::clamp<int64_t>(length, 0, most);
  std::vector<int64_t> lengths = {length, most - length};
  lengths.resize(static_cast<size_t>(c.problem.batch));
  return lengths;
}

template <typename Id>
std::vector<int64_t> DocumentIds(int64_t batch, int64_t len, Id&& id) {
  std::vector<int64_t> ids;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t n = 0; n < len; ++n) ids.push_back(id(b, n));
  return ids;
}

// Numbers that come back, 0 1 0, in the second batch item the other way round for the keys.
void ReturningDocuments(Case& c) {
  const Problem& p = c.problem;
  c.problem.documents =
      Documents{DocumentIds(p.batch, p.q_len, [](int64_t, int64_t i) { return i % 2; }),
                DocumentIds(p.batch, p.kv_len, [](int64_t b, int64_t j) { return (b + j) % 2; })};
}

// Runs of two, and a last query without a key in its document.
void DocumentRuns(Case& c) {
  const Problem& p = c.problem;
  c.problem.documents =
      Documents{DocumentIds(p.batch, p.q_len, [](int64_t b, int64_t i) { return (b + i) / 2 + b; }),
                DocumentIds(p.batch, p.kv_len, [](int64_t, int64_t j) { return j / 2; })};
}

template <int64_t kRows, int64_t kKeys, bool kPerHead>
void Blocks(Case& c) {
  const Problem& p = c.problem;
  const Shape4 shape = {kPerHead ? 1 : p.batch, kPerHead ? p.q_heads : 1,
                        (p.q_len + kRows - 1) / kRows, (p.kv_len + kKeys - 1) / kKeys};
  c.problem.block_mask =
      BlockMask{kRows, kKeys, MakePlane(shape, [](int64_t b, int64_t h, int64_t i, int64_t j) {
                  return (b + h + i + j) % 2 == 0;
                })};
}

// Keeps two weights in three.
// A prefix says nothing without causality, and no case carries what says nothing.
void SetPrefix(Case& c, int64_t first) {
  if (c.problem.causal) c.problem.prefix_lengths = Split(c, first, c.problem.kv_len);
}

void DropThird(Case& c) {
  c.problem.dropout = Dropout{
      0.5, MakePlane(c.problem.WeightsShape(), [](int64_t b, int64_t h, int64_t i, int64_t j) {
        return (b + h + 2 * i + j) % 3 != 0;
      })};
}

template <ScoreMode kMode>
void AskScores(Case& c) {
  c.problem.want_scores = kMode;
}

template <Layout kLayout>
void SetLayout(Case& c) {
  c.layouts = {kLayout, kLayout, kLayout, kLayout};
}

template <bool kLse, bool kWeights>
void SetOutputs(Case& c) {
  c.problem.want_lse = kLse;
  c.problem.want_weights = kWeights;
}

// These are what DirectStorage makes of them.
void SetPast(Case& c) {
  c.storage.past = c.problem.kv_len / 2;
  c.storage.first_call = c.storage.past > 0 ? FirstCall::kNo : FirstCall::kPastEmpty;
}

// Raw and capped scores are those of every key, so then the pages must hold them all.
void SetPages(Case& c) {
  Problem& p = c.problem;
  c.storage.page_size = 2;
  const bool holds_all = p.want_scores == ScoreMode::kRaw || p.want_scores == ScoreMode::kCapped;
  if (!p.key_lengths || holds_all) {
    p.key_lengths.emplace(static_cast<size_t>(p.batch), p.kv_len);
  }
}

void SetRing(Case& c) {
  c.storage.ring = true;
}

// Packed sequences have no mask; its ones choose the query lengths instead.
void SetPacked(Case& c) {
  Problem& p = c.problem;
  c.storage.packed = true;
  const int64_t ones =
      p.mask ? std::accumulate(p.mask->bits.begin(), p.mask->bits.end(), int64_t{0}) : p.q_len;
  p.mask.reset();
  p.query_lengths = Split(c, ones % (p.q_len + 1), p.q_len);
  if (!p.key_lengths) p.key_lengths.emplace(static_cast<size_t>(p.batch), p.kv_len);
}

// Cycles through `numbers`, shifted by `first`; -inf where the plane hides.
template <size_t kCount>
Array Cycle(const Shape4& shape, const std::array<double, kCount>& numbers) {
  Array array(shape);
  for (size_t n = 0; n < array.values.size(); ++n) array.values[n] = numbers[n % kCount];
  return array;
}

Array BiasData(const Problem& p) {
  constexpr std::array kBias = {0.5, -1.25, 1.0, -0.3, 0.0, 2.0, -0.7, 1.5};
  Array bias = Cycle(p.bias->shape, kBias);
  for (size_t n = 0; n < bias.values.size(); ++n) {
    bias.values[n] = p.bias->bits[n] != 0 ? RoundTo(p.BiasDType(), bias.values[n]) : -kInf;
  }
  return bias;
}

// Twelve numbers a tensor, as many as the largest has. Scores are within +-4, so every visible key
// has a weight that counts.
void FillData(Case& c) {
  constexpr std::array kQueries = {1.0,   -0.5, 1.5,  0.75,  -1.0, 2.0,
                                   -1.25, 0.5,  1.75, -0.75, 1.25, -2.0};
  constexpr std::array kKeys = {0.5, -1.0, 1.25, 2.0,  -0.75, 1.0,
                                1.5, -0.5, 1.75, -2.0, 0.75,  -1.5};
  constexpr std::array kValues = {1.0,  -2.0,  3.0,  -5.0,  7.0, -10.0,
                                  14.0, -20.0, 28.0, -40.0, 6.0, -12.0};
  const Problem& p = c.problem;
  c.literals[DataTensor::kQ] = Cycle(p.QShape(), kQueries);
  c.literals[DataTensor::kK] = Cycle(p.KShape(), kKeys);
  c.literals[DataTensor::kV] = Cycle(p.VShape(), kValues);
  if (p.bias) c.literals[DataTensor::kBias] = BiasData(p);
}

// The data, with NaN for each key and value that no row of its head sees.
void FillPoisonedData(Case& c) {
  FillData(c);
  const Problem& p = c.problem;
  Array seen({p.batch, p.kv_heads, p.kv_len, 1});
  ForEachRow(p, [&](const Row& row) {
    for (const int64_t j : VisibleKeys(p, row)) {
      seen.At(row.batch, row.head / p.heads_per_kv_head(), j, 0) = 1;
    }
  });
  for (size_t n = 0; n < seen.values.size(); ++n) {
    if (seen.values[n] != 0) continue;
    // head_dim and value_dim are 1, so the tensors run in step.
    c.literals[DataTensor::kK].values[n] = kNaN;
    c.literals[DataTensor::kV].values[n] = kNaN;
  }
}

// Levels that packed sequences cannot have stand after those they can: see kPackedLevels.
std::vector<FlagFactor> MakeFactors() {
  return {
      {{"f32", SetType<DType::kF32>},
       {"f64", SetType<DType::kF64>},
       {"f16", SetType<DType::kF16>},
       {"bf16", SetType<DType::kBF16>}},
      {{"", Nothing}, {"e4m3", SetFp8<DType::kE4M3>}, {"e5m2", SetFp8<DType::kE5M2>}},
      {{"", Nothing}, {"two groups", TwoGroups}},
      {{"", Nothing}, {"scale 0.75", [](Case& c) { c.problem.scale = 0.75; }}},
      {{"", Nothing},
       {"finite bias", FiniteBias},
       {"f32 bias", FiniteF32Bias},
       {"bias with -inf", HidingBias}},
      {{"", Nothing}, {"mask per head", MaskPerHead}, {"mask as bias", MaskAsBias}},
      {{"", Nothing}, {"softcap 2", [](Case& c) { c.problem.softcap = 2; }}},
      {{"", Nothing},
       {"sinks",
        [](Case& c) {
          c.problem.sinks = PerHead(c, {0.5, -1, 2, 0});
        }},
       {"far sinks",
        [](Case& c) {
          c.problem.sinks = PerHead(c, {-30, 15, 8, -12});
        }}},
      {{"", Nothing},
       {"alibi",
        [](Case& c) {
          c.problem.alibi_slopes = PerHead(c, {0.5, -0.25, 0, 1});
        }}},
      {{"", Nothing},
       {"prefix of 1", [](Case& c) { SetPrefix(c, 1); }},
       {"prefix of all", [](Case& c) { SetPrefix(c, c.problem.kv_len); }}},
      {{"", Nothing},
       {"returning documents", ReturningDocuments},
       {"runs of documents", DocumentRuns}},
      {{"", Nothing},
       {"blocks of 1 x 2", Blocks<1, 2, false>},
       {"blocks of 2 x 1", Blocks<2, 1, true>}},
      {{"", Nothing},
       {"query lengths",
        [](Case& c) { c.problem.query_lengths = Split(c, c.problem.q_len - 1, c.problem.q_len); }}},
      {{"", Nothing}, {"dropout", DropThird}},
      {{"out alone", SetOutputs<false, false>},
       {"lse", SetOutputs<true, false>},
       {"lse and weights", SetOutputs<true, true>}},
      {{"", Nothing},
       {"raw scores", AskScores<ScoreMode::kRaw>},
       {"capped scores", AskScores<ScoreMode::kCapped>},
       {"biased scores", AskScores<ScoreMode::kBiased>},
       {"weights as scores", AskScores<ScoreMode::kWeights>}},
      {{"", Nothing}, {"bshd", SetLayout<Layout::kBshd>}, {"gapped", SetLayout<Layout::kGapped>}},
      {{"", Nothing},
       {"past", SetPast},
       {"pages", SetPages},
       {"ring", SetRing},
       {"packed", SetPacked}},
      {{"", FillData}, {"hidden NaN", FillPoisonedData}},
  };
}

// How many levels of each factor the two arrays use. Packed sequences have no bias,
// documents, block mask, query lengths of their own, dropout, weights or scores.
constexpr std::array kMainLevels = {4, 3, 2, 2, 4, 3, 2, 3, 2, 3, 3, 3, 2, 2, 3, 5, 3, 4, 2};
constexpr std::array kPackedLevels = {4, 3, 2, 2, 1, 1, 2, 3, 2, 3, 1, 1, 1, 1, 2, 1, 3, 1, 2};
constexpr size_t kStorageFactor = 17;
constexpr int kPacked = 4;

}  // namespace

const std::vector<FlagFactor>& FlagFactors() {
  static const std::vector<FlagFactor> kFactors = MakeFactors();
  return kFactors;
}

const std::vector<FlagRow>& FlagRows() {
  static const std::vector<FlagRow> kRows = CoverPairs({kMainLevels.begin(), kMainLevels.end()});
  return kRows;
}

const std::vector<FlagRow>& PackedFlagRows() {
  static const std::vector<FlagRow> kRows = [] {
    std::vector<FlagRow> rows = CoverPairs({kPackedLevels.begin(), kPackedLevels.end()});
    for (FlagRow& row : rows) row[kStorageFactor] = kPacked;
    return rows;
  }();
  return kRows;
}

void ApplyFlags(const FlagRow& row, Case& c) {
  for (size_t factor = 0; factor < row.size(); ++factor) {
    FlagFactors()[factor][static_cast<size_t>(row[factor])].apply(c);
  }
}

std::string Describe(const FlagRow& row) {
  std::string text;
  for (size_t factor = 0; factor < row.size(); ++factor) {
    const FlagLevel& level = FlagFactors()[factor][static_cast<size_t>(row[factor])];
    if (level.name.empty()) continue;
    if (!text.empty()) text += ", ";
    text += level.name;
  }
  return text;
}

}  // namespace attest
