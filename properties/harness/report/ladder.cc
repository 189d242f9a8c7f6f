#include "properties/harness/report/ladder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "properties/harness/report/finding_text.h"
#include "properties/harness/runner/conclude.h"

namespace attest {
namespace {

struct RungWords {
  std::string_view name;
  std::string_view meaning;
};

// In the order of the enum.
constexpr std::array<RungWords, 8> kRungs = {{
    {"memory-safe", "no stray access, crash or hang"},
    {"writes every output", "each promised call gives every output element"},
    {"finite where it must be", "no NaN or infinity where a finite value is due"},
    {"hidden means hidden", "hidden keys and values take no part"},
    {"mask-correct", "the right keys are visible, however they are named"},
    {"within the bound", "the values are those of the reference"},
    {"deterministic", "the same call gives the same bits"},
    {"batch-invariant", "whatever shares the batch"},
}};

int64_t Count(const PropertyResult& result, VerdictKind kind) {
  const auto found = result.cases.find(kind);
  return found == result.cases.end() ? 0 : found->second;
}

// What kernel and contract have to say about one rung.
class RungEvidence {
 public:
  RungEvidence(const KernelReport& kernel, Rung rung) : kernel_(kernel) {
    report_.rung = rung;
    for (const Property& property : AllProperties()) {
      if (property.rung == rung) Consider(property);
    }
    for (const ReportedFinding& reported : kernel.findings) {
      if (reported.finding.verdict.kind != VerdictKind::kFail) continue;
      if (RungBrokenBy(reported.finding) == rung) {
        breaking_.insert(reported.finding.signature.property);
      }
    }
  }

  RungReport Conclude() {
    if (!breaking_.empty()) {
      report_.state = RungState::kBreaks;
      report_.why = fmt::format("{}", fmt::join(breaking_, ", "));
    } else if (claims_ == 0) {
      report_.state = RungState::kNotOffered;
      report_.why = Commonest(not_offered_.empty() ? no_gradients_ : not_offered_);
    } else if (!IsPromised()) {
      report_.state = RungState::kNotPromised;
      report_.why = Seen();
    } else if (!undecided_.empty()) {
      report_.why = undecided_;
    } else if (passed_ == 0) {
      report_.why = unsupported_.empty() ? "no claim was run" : Commonest(unsupported_);
    } else if (missing_ > 0) {
      report_.why = fmt::format("{} of its {} claims not run", missing_, missing_ + passed_);
    } else {
      report_.state = RungState::kHolds;
    }
    return std::move(report_);
  }

 private:
  void Consider(const Property& property) {
    const auto result =
        std::find_if(kernel_.results.begin(), kernel_.results.end(),
                     [&](const PropertyResult& r) { return r.property == property.id; });
    const std::string unsupported = property.unsupported(kernel_.contract);
    if (unsupported.empty()) {
      ++claims_;
    } else {
      const bool is_of_gradients = property.id.starts_with("gradients.");
      ++(is_of_gradients ? no_gradients_ : not_offered_)[unsupported];
    }
    if (result == kernel_.results.end()) {
      missing_ += unsupported.empty() ? 1 : 0;
      return;
    }
    const int64_t marginal = Count(*result, VerdictKind::kMarginal);
    report_.cases += Count(*result, VerdictKind::kPass) + marginal;
    report_.marginal += marginal;
    switch (result->verdict) {
      case VerdictKind::kPass:
      case VerdictKind::kMarginal:
        ++passed_;
        break;
      case VerdictKind::kUnsupported:
        ++unsupported_[result->reason];
        break;
      case VerdictKind::kInconclusive:
        NoteUndecided(*result, result->reason);
        break;
      case VerdictKind::kFail:
        ConsiderFailed(*result);
        break;
    }
  }

