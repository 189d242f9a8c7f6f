#include "properties/harness/model/compare_logits.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace attest {
namespace {

bool Same(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

// Why one number cannot stand for the other whatever roundings are: one of them is not finite.
Cause CauseOf(double expected, double observed) {
  if (std::isnan(expected) != std::isnan(observed)) return Cause::kNan;
  if (std::isinf(expected) != std::isinf(observed)) return Cause::kInf;
  return Cause::kValue;
}

struct Difference {
  size_t at = 0;
  double size = 0;  // infinite where one of the two is not finite
};

double LargestOf(std::span<const double> a, std::span<const double> b) {
  double largest = 0;
  for (const auto row : {a, b}) {
    for (const double value : row) {
      if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
    }
  }
  return largest;
}

// Where a few roundings of a coarser format would make the difference: the declaration that covers it.
std::string PrecisionHint(const ModelContract& contract, double difference, double largest) {
  constexpr double kFew = 8;
  for (const auto& [precision, word] : {std::pair{DType::kF16, "f16"}, {DType::kBF16, "bf16"}}) {
    const double u = TraitsOf(precision).unit_roundoff;
    if (u <= TraitsOf(contract.Precision()).unit_roundoff) continue;
    if (difference > kFew * u * largest) continue;
    return fmt::format(
        "; no more than a few roundings of {}: if the model computes in it, \"precision\": \"{}\" "
        "says so",
        word, word);
  }
  return "";
}

LogitsSide SideOf(const LogitsRow& row) {
  return {row.of->model, row.of->request, row.item, row.token, {row.begin(), row.end()}};
}

void KeepSides(const LogitsRow& expected, const LogitsRow& observed) {
  if (expected.of == nullptr || observed.of == nullptr || !observed.of->trace) return;
  auto& sides = observed.of->trace->sides;
  if (!sides) sides = {SideOf(expected), SideOf(observed)};
}

Difference Largest(std::span<const double> a, std::span<const double> b) {
  Difference largest;
  for (size_t v = 0; v < a.size(); ++v) {
    if (Same(a[v], b[v])) continue;
    const bool finite = std::isfinite(a[v]) && std::isfinite(b[v]);
    const double size = finite ? std::abs(a[v] - b[v]) : INFINITY;
    if (size > largest.size) largest = {v, size};
  }
  return largest;
}

}  // namespace

bool SameLogits(std::span<const double> a, std::span<const double> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), Same);
}

double RoundingOf(std::span<const double> a, std::span<const double> b, DType precision) {
  return std::sqrt(2 * TraitsOf(precision).unit_roundoff) * LargestOf(a, b);
}

bool LogitsComparison::Row(const LogitsRow& expected, const LogitsRow& observed, size_t item,
                           size_t token, const std::string& what) {
  ++verdict_.rows;
  if (has_failed() || SameLogits(expected, observed)) return !has_failed();
  const double bound = promised_ ? 0
                                 : RoundingOf(expected, observed, contract_.Precision()) +
                                       more_ * LargestOf(expected, observed);
  const Difference difference = Largest(expected, observed);
  if (bound > 0) {
    verdict_.worst_ratio = std::max(verdict_.worst_ratio, difference.size / bound);
  }
  if (difference.size <= bound) {
    verdict_.kind = VerdictKind::kMarginal;
    verdict_.reason = "bits";
    return true;
  }
  KeepSides(expected, observed);
  const size_t v = difference.at;
  verdict_.kind = VerdictKind::kFail;
  verdict_.cause = CauseOf(expected[v], observed[v]);
  verdict_.output = "logits";
  verdict_.reason.clear();
  verdict_.witness =
      Witness{{static_cast<int64_t>(item), 0, static_cast<int64_t>(token), static_cast<int64_t>(v)},
              expected[v],
              observed[v],
              bound};
  verdict_.sentence =
      std::isfinite(expected[v])
          ? fmt::format("{}, for token {}: {:.9g} where {:.9g} was due{}; {}", RowName(item, token),
                        v, observed[v], expected[v],
                        promised_ ? ", bit for bit" : fmt::format(", give or take {:.3g}", bound),
                        what)
          : fmt::format("{}, for token {}: {:.9g}, but {} where it should be the same; {}",
                        RowName(item, token), v, observed[v],
                        std::isnan(expected[v]) ? "NaN" : "infinity", what);
  if (!promised_) {
    verdict_.sentence += PrecisionHint(contract_, difference.size, LargestOf(expected, observed));
  }
  return false;
}

std::string RowName(size_t item, size_t token) {
  return fmt::format("the logits at position {} of item {}", token, item);
}

Verdict ModelFailure(Cause cause, std::string output, std::string sentence) {
  Verdict verdict;
  verdict.kind = VerdictKind::kFail;
  verdict.cause = cause;
  verdict.output = std::move(output);
  verdict.sentence = std::move(sentence);
  return verdict;
}

Verdict SaysNothing(std::string reason) {
  Verdict verdict;
  verdict.kind = VerdictKind::kInconclusive;
  verdict.reason = std::move(reason);
  return verdict;
}

}  // namespace attest
