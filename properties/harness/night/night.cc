#include "properties/harness/night/night.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "properties/harness/case/random.h"
#include "properties/harness/night/kernel_content.h"
#include "properties/harness/night/night_internal.h"
#include "properties/harness/report/json_lines.h"
#include "properties/harness/report/json_read.h"
#include "properties/harness/report/output_file.h"

namespace attest {
namespace {

namespace fs = std::filesystem;

using Json = nlohmann::ordered_json;

// So that the files of no two starts have one name.
constexpr int64_t kLaunchesPerStart = 1000000;

FuzzFigures FiguresOfLines(const std::vector<std::string>& lines) {
  FuzzFigures figures;
  for (const std::string& line : lines) {
    if (line.find("\"type\":\"fuzzed\"") != line.npos) figures.Add(FiguresOfStatus(line));
    if (line.find("\"type\":\"changed\"") != line.npos) figures = {};  // of another kernel
  }
  return figures;
}

}  // namespace

std::vector<std::string> FilesIn(const std::string& folder, std::string_view extension) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string path = entry.path().string();
    if (path.ends_with(extension)) files.push_back(path);
  }
  std::ranges::sort(files);
  return files;
}

bool IsDeadlyInput(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  return name.find("-crash-") != name.npos || name.find("-timeout-") != name.npos ||
         name.find("-oom-") != name.npos || name.find("-leak-") != name.npos;
}

tl::expected<void, std::string> Night::Impl::Open() {
  std::error_code error;
  for (const std::string& folder : {options_.folder, Inbox(), RunFolder(), options_.corpus}) {
    fs::create_directories(folder, error);
    if (error) {
      return tl::unexpected(
          fmt::format("cannot make the folder {}: {}: choose another with --report or --corpus",
                      folder, error.message()));
    }
  }
  auto journal = Journal::Open(options_.folder + "/journal.jsonl");
  if (!journal) return tl::unexpected(journal.error());
  journal_ = std::move(*journal);
  desk_ = std::make_unique<FindingDesk>(contract_, session_, options_.desk, *this, *journal_);
  if (auto done = Remember(journal_->lines()); !done) return done;
  if (auto done = OpenCorpora(); !done) return done;
  CollectLeftovers();
  return {};
}

tl::expected<void, std::string> Night::Impl::Remember(const std::vector<std::string>& lines) {
  int64_t starts = 0;
  std::string content;  // that the findings are of
  const std::string& version = session_.identity().version;
  for (const std::string& line : lines) {
    const auto json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) continue;
    if (json.value("type", "") == "content") content = json.value("hash", "");
    if (json.value("type", "") != "start") continue;
    ++starts;
    if (json.value("version", "") != version) {
      return tl::unexpected(
          fmt::format("{}: is about version {} of {}, not {}: name another folder with --report",
                      options_.folder, json.value("version", ""), kernel_, version));
    }
  }
  content_ = ContentOf(session_.spec(), session_.identity());
  is_changed_ = starts > 0 && content != content_;
  figures_ = FiguresOfLines(lines);
  desk_->Restore(lines);
  const uint64_t seed = MixIn(options_.seed, static_cast<uint64_t>(starts));
  search_ = std::make_unique<PropertySearch>(options_.properties, contract_, session_, seed);
  std::vector<PropertyResult> results;
  if (std::error_code ignored; !is_changed_ && fs::exists(ResultsFile(), ignored)) {
    std::string text = TailOf(ResultsFile(), SIZE_MAX);
    for (size_t begin = 0, end; (end = text.find('\n', begin)) != text.npos; begin = end + 1) {
      if (auto result = ParseResultLine(text.substr(begin, end - begin))) {
        results.push_back(std::move(*result));
      }
    }
  }
  search_->Restore(std::move(results));
  PoolOptions pool{kernel_, RunFolder(), Inbox(), options_.seeds, starts * kLaunchesPerStart, seed};
  pool_ = std::make_unique<Pool>(std::move(pool), corpora_,
                                 [this](const EndedRun& ended) { return OnEnd(ended); });
  Append({{"type", "start"}, {"kernel", kernel_}, {"version", version}, {"seed", options_.seed}});
  if (starts == 0) NoteContent();
  return {};
}

// From now on the findings are of this kernel.
void Night::Impl::NoteContent() {
  Append({{"type", "content"}, {"hash", content_}});
  is_changed_ = false;
}

tl::expected<void, std::string> Night::Impl::OpenCorpora() {
  for (const FuzzBuild& build : options_.builds) {
    for (const std::string& target : build.targets) {
      auto corpus = Corpus::Open(options_.corpus + "/" + target, options_.jobs);
      if (!corpus) return tl::unexpected(corpus.error());
      corpora_.emplace(target, std::move(*corpus));
    }
  }
  return {};
}

