#include "properties/harness/report/case_view.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "properties/harness/judge/compare.h"
#include "properties/harness/judge/oracle.h"
#include "properties/harness/judge/outputs.h"
#include "properties/harness/judge/padding.h"
#include "properties/harness/lower/lower.h"
#include "properties/harness/report/finding_text.h"

namespace attest {
namespace {

// More lanes, keys or rows than these say nothing that those around the witness do not.
constexpr int64_t kMaxLanes = 24;
constexpr int64_t kMaxKeys = 64;
constexpr int64_t kMaxRows = 32;

constexpr double kNothingDue = std::numeric_limits<double>::quiet_NaN();

// Where a window of `most` out of `count` begins that has `marked` near its middle.
int64_t FirstShown(int64_t marked, int64_t count, int64_t most) {
  return std::max<int64_t>(0, std::min(marked - most / 2, count - most));
}

double ErrorOf(double expected, double observed) {
  return SameBits(expected, observed) ? 0 : std::abs(observed - expected);
}

double RatioOf(double expected, double observed, double bound) {
  const double error = ErrorOf(expected, observed);
  if (error == 0 || std::isinf(bound)) return 0;
  const double ratio = error / bound;
  return std::isnan(ratio) ? std::numeric_limits<double>::infinity() : ratio;
}

std::optional<Outcome> RunAlone(const Case& c, const Inputs& inputs, const Contract& contract,
                                KernelSession& session) {
  const auto lowered = Lower(c, inputs, contract);
  if (!lowered) return std::nullopt;
  const auto results = session.Run(std::span(&lowered->call, 1));
  Outcome outcome = Lift(c, contract, *lowered, results.at(0));
  if (outcome.status != OutcomeStatus::kComputed) return std::nullopt;
  return outcome;
}

// nullptr for outputs that have no rows, as present keys.
const Output* OutputNamed(std::string_view name) {
  const auto found = std::ranges::find(kOutputs, name.empty() ? "out" : name, &Output::name);
  return found == kOutputs.end() ? nullptr : &*found;
}

// V such that out is the weights; nullopt where the contract does not allow it.
std::optional<Case> WithWeightsAsOutput(const Case& c, const Contract& contract) {
  Case probe = c;
  probe.recipe.values = ValueFamily::kOneHot;
  std::erase_if(probe.overrides, [](const Override& o) { return o.tensor == DataTensor::kV; });
  probe.literals.erase(DataTensor::kV);
  probe.problem.value_dim = probe.problem.kv_len;
  const bool fits = contract.Has(Feature::kValueDim) ||
                    probe.problem.value_dim == c.problem.head_dim ||
                    probe.problem.value_dim == c.problem.value_dim;
  if (!fits || c.problem.fp8 || Validate(probe)) return std::nullopt;
  return probe;
}

// Looks at one case, with its oracle and what the kernel made of it.
class Look {
 public:
  Look(const Case& c, const Contract& contract, KernelSession& session, const Row& row)
      : case_(c),
        problem_(c.problem),
        contract_(contract),
        session_(session),
        row_(row),
        oracle_(std::span(&c, 1), contract),
        outcome_(RunAlone(c, oracle_.InputsOf(0), contract, session)) {}

  bool Computed() const { return outcome_.has_value(); }

  // Whether kernel and reference both have the output.
  bool Has(const Output& output) {
    return (*outcome_.*output.observed).shape == (oracle_.ReferenceOf(0).*output.expected).shape;
  }

  RowView RowOf(const Output& output, int64_t marked_lane) {
    RowView view{std::string(output.name), row_, State(), marked_lane, {}};
    const RowNumbers& worst = oracle_.BoundOf(0).WorstOf(row_);
    const RowNumbers& probable = oracle_.BoundOf(0).ProbableOf(row_);
    const int64_t lanes = Expected(output).shape[3];
    const int64_t first = FirstShown(marked_lane, lanes, kMaxLanes);
    for (int64_t lane = first; lane < std::min(lanes, first + kMaxLanes); ++lane) {
      const double expected = At(Expected(output), row_, lane);
      const double observed = At(Observed(output), row_, lane);
      view.lanes.push_back({lane, expected, observed, ErrorOf(expected, observed),
                            output.number(worst, lane), output.number(probable, lane)});
    }
    return view;
  }

  std::optional<WeightsView> Weights() {
    if (problem_.kv_len == 0 || problem_.kv_len > kMaxKeys) return std::nullopt;
    WeightsView view{row_, {}, {}, {}, false};
    const Output& weights = *OutputNamed("weights");
    for (int64_t key = 0; key < problem_.kv_len; ++key) {
      view.visible.push_back(Visible(problem_, row_, key));
      view.expected.push_back(At(Expected(weights), row_, key));
      if (Has(weights)) view.observed.push_back(At(Observed(weights), row_, key));
    }
    if (view.observed.empty()) ReadOffWeights(view);
    return view;
  }

