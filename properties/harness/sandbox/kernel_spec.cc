// How users name kernels: session.h describes the form.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "properties/harness/sandbox/locate.h"
#include "properties/harness/sandbox/session.h"

namespace attest {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "attest_kernel_";
constexpr std::string_view kSuffix = ".so";
constexpr std::string_view kVariant = "variant";

// The three parts of PATH_OR_NAME[:VARIANT][?OPTIONS]. A path may contain ':' before its last '/',
// and an option's value may contain anything but '&'.
struct Parts {
  std::string_view head;
  std::optional<std::string_view> variant, options;
};

Parts Split(std::string_view text) {
  Parts parts;
  if (const size_t question = text.find('?'); question != text.npos) {
    parts.options = text.substr(question + 1);
    text = text.substr(0, question);
  }
  const size_t slash = text.rfind('/');
  const size_t colon = text.find(':', slash == text.npos ? 0 : slash + 1);
  parts.head = text.substr(0, colon);
  if (colon != text.npos) parts.variant = text.substr(colon + 1);
  return parts;
}

// Appends the key=value pairs of `text`; the error is one phrase.
std::optional<std::string> ParseOptions(std::string_view text, KernelSpec* spec) {
  for (bool more = true; more;) {
    const size_t ampersand = text.find('&');
    const std::string_view pair = text.substr(0, ampersand);
    more = ampersand != text.npos;
    if (more) text = text.substr(ampersand + 1);
    const size_t equals = pair.find('=');
    if (equals == pair.npos || equals == 0) return fmt::format("'{}' is not key=value", pair);
    std::string key(pair.substr(0, equals));
    if (key == kVariant) return "write the variant as NAME:VARIANT";
    for (const auto& [known, value] : spec->options)
      if (known == key) return fmt::format("option '{}' is given twice", key);
    spec->options.emplace_back(std::move(key), pair.substr(equals + 1));
  }
  return std::nullopt;
}

// A language whose kernels are functions in a file, run by a worker script.
struct Language {
  std::string_view prefix, interpreter, variable, script;
  std::array<std::string_view, 2> suffixes;  // of its files
};
constexpr std::array<Language, 2> kLanguages = {
    {{"python:", "python3", "ATTEST_PYTHON", "attest_worker.py", {".py", ".pyw"}},
     {"node:", "node", "ATTEST_NODE", "attest_worker.mjs", {".mjs", ".js"}}}};

const Language* LanguageOf(std::string_view text) {
  for (const Language& language : kLanguages) {
    if (text.starts_with(language.prefix)) return &language;
  }
  return nullptr;
}

// The language whose file is named without saying so.
const Language* LanguageMeant(std::string_view head) {
  for (const Language& language : kLanguages)
    for (const std::string_view suffix : language.suffixes)
      if (head.ends_with(suffix)) return &language;
  return nullptr;
}

std::vector<std::string> WorkerOf(const Language& language) {
  const char* chosen = std::getenv(std::string(language.variable).c_str());
  return {chosen == nullptr ? std::string(language.interpreter) : chosen,
          WorkerScript(language.script).string()};
}

tl::expected<std::string, std::string> AbsolutePath(std::string_view head) {
  std::error_code error;
  const fs::path path = fs::absolute(head, error);
  if (error) return tl::unexpected(fmt::format("{}: {}", head, error.message()));
  return path.string();
}

tl::expected<std::string, std::string> LibraryOf(std::string_view head) {
  std::error_code error;
  if (head.find('/') != head.npos) return AbsolutePath(head);
  const fs::path path = KernelFolder() / fmt::format("{}{}{}", kPrefix, head, kSuffix);
  if (fs::exists(path, error)) return path.string();
  const std::vector<std::string> installed = InstalledKernels();
  const std::string known =
      installed.empty() ? fmt::format("no kernels are installed in {}", KernelFolder().string())
                        : fmt::format("installed: {}", fmt::join(installed, ", "));
  const char* hint = head.ends_with(kSuffix) ? "; write ./ before the name of a file" : "";
  return tl::unexpected(fmt::format("unknown kernel '{}'; {}{}", head, known, hint));
}

}  // namespace

tl::expected<KernelSpec, std::string> ResolveKernel(std::string_view text) {
  const auto refuse = [&](std::string_view why) {
    return tl::unexpected(fmt::format("kernel '{}': {}", text, why));
  };
  // A zero byte would cut the name short on its way through C interfaces.
  if (text.find('\0') != text.npos) return refuse("zero byte in the name");
  const Language* language = LanguageOf(text);
  const Parts parts = Split(language == nullptr ? text : text.substr(language->prefix.size()));
  if (parts.head.empty() || parts.head.back() == '/') return refuse("no name before the options");
  if (const Language* meant = LanguageMeant(parts.head); meant != nullptr && language == nullptr)
    return refuse(fmt::format("no shared library: write {}{}:FUNCTION", meant->prefix, parts.head));
  KernelSpec spec;
  spec.text = text;
  if (parts.variant) {
    if (parts.variant->empty()) return refuse("no variant after ':'");
    spec.options.emplace_back(kVariant, *parts.variant);
  }
  if (parts.options)
    if (const auto why = ParseOptions(*parts.options, &spec)) return refuse(*why);
  if (language != nullptr) spec.worker = WorkerOf(*language);
  auto library = language == nullptr ? LibraryOf(parts.head) : AbsolutePath(parts.head);
  if (!library) return tl::unexpected(library.error());
  spec.library = std::move(*library);
  return spec;
}

std::vector<std::string> InstalledKernels() {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(KernelFolder(), error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string file = entry->path().filename().string();
    if (file.size() > kPrefix.size() + kSuffix.size() && file.starts_with(kPrefix) &&
        file.ends_with(kSuffix))
      names.push_back(file.substr(kPrefix.size(), file.size() - kPrefix.size() - kSuffix.size()));
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace attest
