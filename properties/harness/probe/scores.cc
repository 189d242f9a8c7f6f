// What becomes of a score: scale, softcap and its order, ALiBi, sinks, dropout; the weights and
// scores that a kernel gives out.
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "attest/kernel.h"
#include "properties/harness/probe/experiments.h"

namespace attest::probe {
namespace {

using namespace contract_words;

constexpr double kInf = std::numeric_limits<double>::infinity();

double Position(int64_t j) {
  return static_cast<double>(j);
}

// Weights e^(factor * j).
Weigh Exponential(double factor) {
  return [factor](int64_t, int64_t, int64_t, int64_t j) { return std::exp(factor * Position(j)); };
}

void ProbeScale(Notebook& notes) {
  TinyCall call = notes.Plain(1, 3);
  call.scale = 2 * kLn2;
  const Trial trial = Try(notes, call, Exponential(2 * kLn2), Exponential(1 / std::sqrt(8.0)));
  const char* observed = trial.uptake == Uptake::kWorks     ? "honoured"
                         : trial.uptake == Uptake::kIgnored ? "ignored"
                                                            : "something else";
  Compare(notes, "scale option", observed, "honoured", true, "scale 2 ln 2: " + trial.evidence);
  TinyCall without = notes.Plain(1, 3);
  without.gives_scale = false;
  const Reading reading = notes.lab.Run(without);
  std::string word = "needed";
  if (reading.computed()) {
    const double natural = 1 / std::sqrt(static_cast<double>(notes.form.head_dim));
    word = HasWeights(reading, without, Exponential(natural)) ? "1/sqrt(head_dim)"
           : HasWeights(reading, without, Exponential(1))     ? "1"
                                                              : "something else";
  }
  Compare(notes, "default scale", word, "", false,
          reading.computed() ? "weights " + RowText(reading, 0, 0, 0, 3) : reading.why);
}

// A scale of 0 or below: some interfaces read 0 as "not given", or take the scale's root.
void ProbeUnusualScale(Notebook& notes, Exclusion what, double scale) {
  TinyCall call = notes.Plain(1, 3);
  call.scale = scale;
  const double natural = 1 / std::sqrt(static_cast<double>(notes.form.head_dim));
  const Trial trial = Try(notes, call, Exponential(scale), Exponential(natural));
  const std::string_view observed = trial.uptake == Uptake::kWorks     ? "works"
                                    : trial.uptake == Uptake::kRefused ? "refused"
                                    : trial.uptake == Uptake::kIgnored ? "read as not given"
                                                                       : "something else";
  NoteExclusion(notes, what, observed, fmt::format("scale {}: {}", scale, trial.evidence));
}

// Scores 2 and 0, cap 1. Something adds 1 to the first, in row 1: inside the cap or outside of it?
TinyCall CappedCall(const Notebook& notes) {
  TinyCall call = notes.Plain(2, 2);
  call.scale = 1;
  call.k.At(0, 0, 0, 0) = 2;
  call.k.At(0, 0, 1, 0) = 0;
  call.Option(ATTEST_OPTION_SOFTCAP, 1.0);
  if (notes.Works(Feature::kBias)) {
    call.Floats(ATTEST_ROLE_BIAS, notes.form.dtype, {1, 1, 2, 2}, {1, 0, 1, 0});
  } else {  // key 0 lies one key before the diagonal
    call.Floats(ATTEST_ROLE_ALIBI_SLOPES, call.LseDType(), {1}, {-1.0});
    AddOffsets(notes, call, 0);
  }
  return call;
}

// Row 1 where its first score has become `score`.
Weigh RowOne(double score) {
  return [score](int64_t, int64_t, int64_t i, int64_t j) {
    return i == 0 ? 0 : j == 0 ? std::exp(score) : 1.0;
  };
}

void ProbeSoftcapOrder(Notebook& notes) {
  const TinyCall call = CappedCall(notes);
  const Trial trial = Try(notes, call, RowOne(std::tanh(2.0) + 1), RowOne(3));
  const Contract& declared = notes.declared;
  const std::string_view word = WordOf(kSoftcapOrders, declared.semantics.softcap_order);
  if (!trial.reading.computed()) {
    notes.Unknown("softcap order", word, trial.evidence);
    return;
  }
  std::string_view observed = "something else";
  for (const auto& [order, score] : {std::pair{SoftcapOrder::kBeforeBias, std::tanh(2.0) + 1},
                                     std::pair{SoftcapOrder::kAfterBias, std::tanh(3.0)}}) {
    if (!HasWeights(trial.reading, call, RowOne(score))) continue;
    notes.found.semantics.softcap_order = order;
    observed = WordOf(kSoftcapOrders, order);
  }
  const bool is_declared = declared.Has(Feature::kSoftcap) &&
                           (declared.Has(Feature::kBias) || declared.Has(Feature::kAlibi));
  Compare(notes, "softcap order", observed, word, is_declared,
          fmt::format("score 2, {} 1, cap 1 against score 0: weights {}",
                      notes.Works(Feature::kBias) ? "bias" : "ALiBi",
                      RowText(trial.reading, 0, 0, 1, 2)));
}

void ProbeSoftcap(Notebook& notes) {
  TinyCall call = notes.Plain(1, 3);
  call.scale = 1;
  call.Option(ATTEST_OPTION_SOFTCAP, 1.0);
  const Weigh capped = [](int64_t, int64_t, int64_t, int64_t j) {
    return std::exp(std::tanh(Position(j)));
  };
  NoteFeature(notes, Feature::kSoftcap, Try(notes, call, capped, Exponential(1)));
  if (!notes.Works(Feature::kSoftcap)) return;
  if (notes.Works(Feature::kBias) || notes.Works(Feature::kAlibi)) {
    ProbeSoftcapOrder(notes);
  } else {
    notes.Unknown("softcap order", "", "nothing that is added to a score is offered");
  }
}

Weigh Away(int64_t offset, double sign) {
  return [=](int64_t, int64_t, int64_t i, int64_t j) {
    return std::exp2(-sign * std::abs(Position(i + offset - j)));
  };
}

// Slope ln 2 on 2 x 4 with equal scores: weights fall by half a key, from where?
void ProbeAlibi(Notebook& notes) {
  TinyCall call = notes.Plain(2, 4);
  for (double& value : call.k.values) value = 0;
  call.Floats(ATTEST_ROLE_ALIBI_SLOPES, call.LseDType(), {1}, {kLn2});
  const bool tensor = CarriesTensor(notes.found.causal_offset);
  AddOffsets(notes, call, 2);
  const int64_t due = tensor ? 2 : OffsetOf(notes, 2, 4);
  const Weigh equal = [](auto...) { return 1.0; };
  const Trial trial = Try(notes, call, Away(due, 1), equal);
  NoteFeature(notes, Feature::kAlibi, trial);
  if (!trial.reading.computed()) return;
  const auto is = [&](const Weigh& weigh) { return HasWeights(trial.reading, call, weigh); };
  const char* observed = is(Away(2, 1))
                             ? tensor ? "from the tensor's diagonal" : "from the bottom right"
                         : is(Away(0, 1))        ? "from the top left"
                         : is(Away(2, -1))       ? "grows from the bottom right"
                         : is(Away(0, -1))       ? "grows from the top left"
                         : is(Exponential(kLn2)) ? "linear in the key"
                         : is(equal)             ? "ignored"
                                                 : "something else";
  const char* declared = CarriesTensor(notes.declared.causal_offset) ? "from the tensor's diagonal"
                         : OffsetOf(notes, 2, 4) == 0                ? "from the top left"
                                                                     : "from the bottom right";
  Compare(notes, "ALiBi", observed, declared, notes.declared.Has(Feature::kAlibi),
          fmt::format("2x4, slope ln 2: row 0 {}", RowText(trial.reading, 0, 0, 0, 4)));
}

void ProbeSinks(Notebook& notes) {
  TinyCall call = notes.OneRow(3);
  call.Floats(ATTEST_ROLE_SINKS, call.LseDType(), {1}, {2 * kLn2});
  Reading reading = notes.lab.Run(call);
  bool works = false, ignored = false;
  std::string evidence;
  if (reading.computed()) {
    ignored = HasWeights(reading, call, PlainWeight);
    const int64_t row = call.sizes().q_len - 1;
    evidence = "sink ln 4: weights " + RowText(reading, 0, 0, row, 3);
    works = true;
    for (int64_t j = 0; j < 3; ++j) {
      works &= std::abs(reading.Weight(0, 0, row, j) - std::exp2(Position(j)) / 11) < 0.01;
    }
  }
  NoteFeature(notes, Feature::kSinks, TrialOf(std::move(reading), works, ignored, evidence));
}

void ProbeDropout(Notebook& notes) {
  const std::vector<uint8_t> kept = {1, 0, 1, 0, 1, 1};
  TinyCall call = notes.Plain(2, 3);
  call.Option(ATTEST_OPTION_DROPOUT, 0.5).Bits(ATTEST_ROLE_DROPOUT_MASK, {1, 1, 2, 3}, kept);
  Reading reading = notes.lab.Run(call);
  bool works = false, ignored = false;
  std::string evidence;
  if (reading.computed()) {
    ignored = HasWeights(reading, call, PlainWeight);
    evidence = "row 0 keeps keys 0 and 2: weights " + RowText(reading, 0, 0, 0, 3);
    works = true;
    const auto weight = [&](int64_t i, int64_t j) {
      return call.IsHiddenByForm(0, i, j) ? 0 : std::exp2(Position(j));
    };
    for (int64_t i = 0; i < 2; ++i)
      for (int64_t j = 0; j < 3; ++j) {
        const double share = weight(i, j) / (weight(i, 0) + weight(i, 1) + weight(i, 2));
        const double due = kept[static_cast<size_t>(3 * i + j)] * 2 * share;
        works &= std::abs(reading.Weight(0, 0, i, j) - due) < 0.02;
      }
  }
  NoteFeature(notes, Feature::kDropout, TrialOf(std::move(reading), works, ignored, evidence));
}

// --- Outputs beside out ---

// Of the last row, which sees all keys.
bool Holds(const Array& array, const std::vector<double>& row) {
  for (size_t j = 0; j < row.size(); ++j) {
    const double value = array.At(0, 0, array.shape[2] - 1, static_cast<int64_t>(j));
    if (!(value == row[j] || std::abs(value - row[j]) < 0.02)) return false;
  }
  return true;
}

std::string Numbers(const Array& array) {
  std::string text;
  for (const double value : array.values)
    text += fmt::format("{}{:.3g}", text.empty() ? "" : " ", value);
  return "{" + text + "}";
}

// A row of three keys. Asks for an output of their shape and compares it.
Trial TryOutput(Notebook& notes, TinyCall call, int32_t role, const std::vector<double>& due,
                const std::vector<double>& plain) {
  call.AskWeights(role);
  Reading reading = notes.lab.Run(call);
  if (!reading.computed()) return TrialOf(std::move(reading), false, false, "");
  const Array& given = reading.Output(role);
  const bool works = Holds(given, due), ignored = Holds(given, plain);
  std::string evidence = Numbers(given);
  return TrialOf(std::move(reading), works, ignored, std::move(evidence));
}

void ProbeScoreModes(Notebook& notes) {
  notes.found.scores.clear();
  const double s1 = kLn2, s2 = 2 * kLn2;
  for (const auto& [word, mode] : kScoreModes) {
    TinyCall call = notes.OneRow(3);
    call.Option(ATTEST_OPTION_SCORES, int64_t{static_cast<int>(mode)});
    std::vector<double> due = {0, s1, s2};
    if (mode == ScoreMode::kCapped && notes.Works(Feature::kSoftcap)) {
      call.Option(ATTEST_OPTION_SOFTCAP, 1.0);
      due = {0, std::tanh(s1), std::tanh(s2)};
    }
    if (mode == ScoreMode::kBiased && notes.Works(Feature::kBias)) {
      std::vector<double> bias;
      for (int64_t i = 0; i < call.sizes().q_len; ++i) bias.insert(bias.end(), {1, -kInf, 0});
      call.Floats(ATTEST_ROLE_BIAS, notes.form.dtype, {1, 1, call.sizes().q_len, 3}, bias);
      due = {1, -kInf, s2};
    }
    if (mode == ScoreMode::kWeights) due = {1 / 7.0, 2 / 7.0, 4 / 7.0};
    const Trial trial = TryOutput(notes, call, ATTEST_ROLE_SCORES, due, {0, s1, s2});
    if (trial.uptake == Uptake::kWorks) notes.found.scores.insert(mode);
    NoteOffer(notes, fmt::format("scores {}", word), notes.declared.scores.count(mode) != 0, trial);
  }
}

}  // namespace

void ProbeScores(Notebook& notes) {
  ProbeScale(notes);
  ProbeUnusualScale(notes, Exclusion::kZeroScale, 0);
  ProbeUnusualScale(notes, Exclusion::kNegativeScale, -kLn2);
  ProbeAlibi(notes);
  ProbeSoftcap(notes);
  ProbeSinks(notes);
  ProbeDropout(notes);
}

void ProbeOutputs(Notebook& notes) {
  NoteFeature(
      notes, Feature::kWeights,
      TryOutput(notes, notes.OneRow(3), ATTEST_ROLE_WEIGHTS, {1 / 7.0, 2 / 7.0, 4 / 7.0}, {}));
  ProbeScoreModes(notes);
}

}  // namespace attest::probe
