#include "properties/harness/probe/probe.h"

#include <algorithm>
#include <limits>

#include "impl/attention/contract_json.h"
#include "properties/harness/probe/experiments.h"

namespace attest::probe {
namespace {

// How far a kernel lies from a published contract: more safety or a wider definition than it promises
// is no distance, nor is what no experiment decides or no offered feature brings up.
int64_t DistanceTo(const Contract& published, Contract found) {
  found.poison_safe = found.poison_safe & published.poison_safe;
  found.bits_invariant = published.bits_invariant;
  found.concurrent_calls = published.concurrent_calls;
  found.visible_nan_propagates &= published.visible_nan_propagates;
  if (published.semantics.empty_row == EmptyRow::kUnspecified) {
    found.semantics.empty_row = EmptyRow::kUnspecified;
  }
  if (published.semantics.lse_empty_row == LseEmptyRow::kUnspecified) {
    found.semantics.lse_empty_row = LseEmptyRow::kUnspecified;
  }
  if (published.padded_query_rows == PaddedQueryRows::kUnspecified) {
    found.padded_query_rows = PaddedQueryRows::kUnspecified;
  }
  if (!found.Has(Feature::kMask)) found.mask_true_means = published.mask_true_means;
  if (!found.Has(Feature::kWindow)) {
    found.window_counts = published.window_counts;
    found.window_sides = published.window_sides;
  }
  if (!found.Has(Feature::kSoftcap))
    found.semantics.softcap_order = published.semantics.softcap_order;
  if (found.strides == Strides::kAny && published.strides == Strides::kAny) {
    found.layouts = published.layouts;  // free strides include them all
  }
  found.min_alignment = published.min_alignment;
  found.limits = published.limits;
  found.numerics = published.numerics;
  found.options = published.options;
  return CountDifferences(found, published);
}

// The published contract that `found` is nearest to; the one it was declared by where several are.
std::string NearestPublished(const Contract& found) {
  std::string nearest;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const NamedContract& named : NamedContracts()) {
    const auto published = PublishedContract(named.name);
    const int64_t distance = DistanceTo(*published, found);
    if (distance < least || (distance == least && named.name == found.name)) {
      least = distance;
      nearest = named.name;
    }
  }
  return nearest;
}

}  // namespace

bool ProbeReport::contradicts() const {
  return faulted || std::any_of(lines.begin(), lines.end(), [](const ProbeLine& line) {
           return line.agreement == Agreement::kContradicts;
         });
}

ProbeReport Probe(Lab& lab, const Contract& declared) {
  ProbeReport report;
  Notebook notes{lab, declared, report, declared, {}};
  notes.found.features.clear();
  if (FindForm(notes)) {
    for (const auto& experiment :
         {ProbeCausalCalls, ProbeSurface, ProbeMask, ProbeBias, ProbeLengths, ProbeDiagonal,
          ProbeTogether, ProbeWindow, ProbeVisibleSets, ProbeHeads, ProbeGroups, ProbeScores,
          ProbeRows, ProbeOutputs, ProbeStorage, ProbeMasking, ProbePoison, ProbeRerun}) {
      experiment(notes);
    }
    // A diagonal that no rule fits leaves nothing to be always.
    if (!notes.Works(Feature::kCausal)) notes.found.causal = CausalCalls::kOptional;
    report.proposed = std::move(notes.found);
    report.proposed.name = NearestPublished(report.proposed);
  }
  report.calls = lab.calls();
  return report;
}

}  // namespace attest::probe