  // The findings under its name may speak of another rung: a claim about masks says nothing of
  // masks where the kernel crashed.
  void ConsiderFailed(const PropertyResult& result) {
    for (const ReportedFinding& reported : kernel_.findings) {
      const Finding& finding = reported.finding;
      if (finding.signature.property != result.property ||
          finding.verdict.kind != VerdictKind::kFail) {
        continue;
      }
      return NoteUndecided(result, fmt::format("breaks \"{}\" first", Name(RungBrokenBy(finding))));
    }
    breaking_.insert(result.property);  // its finding is not among those kept
  }

  void NoteUndecided(const PropertyResult& result, const std::string& why) {
    if (undecided_.empty()) undecided_ = fmt::format("{}: {}", result.property, why);
  }

  bool IsPromised() const {
    const Contract& contract = kernel_.contract;
    if (report_.rung == Rung::kDeterministic) return contract.Promises(Invariance::kRerun);
    if (report_.rung == Rung::kBatchInvariant) return contract.Promises(Invariance::kBatch);
    return true;
  }

  std::string Seen() const {
    if (report_.cases == 0) return "not tried";
    return report_.marginal == 0
               ? fmt::format("the same bits in all {} cases", report_.cases)
               : fmt::format("other bits in {} of {} cases", report_.marginal, report_.cases);
  }

