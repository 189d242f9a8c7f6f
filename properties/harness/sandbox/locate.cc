#include "properties/harness/sandbox/locate.h"

#include <cstdlib>
#include <system_error>

namespace attest {
namespace {

std::filesystem::path FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::filesystem::path ProgramFolder() {
  std::error_code ignored;  // an empty path then, which the caller's message shows
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
}

std::filesystem::path WorkerProgram() {
  auto chosen = FromEnvironment("ATTEST_WORKER");
  return chosen.empty() ? ProgramFolder() / "attest_worker" : chosen;
}

std::filesystem::path GuardProgram() {
  return ProgramFolder() / "attest_guard";
}

std::filesystem::path WorkerScript(std::string_view name) {
  auto chosen = FromEnvironment("ATTEST_WORKERS_DIR");
  return (chosen.empty() ? ProgramFolder().parent_path() / "workers" : chosen) / name;
}

std::filesystem::path KernelFolder() {
  auto chosen = FromEnvironment("ATTEST_KERNELS_DIR");
  return chosen.empty() ? ProgramFolder().parent_path() / "kernels" : chosen;
}

}  // namespace attest
