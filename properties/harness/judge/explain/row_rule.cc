#include "properties/harness/judge/explain/row_rule.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "impl/reference/bound.h"
#include "impl/reference/extended_reference.h"
#include "properties/harness/judge/tally.h"

namespace attest {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr Row kOnly{};  // the one row of a problem of one row

double Rounded(const std::optional<DType>& dtype, double value) {
  return dtype ? RoundTo(*dtype, value) : value;
}

// A vector of `source` into row `at` of `target`.
void CopyVector(const Array& from, const Source& source, const std::optional<DType>& rounding,
                int64_t at, Array& target) {
  if (source.key < 0) return;  // target holds zeros
  for (int64_t d = 0; d < target.shape[3]; ++d) {
    target.At(0, 0, at, d) =
        Rounded(rounding, from.At(source.batch, source.kv_head, source.key, d));
  }
}

double SinkOf(const Problem& p, const RowRule& rule) {
  return (*p.sinks)[static_cast<size_t>(rule.sink_head.value_or(rule.query.head))];
}

// Whether dropout keeps the term.
bool IsKept(const Problem& p, const RowRule& rule, const Term& term) {
  if (term.key < 0 || term.key >= p.kv_len) return true;
  const Row& row = rule.query;
  return p.dropout->keep.At(row.batch, row.head, row.query, term.key);
}

// A softmax over given terms, as an attention problem of one row in which every key is visible.
// Softcap, sink and dropout are those of the rule's own row.
class TermSoftmax {
 public:
  TermSoftmax(const Problem& p, const Inputs& inputs, const Contract& contract, const RowRule& rule,
              const Terms& terms, bool with_weights)
      : problem_(ProblemOf(p, rule, terms, with_weights)),
        inputs_(InputsOf(inputs, rule, terms)),
        reference_(ReferenceFor(problem_, inputs_, contract)),
        bound_(problem_, inputs_, reference_, contract) {}
  TermSoftmax(const TermSoftmax&) = delete;

  bool IsUnconstrained() { return bound_.IsUnconstrained(kOnly); }
  const Reference& reference() const { return reference_; }
  double lse() const { return reference_.lse.values[0]; }
  double max() const {
    const std::vector<double>& scores = reference_.scores.values;
    return scores.empty() ? -kInf : *std::max_element(scores.begin(), scores.end());
  }
  const RowNumbers& BoundAt(Precision precision) {
    return precision == Precision::kCheap ? bound_.CheapOf(kOnly) : bound_.WorstOf(kOnly);
  }

 private:
  static Problem ProblemOf(const Problem& p, const RowRule& rule, const Terms& terms,
                           bool with_weights) {
    Problem one;
    one.kv_len = static_cast<int64_t>(terms.size());
    one.head_dim = rule.dims;
    one.value_dim = p.value_dim;
    one.dtype = p.dtype;
    one.fp8 = p.fp8;
    one.scale = rule.scale;
    one.want_lse = true;
    one.want_weights = with_weights;
    one.bias = BitPlane{{1, 1, 1, one.kv_len}, 4, std::vector<uint8_t>(terms.size(), 1)};
    one.softcap = p.softcap;
    if (p.sinks) one.sinks = {SinkOf(p, rule)};
    if (p.dropout) {
      one.dropout = Dropout{p.dropout->probability, {one.bias->shape, 4, {}}};
      for (const Term& term : terms) {
        one.dropout->keep.bits.push_back(IsKept(p, rule, term) ? 1 : 0);
      }
    }
    return one;
  }

  Inputs InputsOf(const Inputs& inputs, const RowRule& rule, const Terms& terms) const {
    Inputs one{Array(problem_.QShape()), Array(problem_.KShape()), Array(problem_.VShape()),
               Array(problem_.bias->shape)};
    CopyVector(inputs.q, {rule.query.batch, rule.query.head, rule.query.query}, rule.rounding.q, 0,
               one.q);
    for (size_t n = 0; n < terms.size(); ++n) {
      const auto at = static_cast<int64_t>(n);
      CopyVector(inputs.k, terms[n].k, rule.rounding.k, at, one.k);
      CopyVector(inputs.v, terms[n].v, rule.rounding.v, at, one.v);
      one.bias.values[n] = Rounded(rule.rounding.bias, terms[n].bias);
    }
    return one;
  }

