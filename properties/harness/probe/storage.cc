// Heads and sizes, and where keys and values lie: past, present, pages, ring, packed sequences.
#include <cmath>

#include <fmt/format.h>

#include "attest/kernel.h"
#include "properties/harness/probe/experiments.h"

namespace attest::probe {
namespace {

using namespace contract_words;

// Keys `first` to `last` of an array [batch, heads, keys, dim].
Array KeysOf(const Array& array, int64_t first, int64_t last) {
  Array part({array.shape[0], array.shape[1], last - first, array.shape[3]});
  for (int64_t b = 0; b < part.shape[0]; ++b)
    for (int64_t h = 0; h < part.shape[1]; ++h)
      for (int64_t j = 0; j < part.shape[2]; ++j)
        for (int64_t d = 0; d < part.shape[3]; ++d) {
          part.At(b, h, j, d) = array.At(b, h, first + j, d);
        }
  return part;
}

// Kv head 1 scores its keys the other way round and has twice the values. Which head reads which?
void ProbeGqa(Notebook& notes) {
  const int64_t rows = notes.OneRow(3).sizes().q_len;
  TinyCall call(notes.form, {1, 4, 2, rows, 3, 0});
  for (int64_t j = 0; j < 3; ++j) {
    call.k.At(0, 1, j, 0) = static_cast<double>(2 - j);
    call.v.At(0, 1, j, j) = 2;
  }
  Reading reading = notes.lab.Run(call);
  std::string keys, values;
  if (reading.computed()) {
    for (int64_t h = 0; h < 4; ++h) {
      double sum = 0;
      for (int64_t j = 0; j < 3; ++j) sum += reading.Weight(0, h, rows - 1, j);
      keys += reading.Weight(0, h, rows - 1, 2) > reading.Weight(0, h, rows - 1, 0) ? '0' : '1';
      values += sum < 1.5 ? '0' : '1';
    }
  }
  const std::string evidence =
      fmt::format("q heads 0 to 3 read the keys of kv heads {}, the values of {}", keys, values);
  const bool works = keys == "0011" && values == "0011";
  const std::string observed = works                                ? "grouped"
                               : keys == "0101" && values == "0101" ? "modulo"
                               : keys != values                     ? "keys and values differ"
                                                                    : "something else";
  const bool computed = reading.computed();
  NoteFeature(notes, Feature::kGqa, TrialOf(std::move(reading), works, false, evidence));
  if (!computed) return;
  Compare(notes, "kv head mapping", observed, "grouped", notes.declared.Has(Feature::kGqa),
          evidence);
}

// Two queries and one key.
void ProbeFewerKeys(Notebook& notes) {
  if (notes.declared.limits.max_q_len == 1) return;
  const Reading reading = notes.lab.Run(notes.Plain(2, 1));
  const bool works = reading.computed();
  const std::string_view observed = works                                ? "works"
                                    : reading.answer == Answer::kRefused ? "refused"
                                                                         : "a fault";
  NoteExclusion(notes, Exclusion::kFewerKeysThanQueries, observed,
                works ? "2x1 answered" : reading.why);
}

void ProbeSizes(Notebook& notes) {
  const TinyCall narrow(notes.form, {1, 1, 1, 2, 3, notes.form.head_dim / 2});
  NoteFeature(notes, Feature::kValueDim, Try(notes, narrow, PlainWeight, PlainWeight));
  Trial trial;
  for (const auto& [q_len, kv_len] : {std::pair<int64_t, int64_t>{0, 3}, {2, 0}}) {
    Reading reading = notes.lab.Run(notes.Plain(q_len, kv_len));
    const bool computed = reading.computed();
    trial = TrialOf(std::move(reading), true, false, fmt::format("{}x{} answered", q_len, kv_len));
    if (!computed) break;
  }
  NoteFeature(notes, Feature::kZeroSizes, trial);
  ProbeFewerKeys(notes);
}

bool SameValues(const Array& a, const Array& b) {
  return a.shape == b.shape && a.values == b.values;
}

// `alone` is a call with a past that does not ask for the present; one that does has worked.
void NotePastWithoutPresent(Notebook& notes, const Trial& alone) {
  const std::string_view observed = alone.uptake == Uptake::kWorks     ? "works"
                                    : alone.uptake == Uptake::kRefused ? "refused"
                                                                       : "the past is lost";
  NoteExclusion(notes, Exclusion::kPastWithoutPresent, observed, alone.evidence,
                notes.declared.Has(Feature::kPast));
}

void AskForPresent(const Notebook& notes, TinyCall& call, const Array& k, const Array& v) {
  for (const auto& [role, array] :
       {std::pair{ATTEST_ROLE_PRESENT_K, &k}, std::pair{ATTEST_ROLE_PRESENT_V, &v}}) {
    call.Ask(role, notes.form.dtype, {array->shape.begin(), array->shape.end()});
  }
}

bool HasPresent(const Reading& reading, const Array& k, const Array& v) {
  return reading.computed() && SameValues(reading.Output(ATTEST_ROLE_PRESENT_K), k) &&
         SameValues(reading.Output(ATTEST_ROLE_PRESENT_V), v);
}

// A first call of a cache, which says that it `works`.
void NoteFirstCall(Notebook& notes, Exclusion what, const Reading& reading, bool works) {
  const std::string_view observed = works                                ? "works"
                                    : reading.answer == Answer::kRefused ? "refused"
                                                                         : "a fault";
  NoteExclusion(notes, what, observed, works ? "2x4 answered" : reading.why);
}

// `both` asks for the present beside a past.
void ProbePresent(Notebook& notes, Reading both, const Array& k, const Array& v) {
  TinyCall alone = notes.Plain(2, 4);
  AskForPresent(notes, alone, k, v);
  const Reading first = notes.lab.Run(alone);
  const bool works_first = HasPresent(first, k, v);
  // Where no past is taken, the present is that of first calls.
  Reading reading = notes.Works(Feature::kPast) ? std::move(both) : first;
  const bool works = HasPresent(reading, k, v);
  NoteFeature(notes, Feature::kPresent,
              TrialOf(std::move(reading), works, false,
                      works ? "past and new keys in order" : "not past and new keys in order"));
  if (works) NoteFirstCall(notes, Exclusion::kPresentWithoutPast, first, works_first);
}

void ProbeEmptyPast(Notebook& notes, const Array& k, const Array& v) {
  TinyCall call = notes.Plain(2, 4);
  GivePast(call, 0);
  if (notes.Works(Feature::kPresent)) AskForPresent(notes, call, k, v);
  const Reading reading = notes.lab.Run(call);
  const bool works = reading.computed() && HasWeights(reading, call, PlainWeight);
  NoteFirstCall(notes, Exclusion::kEmptyPast, reading, works);
}

void ProbePast(Notebook& notes) {
  TinyCall call = notes.Plain(2, 4);
  const Array all_k = call.k, all_v = call.v;
  GivePast(call, 3);
  const Trial alone = Try(notes, call, PlainWeight, PlainWeight);
  AskForPresent(notes, call, all_k, all_v);
  Trial both = Try(notes, call, PlainWeight, PlainWeight);
  const bool needs_present = alone.uptake != Uptake::kWorks && both.uptake == Uptake::kWorks;
  NoteFeature(notes, Feature::kPast, needs_present ? both : alone);
  if (both.uptake == Uptake::kWorks) NotePastWithoutPresent(notes, alone);
  ProbePresent(notes, std::move(both.reading), all_k, all_v);
  if (notes.Works(Feature::kPast)) ProbeEmptyPast(notes, all_k, all_v);
}

void ProbePages(Notebook& notes) {
  const TinyCall call = PagedCall(notes, 1);
  NoteFeature(notes, Feature::kPages, Try(notes, call, PlainWeight, PlainWeight));
}

void ProbeRing(Notebook& notes) {
  TinyCall call = notes.Plain(2, 4);
  const Array k = call.k, v = call.v;
  for (int64_t j = 0; j < 4; ++j) {  // key j in slot (3 + j) % 4
    for (int64_t d = 0; d < k.shape[3]; ++d) {
      call.k.At(0, 0, (3 + j) % 4, d) = k.At(0, 0, j, d);
      call.v.At(0, 0, (3 + j) % 4, d) = v.At(0, 0, j, d);
    }
  }
  call.Integers(ATTEST_ROLE_RING_START, {1}, {3});
  // Without causality the order of the keys shows in nothing but a mask.
  const bool masked = notes.Works(Feature::kMask);
  if (masked) AddMask(notes, call, {1, 0, 0, 1, 1, 0, 0, 1});
  if (!masked && notes.Works(Feature::kCausal)) {
    call.Option(ATTEST_OPTION_CAUSAL, int64_t{1});
    AddOffsets(notes, call, OffsetOf(notes, 2, 4));
  }
  const int64_t offset = OffsetOf(notes, 2, 4);
  const bool causal = !masked && notes.Works(Feature::kCausal);
  const Weigh with = [=](int64_t b, int64_t h, int64_t i, int64_t j) {
    const bool hidden = masked ? j == 1 || j == 2 : causal && j > i + offset;
    return hidden ? 0 : PlainWeight(b, h, i, j);
  };
  NoteFeature(notes, Feature::kRing, Try(notes, call, with, [](auto...) { return -1.0; }));
}

// Items of 2 rows and 3 keys, and of 1 row and 2 keys, end to end.
void ProbePacked(Notebook& notes) {
  TinyCall call(notes.form, {1, 1, 1, 3, 5, 0});
  call.is_packed = true;
  call.Integers(ATTEST_ROLE_CU_QUERY_LENGTHS, {3}, {0, 2, 3});
  call.Integers(ATTEST_ROLE_CU_KEY_LENGTHS, {3}, {0, 3, 5});
  Reading reading = notes.lab.Run(call);
  bool works = reading.computed();
  std::string evidence;
  for (int64_t i = 0; i < 3 && reading.computed(); ++i) {
    const int64_t first = i < 2 ? 0 : 3;
    // Where every call is causal row 0 sees one key fewer, but not from the top left.
    const bool by_length = notes.form.rule != CausalOffset::kZero;
    const int64_t seen = (i == 1 ? 2 : 1) + (by_length ? 1 : 0);
    const int64_t last = notes.form.is_causal ? first + seen : i < 2 ? 3 : 5;
    double sum = 0;
    for (int64_t j = first; j < last; ++j) sum += std::exp2(j);
    for (int64_t j = 0; j < 5; ++j) {  // of rank 3: [row, head, dim]
      const double due = j >= first && j < last ? std::exp2(j) / sum : 0;
      works &= std::abs(reading.Output(ATTEST_ROLE_OUT).At(i, 0, j, 0) - due) < 0.02;
    }
  }
  NoteFeature(notes, Feature::kPacked,
              TrialOf(std::move(reading), works, false,
                      works ? "each sequence sees its own keys" : "sequences see other keys"));
}

}  // namespace

void GivePast(TinyCall& call, int64_t past) {
  const int64_t keys = call.k.shape[2];
  call.Data(ATTEST_ROLE_PAST_K, KeysOf(call.k, 0, past));
  call.Data(ATTEST_ROLE_PAST_V, KeysOf(call.v, 0, past));
  call.k = KeysOf(call.k, past, keys);
  call.v = KeysOf(call.v, past, keys);
}

// Five keys an item in pages of two: three pages, the last one half used, and one free page in front.
TinyCall PagedCall(const Notebook& notes, int64_t batch) {
  TinyCall call = notes.Plain(1, 5, batch);
  const Array k = call.k, v = call.v;
  const int64_t dim = k.shape[3];
  call.k = Array({4 * batch, 1, 2, dim});
  call.v = Array({4 * batch, 1, 2, dim});
  std::vector<int64_t> table;
  for (int64_t b = 0; b < batch; ++b) {
    for (const int64_t page : {3, 1, 2}) table.push_back(4 * b + page);
    for (int64_t j = 0; j < 5; ++j)
      for (int64_t d = 0; d < dim; ++d) {
        const int64_t page = table[static_cast<size_t>(3 * b + j / 2)];
        call.k.At(page, 0, j % 2, d) = k.At(b, 0, j, d);
        call.v.At(page, 0, j % 2, d) = v.At(b, 0, j, d);
      }
  }
  call.Integers(ATTEST_ROLE_PAGE_TABLE, {batch, 3}, table);
  call.Integers(ATTEST_ROLE_KEY_LENGTHS, {batch},
                std::vector<int64_t>(static_cast<size_t>(batch), 5));
  return call;
}

void ProbeHeads(Notebook& notes) {
  ProbeGqa(notes);
  ProbeSizes(notes);
}

void ProbeStorage(Notebook& notes) {
  ProbePast(notes);
  ProbePages(notes);
  ProbeRing(notes);
  ProbePacked(notes);
}

}  // namespace attest::probe
