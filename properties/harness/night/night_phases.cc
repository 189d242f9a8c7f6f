#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <thread>

#include "properties/harness/night/night_internal.h"

namespace attest {
namespace {

namespace fs = std::filesystem;

using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Json = nlohmann::ordered_json;
using Clock = Night::Clock;

// A round of search, exploring, judging and merging: a quarter of the night, between these.
constexpr seconds kShortestRound{8};
constexpr seconds kLongestRound{900};
// Shares of a round. The merge's doubles after a round in which no target could be merged.
constexpr double kSearchShare = 0.2, kJudgeShare = 0.28, kMostMergeShare = 0.48;
// One target's turn. Starting one costs the load of its corpus.
constexpr seconds kShortestSlice{4}, kLongestSlice{300};
// A target writes a case at once and shrinks it for some seconds more (fuzz/findings.cc).
constexpr seconds kRipe{6};
// Results are written down so often; what a kill costs is counts, no finding.
constexpr seconds kCheckpoint{20};
constexpr milliseconds kTick{50};
constexpr milliseconds kProgress{500};
// At the end of the night, for what was found last; at most a tenth of it.
constexpr seconds kLongestConfirming{60};
// Unmerged inputs of one job.
constexpr int64_t kMostJobInputs = 20000;
// Inputs that end a target without a finding and without a reason in its log; of those with the same
// reason one is looked into.
constexpr int64_t kMostUnexplained = 3;

bool IsOlderThan(const std::string& path, seconds age) {
  std::error_code error;
  const auto written = fs::last_write_time(path, error);
  return !error && fs::file_time_type::clock::now() - written >= age;
}

std::string ShellLine(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + word;
  return line;
}

}  // namespace

// With only one of the two builds that one does everything.
const FuzzBuild* Night::Impl::Build(bool sanitized) const {
  for (const FuzzBuild& build : options_.builds) {
    if (build.sanitized == sanitized) return &build;
  }
  return nullptr;
}

void Night::Impl::StartPhase(const char* phase) {
  phase_ = phase;
  phase_start_ = Clock::now();
  phase_executions_ = figures_.executions;
}

void Night::Impl::StartJobs(const FuzzBuild& build, int jobs, Clock::time_point end) {
  const auto turns = (std::ssize(build.targets) + jobs - 1) / jobs;
  const auto slice = duration_cast<seconds>((end - Clock::now()) / std::max<int64_t>(turns, 1));
  pool_->Begin(build, jobs, end, std::clamp(slice, kShortestSlice, kLongestSlice));
}

// What is called all the time: looks after the processes, and says how far the night is.
void Night::Impl::Tick() {
  const auto now = Clock::now();
  if (now - last_tick_ < kTick) return;
  last_tick_ = now;
  pool_->Pump();
  if (!options_.progress || now - last_progress_ < kProgress) return;
  last_progress_ = now;
  NightProgress progress;
  progress.phase = phase_;
  progress.left = std::max(duration_cast<seconds>(end_ - now), seconds{0});
  progress.figures = figures_;
  progress.figures.Add(pool_->Running());
  const double elapsed = std::chrono::duration<double>(now - phase_start_).count();
  progress.executions_per_second =
      elapsed > 0 ? static_cast<double>(progress.figures.executions - phase_executions_) / elapsed
                  : 0;
  progress.findings = desk_->findings().size();
  options_.progress(progress);
}

bool Night::Impl::OnEnd(const EndedRun& ended) {
  figures_.Add(ended.figures);
  Json line = Json::parse(ToJson(ended.figures));
  line["type"] = "fuzzed";
  line["target"] = ended.target;
  line["sanitized"] = ended.run.sanitized;
  line["status"] = ended.status;
  Append(line);
  // An input whose finding the target has written leaves nothing to ask.
  const bool is_explained = std::ranges::any_of(FilesIn(Inbox(), ".toml"), [&](const auto& file) {
    return ended.log.find(fs::path(file).filename().string()) != ended.log.npos;
  });
  for (const std::string& artifact : ended.artifacts) {
    std::error_code ignored;
    if (is_explained || !IsDeadlyInput(artifact)) {
      fs::remove(artifact, ignored);
    } else {
      deadly_.emplace_back(artifact, ended);
    }
  }
  return is_explained;
}

std::optional<std::string> Night::Impl::EndsAgain(const FuzzRun& run, const std::string& input) {
  FuzzRun replay = run;
  replay.log = RunFolder() + "/replay.log";
  replay.status = RunFolder() + "/replay.status";
  replay.artifacts = RunFolder() + "/replay-";
  auto child = Child::Start(ReplayCommandOf(replay, input));
  if (!child) return std::nullopt;
  std::optional<int> status;
  while (!(status = (*child)->Ended()) && !IsStopped()) std::this_thread::sleep_for(kTick);
  const std::string log = TailOf(replay.log);
  for (const std::string& file : FilesIn(RunFolder(), "")) {
    std::error_code ignored;
    if (fs::path(file).filename().string().starts_with("replay")) fs::remove(file, ignored);
  }
  if (status.value_or(0) == 0) return std::nullopt;
  return log;
}

// Confirms what the targets have left. `all`: also what is so young that its target may be shrinking it yet.
void Night::Impl::TakeRaw(bool all) {
  for (const std::string& file : FilesIn(Inbox(), ".toml")) {
    if (IsStopped()) return;
    if (!desk_->HasTaken(file) && (all || IsOlderThan(file, kRipe))) desk_->TakeCase(file);
  }
  while (!deadly_.empty() && !IsStopped()) {
    const auto [file, ended] = deadly_.back();
    const std::string cause_class = ClassOfEnd(ended.log);
    const int64_t like_it = deadly_reasons_[cause_class]++;
    if (like_it < (cause_class.empty() ? kMostUnexplained : 1)) {
      const ChildCommand command = ReplayCommandOf(ended.run, file);
      desk_->TakeInput(
          {file, ended.log,
           ShellLine({"ATTEST_FUZZ_KERNEL='" + kernel_ + "'", command.words.front(), file}),
           [&, run = ended.run, path = file] { return EndsAgain(run, path); }});
    } else {
      std::error_code ignored;
      fs::remove(file, ignored);
    }
    if (IsStopped()) return;
    deadly_.pop_back();
  }
}

// What was found before is of another kernel than this one. The raw findings that were looked into make room for
// new ones of their names; results say nothing any more.
void Night::Impl::CheckAgain() {
  if (!is_changed_) return;
  StartPhase("confirm");
  std::error_code ignored;
  fs::create_directories(Earlier(), ignored);
  for (const std::string& file : FilesIn(Inbox(), ".toml")) {
    if (desk_->HasTaken(file)) fs::rename(file, Earlier() / fs::path(file).filename(), ignored);
  }
  figures_ = {};
  if (!desk_->CheckAgain()) return;
  Checkpoint();
  NoteContent();
}

void Night::Impl::Search(Clock::time_point end) {
  StartPhase("search");
  const FuzzBuild* build = Build(false) != nullptr ? Build(false) : Build(true);
  if (build != nullptr && options_.jobs > 1) StartJobs(*build, options_.jobs - 1, end);
  search_->Run(
      end, options_.desk.run, *this, [this](RunOptions& options) { desk_->Instruct(options); },
      [this] {
        if (Clock::now() - last_checkpoint_ >= kCheckpoint) Checkpoint();
        TakeRaw(false);
      });
  pool_->End();
  Checkpoint();
}

void Night::Impl::Fuzz(const FuzzBuild& build, Clock::time_point end, const char* phase) {
  StartPhase(phase);
  StartJobs(build, options_.jobs, end);
  while (Clock::now() < end && !IsStopped()) {
    Tick();
    TakeRaw(false);
    std::this_thread::sleep_for(kTick);
    if (pool_->IsIdle()) break;  // all targets were given up
  }
  pool_->End();
}

bool Night::Impl::MergeOne(const FuzzBuild& build, const std::string& target,
                           Clock::time_point end) {
  const Corpus& corpus = corpora_.at(target);
  FuzzRun run = pool_->MakeRun(build, target);
  run.artifacts = RunFolder() + "/merge-";
  std::vector<std::string> from = corpus.Folders();
  // Inputs mean a case to every target, and what one has found may be news to another. One a merge, by
  // turns, for each input costs a run.
  const auto other = std::next(corpora_.begin(), merges_++ % std::ssize(corpora_));
  if (other->first != target && CountInputs(other->second.shared()) > 0) {
    from.push_back(other->second.shared());
  }
  corpus.StartMerge();
  auto child = Child::Start(MergeCommandOf(run, corpus.merging(), from, corpus.control()));
  std::optional<int> status;
  while (child && !(status = (*child)->Ended()) && Clock::now() < end && !IsStopped()) {
    Tick();
    std::this_thread::sleep_for(kTick);
  }
  if (child) child->reset();
  const bool is_merged = status == 0 && CountInputs(corpus.merging()) > 0;
  is_merged ? corpus.FinishMerge() : corpus.AbandonMerge();
  for (const std::string& file : FilesIn(RunFolder(), "")) {
    const std::string name = fs::path(file).filename().string();
    std::error_code ignored;
    if (name.starts_with("merge-") || file == run.log || file == run.status)
      fs::remove(file, ignored);
  }
  return is_merged;
}

void Night::Impl::MergeAll(Clock::time_point end) {
  StartPhase("merge");
  const FuzzBuild* build = Build(false) != nullptr ? Build(false) : Build(true);
  if (build == nullptr) return;
  // Each may take all that is left; the one for which there was no time is the first of the next round.
  bool is_any_merged = false;
  for (auto left = std::ssize(build->targets); left > 0; --left) {
    if (IsStopped() || Clock::now() >= end) break;
    const std::string& target = build->targets[merge_turn_ % build->targets.size()];
    if (!MergeOne(*build, target, end)) {
      corpora_.at(target).Trim(kMostJobInputs);
      if (Clock::now() >= end) break;
    } else {
      is_any_merged = true;
    }
    ++merge_turn_;
  }
  merge_share_ = is_any_merged ? kMergeShare : std::min(2 * merge_share_, kMostMergeShare);
}

void Night::Impl::Round(Clock::time_point end) {
  const auto start = Clock::now();
  const auto at = [&](double share) {
    return start + duration_cast<Clock::duration>((end - start) * share);
  };
  const FuzzBuild *plain = Build(false), *sanitized = Build(true);
  if (plain == nullptr && sanitized == nullptr) return Search(end);
  const double fuzzed = 1 - merge_share_;
  Search(at(kSearchShare));
  if (IsStopped()) return;
  if (plain != nullptr) {
    Fuzz(*plain, at(sanitized == nullptr ? fuzzed : fuzzed - kJudgeShare), "explore");
  }
  if (sanitized != nullptr && !IsStopped()) Fuzz(*sanitized, at(fuzzed), "judge");
  if (!IsStopped()) MergeAll(end);
}

void Night::Impl::Run(Clock::time_point end) {
  end_ = end;
  desk_->StopAt(end);
  last_checkpoint_ = Clock::now();
  if (is_changed_) CheckAgain();
  if (IsStopped()) return;
  TakeRaw(true);  // of a start before
  const auto time = end - Clock::now();
  const auto round = std::clamp<Clock::duration>(time / 4, kShortestRound, kLongestRound);
  const auto last = options_.builds.empty()
                        ? end
                        : end - std::min<Clock::duration>(time / 10, kLongestConfirming);
  while (Clock::now() < last && !IsStopped()) {
    // No round is begun that would be a stump.
    const auto left = last - Clock::now();
    Round(left < round * 3 / 2 ? last : Clock::now() + round);
  }
  pool_->End();
  StartPhase("confirm");
  TakeRaw(true);
  Checkpoint();
  if (!IsStopped()) MergeAll(end);
}

}  // namespace attest
