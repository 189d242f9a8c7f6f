// The bank of hypotheses: faults that attention kernels are known for, each as a rule for rows. The
// families are tables, most specific and most frequent first; the explainer tries them in order and
// ranks what fits. Private to the explainer.
#ifndef ATTEST_HARNESS_JUDGE_EXPLAIN_HYPOTHESES_H_
#define ATTEST_HARNESS_JUDGE_EXPLAIN_HYPOTHESES_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "properties/harness/judge/explain/explain.h"
#include "properties/harness/judge/explain/row_rule.h"

namespace attest {

// Stands before an example in a phrase: hypotheses that differ in the example alone are named once.
inline constexpr std::string_view kSuchAs = ", such as ";

// Whether nothing but the softmax stands between scores and weights: no softcap, sinks and dropout.
bool HasPlainSoftmax(const Problem& problem);

// A row as a problem of its own, to be changed by a fault before its terms are listed: of one batch
// item, head and query, with the case's kv_len, its diagonal at diagonal_offset[0].
struct RowCase {
  Problem problem;           // with lengths, mask and bias plane where the case has them
  std::vector<double> bias;  // [kv_len]; -inf where hidden; empty without one
  RowRule rule;              // query, scale and dims; without terms
  Source k, v;               // batch item and kv head that keys and values are read from
};

// What a hypothesis is made from.
class Scene {
 public:
  Scene(const Mismatch& mismatch, bool with_weights)
      : mismatch_(mismatch),
        context_{mismatch.problem, mismatch.inputs, mismatch.contract, with_weights, dots_} {}
  Scene(const Scene&) = delete;

  const Problem& problem() const { return mismatch_.problem; }
  const Inputs& inputs() const { return mismatch_.inputs; }
  const Reference& reference() const { return mismatch_.reference; }
  ErrorBound& bound() const { return mismatch_.bound; }
  const Outcome& outcome() const { return mismatch_.outcome; }
  const RuleContext& context() const { return context_; }
  const Storage& storage() const { return mismatch_.storage; }

  RowCase CaseOf(const Row& row) const;
  // Makes the row read the plane (and the values) of row `at`.
  void ReadMaskAt(const Row& at, RowCase& c) const;
  void ReadBiasAt(const Row& at, RowCase& c) const;
  void ReadDocumentAt(const Row& at, RowCase& c) const;
  void ReadBlocksAt(const Row& at, RowCase& c) const;
  // The rule of the row case: its visible keys as terms.
  RowRule RuleOf(const RowCase& c) const;
  RowRule TrueRule(const Row& row) const { return RuleOf(CaseOf(row)); }
  // The term that key `j` of the row case would be, visible or not.
  Term TermOf(const RowCase& c, int64_t j) const;

 private:
  RowCase MakeCase(const Row& row) const;

  const Mismatch& mismatch_;
  mutable DotCache dots_;
  const RuleContext context_;
  // Most hypotheses start from the same few rows.
  mutable std::optional<std::pair<Row, RowCase>> last_case_;
};

struct Hypothesis {
  std::string_view cause_class;
  std::string phrase;
  // The rule for a row; nullopt where it cannot be imagined.
  std::function<std::optional<RowRule>(const Row&)> rule;
};

// Hypotheses about one scene, in the order in which they were added. The scene must outlive them.
class HypothesisBank {
 public:
  using CaseChange = std::function<void(const Scene&, const Row&, RowCase&)>;
  using RuleChange = std::function<void(RowRule&)>;

  // `witness` is the row to be explained.
  HypothesisBank(const Scene& scene, const Row& witness) : scene_(scene), witness_(witness) {}

  const Scene& scene() const { return scene_; }
  const Problem& problem() const { return scene_.problem(); }
  const Row& witness() const { return witness_; }
  const std::vector<Hypothesis>& all() const { return all_; }

  // `phrase` goes on after "as if".
  void Add(std::string_view cause_class, std::string phrase,
           std::function<std::optional<RowRule>(const Row&)> rule);
  // A fault in what a row reads or sees: `change` alters its row case.
  void AddCase(std::string_view cause_class, std::string phrase, CaseChange change);
  // A fault in what is made of what it sees: `change` alters its true rule.
  void AddRule(std::string_view cause_class, std::string phrase, RuleChange change);

 private:
  const Scene& scene_;
  const Row witness_;
  std::vector<Hypothesis> all_;
};

// The families. Each adds what applies to the bank's scene.
// An lse kept in fewer bits than are due: told by its bits, so that no other rule need be asked first.
void AddRoundedLse(HypothesisBank& bank);
void AddVisibilityFaults(HypothesisBank& bank);
// Hidden keys with a finite score, of those that outweigh what the witness's row sees, or of the others: the former
// say what is wrong with such a row before any rule that lets some keys in.
void AddFiniteFills(bool outweighing, HypothesisBank& bank);
void AddSourceFaults(HypothesisBank& bank);  // which vectors are read, and how
void AddSoftmaxFaults(HypothesisBank& bank);
void AddRescaleFaults(HypothesisBank& bank);  // with it, those of a softmax in parts
void AddMergeFaults(HypothesisBank& bank);
void AddTileFaults(HypothesisBank& bank);
void AddSingleKeyFaults(HypothesisBank& bank);  // about the witness's row alone

}  // namespace attest

#endif  // ATTEST_HARNESS_JUDGE_EXPLAIN_HYPOTHESES_H_
