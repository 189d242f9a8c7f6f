// The backward pass: dq, dk, dv, dbias and dsink are the gradients of sum(dout * out), and what is hidden
// has no part in them. Any case becomes one that wants gradients, plain where no backward call can carry it. Has
// caught: pytorch#41508 (NaN from empty rows), levanter#449 (dk not summed over the query heads),
// TransformerEngine#3216 (dq five times too large), flash-attention#443.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "properties/derive.h"
#include "properties/features.h"
#include "properties/gradient_cases.h"
#include "properties/harness/case/gradients.h"
#include "properties/harness/judge/compare.h"
#include "properties/harness/judge/gradients.h"

namespace attest {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

bool IsOfKey(const GradientOutput& output) {
  return output.by == GradientBy::kKey;
}

// What scores and weights go through on their way is rare among cases, and has a derivative of its own.
Case WithScoreFeatures(Case c, const Contract& backward) {
  Draw draw = DrawFor(c, 0x5C0);
  const auto adds = [&](Feature feature) { return draw.Percent(20) && backward.Has(feature); };
  if (adds(Feature::kSoftcap)) c = EnsureSoftcap(std::move(c));
  if (adds(Feature::kAlibi)) c = EnsureAlibi(std::move(c), backward);
  if (adds(Feature::kSinks)) c = EnsureSinks(std::move(c));
  if (adds(Feature::kBiasGradient)) c = EnsureBias(std::move(c));
  if (adds(Feature::kDropout)) c = EnsureDropout(std::move(c));
  return c;
}

Derived Alone(const Case& original, const Contract& contract) {
  return FromGradients(original, contract, [&](const Case& c) {
    const Contract backward = BackwardContract(contract);
    Case alone = WithScoreFeatures(c, backward);
    if (backward.Has(Feature::kPacked) && DrawFor(c, 0x9AC).OneIn(4)) {
      alone = Packable(std::move(alone), backward);
      alone.storage.packed = true;
    }
    return Of(std::move(alone));
  });
}

// What can hide keys or rows, and how a case comes to have it.
struct Hiding {
  Feature feature;
  Case (*ensure)(Case, const Contract&);
};

template <Case (*kEnsure)(Case)>
Case Ensured(Case c, const Contract&) {
  return kEnsure(std::move(c));
}

constexpr size_t kKindsOfACase = 3;
constexpr Hiding kHidings[] = {{Feature::kCausal, EnsureCausal},
                               {Feature::kWindow, EnsureWindow},
                               {Feature::kKeyLengths, EnsureLengths},
                               {Feature::kQueryLengths, Ensured<EnsureQueryLengths>},
                               {Feature::kPrefixLengths, EnsurePrefix},
                               {Feature::kDocuments, Ensured<EnsureDocuments>},
                               {Feature::kBlockMask, Ensured<EnsureBlockMask>},
                               {Feature::kMask, Ensured<EnsureMask>},
                               {Feature::kBias, Ensured<EnsureBias>}};

// As many queries as keys, where a mask that is read the other way round stays inside itself.
Case Square(Case c) {
  const std::vector<int64_t> both = IndexRange(0, std::min(c.problem.q_len, c.problem.kv_len));
  return Select(Select(std::move(c), Axis::kQLen, both), Axis::kKvLen, both);
}

// A backward pass has loops of its own and reads each mask once more: some kinds of mask, each alone.
Derived OneKindOfMask(const Case& original, const Contract& contract) {
  return FromGradients(original, contract, [&](const Case& c) {
    const Contract backward = BackwardContract(contract);
    std::vector<Hiding> offered;
    for (const Hiding& hiding : kHidings)
      if (backward.Has(hiding.feature)) offered.push_back(hiding);
    if (offered.empty()) return NotApplicable("backward calls carry no mask");
    Draw draw = DrawFor(c, 0x41D);
    Case open = WithoutHiding(WithoutScoreFeatures(c));
    open.storage = {};
    if (draw.Percent(60)) open = Square(std::move(open));
    std::vector<Case> cases;
    for (size_t n = std::min(kKindsOfACase, offered.size()); n > 0; --n) {
      const auto at = static_cast<size_t>(draw.Below(std::ssize(offered)));
      cases.push_back(offered[at].ensure(open, backward));
      offered.erase(offered.begin() + static_cast<std::ptrdiff_t>(at));
    }
    return Of(std::move(cases));
  });
}

Verdict JudgeReference(const Evidence& evidence) {
  constexpr std::string_view kWhy = "it does not match the reference's gradient";
  Verdict verdict = MatchesGradient(evidence, 0, kWhy);
  for (size_t n = 1; n < evidence.cases.size(); ++n) {
    verdict = Worst(std::move(verdict), MatchesGradient(evidence, n, kWhy));
  }
  return verdict;
}

// --- Hidden keys ---

// Keys that no row sees, padded by length in every other case that could be.
Case WithUnseenKeys(const Case& c, const Contract& contract) {
  const Contract backward = BackwardContract(contract);
  const bool can_pad = NeedsLengths(backward).empty() && DrawFor(c, 0x0DD).Percent(60);
  return can_pad ? EnsureLengths(c, backward) : c;
}

bool HasUnseenKey(const Problem& p) {
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t h = 0; h < p.kv_heads; ++h)
      for (int64_t j = 0; j < p.kv_len; ++j) {
        if (!IsSeen(p, b, h, j)) return true;
      }
  return false;
}