  const Problem problem_;
  const Inputs inputs_;
  const Reference reference_;
  ErrorBound bound_;
};

// A number known to within `bound`.
struct Bounded {
  double value = 0, bound = 0;
};

// x * exp(log_factor): |x' f' - x f| <= f (|x' - x| e^d + |x| (e^d - 1)) where the logarithms of f'
// and f differ by at most d. The least subnormal stands for storing the product.
Bounded Scaled(const Bounded& x, const Bounded& log_factor, double subnormal) {
  if (log_factor.value == 0 && log_factor.bound == 0) return x;
  const double f = std::exp(log_factor.value);
  const double excess = std::expm1(log_factor.bound);
  return {x.value * f, f * (x.bound * (1 + excess) + std::abs(x.value) * excess) + subnormal};
}

}  // namespace

class ComputedRule::Impl {
 public:
  Impl(const RuleContext& context, RowRule rule)
      : p_(context.problem),
        contract_(context.contract),
        with_weights_(context.with_weights),
        rule_(std::move(rule)) {
    const auto softmax_of = [&](const Terms& terms, bool with_weights) {
      return std::make_unique<TermSoftmax>(p_, context.inputs, contract_, rule_, terms,
                                           with_weights);
    };
    // A row that sees but a sink is not empty.
    const auto has_softmax = [&](const Terms& terms) { return !terms.empty() || p_.sinks; };
    if (has_softmax(rule_.terms)) softmax_ = softmax_of(rule_.terms, with_weights_);
    if (rule_.divisor && has_softmax(*rule_.divisor)) {
      divisor_ = softmax_of(*rule_.divisor, false);
    }
  }

  RowAnswer Answer(Precision precision) const {
    if (!softmax_) return EmptyAnswer(precision);
    RowAnswer answer;
    answer.is_evidence = !softmax_->IsUnconstrained() && !(divisor_ && divisor_->IsUnconstrained());
    if (!answer.is_evidence) return answer;
    const double subnormal = TraitsOf(p_.dtype).min_subnormal;
    const Bounded factor = LogFactor(precision);
    const RowNumbers& numbers = softmax_->BoundAt(precision);
    for (size_t d = 0; d < numbers.out.size(); ++d) {
      const Bounded out =
          Scaled({softmax_->reference().out.values[d], numbers.out[d]}, factor, subnormal);
      answer.out.push_back(rule_.out_factor * out.value);
      answer.out_bound.push_back(std::abs(rule_.out_factor) * out.bound + subnormal);
    }
    SetLse(precision, answer);
    if (!with_weights_) return answer;
    answer.weights.assign(static_cast<size_t>(p_.kv_len), 0);
    answer.weights_bound = answer.weights;
    for (size_t n = 0; n < rule_.terms.size(); ++n) {
      const int64_t key = rule_.terms[n].key;
      if (key < 0 || key >= p_.kv_len) continue;
      const Bounded weight =
          Scaled({softmax_->reference().weights.values[n], numbers.weights[n]}, factor, subnormal);
      answer.weights[static_cast<size_t>(key)] += weight.value;
      answer.weights_bound[static_cast<size_t>(key)] += weight.bound;
    }
    return answer;
  }

 private:
  RowAnswer EmptyAnswer(Precision precision) const {
    RowAnswer answer;
    const auto out = PromisedOut(contract_.semantics.empty_row);
    const auto lse = PromisedLse(contract_.semantics.lse_empty_row);
    answer.is_evidence = out.has_value();
    answer.out.assign(static_cast<size_t>(p_.value_dim), out.value_or(0));
    answer.out_bound.assign(answer.out.size(), 0);
    answer.lse = lse.value_or(0);
    answer.lse_bound = lse && rule_.lse_part != LsePart::kFree ? 0 : kInf;
    // No value, divided by a sum that has terms.
    if (divisor_) {
      answer.is_evidence = !divisor_->IsUnconstrained();
      answer.out.assign(answer.out.size(), 0);
      SetLse(precision, answer);
    }
    if (with_weights_) answer.weights.assign(static_cast<size_t>(p_.kv_len), 0);
    answer.weights_bound.assign(answer.weights.size(), 0);
    return answer;
  }

