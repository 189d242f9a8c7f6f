#include "properties/bench/judging.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "impl/reference/extended_reference.h"

namespace attest {

const Contract& BaseContract() {
  static const Contract kContract = *ParseContract(R"({"contract": "attest-1"})");
  return kContract;
}

const NumericsProfile& BaseNumerics(DType dtype) {
  return BaseContract().NumericsOf(dtype);
}

JudgedSample::JudgedSample(Sample sample)
    : sample_(std::move(sample)),
      reference_(ReferenceFor(sample_.problem, sample_.inputs, BaseContract())) {
  ForEachRow(problem(), [&](const Row& row) {
    if (!IsEmptyRow(problem(), row)) rows_.push_back(row);
  });
}

ErrorBound& JudgedSample::BoundFor(const NumericsProfile& profile) {
  for (const auto& judge : judges_) {
    if (judge->profile == profile) return *judge->bound;
  }
  auto judge = std::make_unique<Judge>(Judge{profile, BaseContract(), nullptr});
  judge->contract.numerics[problem().dtype] = profile;
  judge->bound = std::make_unique<ErrorBound>(problem(), inputs(), reference_, judge->contract);
  judges_.push_back(std::move(judge));
  return *judges_.back()->bound;
}

std::vector<EmulatedRow> JudgedSample::Emulate(const KernelVariant& variant,
                                               const Fault& fault) const {
  std::vector<EmulatedRow> result;
  for (const Row& row : rows_) {
    result.push_back(EmulateRow(problem(), inputs(), row, variant, fault));
  }
  return result;
}

double RatioOf(double error, double bound) {
  if (std::isinf(bound)) return 0;
  if (error <= bound) return bound > 0 ? error / bound : 0;
  return bound > 0 && !std::isnan(error) ? error / bound : std::numeric_limits<double>::infinity();
}

RowFigures JudgeRow(const JudgedSample& sample, ErrorBound& bound, const Row& row,
                    const EmulatedRow& observed, ErrorStatistics& statistics) {
  RowFigures figures;
  figures.state = bound.StateOf(row);
  if (figures.state == RowState::kUnconstrained) return figures;
  const RowNumbers &worst = bound.WorstOf(row), &cheap = bound.CheapOf(row),
                   &probable = bound.ProbableOf(row), &spread = bound.SpreadOf(row);
  const RowFloor floor = bound.FloorOf(row);
  const auto raise = [](double& most, double ratio) { most = std::max(most, ratio); };
  for (size_t d = 0; d < observed.out.size(); ++d) {
    const double expected =
        sample.reference().out.At(row.batch, row.head, row.query, static_cast<int64_t>(d));
    const double error = std::abs(observed.out[d] - expected);
    raise(figures.worst, RatioOf(error, worst.out[d]));
    raise(figures.cheap, RatioOf(error, cheap.out[d]));
    raise(figures.probable, RatioOf(error, probable.out[d]));
    raise(figures.disorder, RatioOf(worst.out[d], cheap.out[d]));
    raise(figures.disorder, RatioOf(floor.Out(expected), worst.out[d]));
    const double settled = floor.SettledOut(expected);
    if (settled > kSettledShare * floor.Out(expected)) {
      raise(figures.disorder, RatioOf(settled, probable.out[d]));
    }
    statistics.Add(observed.out[d] - expected, spread.out[d], expected);
  }
  const double lse = sample.reference().lse.At(row.batch, row.head, row.query, 0);
  figures.worst_lse = RatioOf(std::abs(observed.lse - lse), worst.lse);
  figures.probable_lse = RatioOf(std::abs(observed.lse - lse), probable.lse);
  raise(figures.disorder, RatioOf(worst.lse, cheap.lse));
  raise(figures.disorder, RatioOf(floor.lse, worst.lse));
  return figures;
}

Rejections JudgeTensor(JudgedSample& sample, const NumericsProfile& profile,
                       const std::vector<EmulatedRow>& observed) {
  Rejections rejections;
  ErrorStatistics statistics;
  ErrorBound& bound = sample.BoundFor(profile);
  for (size_t i = 0; i < observed.size(); ++i) {
    const RowFigures row = JudgeRow(sample, bound, sample.rows()[i], observed[i], statistics);
    if (row.state == RowState::kUnconstrained) rejections.is_constrained = false;
    rejections.fail |= row.worst > 1;
    rejections.fail_lse |= row.worst_lse > 1;
    rejections.probable |= row.probable > 1 || row.probable_lse > 1;
  }
  rejections.rms = statistics.count() >= kRmsLeastCount && statistics.rms() > kRmsLimit;
  return rejections;
}

}  // namespace attest
