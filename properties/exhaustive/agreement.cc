#include "properties/exhaustive/agreement.h"

#include <cmath>
#include <functional>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "impl/attention/contract.h"
#include "impl/attention/visibility.h"
#include "impl/reference/bound.h"
#include "impl/reference/extended_reference.h"
#include "impl/reference/scalar_reference.h"
#include "properties/harness/judge/compare.h"

namespace attest {
namespace {

// The references' own error: sums of a few doubles of at most 100, in another order.
constexpr double kReferenceError = 1e-12;

// The bound of one element, given its row and lane.
using BoundOf = std::function<double(const Row& row, int64_t lane)>;

// The first element of the rows that `rows` accepts whose difference passes its bound, as a
// sentence.
std::optional<std::string> Compare(std::string_view output, const Array& observed,
                                   const Array& expected, const BoundOf& bound,
                                   const RowFilter& rows = {}) {
  if (observed.shape != expected.shape) return fmt::format("{} has another shape", output);
  const Shape4& shape = expected.shape;
  size_t at = 0;
  for (int64_t b = 0; b < shape[0]; ++b)
    for (int64_t h = 0; h < shape[1]; ++h)
      for (int64_t i = 0; i < shape[2]; ++i)
        for (int64_t lane = 0; lane < shape[3]; ++lane, ++at) {
          const double is = observed.values[at], due = expected.values[at];
          if (SameBits(is, due) || (rows && !rows({b, h, i}))) continue;
          const double within = bound({b, h, i}, lane);
          if (WithinBound(is, due, within)) continue;
          return fmt::format("{}[{}, {}, {}, {}] is {}, expected {} (within {})", output, b, h, i,
                             lane, is, due, within);
        }
  return std::nullopt;
}

std::optional<std::string> CompareVisibility(const Problem& p, const ScalarReference& scalar) {
  std::optional<std::string> difference;
  ForEachRow(p, [&](const Row& row) {
    for (int64_t j = 0; j < p.kv_len; ++j) {
      const bool attends = scalar.weights.At(row.batch, row.head, row.query, j) != 0;
      if (Visible(p, row, j) == attends || difference) continue;
      difference = fmt::format("key {} of row [{}, {}, {}] is {} to the scalar reference", j,
                               row.batch, row.head, row.query, attends ? "visible" : "hidden");
    }
  });
  return difference;
}

DirectForm FormOf(const Case& c) {
  DirectForm form;
  if (c.layouts.q == Layout::kBshd) form.layout = DirectLayout::kBshd;
  if (c.layouts.q == Layout::kGapped) form.layout = DirectLayout::kGapped;
  const Storage& s = c.storage;
  const bool has_past = s.past > 0 || s.first_call == FirstCall::kPastEmpty;
  if (has_past) form.storage = DirectStorage::kPast;
  if (s.page_size > 0) form.storage = DirectStorage::kPages;
  if (s.ring) form.storage = DirectStorage::kRing;
  if (s.packed) form.storage = DirectStorage::kPacked;
  form.want_present = has_past;
  return form;
}

// One output beside what was due, and its bounds of a row.
struct Judged {
  std::string_view name;
  bool is_asked;
  const Array& observed;
  const Array& due;
  double (*bound)(const RowNumbers& row, size_t lane);
};

std::optional<std::string> CompareOutputs(const Case& c, const DirectResult& result,
                                          const Reference& due, ErrorBound& bound) {
  const Problem& p = c.problem;
  const Judged outputs[] = {
      {"out", true, result.out, due.out, [](const RowNumbers& r, size_t n) { return r.out[n]; }},
      {"lse", p.want_lse, result.lse, due.lse, [](const RowNumbers& r, size_t) { return r.lse; }},
      {"weights", p.want_weights, result.weights, due.weights,
       [](const RowNumbers& r, size_t n) { return r.weights[n]; }},
      {"scores", p.want_scores.has_value(), result.scores, due.asked_scores,
       [](const RowNumbers& r, size_t n) { return r.scores[n]; }},
  };
  // Rows past a query length never reach a kernel that is given packed sequences.
  const RowFilter rows = [&](const Row& row) {
    return !c.storage.packed || !IsPaddedQuery(p, row);
  };
  for (const Judged& output : outputs) {
    if (!output.is_asked) continue;
    const BoundOf of = [&](const Row& row, int64_t lane) {
      return output.bound(bound.WorstOf(row), static_cast<size_t>(lane));
    };
    if (auto difference = Compare(output.name, output.observed, output.due, of, rows)) {
      return difference;
    }
  }
  return std::nullopt;
}

// Past and new keys and values together come back bit for bit.
std::optional<std::string> ComparePresent(const Inputs& inputs, const DirectResult& result) {
  const BoundOf exact = [](const Row&, int64_t) { return 0.0; };
  if (auto difference = Compare("present_k", result.present_k, inputs.k, exact)) return difference;
  return Compare("present_v", result.present_v, inputs.v, exact);
}

std::optional<std::string> CompareKernel(const Case& c, const Inputs& inputs,
                                         const DirectKernel& kernel, const Reference& due,
                                         ErrorBound& bound) {
  const DirectForm form = FormOf(c);
  const DirectResult result = kernel.Run(c.problem, inputs, form);
  if (result.status != ATTEST_OK) return fmt::format("refused: {}", result.message);
  if (auto difference = CompareOutputs(c, result, due, bound)) return difference;
  return form.want_present ? ComparePresent(inputs, result) : std::nullopt;
}

}  // namespace

const Contract& SweepContract() {
  static const Contract kContract = *ParseContract(R"({
    "contract": "attest-1",
    "poison_safe": ["k:length", "k:causal", "k:window", "k:mask", "k:bias", "k:document", "k:block",
                    "k:page", "v:length", "v:causal", "v:window", "v:mask", "v:bias", "v:document",
                    "v:block", "v:page"]
  })");
  return kContract;
}

