// Rows: the base of the lse, what a row without a visible key holds, what padded query rows hold.
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "attest/kernel.h"
#include "properties/harness/probe/experiments.h"

namespace attest::probe {
namespace {

using namespace contract_words;

constexpr double kInf = std::numeric_limits<double>::infinity();

// A kernel that gives no lse: it says so, leaves it unwritten, or crashes.
void NoteMissingLse(Notebook& notes, const Reading& reading, bool is_declared) {
  const std::string_view declared = WordOf(kLseKinds, notes.declared.lse);
  notes.found.lse = LseKind::kNone;
  const bool unwritten = reading.fault && reading.fault->kind == FaultKind::kUnwritten;
  if (reading.answer == Answer::kRefused) {
    Compare(notes, "lse", "none", declared, true, "refused: " + reading.why);
  } else if (unwritten) {
    Compare(notes, "lse", "none", declared, is_declared, "asked for and left unwritten");
  } else {
    notes.Add({"lse", "unknown: crashed", std::string(declared), reading.why,
               is_declared ? Agreement::kContradicts : Agreement::kUnknown});
  }
}

void ProbeLse(Notebook& notes) {
  TinyCall call = notes.OneRow(3);
  call.AskLse();
  const Reading reading = notes.lab.Run(call);
  const bool is_declared = notes.declared.lse != LseKind::kNone;
  if (!reading.computed()) {
    NoteMissingLse(notes, reading, is_declared);
    return;
  }
  const double lse = reading.Output(ATTEST_ROLE_LSE).values.back();
  std::string observed = "something else";
  for (const auto& [kind, due] :
       {std::pair{LseKind::kNatural, std::log(7.0)}, std::pair{LseKind::kBase2, std::log2(7.0)}}) {
    if (!(std::abs(lse - due) < 0.02)) continue;
    notes.found.lse = kind;
    observed = WordOf(kLseKinds, kind);
  }
  Compare(notes, "lse", observed, WordOf(kLseKinds, notes.declared.lse), is_declared,
          fmt::format("scores ln 1, ln 2, ln 4: lse {:.5g}", lse));
}

// --- Rows that see nothing ---

struct EmptyCase {
  std::string by;
  TinyCall call;
};

// Every way to hide all three keys from row 0 that works.
std::vector<EmptyCase> EmptyCases(const Notebook& notes) {
  std::vector<EmptyCase> cases;
  const TinyCall plain = notes.Plain(2, 3);
  if (notes.Works(Feature::kMask)) {
    cases.push_back({"mask", plain});
    AddMask(notes, cases.back().call, {0, 0, 0, 1, 1, 1});
  }
  if (notes.Works(Feature::kBias)) {
    cases.push_back({"bias", plain});
    cases.back().call.Floats(ATTEST_ROLE_BIAS, notes.form.dtype, {1, 1, 2, 3},
                             {-kInf, -kInf, -kInf, 0, 0, 0});
  }
  if (notes.Works(Feature::kKeyLengths)) {
    cases.push_back({"length", plain});
    cases.back().call.Integers(ATTEST_ROLE_KEY_LENGTHS, {1}, {0});
  }
  if (notes.Works(Feature::kCausal)) {
    const auto& rules = notes.found.causal_offset;
    const bool tensor = rules.count(CausalOffset::kExplicit) != 0;
    if (tensor || OffsetOf(notes, 4, 3) < 0) {  // a diagonal that begins above the keys
      cases.push_back({"causal", notes.Plain(4, 3)});
      cases.back().call.Option(ATTEST_OPTION_CAUSAL, int64_t{1});
      AddOffsets(notes, cases.back().call, -1);
    }
  }
  if (notes.Works(Feature::kDocuments)) {
    cases.push_back({"document", plain});
    cases.back().call.Integers(ATTEST_ROLE_DOCUMENT_IDS, {1, 2}, {9, 1});
    cases.back().call.Integers(ATTEST_ROLE_KEY_DOCUMENT_IDS, {1, 3}, {1, 1, 1});
  }
  return cases;
}

// The contract's word for what row 0 holds; else its weights.
std::string EmptyWord(const Reading& reading) {
  const Array& out = reading.Output(ATTEST_ROLE_OUT);
  const auto all = [&](auto&& holds) {
    for (int64_t d = 0; d < out.shape[3]; ++d) {
      if (!holds(out.At(0, 0, 0, d), d)) return false;
    }
    return true;
  };
  const auto near = [](double value, double due) { return std::abs(value - due) < 0.02; };
  if (all([](double x, int64_t) { return x == 0; })) return "zero";
  if (all([](double x, int64_t) { return std::isnan(x); })) return "nan";
  if (all([&](double x, int64_t d) { return near(x, d < 3 ? 1.0 / 3 : 0); })) return "mean_value";
  if (all([&](double x, int64_t d) { return near(x, d < 3 ? std::exp2(d) / 7 : 0); })) {
    return "unmasked";
  }
  return "weights " + RowText(reading, 0, 0, 0, 3);
}

std::string LseWord(double lse) {
  return std::isnan(lse) ? "nan"
         : lse == kInf   ? "+inf"
         : lse == -kInf  ? "-inf"
                         : fmt::format("{:.5g}", lse);
}

// What every mechanism gives: one word where they agree, else each by its name.
struct Answers {
  std::vector<std::pair<std::string, std::string>> by_mechanism;