bool IsUnseen(const Problem& p, const GradientOutput& output, const GradientIndex& at) {
  return IsOfKey(output) && !IsSeen(p, at[0], at[1], at[2]);
}

Derived WithSomeUnseen(const Case& original, const Contract& contract) {
  return FromGradients(original, contract, [&](const Case& seen) {
    const Case c = WithUnseenKeys(seen, contract);
    return HasUnseenKey(c.problem) ? Of(c) : NotApplicable("some row sees each key");
  });
}

Verdict JudgeUnseen(const Evidence& evidence) {
  const Problem& p = evidence.cases[0].problem;
  return IsZeroGradient(evidence, 0, "a key that no row sees must get nothing",
                        [&](const GradientOutput& output, const GradientIndex& at) {
                          return IsUnseen(p, output, at);
                        });
}

// K and V of the keys that no row of `p`, the case's problem or one that sees more, sees, replaced element by element.
template <typename Value>
Case WithUnseenData(const Case& c, const Problem& p, Value&& value) {
  Case changed = AsLiteral(c);
  for (const DataTensor tensor : {DataTensor::kK, DataTensor::kV}) {
    Array array = changed.literals.at(tensor);
    for (int64_t b = 0; b < array.shape[0]; ++b)
      for (int64_t h = 0; h < array.shape[1]; ++h)
        for (int64_t j = 0; j < array.shape[2]; ++j) {
          if (IsSeen(p, b, h, j)) continue;
          for (int64_t d = 0; d < array.shape[3]; ++d) array.At(b, h, j, d) = value();
        }
    changed = WithData(std::move(changed), tensor, std::move(array));
  }
  return changed;
}

template <bool kIsPoison>
Derived ChangeUnseen(const Case& original, const Contract& contract) {
  return FromGradients(original, contract, [&](const Case& seen) {
    const Case c = WithUnseenKeys(seen, contract);
    Problem p = c.problem;
    // Rows of padding are not promised to be kept from the NaN of a key that they see.
    if (kIsPoison) p.query_lengths.reset();
    if (!HasUnseenKey(p)) return NotApplicable("some row sees each key");
    Draw draw = DrawFor(c, 0xBAD);
    return Of(c, WithUnseenData(c, p, [&] {
                return kIsPoison ? kNaN : static_cast<double>(draw.Between(-9, 9));
              }));
  });
}

// The bounds leave open what poison may reach: rows that it is not promised to be kept from.
Verdict JudgeChange(const Evidence& evidence) {
  GradientRelation relation;
  relation.exact = evidence.contract.Promises(Invariance::kHiddenValues);
  return SameGradient(evidence, 0, 1, "the data of a key that no row sees took part", relation);
}

