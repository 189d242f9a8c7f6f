#include "properties/harness/cli/report_sink.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "properties/harness/cli/commands.h"
#include "properties/harness/report/finding_text.h"
#include "properties/harness/report/html.h"
#include "properties/harness/report/markdown.h"

namespace attest {
namespace {

constexpr const char* kPage = "index.html";
constexpr const char* kMarkdown = "report.md";

}  // namespace

tl::expected<std::unique_ptr<ReportSink>, std::string> ReportSink::Open(const ReportPaths& paths) {
  if (paths.folder.empty()) {
    return tl::unexpected(std::string("--report: names no folder: name one, or leave it out"));
  }
  std::error_code ignored;
  if (std::filesystem::exists(paths.folder, ignored) &&
      !std::filesystem::is_directory(paths.folder, ignored)) {
    return tl::unexpected(
        fmt::format("--report {}: is no folder: choose another name", paths.folder));
  }
  if (!paths.json.empty() && paths.json == paths.junit) {
    return tl::unexpected(
        fmt::format("--json and --junit both name {}: name two files", paths.json));
  }
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

void ReportSink::Keep(const tl::expected<void, std::string>& done) {
  if (!done && first_error_.empty()) first_error_ = done.error();
}

void ReportSink::Abandon() {
  if (json_) json_->Discard();
  if (junit_) junit_->Discard();
}

void ReportSink::WriteJson(const std::string& line) {
  if (json_) Keep(json_->Append(line));
}

// Into the folder, which is made with its first file.
void ReportSink::Save(const std::string& file, const std::string& text) {
  std::error_code error;
  std::filesystem::create_directories(paths_.folder, error);
  if (error) {
    return Keep(
        tl::unexpected(fmt::format("cannot make the folder {}: {}: choose another with --report",
                                   paths_.folder, error.message())));
  }
  Keep(WriteFile(file, text));
}

bool ReportSink::WantsPages(const RunReport& report) const {
  std::error_code ignored;
  return paths_.is_folder_asked ||
         std::ranges::any_of(report.kernels,
                             [](const KernelReport& kernel) { return !kernel.findings.empty(); }) ||
         std::filesystem::exists(std::filesystem::path(paths_.folder) / kPage, ignored);
}

void ReportSink::WritePages(const RunReport& report) {
  const std::filesystem::path folder(paths_.folder);
  Save((folder / kPage).string(), HtmlPage(report));
  Save((folder / kMarkdown).string(), MarkdownReport(report));
}

ReportedFinding ReportSink::Save(const Finding& finding, const std::string& program,
                                 const std::string& waived) {
  ReportedFinding reported;
  reported.finding = finding;
  reported.waived = waived;
  // One signature may have a waived finding and one that counts.
  const std::string name = (waived.empty() ? "" : "waived.") + CaseFileName(finding);
  reported.file = (std::filesystem::path(paths_.folder) / name).string();
  reported.command = fmt::format("{} replay {}", ShellQuote(program), ShellQuote(reported.file));
  Save(reported.file, CaseFileText(finding));
  return reported;
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
