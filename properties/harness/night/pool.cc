#include "properties/harness/night/pool.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "properties/harness/case/random.h"

namespace attest {
namespace {

namespace fs = std::filesystem;

using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::seconds;

// A process that is past its time by so much hangs.
constexpr seconds kGrace{15};
// One that fails sooner than this, so often in a row, will not do better.
constexpr seconds kQuick{2};
constexpr int kMostQuickEnds = 5;
// Too short to load the corpus.
constexpr milliseconds kLeastTime{1000};
// libFuzzer prints a line for each new input.
constexpr uintmax_t kMostLogBytes = uintmax_t{4} << 20;

std::vector<std::string> FilesWithPrefix(const std::string& prefix) {
  std::vector<std::string> files;
  const std::string folder = fs::path(prefix).parent_path().string();
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string path = entry.path().string();
    if (path.starts_with(prefix)) files.push_back(path);
  }
  return files;
}

void Remove(const std::string& path) {
  std::error_code ignored;
  fs::remove(path, ignored);
}

void CutLog(const std::string& path) {
  std::error_code error;
  if (fs::file_size(path, error) > kMostLogBytes && !error) fs::resize_file(path, 0, error);
}

}  // namespace

Pool::Pool(PoolOptions options, std::map<std::string, Corpus>& corpora, OnEnd on_end)
    : options_(std::move(options)),
      corpora_(corpora),
      on_end_(std::move(on_end)),
      launch_(options_.first_launch) {}

void Pool::Begin(const FuzzBuild& build, int jobs, Clock::time_point end, seconds slice) {
  build_ = build;
  wanted_ = jobs;
  end_ = end;
  slice_ = slice;
  Pump();
}

FuzzRun Pool::MakeRun(const FuzzBuild& build, const std::string& target) {
  const std::string name = fmt::format("{}-{}", launch_++, target);
  FuzzRun run;
  run.program = (fs::path(build.folder) / target).string();
  run.sanitized = build.sanitized;
  run.kernel = options_.kernel;
  run.findings = options_.findings;
  run.status = fmt::format("{}/{}.status", options_.folder, name);
  run.artifacts = fmt::format("{}/{}-", options_.folder, name);
  run.log = fmt::format("{}/{}.log", options_.folder, name);
  run.seed = static_cast<uint32_t>(MixIn(options_.seed, static_cast<uint64_t>(launch_)) | 1);
  return run;
}

const std::string* Pool::NextTarget() {
  for (size_t n = 0; n < build_.targets.size(); ++n) {
    const std::string& target = build_.targets[turn_++ % build_.targets.size()];
    if (quick_ends_[(fs::path(build_.folder) / target).string()] < kMostQuickEnds) return &target;
  }
  return nullptr;
}

bool Pool::Launch(int slot) {
  const auto now = Clock::now();
  if (end_ - now < kLeastTime) return false;
  const std::string* target = NextTarget();
  if (target == nullptr) return false;
  Job job;
  job.target = *target;
  job.run = MakeRun(build_, *target);
  const auto time = std::min<Clock::duration>(slice_, end_ - now);
  job.run.seconds = duration_cast<seconds>(time).count();
  const Corpus& corpus = corpora_.at(*target);
  job.run.corpora = {corpus.job(slot), corpus.shared()};
  const std::string seeds = options_.seeds.empty() ? "" : options_.seeds + "/" + *target;
  if (CountInputs(seeds) > 0) job.run.corpora.push_back(seeds);
  auto child = Child::Start(CommandOf(job.run));
  if (!child) {
    quick_ends_[job.run.program] = kMostQuickEnds;
    given_up_.push_back(child.error());
    return false;
  }
  job.child = std::move(*child);
  job.start = now;
  job.end = now + time;
  jobs_.emplace(slot, std::move(job));
  return true;
}

void Pool::Finish(Job& job, int status) {
  EndedRun ended{
      job.run, job.target, status, ReadFigures(job.run.status, job.run.log), TailOf(job.run.log),
      {}};
  ended.figures.seconds = std::chrono::duration<double>(Clock::now() - job.start).count();
  Remove(job.run.status);
  ended.artifacts = FilesWithPrefix(job.run.artifacts);
  std::erase_if(ended.artifacts, [](const std::string& file) { return file.ends_with(".tmp"); });
  const bool is_explained = on_end_(ended) || status == 0 || wanted_ == 0;
  int& quick_ends = quick_ends_[job.run.program];
  quick_ends = !is_explained && Clock::now() - job.start < kQuick ? quick_ends + 1 : 0;
  if (quick_ends == kMostQuickEnds) {
    const std::string reason = ReasonOfEnd(ended.log);
    given_up_.push_back(
        fmt::format("{} was given up: it ended {} times at once, with exit status {}: {}",
                    job.run.program, kMostQuickEnds, status,
                    reason.empty() ? ended.log.substr(0, ended.log.find('\n')) : reason));
  }
  Remove(job.run.log);
}

void Pool::Pump() {
  const auto now = Clock::now();
  for (auto at = jobs_.begin(); at != jobs_.end();) {
    Job& job = at->second;
    CutLog(job.run.log);
    if (now > job.end + kGrace) job.child->Kill();
    const auto status = job.child->Ended();
    if (!status) {
      ++at;
      continue;
    }
    Job ended = std::move(job);
    at = jobs_.erase(at);
    Finish(ended, *status);
  }
  for (int slot = 0; slot < wanted_; ++slot) {
    if (!jobs_.contains(slot) && !Launch(slot)) return;
  }
}

void Pool::End() {
  wanted_ = 0;
  for (auto& [slot, job] : jobs_) job.child->Stop();
  const auto last = Clock::now() + seconds{2};
  while (!jobs_.empty()) {
    if (Clock::now() > last) {
      for (auto& [slot, job] : jobs_) job.child->Kill();
    }
    Pump();
    if (!jobs_.empty()) std::this_thread::sleep_for(milliseconds{10});
  }
}

FuzzFigures Pool::Running() const {
  FuzzFigures sum;
  for (const auto& [slot, job] : jobs_) sum.Add(ReadFigures(job.run.status, job.run.log));
  return sum;
}

}  // namespace attest
