// The experiments of the probe, by subject, and the notebook they share. Internal to the probe.
#ifndef ATTEST_HARNESS_PROBE_EXPERIMENTS_H_
#define ATTEST_HARNESS_PROBE_EXPERIMENTS_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "impl/attention/contract_words.h"
#include "properties/harness/probe/probe.h"

namespace attest::probe {

// What the experiments share: the kernel, the form of the calls, what is known so far.
struct Notebook {
  Lab& lab;
  const Contract& declared;
  ProbeReport& report;
  Contract found;  // becomes report.proposed
  Form form;

  bool Works(Feature feature) const { return found.Has(feature); }
  // A plain call of one head in the form.
  TinyCall Plain(int64_t q_len, int64_t kv_len, int64_t batch = 1) const {
    return TinyCall(form, {batch, 1, 1, q_len, kv_len, 0});
  }
  // One row that sees all keys, and is the last of as few rows as that takes.
  TinyCall OneRow(int64_t kv_len, int64_t batch = 1) const {
    const bool top_left = form.is_causal && form.rule != CausalOffset::kKvLenMinusQLen &&
                          form.rule != CausalOffset::kKeyLengthMinusQLen;
    return Plain(top_left ? kv_len : 1, kv_len, batch);
  }
  void Add(ProbeLine line) { report.lines.push_back(std::move(line)); }
  void Unknown(std::string_view topic, std::string_view declared_word, const std::string& why);
};

// --- Conventions ---

// Adds a line; `is_declared` false: nothing is promised about it.
void Compare(Notebook& notes, std::string_view topic, std::string_view observed,
             std::string_view declared, bool is_declared, std::string evidence);

// Adds the line of an exclusion and notes it where the call does not work. `observed` is "works",
// "refused" or what else became of it; `is_offered` false: nothing is promised about either half.
void NoteExclusion(Notebook& notes, Exclusion what, std::string_view observed, std::string evidence,
                   bool is_offered = true);

// --- Features ---

// The relative weight of key j in row (b, h, i), by the standard data; 0 = hidden.
using Weigh = std::function<double(int64_t b, int64_t h, int64_t i, int64_t j)>;
double PlainWeight(int64_t b, int64_t h, int64_t i, int64_t j);  // 2^j

// True when each row's weights are those of `weigh`, normalised over the keys that a causal form
// leaves; rows that see nothing are skipped.
bool HasWeights(const Reading& reading, const TinyCall& call, const Weigh& weigh);

enum class Uptake { kWorks, kIgnored, kWrong, kRefused, kFault };

struct Trial {
  Uptake uptake = Uptake::kFault;
  std::string evidence;
  Reading reading;
};

// Runs a call that asks for something: does the answer follow it (`with`), ignore it (`without`), or
// neither? Give the same for both where ignoring cannot be told.
Trial Try(Notebook& notes, const TinyCall& call, const Weigh& with, const Weigh& without);

// Judges an answer by a reading of one's own.
Trial TrialOf(Reading reading, bool works, bool ignored, std::string evidence);

// Adds the line of a feature and notes it where it works. An `evidence` of its own may be given.
void NoteFeature(Notebook& notes, Feature feature, const Trial& trial);
void NoteOffer(Notebook& notes, std::string_view topic, bool is_declared, const Trial& trial);

// --- The experiments, in the order in which they may be run. Each adds its lines. ---

bool FindForm(Notebook& notes);          // false: no call was answered
void ProbeCausalCalls(Notebook& notes);  // whether every call is causal, and by which diagonal then
void ProbeSurface(Notebook& notes);      // dtypes, 8-bit formats, layouts, strides
void ProbeMask(Notebook& notes);         // polarity, broadcast, ranks
void ProbeBias(Notebook& notes);         // polarity, -inf, f32, with a mask
void ProbeLengths(Notebook& notes);      // key lengths
void ProbeDiagonal(Notebook& notes);     // causal, its alignment, prefix
void ProbeWindow(Notebook& notes);       // sides and counting
void ProbeTogether(Notebook& notes);     // causality beside a mask
void ProbeVisibleSets(Notebook& notes);  // the matrices
void ProbeHeads(Notebook& notes);        // kv heads, value_dim, zero sizes
void ProbeRows(Notebook& notes);         // lse, empty rows, padded rows
void ProbeScores(Notebook& notes);       // scale, softcap, ALiBi, sinks, dropout
void ProbeOutputs(Notebook& notes);      // weights, scores
void ProbeGroups(Notebook& notes);       // documents, block mask
void ProbeStorage(Notebook& notes);      // past, present, pages, ring, packed
void ProbeMasking(Notebook& notes);      // the value that hides
void ProbePoison(Notebook& notes);       // hidden and visible NaN
void ProbeRerun(Notebook& notes);        // determinism

// --- What several experiments need ---

// True where a causal call carries its diagonal as a tensor, by these rules.
bool CarriesTensor(const EnumSet<CausalOffset>& rules);
// Adds the diagonal where the kernel takes it as a tensor.
void AddOffsets(const Notebook& notes, TinyCall& call, int64_t offset);
// The offset of a causal call without key lengths that AddOffsets(zero) leads to.
int64_t OffsetOf(const Notebook& notes, int64_t q_len, int64_t kv_len);
// Five keys for one row of each item, in pages of two.
TinyCall PagedCall(const Notebook& notes, int64_t batch);
// Makes the first `past` keys and values past ones.
void GivePast(TinyCall& call, int64_t past);
// Adds a boolean mask of [batch, 1, q_len, kv_len] that attends where `attends` is 1, in the
// polarity that was observed.
void AddMask(const Notebook& notes, TinyCall& call, std::vector<uint8_t> attends);

}  // namespace attest::probe

#endif  // ATTEST_HARNESS_PROBE_EXPERIMENTS_H_
