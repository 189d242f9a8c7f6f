#include "properties/harness/night/fuzz_build.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include <fmt/format.h>

#include "properties/harness/case/bytes.h"
#include "properties/harness/sandbox/locate.h"

namespace attest {
namespace {

namespace fs = std::filesystem;

// Those whose inputs are cases. fuzz_case is about our own parsers, not about a kernel.
constexpr std::array<const char*, 5> kTargets = {"fuzz_kernel", "fuzz_mask", "fuzz_shape",
                                                 "fuzz_equivalence", "fuzz_cache"};
// Per input. The longest take milliseconds, so this is a hang.
constexpr int kTimeoutSeconds = 10;
constexpr int kMemoryMb = 2048;

// What tells a libFuzzer program from one with the replay main, and a sanitized one from a plain one.
struct Marks {
  bool is_libfuzzer = false;
  bool is_sanitized = false;
};

Marks MarksOf(const fs::path& program) {
  std::ifstream file(program, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  return {bytes.find("max_total_time") != bytes.npos, bytes.find("__asan_init") != bytes.npos};
}

std::vector<std::pair<std::string, std::string>> EnvironmentOf(const FuzzRun& run) {
  std::vector<std::pair<std::string, std::string>> environment = {
      {"ATTEST_FINDINGS", run.findings},
      {"ATTEST_FUZZ_KERNEL", run.kernel},
      {"ATTEST_FUZZ_STATUS", run.status}};
  if (run.sanitized) {
    // Kernels of others keep what they allocate, and a long quarantine is most of the memory used.
    environment.emplace_back("ASAN_OPTIONS", "detect_leaks=0:quarantine_size_mb=64");
    environment.emplace_back("UBSAN_OPTIONS", "print_stacktrace=1");
  }
  // A fuzz build need not have all plug-ins: those of other compilers, and the real kernels.
  const fs::path own = fs::path(run.program).parent_path() / ".." / "kernels";
  std::error_code ignored;
  const std::string library =
      "attest_kernel_" + run.kernel.substr(0, run.kernel.find_first_of(":?"));
  if (!fs::exists(own / (library + ".so"), ignored)) {
    environment.emplace_back("ATTEST_KERNELS_DIR", KernelFolder().string());
  }
  return environment;
}

std::vector<std::string> CommonWords(const FuzzRun& run) {
  return {run.program,
          fmt::format("-max_len={}", kCaseBytes),
          "-len_control=0",
          fmt::format("-timeout={}", kTimeoutSeconds),
          fmt::format("-rss_limit_mb={}", kMemoryMb),
          "-detect_leaks=0",
          "-artifact_prefix=" + run.artifacts};
}

ChildCommand Whole(const FuzzRun& run, std::vector<std::string> words) {
  return {std::move(words), EnvironmentOf(run), run.log};
}

}  // namespace

std::vector<std::string> UsualFuzzFolders() {
  const fs::path builds = ProgramFolder() / ".." / "..";
  return {(builds / "fuzz-fast" / "bin").lexically_normal().string(),
          (builds / "fuzz" / "bin").lexically_normal().string()};
}

std::vector<FuzzBuild> FindFuzzBuilds(const std::vector<std::string>& folders) {
  std::vector<FuzzBuild> builds;
  for (const std::string& folder : folders) {
    FuzzBuild build;
    build.folder = folder;
    for (const char* target : kTargets) {
      std::error_code ignored;
      if (fs::is_regular_file(fs::path(folder) / target, ignored))
        build.targets.emplace_back(target);
    }
    if (build.targets.empty()) continue;
    // All in one folder are of one build; each is large.
    const Marks marks = MarksOf(fs::path(folder) / build.targets.front());
    build.sanitized = marks.is_sanitized;
    if (marks.is_libfuzzer) builds.push_back(std::move(build));
  }
  return builds;
}

std::string UsualSeedFolder() {
  std::error_code ignored;
  const fs::path seeds =
      (ProgramFolder() / ".." / ".." / ".." / "corpus" / "seeds").lexically_normal();
  return fs::is_directory(seeds, ignored) ? seeds.string() : "";
}

ChildCommand CommandOf(const FuzzRun& run) {
  std::vector<std::string> words = CommonWords(run);
  words.push_back(fmt::format("-max_total_time={}", std::max<int64_t>(run.seconds, 1)));
  words.push_back(fmt::format("-seed={}", run.seed));
  words.insert(words.end(), run.corpora.begin(), run.corpora.end());
  return Whole(run, std::move(words));
}

ChildCommand ReplayCommandOf(const FuzzRun& run, const std::string& input) {
  std::vector<std::string> words = CommonWords(run);
  words.push_back(input);
  return Whole(run, std::move(words));
}

ChildCommand MergeCommandOf(const FuzzRun& run, const std::string& into,
                            const std::vector<std::string>& from, const std::string& control) {
  std::vector<std::string> words = CommonWords(run);
  words.emplace_back("-set_cover_merge=1");
  words.push_back("-merge_control_file=" + control);
  words.push_back(into);
  words.insert(words.end(), from.begin(), from.end());
  return Whole(run, std::move(words));
}

}  // namespace attest
