#include "properties/bench/peers/peers.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>

#include <fmt/format.h>

#include "impl/mutants/mutants.h"
#include "impl/mutants/plain.h"
#include "properties/bench/oracle_tables.h"
#include "properties/bench/peers/run.h"
#include "properties/bench/peers/suites.h"

namespace attest {
namespace {

// Three, so that the rows of few calls divide evenly: suites run on as many as the machine has.
constexpr int kThreads = 3;

constexpr std::string_view kAttest = "attest";

// The correct kernels that the faults live in, by variant.
constexpr std::array<std::string_view, 2> kCorrect = {"", "blocked"};

struct SuiteEntry {
  std::string_view name;
  PeerSuite (*make)();
};
constexpr SuiteEntry kSuites[] = {
    {"hand-written", HandwrittenSuite}, {"ONNX", OnnxSuite},
    {"PyTorch", PytorchSuite},          {"llama.cpp", LlamaCppSuite},
    {"FlashInfer", FlashInferSuite},    {"FlashAttention", FlashAttentionSuite},
};

// CPU time of this process.
double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

DirectKernel Open(std::string_view variant) {
  std::vector<std::pair<std::string, std::string>> options;
  if (!variant.empty()) options.emplace_back("variant", variant);
  auto kernel = DirectKernel::Create(MutantKernelTable(), options, kThreads);
  if (!kernel) throw std::runtime_error(kernel.error());
  return std::move(*kernel);
}

// What came of a suite.
struct Outcome {
  std::string name, published;
  int64_t cases = 0, points = 0, values_missing = 0;
  std::vector<bool> kills;              // by mutant
  std::vector<size_t> failing_correct;  // cases that a correct kernel fails
  double one_kernel = 0;                // CPU seconds: data, references and one kernel
  double all = 0;                       // and all mutants, each until it is killed
};

// The suites are of forward passes alone.
const std::vector<Mutant>& ForwardMutants() {
  static const std::vector<Mutant> kForward = [] {
    std::vector<Mutant> forward(Mutants().begin(), Mutants().end());
    std::erase_if(forward, std::mem_fn(&Mutant::is_of_backward));
    return forward;
  }();
  return kForward;
}

class SuiteRun {
 public:
  explicit SuiteRun(const PeerSuite& suite) : suite_(suite) {
    for (const std::string_view variant : kCorrect) correct_.push_back(Open(variant));
    for (const Mutant& mutant : ForwardMutants()) mutants_.push_back(Open(mutant.id));
  }

  Outcome Run() {
    const double start = CpuSeconds();
    Outcome outcome;
    outcome.kills.assign(mutants_.size(), false);
    for (size_t n = 0; n < suite_.cases.size(); ++n) {
      ShowProgress(suite_.name.c_str(), static_cast<int64_t>(n),
                   static_cast<int64_t>(suite_.cases.size()));
      RunCase(n, outcome);
    }
    ShowProgress(suite_.name.c_str(), 1, 1);
    outcome.all = CpuSeconds() - start;
    return outcome;
  }

 private:
  void RunCase(size_t n, Outcome& outcome) {
    const double start = CpuSeconds();
    const PreparedCase prepared(suite_.cases[n]);
    bool passes = prepared.Passes(correct_[0]);
    outcome.one_kernel += CpuSeconds() - start;
    passes = passes && prepared.Passes(correct_[1]);
    if (!passes) outcome.failing_correct.push_back(n);
    for (size_t m = 0; passes && m < mutants_.size(); ++m) {
      if (!outcome.kills[m]) outcome.kills[m] = !prepared.Passes(mutants_[m]);
    }
  }

