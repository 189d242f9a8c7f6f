// The planes: boolean mask, bias, their broadcast shapes and ranks, key lengths, documents, tiles.
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "attest/kernel.h"
#include "properties/harness/probe/experiments.h"

namespace attest::probe {
namespace {

using namespace contract_words;

constexpr double kInf = std::numeric_limits<double>::infinity();

// A plane of three rows and keys that leaves no row empty, whatever 1 means.
const std::vector<uint8_t> kAsked = {1, 0, 0, 1, 1, 0, 0, 1, 0};

Weigh Where(std::function<bool(int64_t b, int64_t h, int64_t i, int64_t j)> visible) {
  return [visible = std::move(visible)](int64_t b, int64_t h, int64_t i, int64_t j) {
    return visible(b, h, i, j) ? PlainWeight(b, h, i, j) : 0;
  };
}

void ProbePolarity(Notebook& notes) {
  TinyCall call = notes.Plain(3, 3);
  call.Bits(ATTEST_ROLE_MASK, {1, 1, 3, 3}, kAsked);
  const auto means = [](int bit) {
    return Where([bit](int64_t, int64_t, int64_t i, int64_t j) {
      return kAsked[static_cast<size_t>(3 * i + j)] == bit;
    });
  };
  Trial trial = Try(notes, call, means(1), PlainWeight);
  const bool hides = trial.reading.computed() && HasWeights(trial.reading, call, means(0));
  if (trial.reading.computed()) {
    trial.evidence = "mask rows 100 110 010: rows saw";
    for (int64_t i = 0; i < 3; ++i) trial.evidence += " " + SeenText(trial.reading, 0, 0, i, 3);
  }
  if (hides) trial.uptake = Uptake::kWorks;
  NoteFeature(notes, Feature::kMask, trial);
  if (trial.uptake != Uptake::kWorks) return;
  notes.found.mask_true_means = hides ? MaskPolarity::kHide : MaskPolarity::kAttend;
  Compare(notes, "mask polarity", WordOf(kPolarities, notes.found.mask_true_means),
          WordOf(kPolarities, notes.declared.mask_true_means), notes.declared.Has(Feature::kMask),
          trial.evidence);
}

// A plane of some shape, as a mask where the kernel takes one, else as a bias of 0 and -inf.
void AddPlane(const Notebook& notes, TinyCall& call, const Shape4& shape, int rank,
              std::vector<uint8_t> attends) {
  if (notes.Works(Feature::kMask)) {
    const uint8_t flip = notes.found.mask_true_means == MaskPolarity::kHide ? 1 : 0;
    for (uint8_t& bit : attends) bit ^= flip;
    call.Bits(ATTEST_ROLE_MASK, shape, std::move(attends), rank);
    return;
  }
  std::vector<double> values;
  for (const uint8_t bit : attends) values.push_back(bit != 0 ? 0 : -kInf);
  call.Floats(ATTEST_ROLE_BIAS, notes.form.dtype, {shape.end() - rank, shape.end()}, values);
}

// One shape, asked of two batch items with two heads; bit n of the plane is kAsked[n % 9] with a shift
// that keeps every row of three keys visible somewhere.
Trial TryShape(Notebook& notes, const Shape4& shape, int rank) {
  TinyCall call(notes.form, {2, 2, 2, 3, 3, 0});
  BitPlane plane{shape, 4, {}};
  const auto rows = static_cast<size_t>(shape[0] * shape[1] * shape[2]);
  for (size_t row = 0; row < rows; ++row) {
    const size_t from = 3 * (row % 3 + (row / 3) % 2) % 9;
    for (size_t j = 0; j < 3; ++j) plane.bits.push_back(kAsked[from + j]);
  }
  AddPlane(notes, call, shape, rank, plane.bits);
  const Weigh with =
      Where([plane](int64_t b, int64_t h, int64_t i, int64_t j) { return plane.At(b, h, i, j); });
  return Try(notes, call, with, PlainWeight);
}

// The first of the shapes that does not work, or the last.
Trial TryShapes(Notebook& notes, const std::vector<std::pair<Shape4, int>>& shapes) {
  Trial trial;
  for (const auto& [shape, rank] : shapes) {
    trial = TryShape(notes, shape, rank);
    trial.evidence = fmt::format("rank {} [{}, {}, {}, {}]: {}", rank, shape[0], shape[1], shape[2],
                                 shape[3], trial.evidence);
    if (trial.uptake != Uptake::kWorks) break;
  }
  return trial;
}

// Rows 0 and 2 see all keys, row 1 none: with a key extent of 1.
Trial TryKeyBroadcast(Notebook& notes) {
  TinyCall call = notes.Plain(3, 3);
  AddPlane(notes, call, {1, 1, 3, 1}, 4, {1, 0, 1});
  const auto outer = [](int64_t, int64_t, int64_t i, int64_t j) {
    return i == 1 ? 0.0 : PlainWeight(0, 0, i, j);
  };
  Trial trial = Try(notes, call, outer, [](auto...) { return -1.0; });
  const bool ignored =
      trial.uptake == Uptake::kWorks && HasWeights(trial.reading, call, PlainWeight);
  if (ignored && notes.declared.semantics.empty_row != EmptyRow::kUnmasked) {
    trial.uptake = Uptake::kIgnored;
  }
  return trial;
}

void ProbeShapes(Notebook& notes) {
  if (!notes.Works(Feature::kMask) && !notes.Works(Feature::kBias)) return;
  NoteFeature(notes, Feature::kMaskBroadcast,
              TryShapes(notes, {{{1, 2, 3, 3}, 4}, {{2, 1, 3, 3}, 4}, {{2, 2, 1, 3}, 4}}));
  if (notes.Works(Feature::kMaskBroadcast)) {  // or it would be a feature that says nothing
    NoteFeature(notes, Feature::kMaskKeyBroadcast, TryKeyBroadcast(notes));
  }
  NoteFeature(notes, Feature::kMaskRanks, TryShapes(notes, {{{1, 1, 3, 3}, 2}, {{1, 2, 3, 3}, 3}}));
}

// ln 4 on key 0 of row 0 and on key 1 of row 1.
TinyCall BiasedCall(const Form& form, DType dtype) {
  TinyCall call(form, {1, 1, 1, 2, 3, 0});
  call.Floats(ATTEST_ROLE_BIAS, dtype, {1, 1, 2, 3}, {2 * kLn2, 0, 0, 0, 2 * kLn2, 0});
  return call;
}

Weigh Biased(double factor) {
  return [factor](int64_t b, int64_t h, int64_t i, int64_t j) {
    return PlainWeight(b, h, i, j) * (i == j ? factor : 1);
  };
}

void ProbeBiasSign(Notebook& notes) {
  const TinyCall call = BiasedCall(notes.form, notes.form.dtype);
  const Trial trial = Try(notes, call, Biased(4), PlainWeight);
  NoteFeature(notes, Feature::kBias, trial);
  if (!trial.reading.computed()) return;
  const bool subtracts = HasWeights(trial.reading, call, Biased(0.25));
  const bool scaled = HasWeights(trial.reading, call, Biased(std::exp2(2 * kLn2)));
  const char* observed = trial.uptake == Uptake::kWorks     ? "added"
                         : subtracts                        ? "subtracted"
                         : scaled                           ? "added, then scaled"
                         : trial.uptake == Uptake::kIgnored ? "ignored"
                                                            : "something else";
  Compare(notes, "bias polarity", observed, "added", notes.declared.Has(Feature::kBias),
          "ln 4 on key 0: weights of row 0 " + RowText(trial.reading, 0, 0, 0, 3));
}

void ProbeInfiniteBias(Notebook& notes) {
  TinyCall call = notes.Plain(1, 3);
  call.Floats(ATTEST_ROLE_BIAS, notes.form.dtype, {1, 1, 1, 3}, {0, -kInf, 0});
  const Trial trial = Try(
      notes, call, Where([](int64_t, int64_t, int64_t, int64_t j) { return j != 1; }), PlainWeight);
  const bool works = trial.uptake == Uptake::kWorks;
  if (trial.reading.computed()) {
    Compare(notes, "bias of -inf", works ? "hides" : "something else", "hides",
            notes.declared.Has(Feature::kBias), trial.evidence);
  } else {
    notes.Unknown("bias of -inf", "hides", trial.evidence);
  }
}

void ProbeNarrowBias(Notebook& notes) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    if (notes.found.dtypes.count(dtype) == 0) continue;
    Form form = notes.form;
    form.dtype = dtype;
    NoteFeature(notes, Feature::kBiasF32,
                Try(notes, BiasedCall(form, DType::kF32), Biased(4), PlainWeight));
    return;
  }
}

}  // namespace

