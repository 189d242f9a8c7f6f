#include "properties/harness/night/finding_desk.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "properties/harness/case/bytes.h"
#include "properties/harness/case/toml.h"
#include "properties/harness/night/fuzz_figures.h"
#include "properties/harness/report/json_lines.h"
#include "properties/harness/report/json_read.h"
#include "properties/harness/report/merge_runs.h"
#include "properties/harness/runner/run_case.h"

namespace attest {
namespace {

// Lines of the journal: an input was looked into; the kernel has changed since; a finding is seen no longer.
constexpr std::string_view kTaken = "taken", kChanged = "changed", kGone = "gone";
constexpr std::string_view kEquivalence = "equivalence.matches_reference";

std::string NameOf(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

const Property& NamedBy(const Failure& failure, const Property& property) {
  const Property* named = FindProperty(failure.signature.property);
  return named == nullptr ? property : *named;
}

// libFuzzer names an input for what it did: crash-, timeout-, oom-.
Cause CauseOf(const std::string& path) {
  const std::string name = NameOf(path);
  if (name.find("-timeout-") != name.npos) return Cause::kHang;
  return name.find("-oom-") != name.npos ? Cause::kMemoryLimit : Cause::kCrash;
}

}  // namespace

FindingDesk::FindingDesk(const Contract& contract, KernelSession& session, DeskOptions options,
                         RunObserver& observer, Journal& journal)
    : contract_(contract),
      session_(session),
      options_(std::move(options)),
      observer_(observer),
      journal_(journal) {}

void FindingDesk::Restore(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) continue;
    const std::string type = json.value("type", "");
    if (type == kTaken) taken_.insert(json.value("name", ""));
    if (type == kChanged) taken_.clear();
    if (type == kGone) Retire(json.value("signature", ""), json.value("case_file", ""));
    if (type != "finding") continue;
    auto reported = ParseFindingLine(line);
    if (!reported) continue;  // of another version of attest: it is found again
    Finding& finding = reported->finding;
    if (const Property* property = FindProperty(finding.signature.property)) {
      finding.derived = DerivedAtFault(*property, finding.smallest, contract_, finding.verdict);
    }
    // Waivers may have changed since.
    reported->waived = ReasonToWaive(finding);
    std::erase_if(gone_, [&](const ReportedFinding& gone) {
      return gone.finding.signature == finding.signature;
    });
    AddFinding(std::move(*reported), findings_);
  }
}

void FindingDesk::Retire(const std::string& signature, const std::string& case_file) {
  for (auto at = findings_.begin(); at != findings_.end(); ++at) {
    if (ToString(at->finding.signature) != signature || at->file != case_file) continue;
    gone_.push_back(std::move(*at));
    findings_.erase(at);
    return;
  }
}

// Whether the kernel as it is now fails on the case, whatever class the failure has.
bool FindingDesk::StillFails(const ReportedFinding& reported) {
  const Finding& finding = reported.finding;
  const Property* property = FindProperty(finding.signature.property);
  if (property == nullptr) return false;  // nobody can say any more what failed
  Signature any_class = finding.signature;
  any_class.cause_class.clear();
  for (int i = 0; i < kTries && !IsInterrupted(); ++i) {
    const CaseResult result =
        RunBehind(finding.before, *property, finding.smallest, contract_, session_);
    const bool fails = std::ranges::any_of(result.failures, [&](const Failure& failure) {
      return Covers(any_class, failure.signature);
    });
    if (fails) return true;
  }
  return false;
}

// What a change has mended another may break again.
bool FindingDesk::CheckGone() {
  for (const ReportedFinding& before : std::vector<ReportedFinding>(gone_)) {
    const bool fails = StillFails(before);
    if (IsInterrupted()) return false;
    if (!fails) continue;
    Append(FindingLine(before));
    std::erase_if(gone_, [&](const ReportedFinding& gone) { return gone.file == before.file; });
    AddFinding(before, findings_);
  }
  return true;
}

bool FindingDesk::CheckAgain() {
  if (!CheckGone()) return false;
  taken_.clear();
  Append(nlohmann::ordered_json({{"type", kChanged}}).dump() + "\n");
  for (const ReportedFinding& before : std::vector<ReportedFinding>(findings_)) {
    const bool fails = StillFails(before);
    if (IsInterrupted()) return false;
    if (fails) continue;
    const std::string signature = ToString(before.finding.signature);
    Append(nlohmann::ordered_json(
               {{"type", kGone}, {"signature", signature}, {"case_file", before.file}})
               .dump() +
           "\n");
    Retire(signature, before.file);
  }
  return true;
}

bool FindingDesk::HasTaken(const std::string& path) const {
  return taken_.contains(NameOf(path));
}

void FindingDesk::Append(const std::string& line) {
  const auto done = journal_.Append(line);
  if (!done && error_.empty()) error_ = done.error();
}

void FindingDesk::Note(const std::string& path, std::string_view as) {
  taken_.insert(NameOf(path));
  Append(nlohmann::ordered_json({{"type", kTaken}, {"name", NameOf(path)}, {"as", as}}).dump() +
         "\n");
}

bool FindingDesk::IsInterrupted() const {
  return session_.interrupted() || (options_.run.stop != nullptr && options_.run.stop->load());
}

bool FindingDesk::IsKnown(const Signature& signature, bool waived) const {
  RunOptions options;
  Instruct(options);
  const auto count = [&](const Signature& pattern) {
    return std::ranges::count_if(waived ? options.known_waived : options.known,
                                 [&](const Signature& known) { return Covers(pattern, known); });
  };
  Signature any_class = signature;
  any_class.cause_class.clear();
  return count(signature) > 0 || count(any_class) >= options_.run.max_classes;
}

