// attest check-model: every applicable property of models on each of them.

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "properties/harness/cli/arguments.h"
#include "properties/harness/cli/commands.h"
#include "properties/harness/cli/console.h"
#include "properties/harness/cli/model_passes.h"
#include "properties/harness/cli/open_model.h"
#include "properties/harness/cli/output_paths.h"
#include "properties/harness/cli/run_arguments.h"
#include "properties/harness/model/run_model.h"
#include "properties/harness/report/finding_text.h"
#include "properties/harness/report/json_lines.h"
#include "properties/harness/report/progress.h"
#include "properties/harness/report/run_report.h"
#include "properties/harness/report/waivers.h"
#include "properties/transformer/model_properties.h"

namespace attest {
namespace {

using Clock = std::chrono::steady_clock;

// What the user wrote.
struct CheckModelArguments {
  std::vector<std::string> models;
  std::string against;
  std::string waivers;
  RunArguments run;
  OpenKernelOptions open;
};

// What it means.
struct CheckModelPlan {
  ModelPlan model;
  std::vector<Waiver> waivers;
  std::optional<std::chrono::seconds> duration;
};

struct ModelToRun {
  OpenedModel opened;
  KernelReport report;
};

// The sequence that the head of the report shows dependencies of.
constexpr int64_t kShownTokens = 6;

ModelCase ShownCase(const ModelContract& contract) {
  ModelCase c;
  const int64_t len = std::min(kShownTokens, contract.max_len);
  for (auto* all : {&c.tokens, &c.others}) all->emplace_back();
  for (int64_t i = 0; i < len; ++i) {
    c.tokens[0].push_back((3 * i + 1) % contract.vocab);
    c.others[0].push_back((3 * i + 2) % contract.vocab);
  }
  if (contract.kind == ModelKind::kEncoderDecoder) c.sources = c.other_sources = {{0}};
  return c;
}

class CheckModelRun {
 public:
  CheckModelRun(const CheckModelArguments& arguments, CheckModelPlan plan, RunInfo info,
                ReportSink& sink)
      : arguments_(arguments), plan_(std::move(plan)), info_(std::move(info)), sink_(sink) {}

  int Run(std::vector<ModelToRun> models, std::optional<OpenedModel> other) {
    RunReport report;
    report.info = info_;
    for (ModelToRun& model : models) report.kernels.push_back(model.report);
    sink_.WriteJson(RunLine(report));
    // The parts are passes of properties, over all models.
    TimeShares shares(plan_.duration, std::ssize(plan_.model.properties) *
                                          std::ssize(PassesOf(plan_.model.run.plan)) *
                                          std::ssize(models));
    std::optional<ModelLab> against;
    if (other) against.emplace(other->contract, *other->session);
    for (size_t i = 0; i < models.size(); ++i) {
      ModelLab lab(models[i].opened.contract, *models[i].opened.session,
                   against ? &*against : nullptr);
      RunModel(lab, shares, report.kernels[i]);
      models[i].opened.session.reset();  // its worker need not wait for the others
    }
    progress_.Clear();
    return EndRun(report, sink_);
  }

 private:
  void RunModel(ModelLab& lab, TimeShares& shares, KernelReport& report) {
    start_ = Clock::now();
    cases_.clear();
    model_cases_ = 0;
    const double loading = lab.session().stats().seconds_in_worker;
    progress_.SetKernel(report.kernel);
    report.results =
        RunModelInPasses(plan_.model, lab, Observer(report), [&] { return shares.Next(); });
    NoteDependencies(lab, report);  // behind the claims: the first calls are theirs
    ApplyWaivers(plan_.waivers, report);
    for (const PropertyResult& result : report.results) sink_.WriteJson(ResultLine(result));
    report.seconds = Seconds();
    report.stats = lab.session().stats();
    report.stats.seconds_in_worker -= loading;
  }

  ModelObserver Observer(KernelReport& report) {
    ModelObserver observer;
    observer.on_case = [&](const ModelProperty& property, int64_t done, int64_t of) {
      model_cases_ += done - std::exchange(cases_[&property], done);
      progress_.OnModelCase(property.id, done, of);
    };
    observer.on_finding = [&](const ModelFinding& finding) { Save(finding, report); };
    if (plan_.waivers.empty()) return observer;
    observer.is_waived = [&](const Signature& signature, const ModelCase& c, const Verdict& v) {
      return !ReasonToWaive(plan_.waivers, report, signature, c, v).empty();
    };
    return observer;
  }

  // What the logits of one sequence depend on, for a person to look at; no claim.
  static void NoteDependencies(ModelLab& lab, KernelReport& report) {
    const std::string picture = DependencyPicture(ShownCase(lab.contract()), lab);
    for (size_t begin = 0, end; begin < picture.size(); begin = end + 1) {
      end = picture.find('\n', begin);
      report.notes.push_back(picture.substr(begin, end - begin));
    }
  }

