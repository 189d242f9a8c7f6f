// Teacher forcing: what a batcher makes of documents. The documents of a case have no token twice, so that each
// token of a row says which one it is, and the law can be read off.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "properties/harness/model/compare_logits.h"
#include "properties/transformer/leak_trial.h"
#include "properties/transformer/model_properties.h"

namespace attest {
namespace {

std::string NeedsBatcher(const ModelContract& contract, bool) {
  return contract.batcher ? "" : "the model has no batcher";
}

std::string NeedsPad(const ModelContract& contract, bool) {
  if (!contract.batcher) return "the model has no batcher";
  const BatcherContract& b = *contract.batcher;
  if (!b.pad) return "the batcher has no token for padding";
  return b.pad == b.bos || b.pad == b.eos ? "the token for padding means something else, too" : "";
}

// Where a token of a document is from.
struct Place {
  size_t document, index;
};

class Documents {
 public:
  explicit Documents(const std::vector<Sequence>& documents) : documents_(documents) {
    for (size_t d = 0; d < documents.size(); ++d) {
      for (size_t i = 0; i < documents[d].size(); ++i) {
        distinct_ &= places_.emplace(documents[d][i], Place{d, i}).second;
      }
    }
  }

  bool distinct() const { return distinct_; }
  std::optional<Place> PlaceOf(int64_t token) const {
    const auto found = places_.find(token);
    return found == places_.end() ? std::nullopt : std::optional(found->second);
  }
  // The token so many places behind; nullopt beyond either end.
  std::optional<int64_t> After(Place place, int64_t by) const {
    const int64_t index = static_cast<int64_t>(place.index) + by;
    const Sequence& document = documents_[place.document];
    if (index < 0 || index >= std::ssize(document)) return std::nullopt;
    return document[static_cast<size_t>(index)];
  }