std::string NeedsPoisonSafety(const Contract& c) {
  if (std::string reason = NeedsBackward(c); !reason.empty()) return reason;
  return c.poison_safe.empty() ? "the contract leaves poison in hidden keys and values open" : "";
}

// --- Rows ---

// A row that is no padding, drawn by the case's seed.
Row ChosenRow(const Case& c) {
  const Problem& p = c.problem;
  std::vector<Row> rows;
  ForEachRow(p, [&](const Row& row) {
    if (!IsPaddedQuery(p, row)) rows.push_back(row);
  });
  return rows.empty() ? Row{-1, 0, 0} : DrawFor(c, 0x0F0).Pick(rows);
}

// The case with other data, not 0, in one row of `tensor`.
Case WithOtherRow(const Case& c, DataTensor tensor, const Row& row, uint64_t salt) {
  Case other = AsLiteral(c);
  Array array = other.literals.at(tensor);
  Draw draw = DrawFor(c, salt);
  for (int64_t d = 0; d < array.shape[3]; ++d) {
    double& x = array.At(row.batch, row.head, row.query, d);
    x = x == 3 ? -2 : static_cast<double>(draw.Between(1, 2)) + (x > 0 && x < 3 ? 2 : 0);
  }
  return WithData(std::move(other), tensor, std::move(array));
}

Derived OneRowsDout(const Case& original, const Contract& contract) {
  return FromGradients(original, contract, [](const Case& c) {
    const Row row = ChosenRow(c);
    if (row.batch < 0) return NotApplicable("every row is padding");
    return Of(c, WithOtherRow(c, DataTensor::kDout, row, 0x0D1));
  });
}

// Whether the row has no part in an element of the gradients.
bool IsApart(const Problem& p, const Row& row, const GradientOutput& output,
             const GradientIndex& at) {
  const auto hides = [&](int64_t key) { return !Visible(p, row, key); };
  switch (output.by) {
    case GradientBy::kRow:
      return Row{at[0], at[1], at[2]} != row;
    case GradientBy::kKey:
      return at[0] != row.batch || at[1] != row.head / p.heads_per_kv_head() || hides(at[2]);
    case GradientBy::kBias:
      return !HasBiasElement(p, at, row, std::nullopt) || (p.bias->shape[3] != 1 && hides(at[3]));
    case GradientBy::kSink:
      return at[1] != row.head;
  }
  return false;
}

Verdict JudgeOneRow(const Evidence& evidence) {
  const Problem& p = evidence.cases[0].problem;
  const Row row = ChosenRow(evidence.cases[0]);
  GradientRelation relation;
  relation.exact = evidence.contract.Promises(Invariance::kHiddenValues) &&
                   evidence.contract.Promises(Invariance::kRerun);
  relation.filter = [&](const GradientOutput& output, const GradientIndex& at) {
    return IsApart(p, row, output, at);
  };
  return SameGradient(
      evidence, 0, 1,
      fmt::format("dout of batch {}, head {}, query {} reached what that row has no part in",
                  row.batch, row.head, row.query),
      relation);
}

// One row, first, middle or last, sees nothing; then with another q and dout of its own.
Derived WithBlindRow(const Case& original, const Contract& contract) {
  return FromGradients(original, contract, [](const Case& seeing) {
    Case c = WithExplicitMask(seeing);
    c.problem.query_lengths.reset();
    const Row row = ChosenRow(c);
    for (int64_t j = 0; j < c.problem.kv_len; ++j) {
      const int64_t at =
          ((row.batch * c.problem.q_heads + row.head) * c.problem.q_len + row.query) *
              c.problem.kv_len +
          j;
      c.problem.mask->bits[static_cast<size_t>(at)] = 0;
    }
    const Case other = WithOtherRow(c, DataTensor::kDout, row, 0x0D2);
    return Of(c, WithOtherRow(other, DataTensor::kQ, row, 0x0D3));
  });
}