void FindingDesk::Instruct(RunOptions& options) const {
  for (const ReportedFinding& reported : findings_) {
    (reported.waived.empty() ? options.known : options.known_waived)
        .insert(reported.finding.signature);
  }
  options.is_waived = [this](const Failure& failure) {
    return !options_.waive(failure.signature, failure.c, failure.verdict).empty();
  };
}

std::string FindingDesk::ReasonToWaive(const Finding& finding) const {
  return options_.waive(finding.signature, finding.smallest, finding.verdict);
}

void FindingDesk::Keep(const Finding& finding) {
  const std::string waived = ReasonToWaive(finding);
  findings_.push_back(options_.save(finding, waived));
  findings_.back().waived = waived;
  std::erase_if(gone_, [&](const ReportedFinding& gone) {
    return gone.finding.signature == finding.signature;
  });
  Append(FindingLine(findings_.back()));
}

void FindingDesk::TakeFinding(const Finding& finding) {
  Keep(finding);
}

void FindingDesk::ConfirmFailures(const Property& property, const std::vector<Failure>& failures) {
  for (const Failure& failure : failures) {
    RunOptions options = options_.run;
    Instruct(options);
    const Property& named = NamedBy(failure, property);
    const bool waived = !options_.waive(failure.signature, failure.c, failure.verdict).empty();
    if (IsKnown(failure.signature, waived)) continue;
    const Finding finding = MakeFinding(named, failure, contract_, session_, options, observer_);
    if (IsInterrupted()) return;  // its reruns say nothing
    // A smaller case may have led to a signature that is known.
    if (!IsKnown(finding.signature, !ReasonToWaive(finding).empty())) Keep(finding);
  }
}

// Whether the case fails in the worker.
bool FindingDesk::ConfirmCase(const Property& property, const Case& c) {
  for (int i = 0; i < kTries && !IsInterrupted(); ++i) {
    const CaseResult result = RunCase(property, c, contract_, session_);
    if (IsInterrupted()) return false;
    if (result.failures.empty()) continue;
    ConfirmFailures(property, result.failures);
    return true;
  }
  return false;
}

void FindingDesk::KeepUnconfirmed(const Property& property, const Case& c, std::string reason) {
  Finding finding;
  finding.kernel = session_.spec().text;
  finding.signature = {std::string(property.id), Cause::kNone, "", ""};
  finding.smallest = c;
  finding.confirmations = kTries;
  finding.verdict.kind = VerdictKind::kInconclusive;
  finding.verdict.reason = std::move(reason);
  finding.verdict.sentence = finding.verdict.reason;
  if (!IsKnown(finding.signature, /*waived=*/false)) Keep(finding);
}

void FindingDesk::TakeCase(const std::string& path) {
  if (HasTaken(path)) return;
  const auto file = ReadCaseFile(path);
  if (!file) return Note(path, "unreadable: " + file.error());
  const Property* property = FindProperty(file->property.value_or(std::string(kEquivalence)));
  if (property == nullptr) return Note(path, "of an unknown property");
  const bool fails = ConfirmCase(*property, file->c);
  if (IsInterrupted()) return;
  if (!fails) {
    KeepUnconfirmed(*property, file->c,
                    fmt::format("failed in a fuzz target, and in none of {} runs in a worker: {}",
                                kTries, file->finding.value_or("")));
  }
  Note(path, fails ? "confirmed" : "unconfirmed");
}

void FindingDesk::KeepDeadly(const DeadlyInput& input, const std::string& log, const Case& c) {
  Finding finding;
  finding.kernel = session_.spec().text;
  finding.signature = {std::string(kEquivalence), CauseOf(input.path), "", ClassOfEnd(log)};
  finding.smallest = c;
  finding.confirmed = finding.confirmations = kTries;
  finding.verdict.kind = VerdictKind::kFail;
  finding.verdict.cause = finding.signature.cause;
  finding.verdict.cause_class = finding.signature.cause_class;
  const std::string reason = ReasonOfEnd(log);
  finding.verdict.sentence =
      fmt::format("it ends its fuzz target in {} of {} runs, though no worker: {}; run {}", kTries,
                  kTries, reason.empty() ? "no reason given" : reason, input.replay);
  // Each class is a fault of its own: no number of them is one fault in many lights.
  const bool is_known = std::ranges::any_of(findings_, [&](const ReportedFinding& known) {
    return known.finding.signature == finding.signature;
  });
  if (!is_known) Keep(finding);
}

void FindingDesk::TakeInput(const DeadlyInput& input) {
  if (HasTaken(input.path)) return;
  const std::string bytes = TailOf(input.path);
  const Case c = DecodeCase({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  for (const Property& property : AllProperties()) {
    const CaseResult result = RunCase(property, c, contract_, session_);
    if (IsInterrupted()) return;
    if (result.failures.empty()) continue;
    ConfirmFailures(property, result.failures);
    if (!IsInterrupted()) Note(input.path, "confirmed");
    return;
  }
  std::string log = input.log;
  for (int i = 0; i < kTries; ++i) {
    const auto again = input.ends_again();
    if (IsInterrupted()) return;
    if (!again) return Note(input.path, "does not recur");
    if (log.empty()) log = *again;
  }
  KeepDeadly(input, log, c);
  Note(input.path, "confirmed by its target");
}

}  // namespace attest
