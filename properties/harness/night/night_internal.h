// The inside of a night, for night.cc (what it remembers and reports) and night_phases.cc (what it does).
#ifndef ATTEST_HARNESS_NIGHT_NIGHT_INTERNAL_H_
#define ATTEST_HARNESS_NIGHT_NIGHT_INTERNAL_H_

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "properties/harness/night/corpus.h"
#include "properties/harness/night/night.h"
#include "properties/harness/night/pool.h"
#include "properties/harness/night/search.h"

namespace attest {

// The share of a round that merging has.
inline constexpr double kMergeShare = 0.12;

// Paths of the files in a folder whose names end so, sorted.
std::vector<std::string> FilesIn(const std::string& folder, std::string_view extension);

// Whether libFuzzer has named the file as an input that ended a target.
bool IsDeadlyInput(const std::string& path);

class Night::Impl : public RunObserver {
 public:
  Impl(std::string kernel, const Contract& contract, KernelSession& session, NightOptions options)
      : kernel_(std::move(kernel)),
        contract_(contract),
        session_(session),
        options_(std::move(options)) {}

  tl::expected<void, std::string> Open();
  void CheckAgain();
  void Run(Clock::time_point end);
  void Report(KernelReport& kernel) const;
  std::string WhyInconclusive() const;
  const std::string& error() const { return !error_.empty() ? error_ : desk_->error(); }
  const std::vector<ReportedFinding>& findings() const { return desk_->findings(); }
  const FuzzFigures& figures() const { return figures_; }
  int64_t CorpusSize() const;

  void OnCase(const Property&, int64_t, int64_t) override { Tick(); }
  void OnShrink(const Property&, int64_t) override { Tick(); }
  void OnFinding(const Finding& finding) override { desk_->TakeFinding(finding); }

 private:
  std::string Inbox() const { return options_.folder + "/raw"; }
  std::string RunFolder() const { return options_.folder + "/runs"; }
  // Raw findings that a kernel before a change left.
  std::filesystem::path Earlier() const { return options_.folder + "/raw/earlier"; }
  std::string ResultsFile() const { return options_.folder + "/results.jsonl"; }
  bool IsStopped() const {
    return options_.desk.run.stop != nullptr && options_.desk.run.stop->load();
  }
  const FuzzBuild* Build(bool sanitized) const;

  tl::expected<void, std::string> Remember(const std::vector<std::string>& lines);
  tl::expected<void, std::string> OpenCorpora();
  void NoteContent();
  void CollectLeftovers();
  void Checkpoint();
  void Append(const nlohmann::ordered_json& json);

  void Round(Clock::time_point end);
  void Search(Clock::time_point end);
  void Fuzz(const FuzzBuild& build, Clock::time_point end, const char* phase);
  void MergeAll(Clock::time_point end);
  bool MergeOne(const FuzzBuild& build, const std::string& target, Clock::time_point end);
  void StartPhase(const char* phase);
  void StartJobs(const FuzzBuild& build, int jobs, Clock::time_point end);
  void Tick();
  bool OnEnd(const EndedRun& ended);
  void TakeRaw(bool all);
  std::optional<std::string> EndsAgain(const FuzzRun& run, const std::string& input);

  std::string kernel_;
  std::string content_;      // ContentOf the kernel
  bool is_changed_ = false;  // since the findings of the journal were confirmed
  const Contract contract_;
  KernelSession& session_;
  NightOptions options_;
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<FindingDesk> desk_;
  std::unique_ptr<PropertySearch> search_;
  std::unique_ptr<Pool> pool_;
  std::map<std::string, Corpus> corpora_;                 // by target
  std::vector<std::pair<std::string, EndedRun>> deadly_;  // inputs, and the runs they ended
  FuzzFigures figures_;
  Clock::time_point end_, last_tick_, last_progress_, last_checkpoint_, phase_start_;
  int64_t phase_executions_ = 0;
  std::map<std::string, int64_t> deadly_reasons_;  // by class: how many inputs so far
  int64_t merges_ = 0;
  size_t merge_turn_ = 0;
  double merge_share_ = kMergeShare;
  std::string phase_ = "search";
  std::string error_;
};

}  // namespace attest

#endif  // ATTEST_HARNESS_NIGHT_NIGHT_INTERNAL_H_
