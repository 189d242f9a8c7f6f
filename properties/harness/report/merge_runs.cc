#include "properties/harness/report/merge_runs.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "properties/harness/report/finding_text.h"
#include "properties/harness/runner/conclude.h"

namespace attest {
namespace {

bool IsNight(const ReadRun& run) {
  return run.report.info.plan == kNightPlan;
}

std::string NameOf(const ReadRun& run) {
  const RunInfo& info = run.report.info;
  return IsNight(run) ? run.path : fmt::format("shard {}/{}", info.shard_index, info.shard_count);
}

// What two parts of one run must have in common: the name of the first that differs, or "".
std::string Difference(const ReadRun& a, const ReadRun& b) {
  const RunInfo &one = a.report.info, &two = b.report.info;
  const auto differ = [](std::string_view what, const auto& x, const auto& y) {
    return fmt::format("{} ({} and {})", what, x, y);
  };
  if (one.plan != two.plan) return differ("plan", one.plan, two.plan);
  if (!IsNight(a)) {
    if (one.cases_per_property != two.cases_per_property) {
      return differ("cases per property", one.cases_per_property, two.cases_per_property);
    }
    if (one.seed != two.seed) return differ("seed", one.seed, two.seed);
    if (one.shard_count != two.shard_count) {
      return differ("number of shards", one.shard_count, two.shard_count);
    }
  }
  if (one.held_to != two.held_to) return differ("--contract", one.held_to, two.held_to);
  if (one.strict != two.strict) return differ("--strict", one.strict, two.strict);
  if (one.open_options != two.open_options) {
    return differ("options", one.open_options, two.open_options);
  }
  if (one.properties != two.properties) {
    const auto text = [](const std::vector<std::string>& globs) {
      return globs.empty() ? "all" : fmt::format("{}", fmt::join(globs, " "));
    };
    return differ("--property", text(one.properties), text(two.properties));
  }
  const auto &kernels = a.report.kernels, &others = b.report.kernels;
  if (kernels.size() != others.size()) {
    return differ("number of kernels", kernels.size(), others.size());
  }
  for (size_t i = 0; i < kernels.size(); ++i) {
    const KernelReport &kernel = kernels[i], &other = others[i];
    if (kernel.kernel != other.kernel) return differ("kernel", kernel.kernel, other.kernel);
    if (kernel.skipped.empty() != other.skipped.empty()) {
      return fmt::format("kernel {} (skipped in one of them)", kernel.kernel);
    }
    if (kernel.identity.version != other.identity.version) {
      return differ("version of " + kernel.kernel, kernel.identity.version, other.identity.version);
    }
    if (kernel.identity.contract_json != other.identity.contract_json) {
      return fmt::format("contract of {}", kernel.kernel);
    }
  }
  return "";
}

// Shards that were ended early may lack their last properties; what both have run must be in one order.
std::vector<std::string> PropertiesOfAll(const std::vector<ReadRun>& runs, size_t kernel) {
  std::vector<std::string> longest;
  for (const ReadRun& run : runs) {
    std::vector<std::string> ids;
    for (const PropertyResult& result : run.report.kernels[kernel].results) {
      ids.push_back(result.property);
    }
    if (ids.size() > longest.size()) longest = std::move(ids);
  }
  return longest;
}

// A note that every part has stands once; others with the part's name.
void AddNote(const std::vector<ReadRun>& runs, size_t kernel, const ReadRun& run,
             const std::string& note, std::vector<std::string>& notes) {
  const auto has = [](const std::vector<std::string>& all, const std::string& one) {
    return std::ranges::find(all, one) != all.end();
  };
  const bool is_common = runs.size() > 1 && std::ranges::all_of(runs, [&](const ReadRun& part) {
                           return has(part.report.kernels[kernel].notes, note);
                         });
  const std::string text = is_common ? note : fmt::format("{}: {}", NameOf(run), note);
  if (!has(notes, text)) notes.push_back(text);
}

void MergeKernel(const std::vector<ReadRun>& runs, size_t index, KernelReport& whole) {
  for (const std::string& property : PropertiesOfAll(runs, index)) {
    std::optional<PropertyResult> merged;
    for (const ReadRun& run : runs) {
      const PropertyResult* part = ResultOf(run.report.kernels[index], property);
      if (part == nullptr) continue;
      if (!merged) {
        merged.emplace();
        merged->kernel = part->kernel;
        merged->property = part->property;
      }
      MergeResult(*part, NameOf(run), *merged);
    }
    whole.results.push_back(std::move(*merged));
  }
  for (const ReadRun& run : runs) {
    const KernelReport& part = run.report.kernels[index];
    for (const ReportedFinding& reported : part.findings) AddFinding(reported, whole.findings);
    for (const std::string& note : part.notes) {
      AddNote(runs, index, run, note, whole.notes);
    }
    whole.stats.calls += part.stats.calls;
    whole.stats.round_trips += part.stats.round_trips;
    whole.stats.restarts += part.stats.restarts;
    whole.stats.seconds_in_worker += part.stats.seconds_in_worker;
    whole.seconds += part.seconds;
  }
  FoldFindings(whole);
  AttributeFindings(whole);
}

// Leaves out the second of two parts with one number, and names those that are missing or unfinished.
void CheckComplete(std::vector<ReadRun>& runs, MergedRuns& merged) {
  std::map<int64_t, std::string> seen;
  std::erase_if(runs, [&](const ReadRun& run) {
    if (IsNight(run)) return false;
    const auto [at, is_new] = seen.emplace(run.report.info.shard_index, run.path);
    if (is_new) return false;
    merged.amiss.push_back(
        fmt::format("{} comes twice: {} is used, {} left out", NameOf(run), at->second, run.path));
    return true;
  });
  const auto fail = [&](std::string why) {
    merged.complete = false;
    merged.amiss.push_back(std::move(why));
  };
  const int64_t count = IsNight(runs.front()) ? 0 : runs.front().report.info.shard_count;
  for (int64_t i = 0; i < count; ++i) {
    if (!seen.contains(i)) fail(fmt::format("shard {}/{} is missing", i, count));
  }
  for (const ReadRun& run : runs) {
    if (run.report.info.incomplete) {
      fail(fmt::format("{}: {} was joined from {} alone", run.path, NameOf(run),
                       run.report.info.joined));
    }
    if (!run.exit_code) fail(fmt::format("{}: {} did not come to its end", run.path, NameOf(run)));
    if (run.exit_code.value_or(0) > 2) {
      fail(fmt::format("{}: {} ended with exit status {}", run.path, NameOf(run), *run.exit_code));
    }
  }
}

// What was joined: "shards 0, 2 of 3", "2 nights".
std::string PartsOf(const std::vector<ReadRun>& runs) {
  const RunInfo& first = runs.front().report.info;
  if (runs.size() == 1 && !first.joined.empty()) return first.joined;
  if (IsNight(runs.front())) return fmt::format("{} nights", runs.size());
  std::vector<int64_t> shards;
  for (const ReadRun& run : runs) shards.push_back(run.report.info.shard_index);
  const int64_t count = first.shard_count;
  if (count == 1) return "one run";
  if (std::ssize(shards) == count) return fmt::format("all {} shards", count);
  return fmt::format("shards {} of {}", fmt::join(shards, ", "), count);
}

void KeepLargest(const ErrorFigures& seen, ErrorFigures& kept) {
  kept.probable_ratio = std::max(kept.probable_ratio, seen.probable_ratio);
  kept.rms = std::max(kept.rms, seen.rms);
  if (std::abs(seen.bias) > std::abs(kept.bias)) kept.bias = seen.bias;
  kept.plain_ratio = std::max(kept.plain_ratio, seen.plain_ratio);
}

void AddCounts(const PropertyResult& part, PropertyResult& whole) {
  if (whole.cases_to_first == 0 && part.cases_to_first > 0) {
    whole.cases_to_first = whole.cases_run() + part.cases_to_first;
    whole.first_cause = part.first_cause;
  }
  for (const auto& [kind, count] : part.cases) whole.cases[kind] += count;
  for (const auto& [why, count] : part.unsupported_reasons) whole.unsupported_reasons[why] += count;
  for (const auto& [why, count] : part.marginal_reasons) whole.marginal_reasons[why] += count;
  whole.wanted += part.wanted;
  whole.not_applicable += part.not_applicable;
  whole.via_mask += part.via_mask;
  whole.calls += part.calls;
  whole.rows += part.rows;
  whole.uninformative_rows += part.uninformative_rows;
  whole.unconstrained_rows += part.unconstrained_rows;
  whole.worst_ratio = std::max(whole.worst_ratio, part.worst_ratio);
  whole.seconds += part.seconds;
  KeepLargest(part.figures, whole.figures);
  whole.bins.Merge(part.bins);
  whole.findings.insert(whole.findings.end(), part.findings.begin(), part.findings.end());
}

}  // namespace

void MergeResult(const PropertyResult& part, const std::string& name, PropertyResult& whole) {
  // Nothing is in `whole` yet: what the parts so far have left open is in its reason.
  const bool is_first = whole.wanted == 0 && whole.reason.empty();
  const bool was_open =
      !is_first && whole.verdict == VerdictKind::kInconclusive && whole.cases_run() < whole.wanted;
  const bool is_open = part.verdict == VerdictKind::kInconclusive && part.cases_run() < part.wanted;
  const bool out_of_reach = part.verdict == VerdictKind::kUnsupported &&
                            (is_first || whole.verdict == VerdictKind::kUnsupported);
  RunFacts facts;
  if (was_open) {
    facts.cut_short = whole.reason;
  } else if (is_open) {
    facts.cut_short = fmt::format("{}: {}", name, part.reason);
  }
  if (part.verdict == VerdictKind::kInconclusive) facts.first_inconclusive = part.reason;
  for (const PropertyResult* result : {&part, static_cast<const PropertyResult*>(&whole)}) {
    // Its failures did not recur, or it had failed.
    if (result->verdict != VerdictKind::kInconclusive ||
        !result->cases.contains(VerdictKind::kFail)) {
      continue;
    }
    facts.flaky = result->reason;
    facts.flaky_failures = 1;
  }
  AddCounts(part, whole);
  if (out_of_reach) {
    whole.verdict = part.verdict;
    whole.reason = part.reason;
    return;
  }
  Conclude(facts, whole);
}

void AddFinding(ReportedFinding reported, std::vector<ReportedFinding>& findings) {
  const Finding& finding = reported.finding;
  const auto known = std::ranges::find_if(findings, [&](const ReportedFinding& other) {
    return other.finding.kernel == finding.kernel && other.finding.signature == finding.signature &&
           other.waived.empty() == reported.waived.empty();
  });
  if (known == findings.end()) {
    findings.push_back(std::move(reported));
  } else if (ShowsBetter(finding, known->finding)) {
    *known = std::move(reported);
  }
}

tl::expected<MergedRuns, std::string> MergeRuns(std::vector<ReadRun> runs) {
  if (runs.empty()) return tl::unexpected(std::string("no run to merge: name JSON-lines files"));
  for (const ReadRun& run : runs) {
    if (const std::string what = Difference(runs.front(), run); !what.empty()) {
      return tl::unexpected(fmt::format("{} and {} are not of one run: they differ in {}",
                                        runs.front().path, run.path, what));
    }
  }
  std::ranges::sort(runs, {}, [](const ReadRun& run) {
    return std::pair(run.report.info.shard_index, run.path);
  });
  MergedRuns merged;
  CheckComplete(runs, merged);
  merged.report.info = runs.front().report.info;
  merged.report.info.shard_index = 0;
  merged.report.info.shard_count = 1;
  merged.report.info.joined = PartsOf(runs);
  merged.report.info.incomplete = !merged.complete;
  for (size_t i = 0; i < runs.front().report.kernels.size(); ++i) {
    const KernelReport& first = runs.front().report.kernels[i];
    KernelReport whole;
    whole.kernel = first.kernel;
    whole.optional = first.optional;
    whole.skipped = first.skipped;
    whole.identity = first.identity;
    whole.is_model = first.is_model;
    whole.contract = first.contract;
    MergeKernel(runs, i, whole);
    merged.report.kernels.push_back(std::move(whole));
  }
  return merged;
}

}  // namespace attest