bool IsBlind(const Problem& p, const GradientOutput& output, const GradientIndex& at) {
  return output.by == GradientBy::kRow && SeesNoKey(p, {at[0], at[1], at[2]});
}

Verdict JudgeBlindRow(const Evidence& evidence) {
  const Problem& p = evidence.cases[0].problem;
  const Verdict zero = IsZeroGradient(evidence, 0, "a row that sees no key has no gradient",
                                      [&](const GradientOutput& output, const GradientIndex& at) {
                                        return IsBlind(p, output, at);
                                      });
  if (zero.kind == VerdictKind::kFail) return zero;
  GradientRelation relation;
  relation.exact = evidence.contract.Promises(Invariance::kHiddenValues) &&
                   evidence.contract.Promises(Invariance::kRerun);
  return Worst(zero, SameGradient(evidence, 0, 1, "q and dout of a row that sees no key took part",
                                  relation));
}

// --- dout ---

// The case with dout times `factor`; nullopt where that is no number of its type.
std::optional<Case> WithScaledDout(const Case& c, double factor) {
  Array dout = Materialise(c).dout;
  for (double& x : dout.values) {
    x *= factor;
    if (std::isnan(x) || RoundedFor(c.problem, DataTensor::kDout, x) != x) return std::nullopt;
  }
  return WithData(c, DataTensor::kDout, std::move(dout));
}

Derived WithZeroDout(const Case& original, const Contract& contract) {
  return FromGradients(original, contract, [](const Case& c) {
    const auto zero = WithScaledDout(c, 0);
    return zero ? Of(*zero) : NotApplicable("dout is not finite");
  });
}

Verdict JudgeZero(const Evidence& evidence) {
  return IsZeroGradient(evidence, 0, "dout is 0 everywhere",
                        [](const GradientOutput&, const GradientIndex&) { return true; });
}

constexpr double kFactor = 2;

Derived OnceAndTwice(const Case& original, const Contract& contract) {
  return FromGradients(original, contract, [](const Case& c) {
    const auto twice = WithScaledDout(c, kFactor);
    return twice ? Of(c, *twice) : NotApplicable("twice dout is beyond its type");
  });
}

Verdict JudgeTwice(const Evidence& evidence) {
  GradientRelation relation;
  relation.factor = kFactor;
  return SameGradient(evidence, 0, 1, "twice dout does not give twice the gradient", relation);
}

// --- Heads, padding, runs ---

Derived SharedAndRepeated(const Case& original, const Contract& contract) {
  return FromGradients(original, contract, [](const Case& c) {
    const Problem& p = c.problem;
    if (p.heads_per_kv_head() < 2) return NotApplicable("each query head has a kv head of its own");
    std::vector<int64_t> kv_head_of;
    for (int64_t h = 0; h < p.q_heads; ++h) kv_head_of.push_back(h / p.heads_per_kv_head());
    const Case shared = AsLiteral(c);
    Case repeated = shared;
    repeated.problem.kv_heads = p.q_heads;
    for (const DataTensor tensor : {DataTensor::kK, DataTensor::kV}) {
      repeated.literals[tensor] = SelectArray(shared.literals.at(tensor), 1, kv_head_of);
    }
    return Of(shared, std::move(repeated));
  });
}

// Each element of dk and dv of the first case is the sum of those of its heads in the second.
Verdict JudgeSums(const Evidence& evidence) {
  const Problem& p = evidence.cases[0].problem;
  const int64_t ratio = p.heads_per_kv_head();
  const auto at_head = [](const Array& array, const GradientIndex& at, int64_t head) {
    return array.At(at[0], head, at[2], at[3]);
  };
  Verdict verdict;
  ForEachGradient(evidence, 0, [&](const GradientOutput& output, const GradientIndex& at) {
    if (!IsOfKey(output)) return true;
    double sum = 0;
    double bound = at_head(evidence.oracle.GradientBoundOf(0).*output.due, at, at[1]);
    for (int64_t h = at[1] * ratio; h < (at[1] + 1) * ratio; ++h) {
      sum += at_head(evidence.outcomes[1].*output.observed, at, h);
      bound += at_head(evidence.oracle.GradientBoundOf(1).*output.due, at, h);
    }
    verdict.rows += at[3] == 0 ? 1 : 0;
    const double got = at_head(evidence.outcomes[0].*output.observed, at, at[1]);
    if (WithinBound(got, sum, bound)) return true;
    const int64_t rows = verdict.rows;
    verdict =
        FailGradientAt(evidence, 0, output, at, sum, got, bound,
                       "a kv head's gradient is not the sum over its query heads", "is their sum");
    verdict.rows = rows;
    AddGradientCause(evidence, 0, verdict);
    return false;
  });
  return verdict;
}

