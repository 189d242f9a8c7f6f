// attest_bench: prints the figures that the oracle's claims rest on.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <string>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "properties/bench/harness.h"
#include "properties/bench/kernels.h"
#include "properties/bench/oracle_tables.h"
#include "properties/bench/peers/peers.h"
#include "properties/bench/surface.h"
#include "properties/bench/workers.h"
#include "properties/harness/case/random.h"

namespace attest {

uint64_t SeedOf(const OracleOptions& options, Stream stream, int64_t number) {
  const uint64_t seed = MixIn(options.seed, static_cast<uint64_t>(stream));
  return MixIn(seed, static_cast<uint64_t>(number));
}

void ShowProgress(const char* what, int64_t done, int64_t all) {
  static const bool kIsTerminal = isatty(STDERR_FILENO) != 0;
  if (!kIsTerminal) return;
  if (done >= all) {
    fmt::print(stderr, "\r{:50}\r", "");
  } else {
    fmt::print(stderr, "\r{}: {} of {}", what, done, all);
  }
}

namespace {

bool PrintTables(const OracleOptions& options, const std::string& table) {
  const auto wanted = [&](const char* name) { return table.empty() || table == name; };
  bool holds = true;
  if (wanted("soundness") || wanted("tightness")) {
    holds &= PrintSoundness(options, wanted("soundness"), wanted("tightness"));
  }
  if (wanted("detection")) holds &= PrintDetection(options);
  if (wanted("search")) holds &= PrintSearch(options);
  if (wanted("cost")) holds &= PrintCost(options);
  return holds;
}

int RunOracle(OracleOptions options, const std::string& table) {
  if (options.small) options.rows = 40000;
  const auto start = std::chrono::steady_clock::now();
  const bool holds = PrintTables(options, table);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  fmt::print("{} in {:.0f} s\n", holds ? "The oracle holds" : "THE ORACLE DOES NOT HOLD",
             took.count());
  return holds ? 0 : 1;
}

}  // namespace
}  // namespace attest

int main(int argc, char** argv) {
  CLI::App app{"Prints the figures that attest's claims rest on."};
  app.require_subcommand(1);
  auto* oracle = app.add_subcommand(
      "oracle",
      "Correct and faulty emulated kernels against the error bound; exit 1 where the "
      "bound rejects a correct one");
  attest::OracleOptions options;
  std::string table;
  auto* rows = oracle->add_option("--rows", options.rows, "Row checks of the soundness table")
                   ->check(CLI::PositiveNumber)
                   ->capture_default_str();
  oracle->add_option("--seed", options.seed, "Draws other problems")->capture_default_str();
  oracle->add_option("--table", table, "One table only")
      ->check(CLI::IsMember({"soundness", "tightness", "detection", "search", "cost"}));
  oracle->add_flag("--small", options.small, "A small version of every table, for CI")
      ->excludes(rows);
  auto* surface = app.add_subcommand(
      "surface",
      "Which property exercises which feature; exit 1 where a property or a feature is left out");
  attest::SurfaceOptions surface_options;
  surface->add_option("--cases", surface_options.cases, "Cases drawn for each property")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  surface->add_option("--seed", surface_options.seed, "Draws other cases")->capture_default_str();
  auto* workers = app.add_subcommand(
      "workers", "Calls a second through the worker of each language; exit 1 where one fails");
  attest::WorkersOptions workers_options;
  workers->add_option("--seconds", workers_options.seconds, "Measured for each worker")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  auto* harness = app.add_subcommand(
      "harness",
      "What a case costs, stage by stage, and cases a second without and with the worker");
  attest::HarnessOptions harness_options;
  harness->add_option("--cases", harness_options.cases, "Cases drawn for each property")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  harness->add_option("--seed", harness_options.seed, "Draws other cases")->capture_default_str();
  auto* peers = app.add_subcommand(
      "peers",
      "The mutants before the suites of other projects, re-created; exit 1 where one fails the "
      "correct kernel");
  attest::PeersOptions peers_options;
  peers->add_option("--suite", peers_options.suite, "One suite only")
      ->check(CLI::IsMember(attest::PeerSuiteNames()));
  peers
      ->add_option("--kills", peers_options.kills,
                   "The mutation gate's record, for attest's column")
      ->check(CLI::ExistingDirectory);
  peers->add_option("--cases", peers_options.cases, "The first so many of each suite")
      ->check(CLI::PositiveNumber);
  auto* kernels = app.add_subcommand("kernels",
                                     "How fast kernels are, beside the machine's peak, matrix "
                                     "products and each other; exit 1 where "
                                     "one of ours fails");
  attest::KernelsOptions kernels_options;
  kernels->add_option("--max-len", kernels_options.max_len, "Leaves longer shapes out")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  kernels->add_option("--threads", kernels_options.threads, "Thread counts, a table each")
      ->check(CLI::PositiveNumber)
      ->delimiter(',')
      ->capture_default_str();
  kernels->add_option("--dtypes", kernels_options.dtypes, "Element types, a table each")
      ->check(CLI::IsMember({"f32", "f16", "bf16"}))
      ->delimiter(',')
      ->capture_default_str();
  kernels->add_option("--seconds", kernels_options.seconds, "Of each measurement")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  kernels
      ->add_option("--repetitions", kernels_options.repetitions,
                   "Of each measurement; the best counts")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  try {
    app.parse(argc, argv);
    if (kernels->parsed()) return attest::PrintKernels(kernels_options) ? 0 : 1;
    if (peers->parsed()) return attest::PrintPeers(peers_options) ? 0 : 1;
    if (harness->parsed()) return attest::PrintHarness(harness_options) ? 0 : 1;
    if (workers->parsed()) return attest::PrintWorkers(workers_options) ? 0 : 1;
    if (surface->parsed()) return attest::PrintSurface(surface_options) ? 0 : 1;
    return attest::RunOracle(options, table);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 3;
  } catch (const std::exception& error) {
    fmt::print(stderr, "attest_bench: {}\n", error.what());
    return 4;
  }
}
