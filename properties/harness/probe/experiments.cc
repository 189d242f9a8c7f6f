#include "properties/harness/probe/experiments.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "attest/kernel.h"

namespace attest::probe {
namespace {

constexpr double kClose =
    0.02;  // weights of the standard data differ by more, roundings of bf16 by less

std::string_view UptakeWord(Uptake uptake) {
  switch (uptake) {
    case Uptake::kWorks:
      return "works";
    case Uptake::kIgnored:
      return "ignored";
    case Uptake::kWrong:
      return "wrong";
    case Uptake::kRefused:
      return "refused";
    case Uptake::kFault:
      return "unknown: crashed";
  }
  return "?";
}

// `weigh` over the keys that the call's form does not hide.
Weigh Within(const TinyCall& call, const Weigh& weigh) {
  return [&call, &weigh](int64_t b, int64_t h, int64_t i, int64_t j) {
    return call.IsHiddenByForm(b, i, j) ? 0 : weigh(b, h, i, j);
  };
}

// The weights of the first row that differs, or of the first.
std::string WeightsEvidence(const Reading& reading, const TinyCall& call, const Weigh& of_all) {
  const TinySizes& s = call.sizes();
  const Weigh weigh = Within(call, of_all);
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t h = 0; h < s.q_heads; ++h)
      for (int64_t i = 0; i < s.q_len; ++i) {
        std::string expected;
        double sum = 0;
        for (int64_t j = 0; j < s.kv_len; ++j) sum += weigh(b, h, i, j);
        bool differs = false;
        for (int64_t j = 0; j < s.kv_len && sum > 0; ++j) {
          const double due = weigh(b, h, i, j) / sum;
          expected += fmt::format("{}{:.3g}", j == 0 ? "" : " ", due);
          differs |= !(std::abs(reading.Weight(b, h, i, j) - due) < kClose);
        }
        if (differs) {
          return fmt::format("row {} of head {}, batch {}: weights {}, due {{{}}}", i, h, b,
                             RowText(reading, b, h, i, s.kv_len), expected);
        }
      }
  return fmt::format("row {}: weights {}", s.q_len - 1,
                     RowText(reading, 0, 0, s.q_len - 1, s.kv_len));
}

Agreement Judge(Uptake uptake, bool is_declared) {
  if (is_declared) return uptake == Uptake::kWorks ? Agreement::kAgrees : Agreement::kContradicts;
  return uptake == Uptake::kRefused ? Agreement::kAgrees : Agreement::kUndeclared;
}

}  // namespace

void Notebook::Unknown(std::string_view topic, std::string_view declared_word,
                       const std::string& why) {
  Add({std::string(topic), "unknown", std::string(declared_word), why, Agreement::kUnknown});
}

void Compare(Notebook& notes, std::string_view topic, std::string_view observed,
             std::string_view declared, bool is_declared, std::string evidence) {
  const Agreement agreement = !is_declared           ? Agreement::kUndeclared
                              : observed == declared ? Agreement::kAgrees
                                                     : Agreement::kContradicts;
  notes.Add({std::string(topic), std::string(observed),
             is_declared ? std::string(declared) : std::string(), std::move(evidence), agreement});
}

void NoteExclusion(Notebook& notes, Exclusion what, std::string_view observed, std::string evidence,
                   bool is_offered) {
  if (observed == "works") {
    notes.found.excludes.erase(what);
  } else {
    notes.found.excludes.insert(what);
  }
  const bool excluded = notes.declared.Excludes(what);
  Compare(notes, contract_words::WordOf(contract_words::kExclusions, what), observed,
          excluded ? "refused" : "works", is_offered && (!excluded || observed == "refused"),
          std::move(evidence));
}

double PlainWeight(int64_t, int64_t, int64_t, int64_t j) {
  return std::exp2(static_cast<double>(j));
}