  // At once: a run that is killed later has not lost it.
  void Save(const ModelFinding& found, KernelReport& report) {
    ReportedFinding reported;
    reported.finding = found.finding;
    reported.waived = ReasonToWaive(plan_.waivers, report, found.finding.signature, found.smallest,
                                    found.finding.verdict);
    reported.picture = found.picture;
    reported.found_by = found.finding.signature.property;
    reported.kernel_cases = model_cases_;
    reported.kernel_seconds = Seconds();
    reported.case_text = ToToml({found.smallest, found.finding.signature.property, report.kernel,
                                 arguments_.against, found.finding.verdict.sentence});
    report.findings.push_back(sink_.SaveModel(std::move(reported), info_));
    sink_.WriteJson(FindingLine(report.findings.back()));
  }

  double Seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  const CheckModelArguments& arguments_;
  const CheckModelPlan plan_;
  const RunInfo info_;
  ReportSink& sink_;
  ProgressLine progress_;
  Clock::time_point start_;                        // of the model at hand
  std::map<const ModelProperty*, int64_t> cases_;  // of it, so far
  int64_t model_cases_ = 0;                        // the sum of them
};

ModelToRun ToRun(const std::string& text, OpenedModel opened) {
  ModelToRun model;
  model.report.kernel = text;
  model.report.is_model = true;
  model.report.identity = opened.session->identity();
  model.report.contract.name = fmt::format("attest-model-1, {}", Name(opened.contract.kind));
  model.opened = std::move(opened);
  return model;
}

tl::expected<std::vector<ModelToRun>, OpenError> OpenModels(const CheckModelArguments& arguments) {
  std::vector<ModelToRun> models;
  for (const std::string& text : arguments.models) {
    const bool is_new = std::ranges::none_of(
        models, [&](const ModelToRun& model) { return model.report.kernel == text; });
    if (!is_new) continue;
    auto opened = OpenModel(text, arguments.open);
    if (!opened) return tl::unexpected(opened.error());
    models.push_back(ToRun(text, std::move(*opened)));
  }
  return models;
}

tl::expected<CheckModelPlan, std::string> Understand(const CheckModelArguments& arguments,
                                                     const AskedRun& asked) {
  CheckModelPlan plan;
  auto properties = SelectModelProperties(arguments.run.properties);
  if (!properties) return tl::unexpected(properties.error());
  if (!arguments.waivers.empty()) {
    auto waivers = ReadWaivers(arguments.waivers);
    if (!waivers) return tl::unexpected(waivers.error());
    plan.waivers = std::move(*waivers);
  }
  plan.model = {std::move(*properties), asked.run, asked.stop_after};
  plan.duration = asked.duration;
  return plan;
}

// The files that the run reads.
std::vector<std::string> Inputs(const CheckModelArguments& arguments) {
  std::vector<std::string> named = arguments.models;
  if (!arguments.against.empty()) named.push_back(arguments.against);
  std::vector<std::string> files = FilesOfKernels(named);
  if (!arguments.waivers.empty()) files.push_back(arguments.waivers);
  return files;
}

int CheckModel(const CheckModelArguments& arguments, const CommandLine& line) {
  const auto asked = Understand(arguments.run);
  if (!asked) return Complain(kExitUsage, asked.error());
  auto plan = Understand(arguments, *asked);
  if (!plan) return Complain(kExitUsage, plan.error());
  const auto fine = CheckRunPaths(Inputs(arguments), arguments.run.paths);
  if (!fine) return Complain(kExitUsage, fine.error());
  auto models = OpenModels(arguments);
  if (!models) return Complain(models.error().status, models.error().text);
  std::optional<OpenedModel> other;
  if (!arguments.against.empty()) {
    auto opened = OpenModel(arguments.against, arguments.open);
    if (!opened) return Complain(opened.error().status, opened.error().text);
    other = std::move(*opened);
  }
  auto sink = BeginReport(arguments.run.paths);
  if (!sink) return Complain(kExitUsage, sink.error());
  RunInfo info = InfoOf(line, arguments.run, *asked);
  info.open_options = OpenOptionsText(arguments.open);
  return CheckModelRun(arguments, std::move(*plan), std::move(info), **sink)
      .Run(std::move(*models), std::move(other));
}

}  // namespace

void AddCheckModel(CLI::App& app, CommandLine& line) {
  auto arguments = std::make_shared<CheckModelArguments>();
  CLI::App* command =
      app.add_subcommand("check-model", "Run all applicable properties of whole models");
  command
      ->add_option("MODEL", arguments->models,
                   "Models, named as kernels are: model:decoder, ./FILE.so, python:FILE:CLASS")
      ->required();
  command
      ->add_option("--against", arguments->against,
                   "A model whose logits are due: the one before it was ported or rewritten")
      ->type_name("MODEL");
  command
      ->add_option("--waivers", arguments->waivers,
                   "Findings that do not fail the run: a file as corpus/waivers.toml")
      ->type_name("FILE");
  AddRunArguments(*command, arguments->run);
  AddDeadline(*command, arguments->open);
  AddThreads(*command, arguments->open);
  command->callback([arguments, command, &line] {
    arguments->run.paths.is_folder_asked = command->count("--report") > 0;
    line.run = [arguments, &line] { return CheckModel(*arguments, line); };
  });
}

}  // namespace attest
