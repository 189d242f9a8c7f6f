// What hides: the value that stands for a hidden score, and what non-finite values do where they are
// hidden and where they are visible. And whether a rerun gives the same bits.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "attest/kernel.h"
#include "properties/harness/probe/experiments.h"

namespace attest::probe {
namespace {

using namespace contract_words;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// --- The masking value ---

// One way to hide key 1 from every row of n queries while key 0 is seen.
enum class Hider { kMask, kCausal, kLength };

std::string_view NameOf(Hider hider) {
  return hider == Hider::kMask ? "mask" : hider == Hider::kCausal ? "causal" : "length";
}

// Batch item n has score -depths[n] at visible key 0 and `lift` at hidden key 1. Of two rows the first
// is read: there every diagonal of 2 x 2 hides key 1.
TinyCall DepthCall(const Notebook& notes, Hider hider, const std::vector<double>& depths,
                   double lift) {
  const auto batch = static_cast<int64_t>(depths.size());
  TinyCall call = notes.Plain(2, 2, batch);
  call.scale = 1;
  for (int64_t b = 0; b < batch; ++b) {
    call.k.At(b, 0, 0, 0) = -depths[static_cast<size_t>(b)];
    call.k.At(b, 0, 1, 0) = lift;
  }
  if (hider == Hider::kMask) {
    std::vector<uint8_t> attends;
    for (int64_t b = 0; b < batch; ++b) attends.insert(attends.end(), {1, 0, 1, 1});
    AddMask(notes, call, attends);
  } else if (hider == Hider::kCausal) {
    call.Option(ATTEST_OPTION_CAUSAL, int64_t{1});
    AddOffsets(notes, call, 0);
  } else {
    call.Integers(ATTEST_ROLE_KEY_LENGTHS, {batch}, std::vector<int64_t>(depths.size(), 1));
  }
  return call;
}

// Scores that may be asked for without overflow of the element type.
std::vector<double> Depths(DType dtype) {
  const double largest = std::min(TraitsOf(dtype).max_finite, 3.4028234663852886e38);
  std::vector<double> depths;
  for (const double depth :
       {10., 1e3, 8e3, 2e4, 4e4, 6e4, 2e5, 2e6, 2e8, 2e9, 2e10, 2e30, 1e37, 2e38, 2.5e38}) {
    if (depth < largest) depths.push_back(depth);
  }
  depths.push_back(largest);
  return depths;
}

// The two depths between which the hidden key takes over, and the one in a balance where seen: there
// the filler is -depth + ln(hidden weight / visible weight).
struct Bracket {
  double below = 0, above = kInf;  // above = infinity: it never takes over
  std::optional<double> exact;
};

void Narrow(const Reading& reading, const std::vector<double>& depths, Bracket& bracket) {
  for (size_t n = 0; n < depths.size(); ++n) {
    const auto b = static_cast<int64_t>(n);
    const double visible = reading.Weight(b, 0, 0, 0), hidden = reading.Weight(b, 0, 0, 1);
    if (hidden > 0.02 && visible > 0.02) bracket.exact = -depths[n] + std::log(hidden / visible);
    if (hidden > 0.5) bracket.above = std::min(bracket.above, depths[n]);
    if (!(hidden > 0.5))
      bracket.below = std::max(bracket.below, std::min(depths[n], bracket.above));
  }
}

// A round number, where one lies in the bracket; else its middle.
double FillerOf(const Bracket& bracket) {
  if (bracket.exact) {
    const double rounded = std::round(*bracket.exact);
    return std::abs(rounded - *bracket.exact) < 0.5 ? rounded : *bracket.exact;
  }
  for (const double known : {65504., 3.3895313892515355e38, 3.4028234663852886e38, 2.3819764e38,
                             1e4, 3e4, 5e4, 1e5, 1e6, 1e9, 1e10, 1e30}) {
    if (known >= bracket.below && known <= bracket.above) return -known;
  }
  return -(bracket.below + bracket.above) / 2;
}

std::vector<double> Between(const Bracket& bracket) {
  std::vector<double> depths;
  for (int n = 1; n < 16; ++n) {
    depths.push_back(bracket.below + (bracket.above - bracket.below) * n / 16);
  }
  return depths;
}

// Six rounds settle 24 bits of it.
constexpr int kRounds = 6;

std::optional<MaskingValue> FindFiller(Notebook& notes, Hider hider, std::string& evidence) {
  Bracket bracket;
  std::vector<double> depths = Depths(notes.form.dtype);
  for (int round = 0; round < kRounds && !bracket.exact; ++round) {
    const Reading reading = notes.lab.Run(DepthCall(notes, hider, depths, 0));
    if (!reading.computed()) {
      evidence = reading.why;
      return std::nullopt;
    }
    Narrow(reading, depths, bracket);
    if (bracket.above == kInf) {
      evidence += fmt::format("{}by {}: hidden beside a score of {:.3g}",
                              evidence.empty() ? "" : "; ", NameOf(hider), -depths.back());
      return std::nullopt;
    }
    depths = Between(bracket);
  }
  const double filler = FillerOf(bracket);
  // A hidden score of half the filler's size wins over 0.7 of it only where the filler is added.
  const std::vector<double> once = {-0.7 * filler};
  const Reading lifted = notes.lab.Run(DepthCall(notes, hider, once, -0.5 * filler));
  const bool added = lifted.computed() && lifted.Weight(0, 0, 0, 1) > 0.5;
  evidence =
      fmt::format("by {}: the hidden key takes over where the visible score falls below {:.9g}",
                  NameOf(hider), filler);
  return MaskingValue{filler, added};
}

std::string Word(const std::optional<MaskingValue>& value) {
  return value ? fmt::format("{} {:.9g}", value->is_added ? "add" : "replace by", value->value)
               : "-inf";
}

bool Agree(const std::optional<MaskingValue>& a, const std::optional<MaskingValue>& b) {
  if (!a || !b) return !a && !b;
  return a->is_added == b->is_added && std::abs(a->value - b->value) <= 1e-4 * std::abs(b->value);
}

// --- Poison ---

// A call of five equal batch items in which key `key` is hidden from row `row`, and which rows to read.
struct PoisonCase {
  PoisonPlace place;
  std::string_view name;
  TinyCall call;
  int64_t row, key;
};

constexpr int64_t kItems = 5;  // clean, K NaN, V NaN, K infinite, V infinite

TinyCall Items(const Notebook& notes, int64_t q_len, int64_t kv_len) {
  return notes.Plain(q_len, kv_len, kItems);
}

std::vector<uint8_t> ForEachItem(const std::vector<uint8_t>& bits) {
  std::vector<uint8_t> all;
  for (int64_t b = 0; b < kItems; ++b) all.insert(all.end(), bits.begin(), bits.end());
  return all;
}

std::vector<int64_t> ForEachItem(const std::vector<int64_t>& values) {
  std::vector<int64_t> all;
  for (int64_t b = 0; b < kItems; ++b) all.insert(all.end(), values.begin(), values.end());
  return all;
}

void AddFlagCases(const Notebook& notes, std::vector<PoisonCase>& cases) {
  if (notes.Works(Feature::kKeyLengths)) {
    cases.push_back({PoisonPlace::kLength, "length", Items(notes, 1, 3), 0, 2});
    cases.back().call.Integers(ATTEST_ROLE_KEY_LENGTHS, {kItems},
                               ForEachItem(std::vector<int64_t>{2}));
  }
  if (notes.Works(Feature::kCausal)) {
    cases.push_back({PoisonPlace::kCausal, "causal", Items(notes, 2, 2), 0, 1});
    cases.back().call.Option(ATTEST_OPTION_CAUSAL, int64_t{1});
    AddOffsets(notes, cases.back().call, 0);
  }
  if (notes.Works(Feature::kWindow)) {
    cases.push_back({PoisonPlace::kWindow, "window", Items(notes, 4, 4), 3, 0});
    cases.back().call.Option(ATTEST_OPTION_WINDOW_LEFT, int64_t{1});
    if (notes.found.window_sides == WindowSides::kLeftIfCausal) {
      cases.back().call.Option(ATTEST_OPTION_CAUSAL, int64_t{1});
    }
    AddOffsets(notes, cases.back().call, 0);
  }
}

void AddPlaneCases(const Notebook& notes, std::vector<PoisonCase>& cases) {
  if (notes.Works(Feature::kMask)) {
    cases.push_back({PoisonPlace::kMask, "mask", Items(notes, 1, 3), 0, 2});
    AddMask(notes, cases.back().call, ForEachItem(std::vector<uint8_t>{1, 1, 0}));
  }
  if (notes.Works(Feature::kBias)) {
    cases.push_back({PoisonPlace::kBias, "bias", Items(notes, 1, 3), 0, 2});
    std::vector<double> values;
    for (int64_t b = 0; b < kItems; ++b) values.insert(values.end(), {0, 0, -kInf});
    cases.back().call.Floats(ATTEST_ROLE_BIAS, notes.form.dtype, {kItems, 1, 1, 3}, values);
  }
  if (notes.Works(Feature::kDocuments)) {
    cases.push_back({PoisonPlace::kDocument, "document", Items(notes, 1, 3), 0, 2});
    cases.back().call.Integers(ATTEST_ROLE_DOCUMENT_IDS, {kItems, 1},
                               ForEachItem(std::vector<int64_t>{1}));
    cases.back().call.Integers(ATTEST_ROLE_KEY_DOCUMENT_IDS, {kItems, 3},
                               ForEachItem(std::vector<int64_t>{1, 1, 2}));
  }
  if (notes.Works(Feature::kBlockMask)) {
    cases.push_back({PoisonPlace::kBlock, "block", Items(notes, 1, 3), 0, 2});
    cases.back()
        .call.Option(ATTEST_OPTION_BLOCK_Q, int64_t{1})
        .Option(ATTEST_OPTION_BLOCK_K, int64_t{2});
    cases.back().call.Bits(ATTEST_ROLE_BLOCK_MASK, {kItems, 1, 1, 2},
                           ForEachItem(std::vector<uint8_t>{1, 0}));
  }
}

void Fill(Array& array, int64_t item, int64_t key, double value) {
  for (int64_t d = 0; d < array.shape[3]; ++d) array.At(item, 0, key, d) = value;
}

void PoisonItems(TinyCall& call, int64_t key) {
  Fill(call.k, 1, key, kNan);
  Fill(call.v, 2, key, kNan);
  Fill(call.k, 3, key, kInf);
  Fill(call.v, 4, key, kInf);
}

// The free page of each item, and the free slot of its last one.
void PoisonPages(TinyCall& call) {
  for (int64_t item = 1; item < kItems; ++item) {
    Array& array = item % 2 == 1 ? call.k : call.v;
    const double poison = item < 3 ? kNan : kInf;
    for (const auto& [page, slot] : {std::pair<int64_t, int64_t>{0, 0}, {0, 1}, {2, 1}}) {
      Fill(array, 4 * item + page, slot, poison);
    }
  }
}

bool SameRow(const Reading& reading, int64_t item, int64_t row) {
  const Array& out = reading.Output(ATTEST_ROLE_OUT);
  for (int64_t d = 0; d < out.shape[3]; ++d) {
    if (out.At(item, 0, row, d) != out.At(0, 0, row, d)) return false;
  }
  return true;
}

void NotePoison(Notebook& notes, const PoisonCase& poison, const Reading& reading) {
  for (const PoisonTensor tensor : {PoisonTensor::kK, PoisonTensor::kV}) {
    const bool is_k = tensor == PoisonTensor::kK;
    const std::string topic = fmt::format("poison {}:{}", is_k ? "k" : "v", poison.name);
    const bool promised = notes.declared.IsPoisonSafe(tensor, poison.place);
    if (!reading.computed()) {
      notes.Add({topic, "unknown: crashed", promised ? "safe" : "", reading.why,
                 promised ? Agreement::kContradicts : Agreement::kUnknown});
      continue;
    }
    const int64_t nan_item = is_k ? 1 : 2, inf_item = is_k ? 3 : 4;
    const bool nan_safe = SameRow(reading, nan_item, poison.row);
    const bool inf_safe = SameRow(reading, inf_item, poison.row);
    if (nan_safe && inf_safe) notes.found.poison_safe.insert({tensor, poison.place});
    const auto row = [&](int64_t item) {
      return RowText(reading, item, 0, poison.row, std::min<int64_t>(3, notes.form.head_dim));
    };
    const std::string evidence =
        nan_safe && inf_safe
            ? "NaN and infinity where hidden change no bit"
            : fmt::format("clean {}, with {} {}", row(0), nan_safe ? "infinity" : "NaN",
                          row(nan_safe ? inf_item : nan_item));
    Compare(notes, topic, nan_safe && inf_safe ? "safe" : "leaks", "safe", promised, evidence);
  }
}

// --- Visible NaN ---

void ProbeVisibleNan(Notebook& notes) {
  TinyCall call = notes.OneRow(3, 3);
  const int64_t row = call.sizes().q_len - 1;
  call.q.At(0, 0, row, 0) = kNan;
  call.k.At(1, 0, 1, 0) = kNan;
  call.v.At(2, 0, 1, 1) = kNan;
  const Reading reading = notes.lab.Run(call);
  const bool promised = notes.declared.visible_nan_propagates;
  if (!reading.computed()) {
    notes.Add({"visible NaN", "unknown", promised ? "propagates" : "", reading.why,
               promised ? Agreement::kContradicts : Agreement::kUnknown});
    return;
  }
  const bool through = std::isnan(reading.Weight(0, 0, row, 0)) &&
                       std::isnan(reading.Weight(1, 0, row, 0)) &&
                       std::isnan(reading.Weight(2, 0, row, 1));
  notes.found.visible_nan_propagates = through;
  Compare(notes, "visible NaN", through ? "propagates" : "swallowed", "propagates", promised,
          fmt::format("in q {}, in k {}, in v {}", RowText(reading, 0, 0, row, 3),
                      RowText(reading, 1, 0, row, 3), RowText(reading, 2, 0, row, 3)));
}

}  // namespace

void ProbeMasking(Notebook& notes) {
  std::string evidence;
  std::optional<MaskingValue> filler;
  bool asked = false;
  const std::pair<Hider, Feature> kHiders[] = {{Hider::kMask, Feature::kMask},
                                               {Hider::kCausal, Feature::kCausal},
                                               {Hider::kLength, Feature::kKeyLengths}};
  for (const auto& [hider, feature] : kHiders) {
    if (!notes.Works(feature) || filler) continue;
    asked = true;
    filler = FindFiller(notes, hider, evidence);
  }
  const std::string declared = Word(notes.declared.masking_value);
  if (!asked) {
    notes.Unknown("masking value", declared, "nothing hides but a bias");
    return;
  }
  const bool agrees = Agree(filler, notes.declared.masking_value);
  notes.found.masking_value = agrees ? notes.declared.masking_value : filler;
  Compare(notes, "masking value", agrees ? declared : Word(filler), declared, true, evidence);
}

void ProbePoison(Notebook& notes) {
  notes.found.poison_safe.clear();
  std::vector<PoisonCase> cases;
  AddFlagCases(notes, cases);
  AddPlaneCases(notes, cases);
  for (PoisonCase& poison : cases) {
    PoisonItems(poison.call, poison.key);
    NotePoison(notes, poison, notes.lab.Run(poison.call));
  }
  if (notes.Works(Feature::kPages)) {
    PoisonCase pages{PoisonPlace::kPage, "page", PagedCall(notes, kItems), 0, 0};
    PoisonPages(pages.call);
    NotePoison(notes, pages, notes.lab.Run(pages.call));
  }
  ProbeVisibleNan(notes);
}

void ProbeRerun(Notebook& notes) {
  TinyCall call(notes.form, {2, 2, 2, 19, 37, 0});
  int n = 0;
  for (Array* array : {&call.q, &call.k, &call.v}) {
    for (double& value : array->values) value = std::sin(++n);
  }
  std::set<std::vector<std::vector<std::byte>>> answers;
  constexpr int kRuns = 3;
  for (int run = 0; run < kRuns; ++run) {
    const Reading reading = notes.lab.Run(call);
    if (!reading.computed()) {
      notes.Unknown("rerun", "", reading.why);
      return;
    }
    answers.insert(reading.bytes);
  }
  const bool same = answers.size() == 1;
  if (same) notes.found.bits_invariant.insert(Invariance::kRerun);
  if (!same) notes.found.bits_invariant.erase(Invariance::kRerun);
  Compare(notes, "rerun", same ? "same bits" : "other bits", "same bits",
          notes.declared.Promises(Invariance::kRerun),
          fmt::format("{} runs of 19x37, 2 heads: {} answers", kRuns, answers.size()));
}

}  // namespace attest::probe