  ErrorMap Map(const Output& output, int64_t marked_lane) {
    const int64_t lanes = Expected(output).shape[3];
    ErrorMap map{std::string(output.name),
                 {},
                 FirstShown(marked_lane, lanes, kMaxLanes),
                 {},
                 row_,
                 marked_lane,
                 problem_.batch * problem_.q_heads * problem_.q_len,
                 lanes};
    const int64_t marked =
        (row_.batch * problem_.q_heads + row_.head) * problem_.q_len + row_.query;
    const int64_t first = FirstShown(marked, map.rows_in_all, kMaxRows);
    int64_t index = 0;
    ForEachRow(problem_, [&](const Row& row) {
      const int64_t at = index++;
      if (at < first || at >= first + kMaxRows) return;
      map.rows.push_back(row);
      map.ratios.push_back(RatiosOf(output, row, map.first_lane));
    });
    return map;
  }

 private:
  const Array& Expected(const Output& output) { return oracle_.ReferenceOf(0).*output.expected; }
  const Array& Observed(const Output& output) const { return *outcome_.*output.observed; }
  static double At(const Array& array, const Row& row, int64_t lane) {
    return array.At(row.batch, row.head, row.query, lane);
  }

  PaddingDue PaddingOf(const Row& row) const {
    return PaddingDueOf(problem_, case_.storage.packed, contract_, row);
  }

  std::string_view State() {
    if (PaddingOf(row_) == PaddingDue::kNothing) return "padding, of which nothing is due";
    if (PaddingOf(row_) == PaddingDue::kZeroOut) return "padding, of which out must be 0";
    if (oracle_.BoundOf(0).StateOf(row_) == RowState::kUnconstrained) {
      return "unconstrained: a score or sum may overflow, so anything passes";
    }
    if (IsEmptyRow(problem_, row_)) return "empty: the contract says what is due";
    if (oracle_.BoundOf(0).StateOf(row_) == RowState::kUninformative) {
      return "uninformative: the bound W exceeds a tenth of V's range";
    }
    return "informative";
  }

  // Whether the reference's values are what the contract asks of the row.
  bool IsDue(const Output& output, const Row& row) {
    if (PaddingOf(row) != PaddingDue::kAsAnyRow || oracle_.BoundOf(0).IsUnconstrained(row)) {
      return false;
    }
    if (!IsEmptyRow(problem_, row)) return true;
    const Semantics& semantics = contract_.semantics;
    if (output.name == "lse") return semantics.lse_empty_row != LseEmptyRow::kUnspecified;
    return semantics.empty_row == EmptyRow::kZero ||
           (semantics.empty_row == EmptyRow::kNan && output.name == "out");
  }

  std::vector<double> RatiosOf(const Output& output, const Row& row, int64_t first) {
    const int64_t end = std::min(Expected(output).shape[3], first + kMaxLanes);
    if (!IsDue(output, row)) {
      return std::vector<double>(static_cast<size_t>(end - first), kNothingDue);
    }
    const RowNumbers& worst = oracle_.BoundOf(0).WorstOf(row);
    std::vector<double> ratios;
    for (int64_t lane = first; lane < end; ++lane) {
      ratios.push_back(RatioOf(At(Expected(output), row, lane), At(Observed(output), row, lane),
                               output.number(worst, lane)));
    }
    return ratios;
  }

  void ReadOffWeights(WeightsView& view) {
    const auto probe = WithWeightsAsOutput(case_, contract_);
    if (!probe) return;
    const auto outcome = RunAlone(*probe, Materialise(*probe), contract_, session_);
    if (!outcome || outcome->out.shape != probe->problem.OutShape()) return;
    for (int64_t key = 0; key < problem_.kv_len; ++key) {
      view.observed.push_back(At(outcome->out, row_, key));
    }
    view.is_read_off = true;
  }

  const Case& case_;
  const Problem& problem_;
  const Contract& contract_;
  KernelSession& session_;
  Row row_;
  Oracle oracle_;
  std::optional<Outcome> outcome_;
};

}  // namespace

std::optional<CaseView> LookAt(const Case& c, const Verdict& verdict, const Contract& contract,
                               KernelSession& session) {
  const auto row = WitnessRow(c.problem, verdict);
  if (!row) return std::nullopt;
  Look look(c, contract, session, *row);
  const Output* output = OutputNamed(verdict.output);
  if (output == nullptr || !look.Computed() || !look.Has(*output)) return std::nullopt;
  const int64_t lane = verdict.witness->index[3];
  return CaseView{look.RowOf(*output, lane), look.Weights(), look.Map(*output, lane)};
}

bool IsRightByItself(const RowView& view) {
  return std::ranges::all_of(view.lanes, [&](const RowView::Lane& lane) {
    return lane.lane != view.marked_lane || lane.error <= lane.worst;
  });
}

std::string RatioText(double ratio) {
  return ratio == 0 ? "0" : fmt::format("{:.3g}", ratio);
}

}  // namespace attest