  const KernelReport& kernel_;
  RungReport report_;
  std::set<std::string> breaking_;  // properties
  std::map<std::string, int64_t> unsupported_, not_offered_;
  std::map<std::string, int64_t> no_gradients_;  // likewise, of claims about them: there are many
  std::string undecided_;
  int64_t passed_ = 0, missing_ = 0;
  int64_t claims_ = 0;  // that the contract allows
};

std::optional<size_t> FindWitness(const KernelReport& kernel, Rung rung) {
  std::optional<size_t> best;
  for (size_t i = 0; i < kernel.findings.size(); ++i) {
    const Finding& finding = kernel.findings[i].finding;
    if (finding.verdict.kind != VerdictKind::kFail || RungBrokenBy(finding) != rung) continue;
    if (!best || ShowsBetter(finding, kernel.findings[*best].finding)) best = i;
  }
  return best;
}

void CountClaims(const KernelReport& kernel, Ladder& ladder) {
  for (const Property& property : AllProperties()) {
    if (!property.unsupported(kernel.contract).empty()) continue;
    ++ladder.claims;
    ladder.run += ResultOf(kernel, std::string(property.id)) == nullptr ? 0 : 1;
  }
}

// Ids beyond the first few are in the list below the head.
std::string Shortened(const std::string& why) {
  constexpr size_t kLongest = 160;
  if (why.size() <= kLongest) return why;
  const size_t cut = why.rfind(", ", kLongest);
  return cut == std::string::npos ? why : why.substr(0, cut) + ", ...";
}

std::string RungLine(std::string_view state, const std::string& names, const std::string& why) {
  return fmt::format("{:<13} {}: {}\n", state, names, Shortened(why));
}

// A line for each rung that needs one; neighbours that are not shown for one reason share theirs.
std::string RungLines(const Ladder& ladder) {
  std::string text;
  for (size_t i = 0; i < ladder.rungs.size(); ++i) {
    const RungReport& rung = ladder.rungs[i];
    std::string names(Name(rung.rung));
    if (rung.state == RungState::kBreaks) names += fmt::format(" ({})", Meaning(rung.rung));
    if (rung.state == RungState::kHolds) {
      if (rung.marginal == 0) continue;
      text +=
          RungLine("marginal", names, fmt::format("in {} of {} cases", rung.marginal, rung.cases));
      continue;
    }
    const auto is_alike = [&](const RungReport& next) {
      const bool can_share =
          rung.state == RungState::kNotShown || rung.state == RungState::kNotOffered;
      return can_share && next.state == rung.state && next.why == rung.why;
    };
    while (i + 1 < ladder.rungs.size() && is_alike(ladder.rungs[i + 1])) {
      names += fmt::format(", {}", Name(ladder.rungs[++i].rung));
    }
    text += RungLine(Name(rung.state), names, rung.why);
  }
  return text;
}

}  // namespace

std::string_view Name(Rung rung) {
  return kRungs[static_cast<size_t>(rung)].name;
}

std::string_view Meaning(Rung rung) {
  return kRungs[static_cast<size_t>(rung)].meaning;
}

std::string_view Name(RungState state) {
  switch (state) {
    case RungState::kHolds:
      return "holds";
    case RungState::kBreaks:
      return "breaks";
    case RungState::kNotPromised:
      return "not promised";
    case RungState::kNotOffered:
      return "not offered";
    case RungState::kNotShown:
      return "not shown";
  }
  return "?";
}

Rung RungBrokenBy(const Finding& finding) {
  const Property* property = FindProperty(finding.signature.property);
  // A claim of another version of the program: no more than that a value is wrong is known.
  const Rung own = property == nullptr ? Rung::kWithinBound : property->rung;
  switch (finding.signature.cause) {
    case Cause::kNan:
    case Cause::kInf: {
      const auto& witness = finding.verdict.witness;
      return !witness || std::isfinite(witness->expected) ? Rung::kFinite : own;
    }
    case Cause::kNone:
    case Cause::kValue:
      return own;
    case Cause::kRefused:
    case Cause::kUnwritten:
      return Rung::kWritesEveryOutput;
    case Cause::kInputChanged:
    case Cause::kReadFault:
    case Cause::kWriteFault:
    case Cause::kStrayWrite:
    case Cause::kCrash:
    case Cause::kExit:
    case Cause::kHang:
    case Cause::kMemoryLimit:
    case Cause::kFloatEnvironment:
    case Cause::kProtocol:
    case Cause::kLeftProcess:
    case Cause::kLateWrite:
    case Cause::kLeak:
      return Rung::kMemorySafe;
  }
  return own;
}

Ladder LadderOf(const KernelReport& kernel) {
  Ladder ladder;
  if (kernel.is_model) return ladder;
  for (size_t i = 0; i < kRungs.size(); ++i) {
    ladder.rungs.push_back(RungEvidence(kernel, static_cast<Rung>(i)).Conclude());
  }
  const auto breaks = [](const RungReport& rung) { return rung.state == RungState::kBreaks; };
  size_t passed_over = 0;
  for (size_t i = 0; i < ladder.rungs.size(); ++i) {
    const RungState state = ladder.rungs[i].state;
    if (state != RungState::kHolds && state != RungState::kNotOffered) break;
    passed_over += state == RungState::kNotOffered ? 1 : 0;
    if (state != RungState::kHolds) continue;
    ladder.held = i + 1;
    ladder.not_offered = passed_over;
  }
  CountClaims(kernel, ladder);
  const auto broken = std::find_if(ladder.rungs.begin(), ladder.rungs.end(), breaks);
  if (broken != ladder.rungs.end()) ladder.witness = FindWitness(kernel, broken->rung);
  return ladder;
}

std::string HeldText(const Ladder& ladder) {
  if (ladder.rungs.empty()) return "no ladder: it is a model";
  std::string text = "no rung";
  if (ladder.held > 0) {
    text = fmt::format(
        "{} ({} of {} rungs{})", Name(ladder.rungs[ladder.held - 1].rung),
        ladder.held - ladder.not_offered, ladder.rungs.size(),
        ladder.not_offered == 0 ? "" : fmt::format(", {} not offered", ladder.not_offered));
  }
  if (ladder.run == ladder.claims) return text;
  return fmt::format("{}; only {} of {} claims were run", text, ladder.run, ladder.claims);
}

std::string LadderText(const KernelReport& kernel, const Ladder& ladder) {
  std::string text =
      fmt::format("holds {}{}\n", ladder.held == 0 ? "" : "up to ", HeldText(ladder));
  text += RungLines(ladder);
  if (!ladder.witness) return text;
  const ReportedFinding& witness = kernel.findings[*ladder.witness];
  return text + fmt::format("first broken by {}: {}\n  replay: {}\n",
                            ToString(witness.finding.signature), witness.finding.verdict.sentence,
                            witness.command);
}

}  // namespace attest
