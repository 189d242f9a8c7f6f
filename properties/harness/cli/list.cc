// attest list: what there is, by id, with one line on each.

#include <algorithm>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "impl/attention/contract.h"
#include "impl/mutants/mutants.h"
#include "properties/harness/cli/commands.h"
#include "properties/harness/cli/console.h"
#include "properties/harness/sandbox/session.h"
#include "properties/property.h"

namespace attest {
namespace {

std::string_view NameOf(Exactness exactness) {
  switch (exactness) {
    case Exactness::kBitwise:
      return "bitwise";
    case Exactness::kBound:
      return "bound";
    case Exactness::kExact:
      return "exact";
  }
  return "?";
}

void ListProperties() {
  Print("properties:\n");
  for (const Property& property : AllProperties()) {
    Print(fmt::format("  {} ({}{}{})\n      {}\n", property.id, NameOf(property.exactness),
                      property.needs.empty() ? "" : "; needs ", property.needs, property.claim));
  }
}

void ListContracts() {
  Print("contracts:\n");
  for (const NamedContract& contract : NamedContracts()) {
    Print(fmt::format("  {:<22} {}\n", contract.name, contract.source));
  }
}

void ListKernels() {
  Print("kernels:\n");
  for (const std::string& kernel : InstalledKernels()) Print(fmt::format("  {}\n", kernel));
}

void ListMutants() {
  Print("mutants:\n");
  for (const Mutant& mutant : Mutants()) {
    Print(fmt::format("  mutant:{:<30} {}{}\n", mutant.id, mutant.does,
                      mutant.report.empty() ? "" : fmt::format(" ({})", mutant.report)));
  }
}

int List(const std::string& what) {
  const auto is_wanted = [&](const char* kind) { return what.empty() || what == kind; };
  if (is_wanted("properties")) ListProperties();
  if (is_wanted("contracts")) ListContracts();
  if (is_wanted("kernels")) ListKernels();
  if (is_wanted("mutants")) ListMutants();
  return kExitPass;
}

}  // namespace

void AddList(CLI::App& app, CommandLine& line) {
  auto what = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("list", "Show properties, contracts, kernels and mutants");
  command->add_option("WHAT", *what, "Only these: properties, contracts, kernels or mutants")
      ->check(CLI::IsMember({"properties", "contracts", "kernels", "mutants"}));
  command->callback([what, &line] { line.run = [what] { return List(*what); }; });
}

}  // namespace attest
