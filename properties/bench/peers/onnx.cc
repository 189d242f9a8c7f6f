// ONNX's backend tests of the operator Attention: single hand-chosen calls, uniform in [0, 1), at
// most 4 queries and 18 keys of 8 lanes; numpy's assert_allclose with rtol 1e-3 and atol 1e-7 on
// every output. The boolean masks of all but the newest are all true, for they were made by casting
// uniform numbers.
#include <iterator>

#include "properties/bench/peers/suites.h"

namespace attest {
namespace {

enum class Mask : uint8_t {
  kNone,
  kFloat2,  // [q_len, kv_len], [batch, 1, ...] and [batch, q_heads, ...]
  kFloat3,
  kFloat4,
  kTrue2,  // boolean, all true
  kTrue4,
  kEmptyRow,   // boolean, [q_len, kv_len], first row all false
  kMixed3,     // boolean, [batch, 1, q_len, kv_len], some false
  kMinusInf2,  // [q_len, kv_len], zeros and minus infinities
};

enum class Heads : uint8_t { kPlain, kGroups, kWide };  // 3:3; 9:3; 3:3 with values of 10 lanes

struct Backend {
  Heads heads = Heads::kPlain;
  bool is_3d = false;
  Mask mask = Mask::kNone;
  bool causal = false, softcap = false, scaled = false, past = false;
  std::optional<ScoreMode> scores = {};
  DType dtype = DType::kF32;
};

constexpr ScoreMode kRaw = ScoreMode::kRaw, kCapped = ScoreMode::kCapped,
                    kBiased = ScoreMode::kBiased, kWeights = ScoreMode::kWeights;

// Of the sizes that nearly all have: batch 2, 4 queries, 6 keys, with a past 18.
constexpr Backend kBackends[] = {
    // q, k and v of rank 4.
    {},
    {.mask = Mask::kFloat2},
    {.mask = Mask::kFloat3},
    {.mask = Mask::kFloat4},
    {.mask = Mask::kFloat3, .causal = true},
    {.mask = Mask::kFloat4, .causal = true},
    {.mask = Mask::kTrue2},
    {.mask = Mask::kTrue4},
    {.causal = true},
    {.scaled = true},
    {.softcap = true},
    {.mask = Mask::kMinusInf2, .softcap = true},
    {.dtype = DType::kF16},
    {.heads = Heads::kGroups},
    {.heads = Heads::kGroups, .mask = Mask::kFloat2},
    {.heads = Heads::kGroups, .causal = true},
    {.heads = Heads::kGroups, .scaled = true},
    {.heads = Heads::kGroups, .softcap = true},
    {.heads = Heads::kGroups, .mask = Mask::kFloat2, .past = true},
    {.heads = Heads::kGroups, .mask = Mask::kFloat2, .past = true, .dtype = DType::kF16},
    {.heads = Heads::kWide},
    {.heads = Heads::kWide, .mask = Mask::kFloat2},
    {.heads = Heads::kWide, .causal = true},
    {.heads = Heads::kWide, .scaled = true},
    {.heads = Heads::kWide, .softcap = true},
    {.heads = Heads::kWide, .mask = Mask::kFloat2, .past = true},
    {.heads = Heads::kWide, .mask = Mask::kFloat3, .past = true},
    {.heads = Heads::kWide, .mask = Mask::kFloat4, .past = true},
    {.mask = Mask::kFloat2, .past = true},
    {.causal = true, .past = true},
    {.mask = Mask::kFloat2, .past = true, .scores = kRaw},
    {.mask = Mask::kFloat2, .past = true, .scores = kBiased},
    {.mask = Mask::kFloat3, .past = true, .scores = kBiased},
    {.mask = Mask::kFloat4, .past = true, .scores = kBiased},
    {.mask = Mask::kFloat3, .causal = true, .past = true, .scores = kBiased},
    {.mask = Mask::kFloat4, .causal = true, .past = true, .scores = kBiased},
    {.scores = kRaw},
    {.mask = Mask::kFloat2, .scores = kBiased},
    {.mask = Mask::kFloat2, .softcap = true, .scores = kCapped},
    {.mask = Mask::kFloat2, .scores = kWeights},
    // Of rank 3: heads inside positions.
    {.is_3d = true},
    {.is_3d = true, .mask = Mask::kFloat2},
    {.is_3d = true, .causal = true},
    {.is_3d = true, .scaled = true},
    {.is_3d = true, .softcap = true},
    {.heads = Heads::kGroups, .is_3d = true},
    {.heads = Heads::kGroups, .is_3d = true, .mask = Mask::kFloat2},
    {.heads = Heads::kGroups, .is_3d = true, .causal = true},
    {.heads = Heads::kGroups, .is_3d = true, .scaled = true},
    {.heads = Heads::kGroups, .is_3d = true, .softcap = true},
    {.heads = Heads::kGroups, .is_3d = true, .mask = Mask::kFloat2, .past = true},
    {.heads = Heads::kWide, .is_3d = true},
    {.heads = Heads::kWide, .is_3d = true, .mask = Mask::kFloat2},
    {.heads = Heads::kWide, .is_3d = true, .causal = true},
    {.heads = Heads::kWide, .is_3d = true, .scaled = true},
    {.heads = Heads::kWide, .is_3d = true, .softcap = true},
    {.heads = Heads::kWide, .is_3d = true, .mask = Mask::kFloat2, .past = true},
    {.is_3d = true, .mask = Mask::kFloat2, .past = true},
    {.is_3d = true, .mask = Mask::kFloat2, .past = true, .scores = kRaw},
    {.is_3d = true, .mask = Mask::kFloat2, .past = true, .scores = kBiased},
    {.is_3d = true, .mask = Mask::kFloat2, .softcap = true, .past = true, .scores = kCapped},
    {.is_3d = true, .mask = Mask::kFloat2, .past = true, .scores = kWeights},
};

BitPlane FullPlane(const Shape4& shape, int rank) {
  BitPlane plane;
  plane.shape = shape;
  plane.rank = rank;
  plane.bits.assign(static_cast<size_t>(ElementCount(shape)), 1);
  return plane;
}

void AddMask(Mask mask, Problem& p) {
  const BitPlane flat = FullPlane({1, 1, p.q_len, p.kv_len}, 2);
  switch (mask) {
    case Mask::kNone:
      return;
    case Mask::kFloat2:
      p.bias = flat;
      return;
    case Mask::kFloat3:
      p.bias = FullPlane({p.batch, 1, p.q_len, p.kv_len}, 4);
      return;
    case Mask::kFloat4:
      p.bias = FullPlane(p.WeightsShape(), 4);
      return;
    case Mask::kTrue2:
      p.mask = flat;
      return;
    case Mask::kTrue4:
      p.mask = FullPlane(p.WeightsShape(), 4);
      return;
    case Mask::kEmptyRow:
      p.mask = flat;
      for (int64_t j = 0; j < p.kv_len; ++j) p.mask->bits[static_cast<size_t>(j)] = 0;
      return;
    case Mask::kMixed3:
      p.mask = FullPlane({p.batch, 1, p.q_len, p.kv_len}, 4);
      for (size_t n = 1; n < p.mask->bits.size(); n += 4) p.mask->bits[n] = 0;
      return;
    case Mask::kMinusInf2:
      p.bias = flat;
      for (size_t n = 1; n < p.bias->bits.size(); n += 2) p.bias->bits[n] = 0;
      return;
  }
}

PeerCase& Add(PeerSuite& suite, const Problem& problem) {
  PeerCase& added = suite.cases.emplace_back();
  added.problem = problem;
  added.values = Values::kUnit;
  added.rule = ToleranceRule(1e-3, 1e-7);
  added.others = added.rule;
  added.seed = suite.cases.size();
  return added;
}

void AddBackend(const Backend& backend, PeerSuite& suite) {
  const bool is_wide = backend.heads == Heads::kWide;
  Problem p = ProblemOf({2, backend.heads == Heads::kGroups ? 9 : 3, 3, 4, backend.past ? 18 : 6, 8,
                         is_wide ? 10 : 8},
                        backend.dtype);
  AddMask(backend.mask, p);
  p.causal = backend.causal;
  // New queries stand behind the past.
  if (backend.past && backend.causal) p.diagonal_offset.assign(2, p.kv_len / 2);
  if (backend.softcap) p.softcap = 2;
  if (backend.scaled) p.scale = 1e-2;
  p.want_scores = backend.scores;
  PeerCase& added = Add(suite, p);
  if (backend.is_3d) added.form.layout = DirectLayout::kBshd;
  if (backend.past) added.form.storage = DirectStorage::kPast;
  added.form.want_present = backend.past;
}

// The newer ones: key lengths of an external cache, and rows that see nothing.
void AddNewer(PeerSuite& suite) {
  Problem prefill = ProblemOf({3, 2, 2, 2, 6, 8, 8}, DType::kF32);
  prefill.key_lengths = {4, 6, 3};
  AlignBottomRight(prefill);
  prefill.causal = true;
  Add(suite, prefill);
  Problem decode = ProblemOf({2, 4, 2, 1, 8, 8, 8}, DType::kF32);
  decode.key_lengths = {5, 8};
  AlignBottomRight(decode);
  decode.causal = true;
  Add(suite, decode);
  Problem composed = ProblemOf({2, 2, 2, 3, 6, 8, 8}, DType::kF32);
  composed.key_lengths = {4, 6};
  AlignBottomRight(composed);
  composed.causal = true;
  AddMask(Mask::kMixed3, composed);
  Add(suite, composed);
  Problem padded = ProblemOf({2, 3, 3, 4, 6, 8, 10}, DType::kF32);
  padded.key_lengths = {3, 4};
  AddMask(Mask::kFloat4, padded);
  Add(suite, padded);
  for (const auto& [dtype, scores] :
       {std::pair<DType, std::optional<ScoreMode>>{DType::kF32, std::nullopt},
        {DType::kF32, kWeights},
        {DType::kF16, kWeights}}) {
    Problem empty = ProblemOf({1, 2, 2, 2, 2, 8, 8}, dtype);
    empty.want_scores = scores;
    AddMask(Mask::kEmptyRow, empty);
    Add(suite, empty);
  }
}

}  // namespace

PeerSuite OnnxSuite() {
  PeerSuite suite{.name = "ONNX", .published = "87"};
  for (const Backend& backend : kBackends) AddBackend(backend, suite);
  AddNewer(suite);
  suite.points = static_cast<int64_t>(suite.cases.size());
  return suite;
}

}  // namespace attest