  void Add(const std::string& by, const std::string& word) { by_mechanism.emplace_back(by, word); }
  std::string Observed() const {
    for (const auto& [by, word] : by_mechanism) {
      if (word != by_mechanism.front().second) return "differs by what hides";
    }
    return by_mechanism.front().second;
  }
  std::string Evidence() const {
    std::string text;
    for (const auto& [by, word] : by_mechanism) {
      text += fmt::format("{}by {}: {}", text.empty() ? "" : ", ", by, word);
    }
    return text;
  }
};

template <typename T>
void NoteWord(const Words<T>& words, const std::string& observed, T& field) {
  for (const auto& [word, value] : words) {
    if (word == observed) field = value;
  }
}

void ProbeEmptyRows(Notebook& notes) {
  const std::string_view declared_out = WordOf(kEmptyRows, notes.declared.semantics.empty_row);
  const std::string_view declared_lse =
      WordOf(kLseEmptyRows, notes.declared.semantics.lse_empty_row);
  Answers outs, lses;
  std::string crashes;
  const bool has_lse = notes.found.lse != LseKind::kNone;
  for (EmptyCase& empty : EmptyCases(notes)) {
    if (has_lse) empty.call.AskLse();
    const Reading reading = notes.lab.Run(empty.call);
    if (!reading.computed()) {
      crashes += fmt::format("by {}: {}; ", empty.by, reading.why);
      continue;
    }
    outs.Add(empty.by, EmptyWord(reading));
    if (has_lse) lses.Add(empty.by, LseWord(reading.Output(ATTEST_ROLE_LSE).values[0]));
  }
  if (outs.by_mechanism.empty()) {
    notes.Unknown("empty row", declared_out,
                  crashes.empty() ? "nothing hides a whole row" : crashes);
    return;
  }
  const bool out_declared = notes.declared.semantics.empty_row != EmptyRow::kUnspecified;
  Compare(notes, "empty row", outs.Observed(), declared_out, out_declared,
          crashes + outs.Evidence());
  NoteWord(kEmptyRows, outs.Observed(), notes.found.semantics.empty_row);
  if (lses.by_mechanism.empty()) return;
  const bool lse_declared = notes.declared.semantics.lse_empty_row != LseEmptyRow::kUnspecified;
  Compare(notes, "lse of an empty row", lses.Observed(), declared_lse, lse_declared,
          lses.Evidence());
  NoteWord(kLseEmptyRows, lses.Observed(), notes.found.semantics.lse_empty_row);
}

// --- Padded query rows ---

bool IsUnwrittenPadding(const Reading& reading, int64_t length) {
  return reading.fault && reading.fault->kind == FaultKind::kUnwritten &&
         reading.fault->index.size() == 4 && reading.fault->index[2] >= length;
}

void ProbePaddedRows(Notebook& notes) {
  TinyCall call = notes.Plain(3, 3);
  call.Integers(ATTEST_ROLE_QUERY_LENGTHS, {1}, {2});
  const Reading reading = notes.lab.Run(call);
  const Weigh first_two = [](int64_t b, int64_t h, int64_t i, int64_t j) {
    return i < 2 ? PlainWeight(b, h, i, j) : 0;
  };
  const bool unwritten = IsUnwrittenPadding(reading, 2);
  const bool works = unwritten || (reading.computed() && HasWeights(reading, call, first_two));
  Trial trial =
      TrialOf(reading, works, false,
              works ? "rows before the length are computed" : "rows before the length differ");
  if (unwritten) trial.uptake = Uptake::kWorks;
  NoteFeature(notes, Feature::kQueryLengths, trial);
  if (trial.uptake != Uptake::kWorks) return;
  std::string observed = "unwritten";
  if (!unwritten) {
    Reading padded = reading;  // its last row alone
    Array& out = padded.outputs[ATTEST_ROLE_OUT];
    for (int64_t d = 0; d < out.shape[3]; ++d) out.At(0, 0, 0, d) = out.At(0, 0, 2, d);
    const std::string word = EmptyWord(padded);
    observed = word == "unmasked" ? "computed" : word;
  }
  const PaddedQueryRows declared = notes.declared.padded_query_rows;
  Compare(notes, "padded query rows", observed, WordOf(kPaddedQueryRows, declared),
          declared != PaddedQueryRows::kUnspecified, "row 2 of query length 2");
  NoteWord(kPaddedQueryRows, observed, notes.found.padded_query_rows);
}

}  // namespace

void ProbeRows(Notebook& notes) {
  ProbeLse(notes);
  ProbeEmptyRows(notes);
  ProbePaddedRows(notes);
}

}  // namespace attest::probe
