#include "properties/harness/cli/report_sink.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "properties/harness/cli/commands.h"
#include "properties/harness/cli/output_paths.h"
#include "properties/harness/report/finding_text.h"
#include "properties/harness/report/html.h"
#include "properties/harness/report/markdown.h"

namespace attest {
namespace {

constexpr const char* kPage = "index.html";
constexpr const char* kMarkdown = "report.md";

}  // namespace

tl::expected<void, std::string> CheckReportPaths(const std::vector<std::string>& reads,
                                                 const ReportPaths& paths) {
  std::vector<OutputPath> writes{
      {"--report", paths.folder, /*is_folder=*/true, {kPage, kMarkdown}}};
  if (!paths.json.empty()) writes.push_back({"--json", paths.json});
  if (!paths.junit.empty()) writes.push_back({"--junit", paths.junit});
  return CheckOutputs(reads, writes);
}

tl::expected<void, std::string> CheckNoNight(const std::string& folder) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(std::filesystem::path(folder) / "night", ignored)) return {};
  return tl::unexpected(fmt::format(
      "--report {}: holds a night of attest fuzz, which may go on there: name another folder",
      folder));
}

ReportSink::ReportSink(ReportPaths paths)
    : paths_(std::move(paths)),
      folder_(paths_.folder, paths_.is_folder_asked ? ReportFolder::IfTaken::kRefuse
                                                    : ReportFolder::IfTaken::kTakeNext) {
  std::error_code ignored;
  had_page_ = std::filesystem::exists(std::filesystem::path(paths_.folder) / kPage, ignored);
}

tl::expected<std::unique_ptr<ReportSink>, std::string> ReportSink::Open(const ReportPaths& paths) {
  std::unique_ptr<ReportSink> sink(new ReportSink(paths));
  for (auto [path, file] : {std::pair{&paths.json, &sink->json_}, {&paths.junit, &sink->junit_}}) {
    if (path->empty()) continue;
    auto opened = OutputFile::Open(*path);
    if (!opened) {
      sink->Abandon();
      return tl::unexpected(opened.error());
    }
    *file = std::move(*opened);
  }
  return sink;
}

tl::expected<void, std::string> ReportSink::BeginFolder() {
  return folder_.Begin();
}

void ReportSink::Abandon() {
  if (json_) json_->Discard();
  if (junit_) junit_->Discard();
}

void ReportSink::WriteJson(const std::string& line) {
  lines_ += std::ranges::count(line, '\n');
  if (json_) Keep(json_->Append(line));
}

bool ReportSink::WantsPages(const RunReport& report) const {
  return paths_.is_folder_asked || had_page_ ||
         std::ranges::any_of(report.kernels,
                             [](const KernelReport& kernel) { return !kernel.findings.empty(); });
}

void ReportSink::WritePages(const RunReport& report) {
  Keep(folder_.Write(kPage, HtmlPage(report)));
  Keep(folder_.Write(kMarkdown, MarkdownReport(report)));
}

ReportedFinding ReportSink::Save(const Finding& finding, const RunInfo& info,
                                 const std::string& waived) {
  ReportedFinding reported;
  reported.finding = finding;
  reported.waived = waived;
  Store(info, reported);
  return reported;
}

ReportedFinding ReportSink::SaveModel(ReportedFinding reported, const RunInfo& info) {
  Store(info, reported);
  return reported;
}

// Writes the case file and says how to replay it.
void ReportSink::Store(const RunInfo& info, ReportedFinding& reported) {
  // One signature may have a waived finding and one that counts.
  const std::string name =
      (reported.waived.empty() ? "" : "waived.") + CaseFileName(reported.finding);
  const auto written = folder_.Write(name, CaseFileText(reported));
  Keep(written);
  reported.file = written.value_or((std::filesystem::path(paths_.folder) / name).string());
  reported.command =
      fmt::format("{} replay {}", ShellQuote(info.program), ShellQuote(reported.file));
  reported.command += info.open_options;
}

tl::expected<void, std::string> ReportSink::Finish(const std::string& last_json_line,
                                                   const std::string& junit) {
  if (json_) Keep(json_->Append(last_json_line).and_then([&] { return json_->Commit(); }));
  if (junit_) Keep(junit_->Append(junit).and_then([&] { return junit_->Commit(); }));
  if (!first_error_.empty()) return tl::unexpected(first_error_);
  return {};
}

void AddReportPaths(CLI::App& command, ReportPaths& paths) {
  command
      .add_option("--json", paths.json,
                  "Write JSON lines to FILE: run, finding, result, summary. They stand in "
                  "FILE.partial until the run ends")
      ->type_name("FILE");
  command.add_option("--junit", paths.junit, "Write JUnit XML to FILE")->type_name("FILE");
  command
      .add_option("--report", paths.folder,
                  "Folder for the case files of findings and for the report as a page, index.html, "
                  "and as Markdown, report.md; unless named, made with the first finding")
      ->type_name("DIR")
      ->capture_default_str();
}

}  // namespace attest
