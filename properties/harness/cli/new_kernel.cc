// attest new-kernel: writes a plug-in that passes, with the place for the user's own kernel marked.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <tl/expected.hpp>

#include "new_kernel_templates.h"
#include "properties/harness/cli/commands.h"
#include "properties/harness/cli/console.h"
#include "properties/harness/report/finding_text.h"
#include "properties/harness/report/output_file.h"
#include "properties/harness/report/terminal.h"
#include "properties/harness/sandbox/file_descriptor.h"
#include "properties/harness/sandbox/locate.h"

namespace attest {
namespace {

namespace fs = std::filesystem;

// The name that the templates bear; every occurrence becomes the user's.
constexpr std::string_view kTemplateName = "minimal";
constexpr size_t kLongestName = 64;

struct Language {
  std::string_view name, extension, text;
  // How the file becomes a library: {0} the file, {1} the library, {2} the folder of headers, {3} that of
  // the library for C++. Empty: it is checked as it is.
  std::string_view build;
  std::string_view prefix;  // of the kernel's name where the file itself is checked
};

constexpr std::array<Language, 4> kLanguages = {{
    {"c", ".c", kMinimalC, "cc -std=c99 -O2 -shared -fPIC -I {2} {0} -o {1} -lm", ""},
    {"cpp", ".cc", kMinimalCpp,
     "c++ -std=c++20 -O2 -shared -fPIC -I {2} {0} {3}/libattest_call_view.a -lfmt -o {1}", ""},
    {"python", ".py", kMinimalPython, "", "python:"},
    {"node", ".mjs", kMinimalNode, "", "node:"},
}};

struct NewKernelArguments {
  std::string name;
  std::string language;
  std::string folder = ".";
};

bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool IsGoodName(const std::string& name) {
  const auto is_good = [](char c) {
    return IsLetter(c) || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= kLongestName && IsLetter(name[0]) &&
         std::all_of(name.begin(), name.end(), is_good);
}

std::string WithName(std::string_view text, const std::string& name) {
  std::string named;
  for (size_t at; (at = text.find(kTemplateName)) != text.npos;) {
    named.append(text.substr(0, at)).append(name);
    text.remove_prefix(at + kTemplateName.size());
  }
  return named.append(text);
}

// Writes a file that is not there yet; half a file is removed again. Complains where it cannot.
ExitStatus WriteNew(const fs::path& path, std::string_view text) {
  const auto refuse = [&](ExitStatus status, const char* what) {
    Complain(status, fmt::format("{}: {}", path.string(), what));
    return status;
  };
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file.valid() && errno == EEXIST)
    return refuse(kExitUsage, "is there already, and nothing is overwritten: choose another name");
  if (!file.valid()) {
    Complain(kExitUsage, CannotWrite(path.string(), errno));
    return kExitUsage;
  }
  while (!text.empty()) {
    const ssize_t written = ::write(file.get(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int error = errno;
      ::unlink(path.c_str());
      return refuse(kExitHarness, std::strerror(error));
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
  return kExitPass;
}

// The commands that build and check what was written, one a line.
std::string Commands(const std::string& program, const Language& language,
                     const NewKernelArguments& arguments, const fs::path& file) {
  std::string checked = fmt::format("{}{}", language.prefix, file.string());
  std::string build;
  if (!language.build.empty()) {
    checked = (fs::path(arguments.folder) / fmt::format("lib{}.so", arguments.name)).string();
    const fs::path root = ProgramFolder().parent_path();
    build =
        fmt::format(fmt::runtime("  " + std::string(language.build) + "\n"),
                    ShellQuote(file.string()), ShellQuote(checked),
                    ShellQuote((root / "include").string()), ShellQuote((root / "lib").string()));
  }
  return fmt::format("{}  {} check {}\n", build, ShellQuote(program), ShellQuote(checked));
}

int RunNewKernel(const std::string& program, const NewKernelArguments& arguments) {
  if (!IsGoodName(arguments.name)) {
    return Complain(
        kExitUsage,
        fmt::format("new-kernel {}: no name for a kernel: write a letter, then up to {} letters, "
                    "digits, _ and -",
                    arguments.name, kLongestName - 1));
  }
  if (arguments.folder.find('?') != std::string::npos) {
    return Complain(kExitUsage, fmt::format("-o {}: a folder with a '?' cannot be named to attest "
                                            "check: choose another",
                                            arguments.folder));
  }
  const auto language =
      std::find_if(kLanguages.begin(), kLanguages.end(),
                   [&](const Language& known) { return known.name == arguments.language; });
  std::error_code error;
  fs::create_directories(arguments.folder, error);
  const fs::path file =
      fs::path(arguments.folder) / fmt::format("{}{}", arguments.name, language->extension);
  const ExitStatus status = WriteNew(file, WithName(language->text, arguments.name));
  if (status != kExitPass) return status;
  Print(Printable(
      fmt::format("{}: a kernel that passes; put yours where it says YOUR KERNEL, and its "
                  "promises into the contract above it.\n\n{}",
                  file.string(), Commands(program, *language, arguments, file))));
  return kExitPass;
}

}  // namespace

void AddNewKernel(CLI::App& app, CommandLine& line) {
  auto arguments = std::make_shared<NewKernelArguments>();
  CLI::App* command = app.add_subcommand(
      "new-kernel", "Write a plug-in that passes, with the place for your kernel marked");
  command->add_option("NAME", arguments->name, "Of the kernel and its file")->required();
  command->add_option("--lang", arguments->language, "c, cpp, python or node")
      ->required()
      ->check(CLI::IsMember({"c", "cpp", "python", "node"}));
  command->add_option("-o", arguments->folder, "The folder to write to; it is made where absent")
      ->capture_default_str();
  command->callback([arguments, &line] {
    line.run = [arguments, program = line.program] { return RunNewKernel(program, *arguments); };
  });
}

}  // namespace attest