Derived WithAndWithoutPadding(const Case& original, const Contract& contract) {
  return FromGradients(original, contract, [&](const Case& whole) {
    const Case c = AsLiteral(EnsureLengths(whole, BackwardContract(contract)));
    const auto& lengths = *c.problem.key_lengths;
    const int64_t longest = *std::ranges::max_element(lengths);
    if (longest == c.problem.kv_len) return NotApplicable("no key is padding in every item");
    return Of(c, Select(c, Axis::kKvLen, IndexRange(0, longest)));
  });
}

Verdict JudgePadding(const Evidence& evidence) {
  const int64_t kept = evidence.cases[1].problem.kv_len;
  GradientRelation relation;
  relation.exact = evidence.contract.Promises(Invariance::kKvLen);
  relation.filter = [=](const GradientOutput& output, const GradientIndex& at) {
    if (output.by == GradientBy::kBias) return at[3] < kept;
    return !IsOfKey(output) || at[2] < kept;
  };
  return SameGradient(evidence, 0, 1, "cutting off padded keys changed a gradient", relation);
}

Derived WithACallBetween(const Case& original, const Contract& contract) {
  return FromGradients(original, contract, [](const Case& c) {
    const Row row = ChosenRow(c);
    if (row.batch < 0) return NotApplicable("every row is padding");
    return Of(c, WithOtherRow(c, DataTensor::kDout, row, 0x0D4), c);
  });
}

Verdict JudgeRerun(const Evidence& evidence) {
  GradientRelation relation;
  relation.exact = evidence.contract.Promises(Invariance::kRerun);
  return SameGradient(evidence, 0, 2, "the same call gave other gradients after a different call",
                      relation);
}

Derived OneAndThreeThreads(const Case& original, const Contract& contract) {
  Derived derived = FromGradients(original, contract, [](const Case& c) { return Of(c, c); });
  if (!derived.cases.empty()) derived.settings = {{.threads = 1}, {.threads = 3}};
  return derived;
}

Verdict JudgeThreads(const Evidence& evidence) {
  GradientRelation relation;
  relation.exact = evidence.contract.Promises(Invariance::kThreads);
  return SameGradient(evidence, 0, 1, "three threads give other gradients than one", relation);
}

// Some keys are padding, which is easily left unwritten.
Derived AtBothEnds(const Case& original, const Contract& contract) {
  return FromGradients(original, contract, [&](const Case& c) {
    Case end = WithUnseenKeys(c, contract), begin = end;
    end.placement = Placement::kEnd;
    begin.placement = Placement::kBegin;
    return Of(std::move(end), begin);
  });
}

// The runner has failed every call that read, wrote or left unwritten what it should not have.
Verdict JudgeNoFault(const Evidence& evidence) {
  const Problem& p = evidence.cases[0].problem;
  return Pass(2 * p.batch * (p.q_heads * p.q_len + p.kv_heads * p.kv_len));
}

