#include "fuzz/in_process.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include <fmt/format.h>

#include "properties/harness/case/shrink.h"
#include "properties/harness/case/toml.h"

namespace attest {
namespace {

[[noreturn]] void Die(const std::string& message) {
  fmt::print(stderr, "fuzz: {}\n", message);
  std::abort();
}

std::filesystem::path FindingsFolder() {
  const char* folder = std::getenv("ATTEST_FINDINGS");
  return folder != nullptr ? folder : "attest-findings";
}

std::string FileNameOf(const std::string& kernel, const Signature& signature) {
  std::string name = kernel + "-" + ToString(signature) + ".toml";
  for (char& c : name) {
    if (c == '/' || c == '?' || c == '=' || c == ':' || c == '&') c = '-';
  }
  return name;
}

Outcome OutcomeOf(const Case& c, const DirectKernel& kernel) {
  DirectResult result = kernel.Run(c.problem, Materialise(c));
  Outcome outcome;
  if (result.status != ATTEST_OK) {
    outcome.status = OutcomeStatus::kRefused;
    outcome.reason = std::move(result.message);
    return outcome;
  }
  outcome.status = OutcomeStatus::kComputed;
  outcome.out = std::move(result.out);
  outcome.lse = std::move(result.lse);
  outcome.weights = std::move(result.weights);
  outcome.scores = std::move(result.scores);
  return outcome;
}

Signature SignatureOf(const Property& property, const Verdict& verdict) {
  return {std::string(property.id), verdict.cause, verdict.output, verdict.cause_class};
}

}  // namespace

FuzzedKernel OpenFuzzedKernel(const std::string& name, const attest_kernel_table* table,
                              const std::vector<std::pair<std::string, std::string>>& options) {
  auto kernel = DirectKernel::Create(table, options);
  if (!kernel) Die(fmt::format("{}: {}", name, kernel.error()));
  auto contract = ParseContract(kernel->Contract());
  if (!contract) Die(fmt::format("{}: {}", name, contract.error()));
  return {name, std::move(*kernel), std::move(*contract)};
}

Verdict JudgeInProcess(const Property& property, const Case& c, const FuzzedKernel& kernel) {
  Verdict verdict;
  if (!property.unsupported(kernel.contract).empty()) return verdict;
  const Derived derived = property.derive(c, kernel.contract);
  // One kernel in this process, with one thread, computes one call at a time.
  if (!derived.not_applicable.empty() || !derived.settings.empty()) return verdict;
  std::vector<Outcome> outcomes;
  for (const Case& one : derived.cases) {
    outcomes.push_back(OutcomeOf(one, kernel.kernel));
    if (outcomes.back().status == OutcomeStatus::kComputed) continue;
    verdict.kind = VerdictKind::kFail;
    verdict.cause = Cause::kRefused;
    verdict.sentence = outcomes.back().reason;
    return verdict;
  }
  Oracle oracle(derived.cases, kernel.contract);
  return property.judge({kernel.contract, derived.cases, outcomes, oracle});
}

void FuzzCase(const Property& property, const Case& c, const FuzzedKernel& kernel) {
  const Verdict verdict = JudgeInProcess(property, c, kernel);
  if (verdict.kind != VerdictKind::kFail) return;
  const Signature signature = SignatureOf(property, verdict);
  const std::filesystem::path path = FindingsFolder() / FileNameOf(kernel.name, signature);
  if (std::filesystem::exists(path)) return;

  const ShrinkResult shrunk = Shrink(c, [&](const Case& smaller) {
    const Verdict v = JudgeInProcess(property, smaller, kernel);
    return v.kind == VerdictKind::kFail && SignatureOf(property, v) == signature;
  });
  const std::string sentence = JudgeInProcess(property, shrunk.smallest, kernel).sentence;
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  std::ofstream file(path);
  file << ToToml({shrunk.smallest, std::string(property.id), kernel.name, sentence});
  file.close();
  if (!file)
    Die(fmt::format("cannot write {}: set ATTEST_FINDINGS to a writable folder", path.string()));
  fmt::print(stderr, "\n{} fails on {}: {}\nreplay: attest replay {} '{}'\n", ToString(signature),
             kernel.name, sentence, path.string(), kernel.name);
  std::abort();
}

}  // namespace attest
