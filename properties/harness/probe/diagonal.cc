// The diagonal: where causality and windows are measured from, what a window counts, and the visible
// sets that follow.
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "attest/kernel.h"
#include "impl/attention/visibility.h"
#include "properties/harness/probe/experiments.h"

namespace attest::probe {
namespace {

using namespace contract_words;

constexpr double kInf = std::numeric_limits<double>::infinity();

Weigh UpTo(int64_t offset) {
  return [offset](int64_t b, int64_t h, int64_t i, int64_t j) {
    return j <= i + offset ? PlainWeight(b, h, i, j) : 0;
  };
}

// What one causal call says of its diagonal.
struct Diagonal {
  Reading reading;
  std::optional<int64_t> offset;  // of an answer whose rows see the keys up to a diagonal
  bool sees_all = false;
};

Diagonal ReadDiagonal(Notebook& notes, TinyCall call, int64_t keys) {
  call.WithoutRule().Option(ATTEST_OPTION_CAUSAL, int64_t{1});
  Diagonal diagonal{notes.lab.Run(call), {}, false};
  if (!diagonal.reading.computed()) return diagonal;
  const int64_t rows = call.sizes().q_len;
  const auto hidden_after = [&](const Weigh& weigh) {
    return [weigh, keys](int64_t b, int64_t h, int64_t i, int64_t j) {
      return j < keys ? weigh(b, h, i, j) : 0;
    };
  };
  diagonal.sees_all = HasWeights(diagonal.reading, call, hidden_after(PlainWeight));
  for (int64_t offset = 1 - rows; offset < keys && !diagonal.sees_all; ++offset) {
    if (HasWeights(diagonal.reading, call, hidden_after(UpTo(offset)))) diagonal.offset = offset;
  }
  return diagonal;
}

std::string Describe(const Diagonal& diagonal) {
  if (diagonal.offset) return fmt::format("offset {}", *diagonal.offset);
  if (diagonal.sees_all) return "no diagonal";
  return diagonal.reading.computed() ? "no diagonal that fits" : diagonal.reading.why;
}

// The answers to every way of asking for a diagonal of 2 x 5: 0 is top left, 3 bottom right.
struct Diagonals {
  Diagonal plain;      // nothing said
  Diagonal tall;       // 5 x 2
  Diagonal by_length;  // key length 4: 2 is the bottom right of it
  Diagonal by_past;    // two of the keys are past
  std::map<int64_t, Diagonal> by_tensor;
};

Diagonals ReadDiagonals(Notebook& notes, bool has_lengths) {
  Diagonals d;
  d.plain = ReadDiagonal(notes, notes.Plain(2, 5), 5);
  d.tall = ReadDiagonal(notes, notes.Plain(5, 2), 2);
  if (has_lengths) {
    TinyCall call = notes.Plain(2, 5);
    call.Integers(ATTEST_ROLE_KEY_LENGTHS, {1}, {4});
    d.by_length = ReadDiagonal(notes, call, 4);
  }
  TinyCall past = notes.Plain(2, 5);
  GivePast(past, 2);
  d.by_past = ReadDiagonal(notes, past, 5);
  for (const int64_t offset : {0, 3, 1}) {
    TinyCall call = notes.Plain(2, 5);
    call.Offsets({offset});
    d.by_tensor[offset] = ReadDiagonal(notes, call, 5);
    if (d.by_tensor[offset].reading.answer == Answer::kFault) break;
  }
  return d;
}

bool Is(const Diagonal& diagonal, int64_t offset) {
  return diagonal.offset == offset;
}

bool TakesTensor(const Diagonals& d, int64_t offset) {
  const auto found = d.by_tensor.find(offset);
  return found != d.by_tensor.end() && Is(found->second, offset);
}

// The rule that the kernel applies by itself.
std::optional<CausalOffset> RuleOf(const Diagonals& d, const Contract& declared) {
  if (Is(d.plain, 0)) {
    if (d.tall.reading.computed() && !Is(d.tall, 0)) return std::nullopt;
    if (Is(d.by_length, 2) || Is(d.by_past, 2)) return CausalOffset::kByInputs;
    const bool untold = !d.by_length.offset && !d.by_past.offset;  // no input to go by: the same
    return untold && declared.causal_offset.count(CausalOffset::kByInputs) != 0
               ? CausalOffset::kByInputs
               : CausalOffset::kZero;
  }
  if (!Is(d.plain, 3) || (d.tall.reading.computed() && !Is(d.tall, -3))) return std::nullopt;
  if (Is(d.by_length, 2)) return CausalOffset::kKeyLengthMinusQLen;
  const bool untold = !d.by_length.offset;  // without lengths the two rules are one
  return untold && declared.causal_offset.count(CausalOffset::kKeyLengthMinusQLen) != 0
             ? CausalOffset::kKeyLengthMinusQLen
             : CausalOffset::kKvLenMinusQLen;
}

std::string EvidenceOf(const Diagonals& d, bool has_lengths) {
  std::string text = fmt::format("2x5: {}; 5x2: {}", Describe(d.plain), Describe(d.tall));
  if (has_lengths) text += fmt::format("; length 4: {}", Describe(d.by_length));
  if (d.by_past.reading.computed()) text += fmt::format("; past 2: {}", Describe(d.by_past));
  for (const auto& [offset, diagonal] : d.by_tensor) {
    if (diagonal.reading.computed()) {
      text += fmt::format("; tensor {}: {}", offset, Describe(diagonal));
    }
  }
  return text;
}

std::string RuleWords(const EnumSet<CausalOffset>& rules) {
  std::vector<std::string_view> words;
  for (const CausalOffset rule : rules) words.push_back(WordOf(kCausalOffsets, rule));
  return fmt::format("{}", fmt::join(words, ", "));
}

// What the answers come to, in the contract's words.
EnumSet<CausalOffset> RulesOf(const Diagonals& d, const Contract& declared) {
  const std::optional<CausalOffset> rule = RuleOf(d, declared);
  const bool wants_tensor = CarriesTensor(declared.causal_offset) || !rule;
  if (wants_tensor || declared.causal_offset.empty()) {
    if (TakesTensor(d, 1)) return {CausalOffset::kExplicit};
    if (TakesTensor(d, 0) && TakesTensor(d, 3)) {
      const bool offered = declared.causal_offset.size() > 1 &&
                           declared.causal_offset.count(CausalOffset::kExplicit) == 0;
      return offered ? declared.causal_offset
                     : EnumSet<CausalOffset>{CausalOffset::kZero, CausalOffset::kKvLenMinusQLen};
    }
  }
  return rule ? EnumSet<CausalOffset>{*rule} : EnumSet<CausalOffset>{};
}

void ProbePrefix(Notebook& notes) {
  TinyCall call = notes.Plain(3, 3);
  call.Option(ATTEST_OPTION_CAUSAL, int64_t{1}).Integers(ATTEST_ROLE_PREFIX_LENGTHS, {1}, {2});
  call.WithoutRule();
  AddOffsets(notes, call, 0);
  const Weigh with = [](int64_t b, int64_t h, int64_t i, int64_t j) {
    return j <= i || j < 2 ? PlainWeight(b, h, i, j) : 0;
  };
  NoteFeature(notes, Feature::kPrefixLengths, Try(notes, call, with, UpTo(0)));
}

// --- Windows, on 4 x 4, where every rule but an odd one gives offset 0 ---

Weigh Within(int64_t left, int64_t right) {
  return [=](int64_t b, int64_t h, int64_t i, int64_t j) {
    return j >= i - left && j <= i + right ? PlainWeight(b, h, i, j) : 0;
  };
}

TinyCall WindowCall(const Notebook& notes, std::optional<int64_t> left,
                    std::optional<int64_t> right) {
  TinyCall call = notes.Plain(4, 4);
  if (left) call.Option(ATTEST_OPTION_WINDOW_LEFT, *left);
  if (right) call.Option(ATTEST_OPTION_WINDOW_RIGHT, *right);
  AddOffsets(notes, call, 0);
  return call;
}

std::string RowsSeen(const Reading& reading, int64_t rows, int64_t keys) {
  std::string text;
  for (int64_t i = 0; i < rows; ++i) {
    text += (i == 0 ? "" : " ") + SeenText(reading, 0, 0, i, keys);
  }
  return text;
}

struct LeftSide {
  Trial trial;
  bool with_diagonal = false;
};

// Whether a window of 1 to the left shows, beside rows that see `right` keys after their diagonal.
LeftSide TryLeft(Notebook& notes, const TinyCall& call, int64_t right) {
  LeftSide left{Try(notes, call, Within(1, right), Within(4, right)), false};
  if (!left.trial.reading.computed()) return left;
  left.with_diagonal = HasWeights(left.trial.reading, call, Within(0, right));
  if (left.with_diagonal) left.trial.uptake = Uptake::kWorks;
  left.trial.evidence = "left 1: rows saw " + RowsSeen(left.trial.reading, 4, 4);
  return left;
}

// --- Causality beside a mask, on 3 x 3 ---

void TryTogether(Notebook& notes, TinyCall& call, const std::vector<uint8_t>& attends,
                 Exclusion what) {
  call.Option(ATTEST_OPTION_CAUSAL, int64_t{1}).WithoutRule();
  AddOffsets(notes, call, 0);
  const auto at = [&](int64_t i, int64_t j) {
    return attends[static_cast<size_t>(3 * i + j)] != 0;
  };
  const Weigh both = [&](int64_t b, int64_t h, int64_t i, int64_t j) {
    return at(i, j) && j <= i ? PlainWeight(b, h, i, j) : 0;
  };
  Trial trial = Try(notes, call, both, UpTo(0));
  if (trial.reading.computed()) trial.evidence = "rows saw " + RowsSeen(trial.reading, 3, 3);
  const std::string_view observed = trial.uptake == Uptake::kWorks     ? "works"
                                    : trial.uptake == Uptake::kRefused ? "refused"
                                                                       : "one is lost";
  const bool is_mask = what == Exclusion::kCausalWithMask;
  NoteExclusion(notes, what, observed, trial.evidence,
                notes.declared.Has(Feature::kCausal) &&
                    notes.declared.Has(is_mask ? Feature::kMask : Feature::kBias));
}

// --- Visible sets ---

int64_t DeclaredOffset(const Contract& declared, int64_t q_len, int64_t kv_len) {
  const auto& rules = declared.causal_offset;
  const bool top_left = rules.size() == 1 && (rules.count(CausalOffset::kZero) != 0 ||
                                              rules.count(CausalOffset::kByInputs) != 0);
  return top_left ? 0 : kv_len - q_len;
}

// A call that hides by the diagonal, and what it means by the declared contract.
struct VisibleQuestion {
  TinyCall call;
  Problem problem;
  std::string asked;
  bool is_promised;
};

VisibleQuestion AskVisible(const Notebook& notes, int64_t q_len, int64_t kv_len, bool windowed) {
  const Contract& declared = notes.declared;
  VisibleQuestion q{notes.Plain(q_len, kv_len), {}, "nothing hidden", true};
  q.problem.q_len = q_len;
  q.problem.kv_len = kv_len;
  q.problem.diagonal_offset = {DeclaredOffset(declared, q_len, kv_len)};
  if (windowed) {
    const bool has_right = notes.found.window_sides == WindowSides::kBoth;
    q.asked = has_right ? "window left 1, right 1" : "window left 1";
    q.is_promised = declared.Has(Feature::kWindow);
    q.call.Option(ATTEST_OPTION_WINDOW_LEFT, int64_t{1});
    if (has_right) q.call.Option(ATTEST_OPTION_WINDOW_RIGHT, int64_t{1});
    q.problem.window.left = declared.window_counts == WindowCounts::kKeysBesideDiagonal ? 1 : 0;
    if (has_right) q.problem.window.right = 1;
  }
  const bool needs_causal =
      notes.form.is_causal || notes.found.window_sides == WindowSides::kLeftIfCausal;
  if (windowed ? needs_causal : notes.Works(Feature::kCausal)) {
    q.asked = windowed ? q.asked + ", causal" : "causal";
    q.is_promised &= declared.Has(Feature::kCausal);
    q.call.Option(ATTEST_OPTION_CAUSAL, int64_t{1});
    q.problem.causal = true;
  }
  const bool hides = q.problem.causal || windowed;
  if (hides && CarriesTensor(notes.found.causal_offset)) {
    AddOffsets(notes, q.call, kv_len - q_len);
    q.asked += fmt::format(", diagonal_offset {}", kv_len - q_len);
  }
  return q;
}

void ShowVisibleSet(Notebook& notes, int64_t q_len, int64_t kv_len, bool windowed) {
  const VisibleQuestion q = AskVisible(notes, q_len, kv_len, windowed);
  const Reading reading = notes.lab.Run(q.call);
  if (!reading.computed()) return;
  VisibleMatrix matrix{q.asked, q_len, kv_len, {}, {}};
  bool differs = false;
  for (int64_t i = 0; i < q_len; ++i) {
    std::string due;
    for (int64_t j = 0; j < kv_len; ++j) due += Visible(q.problem, {0, 0, i}, j) ? '#' : '.';
    matrix.observed.push_back(SeenText(reading, 0, 0, i, kv_len));
    // What an empty row holds is another matter.
    differs |= due.find('#') != due.npos && due != matrix.observed.back();
    matrix.declared.push_back(due);
  }
  if (differs && q.is_promised) {
    notes.Add({fmt::format("visible keys {}x{}", q_len, kv_len),
               fmt::format("{}", fmt::join(matrix.observed, " ")),
               fmt::format("{}", fmt::join(matrix.declared, " ")), q.asked,
               Agreement::kContradicts});
  }
  notes.report.matrices.push_back(std::move(matrix));
}

}  // namespace

void ProbeCausalCalls(Notebook& notes) {
  if (!notes.form.is_causal) return;
  // Lengths need the rule to be seen, and the rule the lengths: they are tried here.
  const EnumSet<CausalOffset> rules = RulesOf(ReadDiagonals(notes, true), notes.declared);
  if (rules.size() == 1) notes.form.rule = *rules.begin();
}

void ProbeDiagonal(Notebook& notes) {
  const Diagonals d = ReadDiagonals(notes, notes.Works(Feature::kKeyLengths));
  notes.found.causal_offset = RulesOf(d, notes.declared);
  const bool works = !notes.found.causal_offset.empty();
  Trial trial = TrialOf(d.plain.reading, works, d.plain.sees_all,
                        EvidenceOf(d, notes.Works(Feature::kKeyLengths)));
  if (works) {
    trial.uptake = Uptake::kWorks;  // perhaps with a tensor only
    trial.evidence = "rows see no key after their diagonal";
  }
  NoteFeature(notes, Feature::kCausal, trial);
  if (!works) {
    notes.found.causal_offset = notes.declared.causal_offset;
    if (d.plain.reading.answer == Answer::kFault) {
      notes.Unknown("causal alignment", RuleWords(notes.declared.causal_offset),
                    "crashed: " + d.plain.reading.why);
    }
    return;
  }
  Compare(notes, "causal alignment", RuleWords(notes.found.causal_offset),
          RuleWords(notes.declared.causal_offset), notes.declared.Has(Feature::kCausal),
          EvidenceOf(d, notes.Works(Feature::kKeyLengths)));
  ProbePrefix(notes);
}

void ProbeWindow(Notebook& notes) {
  const TinyCall plain = WindowCall(notes, 1, std::nullopt);
  LeftSide left = TryLeft(notes, plain, 4);
  bool if_causal = false;
  if (left.trial.uptake == Uptake::kRefused && notes.Works(Feature::kCausal)) {
    TinyCall causal = plain;
    causal.Option(ATTEST_OPTION_CAUSAL, int64_t{1});
    const LeftSide again = TryLeft(notes, causal, 0);
    if_causal = again.trial.uptake == Uptake::kWorks;
    if (if_causal) left = again;
  }
  NoteFeature(notes, Feature::kWindow, left.trial);
  if (left.trial.uptake != Uptake::kWorks) return;
  const bool is_declared = notes.declared.Has(Feature::kWindow);
  notes.found.window_counts =
      left.with_diagonal ? WindowCounts::kKeysWithDiagonal : WindowCounts::kKeysBesideDiagonal;
  Compare(notes, "window counts", WordOf(kWindowCounts, notes.found.window_counts),
          WordOf(kWindowCounts, notes.declared.window_counts), is_declared, left.trial.evidence);
  Trial right = Try(notes, WindowCall(notes, std::nullopt, 1), Within(4, 1), PlainWeight);
  if (right.reading.computed()) {
    right.evidence = "right 1: rows saw " + RowsSeen(right.reading, 4, 4);
  }
  notes.found.window_sides = right.uptake == Uptake::kWorks ? WindowSides::kBoth
                             : if_causal                    ? WindowSides::kLeftIfCausal
                                                            : WindowSides::kLeft;
  // More than is declared is no contradiction.
  const bool is_more = notes.declared.window_sides != WindowSides::kBoth &&
                       notes.found.window_sides != WindowSides::kLeftIfCausal;
  const bool agrees = notes.found.window_sides == notes.declared.window_sides;
  Compare(notes, "window sides", WordOf(kWindowSides, notes.found.window_sides),
          WordOf(kWindowSides, notes.declared.window_sides), is_declared && (agrees || !is_more),
          if_causal ? "left 1 without causality is refused; right 1: " + right.evidence
                    : right.evidence);
}

void ProbeTogether(Notebook& notes) {
  if (!notes.Works(Feature::kCausal)) return;
  const std::vector<uint8_t> attends = {1, 1, 1, 0, 1, 1, 1, 0, 1};
  if (notes.Works(Feature::kMask)) {
    TinyCall call = notes.Plain(3, 3);
    AddMask(notes, call, attends);
    TryTogether(notes, call, attends, Exclusion::kCausalWithMask);
  }
  if (notes.Works(Feature::kBias)) {
    std::vector<double> values;
    for (const uint8_t bit : attends) values.push_back(bit != 0 ? 0 : -kInf);
    TinyCall call = notes.Plain(3, 3);
    call.Floats(ATTEST_ROLE_BIAS, notes.form.dtype, {1, 1, 3, 3}, values);
    TryTogether(notes, call, attends, Exclusion::kCausalWithBias);
  }
}

void ProbeVisibleSets(Notebook& notes) {
  constexpr std::pair<int64_t, int64_t> kSizes[] = {{2, 5}, {5, 2}, {3, 3}};
  for (const auto& [q_len, kv_len] : kSizes) ShowVisibleSet(notes, q_len, kv_len, false);
  if (!notes.Works(Feature::kWindow)) return;
  for (const auto& [q_len, kv_len] : kSizes) ShowVisibleSet(notes, q_len, kv_len, true);
}

}  // namespace attest::probe