  // ln of what the weighed mean is multiplied by, beside out_factor.
  Bounded LogFactor(Precision precision) const {
    const Bounded own{softmax_->lse(), softmax_->BoundAt(precision).lse};
    // The bound of the lse covers the errors of its parts: of the scores, and of |maximum|.
    if (!rule_.is_divided) return {own.value - softmax_->max(), own.bound};
    if (!divisor_) return {};
    return {own.value - divisor_->lse(), own.bound + divisor_->BoundAt(precision).lse};
  }

  void SetLse(Precision precision, RowAnswer& answer) const {
    TermSoftmax& sum = divisor_ ? *divisor_ : *softmax_;
    double lse = sum.lse();
    if (rule_.lse_part == LsePart::kSum) lse -= sum.max();
    if (rule_.lse_part == LsePart::kMax) lse = sum.max();
    answer.lse = rule_.lse_factor * lse + rule_.lse_offset;
    answer.lse_bound = rule_.lse_part == LsePart::kFree
                           ? kInf
                           : std::abs(rule_.lse_factor) * sum.BoundAt(precision).lse;
    if (rule_.lse_rounding && std::isfinite(answer.lse_bound))
      RoundLse(*rule_.lse_rounding, answer);
  }

  // To what any lse within the bound is rounded to: mostly one number.
  static void RoundLse(DType dtype, RowAnswer& answer) {
    const double low = RoundTo(dtype, answer.lse - answer.lse_bound);
    const double high = RoundTo(dtype, answer.lse + answer.lse_bound);
    answer.lse = low == high ? low : low + (high - low) / 2;
    answer.lse_bound = low == high ? 0 : (high - low) / 2;
  }

  const Problem& p_;
  const Contract& contract_;
  const bool with_weights_;
  const RowRule rule_;
  std::unique_ptr<TermSoftmax> softmax_;  // nullptr: no term
  std::unique_ptr<TermSoftmax> divisor_;  // nullptr: the same
};

ComputedRule::ComputedRule(const RuleContext& context, RowRule rule)
    : impl_(std::make_unique<Impl>(context, std::move(rule))) {}
ComputedRule::~ComputedRule() = default;

RowAnswer ComputedRule::Answer(Precision precision) const {
  return impl_->Answer(precision);
}

int64_t CostOf(const RuleContext& context, const RowRule& rule) {
  const size_t terms = rule.terms.size() + (rule.divisor ? rule.divisor->size() : 0);
  return (static_cast<int64_t>(terms) + 1) *
         (context.problem.head_dim + context.problem.value_dim + 8);
}

const std::vector<double>& DotCache::DotsOf(const Problem& p, const Inputs& inputs,
                                            const Row& query, int64_t batch, int64_t kv_head) {
  std::vector<double>& dots = dots_[{query.batch, query.head, query.query, batch, kv_head}];
  for (auto j = static_cast<int64_t>(dots.size()); j < p.kv_len; ++j) {
    double dot = 0;
    for (int64_t c = 0; c < p.head_dim; ++c) {
      dot +=
          inputs.q.At(query.batch, query.head, query.query, c) * inputs.k.At(batch, kv_head, j, c);
    }
    dots.push_back(dot);
  }
  return dots;
}

