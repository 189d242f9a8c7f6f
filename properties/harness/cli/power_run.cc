#include "properties/harness/cli/power_run.h"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "properties/harness/cli/interrupt.h"
#include "properties/harness/report/json_read.h"

namespace attest {
namespace {

namespace fs = std::filesystem;

Kill NotRun(const Subject& subject, std::string why) {
  Kill kill;
  kill.subject = subject;
  kill.not_run = std::move(why);
  return kill;
}

std::string LastLine(const std::string& path) {
  std::ifstream file(path);
  std::string last;
  for (std::string line; std::getline(file, line);) last = line;
  return last;
}

}  // namespace

tl::expected<std::unique_ptr<PowerRun>, std::string> PowerRun::Open(PowerOptions options) {
  std::error_code error;
  std::string folder = (fs::temp_directory_path(error) / "attest_power_XXXXXX").string();
  if (error || ::mkdtemp(folder.data()) == nullptr) {
    return tl::unexpected(
        fmt::format("cannot make a folder {}: set TMPDIR to one that can", folder));
  }
  return std::unique_ptr<PowerRun>(new PowerRun(std::move(options), std::move(folder)));
}

PowerRun::~PowerRun() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

bool PowerRun::IsOver() const {
  return Interrupted() || (options_.end && std::chrono::steady_clock::now() >= *options_.end);
}

std::string PowerRun::PathOf(size_t subject, const char* extension) const {
  return fmt::format("{}/{}{}", folder_, subject, extension);
}

tl::expected<std::unique_ptr<Child>, std::string> PowerRun::Start(const Subject& subject,
                                                                  size_t number) const {
  ChildCommand command;
  command.words = {fs::read_symlink("/proc/self/exe").string(),
                   subject.is_model ? "check-model" : "check",
                   subject.kernel,
                   "--json",
                   PathOf(number, ".json"),
                   "--report",
                   PathOf(number, ".report")};
  command.words.insert(command.words.end(), options_.check.begin(), options_.check.end());
  command.log = PathOf(number, ".log");
  return Child::Start(command);
}

Kill PowerRun::Read(const Subject& subject, size_t number) const {
  const auto run = ReadJsonLinesOf(PathOf(number, ".json"));
  std::error_code ignored;
  fs::remove_all(PathOf(number, ".report"), ignored);
  // Its own words say best why it left no report.
  if (!run || run->report.kernels.empty()) return NotRun(subject, LastLine(PathOf(number, ".log")));
  return KillOf(subject, run->report.kernels.front());
}

std::vector<Kill> PowerRun::Run(const std::vector<Subject>& subjects,
                                const std::function<void(const Kill&)>& on_kill) {
  std::vector<std::optional<Kill>> done(subjects.size());
  std::vector<Job> jobs;
  size_t next = 0, told = 0;
  while (told < subjects.size()) {
    while (next < subjects.size() && std::ssize(jobs) < options_.jobs && !IsOver()) {
      auto child = Start(subjects[next], next);
      if (child) jobs.push_back({std::move(*child), next});
      if (!child) done[next] = NotRun(subjects[next], child.error());
      ++next;
    }
    const bool is_over = IsOver();
    for (; is_over && next < subjects.size(); ++next) {
      done[next] = NotRun(subjects[next], "out of time");
    }
    std::erase_if(jobs, [&](Job& job) {
      if (is_over) job.child->Stop();
      if (!job.child->Ended()) return false;
      done[job.subject] = is_over ? NotRun(subjects[job.subject], "cut short")
                                  : Read(subjects[job.subject], job.subject);
      return true;
    });
    for (; told < subjects.size() && done[told]; ++told) on_kill(*done[told]);
    if (told < subjects.size()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::vector<Kill> kills;
  for (std::optional<Kill>& kill : done) kills.push_back(std::move(*kill));
  return kills;
}

}  // namespace attest