bool HasWeights(const Reading& reading, const TinyCall& call, const Weigh& of_all) {
  const TinySizes& s = call.sizes();
  const Weigh weigh = Within(call, of_all);
  if (reading.Output(ATTEST_ROLE_OUT).shape[3] < s.kv_len) return false;
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t h = 0; h < s.q_heads; ++h)
      for (int64_t i = 0; i < s.q_len; ++i) {
        double sum = 0;
        for (int64_t j = 0; j < s.kv_len; ++j) sum += weigh(b, h, i, j);
        for (int64_t j = 0; j < s.kv_len && sum > 0; ++j) {
          const double due = weigh(b, h, i, j) / sum;
          if (!(std::abs(reading.Weight(b, h, i, j) - due) < kClose)) return false;
        }
      }
  return true;
}

Trial TrialOf(Reading reading, bool works, bool ignored, std::string evidence) {
  Trial trial;
  if (reading.answer == Answer::kFault || reading.answer == Answer::kRefused) {
    trial.uptake = reading.answer == Answer::kFault ? Uptake::kFault : Uptake::kRefused;
    trial.evidence = reading.why;
  } else {
    trial.uptake = works ? Uptake::kWorks : ignored ? Uptake::kIgnored : Uptake::kWrong;
    trial.evidence = std::move(evidence);
  }
  trial.reading = std::move(reading);
  return trial;
}

Trial Try(Notebook& notes, const TinyCall& call, const Weigh& with, const Weigh& without) {
  Reading reading = notes.lab.Run(call);
  if (!reading.computed()) return TrialOf(std::move(reading), false, false, "");
  const bool works = HasWeights(reading, call, with);
  const bool ignored = HasWeights(reading, call, without);
  std::string evidence = WeightsEvidence(reading, call, with);
  return TrialOf(std::move(reading), works, ignored, std::move(evidence));
}

void NoteOffer(Notebook& notes, std::string_view topic, bool is_declared, const Trial& trial) {
  notes.Add({std::string(topic), std::string(UptakeWord(trial.uptake)),
             is_declared ? "offered" : "", trial.evidence, Judge(trial.uptake, is_declared)});
}

void NoteFeature(Notebook& notes, Feature feature, const Trial& trial) {
  if (trial.uptake == Uptake::kWorks) notes.found.features.insert(feature);
  NoteOffer(notes, contract_words::WordOf(contract_words::kFeatures, feature),
            notes.declared.Has(feature), trial);
}

bool CarriesTensor(const EnumSet<CausalOffset>& rules) {
  return rules.size() > 1 || rules.count(CausalOffset::kExplicit) != 0;
}

void AddOffsets(const Notebook& notes, TinyCall& call, int64_t offset) {
  if (!CarriesTensor(notes.found.causal_offset)) return;
  call.Offsets(std::vector<int64_t>(static_cast<size_t>(call.sizes().batch), offset));
}

int64_t OffsetOf(const Notebook& notes, int64_t q_len, int64_t kv_len) {
  const auto& rules = notes.found.causal_offset;
  const bool bottom_right = rules.count(CausalOffset::kKvLenMinusQLen) != 0 ||
                            rules.count(CausalOffset::kKeyLengthMinusQLen) != 0;
  return bottom_right && !CarriesTensor(rules) ? kv_len - q_len : 0;
}

void AddMask(const Notebook& notes, TinyCall& call, std::vector<uint8_t> attends) {
  const TinySizes& s = call.sizes();
  const uint8_t flip = notes.found.mask_true_means == MaskPolarity::kHide ? 1 : 0;
  for (uint8_t& bit : attends) bit ^= flip;
  std::vector<uint8_t> bits;  // for each head
  const auto plane = static_cast<size_t>(s.q_len * s.kv_len);
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t h = 0; h < s.q_heads; ++h) {
      const auto at = attends.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(b) * plane);
      bits.insert(bits.end(), at, at + static_cast<ptrdiff_t>(plane));
    }
  call.Bits(ATTEST_ROLE_MASK, {s.batch, s.q_heads, s.q_len, s.kv_len}, std::move(bits));
}

}  // namespace attest::probe
