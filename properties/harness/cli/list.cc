// attest list: what there is, by id, with one line on each; and how two contracts differ.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "impl/attention/contract.h"
#include "impl/attention/contract_json.h"
#include "impl/mutants/hostile.h"
#include "impl/mutants/mutants.h"
#include "impl/transformer/faults.h"
#include "properties/harness/cli/commands.h"
#include "properties/harness/cli/console.h"
#include "properties/harness/cli/open_kernel.h"
#include "properties/harness/cli/open_model.h"
#include "properties/harness/report/terminal.h"
#include "properties/harness/sandbox/session.h"
#include "properties/property.h"
#include "properties/transformer/model_properties.h"

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

void ListModelProperties() {
  Print("properties of models:\n");
  for (const ModelProperty& property : AllModelProperties()) {
    Print(fmt::format("  {}{}\n      {}\n", property.id,
                      property.needs.empty() ? "" : fmt::format(" (needs {})", property.needs),
                      property.claim));
  }
}

void ListContracts() {
  Print("contracts:\n");
  for (const NamedContract& contract : NamedContracts()) {
    Print(fmt::format("  {:<23} {}\n", contract.name, contract.source));
  }
}

// The create options that a contract declares, as they follow a kernel's name: "?opset=23|24&past=off|on".
std::string OptionsOf(const Contract& contract) {
  std::vector<std::string> options;
  for (const auto& [option, values] : contract.options) {
    if (option == "variant") continue;
    options.push_back(fmt::format("{}={}", option, fmt::join(values, "|")));
  }
  return options.empty() ? "" : fmt::format("?{}", fmt::join(options, "&"));
}

// How a kernel is named with its variants and create options, as its contract declares them. Each variant
// has a contract of its own; a kernel that is none of them is one more.
std::string FormsOf(const std::string& kernel) {
  if (kernel == "mutant") return "mutant:ID for each of 'attest list mutants', mutant:blocked";
  if (kernel == "hostile") return "hostile:ID for each of 'attest list hostile'";
  if (kernel == "model-mutant") return "model-mutant:ID for each of 'attest list model-mutants'";
  const auto opened = OpenKernel(kernel);
  if (!opened && OpenModel(kernel)) return "a model: see 'attest list models'";
  if (!opened) return "cannot be used here: " + PrintableLine(opened.error().text);
  const std::string own = OptionsOf(opened->contract);
  const auto variants = opened->contract.options.find("variant");
  if (variants == opened->contract.options.end()) return own;
  std::vector<std::string> forms;
  bool is_one_of_them = own.empty();
  for (const std::string& value : variants->second) {
    const std::string name = fmt::format("{}:{}", kernel, value);
    const auto variant = OpenKernel(name);
    forms.push_back(name + (variant ? OptionsOf(variant->contract) : ""));
    is_one_of_them = is_one_of_them || forms.back() == name + own;
  }
  if (!is_one_of_them) forms.insert(forms.begin(), own);
  return fmt::format("{}", fmt::join(forms, ", "));
}

void ListKernels() {
  Print("kernels:\n");
  for (const std::string& kernel : InstalledKernels()) {
    std::string line = fmt::format("  {:<12} {}", kernel, FormsOf(kernel));
    line.erase(line.find_last_not_of(' ') + 1);
    Print(line + "\n");
  }
}

void ListHostile() {
  Print("hostile kernels:\n");
  for (const Misdeed& misdeed : Misdeeds()) {
    Print(fmt::format("  hostile:{:<20} {}\n", misdeed.id, misdeed.does));
  }
}

void ListMutants() {
  Print("mutants:\n");
  for (const Mutant& mutant : Mutants()) {
    Print(fmt::format("  mutant:{:<30} {:<8}{}{}\n", mutant.id, mutant.kind, mutant.does,
                      mutant.report.empty() ? "" : fmt::format(" ({})", mutant.report)));
  }
}

void ListModels() {
  Print("models:\n");
  for (const transformer::Variant& variant : transformer::Variants()) {
    Print(fmt::format("  model:{:<16} {}\n", variant.id, variant.is));
  }
  Print("  model-mutant:ID        each of 'attest list model-mutants'\n");
}

