// One row of attention under a rule, the right one or a faulty one: which keys and values enter its
// softmax, at what scale, and what is added to their scores. A rule is data; RuleAnswer computes what
// it makes of the row and how far a kernel that follows it may lie from that. Private to the
// explainer.
#ifndef ATTEST_HARNESS_JUDGE_EXPLAIN_ROW_RULE_H_
#define ATTEST_HARNESS_JUDGE_EXPLAIN_ROW_RULE_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "impl/attention/contract.h"
#include "impl/attention/problem.h"
#include "impl/attention/visibility.h"

namespace attest {

// A key or value vector of the inputs; key -1 is a vector of zeros.
struct Source {
  int64_t batch = 0;
  int64_t kv_head = 0;
  int64_t key = -1;

  friend bool operator==(const Source&, const Source&) = default;
};

// One summand of a softmax.
struct Term {
  Source k, v;
  double bias = 0;  // added to scale * q.k
  int64_t key = 0;  // under which weights report it

  friend bool operator==(const Term&, const Term&) = default;
};
using Terms = std::vector<Term>;

// Types that inputs are rounded to before use; nullopt = they are taken as they are.
struct InputRounding {
  std::optional<DType> q, k, v, bias;

  friend bool operator==(const InputRounding&, const InputRounding&) = default;
};

enum class LsePart : uint8_t {
  kWhole,
  kSum,   // log of the sum of exp(score - maximum)
  kMax,   // the maximum
  kFree,  // any value will do
};

struct RowRule {
  Row query;                           // whose q vector
  std::optional<int64_t> sink_head{};  // whose sink; nullopt = the query's
  double scale = 1;                    // multiplies q.k
  int64_t dims = 0;                    // leading components of q and k that enter the product
  Terms terms;                         // of the weighed sum of values
  // Of the sum that it is divided by and whose logarithm is the lse; nullopt = the same.
  std::optional<Terms> divisor;
  bool is_divided = true;  // false: weights stay relative to the largest score
  double out_factor = 1;
  double lse_factor = 1;
  double lse_offset = 0;  // added to it
  LsePart lse_part = LsePart::kWhole;
  std::optional<DType> lse_rounding;  // to which the lse is rounded in the end
  InputRounding rounding;

  friend bool operator==(const RowRule&, const RowRule&) = default;
};

// What a rule makes of a row, and beside it the largest distance of a kernel that follows the rule
// within its declared arithmetic.
struct RowAnswer {
  std::vector<double> out, out_bound;          // [value_dim]
  double lse = 0, lse_bound = 0;               // bound infinite where any lse will do
  std::vector<double> weights, weights_bound;  // [kv_len] where asked for, else empty
  bool is_evidence = true;  // false where anything may come out: overflow, unpromised empty rows
};

enum class Precision { kCheap, kWorst };  // cheap W or W

// q.k of whole rows, computed when first asked for: most rules of a row differ in other things.
class DotCache {
 public:
  // [kv_len], of the row's q and the keys of one batch item and kv head.
  const std::vector<double>& DotsOf(const Problem& p, const Inputs& inputs, const Row& query,
                                    int64_t batch, int64_t kv_head);

 private:
  std::map<std::array<int64_t, 5>, std::vector<double>> dots_;
};

// What rules are computed on. All must outlive what is made of them.
struct RuleContext {
  const Problem& problem;
  const Inputs& inputs;
  const Contract& contract;
  bool with_weights;
  DotCache& dots;
};

// scale * q.k + bias of each term, in double: before any softcap.
std::vector<double> ScoresOf(const RuleContext& context, const RowRule& rule, const Terms& terms);

// A rule in plain double arithmetic, without bounds and weights: for rejecting early. The rule must
// list some term.
class PlainRow {
 public:
  PlainRow(const RuleContext& context, const RowRule& rule);

  double lse() const { return lse_; }
  double Out(int64_t lane) const;
  // What multiplies a mean of values in out; 1 for a softmax.
  double stretch() const { return stretch_; }

 private:
  const RuleContext& context_;
  const RowRule& rule_;
  std::vector<double> weights_;  // one a term
  double lse_ = 0, stretch_ = 1;
};

class ComputedRule {
 public:
  ComputedRule(const RuleContext& context, RowRule rule);
  ~ComputedRule();

  RowAnswer Answer(Precision precision) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Multiplications that computing `rule` costs, about.
int64_t CostOf(const RuleContext& context, const RowRule& rule);

}  // namespace attest

#endif  // ATTEST_HARNESS_JUDGE_EXPLAIN_ROW_RULE_H_