// What the processes of a run that was killed have left: their counts, and inputs that ended them.
void Night::Impl::CollectLeftovers() {
  for (const std::string& file : FilesIn(Inbox(), ".tmp")) {
    std::error_code ignored;
    fs::remove(file, ignored);
  }
  for (const std::string& status : FilesIn(RunFolder(), ".status")) {
    const FuzzFigures figures = FiguresOfStatus(TailOf(status));
    figures_.Add(figures);
    Json line = Json::parse(ToJson(figures));
    line["type"] = "fuzzed";
    Append(line);
  }
  for (const std::string& file : FilesIn(RunFolder(), "")) {
    std::error_code ignored;
    if (!IsDeadlyInput(file)) fs::remove(file, ignored);
  }
  for (const std::string& file : FilesIn(RunFolder(), "")) {
    // "17-fuzz_mask-crash-0123...": the target that it ended.
    const std::string name = fs::path(file).filename().string();
    const size_t begin = name.find('-') + 1;
    const std::string target = name.substr(begin, name.find('-', begin) - begin);
    for (const FuzzBuild& build : options_.builds) {
      if (std::ranges::find(build.targets, target) == build.targets.end()) continue;
      EndedRun ended;
      ended.run = pool_->MakeRun(build, target);
      ended.target = target;
      deadly_.emplace_back(file, std::move(ended));
      break;
    }
  }
}

void Night::Impl::Append(const Json& json) {
  const auto done = journal_->Append(json.dump() + "\n");
  if (!done && error_.empty()) error_ = done.error();
}

void Night::Impl::Checkpoint() {
  last_checkpoint_ = Clock::now();
  std::string text;
  for (const PropertyResult& result : search_->Parts()) text += ResultLine(result);
  const auto done = WriteFile(ResultsFile(), text);
  if (!done && error_.empty()) error_ = done.error();
}

int64_t Night::Impl::CorpusSize() const {
  int64_t size = 0;
  for (const auto& [target, corpus] : corpora_) size += corpus.Size();
  return size;
}

void Night::Impl::Report(KernelReport& kernel) const {
  kernel.results = search_->Results();
  kernel.findings = desk_->findings();
  FoldFindings(kernel);
  AttributeFindings(kernel);
  kernel.stats = session_.stats();
  if (!options_.builds.empty()) {
    kernel.notes.push_back(
        fmt::format("fuzzed: {} executions in {:.0f} s of processes, coverage {}, {} bins, largest "
                    "error {:.3g} of its "
                    "bound (lse {:.3g}), corpus {} inputs",
                    figures_.executions, figures_.seconds, figures_.coverage, figures_.bins,
                    figures_.worst_ratio, figures_.worst_lse_ratio, CorpusSize()));
  }
  for (const ReportedFinding& gone : desk_->gone()) {
    kernel.notes.push_back(fmt::format(
        "no longer seen in {} runs since the kernel has changed: {} ({})", kTries,
        ToString(gone.finding.signature), gone.file.empty() ? "no case file" : gone.file));
  }
  for (const std::string& line : pool_->given_up()) kernel.notes.push_back(line);
  if (const std::string why = WhyInconclusive(); !why.empty()) kernel.notes.push_back(why);
}

std::string Night::Impl::WhyInconclusive() const {
  if (is_changed_) {
    return "the kernel has changed, and what was found before is not tried again yet: start the "
           "same command again";
  }
  const auto raw = std::ranges::count_if(
      FilesIn(Inbox(), ".toml"), [&](const std::string& file) { return !desk_->HasTaken(file); });
  if (raw > 0 || !deadly_.empty()) {
    return fmt::format("{} raw findings wait to be confirmed: start the same command again",
                       raw + std::ssize(deadly_));
  }
  const auto open = std::ranges::count_if(desk_->findings(), [](const ReportedFinding& reported) {
    return reported.finding.verdict.kind == VerdictKind::kInconclusive;
  });
  if (open > 0) return fmt::format("{} findings are inconclusive", open);
  if (!options_.builds.empty() && figures_.executions == 0) return "no fuzz target ran an input";
  return "";
}

Night::Night(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Night::~Night() = default;

tl::expected<std::unique_ptr<Night>, std::string> Night::Open(const std::string& kernel,
                                                              const Contract& contract,
                                                              KernelSession& session,
                                                              NightOptions options) {
  auto impl = std::make_unique<Impl>(kernel, contract, session, std::move(options));
  if (const auto done = impl->Open(); !done) return tl::unexpected(done.error());
  return std::unique_ptr<Night>(new Night(std::move(impl)));
}

void Night::CheckAgain() {
  impl_->CheckAgain();
}

void Night::Run(Clock::time_point end) {
  impl_->Run(end);
}

void Night::Report(KernelReport& kernel) const {
  impl_->Report(kernel);
}

const std::vector<ReportedFinding>& Night::findings() const {
  return impl_->findings();
}

const FuzzFigures& Night::figures() const {
  return impl_->figures();
}

int64_t Night::corpus_size() const {
  return impl_->CorpusSize();
}

std::string Night::WhyInconclusive() const {
  return impl_->WhyInconclusive();
}

const std::string& Night::error() const {
  return impl_->error();
}

}  // namespace attest