std::optional<Disagreement> CompareReferences(const Problem& p, const Inputs& inputs,
                                              const Reference& reference, SoftcapOrder order) {
  const ScalarReference scalar = ComputeScalarReference(p, inputs, order);
  auto difference = CompareVisibility(p, scalar);
  for (const auto& [output, observed, expected] :
       {std::tuple{"out", &reference.out, &scalar.out},
        std::tuple{"lse", &reference.lse, &scalar.lse},
        std::tuple{"weights", &reference.weights, &scalar.weights},
        std::tuple{"scores", &reference.asked_scores, &scalar.asked_scores}}) {
    if (difference) break;
    const BoundOf bound = [due = expected](const Row& row, int64_t lane) {
      return kReferenceError * (1 + std::abs(due->At(row.batch, row.head, row.query, lane)));
    };
    difference = Compare(output, *observed, *expected, bound);
  }
  if (!difference) return std::nullopt;
  return Disagreement{"", "the references differ: " + *difference};
}

std::vector<Disagreement> Disagreements(const Case& c, const std::vector<SweptKernel>& kernels) {
  const Problem& p = c.problem;
  const Inputs inputs = Materialise(c);
  std::vector<Disagreement> disagreements;
  Semantics semantics = SweepContract().semantics;
  if (p.softcap > 0) {
    semantics.softcap_order = SoftcapOrder::kAfterBias;
    const Reference other = ComputeReference(p, inputs, semantics);
    auto difference = CompareReferences(p, inputs, other, SoftcapOrder::kAfterBias);
    if (difference) disagreements.push_back(std::move(*difference));
  }
  semantics.softcap_order = SoftcapOrder::kBeforeBias;
  Reference reference = ComputeReference(p, inputs, semantics);
  auto difference = CompareReferences(p, inputs, reference, SoftcapOrder::kBeforeBias);
  if (difference) disagreements.push_back(std::move(*difference));
  if (NeedsExtendedReference(SweepContract().NumericsOf(p.dtype))) {
    reference = ComputeExtendedReference(p, inputs, semantics);
  }
  ErrorBound bound(p, inputs, reference, SweepContract());
  for (const SweptKernel& kernel : kernels) {
    if (auto sentence = CompareKernel(c, inputs, kernel.kernel, reference, bound)) {
      disagreements.push_back({kernel.name, std::move(*sentence)});
    }
  }
  return disagreements;
}

}  // namespace attest