namespace {

// q.k of one term, where the rule does not take the inputs as they are.
double AlteredDot(const Inputs& inputs, const RowRule& rule, const Source& k) {
  const Row& q = rule.query;
  double dot = 0;
  for (int64_t c = 0; c < rule.dims; ++c) {
    dot += Rounded(rule.rounding.q, inputs.q.At(q.batch, q.head, q.query, c)) *
           Rounded(rule.rounding.k, inputs.k.At(k.batch, k.kv_head, k.key, c));
  }
  return dot;
}

struct PlainSum {
  double max = -kInf, sum = 0;
  double lse() const { return max + std::log(sum); }
};

PlainSum Sum(const std::vector<double>& scores) {
  PlainSum total;
  for (const double score : scores) total.max = std::max(total.max, score);
  for (const double score : scores) total.sum += std::exp(score - total.max);
  return total;
}

// ScoresOf behind the softcap, and the sink where there is one.
std::vector<double> CappedScoresOf(const RuleContext& context, const RowRule& rule,
                                   const Terms& terms) {
  std::vector<double> scores = ScoresOf(context, rule, terms);
  const double cap = context.problem.softcap;
  const bool is_last = context.contract.semantics.softcap_order == SoftcapOrder::kAfterBias;
  for (size_t n = 0; n < terms.size() && cap > 0; ++n) {
    const double bias = is_last ? 0 : Rounded(rule.rounding.bias, terms[n].bias);
    if (std::isfinite(bias)) scores[n] = cap * std::tanh((scores[n] - bias) / cap) + bias;
  }
  return scores;
}

PlainSum SumBeside(std::vector<double> scores, const Problem& p, const RowRule& rule) {
  if (p.sinks) scores.push_back(SinkOf(p, rule));
  return Sum(scores);
}

}  // namespace

std::vector<double> ScoresOf(const RuleContext& context, const RowRule& rule, const Terms& terms) {
  const bool is_altered =
      rule.rounding.q || rule.rounding.k || rule.dims != context.problem.head_dim;
  std::vector<double> scores;
  scores.reserve(terms.size());
  const std::vector<double>* dots = nullptr;
  Source last;
  for (const Term& term : terms) {
    const Source& k = term.k;
    double dot = 0;
    if (k.key >= 0 && is_altered) {
      dot = AlteredDot(context.inputs, rule, k);
    } else if (k.key >= 0) {
      if (dots == nullptr || k.batch != last.batch || k.kv_head != last.kv_head) {
        dots =
            &context.dots.DotsOf(context.problem, context.inputs, rule.query, k.batch, k.kv_head);
        last = k;
      }
      dot = (*dots)[static_cast<size_t>(k.key)];
    }
    scores.push_back(rule.scale * dot + Rounded(rule.rounding.bias, term.bias));
  }
  return scores;
}

PlainRow::PlainRow(const RuleContext& context, const RowRule& rule)
    : context_(context), rule_(rule), weights_(CappedScoresOf(context, rule, rule.terms)) {
  const Problem& p = context.problem;
  const PlainSum own = SumBeside(weights_, p, rule);
  const bool has_divisor = rule.divisor && !rule.divisor->empty();
  const PlainSum sum =
      has_divisor ? SumBeside(CappedScoresOf(context, rule, *rule.divisor), p, rule) : own;
  const double shift = rule.is_divided ? sum.lse() : own.max;
  for (double& weight : weights_) weight = rule.out_factor * std::exp(weight - shift);
  for (size_t n = 0; n < weights_.size() && p.dropout; ++n) {
    const bool is_kept = IsKept(p, rule, rule.terms[n]);
    weights_[n] *= is_kept ? 1 / (1 - p.dropout->probability) : 0;
  }
  stretch_ = std::abs(rule.out_factor) * std::exp(own.lse() - shift);
  lse_ = rule.lse_offset + rule.lse_factor * (rule.lse_part == LsePart::kSum   ? std::log(sum.sum)
                                              : rule.lse_part == LsePart::kMax ? sum.max
                                                                               : sum.lse());
}

double PlainRow::Out(int64_t lane) const {
  const Array& values = context_.inputs.v;
  double out = 0;
  for (size_t n = 0; n < weights_.size(); ++n) {
    const Source& v = rule_.terms[n].v;
    if (v.key < 0) continue;
    out += weights_[n] * Rounded(rule_.rounding.v, values.At(v.batch, v.kv_head, v.key, lane));
  }
  return out;
}

}  // namespace attest
