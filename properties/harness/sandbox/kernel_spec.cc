// Names of kernels on the command line, and where programs and plug-ins are found.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "properties/harness/sandbox/installation.h"
#include "properties/harness/sandbox/session.h"

namespace attest {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "attest_kernel_";
constexpr std::string_view kSuffix = ".so";

fs::path ProgramFolder() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::path() : self.parent_path();
}

// "key=value&key=value" appended to `options`; the error names the piece that is neither.
tl::expected<void, std::string> ParseOptions(
    std::string_view text, std::vector<std::pair<std::string, std::string>>* options) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('&'), text.size());
    const std::string_view piece = text.substr(0, end);
    const size_t equals = piece.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return tl::unexpected(
          fmt::format("'{}' is no create option; write ?key=value&key=value", piece));
    }
    options->emplace_back(piece.substr(0, equals), piece.substr(equals + 1));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {};
}

tl::expected<std::string, std::string> FindLibrary(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (!fs::exists(name)) {
      return tl::unexpected(fmt::format("{}: no such file; build the plug-in first", name));
    }
    return fs::absolute(name).string();
  }
  const fs::path path = KernelFolder() / fmt::format("{}{}{}", kPrefix, name, kSuffix);
  if (!name.empty() && fs::exists(path)) return path.string();
  return tl::unexpected(
      fmt::format("unknown kernel '{}'; installed: {} (a path needs a slash: ./{})", name,
                  fmt::join(InstalledKernels(), ", "), name));
}

}  // namespace

fs::path KernelFolder() {
  if (const char* folder = std::getenv("ATTEST_KERNELS_DIR")) return folder;
  return ProgramFolder().parent_path() / "kernels";
}

fs::path WorkerProgram() {
  if (const char* program = std::getenv("ATTEST_WORKER")) return program;
  return ProgramFolder() / "attest_worker";
}

tl::expected<KernelSpec, std::string> ResolveKernel(std::string_view text) {
  KernelSpec spec;
  spec.text = text;
  const size_t query = text.find('?');
  std::string_view head = text.substr(0, query);
  const size_t slash = head.rfind('/');
  const size_t colon = head.find(':', slash == std::string_view::npos ? 0 : slash);
  if (colon != std::string_view::npos) {
    if (colon + 1 == head.size()) {
      return tl::unexpected(fmt::format("'{}' names no variant after the colon", text));
    }
    spec.options.emplace_back("variant", head.substr(colon + 1));
    head = head.substr(0, colon);
  }
  if (query != std::string_view::npos) {
    if (auto parsed = ParseOptions(text.substr(query + 1), &spec.options); !parsed) {
      return tl::unexpected(parsed.error());
    }
  }
  auto library = FindLibrary(std::string(head));
  if (!library) return tl::unexpected(library.error());
  spec.library = std::move(*library);
  return spec;
}

std::vector<std::string> InstalledKernels() {
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(KernelFolder(), error)) {
    const std::string file = entry.path().filename().string();
    if (file.starts_with(kPrefix) && file.ends_with(kSuffix)) {
      names.push_back(file.substr(kPrefix.size(), file.size() - kPrefix.size() - kSuffix.size()));
    }
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace attest