  const PeerSuite& suite_;
  std::vector<DirectKernel> correct_;
  std::vector<DirectKernel> mutants_;
};

Outcome RunSuite(const SuiteEntry& entry, const PeersOptions& options) {
  PeerSuite suite = entry.make();
  if (options.cases > 0 && static_cast<int64_t>(suite.cases.size()) > options.cases) {
    suite.cases.resize(static_cast<size_t>(options.cases));
  }
  for (const PeerCase& c : suite.cases) {
    if (const auto error = Validate(c.problem))
      throw std::runtime_error(suite.name + ": " + *error);
  }
  Outcome outcome = SuiteRun(suite).Run();
  outcome.name = suite.name;
  outcome.published = suite.published;
  outcome.points = suite.points;
  outcome.values_missing = suite.values_missing;
  outcome.cases = static_cast<int64_t>(suite.cases.size());
  // A suite that fails what is right shows nothing by failing the rest.
  if (!outcome.failing_correct.empty()) outcome.kills.assign(outcome.kills.size(), false);
  return outcome;
}

// attest's own column, from the mutation gate's record. nullopt where a mutant has none.
std::optional<Outcome> ReadKills(const std::filesystem::path& folder) {
  Outcome outcome;
  outcome.name = kAttest;
  for (const Mutant& mutant : ForwardMutants()) {
    std::ifstream file(folder / mutant.id);
    if (!file) {
      fmt::print(stderr,
                 "attest_bench: {}: there is no record of {}; ctest -R Mutants leaves one\n",
                 folder.string(), mutant.id);
      return std::nullopt;
    }
    std::string property;
    outcome.kills.push_back(static_cast<bool>(std::getline(file, property)));
  }
  return outcome;
}

void PrintSummary(const std::vector<Outcome>& outcomes) {
  fmt::print(
      "{} mutants before suites that are in use, re-created. Cases: run here, "
      "of "
      "the points of\nthe grids written here, of what the project itself has. CPU seconds: of one "
      "kernel with its references, and of\nall mutants, each until it is killed.\n\n",
      ForwardMutants().size());
  fmt::print("{:16} {:>6} {:>8} {:>10} {:>9} {:>8} {:>8}\n", "suite", "cases", "of", "published",
             "killed", "CPU s", "all");
  for (const Outcome& o : outcomes) {
    const auto killed = std::count(o.kills.begin(), o.kills.end(), true);
    if (o.name == kAttest) {
      fmt::print("{:16} {:>6} {:>8} {:>10} {:>9}\n", o.name, "", "", "",
                 fmt::format("{}/{}", killed, o.kills.size()));
      continue;
    }
    fmt::print("{:16} {:>6} {:>8} {:>10} {:>9} {:>8.1f} {:>8.1f}\n", o.name, o.cases, o.points,
               o.published, fmt::format("{}/{}", killed, o.kills.size()), o.one_kernel, o.all);
  }
  fmt::print("\n");
  for (const Outcome& o : outcomes) {
    if (o.values_missing > 0) {
      fmt::print("{}: {} values of its axes are in no case, being too dear\n", o.name,
                 o.values_missing);
    }
    if (o.failing_correct.empty()) continue;
    fmt::print("{}: FAILS A CORRECT KERNEL in {} cases (the first is number {}), kills nothing\n",
               o.name, o.failing_correct.size(), o.failing_correct[0]);
  }
}

void PrintMatrix(const std::vector<Outcome>& outcomes) {
  fmt::print("\n{:32}", "K: killed");
  for (const Outcome& o : outcomes) fmt::print(" {:>14}", o.name);
  fmt::print("\n");
  for (size_t m = 0; m < ForwardMutants().size(); ++m) {
    fmt::print("{:32}", ForwardMutants()[m].id);
    for (const Outcome& o : outcomes) fmt::print(" {:>14}", o.kills[m] ? 'K' : '.');
    fmt::print("\n");
  }
}

// Those that no suite kills, or attest alone where its column is there.
void PrintUnkilled(const std::vector<Outcome>& outcomes) {
  std::string only_attest, nobody;
  for (size_t m = 0; m < ForwardMutants().size(); ++m) {
    const auto kills = std::ranges::count_if(
        outcomes, [&](const Outcome& o) { return o.kills[m] && o.name != kAttest; });
    if (kills > 0) continue;
    const bool has_attest = outcomes.back().name == kAttest && outcomes.back().kills[m];
    (has_attest ? only_attest : nobody) += fmt::format("  {}\n", ForwardMutants()[m].id);
  }
  if (!only_attest.empty()) fmt::print("\nKilled by attest alone:\n{}", only_attest);
  if (!nobody.empty()) fmt::print("\nKilled by none of these:\n{}", nobody);
}

}  // namespace

std::vector<std::string> PeerSuiteNames() {
  std::vector<std::string> names;
  for (const SuiteEntry& entry : kSuites) names.emplace_back(entry.name);
  return names;
}

bool PrintPeers(const PeersOptions& options) {
  std::vector<Outcome> outcomes;
  std::optional<Outcome> own;
  if (!options.kills.empty()) {
    own = ReadKills(options.kills);
    if (!own) return false;
  }
  for (const SuiteEntry& entry : kSuites) {
    if (!options.suite.empty() && options.suite != entry.name) continue;
    outcomes.push_back(RunSuite(entry, options));
  }
  const bool holds =
      std::ranges::all_of(outcomes, [](const Outcome& o) { return o.failing_correct.empty(); });
  if (own) outcomes.push_back(std::move(*own));
  PrintSummary(outcomes);
  PrintMatrix(outcomes);
  PrintUnkilled(outcomes);
  return holds;
}

}  // namespace attest
