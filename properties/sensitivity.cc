// Sensitivity: nothing that is given is ignored. Each option is taken away (or changed), each visible
// key and value is changed, and wherever that moves the reference by more than both calls' bounds the
// kernel's result must move too. Has caught: masks dropped on one path (facts of thirteen reports),
// softcap left out, jax#32300 (window ignored without a mask).
#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "properties/derive.h"
#include "properties/features.h"
#include "properties/harness/judge/outputs.h"
#include "properties/judging.h"

namespace attest {
namespace {

enum class Option {
  kMask,
  kBias,
  kCausal,
  kDiagonal,
  kWindow,
  kKeyLengths,
  kPrefix,
  kDocuments,
  kBlockMask,
  kScale,
  kSoftcap,
  kAlibi,
  kSinks,
  kDropout,
};

std::string_view WordsFor(Option option) {
  constexpr std::string_view kWords[] = {
      "the boolean mask", "the additive mask", "causality",   "the diagonal's offset",
      "the window",       "the key lengths",   "the prefix",  "the documents",
      "the block mask",   "the scale",         "the softcap", "the ALiBi slopes",
      "the sinks",        "the dropout mask"};
  return kWords[static_cast<size_t>(option)];
}

// The case with the option, so that it does something.
Case With(Option option, Case c, const Contract& contract) {
  switch (option) {
    case Option::kMask:
      return EnsureMask(std::move(c));
    case Option::kBias:
      return WithBias(EnsureBias(std::move(c)), BiasFamily::kNormal);
    case Option::kCausal:
    case Option::kDiagonal:
      return EnsureCausal(std::move(c), contract);
    case Option::kWindow:
      return EnsureWindow(std::move(c), contract);
    case Option::kKeyLengths:
      return EnsureLengths(std::move(c), contract);
    case Option::kPrefix:
      return EnsurePrefix(std::move(c), contract);
    case Option::kDocuments:
      return EnsureDocuments(std::move(c));
    case Option::kBlockMask:
      return EnsureBlockMask(std::move(c));
    case Option::kSoftcap:
      c.problem.softcap = 1;  // below most scores
      return c;
    case Option::kAlibi:
      return EnsureAlibi(std::move(c), contract);
    case Option::kSinks:
      return EnsureSinks(std::move(c));
    case Option::kDropout:
      return EnsureDropout(std::move(c));
    case Option::kScale:
      break;
  }
  c.problem.scale = c.problem.EffectiveScale();
  return c;
}

void MoveDiagonal(Problem& p) {
  if (p.diagonal_offset.empty()) p.diagonal_offset.assign(static_cast<size_t>(p.batch), 0);
  for (int64_t& offset : p.diagonal_offset) offset += offset < kMaxSize ? 1 : -1;
}

// The case with the option taken away; the scale halved, the diagonal moved by one.
Case Without(Option option, Case c) {
  Problem& p = c.problem;
  switch (option) {
    case Option::kMask:
      p.mask.reset();
      break;
    case Option::kBias:
      return WithoutBias(std::move(c));
    case Option::kCausal:
      p.causal = false;
      break;
    case Option::kDiagonal:
      MoveDiagonal(p);
      break;
    case Option::kWindow:
      p.window = {};
      break;
    case Option::kKeyLengths:
      p.key_lengths.reset();
      break;
    case Option::kPrefix:
      p.prefix_lengths.reset();
      break;
    case Option::kDocuments:
      p.documents.reset();
      break;
    case Option::kBlockMask:
      p.block_mask.reset();
      break;
    case Option::kScale:
      p.scale = *p.scale / 2;
      break;
    case Option::kSoftcap:
      p.softcap = 0;
      break;
    case Option::kAlibi:
      p.alibi_slopes.reset();
      break;
    case Option::kSinks:
      p.sinks.reset();
      break;
    case Option::kDropout:
      p.dropout.reset();
      break;
  }
  return c;
}

// Where every call is causal, the lengths that can be given as a mask are those that hide nothing.
std::string NeedsMovableLengths(const Contract& c) {
  if (c.Has(Feature::kKeyLengths) || c.causal == CausalCalls::kOptional) return NeedsLengths(c);
  return "the contract offers no key lengths, and no call that is not causal";
}

// A single query that stands at the last key sees every key.
std::string NeedsHidingCausality(const Contract& c) {
  if (std::string reason = NeedsCausal(c); !reason.empty()) return reason;
  const bool stands_at_the_end = std::ranges::all_of(c.causal_offset, [](CausalOffset rule) {
    return rule == CausalOffset::kKvLenMinusQLen || rule == CausalOffset::kKeyLengthMinusQLen;
  });
  const bool hides = c.limits.max_q_len != 1 || !stands_at_the_end;
  return hides ? "" : "causality hides nothing from a single query at the last key";
}

template <Option kOption>
Derived WithAndWithout(const Case& original, const Contract& contract) {
  const Case lively = WithoutScoresOutput(Lively(original));
  const Case with = AsLiteral(With(kOption, lively, contract));
  return Of(with, Realign(Without(kOption, with), contract));
}

// The same value came back twice where two were due: it is wrong in one call at least, and the call
// that it lies further from is named.
Verdict FailUnmoved(const Evidence& evidence, std::string_view output,
                    const std::array<int64_t, 4>& at, const std::array<double, 2>& due, double got,
                    std::string_view what) {
  const size_t call = std::abs(got - due[0]) > std::abs(got - due[1]) ? 0 : 1;
  Verdict failed = FailAt(
      evidence.cases[call].problem, output, at, due[call], got, 0,
      fmt::format("two answers were due, and the same bits came twice: no effect of {} is seen",
                  what));
  failed.call = call;
  return failed;
}

// Whether an element that had to move did not; `must_move` says whether any had to.
std::optional<Verdict> JudgeMovedRow(const Evidence& evidence, const Row& row,
                                     std::string_view what, bool& must_move) {
  for (const Output& output : kOutputs) {
    const Array& a = evidence.outcomes[0].*output.observed;
    const Array& b = evidence.outcomes[1].*output.observed;
    if (a.empty() || b.empty() || output.name == "scores") continue;
    const Array& due_a = evidence.oracle.ReferenceOf(0).*output.expected;
    const Array& due_b = evidence.oracle.ReferenceOf(1).*output.expected;
    for (int64_t lane = 0; lane < a.shape[3]; ++lane) {
      const size_t at = a.Index(row.batch, row.head, row.query, lane);
      const double bound = output.number(evidence.oracle.BoundOf(0).WorstOf(row), lane) +
                           output.number(evidence.oracle.BoundOf(1).WorstOf(row), lane);
      if (!(std::abs(due_a.values[at] - due_b.values[at]) > bound)) continue;
      must_move = true;
      if (!SameBits(a.values[at], b.values[at])) continue;
      return FailUnmoved(evidence, output.name, {row.batch, row.head, row.query, lane},
                         {due_a.values[at], due_b.values[at]}, a.values[at], what);
    }
  }
  return std::nullopt;
}

Verdict JudgeMoved(const Evidence& evidence, std::string_view what) {
  int64_t unmoved = 0;
  Verdict verdict = JudgeOrdinaryRows(evidence, [&](const Row& row) {
    bool must_move = false;
    auto failed = JudgeMovedRow(evidence, row, what, must_move);
    unmoved += !must_move;
    return failed;
  });
  verdict.uninformative_rows += unmoved;
  return verdict;
}

template <Option kOption>
Verdict JudgeOption(const Evidence& evidence) {
  return JudgeMoved(evidence, WordsFor(kOption));
}

// One visible key's row of K or V far from what it was.
template <DataTensor kTensor>
Derived WithOneRowChanged(const Case& original, const Contract&) {
  const Case c = AsLiteral(WithoutScoresOutput(Lively(original)));
  const Problem& p = c.problem;
  std::vector<Row> seeing;
  ForEachRow(p, [&](const Row& row) {
    if (!SeesNoKey(p, row)) seeing.push_back(row);
  });
  if (seeing.empty()) return NotApplicable("no row sees a key");
  Draw draw = DrawFor(c, 0x5E45);
  const Row row = draw.Pick(seeing);
  const int64_t key = draw.Pick(VisibleKeys(p, row));
  Array array = c.literals.at(kTensor);
  for (int64_t d = 0; d < array.shape[3]; ++d) {
    double& x = array.At(row.batch, row.head / p.heads_per_kv_head(), key, d);
    x = x < 0 ? x + 4 : x - 4;
  }
  return Of(c, WithData(c, kTensor, std::move(array)));
}

template <DataTensor kTensor>
Verdict JudgeRowChanged(const Evidence& evidence) {
  return JudgeMoved(evidence, kTensor == DataTensor::kK ? "a visible key" : "a visible value");
}

std::string NeedsAnyDiagonal(const Contract& c) {
  return c.causal_offset.count(CausalOffset::kExplicit) != 0
             ? ""
             : "the contract takes no diagonal offsets";
}

template <Option kOption>
constexpr Property Row(std::string_view id, std::string_view claim, std::string_view needs,
                       std::string (*unsupported)(const Contract&)) {
  return {id,    claim,       Exactness::kBound,       Rung::kWithinBound,
          needs, unsupported, WithAndWithout<kOption>, JudgeOption<kOption>};
}

constexpr std::array<Property, 16> kProperties = {{
    {"sensitivity.every_visible_key_matters",
     "changing a visible key moves each result that the reference moves", Exactness::kBound,
     Rung::kWithinBound, "nothing", AlwaysSupported, WithOneRowChanged<DataTensor::kK>,
     JudgeRowChanged<DataTensor::kK>},
    {"sensitivity.every_visible_value_matters",
     "changing a visible value moves each result that the reference moves", Exactness::kBound,
     Rung::kWithinBound, "nothing", AlwaysSupported, WithOneRowChanged<DataTensor::kV>,
     JudgeRowChanged<DataTensor::kV>},
    Row<Option::kMask>("sensitivity.the_boolean_mask_matters",
                       "taking the boolean mask away moves what it should", "a mask", NeedsMask),
    Row<Option::kBias>("sensitivity.the_additive_mask_matters",
                       "taking the additive mask away moves what it should", "an additive mask",
                       NeedsBias),
    Row<Option::kCausal>("sensitivity.causality_matters",
                         "taking causality away moves what it should", "causal",
                         NeedsHidingCausality),
    Row<Option::kDiagonal>("sensitivity.the_diagonal_offset_matters",
                           "moving the diagonal by one moves what it should",
                           "causal, causal_offset explicit", AllOf<NeedsCausal, NeedsAnyDiagonal>),
    Row<Option::kWindow>("sensitivity.the_window_matters",
                         "taking the window away moves what it should", "window", NeedsWindow),
    Row<Option::kKeyLengths>("sensitivity.key_lengths_matter",
                             "taking key lengths away moves what it should",
                             "key_lengths or a mask", NeedsMovableLengths),
    Row<Option::kPrefix>("sensitivity.the_prefix_matters",
                         "taking the prefix away moves what it should",
                         "causal, prefix_lengths or a mask",
                         AllOf<NeedsHidingCausality, NeedsOrMask<Feature::kPrefixLengths>>),
    Row<Option::kDocuments>("sensitivity.documents_matter",
                            "taking documents away moves what it should", "documents or a mask",
                            NeedsOrMask<Feature::kDocuments>),
    Row<Option::kBlockMask>("sensitivity.the_block_mask_matters",
                            "taking the block mask away moves what it should",
                            "block_mask or a mask", NeedsOrMask<Feature::kBlockMask>),
    Row<Option::kScale>("sensitivity.the_scale_matters", "halving the scale moves what it should",
                        "nothing", AlwaysSupported),
    Row<Option::kSoftcap>("sensitivity.the_softcap_matters",
                          "taking the softcap away moves what it should", "softcap",
                          Needs<Feature::kSoftcap>),
    Row<Option::kAlibi>("sensitivity.alibi_slopes_matter",
                        "taking ALiBi slopes away moves what it should", "alibi",
                        Needs<Feature::kAlibi>),
    Row<Option::kSinks>("sensitivity.sinks_matter", "taking sinks away moves what it should",
                        "sinks", Needs<Feature::kSinks>),
    Row<Option::kDropout>("sensitivity.the_dropout_mask_matters",
                          "taking dropout away moves what it should", "dropout",
                          Needs<Feature::kDropout>),
}};

}  // namespace

std::span<const Property> SensitivityProperties() {
  return kProperties;
}

}  // namespace attest
