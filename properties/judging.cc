#include "properties/judging.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "properties/harness/judge/outputs.h"

namespace attest {

bool IsOpenPadding(const Evidence& evidence, size_t index, const Row& row) {
  return IsPaddedQuery(evidence.cases[index].problem, row);
}

bool IsOrdinary(const Evidence& evidence, size_t index, const Row& row) {
  if (IsEmptyRow(evidence.cases[index].problem, row)) return false;
  if (IsOpenPadding(evidence, index, row) || IsUnconstrained(evidence, index, row)) return false;
  const Reference& reference = evidence.oracle.ReferenceOf(index);
  return !std::isnan(reference.lse.At(row.batch, row.head, row.query, 0));
}

Verdict JudgeOrdinaryRows(const Evidence& evidence, const RowCheck& check,
                          std::vector<size_t> only) {
  if (only.empty()) {
    only.resize(evidence.cases.size());
    std::iota(only.begin(), only.end(), size_t{0});
  }
  Verdict verdict;
  ForEachRow(evidence.cases[0].problem, [&](const Row& row) {
    if (verdict.kind == VerdictKind::kFail) return;
    ++verdict.rows;
    if (!std::ranges::all_of(only, [&](size_t i) { return IsOrdinary(evidence, i, row); })) {
      ++verdict.unconstrained_rows;
    } else if (auto failed = check(row)) {
      verdict = *failed;
    }
  });
  return verdict;
}

Seen OutOf(const Evidence& evidence, size_t index, const Row& row, int64_t lane) {
  const auto at = [&](const Array& a) { return a.At(row.batch, row.head, row.query, lane); };
  return {at(evidence.outcomes[index].out), at(evidence.oracle.ReferenceOf(index).out),
          evidence.oracle.BoundOf(index).WorstOf(row).out[static_cast<size_t>(lane)]};
}

Seen LseOf(const Evidence& evidence, size_t index, const Row& row) {
  const auto at = [&](const Array& a) { return a.At(row.batch, row.head, row.query, 0); };
  return {at(evidence.outcomes[index].lse), at(evidence.oracle.ReferenceOf(index).lse),
          evidence.oracle.BoundOf(index).WorstOf(row).lse};
}

namespace {

using Index = std::array<int64_t, 4>;

double ValueAt(const Array& array, const Index& at) {
  return array.At(at[0], at[1], at[2], at[3]);
}

// How far the element of a call is from its own reference.
double ErrorOf(const Evidence& evidence, size_t call, const Output& output, const Index& at) {
  const double value = ValueAt(evidence.outcomes[call].*output.observed, at);
  const double due = ValueAt(evidence.oracle.ReferenceOf(call).*output.expected, at);
  if (SameBits(value, due)) return 0;
  const double error = std::abs(value - due);
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

}  // namespace

ExpectedFrom TheFirstCall() {
  return {"came from the first call", {0}};
}

ExpectedFrom OtherCalls(std::vector<size_t> calls) {
  return {"follows from the other calls", std::move(calls)};
}

std::optional<Verdict> Expect(const Evidence& evidence, size_t index, std::string_view output,
                              const Row& row, int64_t lane, double got, double expected,
                              double bound, std::string_view why, const ExpectedFrom& from) {
  if (std::isnan(expected) || WithinBound(got, expected, bound)) return std::nullopt;
  const Index at{row.batch, row.head, row.query, lane};
  const Output& by_name = *std::ranges::find(kOutputs, output, &Output::name);
  size_t wrong = index;
  for (const size_t call : from.calls) {
    if (ErrorOf(evidence, call, by_name, at) > ErrorOf(evidence, wrong, by_name, at)) wrong = call;
  }
  std::string_view due = from.due;
  if (wrong != index) {
    // What the others make due at its place: they are as far from it as it is from them.
    const double value = ValueAt(evidence.outcomes[wrong].*by_name.observed, at);
    const bool is_the_same_value = due == TheFirstCall().due;
    expected = is_the_same_value ? got : value + (got - expected);
    got = value;
    if (is_the_same_value) due = "came from a derived call";
  }
  Verdict failed =
      FailAt(evidence.cases[wrong].problem, output, at, expected, got, bound, why, due);
  failed.call = wrong;
  Explain(evidence, wrong, at, failed);
  return failed;
}

Verdict SameOutputs(const Evidence& evidence, const std::vector<std::string_view>& names,
                    std::string_view why) {
  return JudgeOrdinaryRows(
      evidence,
      [&](const Row& row) -> std::optional<Verdict> {
        for (const Output& output : kOutputs) {
          const Array& a = evidence.outcomes[0].*output.observed;
          const Array& b = evidence.outcomes[1].*output.observed;
          if (std::ranges::count(names, output.name) == 0 || a.empty() || b.empty()) continue;
          for (int64_t lane = 0; lane < a.shape[3]; ++lane) {
            const size_t at = a.Index(row.batch, row.head, row.query, lane);
            const double bound = output.number(evidence.oracle.BoundOf(0).WorstOf(row), lane) +
                                 output.number(evidence.oracle.BoundOf(1).WorstOf(row), lane);
            if (auto failed = Expect(evidence, 1, output.name, row, lane, b.values[at],
                                     a.values[at], bound, why, TheFirstCall())) {
              return failed;
            }
          }
        }
        return std::nullopt;
      },
      {0, 1});
}

}  // namespace attest
