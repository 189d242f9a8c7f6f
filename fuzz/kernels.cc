#include "fuzz/kernels.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "fuzz/in_process.h"
#include "impl/mutants/plain.h"
#include "impl/reference/plugin/reference_kernel.h"
#include "impl/tiled/tiled.h"

namespace attest {
namespace {

// nullptr where the name is not that of a kernel that is linked in.
const attest_kernel_table* LinkedTable(std::string_view text) {
  const std::string_view head = text.substr(0, text.find_first_of(":?"));
  if (head == "tiled") return TiledKernelTable();
  if (head == "reference") return ReferenceKernelTable();
  if (head == "mutant") return MutantKernelTable();
  return nullptr;
}

bool IsIsolated() {
  const char* isolate = std::getenv("ATTEST_FUZZ_ISOLATE");
  return isolate != nullptr && std::string_view(isolate) == "1";
}

FuzzedKernel OpenIsolated(const std::string& name) {
  const auto spec = ResolveKernel(name);
  if (!spec) GiveUp(spec.error());
  auto session = KernelSession::Open(*spec);
  if (!session) GiveUp(session.error());
  const auto contract = ContractOf((*session)->identity());
  if (!contract) GiveUp(fmt::format("{}: malformed contract: {}", name, contract.error()));
  FuzzedKernel kernel{name, *contract, std::move(*session), nullptr};
  kernel.runner = std::make_unique<SessionRunner>(*kernel.session);
  return kernel;
}

FuzzedKernel OpenPlugin(const std::string& name, const Plugin& plugin) {
  auto runner = InProcessRunner::Create(plugin);
  if (!runner) GiveUp(runner.error());
  auto contract = ParseContract(plugin.contract);
  if (!contract) GiveUp(fmt::format("{}: malformed contract: {}", name, contract.error()));
  contract->far_strides = contract->far_strides && SlotMap::CanMapViews();
  return {name, std::move(*contract), nullptr, std::move(*runner)};
}

FuzzedKernel OpenLinked(const std::string& name, const attest_kernel_table* table) {
  const auto spec = ResolveKernel("./" + name);  // as a path: it need not be installed
  if (!spec) GiveUp(spec.error());
  const auto plugin = MakePlugin(table, spec->options, /*threads=*/1);
  if (!plugin) GiveUp(fmt::format("{}: {}", name, plugin.error()));
  return OpenPlugin(name, *plugin);
}

FuzzedKernel OpenKernel(const std::string& name) {
  if (IsIsolated()) return OpenIsolated(name);
  if (const attest_kernel_table* table = LinkedTable(name)) return OpenLinked(name, table);
  const auto spec = ResolveKernel(name);
  if (!spec) GiveUp(spec.error());
  if (!spec->worker.empty()) return OpenIsolated(name);
  const auto plugin = LoadPlugin(spec->library, spec->options, /*threads=*/1);
  if (plugin) return OpenPlugin(name, *plugin);
  fmt::print(stderr, "fuzz: {}; it runs in a worker, without coverage\n", plugin.error());
  return OpenIsolated(name);
}

}  // namespace

std::vector<FuzzedKernel> OpenKernels(const std::vector<std::string>& usual) {
  std::vector<FuzzedKernel> kernels;
  if (const char* name = std::getenv("ATTEST_FUZZ_KERNEL"); name != nullptr && *name != '\0') {
    kernels.push_back(OpenKernel(name));
    return kernels;
  }
  for (const std::string& name : usual) kernels.push_back(OpenKernel(name));
  return kernels;
}

void GiveUp(std::string_view message) {
  fmt::print(stderr, "fuzz: {}\n", message);
  std::_Exit(3);
}

}  // namespace attest
