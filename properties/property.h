// What a property is: two pure functions and one table row. Derive makes the cases whose outcomes
// the claim relates (the case itself first); Judge looks at the outcomes and gives a verdict.
// Neither ever holds a kernel, so the same code runs in the suites, in replay, in shrinking and in
// the fuzzer.
#ifndef ATTEST_PROPERTIES_PROPERTY_H_
#define ATTEST_PROPERTIES_PROPERTY_H_

#include <span>
#include <string_view>
#include <vector>

#include "impl/attention/contract.h"
#include "properties/harness/case/case.h"
#include "properties/harness/judge/evidence.h"
#include "properties/harness/judge/verdict.h"

namespace attest {

enum class Exactness { kBitwise, kBound, kExact };  // kExact: an exact answer, no bound needed

// What a kernel can be relied on for, from the ground up; a property is evidence for one of them. The
// report's head (harness/report/ladder.h) says how far up a kernel gets.
enum class Rung {
  kMemorySafe,         // no stray access, crash or hang
  kWritesEveryOutput,  // every call that the contract promises gives every output element
  kFinite,             // no NaN or infinity where a finite value is due
  kHiddenMeansHidden,  // hidden keys and values take no part
  kMaskCorrect,        // the right keys are visible, however they are named
  kWithinBound,        // the values are those of the reference
  kDeterministic,      // the same call gives the same bits
  kBatchInvariant,     // whatever shares the batch
};

// How a case is run, where the claim is about that.
struct CallSetting {
  int threads = 0;       // that the kernel is created with; 0 = as it was opened
  bool at_once = false;  // at the same time as all the other cases of this setting

  bool is_usual() const { return threads == 0 && !at_once; }
  friend bool operator==(const CallSetting&, const CallSetting&) = default;
};

// What Derive returns when a case is outside the claim: the reason is shown, never a pass.
struct Derived {
  std::vector<Case> cases;              // cases[0] is the original, perhaps adapted to the claim
  std::string not_applicable{};         // non-empty: this case says nothing about the claim
  std::vector<CallSetting> settings{};  // one a case; empty = the usual one for all
};

struct Property {
  std::string_view id;     // "causal.future_keys_do_not_matter"
  std::string_view claim;  // one sentence
  Exactness exactness;
  Rung rung;
  std::string_view needs;  // what a contract must offer, in words, for `attest list`
  // Why the contract puts the property out of reach ("no causal masking"); empty = applicable.
  std::string (*unsupported)(const Contract&);
  Derived (*derive)(const Case&, const Contract&);
  Verdict (*judge)(const Evidence&);
};

// One table a family; the registry concatenates them.
std::span<const Property> EquivalenceProperties();
std::span<const Property> RowSumsProperties();
std::span<const Property> CausalProperties();
std::span<const Property> PaddingProperties();
std::span<const Property> EmptyRowsProperties();
std::span<const Property> TilingProperties();
std::span<const Property> MasksProperties();
std::span<const Property> WindowProperties();
std::span<const Property> VisibilityFeaturesProperties();
std::span<const Property> QueryPaddingProperties();
std::span<const Property> SensitivityProperties();
std::span<const Property> SymmetryProperties();
std::span<const Property> AlgebraProperties();
std::span<const Property> HeadsProperties();
std::span<const Property> NumericsProperties();
std::span<const Property> ScoresProperties();
std::span<const Property> DropoutProperties();
std::span<const Property> GradientsProperties();
std::span<const Property> CacheProperties();
std::span<const Property> Fp8Properties();
std::span<const Property> MemoryProperties();
std::span<const Property> DeterminismProperties();

// Every property, in the order of the families above.
std::span<const Property> AllProperties();
// nullptr when the id is unknown.
const Property* FindProperty(std::string_view id);

}  // namespace attest

#endif  // ATTEST_PROPERTIES_PROPERTY_H_