void ListModelMutants() {
  Print("mutants of models:\n");
  for (const transformer::Mutant& mutant : transformer::Mutants()) {
    Print(fmt::format("  model-mutant:{:<32} {}{}\n", mutant.id, mutant.does,
                      mutant.report.empty() ? "" : fmt::format(" ({})", mutant.report)));
  }
}

// One line of the comparison: a field, or nothing below the first line of a set, and its sides.
struct DiffRow {
  std::string field, a, b;
};

std::vector<DiffRow> RowsOf(const Contract& a, const Contract& b) {
  std::vector<DiffRow> rows;
  for (const ContractDifference& d : DifferencesOf(a, b)) {
    std::string field = d.field;
    const auto add = [&](std::string of_a, std::string of_b) {
      rows.push_back({std::exchange(field, ""), std::move(of_a), std::move(of_b)});
    };
    for (const std::string& member : d.only_a) add("- " + member, "");
    for (const std::string& member : d.only_b) add("", "+ " + member);
    if (d.only_a.empty() && d.only_b.empty()) add(d.a, d.b);
  }
  return rows;
}

int PrintDifferences(const std::vector<std::string>& names) {
  std::vector<Contract> contracts;
  for (const std::string& name : names) {
    auto contract = PublishedContract(name);
    if (!contract) {
      std::vector<std::string_view> known;
      for (const NamedContract& named : NamedContracts()) known.push_back(named.name);
      return Complain(kExitUsage, fmt::format("--diff {}: no such contract: choose two of {}", name,
                                              fmt::join(known, ", ")));
    }
    contracts.push_back(std::move(*contract));
  }
  std::vector<DiffRow> rows = RowsOf(contracts[0], contracts[1]);
  rows.insert(rows.begin(), {"", names[0], names[1]});
  size_t field = 0, left = 0;
  for (const DiffRow& row : rows) {
    field = std::max(field, row.field.size());
    left = std::max(left, row.a.size());
  }
  for (const DiffRow& row : rows) {
    std::string line = fmt::format("{:<{}}  {:<{}}  {}", row.field, field, row.a, left, row.b);
    line.erase(line.find_last_not_of(' ') + 1);
    Print(line + "\n");
  }
  if (rows.size() == 1) Print("no difference\n");
  return kExitPass;
}

struct ListArguments {
  std::string what;
  std::vector<std::string> diff;
};

int List(const ListArguments& arguments) {
  const std::string& what = arguments.what;
  if (!arguments.diff.empty()) {
    if (what == "contracts") return PrintDifferences(arguments.diff);
    return Complain(kExitUsage, "--diff compares contracts: attest list contracts --diff A B");
  }
  const auto is_wanted = [&](const char* kind) { return what.empty() || what == kind; };
  if (is_wanted("properties")) ListProperties();
  if (is_wanted("model-properties")) ListModelProperties();
  if (is_wanted("contracts")) ListContracts();
  if (is_wanted("kernels")) ListKernels();
  if (is_wanted("models")) ListModels();
  if (is_wanted("mutants")) ListMutants();
  if (is_wanted("model-mutants")) ListModelMutants();
  if (is_wanted("hostile")) ListHostile();
  return kExitPass;
}

}  // namespace

void AddList(CLI::App& app, CommandLine& line) {
  auto arguments = std::make_shared<ListArguments>();
  CLI::App* command = app.add_subcommand(
      "list", "Show properties, contracts, kernels, models, mutants and hostile kernels");
  command
      ->add_option("WHAT", arguments->what,
                   "Only these: properties, model-properties, contracts, kernels, models, mutants, "
                   "model-mutants or hostile")
      ->check(CLI::IsMember({"properties", "model-properties", "contracts", "kernels", "models",
                             "mutants", "model-mutants", "hostile"}));
  command->add_option("--diff", arguments->diff, "How two contracts differ, field by field")
      ->expected(2)
      ->type_name("A B");
  command->callback([arguments, &line] { line.run = [arguments] { return List(*arguments); }; });
}

}  // namespace attest
