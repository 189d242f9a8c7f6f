// The flags of the small-scope sweep beside those it runs through one by one: element type, form of
// the mask, bias, softcap, sinks, ALiBi, prefix, documents, block mask, query lengths, dropout,
// hidden NaN, outputs, layout, storage. A FlagRow picks one level of each.
#ifndef ATTEST_EXHAUSTIVE_FLAGS_H_
#define ATTEST_EXHAUSTIVE_FLAGS_H_

#include <string>
#include <string_view>
#include <vector>

#include "properties/harness/case/case.h"

namespace attest {

// One setting of one flag: how it changes a case that has its sizes, options and mask, and, of the
// factors, the levels of those before it in FlagFactors().
struct FlagLevel {
  std::string_view name;  // "softcap 2"; empty where the level changes nothing
  void (*apply)(Case& c);
};
using FlagFactor = std::vector<FlagLevel>;

// Every flag with its levels, in the order in which they apply.
const std::vector<FlagFactor>& FlagFactors();

// A level for each factor.
using FlagRow = std::vector<int>;

// A covering array of pairs of all but packed storage.
const std::vector<FlagRow>& FlagRows();

// Another over the flags that packed sequences can have, each row with packed storage.
const std::vector<FlagRow>& PackedFlagRows();

// Applies the row to a case. Then fills in its data as literals: distinct numbers of three
// significant bits, exact in every element type, so that each wrong set of keys shows; NaN where
// the row asks for it and no row of the problem looks.
void ApplyFlags(const FlagRow& row, Case& c);

// The names of the row's levels: "f16, mask per head, softcap 2".
std::string Describe(const FlagRow& row);

}  // namespace attest

#endif  // ATTEST_EXHAUSTIVE_FLAGS_H_
