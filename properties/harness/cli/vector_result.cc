#include "properties/harness/cli/vector_result.h"

#include <filesystem>
#include <map>
#include <span>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "properties/harness/judge/compare.h"
#include "properties/harness/judge/oracle.h"
#include "properties/harness/lower/lower.h"
#include "properties/harness/report/finding_text.h"
#include "properties/harness/report/run_report.h"
#include "properties/harness/runner/run_case.h"

namespace attest {
namespace {

using Json = nlohmann::ordered_json;

std::string Line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Verdict UnsupportedFor(const std::vector<std::string>& reasons) {
  Verdict verdict;
  verdict.kind = VerdictKind::kUnsupported;
  verdict.reason = fmt::format("{}", fmt::join(reasons, "; "));
  return verdict;
}

// The first element of `observed` that differs from the stored values by more than 2 W, where W is
// that field of a row's bounds. Empty rows count only where the contract promises the standard's
// zeros.
std::optional<Verdict> CompareStored(const VectorCase& vector, std::string_view output,
                                     const Array& observed, const Array& stored,
                                     std::vector<double> RowNumbers::*field, Oracle& oracle,
                                     const Contract& contract) {
  if (observed.shape != stored.shape) return std::nullopt;  // not asked for, or not offered
  std::optional<Verdict> failure;
  ForEachRow(vector.c.problem, [&](const Row& row) {
    const bool is_promised =
        contract.semantics.empty_row == EmptyRow::kZero || !IsEmptyRow(vector.c.problem, row);
    if (!is_promised || failure) return;
    const std::vector<double>& worst = oracle.BoundOf(0).WorstOf(row).*field;
    for (int64_t lane = 0; !failure && lane < stored.shape[3]; ++lane) {
      const auto at = [&](const Array& array) {
        return array.At(row.batch, row.head, row.query, lane);
      };
      const double bound = 2 * worst[static_cast<size_t>(lane)];
      if (WithinBound(at(observed), at(stored), bound)) continue;
      failure = FailAt(vector.c.problem, output, {row.batch, row.head, row.query, lane}, at(stored),
                       at(observed), bound, "it differs from the standard's stored value");
    }
  });
  return failure;
}

// The first key or value that did not come back as it is stored, bit for bit; where the kernel gives
// the present at all.
std::optional<Verdict> ComparePresent(std::string_view output, const Array& observed,
                                      const Array& stored) {
  if (observed.shape != stored.shape) return std::nullopt;
  for (size_t at = 0; at < stored.values.size(); ++at) {
    if (SameBits(observed.values[at], stored.values[at])) continue;
    const auto lanes = static_cast<size_t>(stored.shape[3]);
    Verdict failed;
    failed.kind = VerdictKind::kFail;
    failed.cause = CauseOf(observed.values[at], stored.values[at]);
    failed.output = output;
    failed.sentence =
        fmt::format("{}: row {}, lane {} is {:.9g} where the standard's stored value is {:.9g}",
                    output, at / lanes, at % lanes, observed.values[at], stored.values[at]);
    return failed;
  }
  return std::nullopt;
}

// The stored values have the softcap before the mask, which a contract may do otherwise.
bool CapsAsStored(const Problem& problem, const Contract& contract) {
  return problem.softcap == 0 || !problem.bias ||
         contract.semantics.softcap_order == SoftcapOrder::kBeforeBias;
}

std::optional<Verdict> CompareAllStored(const VectorCase& vector, const Outcome& outcome,
                                        Oracle& oracle, const Contract& contract) {
  const struct {
    std::string_view name;
    const Array& observed;
    const Array& stored;
    std::vector<double> RowNumbers::*field;
  } outputs[] = {{"out", outcome.out, vector.out, &RowNumbers::out},
                 {"weights", outcome.weights, vector.weights, &RowNumbers::weights},
                 {"scores", outcome.scores, vector.scores, &RowNumbers::scores}};
  for (const auto& [name, observed, stored, field] : outputs) {
    if (!CapsAsStored(vector.c.problem, contract)) continue;
    auto failure = CompareStored(vector, name, observed, stored, field, oracle, contract);
    if (failure) return failure;
  }
  auto failure = ComparePresent("present_k", outcome.present_k, vector.present_k);
  return failure ? failure : ComparePresent("present_v", outcome.present_v, vector.present_v);
}

Verdict JudgeStored(const VectorCase& vector, OpenedKernel& kernel, Verdict verdict) {
  Oracle oracle(std::span(&vector.c, 1), kernel.contract);
  const auto lowered = Lower(vector.c, oracle.InputsOf(0), kernel.contract);
  if (!lowered) return UnsupportedFor({lowered.error().reason});
  const auto results = kernel.session->Run(std::span(&lowered->call, 1));
  const Outcome outcome = Lift(vector.c, kernel.contract, *lowered, results.at(0));
  if (outcome.status != OutcomeStatus::kComputed) {
    verdict.kind = VerdictKind::kInconclusive;
    verdict.reason = "flaky: it computed once, then gave no values";
    return verdict;
  }
  return CompareAllStored(vector, outcome, oracle, kernel.contract).value_or(verdict);
}

}  // namespace

Verdict JudgeVector(const VectorCase& vector, OpenedKernel& kernel) {
  if (!vector.unsupported.empty()) return UnsupportedFor(vector.unsupported);
  const Property* equivalence = FindProperty("equivalence.matches_reference");
  const CaseResult result = RunCase(*equivalence, vector.c, kernel.contract, *kernel.session);
  const bool passed =
      result.verdict.kind == VerdictKind::kPass || result.verdict.kind == VerdictKind::kMarginal;
  return passed ? JudgeStored(vector, kernel, result.verdict) : result.verdict;
}

std::string VectorCommand(const std::string& program, const std::string& folder,
                          const std::string& name, const std::string& kernel) {
  // NAME/test_data_set_N is run by running NAME; a folder that is itself a test is run as it is.
  const std::string test = name.substr(0, name.find('/'));
  const std::filesystem::path inside = std::filesystem::path(folder) / test;
  std::error_code ignored;
  const bool is_parent = std::filesystem::is_directory(inside, ignored);
  return fmt::format("{} vectors {} {}", ShellQuote(program),
                     ShellQuote(is_parent ? inside.string() : folder), ShellQuote(kernel));
}

std::string VectorRunLine(const std::string& command, const std::string& kernel,
                          const OpenedKernel& opened) {
  const KernelIdentity& identity = opened.session->identity();
  return Line({{"type", "run"},
               {"schema", 1},
               {"version", Version()},
               {"command", command},
               {"kernels", Json::array({Json{{"kernel", kernel},
                                             {"name", identity.name},
                                             {"version", identity.version},
                                             {"contract", opened.contract.name}}})}});
}

std::string VectorResultLine(const VectorResult& result, const std::string& command) {
  return Line({{"type", "vector"},
               {"name", result.name},
               {"verdict", Name(result.verdict.kind)},
               {"reason", result.verdict.reason},
               {"sentence", result.verdict.sentence},
               {"replay", command}});
}

std::string VectorSummaryLine(const std::vector<VectorResult>& results, int exit_code) {
  std::map<std::string, int64_t> counts;
  for (const VectorResult& result : results) ++counts[std::string(Name(result.verdict.kind))];
  return Line({{"type", "summary"},
               {"exit_code", exit_code},
               {"vectors", results.size()},
               {"verdicts", counts}});
}

}  // namespace attest
