#include "properties/harness/report/waiver_conditions.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "impl/attention/dtype.h"
#include "impl/attention/visibility.h"
#include "properties/harness/report/condition_grammar.h"

namespace attest {
namespace {

using C = const Case&;
using V = const Verdict&;

using Words = ConditionWords<Case>;

// Whether some key is hidden from some row by one of `mechanisms`.
bool Hides(const Problem& p, unsigned mechanisms) {
  bool hides = false;
  ForEachRow(p, [&](const Row& row) {
    for (int64_t key = 0; key < p.kv_len && !hides; ++key) {
      hides = (WhyHidden(p, row, key) & mechanisms) != 0;
    }
  });
  return hides;
}

// The extent of mask and bias along one axis, the smaller where they differ; `full` without either.
double PlaneExtent(const Problem& p, size_t axis) {
  int64_t extent = p.WeightsShape()[axis];
  for (const auto* plane : {&p.mask, &p.bias}) {
    if (*plane) extent = std::min(extent, (*plane)->shape[axis]);
  }
  return static_cast<double>(extent);
}

// Calls visit(products, row): scale * q[l] * k[l] before they are summed, of every row and key.
template <typename Visit>
void ForEachScore(C c, Visit&& visit) {
  const Inputs inputs = Materialise(c);
  const Problem& p = c.problem;
  std::vector<double> products(static_cast<size_t>(p.head_dim));
  ForEachRow(p, [&](const Row& row) {
    for (int64_t key = 0; key < p.kv_len; ++key) {
      for (int64_t l = 0; l < p.head_dim; ++l) {
        products[static_cast<size_t>(l)] =
            inputs.q.At(row.batch, row.head, row.query, l) *
            inputs.k.At(row.batch, row.head / p.heads_per_kv_head(), key, l);
      }
      visit(products, row);
    }
  });
}

// The largest difference of two scores of one row, hidden keys included.
double ScoreSpan(C c) {
  double span = 0, least = 0, most = 0;
  Row last{-1, -1, -1};
  ForEachScore(c, [&](const std::vector<double>& products, const Row& row) {
    const double score =
        c.problem.EffectiveScale() * std::accumulate(products.begin(), products.end(), 0.0);
    least = row == last ? std::min(least, score) : score;
    most = row == last ? std::max(most, score) : score;
    last = row;
    span = std::max(span, most - least);
  });
  return span;
}

// The largest sum of the products of a q.k without their signs, before it is scaled.
double DotMagnitude(C c) {
  double largest = 0;
  ForEachScore(c, [&](const std::vector<double>& products, const Row&) {
    double sum = 0;
    for (const double product : products) sum += std::abs(product);
    largest = std::max(largest, sum);
  });
  return largest;
}

double LargestValue(C c) {
  double largest = 0;
  for (const double x : Materialise(c).v.values) largest = std::max(largest, std::abs(x));
  return largest;
}

// The error that was seen, by the largest value; values below the normal numbers count as the smallest of those.
double RelativeError(C c, const Verdict& verdict) {
  if (!verdict.witness) return 0;
  const double error = std::abs(verdict.witness->observed - verdict.witness->expected);
  return error / std::max(LargestValue(c), TraitsOf(c.problem.dtype).min_normal);
}

bool KeysEqualValues(C c) {
  const Inputs inputs = Materialise(c);
  return inputs.k == inputs.v;
}

bool IsMaskable(C c) {
  const Problem& p = c.problem;
  return p.causal || p.window.active() || p.key_lengths || p.documents || p.prefix_lengths ||
         p.block_mask;
}

constexpr unsigned kAllButBias = ~static_cast<unsigned>(kHiddenByBias);

// As contracts and case files name them.
constexpr Words::Flag kFlags[] = {
    {"causal", [](C c) { return c.problem.causal; }},
    {"window", [](C c) { return c.problem.window.active(); }},
    {"key_lengths", [](C c) { return c.problem.key_lengths.has_value(); }},
    {"query_lengths", [](C c) { return c.problem.query_lengths.has_value(); }},
    {"prefix_lengths", [](C c) { return c.problem.prefix_lengths.has_value(); }},
    {"documents", [](C c) { return c.problem.documents.has_value(); }},
    {"block_mask", [](C c) { return c.problem.block_mask.has_value(); }},
    {"mask", [](C c) { return c.problem.mask.has_value(); }},
    {"bias", [](C c) { return c.problem.bias.has_value(); }},
    {"softcap", [](C c) { return c.problem.softcap > 0; }},
    {"alibi", [](C c) { return c.problem.alibi_slopes.has_value(); }},
    {"sinks", [](C c) { return c.problem.sinks.has_value(); }},
    {"dropout", [](C c) { return c.problem.dropout.has_value(); }},
    {"weights", [](C c) { return c.problem.want_weights; }},
    {"lse", [](C c) { return c.problem.want_lse; }},
    {"without_present", [](C c) { return c.storage.without_present; }},
    {"packed", [](C c) { return c.storage.packed; }},
    {"past_absent", [](C c) { return c.storage.first_call == FirstCall::kPastAbsent; }},
    {"past_empty", [](C c) { return c.storage.first_call == FirstCall::kPastEmpty; }},
    {"past", [](C c) { return c.storage.past > 0; }},
    {"pages", [](C c) { return c.storage.page_size > 0; }},
    {"ring", [](C c) { return c.storage.ring; }},
    {"fp8", [](C c) { return c.problem.fp8.has_value(); }},
    {"gradients", [](C c) { return c.problem.want_gradients; }},
    // K and V hold the same numbers.
    {"keys_equal_values", KeysEqualValues},
    // Any of those that a kernel without them may be given as a mask.
    {"maskable", IsMaskable},
    // Some key is hidden from some row: by anything but the additive mask, or by that.
    {"hidden_keys", [](C c) { return Hides(c.problem, kAllButBias); }},
    {"keys_hidden_by_bias", [](C c) { return Hides(c.problem, kHiddenByBias); }}};

constexpr Words::Size kSizes[] = {
    {"batch", [](C c, V) { return static_cast<double>(c.problem.batch); }},
    {"q_heads", [](C c, V) { return static_cast<double>(c.problem.q_heads); }},
    {"kv_heads", [](C c, V) { return static_cast<double>(c.problem.kv_heads); }},
    {"q_len", [](C c, V) { return static_cast<double>(c.problem.q_len); }},
    {"kv_len", [](C c, V) { return static_cast<double>(c.problem.kv_len); }},
    {"head_dim", [](C c, V) { return static_cast<double>(c.problem.head_dim); }},
    {"value_dim", [](C c, V) { return static_cast<double>(c.problem.value_dim); }},
    // Lanes beyond a multiple of 16, as many as f32 has in a vector.
    {"value_dim_tail", [](C c, V) { return static_cast<double>(c.problem.value_dim % 16); }},
    {"past", [](C c, V) { return static_cast<double>(c.storage.past); }},
    // Those that do not come as past.
    {"new_keys", [](C c, V) { return static_cast<double>(c.problem.kv_len - c.storage.past); }},
    {"page_size", [](C c, V) { return static_cast<double>(c.storage.page_size); }},
    {"mask_queries", [](C c, V) { return PlaneExtent(c.problem, 2); }},
    {"mask_keys", [](C c, V) { return PlaneExtent(c.problem, 3); }},
    {"planes", [](C c, V) { return static_cast<double>(c.problem.batch * c.problem.q_heads); }},
    // As an f32, in which most kernels take it.
    {"scale", [](C c, V) { return RoundTo(DType::kF32, c.problem.EffectiveScale()); }},
    {"score_span", [](C c, V) { return ScoreSpan(c); }},
    {"dot_magnitude", [](C c, V) { return DotMagnitude(c); }},
    // What the values of a row may add up to.
    {"value_sum", [](C c, V) { return LargestValue(c) * static_cast<double>(c.problem.kv_len); }},
    {"relative_error", RelativeError},
    {"relative_error_per_key",
     [](C c, V v) { return RelativeError(c, v) / static_cast<double>(c.problem.kv_len); }}};

constexpr Words::Name kNames[] = {
    {"dtype", [](C c) { return std::string(Name(c.problem.dtype)); },
     [](const std::string& word) { return ParseDType(word).has_value(); }},
    {"scores",
     [](C c) {
       return c.problem.want_scores ? std::string(Name(*c.problem.want_scores)) : std::string();
     },
     [](const std::string& word) { return ParseScoreMode(word).has_value(); }}};

const Words kWords{kFlags, kSizes, kNames};

}  // namespace

std::string TriggerWords() {
  return kWords.All();
}

tl::expected<CaseCondition, std::string> ParseCaseCondition(std::string_view text) {
  return ConditionParser<Case>(kWords).Parse(text);
}

}  // namespace attest