 private:
  const std::vector<Sequence>& documents_;
  std::map<int64_t, Place> places_;
  bool distinct_ = true;
};

// What a token that counts may be followed by.
struct Due {
  std::optional<int64_t> token;  // this one
  bool any_first = false;        // or the first one of a document
};

Due DueAfter(int64_t input, const Documents& documents, const BatcherContract& batcher) {
  Due due;
  if (const auto place = documents.PlaceOf(input)) {
    due.token = documents.After(*place, 1);
    if (!due.token) due.token = batcher.eos;
    if (!due.token && batcher.joins) due.token = batcher.bos;
  } else if (input == batcher.bos) {
    due.any_first = true;
  } else if (input == batcher.eos && batcher.joins) {
    due.token = batcher.bos;
    due.any_first = !due.token;
  }
  return due;
}

bool IsDue(int64_t target, const Due& due, const Documents& documents) {
  if (due.token) return target == *due.token;
  const auto place = documents.PlaceOf(target);
  return due.any_first && place && place->index == 0;
}

// The class of a wrong target and what it looks like.
std::pair<std::string, std::string> FaultOf(int64_t input, int64_t target, int64_t first_of_row,
                                            const Documents& documents,
                                            const BatcherContract& batcher) {
  if (input == target) return {"target-not-shifted", "the target is the token itself: not shifted"};
  const auto from = documents.PlaceOf(input), to = documents.PlaceOf(target);
  if (from && target == documents.After(*from, 2)) {
    return {"target-shifted-twice", "the target is the token after the next: shifted twice"};
  }
  if (from && target == documents.After(*from, -1)) {
    return {"target-shifted-backwards", "the target is the token before: shifted backwards"};
  }
  if (from && to && from->document != to->document) {
    return {"shift-across-documents", "the target is of another document"};
  }
  if (target == first_of_row) return {"target-wraps-around", "the target is the first of the row"};
  if (target == batcher.pad) return {"padding-in-loss", "the target is padding"};
  return {};
}

std::string Words(int64_t token, const Documents& documents, const BatcherContract& batcher) {
  if (const auto place = documents.PlaceOf(token)) {
    return fmt::format("token {} (document {}, place {})", token, place->document, place->index);
  }
  const char* what = token == batcher.pad   ? "padding"
                     : token == batcher.bos ? "the beginning"
                     : token == batcher.eos ? "the end"
                                            : "of no document";
  return fmt::format("token {} ({})", token, what);
}

// Why a target that counts is wrong; nullopt where it is right.
std::optional<Verdict> WrongTarget(const LearningRows& rows, size_t r, size_t i,
                                   const Documents& documents, const BatcherContract& batcher) {
  const int64_t input = rows.inputs[r][i], target = rows.targets[r][i];
  const Due due = DueAfter(input, documents, batcher);
  if (IsDue(target, due, documents)) return std::nullopt;
  const std::string wanted = due.token       ? Words(*due.token, documents, batcher)
                             : due.any_first ? "the first token of a document"
                                             : "no target at all (weight 0)";
  Verdict verdict = ModelFailure(
      Cause::kValue, "targets",
      fmt::format("row {}, position {}: {} has the target {} with weight {:.3g}, where {} was due",
                  r, i, Words(input, documents, batcher), Words(target, documents, batcher),
                  rows.weights[r][i], wanted));
  std::tie(verdict.cause_class, verdict.likely_cause) =
      FaultOf(input, target, rows.inputs[r][0], documents, batcher);
  if (!verdict.likely_cause.empty()) verdict.sentence += "; " + verdict.likely_cause;
  return verdict;
}

tl::expected<LearningRows, Verdict> RowsOf(const ModelCase& c, ModelLab& lab) {
  auto all = lab.Batch(std::span(&c.documents, 1), c.row_len);
  if (!all) return tl::unexpected(all.error());
  return std::move(all->front());
}

// The target of a token is the next one of its document, and nothing else ever counts.
Verdict TargetsAreTheNextToken(const ModelCase& c, ModelLab& lab) {
  const Documents documents(c.documents);
  if (!documents.distinct()) return SaysNothing("a token occurs twice");
  const auto rows = RowsOf(c, lab);
  if (!rows) return rows.error();
  const BatcherContract& batcher = *lab.contract().batcher;
  const bool pad_is_judged = NeedsPad(lab.contract(), false).empty();
  for (size_t r = 0; r < rows->inputs.size(); ++r) {
    for (size_t i = 0; i < rows->inputs[r].size(); ++i) {
      const double weight = rows->weights[r][i];
      if (!(weight >= 0) || !std::isfinite(weight)) {
        return ModelFailure(Cause::kValue, "weights",
                            fmt::format("row {}, position {}: the weight is {}", r, i, weight));
      }
      const bool is_padding = pad_is_judged && rows->inputs[r][i] == *batcher.pad;
      if (weight == 0 || is_padding) continue;  // padding has a claim of its own
      if (auto verdict = WrongTarget(*rows, r, i, documents, batcher)) return *verdict;
    }
  }
  return {};
}

Verdict PaddingHasNoWeight(const ModelCase& c, ModelLab& lab) {
  const auto rows = RowsOf(c, lab);
  if (!rows) return rows.error();
  const int64_t pad = *lab.contract().batcher->pad;
  for (size_t r = 0; r < rows->inputs.size(); ++r) {
    for (size_t i = 0; i < rows->inputs[r].size(); ++i) {
      const bool is_padding = rows->inputs[r][i] == pad || rows->targets[r][i] == pad;
      if (!is_padding || rows->weights[r][i] == 0) continue;
      return ModelFailure(
          Cause::kValue, "weights",
          fmt::format("row {}, position {}: {} is padding, and weighs {:.3g} in the loss", r, i,
                      rows->inputs[r][i] == pad ? "the input" : "the target", rows->weights[r][i]));
    }
  }
  return {};
}

// How often each token counts as a target, by document and place.
std::vector<std::vector<int>> LearntTimes(const ModelCase& c, const LearningRows& rows,
                                          const Documents& documents) {
  std::vector<std::vector<int>> times;
  for (const Sequence& document : c.documents) times.emplace_back(document.size(), 0);
  for (size_t r = 0; r < rows.inputs.size(); ++r) {
    for (size_t i = 0; i < rows.inputs[r].size(); ++i) {
      const auto place = documents.PlaceOf(rows.targets[r][i]);
      if (place && rows.weights[r][i] > 0) ++times[place->document][place->index];
    }
  }
  return times;
}

using LearntCounts = std::vector<std::vector<int>>;

// Tokens that begin a row count as learnt, for nobody promises that they are.
void ForgiveEdges(const LearningRows& rows, const Documents& documents, LearntCounts& times) {
  for (const Sequence& row : rows.inputs) {
    const auto place = row.empty() ? std::nullopt : documents.PlaceOf(row[0]);
    if (place && times[place->document][place->index] == 0) {
      times[place->document][place->index] = 1;
    }
  }
}

// The first place in a document whose token must be learnt: without a mark before them first tokens are not, but for
// those of a stream.
size_t FirstToLearn(const BatcherContract& batcher) {
  return batcher.bos || batcher.joins ? 0 : 1;
}

// Whether what is not learnt is the end of a stream: all of some documents, the end of one, and no full row.
bool IsDroppedEnd(const LearntCounts& times, size_t from, int64_t row_len) {
  int64_t missing = 0, parts = 0;
  for (const std::vector<int>& of_document : times) {
    const auto begin = of_document.begin() + static_cast<std::ptrdiff_t>(from);
    const auto first = std::find(begin, of_document.end(), 0);
    if (!std::all_of(first, of_document.end(), [](int n) { return n == 0; })) return false;
    missing += of_document.end() - first;
    parts += first != begin && first != of_document.end() ? 1 : 0;
  }
  return missing < row_len && parts <= 1;
}

// The first token, by document and place, that is not learnt as it should be; nullopt where all are.
std::optional<Place> WronglyLearnt(const LearntCounts& times, const BatcherContract& batcher,
                                   int64_t row_len) {
  const size_t from = FirstToLearn(batcher);
  const bool may_miss = batcher.drops_last && IsDroppedEnd(times, from, row_len);
  for (size_t d = 0; d < times.size(); ++d) {
    for (size_t i = from; i < times[d].size(); ++i) {
      if (times[d][i] != 1 && (times[d][i] != 0 || !may_miss)) return Place{d, i};
    }
  }
  return std::nullopt;
}

// Likewise of a stream without a mark at its beginning: the first token of all has none before it. Which document it is
// of, is the batcher's choice.
std::optional<Place> WronglyLearntInStream(LearntCounts times, const BatcherContract& batcher,
                                           int64_t row_len) {
  std::optional<Place> wrong = WronglyLearnt(times, batcher, row_len);
  for (size_t d = 0; wrong && d < times.size(); ++d) {
    if (times[d][0] != 0) continue;
    times[d][0] = 1;
    const auto then = WronglyLearnt(times, batcher, row_len);
    times[d][0] = 0;
    // Of several things that are wrong it is not the first token that is shown.
    if (!then || (wrong->index == 0 && then->index != 0)) wrong = then;
  }
  return wrong;
}

// Nothing is lost at the edge of a row, nothing counts double.
Verdict EveryTokenIsLearntOnce(const ModelCase& c, ModelLab& lab) {
  const Documents documents(c.documents);
  if (!documents.distinct()) return SaysNothing("a token occurs twice");
  const auto rows = RowsOf(c, lab);
  if (!rows) return rows.error();
  const BatcherContract& batcher = *lab.contract().batcher;
  LearntCounts times = LearntTimes(c, *rows, documents);
  if (batcher.loses_edges) ForgiveEdges(*rows, documents, times);
  const bool has_a_start = !batcher.joins || batcher.bos;
  const auto wrong = has_a_start ? WronglyLearnt(times, batcher, c.row_len)
                                 : WronglyLearntInStream(times, batcher, c.row_len);
  if (!wrong) return {};
  const auto [d, i] = *wrong;
  return ModelFailure(
      Cause::kValue, "targets",
      fmt::format(
          "the token at place {} of document {} ({} tokens) is learnt {} times with rows of "
          "{}",
          i, d, c.documents[d].size(), times[d][i], c.row_len));
}

// Nobody can predict a fair die. See leak_trial.h for the bound.
Verdict LossCannotBeatChance(const ModelCase& c, ModelLab& lab) {
  const auto trial = RunLeakTrial(c, lab);
  if (!trial) return trial.error();
  if (trial->targets == 0) return SaysNothing("no target counts");
  Verdict verdict;
  if (trial->log_evidence > kLeakEvidence) {
    verdict = ModelFailure(
        Cause::kValue, "targets",
        fmt::format("tokens drawn independently from {} are predicted from a row's inputs up to "
                    "each: a loss of "
                    "{:.3f} nats on fresh rows, where chance is {:.3f}; the evidence of {:.1f} "
                    "nats is above "
                    "the {:.1f} that chance passes once in 1e9; the answer {}",
                    trial->alphabet, trial->loss, std::log(static_cast<double>(trial->alphabet)),
                    trial->log_evidence, kLeakEvidence, trial->how));
  }
  verdict.rows = trial->targets;
  verdict.worst_ratio = std::max(0.0, trial->log_evidence) / kLeakEvidence;
  return verdict;
}

constexpr ModelProperty kProperties[] = {
    {"teacher_forcing.targets_are_the_next_token",
     "Each target that counts is the next token of its own document.", "a batcher", kPartDocuments,
     NeedsBatcher, TargetsAreTheNextToken},
    {"teacher_forcing.padding_has_no_weight", "Padding counts in no loss.", "a batcher that pads",
     kPartDocuments, NeedsPad, PaddingHasNoWeight},
    {"teacher_forcing.every_token_is_learnt_once",
     "Every token that has one before it is a target once.", "a batcher", kPartDocuments,
     NeedsBatcher, EveryTokenIsLearntOnce},
    {"teacher_forcing.loss_cannot_beat_chance",
     "On independent uniform tokens no loss goes below log V beyond chance.", "a batcher",
     kPartDocuments, NeedsBatcher, LossCannotBeatChance, nullptr, 8},
};

}  // namespace

std::span<const ModelProperty> TeacherForcingProperties() {
  return kProperties;
}

}  // namespace attest