void ProbeMask(Notebook& notes) {
  ProbePolarity(notes);
}

void ProbeBias(Notebook& notes) {
  ProbeBiasSign(notes);
  if (notes.Works(Feature::kBias)) {
    ProbeInfiniteBias(notes);
    ProbeNarrowBias(notes);
  }
  ProbeShapes(notes);
  if (!notes.Works(Feature::kBias) || !notes.Works(Feature::kMask)) return;
  TinyCall call = BiasedCall(notes.form, notes.form.dtype);
  AddMask(notes, call, {1, 1, 0, 0, 1, 1});
  const Weigh both = [](int64_t b, int64_t h, int64_t i, int64_t j) {
    return (i == 0 ? j < 2 : j > 0) ? Biased(4)(b, h, i, j) : 0;
  };
  NoteFeature(notes, Feature::kMaskWithBias, Try(notes, call, both, PlainWeight));
}

void ProbeLengths(Notebook& notes) {
  TinyCall call = notes.Plain(2, 4, 2);
  call.Integers(ATTEST_ROLE_KEY_LENGTHS, {2}, {2, 3});
  NoteFeature(
      notes, Feature::kKeyLengths,
      Try(notes, call, Where([](int64_t b, int64_t, int64_t, int64_t j) { return j < 2 + b; }),
          PlainWeight));
}

void ProbeGroups(Notebook& notes) {
  TinyCall documents = notes.Plain(3, 4);
  documents.Integers(ATTEST_ROLE_DOCUMENT_IDS, {1, 3}, {7, 7, 5});
  documents.Integers(ATTEST_ROLE_KEY_DOCUMENT_IDS, {1, 4}, {7, 5, 5, 7});
  NoteFeature(notes, Feature::kDocuments,
              Try(notes, documents, Where([](int64_t, int64_t, int64_t i, int64_t j) {
                    return (i == 2) == (j == 1 || j == 2);
                  }),
                  PlainWeight));
  TinyCall tiles = notes.Plain(2, 3);
  tiles.Option(ATTEST_OPTION_BLOCK_Q, int64_t{1}).Option(ATTEST_OPTION_BLOCK_K, int64_t{2});
  tiles.Bits(ATTEST_ROLE_BLOCK_MASK, {1, 1, 2, 2}, {0, 1, 1, 0});
  NoteFeature(notes, Feature::kBlockMask,
              Try(notes, tiles, Where([](int64_t, int64_t, int64_t i, int64_t j) {
                    return (i == 0) == (j == 2);
                  }),
                  PlainWeight));
}

}  // namespace attest::probe
