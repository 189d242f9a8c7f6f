// The head of a kernel's report: how far it can be relied on, from the ground up. Each rung (see
// properties/property.h) is shown by the properties that are evidence for it; the finding that
// breaks the first broken one is its witness. The writers of this folder print it.
#ifndef ATTEST_HARNESS_REPORT_LADDER_H_
#define ATTEST_HARNESS_REPORT_LADDER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "properties/harness/report/run_report.h"
#include "properties/property.h"

namespace attest {

enum class RungState {
  kHolds,        // each of its claims that the contract allows was run and passed, at least one
  kBreaks,       // a finding says so
  kNotPromised,  // the contract does not promise it; `why` has what was seen
  kNotOffered,   // the contract offers nothing that any of its claims is about: it is passed over
  kNotShown,     // nothing tested it, or not to the end
};

struct RungReport {
  Rung rung = Rung::kMemorySafe;
  RungState state = RungState::kNotShown;
  int64_t cases = 0;     // that passed or were marginal, over its properties
  int64_t marginal = 0;  // of them marginal
  std::string why;       // for every state but kHolds
};

struct Ladder {
  std::vector<RungReport> rungs;  // every rung, from the ground up
  size_t held = 0;  // so many from the ground up hold or are not offered, to the last that holds
  size_t not_offered = 0;         // of these
  int64_t claims = 0, run = 0;    // properties that the contract allows, and those that were run
  std::optional<size_t> witness;  // of KernelReport::findings: breaks the first broken rung
};

std::string_view Name(Rung rung);     // "memory-safe" "writes every output" ...
std::string_view Meaning(Rung rung);  // "no stray access, crash or hang" ...
std::string_view Name(
    RungState state);  // "holds" "breaks" "not promised" "not offered" "not shown"

// The rung that a finding breaks: by its cause where that is a fault, an output not written or a
// NaN where a finite value is due, whatever the property is about; else its property's own.
Rung RungBrokenBy(const Finding& finding);

// Of a kernel that was run. What was not tested never counts as held. Of a model: none, without rungs.
Ladder LadderOf(const KernelReport& kernel);

// "finite where it must be (3 of 8 rungs)"; "no rung" where the first does not hold. With the number of claims
// that were run, where those are not all.
std::string HeldText(const Ladder& ladder);

// HeldText, a line for each rung that does more or less than hold, and the witness.
std::string LadderText(const KernelReport& kernel, const Ladder& ladder);

}  // namespace attest

#endif  // ATTEST_HARNESS_REPORT_LADDER_H_
