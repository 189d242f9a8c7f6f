// What becomes of a score between q.k and the softmax: softcap, additive bias, ALiBi, sinks; and the
// scores output that shows it. Has caught: softcap after the bias or dropped under a mask, slopes of
// another head, sinks that count as a key with a value.
#include <algorithm>
#include <array>
#include <cmath>

#include "properties/derive.h"
#include "properties/features.h"
#include "properties/judging.h"

namespace attest {
namespace {

// --- Softcap ---

Derived CapAndBias(const Case& original, const Contract& contract) {
  Case c = EnsureSoftcap(Lively(original));
  if (contract.Has(Feature::kBias)) c = WithBias(EnsureBias(std::move(c)), BiasFamily::kNormal);
  return Of(std::move(c));
}

Verdict JudgeCap(const Evidence& evidence) {
  return MatchesReference(evidence, 0, "the softcap is not where the contract has it");
}

constexpr uint64_t kCapSalt = 0xca9;

// tanh(x) is x for the scores of a few units that Lively gives, but for x^3 / 3.
Derived HugeCapAndNone(const Case& original, const Contract&) {
  Case none = AsLiteral(Lively(original));
  none.problem.softcap = 0;
  Case huge = none;
  // The bound grows with the cap: what 2^10 shows is lost in that of 2^60, and the other way round for what
  // overflows. 2^14: more is no f16, which a kernel may keep its cap in.
  const double largest = none.problem.dtype == DType::kF16 ? 0x1p14 : 0x1p60;
  huge.problem.softcap = DrawFor(none, kCapSalt).Percent(50) ? 0x1p10 : largest;
  return Of(std::move(none), std::move(huge));
}

// Two calls whose references differ by something small may differ by as much, and their bounds.
Verdict JudgeHugeCap(const Evidence& evidence) {
  const Problem& p = evidence.cases[0].problem;
  return JudgeOrdinaryRows(evidence, [&](const Row& row) -> std::optional<Verdict> {
    for (int64_t d = 0; d < p.value_dim; ++d) {
      const Seen none = OutOf(evidence, 0, row, d), huge = OutOf(evidence, 1, row, d);
      const double bound = none.bound + huge.bound + std::abs(none.due - huge.due);
      if (auto failed =
              Expect(evidence, 1, "out", row, d, huge.got, none.got, bound,
                     "a softcap far above every score is as good as none", TheFirstCall())) {
        return failed;
      }
    }
    return std::nullopt;
  });
}

// --- ALiBi ---

// Whether every ALiBi term is a value of the bias's type.
bool FitsBias(const Problem& p) {
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t h = 0; h < p.q_heads; ++h)
      for (const int64_t i : {int64_t{0}, p.q_len - 1})
        for (int64_t j = 0; j < p.kv_len; ++j) {
          if (RoundTo(p.BiasDType(), p.Alibi(b, h, i, j)) != p.Alibi(b, h, i, j)) return false;
        }
  return true;
}

// The slopes are powers of two, so that every term is exact; a bias that is there keeps its -inf.
Derived SlopesAndBias(const Case& original, const Contract& contract) {
  Case slopes = original;
  slopes.problem.alibi_slopes.reset();
  slopes = EnsureAlibi(WithoutScoresOutput(std::move(slopes)), contract);
  slopes = AsLiteral(WithBias(std::move(slopes), BiasFamily::kZero));
  const Problem& p = slopes.problem;
  // 256: up to there a distance times a power of two is a value of bf16.
  if (p.q_len == 0 || !FitsBias(p)) return NotApplicable("a distance that the bias's type lacks");
  Case bias = slopes;
  bias.problem.alibi_slopes.reset();
  BitPlane plane;
  plane.shape = p.WeightsShape();
  Array values(plane.shape);
  size_t flat = 0;
  ForEachRow(p, [&](const Row& row) {
    for (int64_t j = 0; j < p.kv_len; ++j, ++flat) {
      const bool attends = !p.bias || p.bias->At(row.batch, row.head, row.query, j);
      plane.bits.push_back(attends);
      values.values[flat] = attends ? p.Alibi(row.batch, row.head, row.query, j)
                                    : -std::numeric_limits<double>::infinity();
    }
  });
  bias.problem.bias = std::move(plane);
  return Of(slopes, WithData(bias, DataTensor::kBias, std::move(values)));
}

Verdict JudgeSlopes(const Evidence& evidence) {
  return SameResult(evidence, 0, 1,
                    "ALiBi slopes give another answer than the bias they stand for");
}

constexpr uint64_t kSlopeSalt = 0x510;

// Every head given one head's slope: that head's rows stay.
Derived OwnAndOneSlope(const Case& original, const Contract& contract) {
  const Case c = AsLiteral(EnsureAlibi(original, contract));
  if (c.problem.q_heads == 0) return NotApplicable("no heads");
  const auto head = static_cast<size_t>(DrawFor(c, kSlopeSalt).Below(c.problem.q_heads));
  Case one = c;
  const double slope = (*c.problem.alibi_slopes)[head];
  std::ranges::fill(*one.problem.alibi_slopes, slope);
  return Of(c, std::move(one));
}

Verdict JudgeOneSlope(const Evidence& evidence) {
  const Case& c = evidence.cases[0];
  const int64_t head = DrawFor(c, kSlopeSalt).Below(c.problem.q_heads);
  RelationOptions options;
  options.exact = evidence.contract.Promises(Invariance::kHeads);
  options.rows = [=](const Row& row) { return row.head == head; };
  return SameResult(evidence, 0, 1, "other heads' slopes changed this head's rows", options);
}

// --- Sinks ---

Case WithSinks(Case c, double value) {
  c.problem.sinks.emplace(static_cast<size_t>(c.problem.q_heads), value);
  return c;
}

// Without positions that could take scores as far down as the sink.
Case Mild(const Case& original) {
  Case c = WithBias(Lively(original), BiasFamily::kSmallIntegers);
  c.problem.alibi_slopes.reset();
  return c;
}

// -2^20: e^(sink - score) is 0 in every type.
Derived SinkFarBelowAndNone(const Case& original, const Contract&) {
  Case none = AsLiteral(Mild(original));
  none.problem.sinks.reset();
  return Of(none, WithSinks(none, -0x1p20));
}

Verdict JudgeFarBelow(const Evidence& evidence) {
  const Problem& p = evidence.cases[0].problem;
  RelationOptions options;
  options.rows = [&](const Row& row) { return !SeesNoKey(p, row); };
  return SameResult(evidence, 0, 1, "a sink far below every score is as good as none", options);
}

// 2^20: every weight is 0 in every type.
Derived SinkFarAbove(const Case& original, const Contract&) {
  return Of(WithSinks(Mild(WithoutScoresOutput(original)), 0x1p20));
}

Verdict JudgeFarAbove(const Evidence& evidence) {
  const Problem& p = evidence.cases[0].problem;
  return JudgeOrdinaryRows(evidence, [&](const Row& row) -> std::optional<Verdict> {
    for (int64_t d = 0; d < p.value_dim; ++d) {
      const Seen seen = OutOf(evidence, 0, row, d);
      if (auto failed = Expect(evidence, 0, "out", row, d, seen.got, 0, seen.bound,
                               "a sink far above every score leaves nothing to the keys")) {
        return failed;
      }
    }
    return std::nullopt;
  });
}

// Scores 0, V 1 and sink 0: n visible keys give n / (n + 1).
Derived SinkOfZero(const Case& original, const Contract&) {
  Case c = WithoutScoreFeatures(WithoutScoresOutput(WithoutFp8(original)));
  c = WithBias(WithScores(std::move(c), ScoreFamily::kZero), BiasFamily::kZero);
  return Of(WithSinks(WithValues(std::move(c), ValueFamily::kOnes), 0));
}

Verdict JudgeShare(const Evidence& evidence) {
  const Problem& p = evidence.cases[0].problem;
  return JudgeOrdinaryRows(evidence, [&](const Row& row) -> std::optional<Verdict> {
    const double keys = CountVisibleKeys(p, row);
    for (int64_t d = 0; d < p.value_dim; ++d) {
      const Seen seen = OutOf(evidence, 0, row, d);
      const double due = keys / (keys + 1);
      if (auto failed = Expect(evidence, 0, "out", row, d, seen.got, due, seen.bound + 0x1p-53,
                               "scores and sink are zero and V is one, so n visible keys give "
                               "n / (n + 1)")) {
        return failed;
      }
    }
    return std::nullopt;
  });
}

// A row that sees no key has the sink alone.
Derived SinkInARowWithoutKeys(const Case& original, const Contract&) {
  Case c = EnsureSinks(WithExplicitMask(WithoutScoresOutput(original)));
  const Problem& p = c.problem;
  if (p.batch * p.q_heads * p.q_len == 0) return NotApplicable("no rows");
  Draw draw = DrawFor(original, 0x51E);
  const auto row = draw.Below(p.batch * p.q_heads * p.q_len);
  std::fill_n(c.problem.mask->bits.begin() + row * p.kv_len, p.kv_len, uint8_t{0});
  c.problem.want_lse = true;
  return Of(std::move(c));
}

Verdict JudgeSinkAlone(const Evidence& evidence) {
  const Problem& p = evidence.cases[0].problem;
  return JudgeOrdinaryRows(evidence, [&](const Row& row) -> std::optional<Verdict> {
    if (!SeesNoKey(p, row)) return std::nullopt;
    constexpr std::string_view kWhy = "the row sees no key, so the sink takes all";
    for (int64_t d = 0; d < p.value_dim; ++d) {
      const double got = OutOf(evidence, 0, row, d).got;
      if (auto failed = Expect(evidence, 0, "out", row, d, got, 0, 0, kWhy)) return failed;
    }
    if (evidence.outcomes[0].lse.empty()) return std::nullopt;
    const Seen lse = LseOf(evidence, 0, row);
    const double sink = (*p.sinks)[static_cast<size_t>(row.head)];
    return Expect(evidence, 0, "lse", row, 0, lse.got, sink, lse.bound, kWhy);
  });
}

// --- A bias of f32 ---

Derived WideAndNarrowBias(const Case& original, const Contract&) {
  Case narrow = WithoutScoresOutput(original);
  if (narrow.problem.dtype == DType::kF32 || narrow.problem.dtype == DType::kF64) {
    return NotApplicable("the inputs are not of 16 bits");
  }
  narrow.problem.bias_dtype.reset();
  narrow = AsLiteral(EnsureBias(std::move(narrow)));  // values of the narrow type
  Case wide = narrow;
  wide.problem.bias_dtype = DType::kF32;
  return Of(std::move(narrow), std::move(wide));
}

Verdict JudgeWideBias(const Evidence& evidence) {
  return SameResult(evidence, 0, 1, "the same bias gives another answer as f32");
}

// --- The scores output ---

template <ScoreMode kMode>
Derived AskForScores(const Case& original, const Contract&) {
  Case c = original;
  c.problem.want_scores = kMode;
  return Of(std::move(c));
}

Verdict JudgeScores(const Evidence& evidence) {
  return MatchesReference(evidence, 0, "the scores asked for are not those");
}

template <ScoreMode kMode>
std::string NeedsScores(const Contract& c) {
  return c.scores.count(kMode) != 0 ? "" : "the contract offers no such scores";
}

std::string NeedsAnyScores(const Contract& c) {
  return c.scores.empty() ? "the contract offers no scores" : "";
}

Derived WithoutAndWithScores(const Case& original, const Contract& contract) {
  Case with = original;
  const std::vector<ScoreMode> offered(contract.scores.begin(), contract.scores.end());
  with.problem.want_scores = DrawFor(original, 0x5C04).Pick(offered);
  return Of(WithoutScoresOutput(original), with);
}

Verdict JudgeAsking(const Evidence& evidence) {
  return SameResult(evidence, 0, 1, "the result depends on whether scores are asked for");
}

constexpr std::array<Property, 14> kProperties = {{
    {"scores.softcap_comes_where_the_contract_says",
     "the softcap acts before the bias, or after it, as declared", Exactness::kBound,
     Rung::kWithinBound, "softcap", Needs<Feature::kSoftcap>, CapAndBias, JudgeCap},
    {"scores.a_huge_softcap_equals_none", "a softcap far above every score changes nothing",
     Exactness::kBound, Rung::kWithinBound, "softcap", Needs<Feature::kSoftcap>, HugeCapAndNone,
     JudgeHugeCap},
    {"scores.alibi_equals_explicit_bias", "ALiBi slopes give what the bias -slope * distance gives",
     Exactness::kBound, Rung::kWithinBound, "alibi, bias", AllOf<Needs<Feature::kAlibi>, NeedsBias>,
     SlopesAndBias, JudgeSlopes},
    {"scores.alibi_slopes_go_by_head", "other heads' slopes change no row of a head",
     Exactness::kBitwise, Rung::kWithinBound, "alibi", Needs<Feature::kAlibi>, OwnAndOneSlope,
     JudgeOneSlope},
    {"scores.a_sink_far_below_changes_nothing", "a sink far below every score equals none",
     Exactness::kBound, Rung::kWithinBound, "sinks", Needs<Feature::kSinks>, SinkFarBelowAndNone,
     JudgeFarBelow},
    {"scores.a_sink_far_above_takes_all", "a sink far above every score leaves an output of zero",
     Exactness::kBound, Rung::kWithinBound, "sinks", Needs<Feature::kSinks>, SinkFarAbove,
     JudgeFarAbove},
    {"scores.a_sink_takes_its_share",
     "with scores and sink 0 and V = 1, n visible keys give n / (n + 1)", Exactness::kBound,
     Rung::kWithinBound, "sinks", Needs<Feature::kSinks>, SinkOfZero, JudgeShare},
    {"scores.a_sink_alone_gives_zero", "a row that sees no key gives 0, and the sink as its lse",
     Exactness::kExact, Rung::kMaskCorrect, "sinks and a mask",
     AllOf<Needs<Feature::kSinks>, NeedsMask>, SinkInARowWithoutKeys, JudgeSinkAlone},
    {"scores.a_wide_bias_equals_a_narrow_one",
     "a bias gives the same as f32 and as the inputs' type", Exactness::kBound, Rung::kWithinBound,
     "bias_f32", AllOf<NeedsBias, Needs<Feature::kBiasF32>>, WideAndNarrowBias, JudgeWideBias},
    {"scores.raw_equal_the_reference", "the raw scores output is scale * q.k of every key",
     Exactness::kBound, Rung::kWithinBound, "scores raw", NeedsScores<ScoreMode::kRaw>,
     AskForScores<ScoreMode::kRaw>, JudgeScores},
    {"scores.capped_equal_the_reference", "the capped scores output is that after the softcap",
     Exactness::kBound, Rung::kWithinBound, "scores capped", NeedsScores<ScoreMode::kCapped>,
     AskForScores<ScoreMode::kCapped>, JudgeScores},
    {"scores.biased_equal_the_reference",
     "the biased scores output is that after bias and hiding, -inf where hidden", Exactness::kBound,
     Rung::kWithinBound, "scores biased", NeedsScores<ScoreMode::kBiased>,
     AskForScores<ScoreMode::kBiased>, JudgeScores},
    {"scores.weights_equal_the_reference", "the weights as a scores output are the weights",
     Exactness::kBound, Rung::kWithinBound, "scores weights", NeedsScores<ScoreMode::kWeights>,
     AskForScores<ScoreMode::kWeights>, JudgeScores},
    {"scores.asking_changes_nothing_else",
     "out, lse and weights are the same whether scores are asked for or not", Exactness::kBound,
     Rung::kWithinBound, "scores", NeedsAnyScores, WithoutAndWithScores, JudgeAsking},
}};

}  // namespace

std::span<const Property> ScoresProperties() {
  return kProperties;
}

}  // namespace attest