constexpr std::array<Property, 16> kProperties = {{
    {"gradients.match_the_reference", "every gradient lies within its derived bound",
     Exactness::kBound, Rung::kWithinBound, "backward", NeedsBackward, Alone, JudgeReference},
    {"gradients.of_each_mask_match_the_reference",
     "with one kind of mask alone every gradient lies within its derived bound", Exactness::kBound,
     Rung::kMaskCorrect, "backward", NeedsBackward, OneKindOfMask, JudgeReference},
    {"gradients.a_key_that_no_row_sees_gets_zero", "dk and dv of a key hidden from all rows are 0",
     Exactness::kExact, Rung::kHiddenMeansHidden, "backward", NeedsBackward, WithSomeUnseen,
     JudgeUnseen},
    {"gradients.hidden_data_does_not_matter",
     "changing a key and value that no row sees changes no bit of any gradient",
     Exactness::kBitwise, Rung::kHiddenMeansHidden, "backward", NeedsBackward, ChangeUnseen<false>,
     JudgeChange},
    {"gradients.poison_in_hidden_data_does_not_matter",
     "NaN in a key and value that no row sees changes no bit of any gradient", Exactness::kBitwise,
     Rung::kHiddenMeansHidden, "backward, poison_safe", NeedsPoisonSafety, ChangeUnseen<true>,
     JudgeChange},
    {"gradients.a_row_reaches_what_it_sees_alone",
     "another dout of one row changes no other row's dq, nor dk and dv of keys hidden from it",
     Exactness::kBitwise, Rung::kHiddenMeansHidden, "backward", NeedsBackward, OneRowsDout,
     JudgeOneRow},
    {"gradients.a_blind_row_has_none",
     "a row that sees no key has a dq of 0, not NaN, and its q and dout change nothing",
     Exactness::kBitwise, Rung::kMaskCorrect, "backward with a mask", OfBackward<NeedsMask>,
     WithBlindRow, JudgeBlindRow},
    {"gradients.zero_dout_gives_zero", "with dout 0 every gradient is 0", Exactness::kExact,
     Rung::kWithinBound, "backward", NeedsBackward, WithZeroDout, JudgeZero},
    {"gradients.are_linear_in_dout", "twice dout gives twice each gradient", Exactness::kBound,
     Rung::kWithinBound, "backward", NeedsBackward, OnceAndTwice, JudgeTwice},
    {"gradients.a_kv_head_sums_its_query_heads",
     "dk and dv of a shared kv head are the sums of those with a copy for each query head",
     Exactness::kBound, Rung::kWithinBound, "backward with gqa", OfBackward<Needs<Feature::kGqa>>,
     SharedAndRepeated, JudgeSums},
    {"gradients.a_shared_bias_sums_what_shares_it",
     "dbias of a bias that broadcasts is the sum of that with the bias spelled out",
     Exactness::kBound, Rung::kWithinBound, "backward with dbias and broadcast masks",
     OfBackward<NeedsSharedBiasGradient>, SharedAndSpeltOut, JudgeSharedBias},
    {"gradients.a_shift_of_every_score_has_none",
     "dbias over all keys of a row, with dsink over those of a head, sums to 0", Exactness::kBound,
     Rung::kWithinBound, "backward with dbias", OfBackward<Needs<Feature::kBiasGradient>>,
     WithABiasOfEachPair, JudgeShift},
    {"gradients.removing_padded_keys_changes_nothing",
     "cutting off keys that are padding in every item changes no gradient of the others",
     Exactness::kBound, Rung::kHiddenMeansHidden, "backward with key_lengths or a mask",
     OfBackward<NeedsLengths>, WithAndWithoutPadding, JudgePadding},
    {"gradients.are_the_same_bits_again", "the same call gives the same gradients after another",
     Exactness::kBitwise, Rung::kDeterministic, "backward", NeedsBackward, WithACallBetween,
     JudgeRerun},
    {"gradients.stay_within_their_memory",
     "the backward pass writes all of its gradients and nothing else, out and lse included",
     Exactness::kExact, Rung::kMemorySafe, "backward", NeedsBackward, AtBothEnds, JudgeNoFault},
    {"gradients.threads_change_no_bit",
     "kernels created with 1 and 3 threads give the same gradients", Exactness::kBitwise,
     Rung::kDeterministic, "backward", NeedsBackward, OneAndThreeThreads, JudgeThreads},
}};

}  // namespace

std::span<const Property> GradientsProperties() {
  return kProperties;
}

}  // namespace attest
