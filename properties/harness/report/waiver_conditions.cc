#include "properties/harness/report/waiver_conditions.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "impl/attention/dtype.h"
#include "impl/attention/visibility.h"

namespace attest {
namespace {

using C = const Case&;
using V = const Verdict&;

struct Flag {
  std::string_view word;
  bool (*holds)(C);
};

struct Size {
  std::string_view word;
  double (*of)(C, const Verdict&);
};

struct Word {
  std::string_view word;
  std::string (*of)(C);
  bool (*is_value)(const std::string&);
};

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

bool IsMaskable(C c) {
  const Problem& p = c.problem;
  return p.causal || p.window.active() || p.key_lengths || p.documents || p.prefix_lengths ||
         p.block_mask;
}

constexpr unsigned kAllButBias = ~static_cast<unsigned>(kHiddenByBias);

// As contracts and case files name them.
constexpr Flag kFlags[] = {
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
    // Any of those that a kernel without them may be given as a mask.
    {"maskable", IsMaskable},
    // Some key is hidden from some row: by anything but the additive mask, or by that.
    {"hidden_keys", [](C c) { return Hides(c.problem, kAllButBias); }},
    {"keys_hidden_by_bias", [](C c) { return Hides(c.problem, kHiddenByBias); }}};

constexpr Size kSizes[] = {
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
    {"score_span", [](C c, V) { return ScoreSpan(c); }},
    {"dot_magnitude", [](C c, V) { return DotMagnitude(c); }},
    // What the values of a row may add up to.
    {"value_sum", [](C c, V) { return LargestValue(c) * static_cast<double>(c.problem.kv_len); }},
    {"relative_error", RelativeError},
    {"relative_error_per_key",
     [](C c, V v) { return RelativeError(c, v) / static_cast<double>(c.problem.kv_len); }}};

constexpr Word kNames[] = {
    {"dtype", [](C c) { return std::string(Name(c.problem.dtype)); },
     [](const std::string& word) { return ParseDType(word).has_value(); }},
    {"scores",
     [](C c) {
       return c.problem.want_scores ? std::string(Name(*c.problem.want_scores)) : std::string();
     },
     [](const std::string& word) { return ParseScoreMode(word).has_value(); }}};

template <typename Table>
const auto* Find(const Table& table, std::string_view word) {
  const auto found = std::ranges::find_if(table, [&](const auto& row) { return row.word == word; });
  return found == std::end(table) ? nullptr : &*found;
}

using Compare = bool (*)(double, double);
std::optional<Compare> FindOperator(std::string_view text) {
  const std::pair<std::string_view, Compare> operators[] = {
      {"=", [](double a, double b) { return a == b; }},
      {"!=", [](double a, double b) { return a != b; }},
      {"<", [](double a, double b) { return a < b; }},
      {"<=", [](double a, double b) { return a <= b; }},
      {">", [](double a, double b) { return a > b; }},
      {">=", [](double a, double b) { return a >= b; }}};
  for (const auto& [sign, compare] : operators) {
    if (sign == text) return compare;
  }
  return std::nullopt;
}

std::optional<double> ParseNumber(const std::string& text) {
  std::istringstream stream(text);
  double number = 0;
  stream >> number;
  return stream && stream.eof() ? std::optional(number) : std::nullopt;
}

tl::unexpected<std::string> NoWord(const std::string& word) {
  return tl::unexpected(fmt::format("'{}' is no word; known are {}", word, TriggerWords()));
}

tl::expected<CaseCondition, std::string> FlagCondition(const std::string& word, bool wanted) {
  if (word == "past") return [wanted](C c, V) { return (c.storage.past > 0) == wanted; };
  const Flag* flag = Find(kFlags, word);
  if (flag == nullptr) return NoWord(word);
  return [flag, wanted](C c, V) { return flag->holds(c) == wanted; };
}

tl::expected<CaseCondition, std::string> NameCondition(const Word& name, const std::string& sign,
                                                       const std::string& value) {
  if ((sign != "=" && sign != "!=") || !name.is_value(value)) {
    return tl::unexpected(fmt::format("'{0} {1} {2}': of {0} write = or != and one of its values",
                                      name.word, sign, value));
  }
  return [&name, value, wanted = sign == "="](C c, V) { return (name.of(c) == value) == wanted; };
}

tl::expected<CaseCondition, std::string> SizeCondition(const Size& size, const std::string& sign,
                                                       const std::string& value) {
  const auto compare = FindOperator(sign);
  if (!compare)
    return tl::unexpected(fmt::format("'{}' is no operator; write = != < <= > >=", sign));
  if (const Size* other = Find(kSizes, value)) {
    return [&size, other, compare](C c, V v) { return (*compare)(size.of(c, v), other->of(c, v)); };
  }
  const auto number = ParseNumber(value);
  if (!number) return tl::unexpected(fmt::format("'{}' is no number and no size", value));
  return [&size, number, compare](C c, V v) { return (*compare)(size.of(c, v), *number); };
}

}  // namespace

std::string TriggerWords() {
  std::string words;
  const auto add = [&](const auto& table) {
    for (const auto& row : table) words += fmt::format("{}{}", words.empty() ? "" : ", ", row.word);
  };
  add(kFlags);
  add(kSizes);
  add(kNames);
  return words;
}

tl::expected<CaseCondition, std::string> ParseCaseCondition(std::string_view text) {
  std::istringstream stream{std::string(text)};
  std::vector<std::string> parts;
  for (std::string part; stream >> part;) parts.push_back(part);
  if (parts.size() == 1) return FlagCondition(parts[0], true);
  if (parts.size() == 2 && parts[0] == "no") return FlagCondition(parts[1], false);
  if (parts.size() != 3) {
    return tl::unexpected(fmt::format(
        "'{}' is no condition; write \"causal\", \"no mask\", \"q_len = 1\" or \"dtype = f16\"",
        text));
  }
  if (const Word* name = Find(kNames, parts[0])) return NameCondition(*name, parts[1], parts[2]);
  if (const Size* size = Find(kSizes, parts[0])) return SizeCondition(*size, parts[1], parts[2]);
  return NoWord(parts[0]);
}

}  // namespace attest
