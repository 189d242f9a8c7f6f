#include "properties/harness/cli/case_target.h"

#include <fstream>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "properties/harness/cli/arguments.h"

namespace attest {

std::string ContentOf(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string WhoNamed(const std::string& path) {
  return fmt::format(
      " (so {} names it, as seen from where it was run; go there, or give it after the file)",
      path);
}

tl::expected<CaseTarget, OpenError> OpenCaseTarget(const std::string& path,
                                                   const std::string& property,
                                                   const std::string& kernel,
                                                   const OpenKernelOptions& options) {
  auto file = ReadCaseFile(path);
  const auto refuse = [](std::string error) {
    return tl::unexpected(OpenError{kExitUsage, std::move(error)});
  };
  if (!file) return refuse(file.error());
  const std::string id =
      property.empty() ? file->property.value_or("equivalence.matches_reference") : property;
  const auto named = PropertyNamed(id);
  if (!named) {
    return refuse(property.empty() ? fmt::format("{}: {}", path, named.error())
                                   : "--property " + named.error());
  }
  const std::string text = kernel.empty() ? file->kernel.value_or("") : kernel;
  if (text.empty()) {
    return refuse(fmt::format("{}: names no kernel: give one after the file", path));
  }
  auto opened = OpenKernel(text, options);
  if (!opened) {
    OpenError error = opened.error();
    if (kernel.empty()) error.text += WhoNamed(path);
    return tl::unexpected(std::move(error));
  }
  return CaseTarget{std::move(*file), *named, text, std::move(*opened)};
}

}  // namespace attest
